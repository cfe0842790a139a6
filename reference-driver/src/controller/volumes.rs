//! DeleteVolume, ControllerGetVolume, ListVolumes, ValidateVolumeCapabilities, GetCapacity, and the health of volumes.

use csi_proto::health::Side;
use csi_proto::v1::validate_volume_capabilities_response::Confirmed;
use csi_proto::v1::{
    ControllerGetVolumeHealthRequest, ControllerGetVolumeHealthResponse, ControllerGetVolumeRequest,
    ControllerGetVolumeResponse, ControllerListVolumeHealthRequest, ControllerListVolumeHealthResponse,
    DeleteVolumeRequest, DeleteVolumeResponse, GetCapacityRequest, GetCapacityResponse, ListVolumesRequest,
    ListVolumesResponse, ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse, VolumeHealth,
};
use csi_proto::v1::{controller_get_volume_response, list_volumes_response};

use super::create_volume::Parameters;
use super::{Page, covers, published_node_ids, volume_context, volume_message};
use crate::capability::Capability;
use crate::capacity_range::signed;
use crate::driver::{Driver, required};
use crate::error::{DriverError, Result, Shown};
use crate::ids::ObjectKind;
use crate::locks::Key;
use crate::store::{Change, Volume};
use crate::{backend, health, storage};

pub(crate) fn delete_volume(driver: &Driver, request: &DeleteVolumeRequest) -> Result<DeleteVolumeResponse> {
    required("volume_id", &request.volume_id)?;
    let (volume, _guard) = match driver.volume_exclusive(&request.volume_id) {
        Err(DriverError::NotFound { .. }) => return Ok(DeleteVolumeResponse {}),
        result => result?,
    };
    let _name = driver.locks.exclusive(Key::VolumeName(volume.name.clone()))?;
    check_unused(driver, &volume)?;
    driver.store.commit(vec![Change::DeleteVolume(volume.clone())])?;
    storage::remove_volume(driver, &volume);
    driver.release(&volume);
    Ok(DeleteVolumeResponse {})
}

/// Fails if the volume is attached, staged or published (CTRL-DELETEVOL-011).
fn check_unused(driver: &Driver, volume: &Volume) -> Result<()> {
    let view = driver.store.view()?;
    let used = if !view.published_of(&volume.key)?.is_empty() {
        "it is published"
    } else if !view.staged_of(&volume.key)?.is_empty() {
        "it is staged"
    } else if driver.config.attach && !volume.attachments.is_empty() {
        "it is attached"
    } else {
        return Ok(());
    };
    Err(DriverError::precondition(format!("volume {}", Shown(volume.id())), used))
}

pub(crate) fn controller_get_volume(
    driver: &Driver,
    request: &ControllerGetVolumeRequest,
) -> Result<ControllerGetVolumeResponse> {
    let volume = driver.volume(&driver.store.view()?, &request.volume_id)?;
    let status = controller_get_volume_response::VolumeStatus {
        published_node_ids: published_node_ids(driver, &volume),
        volume_condition: Some(health::condition(health::of_data(driver, &volume).as_ref())),
    };
    Ok(ControllerGetVolumeResponse { volume: Some(volume_message(driver, &volume)), status: Some(status) })
}

pub(crate) fn list_volumes(driver: &Driver, request: &ListVolumesRequest) -> Result<ListVolumesResponse> {
    let page = Page::read(ObjectKind::Volume, request.max_entries, &request.starting_token)?;
    let mut volumes = driver.store.view()?.volumes_after(page.after, page.fetch_count())?;
    let next_token = page.truncate(&mut volumes, |volume| &volume.key);
    let entries = volumes.iter().map(|volume| list_volumes_response::Entry {
        volume: Some(volume_message(driver, volume)),
        status: Some(list_volumes_response::VolumeStatus {
            published_node_ids: published_node_ids(driver, volume),
            volume_condition: Some(health::condition(health::of_data(driver, volume).as_ref())),
        }),
    });
    Ok(ListVolumesResponse { entries: entries.collect(), next_token })
}

