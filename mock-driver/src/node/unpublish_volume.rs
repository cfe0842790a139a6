//! NodeUnpublishVolume.

use csi_proto::v1;
use tonic::Status;

use super::{not_found, target};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;

pub(crate) async fn node_unpublish_volume(
    driver: &MockDriver,
    request: &v1::NodeUnpublishVolumeRequest,
) -> Result<v1::NodeUnpublishVolumeResponse, Status> {
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    let path = target::path("target_path", &request.target_path)?;
    let unpublished = driver.change(request, |state| {
        let Some(volume) = state.volumes.get_mut(&request.volume_id) else {
            return match driver.is(Quirk::NodeUnpublishUnknownOk) || driver.is(Quirk::StatelessNode) {
                true => Ok(()),
                false => Err(not_found(&request.volume_id)),
            };
        };
        target::note_written(volume);
        let here = volume.on_mut(driver.this_node());
        let Some(publication) = here.published.get(path) else { return Ok(()) };
        if let Some(made) = publication.made
            && !driver.has(Defect::NodeUnpublishLeavesTarget)
        {
            target::remove(path, made)?;
        }
        if !driver.has(Defect::NodeUnpublishKeepsPublication) {
            here.published.remove(path);
        }
        if driver.has(Defect::NodeUnpublishUnstages) {
            here.staged.clear();
        }
        Ok(())
    });
    unpublished.await?;
    Ok(v1::NodeUnpublishVolumeResponse {})
}
