//! GetSnapshot.

use csi_proto::v1;
use tonic::Status;

use super::snapshot_message::{look_at, snapshot_message};
use crate::defect::Defect;
use crate::driver::MockDriver;

pub(crate) async fn get_snapshot(
    driver: &MockDriver,
    request: &v1::GetSnapshotRequest,
) -> Result<v1::GetSnapshotResponse, Status> {
    if !(request.snapshot_id.is_empty() && driver.has(Defect::GetSnapshotEmptyIdAsNotFound)) {
        driver.check_id_format("snapshot_id", &request.snapshot_id, "snap")?;
    }
    let mut state = driver.state();
    let Some(snapshot) = state.snapshots.get_mut(&request.snapshot_id) else {
        if driver.has(Defect::GetSnapshotUnknownOk) {
            return Ok(v1::GetSnapshotResponse::default());
        }
        return Err(Status::not_found(format!("snapshot {} does not exist", request.snapshot_id)));
    };
    look_at(snapshot);
    let mut message = snapshot_message(driver, snapshot);
    if !message.ready_to_use && driver.has(Defect::GetSnapshotHidesUnready) {
        return Err(Status::not_found("the snapshot is not ready"));
    }
    if driver.has(Defect::GetSnapshotOtherId) {
        message.snapshot_id.push_str("-0");
    }
    let without = driver.has(Defect::GetSnapshotWithoutSnapshot);
    Ok(v1::GetSnapshotResponse { snapshot: (!without).then_some(message) })
}
