//! ControllerGetVolume, ControllerModifyVolume and GetCapacity, and the Volume message of all RPCs.

use csi_proto::v1::{
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, ControllerModifyVolumeRequest,
    ControllerModifyVolumeResponse, GetCapacityRequest, GetCapacityResponse, Topology, Volume,
    VolumeCapability, VolumeCondition,
};
use tonic::{Code, Status};

use super::{Change, apply, drop_unknown, forgive, volume_not_found};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::state::Usage;
use crate::{controller, validate};

pub(super) fn corrupt_volume(driver: &MockDriver, volume: &mut Volume) {
    if driver.has(Defect::VolumeTopologyWithoutCapability) && !driver.has_topology() {
        let segments = [("zone".to_owned(), "zone-a".to_owned())].into();
        volume.accessible_topology = vec![Topology { segments }];
        return;
    }
    relocate(driver, &mut volume.accessible_topology);
    volume.accessible_topology.iter_mut().for_each(|topology| corrupt_topology(driver, topology));
    if driver.has(Defect::VolumeTopologyMissing) {
        volume.accessible_topology.clear();
    }
}

/// Changes the reported topology.
fn relocate(driver: &MockDriver, places: &mut Vec<Topology>) {
    if driver.has(Defect::VolumeTopologyOfReplicas) && !places.is_empty() {
        let last = driver.zones.iter().rev().take(2);
        *places = last.map(|segments| Topology { segments: segments.clone() }).collect();
    }
    if driver.has(Defect::VolumeTopologyTwice) {
        places.extend_from_within(..);
    }
    if driver.has(Defect::VolumeTopologyEmptyEntry) && !places.is_empty() {
        places.push(Topology::default());
    }
}

fn corrupt_topology(driver: &MockDriver, Topology { segments }: &mut Topology) {
    let has = |defect| driver.has(defect);
    if has(Defect::VolumeTopologyValueEmpty) {
        segments.values_mut().for_each(String::clear);
    }
    if has(Defect::VolumeTopologyValueTooLong) {
        segments.values_mut().for_each(|value| *value = "z".repeat(64));
    }
    if has(Defect::VolumeTopologyKeyInvalid) {
        segments.insert("mock.example/zone/room".to_owned(), "r1".to_owned());
    }
    if has(Defect::VolumeTopologyKeyPrefixDiffers) {
        segments.insert("other.example/rack".to_owned(), "r1".to_owned());
    }
    if has(Defect::VolumeTopologyKeyPrefixUpperCase) {
        *segments = segments.iter().map(|(key, value)| (key.to_uppercase(), value.clone())).collect();
    }
    if has(Defect::VolumeTopologyKeysDifferInCase) {
        for (key, value) in segments.clone() {
            if let Some((prefix, name)) = key.split_once('/') {
                segments.insert(format!("{prefix}/{}", name.to_uppercase()), value);
            }
        }
    }
}

pub(super) fn corrupt_condition(driver: &MockDriver, condition: Option<&mut VolumeCondition>) {
    let Some(condition) = condition else { return };
    if driver.has(Defect::ConditionAbnormal) {
        condition.abnormal = true;
    }
    if driver.has(Defect::ConditionMessageEmpty) {
        condition.message.clear();
    }
}

/// A capability for which the volume was created; `None` for unknown volumes and those without a recorded capability.
pub(super) fn made_for(driver: &MockDriver, volume_id: &str) -> Option<VolumeCapability> {
    let state = driver.state();
    state.volumes.get(volume_id)?.usages.first().map(Usage::to_proto)
}

pub(crate) async fn controller_get_volume(
    driver: &MockDriver,
    request: &ControllerGetVolumeRequest,
) -> Result<ControllerGetVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::ControllerGetVolumeEmptyIdAsNotFound) && request.volume_id.is_empty() {
        return Err(volume_not_found(""));
    }
    let mut answer = controller::controller_get_volume(driver, request).await;
    if has(Defect::ControllerGetVolumeUnknownOk) {
        forgive(&mut answer, Code::NotFound);
    }
    let mut response = answer?;
    if let Some(volume) = &mut response.volume {
        corrupt_volume(driver, volume);
        let changes: &[Change<Volume>] = &[
            (Defect::ControllerGetVolumeOtherId, |volume| volume.volume_id.push_str("-0")),
            (Defect::ControllerGetVolumeDropsContext, |volume| volume.volume_context.clear()),
            (Defect::ControllerGetVolumeStaleCapacity, |volume| volume.capacity_bytes /= 2),
        ];
        apply(driver, volume, changes);
    }
    if let Some(status) = &mut response.status {
        corrupt_condition(driver, status.volume_condition.as_mut());
        if has(Defect::ControllerGetVolumeOmitsPublishedNodes) {
            status.published_node_ids.clear();
        }
        if has(Defect::ControllerGetVolumeOmitsCondition) {
            status.volume_condition = None;
        }
    }
    if has(Defect::ControllerGetVolumeWithoutVolume) {
        response.volume = None;
    }
    if has(Defect::ControllerGetVolumeOmitsStatus) {
        response.status = None;
    }
    Ok(response)
}

