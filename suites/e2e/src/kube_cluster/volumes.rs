//! PersistentVolumes: those that a test makes by hand, and what is read of any.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Names;
use super::api::{bytes, items, pairs, strings, text, text_at};
use super::claims::{access_modes, read_volume_mode, volume_mode};
use crate::cluster::{Pairs, PersistentVolume, ReclaimPolicy, SecretReference, SecretUse, VolumePhase};

/// The Secrets that a PersistentVolume names, and its fields for them.
const SECRETS: &[(SecretUse, &str)] = &[
    (SecretUse::ControllerPublish, "controllerPublishSecretRef"),
    (SecretUse::NodeStage, "nodeStageSecretRef"),
    (SecretUse::NodePublish, "nodePublishSecretRef"),
    (SecretUse::ControllerExpand, "controllerExpandSecretRef"),
    (SecretUse::NodeExpand, "nodeExpandSecretRef"),
];

/// A PersistentVolume for a volume that exists.
pub(crate) fn manifest(names: &Names, metadata: Value, driver: &str, volume: &PersistentVolume) -> Value {
    let mut csi = json!({
        "driver": driver,
        "volumeHandle": volume.handle,
        "fsType": volume.fs_type,
        "volumeAttributes": volume.attributes,
    });
    for (of, field) in SECRETS {
        if let Some(SecretReference { namespace, name }) = volume.secrets.get(of) {
            csi[*field] = json!({ "namespace": namespace, "name": name });
        }
    }
    let mut spec = json!({
        "capacity": { "storage": volume.capacity_bytes.to_string() },
        "accessModes": volume.access_modes,
        "volumeMode": volume_mode(volume.mode),
        "persistentVolumeReclaimPolicy": volume.reclaim,
        "mountOptions": volume.mount_options,
        "csi": csi,
    });
    if !volume.class.is_empty() {
        spec["storageClassName"] = names.outside(&volume.class).into();
    }
    if let Some(claim) = &volume.claim {
        spec["claimRef"] = json!({ "namespace": names.namespace, "name": claim });
    }
    if !volume.topology.is_empty() {
        let terms: Value = volume.topology.iter().map(term).collect();
        spec["nodeAffinity"] = json!({ "required": { "nodeSelectorTerms": terms } });
    }
    json!({ "metadata": metadata, "spec": spec })
}

fn term(segment: &Pairs) -> Value {
    let labels =
        segment.iter().map(|(key, value)| json!({ "key": key, "operator": "In", "values": [value] }));
    json!({ "matchExpressions": labels.collect::<Value>() })
}

/// A PersistentVolume as it is.
pub(crate) fn read(names: &Names, object: &Value) -> PersistentVolume {
    let csi = object.pointer("/spec/csi").unwrap_or(&Value::Null);
    let secret = |(of, field): &(SecretUse, &str)| {
        let reference = csi.get(field)?;
        let namespace = text(reference, "/namespace").to_owned();
        Some((*of, SecretReference { namespace, name: text(reference, "/name").to_owned() }))
    };
    PersistentVolume {
        name: names.inside(text(object, "/metadata/name")),
        handle: text(csi, "/volumeHandle").to_owned(),
        capacity_bytes: bytes(object, "/spec/capacity/storage"),
        access_modes: access_modes(object, "/spec/accessModes"),
        class: names.inside(text(object, "/spec/storageClassName")),
        mode: read_volume_mode(object, "/spec/volumeMode"),
        fs_type: text(csi, "/fsType").to_owned(),
        attributes: pairs(csi, "/volumeAttributes"),
        mount_options: strings(object, "/spec/mountOptions"),
        secrets: SECRETS.iter().filter_map(secret).collect::<BTreeMap<_, _>>(),
        reclaim: read_policy(text(object, "/spec/persistentVolumeReclaimPolicy")),
        topology: items(object, "/spec/nodeAffinity/required/nodeSelectorTerms")
            .iter()
            .map(segment)
            .collect(),
        claim: text_at(object, "/spec/claimRef/name"),
        phase: match text(object, "/status/phase") {
            "Bound" => VolumePhase::Bound,
            "Released" | "Failed" => VolumePhase::Released,
            _ => VolumePhase::Available,
        },
        given_up: None,
    }
}

/// Returns the policy of a manifest.
pub(crate) fn read_policy(text: &str) -> ReclaimPolicy {
    if text == "Retain" { ReclaimPolicy::Retain } else { ReclaimPolicy::Delete }
}

/// The provisioner writes one value for each key.
fn segment(term: &Value) -> Pairs {
    let label = |expression: &Value| {
        let value = items(expression, "/values").first()?.as_str()?.to_owned();
        Some((text(expression, "/key").to_owned(), value))
    };
    items(term, "/matchExpressions").iter().filter_map(label).collect()
}
