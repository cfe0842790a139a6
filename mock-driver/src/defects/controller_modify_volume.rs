//! ControllerModifyVolume.

use csi_proto::v1::{ControllerModifyVolumeRequest, ControllerModifyVolumeResponse};
use tonic::{Code, Status};

use super::{drop_unknown, forgive, volume_not_found};
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;

pub(crate) async fn controller_modify_volume(
    driver: &MockDriver,
    asked: &ControllerModifyVolumeRequest,
) -> Result<ControllerModifyVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::ControllerModifyEmptyIdAsNotFound) && asked.volume_id.is_empty() {
        return Err(volume_not_found(""));
    }
    reject(driver, asked)?;
    let mut request = asked.clone();
    if has(Defect::ControllerModifyAcceptsUnknownKeys) {
        drop_unknown(&mut request.mutable_parameters, &driver.config.mutable_parameters);
    }
    let nothing_left = request.mutable_parameters.is_empty() && !asked.mutable_parameters.is_empty();
    let nothing_given = asked.mutable_parameters.is_empty();
    if nothing_left || (nothing_given && has(Defect::ControllerModifyAcceptsMissingParameters)) {
        return Ok(ControllerModifyVolumeResponse {});
    }
    let mut answer = controller::controller_modify_volume(driver, &request).await;
    if has(Defect::ControllerModifyUnknownOk) {
        forgive(&mut answer, Code::NotFound);
    }
    answer
}

fn reject(driver: &MockDriver, asked: &ControllerModifyVolumeRequest) -> Result<(), Status> {
    let state = driver.state();
    let Some(volume) = state.volumes.get(&asked.volume_id) else { return Ok(()) };
    let wanted = &asked.mutable_parameters;
    let changes = wanted.iter().any(|(key, value)| volume.mutable_parameters.get(key) != Some(value));
    if driver.has(Defect::ControllerModifyRefusesRepeats) && !changes && !wanted.is_empty() {
        return Err(Status::failed_precondition("nothing would change"));
    }
    let known = wanted.keys().all(|key| driver.config.mutable_parameters.contains(key));
    if driver.has(Defect::ControllerModifyRefusesUpdates) && changes && known && volume.modifications > 0 {
        return Err(Status::already_exists("the volume has been modified"));
    }
    Ok(())
}
