//! CreateSnapshot.

use csi_proto::v1;
use tonic::Status;

use super::placement;
use super::snapshot_message::{look_at, snapshot_message};
use crate::defect::Defect;
use crate::driver::{MockDriver, now_ms};
use crate::node::note_written;
use crate::quirk::Quirk;
use crate::state::{Snapshot, State, hash_text};
use crate::validate;

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
