//! Side effects of rejected calls and of calls in an unusual order, and changes that are not saved as they should be.

use std::time::Duration;

use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{
    ControllerExpandVolumeRequest, ControllerPublishVolumeRequest, CreateSnapshotRequest,
    CreateVolumeRequest, NodePublishVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest,
    NodeUnstageVolumeRequest,
};
use tonic::Status;

use super::{GIB, leave_behind};
use crate::controller;
use crate::controller::{List, sequence};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::state::{Access, Attachment, Publication, Row, Table, Usage};

/// The delay between the reply to a change and saving it.
const LATE: Duration = Duration::from_secs(1);
/// The time for which the state file is incomplete.
const HALF_WRITTEN: Duration = Duration::from_millis(20);

/// The RPCs whose object stays locked after a rejected call, by defect.
const BUSY: &[(Defect, &str)] = &[
    (Defect::ControllerExpandRefusalBlocks, "ControllerExpandVolume"),
    (Defect::ControllerModifyRefusalBlocks, "ControllerModifyVolume"),
    (Defect::CreateGroupSnapshotRefusalTakesName, "CreateVolumeGroupSnapshot"),
    (Defect::CreateSnapshotRefusalTakesName, "CreateSnapshot"),
    (Defect::CreateVolumeRefusalTakesName, "CreateVolume"),
    (Defect::DeleteVolumeRefusalBlocks, "DeleteVolume"),
    (Defect::NodeExpandRefusalBlocks, "NodeExpandVolume"),
    (Defect::NodeUnstageRefusalBlocks, "NodeUnstageVolume"),
];

/// Returns whether the object of a rejected call stays locked.
pub(crate) fn stays_locked(driver: &MockDriver, method: &str) -> bool {
    driver.has(Defect::LockNeverReleasedAfterError)
        || BUSY.iter().any(|(defect, rpc)| *rpc == method && driver.has(*defect))
}

pub(super) fn after_rejected_create_volume(driver: &MockDriver, original: &CreateVolumeRequest) {
    let mut state = driver.state();
    if state.volumes.named(&original.name).is_some() {
        return;
    }
    if driver.has(Defect::CreateVolumeRefusalMakesVolume) {
        leave_behind(driver, &mut state, None, GIB);
    }
    if driver.has(Defect::CreateVolumeRefusalKeepsVolume) {
        leave_behind(driver, &mut state, Some(original.name.clone()), GIB);
    }
}

pub(super) fn after_rejected_create_snapshot(driver: &MockDriver, original: &CreateSnapshotRequest) {
    let mut state = driver.state();
    if driver.has(Defect::CreateSnapshotRefusalMakesSnapshot)
        && state.volumes.get(&original.source_volume_id).is_some()
    {
        let id = state.fresh_id("snap");
        let snapshot = controller::cut(driver, &mut state, id, &original.source_volume_id);
        state.snapshots.insert(snapshot);
    }
}

pub(super) fn after_rejected_controller_publish(
    driver: &MockDriver,
    original: &ControllerPublishVolumeRequest,
) {
    let mut state = driver.state();
    if driver.has(Defect::ControllerPublishRefusalDetachesOthers) {
        let others = state.volumes.values_mut().filter(|volume| volume.id != original.volume_id);
        others.for_each(|volume| volume.attachments.clear());
    }
    if driver.has(Defect::ControllerPublishRefusalAttaches) {
        let attachment = Attachment { usage: some_usage(), readonly: original.readonly };
        state.attach(&original.volume_id, &driver.this_node().id, attachment);
    }
}

pub(super) fn after_rejected_controller_expand(
    driver: &MockDriver,
    original: &ControllerExpandVolumeRequest,
) {
    if driver.has(Defect::ControllerExpandRefusalGrows) {
        let mut state = driver.state();
        let present = state.volumes.get(&original.volume_id).map(|volume| volume.capacity_bytes);
        if let Some(present) = present {
            state.resize_volume(&original.volume_id, present + 1);
        }
    }
}

