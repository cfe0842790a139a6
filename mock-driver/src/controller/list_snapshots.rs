//! ListSnapshots.

use csi_proto::v1;
use csi_proto::v1::list_snapshots_response::Entry;
use tonic::Status;

use super::page;
use super::snapshot_message::{look_at, snapshot_message};
use crate::driver::MockDriver;
use crate::state::{List, Snapshot};
use crate::validate;

pub(crate) async fn list_snapshots(
    driver: &MockDriver,
    request: &v1::ListSnapshotsRequest,
) -> Result<v1::ListSnapshotsResponse, Status> {
    let max_entries = validate::not_negative("max_entries", request.max_entries)?;
    let token = &request.starting_token;
    let mut state = driver.state();
    let listed = page::page(driver, List::Snapshots, &state.snapshots, token, max_entries, |snapshot| {
        matches(request, snapshot) && driver.shows(snapshot.created_ms)
    })?;
    let next_token = listed.next_token;
    let ids: Vec<String> = listed.rows.iter().map(|snapshot| snapshot.id.clone()).collect();
    let mut entry = |id: &String| {
        let snapshot = state.snapshots.get_mut(id)?;
        look_at(snapshot);
        Some(Entry { snapshot: Some(snapshot_message(driver, snapshot)) })
    };
    let entries = ids.iter().filter_map(&mut entry).collect();
    Ok(v1::ListSnapshotsResponse { entries, next_token })
}

/// Returns whether a snapshot matches the filters. It is no error if none does.
fn matches(request: &v1::ListSnapshotsRequest, snapshot: &Snapshot) -> bool {
    let v1::ListSnapshotsRequest { snapshot_id, source_volume_id, .. } = request;
    (snapshot_id.is_empty() || *snapshot_id == snapshot.id)
        && (source_volume_id.is_empty() || *source_volume_id == snapshot.source_volume_id)
}