pub(crate) async fn controller_modify_volume(
    driver: &MockDriver,
    original: &ControllerModifyVolumeRequest,
) -> Result<ControllerModifyVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::ControllerModifyEmptyIdAsNotFound) && original.volume_id.is_empty() {
        return Err(volume_not_found(""));
    }
    reject(driver, original)?;
    let mut request = original.clone();
    if has(Defect::ControllerModifyAcceptsUnknownKeys) {
        drop_unknown(&mut request.mutable_parameters, &driver.config.mutable_parameters);
    }
    let nothing_left = request.mutable_parameters.is_empty() && !original.mutable_parameters.is_empty();
    let nothing_given = original.mutable_parameters.is_empty();
    if nothing_left || (nothing_given && has(Defect::ControllerModifyAcceptsMissingParameters)) {
        return Ok(ControllerModifyVolumeResponse {});
    }
    let mut answer = controller::controller_modify_volume(driver, &request).await;
    if has(Defect::ControllerModifyUnknownOk) {
        forgive(&mut answer, Code::NotFound);
    }
    answer
}

fn reject(driver: &MockDriver, original: &ControllerModifyVolumeRequest) -> Result<(), Status> {
    let state = driver.state();
    let Some(volume) = state.volumes.get(&original.volume_id) else { return Ok(()) };
    let wanted = &original.mutable_parameters;
    let changes = wanted.iter().any(|(key, value)| volume.mutable_parameters.get(key) != Some(value));
    if driver.has(Defect::ControllerModifyRefusesRepeats) && !changes && !wanted.is_empty() {
        return Err(Status::failed_precondition("nothing would change"));
    }
    let known = wanted.keys().all(|key| driver.config.mutable_parameters.contains(key));
    if driver.has(Defect::ControllerModifyRefusesUpdates) && changes && known && volume.modifications > 0 {
        return Err(Status::already_exists("the volume has been modified"));
    }
    Ok(())
}

pub(crate) async fn get_capacity(
    driver: &MockDriver,
    original: &GetCapacityRequest,
) -> Result<GetCapacityResponse, Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::GetCapacityFails) {
        return Err(Status::internal("the backend does not report it"));
    }
    let mut request = original.clone();
    if has(Defect::GetCapacityIgnoresCapabilities) {
        request.volume_capabilities.retain(|capability| validate::usage(capability).is_err());
    }
    if has(Defect::GetCapacityIgnoresParameters) {
        drop_unknown(&mut request.parameters, &driver.config.parameters);
    }
    if has(Defect::GetCapacityIgnoresTopology) {
        request.accessible_topology = None;
    }
    let mut response = controller::get_capacity(driver, &request).await?;
    corrupt_reply(driver, &mut response);
    Ok(response)
}

fn corrupt_reply(driver: &MockDriver, response: &mut GetCapacityResponse) {
    let has = |defect| driver.has(defect);
    if has(Defect::GetCapacityConstant) {
        response.available_capacity = driver.config.capacity_bytes;
    }
    if has(Defect::GetCapacityHidesSizeLimits) {
        response.maximum_volume_size = None;
        response.minimum_volume_size = None;
    }
    let changes: &[Change<GetCapacityResponse>] = &[
        (Defect::GetCapacityNegative, |room| room.available_capacity = -1),
        (Defect::GetCapacityMaximumNegative, |room| room.maximum_volume_size = Some(-1)),
        (Defect::GetCapacityMinimumNegative, |room| room.minimum_volume_size = Some(-1)),
        (Defect::GetCapacityMaximumTooSmall, |room| room.maximum_volume_size = room.minimum_volume_size),
    ];
    apply(driver, response, changes);
    if has(Defect::GetCapacityMinimumAboveMaximum) {
        response.minimum_volume_size = response.maximum_volume_size.map(|maximum| maximum + 1);
    }
}
