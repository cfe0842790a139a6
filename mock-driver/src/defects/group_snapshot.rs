//! DeleteVolumeGroupSnapshot, GetVolumeGroupSnapshot, and the VolumeGroupSnapshot message.

use csi_proto::v1::{
    DeleteVolumeGroupSnapshotRequest, DeleteVolumeGroupSnapshotResponse, GetVolumeGroupSnapshotRequest,
    GetVolumeGroupSnapshotResponse, VolumeGroupSnapshot,
};
use tonic::{Code, Status};

use super::snapshot::corrupt_snapshot;
use super::{Change, apply, forgive};
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::group;

pub(crate) async fn delete_volume_group_snapshot(
    driver: &MockDriver,
    original: &DeleteVolumeGroupSnapshotRequest,
) -> Result<DeleteVolumeGroupSnapshotResponse, Status> {
    let (id, has) = (&original.group_snapshot_id, |defect| driver.has(defect));
    if has(Defect::DeleteGroupSnapshotAcceptsEmptyId) && id.is_empty() {
        return Ok(DeleteVolumeGroupSnapshotResponse {});
    }
    let known = driver.state().groups.get(id).is_some();
    if has(Defect::DeleteGroupSnapshotUnknownNotFound) && !known && !id.is_empty() {
        return Err(Status::not_found(format!("group snapshot {id} does not exist")));
    }
    if has(Defect::DeleteGroupSnapshotInUseAsInternal) && is_copied(driver, id) {
        return Err(Status::internal("volumes made from members exist"));
    }
    let mut request = original.clone();
    alter_members(driver, id, &mut request.snapshot_ids)?;
    group::delete_volume_group_snapshot(driver, &request).await
}

/// Returns whether volumes were created from a member of the group.
fn is_copied(driver: &MockDriver, id: &str) -> bool {
    let state = driver.state();
    let members = state.groups.get(id).map(|group| group.snapshot_ids.clone()).unwrap_or_default();
    members.iter().any(|member| controller::has_copies(&state, member))
}

pub(crate) async fn get_volume_group_snapshot(
    driver: &MockDriver,
    original: &GetVolumeGroupSnapshotRequest,
) -> Result<GetVolumeGroupSnapshotResponse, Status> {
    let (id, has) = (&original.group_snapshot_id, |defect| driver.has(defect));
    if has(Defect::GetGroupSnapshotEmptyIdAsNotFound) && id.is_empty() {
        return Err(Status::not_found("group snapshot  does not exist"));
    }
    let mut request = original.clone();
    alter_members(driver, id, &mut request.snapshot_ids)?;
    let mut answer = group::get_volume_group_snapshot(driver, &request).await;
    if has(Defect::GetGroupSnapshotUnknownOk) {
        forgive(&mut answer, Code::NotFound);
    }
    let mut response = answer?;
    if let Some(group) = &mut response.group_snapshot {
        corrupt_group(driver, group);
        if has(Defect::GetGroupSnapshotOmitsMember) {
            group.snapshots.pop();
        }
        if has(Defect::GetGroupSnapshotOtherId) {
            group.group_snapshot_id.push_str("-0");
        }
    }
    if has(Defect::GetGroupSnapshotWithoutGroup) {
        response.group_snapshot = None;
    }
    Ok(response)
}

/// Replaces missing or wrong members with the right ones, or rejects wrong ones with another code.
fn alter_members(driver: &MockDriver, id: &str, given: &mut Vec<String>) -> Result<(), Status> {
    let has = |defect| driver.has(defect);
    let state = driver.state();
    let Some(group) = state.groups.get(id) else { return Ok(()) };
    let members = &group.snapshot_ids;
    if given.is_empty() {
        if has(Defect::GroupSnapshotAcceptsMissingMembers) {
            *given = members.clone();
        }
        return Ok(());
    }
    let differ = given.len() != members.len() || given.iter().any(|one| !members.contains(one));
    if differ && has(Defect::GroupSnapshotMemberMismatchAsInternal) {
        return Err(Status::internal("members differ"));
    }
    if differ && has(Defect::GroupSnapshotIgnoresMemberMismatch) {
        *given = members.clone();
    }
    Ok(())
}

pub(super) fn corrupt_group(driver: &MockDriver, group: &mut VolumeGroupSnapshot) {
    let has = |defect| driver.has(defect);
    group.snapshots.iter_mut().for_each(|snapshot| corrupt_snapshot(driver, snapshot));
    if has(Defect::SnapshotNeverReady) || has(Defect::GroupSnapshotNeverReady) {
        group.ready_to_use = false;
    }
    if has(Defect::GroupSnapshotReadyTooEarly) {
        group.ready_to_use = true;
        group.snapshots.iter_mut().take(1).for_each(|snapshot| snapshot.ready_to_use = false);
    }
    let changes: &[Change<VolumeGroupSnapshot>] = &[
        (Defect::GroupSnapshotWithoutMembers, |group| group.snapshots.clear()),
        (Defect::GroupSnapshotWithoutId, |group| group.group_snapshot_id.clear()),
        (Defect::GroupSnapshotWithoutCreationTime, |group| group.creation_time = None),
    ];
    apply(driver, group, changes);
    if driver.has(Defect::GroupSnapshotFrom1970) {
        group.creation_time = Some(prost_types::Timestamp::default());
    }
    if driver.has(Defect::GroupSnapshotMembersWithoutGroup) {
        group.snapshots.iter_mut().for_each(|snapshot| snapshot.group_snapshot_id.clear());
    }
    if driver.has(Defect::GroupSnapshotMembersOfOtherGroup) {
        group.snapshots.iter_mut().for_each(|snapshot| snapshot.group_snapshot_id.push_str("-0"));
    }
}
