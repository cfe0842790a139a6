//! PersistentVolumeClaims: how they are written, and what is read of them.

use serde_json::{Value, json};

use super::Names;
use super::api::{bytes, items, pairs, strings, text, text_at};
use super::kind::ApiKind;
use crate::cluster::{AccessMode, DataSource, Pairs, Pvc, PvcPhase, PvcSpec, VolumeMode};

/// The condition of a claim whose volume cannot get the attributes that it is to have.
const MODIFY_ERROR: &str = "ModifyVolumeError";

/// A claim of a test.
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

/// The `spec` of a claim, as a pod with a claim of its own has it as well.
pub(crate) fn spec(names: &Names, spec: &PvcSpec) -> Value {
    let mut manifest = json!({
        // An empty name asks for no class, where none would ask for that of the cluster.
        "storageClassName": match spec.class.as_str() {
            "" => String::new(),
            class => names.of_class(class),
        },
        "accessModes": spec.access_modes.iter().map(ToString::to_string).collect::<Vec<_>>(),
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
        manifest["volumeAttributesClassName"] = names.of_class(class).into();
    }
    if let Some(volume) = &spec.volume {
        manifest["volumeName"] = names.of_volume(volume).into();
    }
    manifest
}

/// A claim as it is.
pub(crate) fn read(names: &Names, object: &Value) -> Pvc {
    let phase = match text(object, "/status/phase") {
        "Bound" => PvcPhase::Bound,
        "Lost" => PvcPhase::Lost,
        _ => PvcPhase::Pending,
    };
    let volume = text_at(object, "/spec/volumeName").map(|name| names.volume(&name));
    Pvc {
        spec: read_spec(names, object),
        phase,
        volume: volume.filter(|_| phase != PvcPhase::Pending),
        capacity_bytes: bytes(object, "/status/capacity/storage"),
        attributes_class: text_at(object, "/status/currentVolumeAttributesClassName")
            .map(|class| names.class(&class)),
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
        class: names.class(text(object, "/spec/storageClassName")),
        access_modes: access_modes(object, "/spec/accessModes"),
        mode: read_volume_mode(object, "/spec/volumeMode"),
        request_bytes: bytes(object, "/spec/resources/requests/storage"),
        source,
        attributes_class: text_at(object, "/spec/volumeAttributesClassName").map(|class| names.class(&class)),
        volume: text_at(object, "/spec/volumeName").map(|name| names.volume(&name)),
        labels: pairs(object, "/metadata/labels"),
    }
}

/// Conditions that hold. That attributes cannot be had is told by the status, too, whatever the conditions say.
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

/// A volume mode as manifests have it.
pub(crate) fn volume_mode(mode: VolumeMode) -> &'static str {
    match mode {
        VolumeMode::Filesystem => "Filesystem",
        VolumeMode::Block => "Block",
    }
}

/// The volume mode at a place of an object.
pub(crate) fn read_volume_mode(object: &Value, at: &str) -> VolumeMode {
    if text(object, at) == "Block" { VolumeMode::Block } else { VolumeMode::Filesystem }
}

/// The access modes at a place of an object, as far as they are known.
pub(crate) fn access_modes(object: &Value, at: &str) -> Vec<AccessMode> {
    let known = |mode: String| match mode.as_str() {
        "ReadWriteOnce" => Some(AccessMode::ReadWriteOnce),
        "ReadOnlyMany" => Some(AccessMode::ReadOnlyMany),
        "ReadWriteMany" => Some(AccessMode::ReadWriteMany),
        "ReadWriteOncePod" => Some(AccessMode::ReadWriteOncePod),
        _ => None,
    };
    strings(object, at).into_iter().filter_map(known).collect()
}
