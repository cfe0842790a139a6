//! DeleteSnapshot.

use csi_proto::v1;
use tonic::Status;

use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{Source, State};
use crate::validate::invalid;

pub(crate) async fn delete_snapshot(
    driver: &MockDriver,
    request: &v1::DeleteSnapshotRequest,
) -> Result<v1::DeleteSnapshotResponse, Status> {
    let id = &request.snapshot_id;
    if id.is_empty() && driver.has(Defect::DeleteSnapshotAcceptsEmptyId) {
        return Ok(v1::DeleteSnapshotResponse {});
    }
    driver.check_id_format("snapshot_id", id, "snap")?;
    let mut state = driver.state();
    let Some(snapshot) = state.snapshots.get(id) else {
        if driver.has(Defect::DeleteSnapshotUnknownNotFound) {
            return Err(Status::not_found(format!("snapshot {id} does not exist")));
        }
        return Ok(v1::DeleteSnapshotResponse {});
    };
    if let Some(group) = &snapshot.group
        && !driver.is(Quirk::GroupMembersDeletable)
    {
        if driver.has(Defect::DeleteSnapshotGroupMemberAsInternal) {
            return Err(Status::internal("the snapshot has a parent"));
        }
        return Err(invalid(format!("the snapshot belongs to group snapshot {group}")));
    }
    check_unused(driver, &state, id)?;
    let source_volume_id = snapshot.source_volume_id.clone();
    if driver.has(Defect::DeleteSnapshotDeletesVolume) {
        state.remove_volume(&source_volume_id);
    }
    if driver.has(Defect::DeleteSnapshotKeepsSnapshot) {
        return Ok(v1::DeleteSnapshotResponse {});
    }
    let removed = state.snapshots.remove(id);
    if let Some(group) = removed.and_then(|snapshot| snapshot.group)
        && let Some(group) = state.groups.get_mut(&group)
    {
        group.snapshot_ids.retain(|member| member != id);
    }
    Ok(v1::DeleteSnapshotResponse {})
}

/// FAILED_PRECONDITION if volumes depend on the snapshot. Copies are complete, so they do so only by quirk.
pub(crate) fn check_unused(driver: &MockDriver, state: &State, id: &str) -> Result<(), Status> {
    let pins = driver.is(Quirk::CopiesPinSnapshots) || driver.has(Defect::DeleteSnapshotInUseAsInternal);
    let copied = Source::Snapshot(id.to_owned());
    if !pins || !state.volumes.values().any(|volume| volume.source.as_ref() == Some(&copied)) {
        return Ok(());
    }
    let message = format!("volumes made from snapshot {id} exist");
    Err(match driver.has(Defect::DeleteSnapshotInUseAsInternal) {
        true => Status::internal(message),
        false => Status::failed_precondition(message),
    })
}
