//! ControllerModifyVolume.

use csi_proto::v1;
use tonic::Status;

use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::Volume;
use crate::validate::{self, invalid};

pub(crate) async fn controller_modify_volume(
    driver: &MockDriver,
    request: &v1::ControllerModifyVolumeRequest,
) -> Result<v1::ControllerModifyVolumeResponse, Status> {
    if !(request.volume_id.is_empty() && driver.has(Defect::ControllerModifyEmptyIdAsNotFound)) {
        driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    }
    let wanted = &request.mutable_parameters;
    if wanted.is_empty() && !driver.has(Defect::ControllerModifyAcceptsMissingParameters) {
        return Err(invalid("mutable_parameters is missing"));
    }
    validate::map("mutable_parameters", wanted)?;
    let mut state = driver.state();
    let Some(volume) = state.volumes.get_mut(&request.volume_id) else {
        if driver.has(Defect::ControllerModifyUnknownOk) {
            return Ok(v1::ControllerModifyVolumeResponse {});
        }
        return Err(Status::not_found(format!("volume {} does not exist", request.volume_id)));
    };
    if driver.has(Defect::ControllerModifyAppliesBeforeChecking) {
        apply(volume, request);
    }
    if !driver.has(Defect::ControllerModifyAcceptsUnknownKeys) {
        let known = &driver.config.mutable_parameters;
        let checked = validate::known_parameters("mutable_parameters", wanted, known);
        if checked.is_err() && driver.has(Defect::ControllerModifyChangesRefusedVolume) {
            volume.context.extend(wanted.clone());
        }
        checked?;
    }
    let changes = wanted.iter().any(|(key, value)| volume.mutable_parameters.get(key) != Some(value));
    if !changes && driver.has(Defect::ControllerModifyRefusesRepeats) {
        return Err(Status::failed_precondition("nothing would change"));
    }
    if changes && driver.is(Quirk::ModificationsLimited) && volume.modifications > 0 {
        return Err(Status::resource_exhausted("the volume was modified not long ago"));
    }
    if changes && volume.modifications > 0 && driver.has(Defect::ControllerModifyRefusesUpdates) {
        return Err(Status::already_exists("the volume has been modified"));
    }
    if changes && !driver.has(Defect::ControllerModifyChangesNothing) {
        volume.modifications = volume.modifications.saturating_add(1);
        apply(volume, request);
    }
    if driver.has(Defect::ControllerModifyChangesContext) {
        volume.context.extend(wanted.clone());
    }
    Ok(v1::ControllerModifyVolumeResponse {})
}

/// Keys that are not given keep their values.
fn apply(volume: &mut Volume, request: &v1::ControllerModifyVolumeRequest) {
    volume.mutable_parameters.extend(request.mutable_parameters.clone());
}
