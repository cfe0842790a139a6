//! ControllerGetVolume.

use csi_proto::v1;
use csi_proto::v1::controller_get_volume_response::VolumeStatus;
use tonic::Status;

use super::volume_message::{condition, published_node_ids, volume_message};
use crate::driver::MockDriver;

pub(crate) async fn controller_get_volume(
    driver: &MockDriver,
    request: &v1::ControllerGetVolumeRequest,
) -> Result<v1::ControllerGetVolumeResponse, Status> {
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    let state = driver.state();
    let volume = state.volumes.get(&request.volume_id);
    let volume =
        volume.ok_or_else(|| Status::not_found(format!("volume {} does not exist", request.volume_id)))?;
    Ok(v1::ControllerGetVolumeResponse {
        volume: Some(volume_message(driver, volume)),
        status: Some(VolumeStatus {
            published_node_ids: published_node_ids(driver, volume),
            volume_condition: condition(driver, volume),
        }),
    })
}
