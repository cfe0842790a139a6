//! ControllerGetVolume.

use csi_proto::v1;
use csi_proto::v1::controller_get_volume_response::VolumeStatus;
use tonic::Status;

use super::volume_message::{condition, published_node_ids, volume_message};
use crate::defect::Defect;
use crate::driver::MockDriver;

pub(crate) async fn controller_get_volume(
    driver: &MockDriver,
    request: &v1::ControllerGetVolumeRequest,
) -> Result<v1::ControllerGetVolumeResponse, Status> {
    if !(request.volume_id.is_empty() && driver.has(Defect::ControllerGetVolumeEmptyIdAsNotFound)) {
        driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    }
    let state = driver.state();
    let Some(volume) = state.volumes.get(&request.volume_id) else {
        if driver.has(Defect::ControllerGetVolumeUnknownOk) {
            return Ok(v1::ControllerGetVolumeResponse::default());
        }
        return Err(Status::not_found(format!("volume {} does not exist", request.volume_id)));
    };
    let mut message = volume_message(driver, volume);
    if driver.has(Defect::ControllerGetVolumeOtherId) {
        message.volume_id.push_str("-0");
    }
    if driver.has(Defect::ControllerGetVolumeDropsContext) {
        message.volume_context.clear();
    }
    if driver.has(Defect::ControllerGetVolumeStaleCapacity) {
        message.capacity_bytes /= 2;
    }
    let mut status = VolumeStatus {
        published_node_ids: published_node_ids(driver, volume),
        volume_condition: condition(driver, volume),
    };
    if driver.has(Defect::ControllerGetVolumeOmitsPublishedNodes) {
        status.published_node_ids.clear();
    }
    if driver.has(Defect::ControllerGetVolumeOmitsCondition) {
        status.volume_condition = None;
    }
    let without_volume = driver.has(Defect::ControllerGetVolumeWithoutVolume);
    let without_status = driver.has(Defect::ControllerGetVolumeOmitsStatus);
    Ok(v1::ControllerGetVolumeResponse {
        volume: (!without_volume).then_some(message),
        status: (!without_status).then_some(status),
    })
}
