//! ControllerPublishVolume and ControllerUnpublishVolume.

use csi_proto::v1::{
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse,
};
use tonic::{Code, Status};

use super::overlap::{IfGivenUp, attaching_given_up};
use super::plain_capability;
use super::side_effects::after_rejected_controller_publish;
use super::volume::made_for;
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::state::Attachment;
use crate::validate::{self, invalid};

pub(crate) async fn controller_publish_volume(
    driver: &MockDriver,
    original: &ControllerPublishVolumeRequest,
) -> Result<ControllerPublishVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    if let Some(answer) = answer_without_looking(driver, original) {
        return answer;
    }
    let mut request = original.clone();
    if has(Defect::ControllerPublishAcceptsMissingCapability) && request.volume_capability.is_none() {
        let capability = made_for(driver, &request.volume_id).unwrap_or_else(plain_capability);
        request.volume_capability = Some(capability);
    }
    let present = attachment(driver, original);
    if let Some(present) = &present {
        reject_repeat(driver)?;
        ignore_conflict(driver, &mut request, present);
    } else if has(Defect::ControllerPublishRefusesSecondNode) {
        reject_second_node(driver, &request)?;
    }
    let attaching = IfGivenUp::new(|| attaching_given_up(driver, original));
    let mut answer = controller::controller_publish_volume(driver, &request).await;
    attaching.answered();
    match &mut answer {
        Ok(response) => corrupt_reply(driver, original, response),
        Err(_) => {
            after_rejected_controller_publish(driver, original);
            recode_rejection(driver, &mut answer);
        }
    }
    if present.is_some() && answer.is_ok() && has(Defect::ControllerPublishForgetsReadonly) {
        forget_readonly(driver, original);
    }
    answer
}

fn answer_without_looking(
    driver: &MockDriver,
    original: &ControllerPublishVolumeRequest,
) -> Option<Result<ControllerPublishVolumeResponse, Status>> {
    let has = |defect| driver.has(defect);
    if has(Defect::ControllerPublishPanicsWithoutCapability) {
        original.volume_capability.as_ref().expect("volume_capability is always there");
    }
    if has(Defect::ControllerPublishEmptyVolumeIdAsNotFound) && original.volume_id.is_empty() {
        return Some(Err(Status::not_found("volume  does not exist")));
    }
    if has(Defect::ControllerPublishEmptyNodeIdAsNotFound) && original.node_id.is_empty() {
        return Some(Err(Status::not_found("node  does not exist")));
    }
    if original.volume_id.is_empty() || original.node_id.is_empty() || original.volume_capability.is_none() {
        return None;
    }
    let unknown_volume = driver.state().volumes.get(&original.volume_id).is_none();
    let unknown_node = driver.node(&original.node_id).is_none();
    if (has(Defect::ControllerPublishUnknownVolumeOk) && unknown_volume)
        || (has(Defect::ControllerPublishUnknownNodeOk) && unknown_node)
    {
        return Some(Ok(ControllerPublishVolumeResponse::default()));
    }
    if has(Defect::ControllerPublishOwnNodeOnly) && original.node_id != driver.this_node().id {
        return Some(Err(Status::internal("the device cannot be attached from here")));
    }
    if has(Defect::ControllerPublishForgetsOwnNode) && original.node_id == driver.this_node().id {
        return Some(Err(Status::not_found(format!("node {} does not exist", original.node_id))));
    }
    None
}

/// The existing attachment to the node.
fn attachment(driver: &MockDriver, original: &ControllerPublishVolumeRequest) -> Option<Attachment> {
    driver.state().volumes.get(&original.volume_id)?.attachments.get(&original.node_id).cloned()
}

fn reject_repeat(driver: &MockDriver) -> Result<(), Status> {
    if driver.has(Defect::ControllerPublishRefusesRepeats) {
        return Err(Status::already_exists("the volume is published to this node"));
    }
    if driver.has(Defect::ControllerPublishRepeatAsFailedPrecondition) {
        return Err(Status::failed_precondition("the volume is attached"));
    }
    Ok(())
}

fn ignore_conflict(driver: &MockDriver, request: &mut ControllerPublishVolumeRequest, present: &Attachment) {
    if driver.has(Defect::ControllerPublishIgnoresReadonlyConflict) {
        request.readonly = present.readonly;
    }
}

fn reject_second_node(driver: &MockDriver, request: &ControllerPublishVolumeRequest) -> Result<(), Status> {
    let shared = validate::required_usage(request.volume_capability.as_ref())?.is_multi_node();
    let state = driver.state();
    let volume = state.volumes.get(&request.volume_id);
    match volume.and_then(|volume| volume.attachments.keys().next()) {
        Some(holder) if shared => {
            Err(Status::failed_precondition(format!("the volume is published to node {holder}")))
        }
        _ => Ok(()),
    }
}

fn corrupt_reply(
    driver: &MockDriver,
    original: &ControllerPublishVolumeRequest,
    response: &mut ControllerPublishVolumeResponse,
) {
    let context = &mut response.publish_context;
    if driver.has(Defect::ControllerPublishContextChanges) {
        context.insert("attached-at".to_owned(), driver.next_number().to_string());
    }
    if driver.has(Defect::ControllerPublishContextTooLarge) {
        context.insert("history".to_owned(), "x".repeat(5 << 10));
    }
    if driver.has(Defect::ControllerPublishContextHoldsSecrets) {
        context.extend(original.secrets.clone());
    }
}

fn recode_rejection(driver: &MockDriver, answer: &mut Result<ControllerPublishVolumeResponse, Status>) {
    if let Err(status) = answer
        && status.code() == Code::FailedPrecondition
        && driver.has(Defect::ControllerPublishOtherNodeNotNamed)
    {
        *status = Status::failed_precondition("the volume is published elsewhere");
    }
}

fn forget_readonly(driver: &MockDriver, original: &ControllerPublishVolumeRequest) {
    let mut state = driver.state();
    let volume = state.volumes.get_mut(&original.volume_id);
    if let Some(attachment) = volume.and_then(|volume| volume.attachments.get_mut(&original.node_id)) {
        attachment.readonly = false;
    }
}

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
