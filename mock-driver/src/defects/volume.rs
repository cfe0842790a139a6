//! The Volume message, whichever RPC returns it.

use csi_proto::v1::{Topology, Volume, VolumeCapability, VolumeCondition};

use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::state::Usage;

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
