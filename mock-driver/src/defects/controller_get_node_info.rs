//! ControllerGetNodeInfo.

use csi_proto::v1::{ControllerGetNodeInfoRequest, ControllerGetNodeInfoResponse, Topology};
use tonic::Status;

use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;

pub(crate) async fn controller_get_node_info(
    driver: &MockDriver,
    request: &ControllerGetNodeInfoRequest,
) -> Result<ControllerGetNodeInfoResponse, Status> {
    let has = |defect| driver.has(defect);
    let is_known = driver.node(&request.node_id).is_some();
    if has(Defect::ControllerGetNodeInfoUnknownNodeOk) && !is_known && !request.node_id.is_empty() {
        return Ok(ControllerGetNodeInfoResponse::default());
    }
    let mut response = controller::controller_get_node_info(driver, request).await?;
    let ControllerGetNodeInfoResponse { accessible_topology, max_volumes_per_node, published_volume_ids } =
        &mut response;
    if has(Defect::ControllerGetNodeInfoLimitNegative) {
        *max_volumes_per_node = -1;
    }
    if has(Defect::ControllerGetNodeInfoKeepsUnpublished) {
        let state = driver.state();
        *published_volume_ids = state.volumes.values().map(|volume| volume.id.clone()).collect();
    }
    if let Some(Topology { segments }) = accessible_topology {
        if has(Defect::ControllerGetNodeInfoOtherKeys) {
            *segments = std::mem::take(segments)
                .into_iter()
                .map(|(key, value)| (format!("{key}-of-controller"), value))
                .collect();
        }
        if has(Defect::ControllerGetNodeInfoChanges) {
            let number = driver.next_number();
            segments.values_mut().for_each(|value| value.push_str(&format!("-{number}")));
        }
    }
    Ok(response)
}
