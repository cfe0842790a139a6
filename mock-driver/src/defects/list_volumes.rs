//! ListVolumes.

use csi_proto::v1::list_volumes_response::Entry;
use csi_proto::v1::{ListVolumesRequest, ListVolumesResponse, Volume};
use tonic::Status;

use super::overlap::crash_if_creating;
use super::side_effects::check_token;
use super::volume::{corrupt_condition, corrupt_volume};
use super::{Change, apply, host, is_plain};
use crate::controller;
use crate::controller::{List, sequence, token};
use crate::defect::Defect;
use crate::driver::MockDriver;

/// The number of calls after which a defect forgets a listing.
const CALLS_KEPT: u32 = 100;

pub(crate) async fn list_volumes(
    driver: &MockDriver,
    original: &ListVolumesRequest,
) -> Result<ListVolumesResponse, Status> {
    if driver.has(Defect::ListVolumesFailsOnUnusualNames)
        && driver.state().volumes.values().any(|volume| !is_plain(volume.name.as_deref()))
    {
        return Err(Status::internal("cannot read the name of a volume"));
    }
    if driver.has(Defect::ListVolumesFailsWhileEmpty)
        && driver.state().volumes.values().all(|volume| volume.name.is_none())
    {
        return Err(Status::internal("no volumes found"));
    }
    crash_if_creating(driver);
    host::before_list_volumes(driver, &original.starting_token);
    let calls = driver.next_number();
    let mut request = original.clone();
    if driver.has(Defect::ListVolumesKeepsFewListings)
        && let Some((token, number)) = original.starting_token.rsplit_once('.')
    {
        if number.parse().is_ok_and(|number: u32| calls.saturating_sub(number) > CALLS_KEPT) {
            return Err(Status::internal("no such listing"));
        }
        request.starting_token = token.to_owned();
    }
    let behind_deleted = Defect::ListVolumesFailsBehindDeleted;
    check_token(driver, behind_deleted, List::Volumes, &driver.state().volumes, &original.starting_token)?;
    alter_request(driver, &mut request);
    let mut response = controller::list_volumes(driver, &request).await?;
    response.entries.iter_mut().for_each(|entry| corrupt_entry(driver, entry));
    corrupt_reply(driver, original, &mut response);
    if driver.has(Defect::ListVolumesKeepsFewListings) && !response.next_token.is_empty() {
        response.next_token.push_str(&format!(".{calls}"));
    }
    Ok(response)
}

fn alter_request(driver: &MockDriver, request: &mut ListVolumesRequest) {
    let has = |defect| driver.has(defect);
    let (given, max_entries) = (&request.starting_token, request.max_entries);
    if has(Defect::ListVolumesPanicsOnNegativeMax) && max_entries < 0 {
        panic!("attempt to allocate {max_entries} entries");
    }
    if has(Defect::ListVolumesPanicsOnNumericToken) && given.parse::<i64>().is_ok() {
        panic!("index {given} out of range");
    }
    let known = given.is_empty() || sequence(List::Volumes, given).is_some();
    if has(Defect::ListVolumesIgnoresToken) || (has(Defect::ListVolumesAcceptsAnyToken) && !known) {
        request.starting_token.clear();
    }
    if has(Defect::ListVolumesPagesOverlap)
        && max_entries != 1
        && let Some(last) = sequence(List::Volumes, &request.starting_token)
    {
        request.starting_token = token(List::Volumes, last.saturating_sub(1));
    }
    if has(Defect::ListVolumesAcceptsNegativeMax) && max_entries < 0 {
        request.max_entries = 0;
    }
    if has(Defect::ListVolumesIgnoresMaxEntries) && max_entries > 0 {
        request.max_entries = 0;
    }
    if has(Defect::ListVolumesOneEntryTooMany) && max_entries > 0 {
        request.max_entries = max_entries.saturating_add(1);
    }
}

fn corrupt_entry(driver: &MockDriver, entry: &mut Entry) {
    let has = |defect| driver.has(defect);
    if has(Defect::ListVolumesOmitsStatus) {
        entry.status = None;
    }
    if let Some(status) = &mut entry.status {
        corrupt_condition(driver, status.volume_condition.as_mut());
        if has(Defect::ListVolumesOmitsPublishedNodes) {
            status.published_node_ids.clear();
        }
        if has(Defect::ListVolumesOmitsCondition) {
            status.volume_condition = None;
        }
    }
    if let Some(volume) = &mut entry.volume {
        corrupt_volume(driver, volume);
        let changes: &[Change<Volume>] = &[
            (Defect::ListVolumesDropsContext, |volume| volume.volume_context.clear()),
            (Defect::ListVolumesStaleCapacity, |volume| volume.capacity_bytes /= 2),
            (Defect::ListVolumesEntryWithoutVolumeId, |volume| volume.volume_id.clear()),
        ];
        apply(driver, volume, changes);
    }
}

fn corrupt_reply(driver: &MockDriver, original: &ListVolumesRequest, response: &mut ListVolumesResponse) {
    let has = |defect| driver.has(defect);
    let ListVolumesResponse { entries, next_token } = response;
    if has(Defect::ListVolumesLacksNewest)
        && let Some((_, newest)) = driver.state().volumes.after(0).last()
    {
        entries.retain(|entry| entry.volume.as_ref().is_none_or(|listed| listed.volume_id != newest.id));
    }
    if has(Defect::ListVolumesOmitsCopies) {
        entries.retain(|entry| entry.volume.as_ref().is_none_or(|volume| volume.content_source.is_none()));
    }
    if has(Defect::ListVolumesEntryWithoutVolume) {
        entries.iter_mut().for_each(|entry| entry.volume = None);
    }
    if has(Defect::ListVolumesSkipsLastOfPage) && !next_token.is_empty() {
        entries.pop();
    }
    if has(Defect::ListVolumesRepeatsFirstEntry) && !original.starting_token.is_empty() {
        entries.extend(entries.first().cloned());
    }
    if has(Defect::ListVolumesNeverSetsNextToken) {
        next_token.clear();
    }
    if has(Defect::ListVolumesTokenOnLastPage) && next_token.is_empty() {
        *next_token = token(List::Volumes, u64::MAX - 1);
    }
    if has(Defect::ListVolumesEmpty) {
        entries.clear();
        next_token.clear();
    }
    if has(Defect::ListVolumesZeroMaxMeansOne) && original.max_entries == 0 && next_token.is_empty() {
        entries.truncate(1);
    }
}
