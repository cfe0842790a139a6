//! Writes and reads PersistentVolumeClaims.

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::Names;
use super::api::{bytes, items, pairs, text, text_at};
use super::kind::ApiKind;
use crate::cluster::{AccessMode, DataSource, Pairs, Pvc, PvcPhase, PvcSpec, VolumeMode};

/// The condition of a claim whose volume cannot get its new attributes.
const MODIFY_ERROR: &str = "ModifyVolumeError";

/// Returns the manifest of a test's claim.
pub(crate) fn manifest(names: &Names, spec: &PvcSpec, annotations: &Pairs) -> Value {
    json!({
        "metadata": {
            "name": spec.name,
            "namespace": names.namespace,
            "labels": spec.labels,
            "annotations": annotations,
        },
        "spec": self::spec(names, spec),
    })
}

/// Returns the `spec` of a claim, which ephemeral claims of pods have as well.
pub(crate) fn spec(names: &Names, spec: &PvcSpec) -> Value {
    let mut manifest = json!({
        // An empty name requests no class, while a missing name requests the default class of the cluster.
        "storageClassName": match spec.class.as_str() {
            "" => String::new(),
            class => names.outside(class),
        },
        "accessModes": spec.access_modes,
        "volumeMode": volume_mode(spec.mode),
        "resources": { "requests": { "storage": spec.request_bytes.to_string() } },
    });
    match &spec.source {
        None => {}
        Some(DataSource::Claim(name)) => {
            manifest["dataSource"] = json!({ "kind": ApiKind::Claim.facts().kind, "name": name });
        }
        Some(DataSource::Snapshot(name)) => {
            let facts = ApiKind::Snapshot.facts();
            manifest["dataSource"] = json!({ "apiGroup": facts.group, "kind": facts.kind, "name": name });
        }
    }
    if let Some(class) = &spec.attributes_class {
        manifest["volumeAttributesClassName"] = names.outside(class).into();
    }
    if let Some(volume) = &spec.volume {
        manifest["volumeName"] = names.of_volume(volume).into();
    }
    manifest
}

/// Reads the current state of a claim.
pub(crate) fn read(names: &Names, object: &Value) -> Pvc {
    let phase = match text(object, "/status/phase") {
        "Bound" => PvcPhase::Bound,
        "Lost" => PvcPhase::Lost,
        _ => PvcPhase::Pending,
    };
    let volume = text_at(object, "/spec/volumeName").map(|name| names.inside(&name));
    Pvc {
        spec: read_spec(names, object),
        phase,
        volume: volume.filter(|_| phase != PvcPhase::Pending),
        capacity_bytes: bytes(object, "/status/capacity/storage"),
        attributes_class: text_at(object, "/status/currentVolumeAttributesClassName")
            .map(|class| names.inside(&class)),
        conditions: conditions(object),
        given_up: None,
    }
}

fn read_spec(names: &Names, object: &Value) -> PvcSpec {
    let source = text_at(object, "/spec/dataSource/name").map(|name| {
        let is_claim = text(object, "/spec/dataSource/kind") == ApiKind::Claim.facts().kind;
        if is_claim { DataSource::Claim(name) } else { DataSource::Snapshot(name) }
    });
    PvcSpec {
        name: text(object, "/metadata/name").to_owned(),
        class: names.inside(text(object, "/spec/storageClassName")),
        access_modes: access_modes(object, "/spec/accessModes"),
        mode: read_volume_mode(object, "/spec/volumeMode"),
        request_bytes: bytes(object, "/spec/resources/requests/storage"),
        source,
        attributes_class: text_at(object, "/spec/volumeAttributesClassName")
            .map(|class| names.inside(&class)),
        volume: text_at(object, "/spec/volumeName").map(|name| names.inside(&name)),
        labels: pairs(object, "/metadata/labels"),
    }
}

/// Returns the current conditions. The status reports a failed change of attributes, too, whatever the conditions
/// are.
fn conditions(object: &Value) -> Vec<String> {
    let hold = |condition: &&Value| text(condition, "/status") == "True";
    let listed = items(object, "/status/conditions").iter().filter(hold);
    let mut conditions: Vec<String> = listed.map(|condition| text(condition, "/type").to_owned()).collect();
    let is_infeasible = text(object, "/status/modifyVolumeStatus/status") == "Infeasible";
    if is_infeasible && !conditions.iter().any(|condition| condition == MODIFY_ERROR) {
        conditions.push(MODIFY_ERROR.to_owned());
    }
    conditions
}

/// Returns a volume mode as manifests have it.
pub(crate) fn volume_mode(mode: VolumeMode) -> &'static str {
    match mode {
        VolumeMode::Filesystem => "Filesystem",
        VolumeMode::Block => "Block",
    }
}

/// Returns the volume mode at a JSON pointer in an object.
pub(crate) fn read_volume_mode(object: &Value, at: &str) -> VolumeMode {
    if text(object, at) == "Block" { VolumeMode::Block } else { VolumeMode::Filesystem }
}

/// Returns the known access modes at a JSON pointer in an object.
pub(crate) fn access_modes(object: &Value, at: &str) -> Vec<AccessMode> {
    items(object, at).iter().filter_map(|mode| AccessMode::deserialize(mode).ok()).collect()
}
