//! CreateSnapshot.

use csi_proto::v1;
use tonic::Status;

use super::snapshot_message::{look_at, snapshot_message};
use crate::defect::Defect;
use crate::driver::{MockDriver, now_ms};
use crate::quirk::Quirk;
use crate::state::{Snapshot, State, hash_text};
use crate::validate;

/// Looks at a snapshot until it is ready, where the quirk counts them.
const POLLS_UNTIL_READY: u32 = 3;
/// Time until a snapshot is ready, where the quirk takes its time.
const TIME_UNTIL_READY_MS: u64 = 500;

pub(crate) async fn create_snapshot(
    driver: &MockDriver,
    request: &v1::CreateSnapshotRequest,
) -> Result<v1::CreateSnapshotResponse, Status> {
    parse(driver, request)?;
    let mut state = driver.state();
    let known = state.snapshots.named(&request.name).map(|snapshot| snapshot.id.clone());
    let known = known.filter(|_| !driver.has(Defect::CreateSnapshotForgetsNames));
    if let Some(existing) = known.and_then(|id| state.snapshots.get_mut(&id)) {
        look_at(existing);
        return repeated(driver, existing, request);
    }
    if state.volumes.get(&request.source_volume_id).is_none() {
        if driver.has(Defect::CreateSnapshotUnknownSourceAsInternal) {
            return Err(Status::internal("the source has no record"));
        }
        if !driver.has(Defect::CreateSnapshotIgnoresMissingSource) {
            return Err(Status::not_found(format!(
                "source volume {} does not exist",
                request.source_volume_id
            )));
        }
    }
    if !driver.is(Quirk::UnknownParametersIgnored)
        && !driver.has(Defect::CreateSnapshotIgnoresUnknownParameters)
    {
        validate::known_parameters("parameters", &request.parameters, &driver.config.parameters)?;
    }
    if state.snapshots.len() >= driver.config.objects_max as usize {
        return Err(Status::resource_exhausted("no more snapshots are possible"));
    }
    let id = match driver.is(Quirk::IdsFromNames) {
        true => format!("snap-{:016x}", hash_text(&request.name)),
        false => state.fresh_id("snap"),
    };
    let snapshot = cut(driver, &mut state, id, &request.source_volume_id);
    let snapshot = Snapshot { name: Some(request.name.clone()), ..snapshot };
    let message = snapshot_message(driver, &snapshot);
    state.snapshots.insert(snapshot);
    if driver.has(Defect::CreateSnapshotAnswersWithoutSnapshot) {
        return Ok(v1::CreateSnapshotResponse::default());
    }
    Ok(v1::CreateSnapshotResponse { snapshot: Some(message) })
}

fn parse(driver: &MockDriver, request: &v1::CreateSnapshotRequest) -> Result<(), Status> {
    let name_missing = request.name.is_empty() && driver.has(Defect::CreateSnapshotAcceptsEmptyName);
    if driver.has(Defect::CreateSnapshotRefusesLongNames) && request.name.len() > 63 {
        return Err(validate::invalid("name is longer than 63 bytes"));
    }
    if driver.has(Defect::CreateSnapshotRefusesUnicodeNames) && !request.name.is_ascii() {
        return Err(validate::invalid("name is not ASCII"));
    }
    if !name_missing {
        let long = driver.is(Quirk::LongNamesAccepted);
        let bytes_max = driver.config.name_bytes_max;
        validate::name(&request.name, if long { bytes_max.max(4096) } else { bytes_max })?;
    }
    validate::map("parameters", &request.parameters)?;
    let source_missing = request.source_volume_id.is_empty();
    if source_missing && driver.has(Defect::CreateSnapshotEmptySourceAsNotFound) {
        return Err(Status::not_found("the source volume does not exist"));
    }
    driver.check_id_format("source_volume_id", &request.source_volume_id, "vol")
}

/// A snapshot of this name exists; it is the one asked for if it has the same source.
fn repeated(
    driver: &MockDriver,
    existing: &Snapshot,
    request: &v1::CreateSnapshotRequest,
) -> Result<v1::CreateSnapshotResponse, Status> {
    let other_source = existing.source_volume_id != request.source_volume_id;
    if other_source && !driver.has(Defect::CreateSnapshotIgnoresSourceConflict) {
        let message = "a snapshot of this name exists with another source_volume_id";
        return Err(match driver.has(Defect::CreateSnapshotConflictAsInternal) {
            true => Status::internal(message),
            false => Status::already_exists(message),
        });
    }
    if driver.has(Defect::CreateSnapshotRefusesRepeats) {
        return Err(Status::already_exists("a snapshot of this name exists"));
    }
    let mut message = snapshot_message(driver, existing);
    if driver.has(Defect::CreateSnapshotRepeatChangesTime) {
        message.creation_time = Some(super::snapshot_message::timestamp(now_ms() + 1000));
    }
    if driver.has(Defect::CreateSnapshotRepeatDropsSize) {
        message.size_bytes = 0;
    }
    if driver.has(Defect::CreateSnapshotRepeatNotReady) {
        message.ready_to_use = false;
    }
    if driver.has(Defect::CreateSnapshotRepeatChangesId) {
        message.snapshot_id.push_str("-0");
    }
    Ok(v1::CreateSnapshotResponse { snapshot: Some(message) })
}

/// Makes a snapshot of a volume as it is now. Workloads have written since the last one.
pub(crate) fn cut(driver: &MockDriver, state: &mut State, id: String, source_volume_id: &str) -> Snapshot {
    let seed = state.fresh_seed();
    let source = state.volumes.get_mut(source_volume_id);
    let (content, size_bytes) = match source {
        Some(volume) => {
            volume.content.write();
            (volume.content.clone(), volume.capacity_bytes)
        }
        None => (crate::state::Content::new(seed, 1 << 30), 1 << 30),
    };
    let created_ms = now_ms();
    let later = if driver.is(Quirk::SnapshotsReadyAfterTime) { TIME_UNTIL_READY_MS } else { 0 };
    Snapshot {
        id,
        name: None,
        source_volume_id: source_volume_id.to_owned(),
        size_bytes,
        created_ms,
        group: None,
        content,
        polls_left: if driver.is(Quirk::SnapshotsReadyAfterPolls) { POLLS_UNTIL_READY } else { 0 },
        ready_ms: created_ms + later,
    }
}