pub(super) fn after_rejected_node_stage(driver: &MockDriver, original: &NodeStageVolumeRequest) {
    let mut state = driver.state();
    if driver.has(Defect::NodeStageRefusalUnstagesOthers) {
        let others = state.volumes.values_mut().filter(|volume| volume.id != original.volume_id);
        others.for_each(|volume| volume.on_mut(driver.this_node()).staged.clear());
    }
    if driver.has(Defect::NodeStageRefusalStages)
        && let Some(volume) = state.volumes.get_mut(&original.volume_id)
        && !original.staging_target_path.is_empty()
    {
        let staged = &mut volume.on_mut(driver.this_node()).staged;
        staged.entry(original.staging_target_path.clone()).or_insert_with(some_usage);
    }
}

pub(super) fn after_rejected_node_publish(driver: &MockDriver, original: &NodePublishVolumeRequest) {
    let mut state = driver.state();
    if driver.has(Defect::NodePublishRefusalUnpublishesOthers) {
        let others = state.volumes.values_mut().filter(|volume| volume.id != original.volume_id);
        others.for_each(|volume| volume.on_mut(driver.this_node()).published.clear());
    }
    if driver.has(Defect::NodePublishRefusalPublishes)
        && let Some(volume) = state.volumes.get_mut(&original.volume_id)
        && !original.target_path.is_empty()
    {
        let publication = Publication { usage: some_usage(), readonly: original.readonly, made: None };
        let published = &mut volume.on_mut(driver.this_node()).published;
        published.entry(original.target_path.clone()).or_insert(publication);
    }
}

pub(super) fn after_rejected_node_unpublish(driver: &MockDriver, original: &NodeUnpublishVolumeRequest) {
    if driver.has(Defect::NodeUnpublishRefusalUnpublishes)
        && let Some(volume) = driver.state().volumes.get_mut(&original.volume_id)
    {
        volume.on_mut(driver.this_node()).published.clear();
    }
}

/// Fails if the volume was detached before unstaging, with the defect that relies on the device.
pub(super) fn check_attached(driver: &MockDriver, original: &NodeUnstageVolumeRequest) -> Result<(), Status> {
    let state = driver.state();
    let Some(volume) = state.volumes.get(&original.volume_id) else { return Ok(()) };
    let node = driver.this_node();
    let is_staged = volume.on(node).staged.contains_key(&original.staging_target_path);
    match is_staged && !volume.attachments.contains_key(&node.id) {
        true if driver.has(Defect::NodeUnstageNeedsAttachment) => {
            Err(Status::internal("the volume has no device on this node"))
        }
        _ => Ok(()),
    }
}

/// Returns INTERNAL for a token after which no objects are left, with the given defect.
pub(super) fn check_token<T: Row + Clone>(
    driver: &MockDriver,
    defect: Defect,
    list: List,
    table: &Table<T>,
    given: &str,
) -> Result<(), Status> {
    let is_idle = sequence(list, given).is_some_and(|sequence| table.after(sequence).next().is_none());
    match is_idle && driver.has(defect) {
        true => Err(Status::internal("the object of the token does not exist")),
        false => Ok(()),
    }
}

/// A volume capability that no caller requests.
fn some_usage() -> Usage {
    let access = Access::Mount {
        fs_type: "left-behind".to_owned(),
        mount_flags: Vec::new(),
        volume_mount_group: String::new(),
    };
    Usage::new(access, Mode::SingleNodeReaderOnly)
}

pub(crate) fn has_saving_defect(driver: &MockDriver) -> bool {
    driver.defects.iter().any(|defect| defect.changes_saving())
}

/// Saves a change in the way of the defect.
pub(crate) async fn save_with_defect(driver: &MockDriver) -> Result<(), Status> {
    if driver.has(Defect::SavesAfterAnswer) {
        let shared = driver.shared();
        tokio::spawn(async move {
            tokio::time::sleep(LATE).await;
            // The call was already answered, so an error cannot be reported.
            _ = shared.save(&shared.state());
        });
    }
    if driver.has(Defect::RestartTakesTruncatedForEmpty) {
        driver.store.truncate().map_err(|error| Status::internal(error.to_string()))?;
        tokio::time::sleep(HALF_WRITTEN).await;
        driver.save(&driver.state())?;
    }
    Ok(())
}
