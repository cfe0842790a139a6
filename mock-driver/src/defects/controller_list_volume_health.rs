//! ControllerListVolumeHealth.

use csi_proto::v1::{
    ControllerListVolumeHealthRequest, ControllerListVolumeHealthResponse, VolumeHealth,
    VolumeHealthErrorType,
};
use tonic::Status;

use super::health::corrupt_health;
use crate::controller;
use crate::controller::{List, sequence, token};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::health::entry;

pub(crate) async fn controller_list_volume_health(
    driver: &MockDriver,
    original: &ControllerListVolumeHealthRequest,
) -> Result<ControllerListVolumeHealthResponse, Status> {
    let has = |defect| driver.has(defect);
    let mut request = original.clone();
    let known =
        original.starting_token.is_empty() || sequence(List::Health, &original.starting_token).is_some();
    if has(Defect::ControllerListVolumeHealthAcceptsAnyToken) && !known {
        request.starting_token.clear();
    }
    if has(Defect::ControllerListVolumeHealthRefusesItsTokens) && !original.starting_token.is_empty() {
        return Err(Status::aborted("the list has changed"));
    }
    if has(Defect::ControllerListVolumeHealthLosesPageEnds)
        && let Some(response) = without_page_ends(driver, original)
    {
        return Ok(response);
    }
    let is_negative = original.max_entries < 0;
    if (has(Defect::ControllerListVolumeHealthAcceptsNegativeMax) && is_negative)
        || (has(Defect::ControllerListVolumeHealthIgnoresMaxEntries) && !is_negative)
    {
        request.max_entries = 0;
    }
    let mut response = controller::controller_list_volume_health(driver, &request).await?;
    corrupt_reply(driver, original, &mut response);
    Ok(response)
}

fn corrupt_reply(
    driver: &MockDriver,
    original: &ControllerListVolumeHealthRequest,
    response: &mut ControllerListVolumeHealthResponse,
) {
    let has = |defect| driver.has(defect);
    let ControllerListVolumeHealthResponse { entries, next_token } = response;
    let first = original.starting_token.is_empty();
    if has(Defect::ControllerListVolumeHealthInverted) {
        let degraded = entry(VolumeHealthErrorType::Degraded, "Degraded", "");
        *entries = well(driver, entries);
        entries.iter_mut().for_each(|health| health.health_statuses.push(degraded.clone()));
    }
    let lists_all = has(Defect::ControllerListVolumeHealthListsHealthy)
        || has(Defect::ControllerListVolumeHealthLosesPageEnds);
    if lists_all && first {
        let well = well(driver, entries);
        entries.extend(well);
    }
    if has(Defect::ControllerListVolumeHealthKeepsDeleted) && first {
        entries.extend(driver.stale_health.lock().values().cloned());
    }
    entries.iter_mut().for_each(|health| corrupt_health(driver, health));
    if has(Defect::ControllerListVolumeHealthOtherReasons) {
        let statuses = entries.iter_mut().flat_map(|health| &mut health.health_statuses);
        statuses.for_each(|status| status.reason.insert_str(0, "Listed"));
    }
    if has(Defect::ControllerListVolumeHealthTwoEntries) {
        entries.extend_from_within(..);
    }
    if has(Defect::ControllerListVolumeHealthNeverSetsNextToken) {
        next_token.clear();
    }
    if has(Defect::ControllerListVolumeHealthTokenOnLastPage) && next_token.is_empty() {
        *next_token = token(List::Health, u64::MAX - 1);
    }
}

/// A page of all volumes, after which the next page skips one entry.
fn without_page_ends(
    driver: &MockDriver,
    original: &ControllerListVolumeHealthRequest,
) -> Option<ControllerListVolumeHealthResponse> {
    let length = usize::try_from(original.max_entries).ok().filter(|length| *length > 0)?;
    let first = match original.starting_token.as_str() {
        "" => 0,
        given => usize::try_from(sequence(List::Health, given)?).ok()?,
    };
    let all = well(driver, &[]);
    let entries: Vec<VolumeHealth> = all.iter().skip(first).take(length).cloned().collect();
    let next = first + length + 1;
    let more = next < all.len();
    let next_token = if more { token(List::Health, next as u64) } else { String::new() };
    Some(ControllerListVolumeHealthResponse { entries, next_token })
}

/// The volumes that the list does not contain, with good health.
fn well(driver: &MockDriver, listed: &[VolumeHealth]) -> Vec<VolumeHealth> {
    let state = driver.state();
    let others =
        state.volumes.values().filter(|volume| listed.iter().all(|health| health.volume_id != volume.id));
    others.map(|volume| VolumeHealth { volume_id: volume.id.clone(), health_statuses: Vec::new() }).collect()
}
