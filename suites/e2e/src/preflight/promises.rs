//! Judges the promises of a definition, which the cluster, the flags of the sidecars and the driver have to keep.

use csi_driver_definitions::{Capability, DriverDefinition, Source};

use super::{Class, Facts, Finding, Role, Sidecar, unknown};
use crate::promise::PROMISES;

pub(super) fn judge(definition: &DriverDefinition, facts: &Facts) -> Vec<Finding> {
    let mut findings = kinds(definition, facts);
    findings.extend(classes(definition, facts));
    findings.extend(switched_off(definition, facts));
    findings.extend(metadata(definition, facts));
    findings.extend(lacked(definition, facts));
    findings.extend(cleared(definition));
    findings
}

/// Returns a finding about mount options that a pod's mount never has. Since version 1.2, runc clears these flags of every bind mount that it
/// makes for a container, unless the container asks for them.
fn cleared(definition: &DriverDefinition) -> Option<Finding> {
    let info = &definition.driver_info;
    let mut options = info.supported_mount_option.iter().chain(&info.required_mount_option).flatten();
    let option = options.find(|option| ["nodev", "noexec", "nosuid"].contains(&option.as_str()))?;
    Some(Finding::warning(
        format!("containers do not have the mount option {option}"),
        "the definition has it in SupportedMountOption or RequiredMountOption, and runc 1.2 or newer takes it off in containers",
        "take it out of the definition, since the test of mount options looks for it in a pod",
    ))
}

/// A feature of a sidecar that a promise needs.
struct Gate {
    role: Role,
    name: &'static str,
    /// The first version that enables it by default; `None` if unknown.
    on_since: Option<(u32, u32)>,
    promise: &'static str,
    is_made: fn(&DriverDefinition) -> bool,
}

const GATES: [Gate; 5] = [
    Gate {
        role: Role::Resizer,
        name: "VolumeAttributesClass",
        on_since: Some((1, 12)),
        promise: "a VolumeAttributesClass",
        is_made: |definition| definition.volume_attributes_class.source().is_some(),
    },
    Gate {
        role: Role::Provisioner,
        name: "VolumeAttributesClass",
        on_since: Some((5, 1)),
        promise: "a VolumeAttributesClass",
        is_made: |definition| definition.volume_attributes_class.source().is_some(),
    },
    Gate {
        role: Role::Provisioner,
        name: "Topology",
        on_since: Some((5, 0)),
        promise: "`topology: true`",
        is_made: |definition| definition.can(Capability::Topology),
    },
    Gate {
        role: Role::Snapshotter,
        name: "CSIVolumeGroupSnapshot",
        on_since: None,
        promise: "`groupSnapshot: true`",
        is_made: |definition| definition.can(Capability::GroupSnapshot),
    },
    Gate {
        role: Role::SnapshotController,
        name: "CSIVolumeGroupSnapshot",
        on_since: None,
        promise: "`groupSnapshot: true`",
        is_made: |definition| definition.can(Capability::GroupSnapshot),
    },
];

impl Gate {
    /// Returns why a sidecar certainly lacks the feature.
    fn closed(&self, sidecar: &Sidecar) -> Option<String> {
        match (sidecar.gates.get(self.name), sidecar.version, self.on_since) {
            (Some(true), ..) => None,
            (Some(false), ..) => Some(format!("--feature-gates of {} has {}=false", sidecar.pod, self.name)),
            (None, Some(version), Some(since)) if (version.0, version.1) < since => Some(format!(
                "{} in {} has version {}.{}, which has {} turned off",
                self.role.name(),
                sidecar.pod,
                version.0,
                version.1,
                self.name
            )),
            (None, ..) => None,
        }
    }
}

/// Returns the features that the driver's sidecars have switched off.
fn switched_off(definition: &DriverDefinition, facts: &Facts) -> Vec<Finding> {
    // Another finding reports that they are unknown.
    let Ok(sidecars) = &facts.sidecars else { return Vec::new() };
    let of = |role: Role| {
        let is_ours =
            move |one: &&Sidecar| one.role == role && (one.is_drivers || role == Role::SnapshotController);
        sidecars.iter().filter(is_ours)
    };
    let mut findings = Vec::new();
    for gate in GATES.iter().filter(|gate| (gate.is_made)(definition)) {
        findings.extend(of(gate.role).find_map(|sidecar| gate.closed(sidecar)).map(|why| {
            Finding::error(
                format!("{} ignores it, but the definition has {}", gate.role.name(), gate.promise),
                why,
                format!("give it --feature-gates={}=true, or take it out of the definition", gate.name),
            )
        }));
    }
    let silent = of(Role::Provisioner).find(|one| !one.publishes_capacity);
    if let Some(sidecar) = silent.filter(|_| definition.can(Capability::Capacity)) {
        findings.push(Finding::error(
            "no free space is published",
            format!(
                "the definition has `capacity: true`, csi-provisioner in {} no --enable-capacity",
                sidecar.pod
            ),
            "add it, or take `capacity` out of the definition",
        ));
    }
    findings
}

