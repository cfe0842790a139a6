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
    driver.check_id_format("snapshot_id", id, "snap")?;
    let deleted = driver.change(request, |state| {
        // A snapshot that does not exist counts as deleted.
        let Some(snapshot) = state.snapshots.get(id).cloned() else { return Ok(()) };
        if let Some(group) = &snapshot.group
            && !driver.is(Quirk::GroupMembersDeletable)
        {
            return Err(invalid(format!("the snapshot belongs to group snapshot {group}")));
        }
        check_unused(driver, state, id)?;
        if driver.has(Defect::DeleteSnapshotDeletesVolume) {
            state.remove_volume(&snapshot.source_volume_id);
        }
        if driver.has(Defect::DeleteSnapshotKeepsSnapshot) {
            return Ok(());
        }
        state.snapshots.remove(id);
        if let Some(group) = snapshot.group.and_then(|group| state.groups.get_mut(&group)) {
            group.snapshot_ids.retain(|member| member != id);
        }
        Ok(())
    });
    deleted.await?;
    Ok(v1::DeleteSnapshotResponse {})
}

/// Returns FAILED_PRECONDITION if volumes depend on the snapshot. Copies are complete, so this only happens with a
/// quirk.
pub(crate) fn check_unused(driver: &MockDriver, state: &State, id: &str) -> Result<(), Status> {
    match driver.is(Quirk::CopiesPinSnapshots) && has_copies(state, id) {
        true => Err(Status::failed_precondition(format!("volumes made from snapshot {id} exist"))),
        false => Ok(()),
    }
}

/// Returns whether volumes were created from the snapshot.
pub(crate) fn has_copies(state: &State, id: &str) -> bool {
    let copied = Source::Snapshot(id.to_owned());
    state.volumes.values().any(|volume| volume.source.as_ref() == Some(&copied))
}
