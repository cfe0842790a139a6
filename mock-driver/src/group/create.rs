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

/// Most volumes in one group snapshot.
const SOURCES_MAX: usize = 256;

pub(crate) async fn create_volume_group_snapshot(
    driver: &MockDriver,
    request: &v1::CreateVolumeGroupSnapshotRequest,
) -> Result<v1::CreateVolumeGroupSnapshotResponse, Status> {
    parse(driver, request)?;
    let mut state = driver.state();
    let known = state.groups.named(&request.name).cloned();
    if let Some(existing) = known.filter(|_| !driver.has(Defect::CreateGroupSnapshotForgetsNames)) {
        conflict(driver, &existing, request)?;
        let mut message = group_message(driver, &mut state, &existing);
        if driver.has(Defect::CreateGroupSnapshotRepeatDropsMembers) {
            message.snapshots.truncate(1);
        }
        return Ok(v1::CreateVolumeGroupSnapshotResponse { group_snapshot: Some(message) });
    }
    if !driver.is(Quirk::UnknownParametersIgnored)
        && !driver.has(Defect::CreateGroupSnapshotIgnoresUnknownParameters)
    {
        validate::known_parameters("parameters", &request.parameters, &driver.config.parameters)?;
    }
    check_sources(driver, &mut state, request)?;
    let group = make(driver, &mut state, request);
    let message = group_message(driver, &mut state, &group);
    state.groups.insert(group);
    let without = driver.has(Defect::CreateGroupSnapshotAnswersWithoutGroup);
    Ok(v1::CreateVolumeGroupSnapshotResponse { group_snapshot: (!without).then_some(message) })
}

fn parse(driver: &MockDriver, request: &v1::CreateVolumeGroupSnapshotRequest) -> Result<(), Status> {
    if !(request.name.is_empty() && driver.has(Defect::CreateGroupSnapshotAcceptsEmptyName)) {
        if driver.has(Defect::CreateGroupSnapshotRefusesUnicodeNames) && !request.name.is_ascii() {
            return Err(invalid("name is not ASCII"));
        }
        let long = driver.is(Quirk::LongNamesAccepted);
        let bytes_max = driver.config.name_bytes_max;
        validate::name(&request.name, if long { bytes_max.max(4096) } else { bytes_max })?;
    }
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

/// A group snapshot of this name exists; it is the one asked for if sources and parameters are the same.
fn conflict(
    driver: &MockDriver,
    existing: &Group,
    request: &v1::CreateVolumeGroupSnapshotRequest,
) -> Result<(), Status> {
    let same_sources = existing.source_volume_ids.iter().collect::<BTreeSet<_>>()
        == request.source_volume_ids.iter().collect::<BTreeSet<_>>();
    if !same_sources && !driver.has(Defect::CreateGroupSnapshotIgnoresSourceConflict) {
        return Err(Status::already_exists(
            "a group snapshot of this name exists with other source_volume_ids",
        ));
    }
    let same_order = existing.source_volume_ids == request.source_volume_ids;
    if !same_order && driver.has(Defect::CreateGroupSnapshotOrderMatters) {
        return Err(Status::already_exists(
            "a group snapshot of this name exists with other source_volume_ids",
        ));
    }
    let same_parameters = existing.parameters == request.parameters;
    if !same_parameters && !driver.has(Defect::CreateGroupSnapshotIgnoresParameterConflict) {
        return Err(Status::already_exists("a group snapshot of this name exists with other parameters"));
    }
    if driver.has(Defect::CreateGroupSnapshotRefusesRepeats) {
        return Err(Status::already_exists("a group snapshot of this name exists"));
    }
    Ok(())
}

/// All sources have to be there before the first is cut, so that a failure leaves nothing behind.
fn check_sources(
    driver: &MockDriver,
    state: &mut State,
    request: &v1::CreateVolumeGroupSnapshotRequest,
) -> Result<(), Status> {
    let sources = &request.source_volume_ids;
    if state.snapshots.len().saturating_add(sources.len()) > driver.config.objects_max as usize {
        return Err(Status::resource_exhausted("no more snapshots are possible"));
    }
    let Some(missing) = sources.iter().find(|id| state.volumes.get(id).is_none()) else { return Ok(()) };
    if driver.has(Defect::CreateGroupSnapshotLeaksMembers) {
        let there: Vec<&String> = sources.iter().filter(|id| state.volumes.get(id).is_some()).collect();
        for source in there {
            let id = state.fresh_id("snap");
            let leaked = cut(driver, state, id, source);
            state.snapshots.insert(leaked);
        }
    }
    if driver.has(Defect::CreateGroupSnapshotIgnoresMissingSource) {
        return Ok(());
    }
    Err(match driver.has(Defect::CreateGroupSnapshotMissingSourceAsInternal) {
        true => Status::internal("a source has no record"),
        false => Status::not_found(format!("source volume {missing} does not exist")),
    })
}

fn make(driver: &MockDriver, state: &mut State, request: &v1::CreateVolumeGroupSnapshotRequest) -> Group {
    let id = match driver.is(Quirk::IdsFromNames) {
        true => format!("group-{:016x}", hash_text(&request.name)),
        false => state.fresh_id("group"),
    };
    let mut sources = request.source_volume_ids.clone();
    if driver.has(Defect::CreateGroupSnapshotDropsLastSource) && sources.len() > 1 {
        sources.pop();
    }
    let mut snapshot_ids = Vec::with_capacity(sources.len());
    for source in &sources {
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
