//! CreateSnapshot, DeleteSnapshot, GetSnapshot and ListSnapshots.

use csi_proto::v1;
use csi_proto::v1::list_snapshots_response::Entry;
use prost_types::Timestamp;
use tonic::Status;

use super::page::{self, List};
use super::placement;
use crate::defect::Defect;
use crate::driver::{MockDriver, now_ms};
use crate::node::note_written;
use crate::quirk::Quirk;
use crate::state::{Snapshot, Source, State, hash_text};
use crate::validate::{self, invalid};

/// The number of times that a snapshot is reported before it is ready, with the quirk that counts them.
const POLLS_UNTIL_READY: u32 = 3;
/// The time until a snapshot is ready, with the quirk or defect that delays it.
const TIME_UNTIL_READY_MS: u64 = 500;
/// The time until a snapshot is ready if a defect hides it until then. It is longer than any caller waits for a list
/// that is late.
const TIME_HIDDEN_MS: u64 = 60_000;

pub(crate) async fn create_snapshot(
    driver: &MockDriver,
    request: &v1::CreateSnapshotRequest,
) -> Result<v1::CreateSnapshotResponse, Status> {
    validate::name(&request.name, driver.name_bytes_max())?;
    validate::map("parameters", &request.parameters)?;
    driver.check_id_format("source_volume_id", &request.source_volume_id, "vol")?;
    let requirement = requirement(driver, request)?;
    let snapshot = driver.change(request, |state| {
        if let Some(existing) = state.snapshots.named_mut(&request.name) {
            if existing.source_volume_id != request.source_volume_id {
                let message = "a snapshot of this name exists with another source_volume_id";
                return Err(Status::already_exists(message));
            }
            if !placement::fulfils(driver, existing.zone, requirement) {
                let message =
                    "a snapshot of this name exists, and cannot be used from the topology asked for";
                return Err(Status::already_exists(message));
            }
            look_at(existing);
            return Ok(snapshot_message(driver, existing));
        }
        let snapshot = make(driver, state, request, requirement)?;
        let message = snapshot_message(driver, &snapshot);
        state.snapshots.insert(snapshot);
        Ok(message)
    });
    Ok(v1::CreateSnapshotResponse { snapshot: Some(snapshot.await?) })
}

/// The topologies from which the snapshot has to be usable, if the driver considers them.
fn requirement<'a>(
    driver: &MockDriver,
    request: &'a v1::CreateSnapshotRequest,
) -> Result<Option<&'a v1::TopologyRequirement>, Status> {
    let requirement = request.accessibility_requirements.as_ref().filter(|_| driver.has_snapshot_topology());
    match requirement {
        Some(given) if given.requisite.is_empty() && given.preferred.is_empty() => {
            Err(validate::invalid("accessibility_requirements has neither requisite nor preferred"))
        }
        requirement => Ok(requirement.filter(|_| placement::constrains_snapshots(driver))),
    }
}

fn make(
    driver: &MockDriver,
    state: &mut State,
    request: &v1::CreateSnapshotRequest,
    requirement: Option<&v1::TopologyRequirement>,
) -> Result<Snapshot, Status> {
    let source = &request.source_volume_id;
    let volume = state.volumes.get(source);
    if volume.is_none() && !driver.has(Defect::CreateSnapshotIgnoresMissingSource) {
        return Err(state.no_source(source));
    }
    if !placement::fulfils(driver, volume.map_or(0, |volume| volume.zone), requirement) {
        return Err(Status::resource_exhausted(
            "the volume cannot be snapshotted to the topologies asked for",
        ));
    }
    if !driver.is(Quirk::UnknownParametersIgnored) {
        validate::known_parameters("parameters", &request.parameters, &driver.config.parameters)?;
    }
    if state.snapshots.len() >= driver.config.objects_max as usize {
        return Err(Status::resource_exhausted("no more snapshots are possible"));
    }
    let id = match driver.is(Quirk::IdsFromNames) {
        true => format!("snap-{:016x}", hash_text(&request.name)),
        false => state.fresh_id("snap"),
    };
    Ok(Snapshot { name: Some(request.name.clone()), ..cut(driver, state, id, source) })
}

