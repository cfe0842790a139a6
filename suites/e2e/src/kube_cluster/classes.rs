//! Writes classes. They are outside of namespaces, so their names are unique across tests and runs.

use serde_json::{Value, json};

use crate::cluster::{AttributesClass, BindingMode, Pairs, ReclaimPolicy, SnapshotClass, StorageClass};

/// Returns a policy as manifests have it.
pub(crate) fn policy(reclaim: ReclaimPolicy) -> &'static str {
    match reclaim {
        ReclaimPolicy::Delete => "Delete",
        ReclaimPolicy::Retain => "Retain",
    }
}

/// Returns the policy of a manifest.
pub(crate) fn read_policy(text: &str) -> ReclaimPolicy {
    if text == "Retain" { ReclaimPolicy::Retain } else { ReclaimPolicy::Delete }
}

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
    // An empty list would permit no topology.
    if !class.allowed_topologies.is_empty() {
        manifest["allowedTopologies"] = class.allowed_topologies.iter().map(term).collect();
    }
    manifest
}

fn term(segment: &Pairs) -> Value {
    let labels: Value = segment.iter().map(|(key, value)| json!({ "key": key, "values": [value] })).collect();
    json!({ "matchLabelExpressions": labels })
}

pub(crate) fn snapshot(metadata: Value, class: &SnapshotClass) -> Value {
    json!({
        "metadata": metadata,
        "driver": class.driver,
        "deletionPolicy": policy(class.deletion),
        "parameters": class.parameters,
    })
}

pub(crate) fn attributes(metadata: Value, class: &AttributesClass) -> Value {
    json!({ "metadata": metadata, "driverName": class.driver, "parameters": class.parameters })
}