pub(crate) fn validate_volume_capabilities(
    driver: &Driver,
    request: &ValidateVolumeCapabilitiesRequest,
) -> Result<ValidateVolumeCapabilitiesResponse> {
    required("volume_id", &request.volume_id)?;
    let capabilities = Capability::required_list(&request.volume_capabilities)?;
    let volume = driver.volume(&driver.store.view()?, &request.volume_id)?;
    match mismatch(driver, &volume, &capabilities, request) {
        Some(message) => Ok(ValidateVolumeCapabilitiesResponse { confirmed: None, message }),
        None => {
            let confirmed = Confirmed {
                volume_context: request.volume_context.clone(),
                volume_capabilities: request.volume_capabilities.clone(),
                parameters: request.parameters.clone(),
                mutable_parameters: request.mutable_parameters.clone(),
            };
            Ok(ValidateVolumeCapabilitiesResponse { confirmed: Some(confirmed), message: String::new() })
        }
    }
}

/// The difference between the volume and the description in the request. Empty maps are not compared, since the
/// caller has left them out.
fn mismatch(
    driver: &Driver,
    volume: &Volume,
    capabilities: &[Capability],
    request: &ValidateVolumeCapabilitiesRequest,
) -> Option<String> {
    let parameters = &request.parameters;
    let mutable = &request.mutable_parameters;
    if !parameters.is_empty() && *parameters != volume.parameters {
        return Some("the volume was made with other parameters".to_owned());
    }
    if mutable.iter().any(|(key, value)| volume.mutable_parameters.get(key) != Some(value)) {
        return Some("the volume has other mutable_parameters".to_owned());
    }
    let context = volume_context(volume);
    if request.volume_context.iter().any(|(key, value)| context.get(key).is_some_and(|ours| ours != value)) {
        return Some("the volume has another volume_context".to_owned());
    }
    capabilities.iter().find_map(|capability| volume.unfit(capability, &driver.host_fs_type))
}

pub(crate) fn get_capacity(driver: &Driver, request: &GetCapacityRequest) -> Result<GetCapacityResponse> {
    let capabilities =
        request.volume_capabilities.iter().map(Capability::parse).collect::<Result<Vec<Capability>>>()?;
    // COs send the parameters of a storage class unfiltered, with keys that CreateVolume never gets, so only our own
    // keys are read.
    let parameters = Parameters::read(|key| request.parameters.get(key), &driver.config);
    let elsewhere = request.accessible_topology.as_ref().is_some_and(|at| !covers(driver, at));
    let available = match parameters {
        Ok(parameters) if !elsewhere => {
            let chosen = backend::choose(driver, parameters.backend(), &capabilities);
            match backend::unfit(driver, chosen, &capabilities) {
                None => driver.ledger.available_bytes(parameters.pool())?,
                Some(_) => 0,
            }
        }
        Ok(_) => 0,
        Err(_) if request.parameters.contains_key("kind") => 0, // A pool that does not exist has no room.
        Err(error) => return Err(error),
    };
    Ok(GetCapacityResponse {
        available_capacity: signed(available),
        maximum_volume_size: Some(signed(available.min(driver.config.max_volume_bytes))),
        minimum_volume_size: Some(0),
    })
}

/// The number of records that are read at a time. Most volumes are healthy and appear on no page, so this does not
/// depend on the page size.
const FETCHED: usize = 1000;

pub(crate) fn controller_list_volume_health(
    driver: &Driver,
    request: &ControllerListVolumeHealthRequest,
) -> Result<ControllerListVolumeHealthResponse> {
    let page = Page::read(ObjectKind::Volume, request.max_entries, &request.starting_token)?;
    let view = driver.store.view()?;
    let mut unhealthy = Vec::new();
    let mut after = page.after.to_owned();
    while unhealthy.len() < page.fetch_count() {
        let volumes = view.volumes_after(&after, FETCHED)?;
        let Some(last) = volumes.last() else { break };
        after = last.key.to_string();
        for volume in volumes {
            let health = of_volume(driver, &volume)?;
            if !health.health_statuses.is_empty() {
                unhealthy.push((volume, health));
            }
        }
    }
    let next_token = page.truncate(&mut unhealthy, |(volume, _)| &volume.key);
    let entries = unhealthy.into_iter().map(|(_, health)| health).collect();
    Ok(ControllerListVolumeHealthResponse { entries, next_token })
}

pub(crate) fn controller_get_volume_health(
    driver: &Driver,
    request: &ControllerGetVolumeHealthRequest,
) -> Result<ControllerGetVolumeHealthResponse> {
    let volume = driver.volume(&driver.store.view()?, &request.volume_id)?;
    Ok(ControllerGetVolumeHealthResponse { volume_health: Some(of_volume(driver, &volume)?) })
}

fn of_volume(driver: &Driver, volume: &Volume) -> Result<VolumeHealth> {
    health::of_volume(driver, volume, Side::Controller, health::of_data(driver, volume))
}
