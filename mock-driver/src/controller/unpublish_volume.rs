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
    let done = Ok(v1::ControllerUnpublishVolumeResponse {});
    if request.volume_id.is_empty() && driver.has(Defect::ControllerUnpublishAcceptsEmptyId) {
        return done;
    }
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    if request.node_id.is_empty() && driver.has(Defect::ControllerUnpublishDemandsNode) {
        return Err(Status::invalid_argument("node_id is missing"));
    }
    let mut state = driver.state();
    // What is not there is not attached, so there is nothing left to do.
    let Some(volume) = state.volumes.get_mut(&request.volume_id) else {
        if driver.has(Defect::ControllerUnpublishUnknownAsInternal) {
            return Err(Status::internal("the volume has no record"));
        }
        return match driver.is(Quirk::ControllerUnpublishUnknownNotFound) {
            true => Err(Status::not_found(format!("volume {} does not exist", request.volume_id))),
            false => done,
        };
    };
    if request.node_id.is_empty() {
        if !driver.has(Defect::ControllerUnpublishIgnoresMissingNode) {
            volume.attachments.clear();
        }
        return done;
    }
    if driver.node(&request.node_id).is_none() && driver.is(Quirk::ControllerUnpublishUnknownNotFound) {
        return Err(Status::not_found(format!("node {} does not exist", request.node_id)));
    }
    let attached = volume.attachments.contains_key(&request.node_id);
    if !attached && driver.has(Defect::ControllerUnpublishRefusesRepeats) {
        return Err(Status::failed_precondition("the volume is not published to this node"));
    }
    if !attached && driver.has(Defect::ControllerUnpublishRepeatAsNotFound) {
        return Err(Status::not_found("the attachment does not exist"));
    }
    if driver.has(Defect::ControllerUnpublishDetachesAllNodes) {
        volume.attachments.clear();
    }
    if !driver.has(Defect::ControllerUnpublishKeepsAttachment) {
        volume.attachments.remove(&request.node_id);
    }
    done
}
