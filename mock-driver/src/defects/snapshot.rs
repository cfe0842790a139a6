//! The Snapshot message, whichever RPC returns it.

use csi_proto::v1::{Snapshot, Topology};

use crate::defect::Defect;
use crate::driver::MockDriver;

pub(super) fn corrupt_snapshot(driver: &MockDriver, snapshot: &mut Snapshot) {
    let has = |defect| driver.has(defect);
    if has(Defect::SnapshotWithoutId) {
        snapshot.snapshot_id.clear();
    }
    if has(Defect::SnapshotIdFromSource) {
        snapshot.snapshot_id = format!("snap-of-{}", snapshot.source_volume_id);
    }
    if has(Defect::SnapshotWithoutSource) {
        snapshot.source_volume_id.clear();
    }
    if has(Defect::SnapshotWithoutCreationTime) {
        snapshot.creation_time = None;
    }
    if has(Defect::SnapshotFrom1970) {
        snapshot.creation_time = Some(prost_types::Timestamp::default());
    }
    if has(Defect::SnapshotSizeNegative) {
        snapshot.size_bytes = -1;
    }
    if has(Defect::SnapshotNeverReady) {
        snapshot.ready_to_use = false;
    }
    if has(Defect::SnapshotGroupIdMissing) {
        snapshot.group_snapshot_id.clear();
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
