//! Writes and reads VolumeGroupSnapshots and their contents.

use serde_json::{Value, json};

use super::Names;
use super::api::{items, pairs, strings, text, text_at};
use super::volumes::read_policy;
use crate::cluster::{GroupSnapshot, GroupSnapshotOrigin, GroupSnapshotSpec};

/// The kind of the members' owner.
const KIND: &str = "VolumeGroupSnapshot";

/// Returns the manifest of a group snapshot. An existing one belongs to the content with this name.
pub(crate) fn manifest(names: &Names, spec: &GroupSnapshotSpec, content: &str) -> Value {
    let source = match &spec.origin {
        GroupSnapshotOrigin::Labels(labels) => json!({ "selector": { "matchLabels": labels } }),
        GroupSnapshotOrigin::Handles { .. } => json!({ "volumeGroupSnapshotContentName": content }),
    };
    json!({
        "metadata": { "name": spec.name, "namespace": names.namespace },
        "spec": { "volumeGroupSnapshotClassName": names.outside(&spec.class), "source": source },
    })
}

/// Returns the content of an existing group snapshot. `class` is its class as the cluster has it.
pub(crate) fn content(
    names: &Names,
    metadata: Value,
    class: &Value,
    spec: &GroupSnapshotSpec,
    group: &str,
    snapshots: &[String],
) -> Value {
    let handles = json!({ "volumeGroupSnapshotHandle": group, "volumeSnapshotHandles": snapshots });
    json!({
        "metadata": metadata,
        "spec": {
            "driver": text(class, "/driver"),
            "deletionPolicy": text(class, "/deletionPolicy"),
            "volumeGroupSnapshotClassName": names.outside(&spec.class),
            "source": { "groupSnapshotHandles": handles },
            "volumeGroupSnapshotRef": { "namespace": names.namespace, "name": spec.name },
        },
    })
}

/// Returns a snapshot that is a member of an existing group, with its content. It is deleted with the group that owns
/// it.
pub(crate) fn member(names: &Names, group: &Value, name: &str, content: &str) -> Value {
    let owner = json!({
        "apiVersion": text(group, "/apiVersion"),
        "kind": KIND,
        "name": text(group, "/metadata/name"),
        "uid": text(group, "/metadata/uid"),
    });
    json!({
        "metadata": { "name": name, "namespace": names.namespace, "ownerReferences": [owner] },
        "spec": { "source": { "volumeSnapshotContentName": content } },
    })
}

/// Returns whether a VolumeSnapshot is a member of a group: a snapshot taken with the group names it, and an imported
/// one is owned by it.
pub(crate) fn is_member(snapshot: &Value, group: &str) -> bool {
    let owns = |owner: &Value| text(owner, "/kind") == KIND && text(owner, "/name") == group;
    text(snapshot, "/status/volumeGroupSnapshotName") == group
        || items(snapshot, "/metadata/ownerReferences").iter().any(owns)
}

/// Reads the current state of a group snapshot, with its content and members.
pub(crate) fn read(
    names: &Names,
    object: &Value,
    content: Option<&Value>,
    members: &[Value],
) -> GroupSnapshot {
    let content = content.unwrap_or(&Value::Null);
    let given = "/spec/source/groupSnapshotHandles";
    let handle = text_at(content, "/status/volumeGroupSnapshotHandle")
        .or_else(|| text_at(content, &format!("{given}/volumeGroupSnapshotHandle")));
    let labels = pairs(object, "/spec/source/selector/matchLabels");
    let origin = match labels.is_empty() {
        false => GroupSnapshotOrigin::Labels(labels),
        true => GroupSnapshotOrigin::Handles {
            group: handle.clone().unwrap_or_default(),
            snapshots: strings(content, &format!("{given}/volumeSnapshotHandles")),
        },
    };
    let member = |snapshot: &Value| {
        let claim = text(snapshot, "/spec/source/persistentVolumeClaimName").to_owned();
        (text(snapshot, "/metadata/name").to_owned(), claim)
    };
    GroupSnapshot {
        spec: GroupSnapshotSpec {
            name: text(object, "/metadata/name").to_owned(),
            class: names.inside(text(object, "/spec/volumeGroupSnapshotClassName")),
            origin,
        },
        ready: object.pointer("/status/readyToUse").and_then(Value::as_bool).unwrap_or_default(),
        handle,
        members: members.iter().map(member).collect(),
        deletion: read_policy(text(content, "/spec/deletionPolicy")),
        error: text_at(object, "/status/error/message").or_else(|| text_at(content, "/status/error/message")),
        given_up: None,
    }
}
