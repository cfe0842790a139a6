//! Judges the CSIDriver object: it exists, and agrees with the driver.

use csi_driver_definitions::{
    Capability as Promise, CsiDriver, DriverDefinition, FsGroupPolicy, VolumeLifecycleMode,
};
use csi_harness::protocol::capability::Capability;

use super::{Facts, Finding, unknown};

/// Limits the shown names.
const NAMES_MAX: usize = 10;

pub(super) fn judge(definition: &DriverDefinition, facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = another(&definition.driver_info.name, facts).into_iter().collect();
    match &facts.csi_driver {
        Err(why) => findings.push(unknown("the CSIDriver object", why)),
        Ok(None) => findings.push(missing(&definition.driver_info.name, facts)),
        Ok(Some(object)) => {
            findings.extend(promises(definition, object, facts));
            findings.extend(advertised(definition, object, facts));
        }
    }
    findings
}

fn another(driver: &str, facts: &Facts) -> Option<Finding> {
    let plugin = facts.plugin.as_ref().filter(|plugin| plugin.name != driver)?;
    Some(Finding::error(
        "another driver answers at --endpoint",
        format!("it says that it is {:?}, the definition is for {driver}", plugin.name),
        "correct --endpoint, or DriverInfo.Name in the definition",
    ))
}

fn missing(driver: &str, facts: &Facts) -> Finding {
    let others = match &facts.csi_drivers {
        Ok(names) if names.is_empty() => "the cluster has none".to_owned(),
        Ok(names) => format!("the cluster has {}", names[..names.len().min(NAMES_MAX)].join(", ")),
        Err(_) => "the API server knows none of this name".to_owned(),
    };
    Finding::error(
        format!("no CSIDriver {driver}"),
        others,
        "apply the driver's, or correct DriverInfo.Name in the definition",
    )
}

/// Returns promises of the definition that the object contradicts.
fn promises(definition: &DriverDefinition, object: &CsiDriver, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if definition.can(Promise::Capacity) && !object.storage_capacity {
        findings.push(Finding::error(
            "the driver's free space is not read",
            "the definition has `capacity: true`, the CSIDriver storageCapacity: false",
            "set storageCapacity: true and --enable-capacity of csi-provisioner, or take `capacity` out of the definition",
        ));
    }
    if definition.can(Promise::SeLinuxMount) && !object.se_linux_mount {
        findings.push(Finding::error(
            "no volume is mounted with an SELinux context",
            "the definition has `seLinuxMount: true`, the CSIDriver seLinuxMount: false",
            "set seLinuxMount: true, or take it out of the definition",
        ));
    }
    if object.se_linux_mount && !definition.can(Promise::SeLinuxMount) {
        findings.push(Finding::warning(
            "no test checks the SELinux contexts that the driver gets",
            "the CSIDriver has seLinuxMount: true, so that kubelet 1.37 passes a context for volumes of every access mode; the definition \
             does not have `seLinuxMount: true`",
            "add `seLinuxMount: true` to the definition, or set it to false in the CSIDriver if volumes cannot have contexts of their own",
        ));
    }
    let listed = &object.volume_lifecycle_modes;
    let modes = [
        (VolumeLifecycleMode::Ephemeral, "InlineVolumes", !definition.inline_volumes.is_empty()),
        (VolumeLifecycleMode::Persistent, "a StorageClass", definition.storage_class.source().is_some()),
    ];
    for (mode, promise, _) in modes.into_iter().filter(|(mode, _, wanted)| *wanted && !listed.contains(mode))
    {
        let mode = format!("{mode:?}");
        let listed: Vec<String> = listed.iter().map(|mode| format!("{mode:?}")).collect();
        findings.push(Finding::error(
            format!("kubelet mounts no {} volume of the driver", mode.to_lowercase()),
            format!("the definition has {promise}, the CSIDriver has volumeLifecycleModes {listed:?}"),
            format!("add {mode}, for which the object must be deleted and created again, or take {promise} out of the definition"),
        ));
    }
    let by_driver = definition.can(Promise::VolumeMountGroup)
        || facts
            .plugin
            .as_ref()
            .is_some_and(|plugin| plugin.capabilities.contains(&Capability::VolumeMountGroup));
    if definition.can(Promise::FsGroup) && object.fs_group_policy == FsGroupPolicy::None && !by_driver {
        findings.push(Finding::error(
            "no volume gets the fsGroup of a pod",
            "the definition has `fsGroup: true`, the CSIDriver fsGroupPolicy: None",
            "set fsGroupPolicy: File, or take `fsGroup` out of the definition",
        ));
    }
    findings
}

/// Returns values of the object that the driver does not advertise.
fn advertised(definition: &DriverDefinition, object: &CsiDriver, facts: &Facts) -> Vec<Finding> {
    let Some(plugin) = &facts.plugin else { return Vec::new() };
    let mut findings = Vec::new();
    match (object.attach_required, plugin.capabilities.contains(&Capability::PublishUnpublishVolume)) {
        (false, true) => findings.push(Finding::error(
            "ControllerPublishVolume is never called",
            "the driver advertises PUBLISH_UNPUBLISH_VOLUME, the CSIDriver has attachRequired: false",
            "set attachRequired: true, for which the object must be deleted and created again",
        )),
        (true, false) => findings.push(Finding::warning(
            "pods wait for attachments that the driver does not make",
            "the CSIDriver has attachRequired: true, the driver does not advertise PUBLISH_UNPUBLISH_VOLUME",
            "set attachRequired: false, for which the object must be deleted and created again",
        )),
        (true, true) | (false, false) => {}
    }
    // If the definition promises it as well, it is reported once.
    let is_promised = definition.can(Promise::Capacity);
    if object.storage_capacity && !is_promised && !plugin.capabilities.contains(&Capability::GetCapacity) {
        findings.push(Finding::error(
            "pods that wait for room are never scheduled",
            "the CSIDriver has storageCapacity: true, the driver does not advertise GET_CAPACITY",
            "set storageCapacity: false",
        ));
    }
    findings
}
