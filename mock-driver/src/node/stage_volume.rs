//! NodeStageVolume and NodeUnstageVolume.

use csi_proto::v1;
use tonic::Status;

use super::{check_contexts, check_maps, check_usage, not_found, target};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::Usage;
use crate::validate;

pub(crate) async fn node_stage_volume(
    driver: &MockDriver,
    request: &v1::NodeStageVolumeRequest,
) -> Result<v1::NodeStageVolumeResponse, Status> {
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    let path = target::path("staging_target_path", &request.staging_target_path)?;
    let usage = validate::required_usage(request.volume_capability.as_ref())?;
    check_maps(&request.volume_context, &request.publish_context)?;
    let staged = driver.change(request, |state| {
        let volume = state.volumes.get_mut(&request.volume_id);
        let volume = volume.ok_or_else(|| not_found(&request.volume_id))?;
        check_contexts(driver, volume, &request.volume_context, &request.publish_context)?;
        if let Some(present) = volume.on(driver.this_node()).staged.get(path) {
            return check_same(present, &usage);
        }
        if !driver.has(Defect::NodeStageAcceptsAnyCapability) {
            check_usage(driver, volume, &usage)?;
        }
        if !driver.has(Defect::NodeStageNotRecorded) {
            volume.on_mut(driver.this_node()).staged.insert(path.to_owned(), usage);
        }
        Ok(())
    });
    staged.await?;
    Ok(v1::NodeStageVolumeResponse {})
}

/// Returns ALREADY_EXISTS if the volume is staged here in a different way.
fn check_same(present: &Usage, wanted: &Usage) -> Result<(), Status> {
    match present == wanted {
        true => Ok(()),
        false => Err(Status::already_exists("the volume is staged here with another volume_capability")),
    }
}

pub(crate) async fn node_unstage_volume(
    driver: &MockDriver,
    request: &v1::NodeUnstageVolumeRequest,
) -> Result<v1::NodeUnstageVolumeResponse, Status> {
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    let path = target::path("staging_target_path", &request.staging_target_path)?;
    let unstaged = driver.change(request, |state| {
        let Some(volume) = state.volumes.get_mut(&request.volume_id) else {
            return match driver.is(Quirk::NodeUnstageUnknownOk) || driver.is(Quirk::StatelessNode) {
                true => Ok(()),
                false => Err(not_found(&request.volume_id)),
            };
        };
        let here = volume.on_mut(driver.this_node());
        if !here.staged.contains_key(path) {
            return Ok(());
        }
        if !here.published.is_empty() {
            return Err(Status::failed_precondition("the volume is still published on this node"));
        }
        if !driver.has(Defect::NodeUnstageKeepsStaging) {
            here.staged.remove(path);
        }
        Ok(())
    });
    unstaged.await?;
    Ok(v1::NodeUnstageVolumeResponse {})
}
