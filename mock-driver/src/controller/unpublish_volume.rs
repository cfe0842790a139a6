//! ControllerUnpublishVolume.

use csi_proto::v1;
use tonic::Status;

use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;

pub(crate) async fn controller_unpublish_volume(
    driver: &MockDriver,
    request: &v1::ControllerUnpublishVolumeRequest,
) -> Result<v1::ControllerUnpublishVolumeResponse, Status> {
    let v1::ControllerUnpublishVolumeRequest { volume_id, node_id, .. } = request;
    driver.check_id_format("volume_id", volume_id, "vol")?;
    let strict = driver.is(Quirk::ControllerUnpublishUnknownNotFound);
    let unpublished = driver.change(request, |state| {
        // A volume that does not exist is not attached, so nothing is left to do.
        let Some(volume) = state.volumes.get_mut(volume_id) else {
            return match strict {
                true => Err(Status::not_found(format!("volume {volume_id} does not exist"))),
                false => Ok(()),
            };
        };
        if node_id.is_empty() {
            volume.attachments.clear();
            return Ok(());
        }
        if strict && driver.node(node_id).is_none() {
            return Err(Status::not_found(format!("node {node_id} does not exist")));
        }
        if driver.has(Defect::ControllerUnpublishDetachesAllNodes) {
            volume.attachments.clear();
        }
        if !driver.has(Defect::ControllerUnpublishKeepsAttachment) {
            volume.attachments.remove(node_id);
        }
        Ok(())
    });
    unpublished.await?;
    Ok(v1::ControllerUnpublishVolumeResponse {})
}
