//! GetSnapshot and DeleteSnapshot, and the Snapshot message of all RPCs.

use std::sync::atomic::Ordering;

use csi_proto::v1::{
    DeleteSnapshotRequest, DeleteSnapshotResponse, GetSnapshotRequest, GetSnapshotResponse, Snapshot,
    Topology,
};
use tonic::{Code, Status};

use super::{Change, apply, forgive, host, is_all_dots, recode};
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::validate::invalid;

pub(super) fn corrupt_snapshot(driver: &MockDriver, snapshot: &mut Snapshot) {
    let changes: &[Change<Snapshot>] = &[
        (Defect::SnapshotWithoutId, |snapshot| snapshot.snapshot_id.clear()),
        (Defect::SnapshotWithoutSource, |snapshot| snapshot.source_volume_id.clear()),
        (Defect::SnapshotWithoutCreationTime, |snapshot| snapshot.creation_time = None),
        (Defect::SnapshotSizeNegative, |snapshot| snapshot.size_bytes = -1),
        (Defect::SnapshotNeverReady, |snapshot| snapshot.ready_to_use = false),
        (Defect::SnapshotGroupIdMissing, |snapshot| snapshot.group_snapshot_id.clear()),
    ];
    apply(driver, snapshot, changes);
    if driver.has(Defect::SnapshotFrom1970) {
        snapshot.creation_time = Some(prost_types::Timestamp::default());
    }
    if !snapshot.accessible_topology.is_empty() {
        corrupt_topology(driver, &mut snapshot.accessible_topology);
    }
}

fn corrupt_topology(driver: &MockDriver, places: &mut Vec<Topology>) {
    let has = |defect| driver.has(defect);
    if has(Defect::SnapshotTopologyElsewhere) {
        let is_elsewhere = |zone: &&_| places.iter().all(|place| place.segments != **zone);
        if let Some(segments) = driver.zones.iter().find(is_elsewhere) {
            *places = vec![Topology { segments: segments.clone() }];
        }
    }
    if has(Defect::SnapshotTopologyEmptyEntry) {
        places.push(Topology::default());
    }
    if has(Defect::SnapshotTopologyKeyInvalid) {
        let odd = ("mock.example/zone/room".to_owned(), "r1".to_owned());
        places.iter_mut().for_each(|place| place.segments.extend([odd.clone()]));
    }
}

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

pub(crate) async fn delete_snapshot(
    driver: &MockDriver,
    original: &DeleteSnapshotRequest,
) -> Result<DeleteSnapshotResponse, Status> {
    let has = |defect| driver.has(defect);
    host::before_delete_snapshot(driver, original);
    let mut request = original.clone();
    let mut take_for = |is_meant: &dyn Fn(&str) -> bool| {
        let state = driver.state();
        if let Some(found) = state.snapshots.values().find(|snapshot| is_meant(&snapshot.id)) {
            request.snapshot_id.clone_from(&found.id);
        }
    };
    if has(Defect::DeleteSnapshotMatchesBeginnings) {
        take_for(&|id| original.snapshot_id.starts_with(id));
    }
    if has(Defect::DeleteSnapshotCompletesIds) {
        take_for(&|id| id.starts_with(&original.snapshot_id));
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
    if has(Defect::DeleteSnapshotTakesVolumeIds) {
        driver.state().remove_volume(id);
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
