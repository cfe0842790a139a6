//! NodeExpandVolume.

use csi_proto::v1;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use tonic::Status;

use super::{meant, not_found, target};
use crate::controller::rounded;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::Volume;
use crate::validate::{self, Range, invalid};

pub(crate) async fn node_expand_volume(
    driver: &MockDriver,
    request: &v1::NodeExpandVolumeRequest,
) -> Result<v1::NodeExpandVolumeResponse, Status> {
    if !(request.volume_id.is_empty() && driver.has(Defect::NodeExpandEmptyIdAsNotFound)) {
        driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    }
    if !(request.volume_path.is_empty() && driver.has(Defect::NodeExpandMissingPathAsNotFound)) {
        validate::required("volume_path", &request.volume_path)?;
    }
    if driver.has(Defect::NodeExpandDemandsStagingPath) && request.staging_target_path.is_empty() {
        return Err(invalid("staging_target_path is missing"));
    }
    for path in [&request.volume_path, &request.staging_target_path] {
        let limits = [Defect::NodeExpandRefusesPathsOf128Bytes, Defect::NodeExpandRefusesLongPaths];
        target::length(driver, path, limits)?;
    }
    let range = validate::range(request.capacity_range.as_ref())?;
    let mut state = driver.state();
    let Some(volume) = meant(driver, &state, &request.volume_id, &request.volume_path) else {
        if driver.has(Defect::NodeExpandUnknownOk) {
            return Ok(v1::NodeExpandVolumeResponse::default());
        }
        return Err(not_found(&request.volume_id));
    };
    check_path(driver, volume, &request.volume_path)?;
    if let Some(capability) = &request.volume_capability
        && !driver.has(Defect::NodeExpandIgnoresCapability)
    {
        let usage = validate::usage(capability)?;
        driver.supports(&usage).map_err(invalid)?;
        if !volume.covers(&usage) {
            return Err(invalid("the volume was not made for this volume_capability"));
        }
    }
    let grown = grown(driver, volume, range)?;
    let capacity_bytes = match driver.has(Defect::NodeExpandAnswersWrongSize) {
        true => grown / 2,
        false if driver.is(Quirk::NodeExpandUnknownSize) => 0,
        false => grown,
    };
    let id = volume.id.clone();
    state.resize_volume(&id, grown);
    Ok(v1::NodeExpandVolumeResponse { capacity_bytes })
}

/// The volume has to be staged or published at the path.
fn check_path(driver: &MockDriver, volume: &Volume, path: &str) -> Result<(), Status> {
    let here = volume.on(driver.this_node());
    if driver.has(Defect::NodeExpandRefusesStagingPath) && here.staged.contains_key(path) {
        return Err(Status::internal("resize: not a file system"));
    }
    if here.has(path) || driver.has(Defect::NodeExpandIgnoresPath) {
        return Ok(());
    }
    Err(Status::not_found(format!("volume {} is not at volume_path", volume.id)))
}

/// The size after the expansion. The controller comes first where it can; else the node grows the volume alone.
fn grown(driver: &MockDriver, volume: &Volume, range: Range) -> Result<i64, Status> {
    let present = volume.capacity_bytes;
    if range.contains(present) {
        if driver.has(Defect::NodeExpandRefusesRepeats) {
            return Err(Status::internal("resize: nothing to do"));
        }
        return Ok(present);
    }
    if range.limit_bytes < present {
        return Err(Status::out_of_range(format!("the volume has {present} bytes, more than limit_bytes")));
    }
    let max = driver.config.volume_size_bytes_max;
    // A caller who is told of no Controller service cannot go there first.
    let grows_alone =
        !driver.controller_can(ControllerType::ExpandVolume) || driver.is(Quirk::NoPluginCapabilities);
    let possible = if grows_alone { max } else { present };
    if range.required_bytes > possible && !driver.has(Defect::NodeExpandAcceptsAnySize) {
        let message = format!("the volume can have {possible} bytes at most");
        return Err(match driver.has(Defect::NodeExpandOutOfRangeAsInternal) {
            true => Status::internal(message),
            false => Status::out_of_range(message),
        });
    }
    Ok(rounded(driver, range.required_bytes))
}
