//! DeleteSnapshot.

use csi_proto::v1::{DeleteSnapshotRequest, DeleteSnapshotResponse};
use tonic::{Code, Status};

use super::recode;
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;

pub(crate) async fn delete_snapshot(
    driver: &MockDriver,
    request: &DeleteSnapshotRequest,
) -> Result<DeleteSnapshotResponse, Status> {
    let (id, has) = (&request.snapshot_id, |defect| driver.has(defect));
    if has(Defect::DeleteSnapshotAcceptsEmptyId) && id.is_empty() {
        return Ok(DeleteSnapshotResponse {});
    }
    let (known, grouped) = {
        let state = driver.state();
        let snapshot = state.snapshots.get(id);
        (snapshot.is_some(), snapshot.is_some_and(|snapshot| snapshot.group.is_some()))
    };
    if has(Defect::DeleteSnapshotUnknownNotFound) && !known && !id.is_empty() {
        return Err(Status::not_found(format!("snapshot {id} does not exist")));
    }
    if has(Defect::DeleteSnapshotInUseAsInternal) && controller::has_copies(&driver.state(), id) {
        return Err(Status::internal(format!("volumes made from snapshot {id} exist")));
    }
    let mut answer = controller::delete_snapshot(driver, request).await;
    if has(Defect::DeleteSnapshotGroupMemberAsInternal) && grouped {
        recode(&mut answer, Code::InvalidArgument, Code::Internal);
    }
    answer
}
