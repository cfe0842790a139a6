//! The Volume message, and the status of volumes.

use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_proto::v1::{self};

use super::placement;
use crate::driver::MockDriver;
use crate::health;
use crate::quirk::Quirk;
use crate::state::Volume;

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
