//! VolumeSnapshots and the contents bound to them: how they are written, and what is read of them.

use serde_json::{Value, json};

use super::Names;
use super::api::{bytes, text, text_at};
use super::volumes::read_policy;
use crate::cluster::{Snapshot, SnapshotOrigin, SnapshotSpec};

/// A snapshot. One that exists already is that of a content, named here.
pub(crate) fn manifest(names: &Names, spec: &SnapshotSpec, content: &str) -> Value {
    let source = match &spec.origin {
        SnapshotOrigin::Claim(claim) => json!({ "persistentVolumeClaimName": claim }),
        SnapshotOrigin::Handle(_) => json!({ "volumeSnapshotContentName": content }),
    };
    json!({
        "metadata": { "name": spec.name, "namespace": names.namespace },
        "spec": { "volumeSnapshotClassName": names.outside(&spec.class), "source": source },
    })
}

/// The content of a snapshot that exists already. `class` is its class as the cluster has it.
pub(crate) fn content(
    names: &Names,
    metadata: Value,
    class: &Value,
    spec: &SnapshotSpec,
    handle: &str,
) -> Value {
    let mut content = content_without_class(names, metadata, class, &spec.name, handle);
    content["spec"]["volumeSnapshotClassName"] = names.outside(&spec.class).into();
    content
}

/// Returns the content of a snapshot without a class of its own, as a member of a group. `class` is the group's
/// class.
pub(crate) fn content_without_class(
    names: &Names,
    metadata: Value,
    class: &Value,
    name: &str,
    handle: &str,
) -> Value {
    json!({
        "metadata": metadata,
        "spec": {
            "driver": text(class, "/driver"),
            "deletionPolicy": text(class, "/deletionPolicy"),
            "source": { "snapshotHandle": handle },
            "volumeSnapshotRef": { "namespace": names.namespace, "name": name },
        },
    })
}

/// Returns the driver's handle of a content's snapshot.
pub(crate) fn handle(content: &Value) -> Option<String> {
    text_at(content, "/status/snapshotHandle").or_else(|| text_at(content, "/spec/source/snapshotHandle"))
}

/// A snapshot as it is, with its content if there is one.
pub(crate) fn read(names: &Names, object: &Value, content: Option<&Value>) -> Snapshot {
    let content = content.unwrap_or(&Value::Null);
    let handle = handle(content);
    let origin = match text_at(object, "/spec/source/persistentVolumeClaimName") {
        Some(claim) => SnapshotOrigin::Claim(claim),
        None => SnapshotOrigin::Handle(handle.clone().unwrap_or_default()),
    };
    Snapshot {
        spec: SnapshotSpec {
            name: text(object, "/metadata/name").to_owned(),
            class: names.inside(text(object, "/spec/volumeSnapshotClassName")),
            origin,
        },
        ready: object.pointer("/status/readyToUse").and_then(Value::as_bool).unwrap_or_default(),
        handle,
        restore_size_bytes: bytes(object, "/status/restoreSize"),
        topology: Vec::new(),
        deletion: read_policy(text(content, "/spec/deletionPolicy")),
        error: text_at(object, "/status/error/message").or_else(|| text_at(content, "/status/error/message")),
        given_up: None,
    }
}
