//! GetVolumeGroupSnapshot.

use csi_proto::v1;
use tonic::Status;

use super::message::{check_members, group_message};
use crate::defect::Defect;
use crate::driver::MockDriver;

pub(crate) async fn get_volume_group_snapshot(
    driver: &MockDriver,
    request: &v1::GetVolumeGroupSnapshotRequest,
) -> Result<v1::GetVolumeGroupSnapshotResponse, Status> {
    let id = &request.group_snapshot_id;
    if !(id.is_empty() && driver.has(Defect::GetGroupSnapshotEmptyIdAsNotFound)) {
        driver.check_id_format("group_snapshot_id", id, "group")?;
    }
    let mut state = driver.state();
    let Some(group) = state.groups.get(id).cloned() else {
        if driver.has(Defect::GetGroupSnapshotUnknownOk) {
            return Ok(v1::GetVolumeGroupSnapshotResponse::default());
        }
        return Err(Status::not_found(format!("group snapshot {id} does not exist")));
    };
    check_members(driver, &group, &request.snapshot_ids)?;
    let mut message = group_message(driver, &mut state, &group);
    if driver.has(Defect::GetGroupSnapshotOtherId) {
        message.group_snapshot_id.push_str("-0");
    }
    let without = driver.has(Defect::GetGroupSnapshotWithoutGroup);
    Ok(v1::GetVolumeGroupSnapshotResponse { group_snapshot: (!without).then_some(message) })
}
