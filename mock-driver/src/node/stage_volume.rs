//! NodeStageVolume. Staging is bookkeeping: nothing has to be mounted at the staging path.

use csi_proto::v1;
use tonic::Status;

use super::{check_contexts, check_maps, check_usage, not_found, target};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::state::{Usage, Volume};
use crate::validate;

pub(crate) async fn node_stage_volume(
    driver: &MockDriver,
    request: &v1::NodeStageVolumeRequest,
) -> Result<v1::NodeStageVolumeResponse, Status> {
    let done = Ok(v1::NodeStageVolumeResponse {});
    if !(request.volume_id.is_empty() && driver.has(Defect::NodeStageEmptyIdAsNotFound)) {
        driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    }
    if request.staging_target_path.is_empty() && driver.has(Defect::NodeStageAcceptsMissingPath) {
        return done;
    }
    let path = target::path("staging_target_path", &request.staging_target_path)?;
    target::length(
        driver,
        path,
        [Defect::NodeStageRefusesPathsOf128Bytes, Defect::NodeStageRefusesLongPaths],
    )?;
    if request.volume_capability.is_none() && driver.has(Defect::NodeStageAcceptsMissingCapability) {
        return done;
    }
    if driver.has(Defect::NodeStagePanicsWithoutCapability) {
        request.volume_capability.as_ref().expect("volume_capability is always there");
    }
    if driver.has(Defect::NodeStageAcceptsIncompleteCapability)
        && let Some(capability) = &request.volume_capability
        && validate::usage(capability).is_err()
    {
        return done;
    }
    let usage = validate::required_usage(request.volume_capability.as_ref())?;
    check_maps(&request.volume_context, &request.publish_context)?;
    let mut state = driver.state();
    let Some(volume) = state.volumes.get_mut(&request.volume_id) else {
        if driver.has(Defect::NodeStageUnknownVolumeOk) {
            return done;
        }
        return Err(not_found(&request.volume_id));
    };
    check_contexts(driver, volume, &request.volume_context, &request.publish_context)?;
    if let Some(present) = volume.on(driver.this_node()).staged.get(path) {
        return repeated(driver, present, &usage);
    }
    if !driver.has(Defect::NodeStageAcceptsAnyCapability) {
        check_usage(driver, volume, &usage)?;
    }
    stage(driver, volume, path, usage)
}

/// The volume is staged at this path already.
fn repeated(
    driver: &MockDriver,
    present: &Usage,
    wanted: &Usage,
) -> Result<v1::NodeStageVolumeResponse, Status> {
    if driver.has(Defect::NodeStageRefusesRepeats) {
        return Err(Status::already_exists("the volume is staged"));
    }
    if present == wanted || driver.has(Defect::NodeStageIgnoresCapabilityConflict) {
        return Ok(v1::NodeStageVolumeResponse {});
    }
    let message = "the volume is staged here with another volume_capability";
    Err(match driver.has(Defect::NodeStageConflictAsInternal) {
        true => Status::internal(message),
        false => Status::already_exists(message),
    })
}

fn stage(
    driver: &MockDriver,
    volume: &mut Volume,
    path: &str,
    usage: Usage,
) -> Result<v1::NodeStageVolumeResponse, Status> {
    if !driver.has(Defect::NodeStageNotRecorded) {
        volume.on_mut(driver.this_node()).staged.insert(path.to_owned(), usage);
    }
    Ok(v1::NodeStageVolumeResponse {})
}
