//! NodeGetInfo.

use std::sync::atomic::Ordering;

use csi_proto::v1::{NodeGetInfoRequest, NodeGetInfoResponse, Topology};
use tonic::Status;

use super::{Change, apply};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::node;

pub(crate) async fn node_get_info(
    driver: &MockDriver,
    request: &NodeGetInfoRequest,
) -> Result<NodeGetInfoResponse, Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::NodeGetInfoFails) {
        return Err(Status::internal("the metadata server does not answer"));
    }
    let mut response = node::node_get_info(driver, request).await?;
    let NodeGetInfoResponse { node_id, max_volumes_per_node, accessible_topology } = &mut response;
    let is_restarted = driver.starts.load(Ordering::Relaxed) > 1;
    if is_restarted && has(Defect::RestartChangesNodeId) {
        node_id.push_str("-restarted");
    }
    if is_restarted && has(Defect::RestartForgetsNodeTopology) {
        *accessible_topology = None;
    }
    let changes: &[Change<String>] = &[
        (Defect::NodeGetInfoIdEmpty, |node_id| node_id.clear()),
        (Defect::NodeGetInfoIdTooLong, |node_id| *node_id = "n".repeat(257)),
        (Defect::NodeGetInfoIdLong, |node_id| *node_id = "n".repeat(200)),
    ];
    apply(driver, node_id, changes);
    if has(Defect::NodeGetInfoIdChanges) {
        node_id.push_str(&driver.next_number().to_string());
    }
    if has(Defect::NodeGetInfoIdDiffersWithFlag) && request.controller_get_node_info {
        node_id.push_str("-from-metadata");
    }
    if has(Defect::NodeGetInfoLimitNegative) {
        *max_volumes_per_node = -1;
    }
    if has(Defect::ControllerPublishHiddenLimit) {
        *max_volumes_per_node = 0;
    }
    if has(Defect::NodeGetInfoOmitsTopology) {
        *accessible_topology = None;
    }
    if let Some(topology) = accessible_topology {
        corrupt_topology(driver, topology);
    }
    Ok(response)
}

fn corrupt_topology(driver: &MockDriver, Topology { segments }: &mut Topology) {
    let has = |defect| driver.has(defect);
    if has(Defect::NodeGetInfoTopologyValueEmpty) {
        segments.values_mut().for_each(String::clear);
    }
    if has(Defect::NodeGetInfoTopologyKeyInvalid) {
        segments.insert("-zone-".to_owned(), "zone-a".to_owned());
    }
    if has(Defect::NodeGetInfoTopologyValueInvalid) {
        segments.values_mut().for_each(|value| value.push_str(" (first floor)"));
    }
    if has(Defect::NodeGetInfoTopologyKeyTooLong) {
        let prefix = &driver.config.driver_name;
        segments.insert(format!("{prefix}/{}", "z".repeat(64)), "zone-a".to_owned());
    }
}
