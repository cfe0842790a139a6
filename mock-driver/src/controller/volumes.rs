//! DeleteVolume, ControllerGetVolume, ListVolumes, ControllerModifyVolume, and the health of volumes.

use std::collections::BTreeMap;

use csi_proto::health::Side;
use csi_proto::v1;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_proto::v1::{controller_get_volume_response, list_volumes_response};
use tonic::Status;

use super::page::{self, List};
use super::placement;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::health;
use crate::quirk::Quirk;
use crate::state::{Row as _, State, Volume};
use crate::validate::{self, invalid};

pub(crate) async fn delete_volume(
    driver: &MockDriver,
    request: &v1::DeleteVolumeRequest,
) -> Result<v1::DeleteVolumeResponse, Status> {
    let id = &request.volume_id;
    driver.check_id_format("volume_id", id, "vol")?;
    let deleted = driver.change(request, |state| {
        // A volume that does not exist counts as deleted.
        let Some(volume) = state.volumes.get(id) else { return Ok(()) };
        check_unused(driver, state, volume)?;
        if driver.has(Defect::DeleteVolumeKeepsVolume) {
            return Ok(());
        }
        if driver.has(Defect::DeleteVolumeKeepsName) {
            forget_all_but_the_name(state, id);
            return Ok(());
        }
        let volume = state.remove_volume(id);
        if driver.has(Defect::DeleteVolumeDeletesSnapshots) {
            let gone = snapshots_of(state, id);
            gone.iter().for_each(|snapshot| drop(state.snapshots.remove(snapshot)));
        }
        if let Some(volume) = volume
            && driver.is(Quirk::BackgroundDeletion)
        {
            state.keep_listed(volume);
        }
        Ok(())
    });
    deleted.await?;
    Ok(v1::DeleteVolumeResponse {})
}

fn check_unused(driver: &MockDriver, state: &State, volume: &Volume) -> Result<(), Status> {
    if driver.has(Defect::DeleteVolumeDeletesInUse) {
        return Ok(());
    }
    if !driver.is(Quirk::VolumeInUseDeletable)
        && let Some(node) = volume.attachments.keys().next()
    {
        return Err(Status::failed_precondition(format!("the volume is published to node {node}")));
    }
    if volume.is_staged_or_published() {
        return Err(Status::failed_precondition("the volume is in use on a node"));
    }
    let independent =
        !driver.is(Quirk::SnapshotsBlockDeletion) && !driver.has(Defect::DeleteVolumeDemandsNoSnapshots);
    if !independent && !snapshots_of(state, &volume.id).is_empty() {
        return Err(Status::failed_precondition("the volume has snapshots"));
    }
    Ok(())
}

pub(crate) fn snapshots_of(state: &State, volume_id: &str) -> Vec<String> {
    let of_volume = state.snapshots.values().filter(|snapshot| snapshot.source_volume_id == volume_id);
    of_volume.map(|snapshot| snapshot.id().to_owned()).collect()
}

/// Deletes a volume, but leaves an object without a usable id that still has its name.
fn forget_all_but_the_name(state: &mut State, id: &str) {
    let Some(volume) = state.remove_volume(id) else { return };
    let husk_id = state.fresh_id("husk");
    // The size of zero satisfies no later request for the name.
    state.add_volume(Volume { id: husk_id, capacity_bytes: 0, ..volume });
}

pub(crate) async fn controller_get_volume(
    driver: &MockDriver,
    request: &v1::ControllerGetVolumeRequest,
) -> Result<v1::ControllerGetVolumeResponse, Status> {
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    let state = driver.state();
    let volume = state.volumes.get(&request.volume_id);
    let volume =
        volume.ok_or_else(|| Status::not_found(format!("volume {} does not exist", request.volume_id)))?;
    Ok(v1::ControllerGetVolumeResponse {
        volume: Some(volume_message(driver, volume)),
        status: Some(controller_get_volume_response::VolumeStatus {
            published_node_ids: published_node_ids(driver, volume),
            volume_condition: condition(driver, volume),
        }),
    })
}

pub(crate) async fn list_volumes(
    driver: &MockDriver,
    request: &v1::ListVolumesRequest,
) -> Result<v1::ListVolumesResponse, Status> {
    let max_entries = validate::not_negative("max_entries", request.max_entries)?;
    let token = &request.starting_token;
    let mut state = driver.state();
    let still_listed = if token.is_empty() { state.still_listed() } else { Vec::new() };
    let shown = |volume: &Volume| driver.shows(volume.made_ms);
    let listed = page::page(driver, List::Volumes, &state.volumes, token, max_entries, shown)?;
    let mut entries: Vec<list_volumes_response::Entry> =
        listed.rows.iter().map(|volume| entry(driver, volume)).collect();
    let room = if max_entries == 0 { usize::MAX } else { max_entries - entries.len() };
    entries.extend(still_listed.iter().take(room).map(|volume| entry(driver, volume)));
    Ok(v1::ListVolumesResponse { entries, next_token: listed.next_token })
}

fn entry(driver: &MockDriver, volume: &Volume) -> list_volumes_response::Entry {
    let reported = driver.controller_can(ControllerType::ListVolumesPublishedNodes)
        || driver.controller_can(ControllerType::VolumeCondition);
    let status = reported.then(|| list_volumes_response::VolumeStatus {
        published_node_ids: published_node_ids(driver, volume),
        volume_condition: condition(driver, volume),
    });
    let mut volume = volume_message(driver, volume);
    if driver.is(Quirk::ListedCapacityUnknown) {
        volume.capacity_bytes = 0;
    }
    list_volumes_response::Entry { volume: Some(volume), status }
}

