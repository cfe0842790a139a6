//! Snapshots, whichever RPC reports them.

use csi_proto::v1::Snapshot;

use crate::defect::Defect;
use crate::driver::MockDriver;

pub(super) fn spoil_snapshot(driver: &MockDriver, snapshot: &mut Snapshot) {
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
}
