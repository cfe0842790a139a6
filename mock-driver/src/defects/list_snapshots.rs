//! ListSnapshots.

use std::sync::atomic::Ordering;

use csi_proto::v1::list_snapshots_response::Entry;
use csi_proto::v1::{ListSnapshotsRequest, ListSnapshotsResponse, Snapshot};
use tonic::Status;

use super::side_effects::check_token;
use super::snapshot::corrupt_snapshot;
use super::{Change, apply, is_plain};
use crate::controller;
use crate::controller::{List, sequence, token};
use crate::defect::Defect;
use crate::driver::MockDriver;

/// The position at which a defect splits a token.
const TOKEN_BYTES: usize = 16;

pub(crate) async fn list_snapshots(
    driver: &MockDriver,
    original: &ListSnapshotsRequest,
) -> Result<ListSnapshotsResponse, Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::ListSnapshotsFailsOnUnusualNames)
        && driver.state().snapshots.values().any(|snapshot| !is_plain(snapshot.name.as_deref()))
    {
        return Err(Status::internal("cannot read the name of a snapshot"));
    }
    if has(Defect::ListSnapshotsFailsWhileEmpty) && driver.state().snapshots.values().next().is_none() {
        return Err(Status::internal("no snapshots found"));
    }
    if has(Defect::ListSnapshotsFailsAfterPathNames) && driver.is_damaged.load(Ordering::SeqCst) {
        return Err(Status::unknown("no metadata in an empty directory"));
    }
    if has(Defect::ListSnapshotsInternalOnOtherTokens)
        && sequence(List::Volumes, &original.starting_token).is_some()
    {
        return Err(Status::internal("the snapshot of the token does not exist"));
    }
    if has(Defect::ListSnapshotsForgetsTokens) && !original.starting_token.is_empty() {
        return Err(Status::aborted("the listing is over"));
    }
    let mut request = original.clone();
    let behind_deleted = Defect::ListSnapshotsFailsBehindDeleted;
    check_token(
        driver,
        behind_deleted,
        List::Snapshots,
        &driver.state().snapshots,
        &original.starting_token,
    )?;
    alter_request(driver, &mut request);
    let mut response = controller::list_snapshots(driver, &request).await?;
    if has(Defect::ListSnapshotsFindsVolumes)
        && let Some(volume) = driver.state().volumes.get(&original.snapshot_id)
    {
        let (snapshot_id, source_volume_id) = (volume.id.clone(), volume.id.clone());
        let snapshot = Snapshot { snapshot_id, source_volume_id, ready_to_use: true, ..Default::default() };
        response.entries.push(Entry { snapshot: Some(snapshot) });
    }
    let filtered = !original.snapshot_id.is_empty() || !original.source_volume_id.is_empty();
    if has(Defect::ListSnapshotsUnknownFilterNotFound) && filtered && response.entries.is_empty() {
        return Err(Status::not_found("nothing matches"));
    }
    corrupt_reply(driver, original, &mut response);
    Ok(response)
}

