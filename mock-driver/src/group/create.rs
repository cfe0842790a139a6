//! CreateVolumeGroupSnapshot.

use std::collections::BTreeSet;

use csi_proto::v1;
use tonic::Status;

use super::message::group_message;
use crate::controller::cut;
use crate::defect::Defect;
use crate::driver::{MockDriver, now_ms};
use crate::quirk::Quirk;
use crate::state::{Group, Snapshot, State, hash_text};
use crate::validate::{self, invalid};

/// The largest number of volumes in a group snapshot.
const SOURCES_MAX: usize = 256;

pub(crate) async fn create_volume_group_snapshot(
    driver: &MockDriver,
    request: &v1::CreateVolumeGroupSnapshotRequest,
) -> Result<v1::CreateVolumeGroupSnapshotResponse, Status> {
    parse(driver, request)?;
    let group_snapshot = driver.change(request, |state| {
        let group = match state.groups.named(&request.name).cloned() {
            Some(existing) => {
                check_same(&existing, request)?;
                existing
            }
            None => {
                check_new(driver, state, request)?;
                let group = make(driver, state, request);
                state.groups.insert(group.clone());
                group
            }
        };
        Ok(group_message(driver, state, &group))
    });
    Ok(v1::CreateVolumeGroupSnapshotResponse { group_snapshot: Some(group_snapshot.await?) })
}

fn parse(driver: &MockDriver, request: &v1::CreateVolumeGroupSnapshotRequest) -> Result<(), Status> {
    validate::name(&request.name, driver.name_bytes_max())?;
    validate::map("parameters", &request.parameters)?;
    let sources = &request.source_volume_ids;
    if sources.is_empty() && !driver.has(Defect::CreateGroupSnapshotAcceptsMissingSources) {
        return Err(invalid("source_volume_ids is missing"));
    }
    if sources.len() > SOURCES_MAX {
        return Err(invalid(format!("more than {SOURCES_MAX} source_volume_ids")));
    }
    sources.iter().try_for_each(|id| driver.check_id_format("source_volume_ids", id, "vol"))?;
    let distinct: BTreeSet<&String> = sources.iter().collect();
    if distinct.len() < sources.len() {
        return Err(invalid("source_volume_ids names a volume twice"));
    }
    Ok(())
}

/// Returns ALREADY_EXISTS if the existing group snapshot has other sources, regardless of order, or other parameters.
fn check_same(existing: &Group, request: &v1::CreateVolumeGroupSnapshotRequest) -> Result<(), Status> {
    let differs =
        |what| Err(Status::already_exists(format!("a group snapshot of this name exists with other {what}")));
    let sources = |ids: &[String]| ids.iter().cloned().collect::<BTreeSet<_>>();
    if sources(&existing.source_volume_ids) != sources(&request.source_volume_ids) {
        return differs("source_volume_ids");
    }
    if existing.parameters != request.parameters {
        return differs("parameters");
    }
    Ok(())
}

/// Checks that all sources exist before the first snapshot is taken, so that a failure leaves nothing behind.
fn check_new(
    driver: &MockDriver,
    state: &State,
    request: &v1::CreateVolumeGroupSnapshotRequest,
) -> Result<(), Status> {
    if !driver.is(Quirk::UnknownParametersIgnored) {
        validate::known_parameters("parameters", &request.parameters, &driver.config.parameters)?;
    }
    let sources = &request.source_volume_ids;
    if state.snapshots.len().saturating_add(sources.len()) > driver.config.objects_max as usize {
        return Err(Status::resource_exhausted("no more snapshots are possible"));
    }
    match sources.iter().find(|id| state.volumes.get(id).is_none()) {
        Some(missing) if !driver.has(Defect::CreateGroupSnapshotIgnoresMissingSource) => {
            Err(Status::not_found(format!("source volume {missing} does not exist")))
        }
        _ => Ok(()),
    }
}

fn make(driver: &MockDriver, state: &mut State, request: &v1::CreateVolumeGroupSnapshotRequest) -> Group {
    let id = match driver.is(Quirk::IdsFromNames) {
        true => format!("group-{:016x}", hash_text(&request.name)),
        false => state.fresh_id("group"),
    };
    let sources = &request.source_volume_ids;
    let mut snapshot_ids = Vec::with_capacity(sources.len());
    for source in sources {
        let member_id = state.fresh_id("snap");
        let member = Snapshot { group: Some(id.clone()), ..cut(driver, state, member_id, source) };
        snapshot_ids.push(member.id.clone());
        state.snapshots.insert(member);
    }
    Group {
        id,
        name: request.name.clone(),
        source_volume_ids: request.source_volume_ids.clone(),
        parameters: request.parameters.clone(),
        snapshot_ids,
        created_ms: now_ms(),
    }
}
