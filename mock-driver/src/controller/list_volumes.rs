//! ListVolumes.

use csi_proto::v1;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_proto::v1::list_volumes_response::{Entry, VolumeStatus};
use tonic::Status;

use super::page;
use super::volume_message::{condition, published_node_ids, volume_message};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::state::{List, Volume};
use crate::validate;

pub(crate) fn list_volumes(
    driver: &MockDriver,
    request: &v1::ListVolumesRequest,
) -> Result<v1::ListVolumesResponse, Status> {
    let mut max_entries = max_entries(driver, request)?;
    if driver.has(Defect::ListVolumesIgnoresMaxEntries) {
        max_entries = 0;
    }
    if driver.has(Defect::ListVolumesOneEntryTooMany) && max_entries > 0 {
        max_entries += 1;
    }
    let mut state = driver.state();
    let lingering = if request.starting_token.is_empty() { state.lingering() } else { Vec::new() };
    let starting_token = starting_token(driver, &request.starting_token)?;
    let listed = page::page(driver, List::Volumes, &state.volumes, &starting_token, max_entries, |volume| {
        !(driver.has(Defect::ListVolumesOmitsCopies) && volume.source.is_some())
    })?;
    let mut entries: Vec<Entry> = listed.rows.iter().map(|volume| entry(driver, volume)).collect();
    let room = if max_entries == 0 { usize::MAX } else { max_entries - entries.len() };
    entries.extend(lingering.iter().take(room).map(|volume| entry(driver, volume)));
    let mut next_token = listed.next_token;
    spoil(driver, request, &mut entries, &mut next_token);
    Ok(v1::ListVolumesResponse { entries, next_token })
}

fn max_entries(driver: &MockDriver, request: &v1::ListVolumesRequest) -> Result<usize, Status> {
    let given = request.max_entries;
    if driver.has(Defect::ListVolumesPanicsOnNegativeMax) && given < 0 {
        panic!("attempt to allocate {given} entries");
    }
    if driver.has(Defect::ListVolumesAcceptsNegativeMax) && given < 0 {
        return Ok(0);
    }
    validate::not_negative("max_entries", given)
}

fn starting_token(driver: &MockDriver, given: &str) -> Result<String, Status> {
    if driver.has(Defect::ListVolumesPanicsOnNumericToken) && given.parse::<i64>().is_ok() {
        panic!("index {given} out of range");
    }
    let known = crate::state::sequence(List::Volumes, given).is_some() || given.is_empty();
    if !known && driver.has(Defect::ListVolumesAcceptsAnyToken) {
        return Ok(String::new());
    }
    if !known && driver.has(Defect::ListVolumesInvalidTokenAsInvalidArgument) {
        return Err(Status::invalid_argument("starting_token is not valid"));
    }
    if driver.has(Defect::ListVolumesIgnoresToken) {
        return Ok(String::new());
    }
    Ok(given.to_owned())
}

fn entry(driver: &MockDriver, volume: &Volume) -> Entry {
    let reported = driver.controller_can(ControllerType::ListVolumesPublishedNodes)
        || driver.controller_can(ControllerType::VolumeCondition);
    let mut status = reported.then(|| VolumeStatus {
        published_node_ids: published_node_ids(driver, volume),
        volume_condition: condition(driver, volume),
    });
    if driver.has(Defect::ListVolumesOmitsStatus) {
        status = None;
    }
    if let Some(status) = &mut status {
        if driver.has(Defect::ListVolumesOmitsPublishedNodes) {
            status.published_node_ids.clear();
        }
        if driver.has(Defect::ListVolumesOmitsCondition) {
            status.volume_condition = None;
        }
    }
    let mut message = volume_message(driver, volume);
    if driver.has(Defect::ListVolumesDropsContext) {
        message.volume_context.clear();
    }
    if driver.has(Defect::ListVolumesStaleCapacity) {
        message.capacity_bytes /= 2;
    }
    if driver.has(Defect::ListVolumesEntryWithoutVolumeId) {
        message.volume_id.clear();
    }
    let hidden = driver.has(Defect::ListVolumesEntryWithoutVolume);
    Entry { volume: (!hidden).then_some(message), status }
}

/// What defects do to the answer as a whole.
fn spoil(
    driver: &MockDriver,
    request: &v1::ListVolumesRequest,
    entries: &mut Vec<Entry>,
    next_token: &mut String,
) {
    if driver.has(Defect::ListVolumesSkipsLastOfPage) && !next_token.is_empty() {
        entries.pop();
    }
    if driver.has(Defect::ListVolumesRepeatsFirstEntry) && !request.starting_token.is_empty() {
        entries.extend(entries.first().cloned());
    }
    if driver.has(Defect::ListVolumesNeverSetsNextToken) {
        next_token.clear();
    }
    if driver.has(Defect::ListVolumesTokenOnLastPage) && next_token.is_empty() {
        *next_token = crate::state::token(List::Volumes, u64::MAX - 1);
    }
    if driver.has(Defect::ListVolumesEmpty) {
        entries.clear();
        next_token.clear();
    }
    if driver.has(Defect::ListVolumesZeroMaxMeansOne) && request.max_entries == 0 && next_token.is_empty() {
        entries.truncate(1);
    }
}