/// Takes a snapshot of a volume. Workloads are assumed to have written since the previous one.
pub(crate) fn cut(driver: &MockDriver, state: &mut State, id: String, source_volume_id: &str) -> Snapshot {
    let seed = state.fresh_seed();
    let source = state.volumes.get_mut(source_volume_id);
    let (content, size_bytes, zone) = match source {
        Some(volume) => {
            volume.content.write();
            note_written(volume);
            (volume.content.clone(), volume.capacity_bytes, volume.zone)
        }
        None => (crate::state::Content::new(seed, 1 << 30), 1 << 30, 0),
    };
    let id =
        if driver.has(Defect::SnapshotIdFromSource) { format!("snap-of-{source_volume_id}") } else { id };
    let created_ms = now_ms();
    // A defect that hides snapshots until they are ready needs some that are not.
    let later = if driver.has(Defect::ListSnapshotsHidesUnready) {
        TIME_HIDDEN_MS
    } else if driver.is(Quirk::SnapshotsReadyAfterTime) || driver.has(Defect::GetSnapshotHidesUnready) {
        TIME_UNTIL_READY_MS
    } else {
        0
    };
    Snapshot {
        id,
        name: None,
        source_volume_id: source_volume_id.to_owned(),
        size_bytes,
        created_ms,
        group: None,
        zone,
        content,
        polls_left: if driver.is(Quirk::SnapshotsReadyAfterPolls) { POLLS_UNTIL_READY } else { 0 },
        ready_ms: created_ms + later,
    }
}

pub(crate) async fn delete_snapshot(
    driver: &MockDriver,
    request: &v1::DeleteSnapshotRequest,
) -> Result<v1::DeleteSnapshotResponse, Status> {
    let id = &request.snapshot_id;
    driver.check_id_format("snapshot_id", id, "snap")?;
    let deleted = driver.change(request, |state| {
        // A snapshot that does not exist counts as deleted.
        let Some(snapshot) = state.snapshots.get(id).cloned() else { return Ok(()) };
        if let Some(group) = &snapshot.group
            && !driver.is(Quirk::GroupMembersDeletable)
        {
            return Err(invalid(format!("the snapshot belongs to group snapshot {group}")));
        }
        check_unused(driver, state, id)?;
        if driver.has(Defect::DeleteSnapshotDeletesVolume) {
            state.remove_volume(&snapshot.source_volume_id);
        }
        if driver.has(Defect::DeleteSnapshotKeepsSnapshot) {
            return Ok(());
        }
        state.snapshots.remove(id);
        if let Some(group) = snapshot.group.and_then(|group| state.groups.get_mut(&group)) {
            group.snapshot_ids.retain(|member| member != id);
        }
        Ok(())
    });
    deleted.await?;
    Ok(v1::DeleteSnapshotResponse {})
}

/// Returns FAILED_PRECONDITION if volumes depend on the snapshot. Copies are complete, so this only happens with a
/// quirk.
pub(crate) fn check_unused(driver: &MockDriver, state: &State, id: &str) -> Result<(), Status> {
    match driver.is(Quirk::CopiesPinSnapshots) && has_copies(state, id) {
        true => Err(Status::failed_precondition(format!("volumes made from snapshot {id} exist"))),
        false => Ok(()),
    }
}

/// Returns whether volumes were created from the snapshot.
pub(crate) fn has_copies(state: &State, id: &str) -> bool {
    let copied = Source::Snapshot(id.to_owned());
    state.volumes.values().any(|volume| volume.source.as_ref() == Some(&copied))
}

pub(crate) async fn get_snapshot(
    driver: &MockDriver,
    request: &v1::GetSnapshotRequest,
) -> Result<v1::GetSnapshotResponse, Status> {
    let id = &request.snapshot_id;
    driver.check_id_format("snapshot_id", id, "snap")?;
    let mut state = driver.state();
    let snapshot = state.snapshots.get_mut(id);
    let snapshot = snapshot.ok_or_else(|| Status::not_found(format!("snapshot {id} does not exist")))?;
    look_at(snapshot);
    Ok(v1::GetSnapshotResponse { snapshot: Some(snapshot_message(driver, snapshot)) })
}

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
