//! NodeStageVolume. Staging is only recorded; nothing is mounted at the staging path.

use csi_proto::v1;
use tonic::Status;

use super::{check_contexts, check_maps, check_usage, not_found, target};
use crate::defect::Defect;
use crate::driver::MockDriver;
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
