//! The Snapshot message.

use csi_proto::v1;
use prost_types::Timestamp;

use super::placement;
use crate::driver::{MockDriver, now_ms};
use crate::quirk::Quirk;
use crate::state::Snapshot;

/// Returns whether the snapshot can be a content source.
pub(crate) fn is_ready(snapshot: &Snapshot) -> bool {
    snapshot.polls_left == 0 && snapshot.ready_ms <= now_ms()
}

/// Counts a report of a snapshot that is not ready yet.
pub(crate) fn look_at(snapshot: &mut Snapshot) {
    snapshot.polls_left = snapshot.polls_left.saturating_sub(1);
}

/// The Snapshot message, identical for all RPCs.
pub(crate) fn snapshot_message(driver: &MockDriver, snapshot: &Snapshot) -> v1::Snapshot {
    v1::Snapshot {
        size_bytes: if driver.is(Quirk::SnapshotSizeUnknown) { 0 } else { snapshot.size_bytes },
        snapshot_id: snapshot.id.clone(),
        source_volume_id: snapshot.source_volume_id.clone(),
        creation_time: Some(creation_time(driver, snapshot.created_ms)),
        ready_to_use: is_ready(snapshot),
        group_snapshot_id: snapshot.group.clone().unwrap_or_default(),
        accessible_topology: placement::snapshot_topology(driver, snapshot.zone),
    }
}

/// The creation time of a snapshot or group snapshot.
pub(crate) fn creation_time(driver: &MockDriver, created_ms: u64) -> Timestamp {
    let vague = driver.is(Quirk::CreationTimesVague);
    timestamp(if vague { created_ms / 1000 * 1000 + now_ms() % 1000 } else { created_ms })
}

pub(crate) fn timestamp(ms: u64) -> Timestamp {
    let seconds = i64::try_from(ms / 1000).unwrap_or(i64::MAX);
    let nanos = i32::try_from(ms % 1000 * 1_000_000).unwrap_or_default();
    Timestamp { seconds, nanos }
}
