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
    if id.is_empty() && driver.has(Defect::DeleteGroupSnapshotAcceptsEmptyId) {
        return Ok(v1::DeleteVolumeGroupSnapshotResponse {});
    }
    driver.check_id_format("group_snapshot_id", id, "group")?;
    let mut state = driver.state();
    // A group that is not there is as good as deleted, whatever its members were.
    let Some(group) = state.groups.get(id).cloned() else {
        if driver.has(Defect::DeleteGroupSnapshotUnknownNotFound) {
            return Err(Status::not_found(format!("group snapshot {id} does not exist")));
        }
        return Ok(v1::DeleteVolumeGroupSnapshotResponse {});
    };
    check_members(driver, &group, &request.snapshot_ids)?;
    group.snapshot_ids.iter().try_for_each(|member| check_unused(driver, &state, member))?;
    if !driver.has(Defect::DeleteGroupSnapshotKeepsMembers) {
        group.snapshot_ids.iter().for_each(|member| drop(state.snapshots.remove(member)));
    }
    if !driver.has(Defect::DeleteGroupSnapshotKeepsGroup) {
        state.groups.remove(id);
    }
    Ok(v1::DeleteVolumeGroupSnapshotResponse {})
}
