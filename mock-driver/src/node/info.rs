//! NodeGetCapabilities and NodeGetInfo.

use csi_proto::v1;
use tonic::Status;

use crate::capability::node_capability;
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
    Ok(v1::NodeGetCapabilitiesResponse { capabilities })
}

pub(crate) async fn node_get_info(
    driver: &MockDriver,
    _: &v1::NodeGetInfoRequest,
) -> Result<v1::NodeGetInfoResponse, Status> {
    let node = driver.this_node();
    let has_topology = driver.has_topology() && !driver.is(Quirk::NodeTopologyLeftOut);
    Ok(v1::NodeGetInfoResponse {
        node_id: node.id.clone(),
        max_volumes_per_node: i64::from(driver.config.max_volumes_per_node),
        accessible_topology: has_topology.then(|| v1::Topology { segments: node.topology.clone() }),
    })
}
