//! GetSnapshot.

use csi_proto::v1::{GetSnapshotRequest, GetSnapshotResponse};
use tonic::{Code, Status};

use super::forgive;
use super::snapshot::corrupt_snapshot;
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;

pub(crate) async fn get_snapshot(
    driver: &MockDriver,
    request: &GetSnapshotRequest,
) -> Result<GetSnapshotResponse, Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::GetSnapshotEmptyIdAsNotFound) && request.snapshot_id.is_empty() {
        return Err(Status::not_found("snapshot  does not exist"));
    }
    let mut answer = controller::get_snapshot(driver, request).await;
    if has(Defect::GetSnapshotUnknownOk) {
        forgive(&mut answer, Code::NotFound);
    }
    let mut response = answer?;
    if let Some(snapshot) = &mut response.snapshot {
        corrupt_snapshot(driver, snapshot);
        if has(Defect::GetSnapshotHidesUnready) && !snapshot.ready_to_use {
            return Err(Status::not_found("the snapshot is not ready"));
        }
        if has(Defect::GetSnapshotOmitsTopology) {
            snapshot.accessible_topology.clear();
        }
        if has(Defect::GetSnapshotOtherId) {
            snapshot.snapshot_id.push_str("-0");
        }
    }
    if has(Defect::GetSnapshotWithoutSnapshot) {
        response.snapshot = None;
    }
    Ok(response)
}
