//! Classes: outside of namespaces, and so under names that no other test and no other run has.

use serde_json::{Value, json};

use crate::cluster::{AttributesClass, BindingMode, Pairs, ReclaimPolicy, SnapshotClass, StorageClass};

/// A policy as manifests have it.
pub(crate) fn policy(reclaim: ReclaimPolicy) -> &'static str {
    match reclaim {
        ReclaimPolicy::Delete => "Delete",
        ReclaimPolicy::Retain => "Retain",
    }
}

/// A policy of a manifest.
pub(crate) fn read_policy(text: &str) -> ReclaimPolicy {
    if text == "Retain" { ReclaimPolicy::Retain } else { ReclaimPolicy::Delete }
}

/// A StorageClass.
pub(crate) fn storage(metadata: Value, class: &StorageClass) -> Value {
    let mut manifest = json!({
        "metadata": metadata,
        "provisioner": class.provisioner,
        "parameters": class.parameters,
        "mountOptions": class.mount_options,
        "reclaimPolicy": policy(class.reclaim),
        "allowVolumeExpansion": class.allow_expansion,
        "volumeBindingMode": match class.binding {
            BindingMode::Immediate => "Immediate",
            BindingMode::WaitForFirstConsumer => "WaitForFirstConsumer",
        },
    });
    // An empty list would allow no place at all.
    if !class.allowed_topologies.is_empty() {
        manifest["allowedTopologies"] = class.allowed_topologies.iter().map(term).collect();
    }
    manifest
}

fn term(segment: &Pairs) -> Value {
    let labels: Value = segment.iter().map(|(key, value)| json!({ "key": key, "values": [value] })).collect();
    json!({ "matchLabelExpressions": labels })
}

/// A VolumeSnapshotClass or a VolumeGroupSnapshotClass.
pub(crate) fn snapshot(metadata: Value, class: &SnapshotClass) -> Value {
    json!({
        "metadata": metadata,
        "driver": class.driver,
        "deletionPolicy": policy(class.deletion),
        "parameters": class.parameters,
    })
}

/// A VolumeAttributesClass.
pub(crate) fn attributes(metadata: Value, class: &AttributesClass) -> Value {
    json!({ "metadata": metadata, "driverName": class.driver, "parameters": class.parameters })
}
