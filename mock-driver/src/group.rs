//! The GroupController service.

use std::collections::BTreeSet;

use csi_proto::v1;
use tonic::Status;

use crate::capability::group_capability;
use crate::controller::{check_unused, creation_time, cut, look_at, snapshot_message};
use crate::defect::Defect;
use crate::driver::{MockDriver, now_ms};
use crate::identity::FUTURE_TYPE;
use crate::quirk::Quirk;
use crate::state::{Group, Snapshot, State, hash_text};
use crate::validate::{self, invalid};

pub(crate) async fn group_controller_get_capabilities(
    driver: &MockDriver,
    _: &v1::GroupControllerGetCapabilitiesRequest,
) -> Result<v1::GroupControllerGetCapabilitiesResponse, Status> {
    let mut capabilities = driver.capabilities.group();
    if driver.is(Quirk::FutureCapability) {
        capabilities.push(group_capability(FUTURE_TYPE));
    }
    Ok(v1::GroupControllerGetCapabilitiesResponse { capabilities })
}

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

pub(crate) async fn delete_volume_group_snapshot(
    driver: &MockDriver,
    request: &v1::DeleteVolumeGroupSnapshotRequest,
) -> Result<v1::DeleteVolumeGroupSnapshotResponse, Status> {
    let id = &request.group_snapshot_id;
    driver.check_id_format("group_snapshot_id", id, "group")?;
    let deleted = driver.change(request, |state| {
        // A group snapshot that does not exist counts as deleted, whatever members the request names.
        let Some(group) = state.groups.get(id).cloned() else { return Ok(()) };
        check_members(&group, &request.snapshot_ids)?;
        group.snapshot_ids.iter().try_for_each(|member| check_unused(driver, state, member))?;
        if !driver.has(Defect::DeleteGroupSnapshotKeepsMembers) {
            group.snapshot_ids.iter().for_each(|member| drop(state.snapshots.remove(member)));
        }
        if !driver.has(Defect::DeleteGroupSnapshotKeepsGroup) {
            state.groups.remove(id);
        }
        Ok(())
    });
    deleted.await?;
    Ok(v1::DeleteVolumeGroupSnapshotResponse {})
}

pub(crate) async fn get_volume_group_snapshot(
    driver: &MockDriver,
    request: &v1::GetVolumeGroupSnapshotRequest,
) -> Result<v1::GetVolumeGroupSnapshotResponse, Status> {
    let id = &request.group_snapshot_id;
    driver.check_id_format("group_snapshot_id", id, "group")?;
    let mut state = driver.state();
    let group = state.groups.get(id).cloned();
    let group = group.ok_or_else(|| Status::not_found(format!("group snapshot {id} does not exist")))?;
    check_members(&group, &request.snapshot_ids)?;
    let message = group_message(driver, &mut state, &group);
    Ok(v1::GetVolumeGroupSnapshotResponse { group_snapshot: Some(message) })
}

/// The VolumeGroupSnapshot message. Counts as a report of each member.
pub(super) fn group_message(
    driver: &MockDriver,
    state: &mut State,
    group: &Group,
) -> v1::VolumeGroupSnapshot {
    let mut snapshots = Vec::with_capacity(group.snapshot_ids.len());
    for id in &group.snapshot_ids {
        if let Some(snapshot) = state.snapshots.get_mut(id) {
            look_at(snapshot);
            snapshots.push(snapshot_message(driver, snapshot));
        }
    }
    v1::VolumeGroupSnapshot {
        group_snapshot_id: group.id.clone(),
        ready_to_use: snapshots.iter().all(|snapshot| snapshot.ready_to_use),
        snapshots,
        creation_time: Some(creation_time(driver, group.created_ms)),
    }
}

/// Checks that the request names exactly the members of the group, in any order.
pub(super) fn check_members(group: &Group, given: &[String]) -> Result<(), Status> {
    if given.is_empty() {
        return Err(invalid("snapshot_ids is missing"));
    }
    let mut given: Vec<&String> = given.iter().collect();
    let mut members: Vec<&String> = group.snapshot_ids.iter().collect();
    given.sort_unstable();
    members.sort_unstable();
    match given == members {
        true => Ok(()),
        false => Err(invalid("snapshot_ids are not those of the group snapshot")),
    }
}
