//! Volumes as the controller reports them.

use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_proto::v1::{self};

use super::placement;
use crate::driver::MockDriver;
use crate::health;
use crate::quirk::Quirk;
use crate::state::Volume;

/// The Volume message, the same whichever RPC reports it.
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

/// The nodes a volume is attached to, where they are reported.
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

/// Whether a volume is well, where that is reported.
pub(super) fn condition(driver: &MockDriver, volume: &Volume) -> Option<v1::VolumeCondition> {
    driver.controller_can(ControllerType::VolumeCondition).then(|| state_of_health(driver, volume))
}

/// Whether a volume is well.
pub(crate) fn state_of_health(driver: &MockDriver, volume: &Volume) -> v1::VolumeCondition {
    let abnormal = health::is_said_to_be_abnormal(driver, volume);
    let message = if abnormal { "the volume is said to be abnormal" } else { "the volume is available" };
    v1::VolumeCondition { abnormal, message: message.to_owned() }
}
