//! ControllerModifyVolume.

use csi_proto::v1;
use tonic::Status;

use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::validate::{self, invalid};

pub(crate) async fn controller_modify_volume(
    driver: &MockDriver,
    request: &v1::ControllerModifyVolumeRequest,
) -> Result<v1::ControllerModifyVolumeResponse, Status> {
    let wanted = &request.mutable_parameters;
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    if wanted.is_empty() {
        return Err(invalid("mutable_parameters is missing"));
    }
    validate::map("mutable_parameters", wanted)?;
    let modified = driver.change(request, |state| {
        let volume = state.volumes.get_mut(&request.volume_id);
        let volume = volume
            .ok_or_else(|| Status::not_found(format!("volume {} does not exist", request.volume_id)))?;
        if driver.has(Defect::ControllerModifyAppliesBeforeChecking) {
            volume.mutable_parameters.extend(wanted.clone());
        }
        let known =
            validate::known_parameters("mutable_parameters", wanted, &driver.config.mutable_parameters);
        if known.is_err() && driver.has(Defect::ControllerModifyChangesRefusedVolume) {
            volume.context.extend(wanted.clone());
        }
        known?;
        let changes = wanted.iter().any(|(key, value)| volume.mutable_parameters.get(key) != Some(value));
        if changes && driver.is(Quirk::ModificationsLimited) && volume.modifications > 0 {
            return Err(Status::resource_exhausted("the volume was modified not long ago"));
        }
        if changes && !driver.has(Defect::ControllerModifyChangesNothing) {
            volume.modifications = volume.modifications.saturating_add(1);
            if driver.has(Defect::ControllerModifyForgetsOtherKeys) {
                volume.mutable_parameters.clear();
            }
            // Keys that are missing in the request keep their values.
            volume.mutable_parameters.extend(wanted.clone());
        }
        if driver.has(Defect::ControllerModifyChangesContext) {
            volume.context.extend(wanted.clone());
        }
        Ok(())
    });
    modified.await?;
    Ok(v1::ControllerModifyVolumeResponse {})
}
