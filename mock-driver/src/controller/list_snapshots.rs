//! ListSnapshots.

use csi_proto::v1;
use csi_proto::v1::list_snapshots_response::Entry;
use tonic::Status;

use super::page;
use super::snapshot_message::{look_at, snapshot_message};
use crate::defect::Defect;
use crate::defects::is_plain;
use crate::driver::MockDriver;
use crate::state::{List, Snapshot};
use crate::validate;

pub(crate) async fn list_snapshots(
    driver: &MockDriver,
    request: &v1::ListSnapshotsRequest,
) -> Result<v1::ListSnapshotsResponse, Status> {
    if driver.has(Defect::ListSnapshotsFailsOnUnusualNames)
        && driver.state().snapshots.values().any(|snapshot| !is_plain(snapshot.name.as_deref()))
    {
        return Err(Status::internal("cannot read the name of a snapshot"));
    }
    let mut max_entries = max_entries(driver, request)?;
    if driver.has(Defect::ListSnapshotsIgnoresMaxEntries) {
        max_entries = 0;
    }
    let token = starting_token(driver, &request.starting_token)?;
    let mut state = driver.state();
    let matches = |snapshot: &Snapshot| matches(driver, request, snapshot);
    let listed = page::page(driver, List::Snapshots, &state.snapshots, &token, max_entries, matches)?;
    let mut next_token = listed.next_token;
    let ids: Vec<String> = listed.rows.iter().map(|snapshot| snapshot.id.clone()).collect();
    let mut entries: Vec<Entry> = ids
        .iter()
        .filter_map(|id| {
            let snapshot = state.snapshots.get_mut(id)?;
            look_at(snapshot);
            Some(entry(driver, snapshot))
        })
        .collect();
    if driver.has(Defect::ListSnapshotsUnknownFilterNotFound)
        && entries.is_empty()
        && !(request.snapshot_id.is_empty() && request.source_volume_id.is_empty())
    {
        return Err(Status::not_found("nothing matches"));
    }
    if driver.has(Defect::ListSnapshotsOnePerSource) && !request.source_volume_id.is_empty() {
        entries.truncate(1);
    }
    if driver.has(Defect::ListSnapshotsSkipsLastOfPage) && !next_token.is_empty() {
        entries.pop();
    }
    if driver.has(Defect::ListSnapshotsNeverSetsNextToken) {
        next_token.clear();
    }
    if driver.has(Defect::ListSnapshotsTokenOnLastPage) && next_token.is_empty() {
        next_token = crate::state::token(List::Snapshots, u64::MAX - 1);
    }
    Ok(v1::ListSnapshotsResponse { entries, next_token })
}

fn max_entries(driver: &MockDriver, request: &v1::ListSnapshotsRequest) -> Result<usize, Status> {
    let given = request.max_entries;
    if driver.has(Defect::ListSnapshotsPanicsOnNegativeMax) && given < 0 {
        panic!("attempt to allocate {given} entries");
    }
    if driver.has(Defect::ListSnapshotsAcceptsNegativeMax) && given < 0 {
        return Ok(0);
    }
    validate::not_negative("max_entries", given)
}

fn starting_token(driver: &MockDriver, given: &str) -> Result<String, Status> {
    let known = crate::state::sequence(List::Snapshots, given).is_some() || given.is_empty();
    if !known && driver.has(Defect::ListSnapshotsAcceptsAnyToken) {
        return Ok(String::new());
    }
    if !known && driver.has(Defect::ListSnapshotsInvalidTokenAsInvalidArgument) {
        return Err(Status::invalid_argument("starting_token is not valid"));
    }
    if driver.has(Defect::ListSnapshotsIgnoresToken) {
        return Ok(String::new());
    }
    Ok(given.to_owned())
}

/// Whether a snapshot passes the filters. One that nothing matches is no error.
fn matches(driver: &MockDriver, request: &v1::ListSnapshotsRequest, snapshot: &Snapshot) -> bool {
    let v1::ListSnapshotsRequest { snapshot_id, source_volume_id, .. } = request;
    let by_id = snapshot_id.is_empty()
        || *snapshot_id == snapshot.id
        || driver.has(Defect::ListSnapshotsIgnoresIdFilter);
    let by_source = source_volume_id.is_empty()
        || *source_volume_id == snapshot.source_volume_id
        || driver.has(Defect::ListSnapshotsIgnoresSourceFilter);
    let hidden = (driver.has(Defect::ListSnapshotsOmitsGroupMembers) && snapshot.group.is_some())
        || (driver.has(Defect::ListSnapshotsHidesUnready) && !super::is_ready(snapshot));
    if driver.has(Defect::ListSnapshotsJoinsFilters)
        && !snapshot_id.is_empty()
        && !source_volume_id.is_empty()
    {
        return *snapshot_id == snapshot.id || *source_volume_id == snapshot.source_volume_id;
    }
    by_id && by_source && !hidden
}

fn entry(driver: &MockDriver, snapshot: &Snapshot) -> Entry {
    let mut message = snapshot_message(driver, snapshot);
    if driver.has(Defect::ListSnapshotsDropsSize) {
        message.size_bytes = 0;
    }
    if driver.has(Defect::ListSnapshotsStaleReady) {
        message.ready_to_use = false;
    }
    let without = driver.has(Defect::ListSnapshotsEntryWithoutSnapshot);
    Entry { snapshot: (!without).then_some(message) }
}
