//! ControllerGetVolumeHealth.

use csi_proto::health::Side;
use csi_proto::v1;
use tonic::Status;

use crate::driver::MockDriver;
use crate::health;

pub(crate) async fn controller_get_volume_health(
    driver: &MockDriver,
    request: &v1::ControllerGetVolumeHealthRequest,
) -> Result<v1::ControllerGetVolumeHealthResponse, Status> {
    let id = &request.volume_id;
    driver.check_id_format("volume_id", id, "vol")?;
    let state = driver.state();
    let volume = state.volumes.get(id);
    let volume = volume.ok_or_else(|| Status::not_found(format!("volume {id} does not exist")))?;
    let volume_health = health::of_volume(driver, volume, Side::Controller)?;
    Ok(v1::ControllerGetVolumeHealthResponse { volume_health: Some(volume_health) })
}
