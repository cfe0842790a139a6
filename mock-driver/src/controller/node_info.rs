//! ControllerGetNodeInfo.

use csi_proto::v1;
use tonic::Status;

use crate::driver::MockDriver;
use crate::node;
use crate::validate;

pub(crate) async fn controller_get_node_info(
    driver: &MockDriver,
    request: &v1::ControllerGetNodeInfoRequest,
) -> Result<v1::ControllerGetNodeInfoResponse, Status> {
    let id = &request.node_id;
    validate::required("node_id", id)?;
    let node = driver.node(id).ok_or_else(|| Status::not_found(format!("node {id} does not exist")))?;
    let v1::NodeGetInfoResponse { max_volumes_per_node, accessible_topology, .. } = node::info(driver, node);
    let state = driver.state();
    let published_volume_ids = state.attached_to(id).map(|volume| volume.id.clone()).collect();
    Ok(v1::ControllerGetNodeInfoResponse { accessible_topology, max_volumes_per_node, published_volume_ids })
}