/// Returns a finding about the access to block metadata.
fn metadata(definition: &DriverDefinition, facts: &Facts) -> Option<Finding> {
    // Another finding reports that the kind is missing.
    let is_known = facts.kinds.as_ref().is_ok_and(|kinds| kinds.contains("SnapshotMetadataService"));
    if !definition.can(Capability::SnapshotMetadata) || !is_known {
        return None;
    }
    match &facts.metadata_service {
        Ok(true) => None,
        Ok(false) => Some(Finding::error(
            "no service can be asked for block metadata",
            format!(
                "the definition has `snapshotMetadata: true`, there is no SnapshotMetadataService {}",
                definition.driver_info.name
            ),
            "deploy external-snapshot-metadata with it, or take `snapshotMetadata` out of the definition",
        )),
        Err(why) => Some(unknown("the SnapshotMetadataService", why)),
    }
}

/// Returns the promised capabilities that the driver lacks.
fn lacked(definition: &DriverDefinition, facts: &Facts) -> Vec<Finding> {
    let Some(plugin) = &facts.plugin else { return Vec::new() };
    let advertises = |one| plugin.capabilities.contains(&one);
    let lacked = |promise: &crate::promise::Promise| {
        let lacked = promise.lacked(definition, advertises)?;
        Some(Finding::error(
            format!("the driver does not advertise {lacked}"),
            format!("the definition has {}", promise.text),
            "take it out of the definition, or have the driver advertise it",
        ))
    };
    PROMISES.iter().filter_map(lacked).collect()
}

/// Returns the missing kinds of objects.
fn kinds(definition: &DriverDefinition, facts: &Facts) -> Vec<Finding> {
    let there = match &facts.kinds {
        Ok(there) => there,
        Err(why) => return vec![unknown("the kinds of objects that the cluster has", why)],
    };
    let snapshots = definition.can(Capability::SnapshotDataSource);
    let groups = definition.can(Capability::GroupSnapshot);
    let changes = definition.volume_attributes_class.source().is_some();
    let metadata = definition.can(Capability::SnapshotMetadata);
    let wanted = [
        ("VolumeSnapshot", snapshots, "snapshotDataSource: true", "install the CRDs of external-snapshotter"),
        (
            "VolumeGroupSnapshot",
            groups,
            "groupSnapshot: true",
            "install the CRDs of external-snapshotter for groups",
        ),
        (
            "VolumeAttributesClass",
            changes,
            "a VolumeAttributesClass",
            "use Kubernetes 1.34, or its API storage.k8s.io/v1beta1 in an older one",
        ),
        (
            "SnapshotMetadataService",
            metadata,
            "`snapshotMetadata: true`",
            "install the CRD of external-snapshot-metadata",
        ),
    ];
    wanted
        .into_iter()
        .filter(|(kind, wanted, ..)| *wanted && !there.contains(kind))
        .map(|(kind, _, promise, mend)| {
            Finding::error(
                format!("the cluster has no {kind}"),
                format!("the definition has {promise}, the API server does not know the kind"),
                format!("{mend}, or take it out of the definition"),
            )
        })
        .collect()
}

/// Returns classes that are missing, belong to another driver, or forbid a test.
fn classes(definition: &DriverDefinition, facts: &Facts) -> Vec<Finding> {
    let driver = &definition.driver_info.name;
    let mut findings = Vec::new();
    for (kind, class) in &facts.classes {
        match class {
            Err(why) => findings.push(unknown(&format!("the {kind} of the definition"), why)),
            Ok(None) => findings.push(Finding::error(
                format!("no {kind} {:?}", existing(definition, kind)),
                "the definition takes it from the cluster, which has none of this name",
                "apply it, or correct FromExistingClassName",
            )),
            Ok(Some(class)) if class.driver != *driver => findings.push(Finding::error(
                format!("the {kind} is for another driver"),
                format!("{} is for {}, the definition for {driver}", class.place, class.driver),
                "correct the class, or DriverInfo.Name in the definition",
            )),
            Ok(Some(class)) => findings.extend(expansion(definition, class)),
        }
    }
    findings
}

/// Returns the name of the class that the definition takes from the cluster.
fn existing<'a>(definition: &'a DriverDefinition, kind: &str) -> &'a str {
    let source = match kind {
        "StorageClass" => definition.storage_class.source(),
        "VolumeSnapshotClass" => definition.snapshot_class.source(),
        "VolumeGroupSnapshotClass" => definition.group_snapshot_class.source(),
        _ => definition.volume_attributes_class.source(),
    };
    match source {
        Some(Source::ExistingClass(name)) => name,
        _ => "",
    }
}

fn expansion(definition: &DriverDefinition, class: &Class) -> Option<Finding> {
    let forbidden = class.expands == Some(false) && definition.can(Capability::ControllerExpansion);
    forbidden.then(|| {
        Finding::warning(
            "users of the class cannot let volumes grow, though its tests can",
            format!(
                "{} has no allowVolumeExpansion: true, the definition has `controllerExpansion: true`",
                class.place
            ),
            "set it, or take `controllerExpansion` out of the definition",
        )
    })
}
