//! DeleteVolumeGroupSnapshot.

use csi_proto::v1;
use tonic::Status;

use super::message::check_members;
use crate::controller::check_unused;
use crate::defect::Defect;
use crate::driver::MockDriver;

pub(crate) async fn delete_volume_group_snapshot(
    driver: &MockDriver,
    request: &v1::DeleteVolumeGroupSnapshotRequest,
) -> Result<v1::DeleteVolumeGroupSnapshotResponse, Status> {
    let id = &request.group_snapshot_id;
    driver.check_id_format("group_snapshot_id", id, "group")?;
    let deleted = driver.change(request, |state| {
        // A group snapshot that does not exist counts as deleted, whatever members the request names.
        let Some(group) = state.groups.get(id).cloned() else { return Ok(()) };
        check_members(&group, &request.snapshot_ids)?;
        group.snapshot_ids.iter().try_for_each(|member| check_unused(driver, state, member))?;
        if !driver.has(Defect::DeleteGroupSnapshotKeepsMembers) {
            group.snapshot_ids.iter().for_each(|member| drop(state.snapshots.remove(member)));
        }
        if !driver.has(Defect::DeleteGroupSnapshotKeepsGroup) {
            state.groups.remove(id);
        }
        Ok(())
    });
    deleted.await?;
    Ok(v1::DeleteVolumeGroupSnapshotResponse {})
}
