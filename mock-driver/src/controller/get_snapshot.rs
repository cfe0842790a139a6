//! GetSnapshot.

use csi_proto::v1;
use tonic::Status;

use super::snapshot_message::{look_at, snapshot_message};
use crate::driver::MockDriver;

pub(crate) async fn get_snapshot(
    driver: &MockDriver,
    request: &v1::GetSnapshotRequest,
) -> Result<v1::GetSnapshotResponse, Status> {
    let id = &request.snapshot_id;
    driver.check_id_format("snapshot_id", id, "snap")?;
    let mut state = driver.state();
    let snapshot = state.snapshots.get_mut(id);
    let snapshot = snapshot.ok_or_else(|| Status::not_found(format!("snapshot {id} does not exist")))?;
    look_at(snapshot);
    Ok(v1::GetSnapshotResponse { snapshot: Some(snapshot_message(driver, snapshot)) })
}