fn alter_request(driver: &MockDriver, request: &mut ListSnapshotsRequest) {
    let has = |defect| driver.has(defect);
    let max_entries = request.max_entries;
    let is_empty = driver.state().snapshots.values().next().is_none();
    if has(Defect::ListSnapshotsPanicsOnNegativeMax) && max_entries < 0 && !is_empty {
        panic!("attempt to allocate {max_entries} entries");
    }
    if has(Defect::ListSnapshotsPanicsOnNumericToken)
        && request.starting_token.parse::<u64>().is_ok()
        && !is_empty
    {
        panic!("index {} out of range", request.starting_token);
    }
    if has(Defect::ListSnapshotsCutsLettersOfTokens) && request.starting_token.len() > TOKEN_BYTES {
        // This panics in the middle of a character.
        let _ = request.starting_token.split_at(TOKEN_BYTES);
    }
    if (has(Defect::ListSnapshotsAcceptsNegativeMax) && max_entries < 0)
        || (has(Defect::ListSnapshotsIgnoresMaxEntries) && max_entries > 0)
    {
        request.max_entries = 0;
    }
    let given = &request.starting_token;
    let known = given.is_empty() || sequence(List::Snapshots, given).is_some();
    if has(Defect::ListSnapshotsIgnoresToken) || (has(Defect::ListSnapshotsAcceptsAnyToken) && !known) {
        request.starting_token.clear();
    }
    if has(Defect::ListSnapshotsPagesOverlap)
        && max_entries != 1
        && let Some(last) = sequence(List::Snapshots, &request.starting_token)
    {
        request.starting_token = token(List::Snapshots, last.saturating_sub(1));
    }
    if has(Defect::ListSnapshotsIgnoresIdFilter) {
        request.snapshot_id.clear();
    }
    if has(Defect::ListSnapshotsIgnoresSourceFilter) {
        request.source_volume_id.clear();
    }
    let both = !request.snapshot_id.is_empty() && !request.source_volume_id.is_empty();
    if has(Defect::ListSnapshotsJoinsFilters) && both {
        // Entries that match either filter are selected from the whole list afterwards.
        request.snapshot_id.clear();
        request.source_volume_id.clear();
    }
}

fn corrupt_reply(driver: &MockDriver, original: &ListSnapshotsRequest, response: &mut ListSnapshotsResponse) {
    let has = |defect| driver.has(defect);
    let ListSnapshotsResponse { entries, next_token } = response;
    entries.retain(|entry| !is_hidden(driver, original, entry));
    if has(Defect::ListSnapshotsLacksNewest)
        && let Some((_, newest)) = driver.state().snapshots.after(0).last()
    {
        entries.retain(|entry| entry.snapshot.as_ref().is_none_or(|listed| listed.snapshot_id != newest.id));
    }
    if has(Defect::ListSnapshotsOnePerSource) && !original.source_volume_id.is_empty() {
        entries.truncate(1);
    }
    if has(Defect::ListSnapshotsSkipsLastOfPage) && !next_token.is_empty() {
        entries.pop();
    }
    entries.iter_mut().for_each(|entry| corrupt_entry(driver, entry));
    if has(Defect::ListSnapshotsNeverSetsNextToken) {
        next_token.clear();
    }
    if has(Defect::ListSnapshotsTokenOnLastPage) && next_token.is_empty() {
        *next_token = token(List::Snapshots, u64::MAX - 1);
    }
}

fn is_hidden(driver: &MockDriver, original: &ListSnapshotsRequest, entry: &Entry) -> bool {
    let has = |defect| driver.has(defect);
    let Some(snapshot) = &entry.snapshot else { return false };
    let joined = has(Defect::ListSnapshotsJoinsFilters)
        && !original.snapshot_id.is_empty()
        && !original.source_volume_id.is_empty();
    let passes = snapshot.snapshot_id == original.snapshot_id
        || snapshot.source_volume_id == original.source_volume_id;
    (has(Defect::ListSnapshotsOmitsGroupMembers) && !snapshot.group_snapshot_id.is_empty())
        || (has(Defect::ListSnapshotsHidesUnready) && !snapshot.ready_to_use)
        || (joined && !passes)
}

fn corrupt_entry(driver: &MockDriver, entry: &mut Entry) {
    if let Some(snapshot) = &mut entry.snapshot {
        corrupt_snapshot(driver, snapshot);
        let changes: &[Change<Snapshot>] = &[
            (Defect::ListSnapshotsOmitsTopology, |snapshot| snapshot.accessible_topology.clear()),
            (Defect::ListSnapshotsHalvesSize, |snapshot| snapshot.size_bytes /= 2),
            (Defect::ListSnapshotsDropsSize, |snapshot| snapshot.size_bytes = 0),
            (Defect::ListSnapshotsStaleReady, |snapshot| snapshot.ready_to_use = false),
        ];
        apply(driver, snapshot, changes);
    }
    if driver.has(Defect::ListSnapshotsEntryWithoutSnapshot) {
        entry.snapshot = None;
    }
}
