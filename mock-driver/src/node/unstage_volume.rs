//! NodeUnstageVolume.

use csi_proto::v1;
use tonic::Status;

use super::{not_found, target};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;

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
