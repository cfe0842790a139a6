//! ControllerUnpublishVolume.

use csi_proto::v1::{ControllerUnpublishVolumeRequest, ControllerUnpublishVolumeResponse};
use tonic::Status;

use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::validate::invalid;

pub(crate) async fn controller_unpublish_volume(
    driver: &MockDriver,
    request: &ControllerUnpublishVolumeRequest,
) -> Result<ControllerUnpublishVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    let done = Ok(ControllerUnpublishVolumeResponse {});
    if request.volume_id.is_empty() {
        return match has(Defect::ControllerUnpublishAcceptsEmptyId) {
            true => done,
            false => controller::controller_unpublish_volume(driver, request).await,
        };
    }
    let node_missing = request.node_id.is_empty();
    if has(Defect::ControllerUnpublishDemandsNode) && node_missing {
        return Err(invalid("node_id is missing"));
    }
    let elsewhere = !node_missing && request.node_id != driver.this_node().id;
    match is_attached(driver, request) {
        None if has(Defect::ControllerUnpublishUnknownAsInternal) => {
            return Err(Status::internal("the volume has no record"));
        }
        Some(true) if has(Defect::ControllerUnpublishOwnNodeOnly) && elsewhere => {
            return Err(Status::internal("the device cannot be detached from here"));
        }
        Some(_) if has(Defect::ControllerUnpublishIgnoresMissingNode) && node_missing => return done,
        Some(false) if has(Defect::ControllerUnpublishRefusesRepeats) && !node_missing => {
            return Err(Status::failed_precondition("the volume is not published to this node"));
        }
        Some(false) if has(Defect::ControllerUnpublishRepeatAsNotFound) && !node_missing => {
            return Err(Status::not_found("the attachment does not exist"));
        }
        _ => {}
    }
    controller::controller_unpublish_volume(driver, request).await
}

/// Returns whether the volume is attached to the node; `None` if there is no such volume.
fn is_attached(driver: &MockDriver, request: &ControllerUnpublishVolumeRequest) -> Option<bool> {
    let state = driver.state();
    let volume = state.volumes.get(&request.volume_id)?;
    Some(volume.attachments.contains_key(&request.node_id))
}
