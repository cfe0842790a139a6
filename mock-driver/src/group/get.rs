//! GetVolumeGroupSnapshot.

use csi_proto::v1;
use tonic::Status;

use super::message::{check_members, group_message};
use crate::driver::MockDriver;

pub(crate) async fn get_volume_group_snapshot(
    driver: &MockDriver,
    request: &v1::GetVolumeGroupSnapshotRequest,
) -> Result<v1::GetVolumeGroupSnapshotResponse, Status> {
    let id = &request.group_snapshot_id;
    driver.check_id_format("group_snapshot_id", id, "group")?;
    let mut state = driver.state();
    let group = state.groups.get(id).cloned();
    let group = group.ok_or_else(|| Status::not_found(format!("group snapshot {id} does not exist")))?;
    check_members(&group, &request.snapshot_ids)?;
    let message = group_message(driver, &mut state, &group);
    Ok(v1::GetVolumeGroupSnapshotResponse { group_snapshot: Some(message) })
}
