//! DeleteSnapshot.

use std::sync::atomic::Ordering;

use csi_proto::v1::{DeleteSnapshotRequest, DeleteSnapshotResponse};
use tonic::{Code, Status};

use super::{host, is_all_dots, recode};
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::validate::invalid;

pub(crate) async fn delete_snapshot(
    driver: &MockDriver,
    asked: &DeleteSnapshotRequest,
) -> Result<DeleteSnapshotResponse, Status> {
    let has = |defect| driver.has(defect);
    host::before_delete_snapshot(driver, asked);
    let mut request = asked.clone();
    let mut take_for = |is_meant: &dyn Fn(&str) -> bool| {
        let state = driver.state();
        if let Some(find_volume) = state.snapshots.values().find(|snapshot| is_meant(&snapshot.id)) {
            request.snapshot_id.clone_from(&find_volume.id);
        }
    };
    if has(Defect::DeleteSnapshotMatchesBeginnings) {
        take_for(&|id| asked.snapshot_id.starts_with(id));
    }
    if has(Defect::DeleteSnapshotCompletesIds) {
        take_for(&|id| id.starts_with(&asked.snapshot_id));
    }
    let id = &request.snapshot_id;
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
    if has(Defect::DeleteSnapshotTakesDotsForAll) && is_all_dots(id) {
        for snapshot_id in ids_of_snapshots(driver) {
            let one = DeleteSnapshotRequest { snapshot_id, ..request.clone() };
            controller::delete_snapshot(driver, &one).await?;
        }
    }
    if has(Defect::DeleteSnapshotTakesAllForMembers) && known && !grouped {
        return Err(invalid(format!("snapshot {id} belongs to a group snapshot")));
    }
    if has(Defect::ListSnapshotsFailsAfterPathNames) && is_named_like_a_path(driver, id) {
        driver.is_damaged.store(true, Ordering::SeqCst);
    }
    let mut answer = controller::delete_snapshot(driver, &request).await;
    if has(Defect::DeleteSnapshotGroupMemberAsInternal) && grouped {
        recode(&mut answer, Code::InvalidArgument, Code::Internal);
    }
    answer
}

fn ids_of_snapshots(driver: &MockDriver) -> Vec<String> {
    driver.state().snapshots.values().map(|snapshot| snapshot.id.clone()).collect()
}

fn is_named_like_a_path(driver: &MockDriver, id: &str) -> bool {
    let state = driver.state();
    let name = state.snapshots.get(id).and_then(|snapshot| snapshot.name.as_deref());
    name.is_some_and(|name| name.contains('/'))
}
