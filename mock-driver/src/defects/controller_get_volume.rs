//! ControllerGetVolume.

use csi_proto::v1::{ControllerGetVolumeRequest, ControllerGetVolumeResponse};
use tonic::{Code, Status};

use super::volume::{corrupt_condition, corrupt_volume};
use super::{forgive, volume_not_found};
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;

pub(crate) async fn controller_get_volume(
    driver: &MockDriver,
    request: &ControllerGetVolumeRequest,
) -> Result<ControllerGetVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::ControllerGetVolumeEmptyIdAsNotFound) && request.volume_id.is_empty() {
        return Err(volume_not_found(""));
    }
    let mut answer = controller::controller_get_volume(driver, request).await;
    if has(Defect::ControllerGetVolumeUnknownOk) {
        forgive(&mut answer, Code::NotFound);
    }
    let mut response = answer?;
    if let Some(volume) = &mut response.volume {
        corrupt_volume(driver, volume);
        if has(Defect::ControllerGetVolumeOtherId) {
            volume.volume_id.push_str("-0");
        }
        if has(Defect::ControllerGetVolumeDropsContext) {
            volume.volume_context.clear();
        }
        if has(Defect::ControllerGetVolumeStaleCapacity) {
            volume.capacity_bytes /= 2;
        }
    }
    if let Some(status) = &mut response.status {
        corrupt_condition(driver, status.volume_condition.as_mut());
        if has(Defect::ControllerGetVolumeOmitsPublishedNodes) {
            status.published_node_ids.clear();
        }
        if has(Defect::ControllerGetVolumeOmitsCondition) {
            status.volume_condition = None;
        }
    }
    if has(Defect::ControllerGetVolumeWithoutVolume) {
        response.volume = None;
    }
    if has(Defect::ControllerGetVolumeOmitsStatus) {
        response.status = None;
    }
    Ok(response)
}
