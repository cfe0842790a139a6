//! CreateVolumeGroupSnapshot.

use csi_proto::v1::{CreateVolumeGroupSnapshotRequest, CreateVolumeGroupSnapshotResponse};
use tonic::{Code, Status};

use super::group_snapshot::corrupt_group;
use crate::controller;
use crate::defect::Defect;
use crate::driver::{MockDriver, now_ms};
use crate::group;
use crate::state::Group;
use crate::validate::invalid;

pub(crate) async fn create_volume_group_snapshot(
    driver: &MockDriver,
    original: &CreateVolumeGroupSnapshotRequest,
) -> Result<CreateVolumeGroupSnapshotResponse, Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::CreateGroupSnapshotRefusesUnicodeNames) && !original.name.is_ascii() {
        return Err(invalid("name is not ASCII"));
    }
    let mut request = original.clone();
    alter_request(driver, &mut request);
    let known = driver.state().groups.named(&request.name).cloned();
    if let Some(known) = &known {
        repeat(driver, &mut request, known)?;
    }
    let answer = group::create_volume_group_snapshot(driver, &request).await;
    if answer.as_ref().is_err_and(|status| status.code() == Code::NotFound)
        && has(Defect::CreateGroupSnapshotLeaksMembers)
    {
        leave_members_behind(driver, original);
    }
    let mut response = answer?;
    if let Some(group) = &mut response.group_snapshot {
        corrupt_group(driver, group);
        if has(Defect::CreateGroupSnapshotRepeatDropsMembers) && known.is_some() {
            group.snapshots.truncate(1);
        }
        if has(Defect::CreateGroupSnapshotTimeIsNow) {
            group.creation_time = Some(controller::timestamp(now_ms()));
        }
    }
    if has(Defect::CreateGroupSnapshotAnswersWithoutGroup) && known.is_none() {
        response.group_snapshot = None;
    }
    Ok(response)
}

fn alter_request(driver: &MockDriver, request: &mut CreateVolumeGroupSnapshotRequest) {
    let has = |defect| driver.has(defect);
    if has(Defect::CreateGroupSnapshotAcceptsEmptyName) && request.name.is_empty() {
        request.name = "unnamed".to_owned();
    }
    if has(Defect::CreateGroupSnapshotForgetsNames) {
        driver.state().groups.forget_name(&request.name);
    }
    if has(Defect::CreateGroupSnapshotDropsLastSource) && request.source_volume_ids.len() > 1 {
        request.source_volume_ids.pop();
    }
}

fn repeat(
    driver: &MockDriver,
    request: &mut CreateVolumeGroupSnapshotRequest,
    known: &Group,
) -> Result<(), Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::CreateGroupSnapshotRefusesRepeats) {
        return Err(Status::already_exists("a group snapshot of this name exists"));
    }
    let same_order = known.source_volume_ids == request.source_volume_ids;
    if has(Defect::CreateGroupSnapshotOrderMatters) && !same_order {
        return Err(Status::already_exists(
            "a group snapshot of this name exists with other source_volume_ids",
        ));
    }
    if has(Defect::CreateGroupSnapshotIgnoresSourceConflict) {
        request.source_volume_ids = known.source_volume_ids.clone();
    }
    Ok(())
}

/// Leaves snapshots of the sources that exist.
fn leave_members_behind(driver: &MockDriver, original: &CreateVolumeGroupSnapshotRequest) {
    let mut state = driver.state();
    for source in &original.source_volume_ids {
        if state.volumes.get(source).is_some() {
            let id = state.fresh_id("snap");
            let leaked = controller::cut(driver, &mut state, id, source);
            state.snapshots.insert(leaked);
        }
    }
}
