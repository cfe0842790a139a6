//! NodeGetCapabilities and NodeGetInfo.

use csi_proto::v1;
use csi_proto::v1::node_service_capability::rpc::Type as NodeType;
use tonic::Status;

use crate::capability::node_capability;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::identity::FUTURE_TYPE;
use crate::quirk::Quirk;

pub(crate) async fn node_get_capabilities(
    driver: &MockDriver,
    _: &v1::NodeGetCapabilitiesRequest,
) -> Result<v1::NodeGetCapabilitiesResponse, Status> {
    let mut capabilities = driver.capabilities.node();
    if driver.is(Quirk::FutureCapability) {
        capabilities.push(node_capability(FUTURE_TYPE));
    }
    if driver.has(Defect::ExpandVolumeNotAdvertised) {
        let hidden = node_capability(NodeType::ExpandVolume as i32);
        capabilities.retain(|capability| *capability != hidden);
    }
    if driver.has(Defect::NodeGetCapabilitiesUnknownType) {
        capabilities.push(node_capability(NodeType::Unknown as i32));
    }
    if driver.has(Defect::NodeGetCapabilitiesEmptyEntry) {
        capabilities.push(v1::NodeServiceCapability::default());
    }
    if driver.has(Defect::NodeGetCapabilitiesChanges) && driver.another_number() % 2 == 1 {
        capabilities.truncate(1);
    }
    Ok(v1::NodeGetCapabilitiesResponse { capabilities })
}

pub(crate) async fn node_get_info(
    driver: &MockDriver,
    _: &v1::NodeGetInfoRequest,
) -> Result<v1::NodeGetInfoResponse, Status> {
    if driver.has(Defect::NodeGetInfoFails) {
        return Err(Status::internal("the metadata server does not answer"));
    }
    let node = driver.this_node();
    let mut response = v1::NodeGetInfoResponse {
        node_id: node.id.clone(),
        max_volumes_per_node: i64::from(driver.config.max_volumes_per_node),
        accessible_topology: (driver.has_topology() && !driver.is(Quirk::NodeTopologyLeftOut))
            .then(|| v1::Topology { segments: node.topology.clone() }),
    };
    if driver.has(Defect::NodeGetInfoIdEmpty) {
        response.node_id.clear();
    }
    if driver.has(Defect::NodeGetInfoIdTooLong) {
        response.node_id = "n".repeat(257);
    }
    if driver.has(Defect::NodeGetInfoIdLong) {
        response.node_id = "n".repeat(200);
    }
    if driver.has(Defect::NodeGetInfoIdChanges) {
        response.node_id.push_str(&driver.another_number().to_string());
    }
    if driver.has(Defect::NodeGetInfoLimitNegative) {
        response.max_volumes_per_node = -1;
    }
    if driver.has(Defect::NodeGetInfoOmitsTopology) {
        response.accessible_topology = None;
    }
    if driver.has(Defect::NodeGetInfoTopologyWithoutCapability) && response.accessible_topology.is_none() {
        response.accessible_topology = Some(v1::Topology { segments: node.topology.clone() });
    }
    if let Some(topology) = &mut response.accessible_topology {
        if driver.has(Defect::NodeGetInfoTopologyValueEmpty) {
            topology.segments.values_mut().for_each(String::clear);
        }
        if driver.has(Defect::NodeGetInfoTopologyKeyInvalid) {
            topology.segments.insert("-zone-".to_owned(), "zone-a".to_owned());
        }
        if driver.has(Defect::NodeGetInfoTopologyValueInvalid) {
            topology.segments.values_mut().for_each(|value| *value = format!("{value} (first floor)"));
        }
        if driver.has(Defect::NodeGetInfoTopologyKeyTooLong) {
            let prefix = driver.config.driver_name.clone();
            topology.segments.insert(format!("{prefix}/{}", "z".repeat(64)), "zone-a".to_owned());
        }
    }
    Ok(response)
}
