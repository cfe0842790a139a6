//! ControllerModifyVolume.

use std::collections::BTreeMap;

use csi_proto::v1::{ControllerModifyVolumeRequest, ControllerModifyVolumeResponse};

use crate::driver::{Driver, checked_map, required};
use crate::error::{DriverError, Result, Shown};
use crate::store::Change;

/// The accepted name that stands for every key.
const ANY_NAME: &str = "*";
/// The parameters that cannot change after the volume is created.
const FIXED_PARAMETERS: [&str; 2] = ["backend", "kind"];

pub(crate) fn controller_modify_volume(
    driver: &Driver,
    request: &ControllerModifyVolumeRequest,
) -> Result<ControllerModifyVolumeResponse> {
    driver.require(driver.config.modify, "modifying volumes")?;
    required("volume_id", &request.volume_id)?;
    if request.mutable_parameters.is_empty() {
        return Err(DriverError::Missing { field: "mutable_parameters" });
    }
    check_parameters(driver, &request.mutable_parameters)?;
    let (mut volume, _guard) = driver.volume_exclusive(&request.volume_id)?;
    if let Some(key) = FIXED_PARAMETERS.into_iter().find(|key| request.mutable_parameters.contains_key(*key))
    {
        return Err(DriverError::invalid("mutable_parameters", format!("{key} cannot be changed any more")));
    }
    let before = volume.mutable_parameters.clone();
    volume.mutable_parameters.extend(request.mutable_parameters.clone());
    checked_map("mutable_parameters", &volume.mutable_parameters)?;
    if volume.mutable_parameters != before {
        driver.store.commit(vec![Change::PutVolume(volume)])?;
    }
    Ok(ControllerModifyVolumeResponse {})
}

/// Checks that mutable parameters have accepted names (CTRL-MODIFYVOL-009).
pub(super) fn check_parameters(driver: &Driver, parameters: &BTreeMap<String, String>) -> Result<()> {
    const FIELD: &str = "mutable_parameters";
    if parameters.is_empty() {
        return Ok(());
    }
    if !driver.config.modify {
        return Err(DriverError::invalid(FIELD, "modifying volumes is switched off"));
    }
    checked_map(FIELD, parameters)?;
    let accepted = &driver.config.accepted_mutable_parameters;
    match parameters.keys().find(|key| !accepted.contains(*key)) {
        Some(key) if !accepted.contains(ANY_NAME) => {
            let reason = format!("{} is not among --accepted-mutable-parameter-names", Shown(key));
            Err(DriverError::invalid(FIELD, reason))
        }
        _ => Ok(()),
    }
}