pub(crate) async fn controller_modify_volume(
    driver: &MockDriver,
    request: &v1::ControllerModifyVolumeRequest,
) -> Result<v1::ControllerModifyVolumeResponse, Status> {
    let wanted = &request.mutable_parameters;
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    if wanted.is_empty() {
        return Err(invalid("mutable_parameters is missing"));
    }
    validate::map("mutable_parameters", wanted)?;
    let modified = driver.change(request, |state| {
        let volume = state.volumes.get_mut(&request.volume_id);
        let volume = volume
            .ok_or_else(|| Status::not_found(format!("volume {} does not exist", request.volume_id)))?;
        if driver.has(Defect::ControllerModifyAppliesBeforeChecking) {
            volume.mutable_parameters.extend(wanted.clone());
        }
        let known =
            validate::known_parameters("mutable_parameters", wanted, &driver.config.mutable_parameters);
        if known.is_err() && driver.has(Defect::ControllerModifyChangesRefusedVolume) {
            volume.context.extend(wanted.clone());
        }
        known?;
        let changes = wanted.iter().any(|(key, value)| volume.mutable_parameters.get(key) != Some(value));
        if changes && driver.is(Quirk::ModificationsLimited) && volume.modifications > 0 {
            return Err(Status::resource_exhausted("the volume was modified not long ago"));
        }
        if changes && !driver.has(Defect::ControllerModifyChangesNothing) {
            volume.modifications = volume.modifications.saturating_add(1);
            if driver.has(Defect::ControllerModifyForgetsOtherKeys) {
                volume.mutable_parameters.clear();
            }
            // Keys that are missing in the request keep their values.
            volume.mutable_parameters.extend(wanted.clone());
        }
        if driver.has(Defect::ControllerModifyChangesContext) {
            volume.context.extend(wanted.clone());
        }
        Ok(())
    });
    modified.await?;
    Ok(v1::ControllerModifyVolumeResponse {})
}

pub(crate) async fn controller_get_volume_health(
    driver: &MockDriver,
    request: &v1::ControllerGetVolumeHealthRequest,
) -> Result<v1::ControllerGetVolumeHealthResponse, Status> {
    let id = &request.volume_id;
    driver.check_id_format("volume_id", id, "vol")?;
    let state = driver.state();
    let volume = state.volumes.get(id);
    let volume = volume.ok_or_else(|| Status::not_found(format!("volume {id} does not exist")))?;
    let volume_health = health::of_volume(driver, volume, Side::Controller)?;
    Ok(v1::ControllerGetVolumeHealthResponse { volume_health: Some(volume_health) })
}

pub(crate) async fn controller_list_volume_health(
    driver: &MockDriver,
    request: &v1::ControllerListVolumeHealthRequest,
) -> Result<v1::ControllerListVolumeHealthResponse, Status> {
    let max_entries = validate::not_negative("max_entries", request.max_entries)?;
    let state = driver.state();
    let mut unhealthy = BTreeMap::new();
    for volume in state.volumes.values() {
        let health = health::of_volume(driver, volume, Side::Controller)?;
        if !health.health_statuses.is_empty() {
            unhealthy.insert(volume.id.clone(), health);
        }
    }
    let token = &request.starting_token;
    let is_unhealthy = |volume: &crate::state::Volume| unhealthy.contains_key(&volume.id);
    let listed = page::page(driver, List::Health, &state.volumes, token, max_entries, is_unhealthy)?;
    let entries = listed.rows.iter().filter_map(|volume| unhealthy.get(&volume.id).cloned()).collect();
    Ok(v1::ControllerListVolumeHealthResponse { entries, next_token: listed.next_token })
}

/// The Volume message, identical for all RPCs.
pub(super) fn volume_message(driver: &MockDriver, volume: &Volume) -> v1::Volume {
    let left_out = driver.is(Quirk::ContentSourceLeftOut);
    v1::Volume {
        capacity_bytes: if driver.is(Quirk::CapacityUnknown) { 0 } else { volume.capacity_bytes },
        volume_id: volume.id.clone(),
        volume_context: volume.context.clone(),
        content_source: volume.source.as_ref().filter(|_| !left_out).map(|source| source.to_proto()),
        accessible_topology: accessible_topology(driver, volume),
    }
}

fn accessible_topology(driver: &MockDriver, volume: &Volume) -> Vec<v1::Topology> {
    if !placement::constrains(driver) {
        return Vec::new();
    }
    vec![v1::Topology { segments: driver.zones.get(volume.zone).cloned().unwrap_or_default() }]
}

/// The nodes to which a volume is attached, if the driver reports them.
pub(super) fn published_node_ids(driver: &MockDriver, volume: &Volume) -> Vec<String> {
    if !driver.controller_can(ControllerType::ListVolumesPublishedNodes) {
        return Vec::new();
    }
    let mut ids: Vec<String> = volume.attachments.keys().cloned().collect();
    if driver.is(Quirk::SurplusPublishedNodes) {
        ids.push("node-of-the-past".to_owned());
    }
    ids
}

/// The condition of a volume, if the driver reports it.
pub(super) fn condition(driver: &MockDriver, volume: &Volume) -> Option<v1::VolumeCondition> {
    driver.controller_can(ControllerType::VolumeCondition).then(|| volume_condition(driver, volume))
}

/// The condition of a volume.
pub(crate) fn volume_condition(driver: &MockDriver, volume: &Volume) -> v1::VolumeCondition {
    let abnormal = health::is_declared_abnormal(driver, volume);
    let message = if abnormal { "the volume is said to be abnormal" } else { "the volume is available" };
    v1::VolumeCondition { abnormal, message: message.to_owned() }
}
