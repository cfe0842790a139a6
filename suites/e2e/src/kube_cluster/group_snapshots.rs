//! VolumeGroupSnapshots and the contents bound to them: how they are written, and what is read of them.

use serde_json::{Value, json};

use super::Names;
use super::api::{items, pairs, strings, text, text_at};
use super::classes::read_policy;
use crate::cluster::{GroupSnapshot, GroupSnapshotOrigin, GroupSnapshotSpec};

/// What owners of members are.
const KIND: &str = "VolumeGroupSnapshot";

/// A group snapshot. One that exists already is that of a content, named here.
pub(crate) fn manifest(names: &Names, spec: &GroupSnapshotSpec, content: &str) -> Value {
    let source = match &spec.origin {
        GroupSnapshotOrigin::Labels(labels) => json!({ "selector": { "matchLabels": labels } }),
        GroupSnapshotOrigin::Handles { .. } => json!({ "volumeGroupSnapshotContentName": content }),
    };
    json!({
        "metadata": { "name": spec.name, "namespace": names.namespace },
        "spec": { "volumeGroupSnapshotClassName": names.of_class(&spec.class), "source": source },
    })
}

/// The content of a group snapshot that exists already. `class` is its class as the cluster has it.
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
            "volumeGroupSnapshotClassName": names.of_class(&spec.class),
            "source": { "groupSnapshotHandles": handles },
            "volumeGroupSnapshotRef": { "namespace": names.namespace, "name": spec.name },
        },
    })
}

/// A snapshot that is a member of a group which exists already, of a content. It goes with the group that owns it.
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

/// The name of the content that a group snapshot is bound to.
pub(crate) fn content_of(object: &Value) -> Option<String> {
    let bound = text_at(object, "/status/boundVolumeGroupSnapshotContentName");
    bound.or_else(|| text_at(object, "/spec/source/volumeGroupSnapshotContentName"))
}

/// Whether a VolumeSnapshot is a member of a group: one that was taken with it names it, and one that was imported is owned by it.
pub(crate) fn is_member(snapshot: &Value, group: &str) -> bool {
    let owns = |owner: &Value| text(owner, "/kind") == KIND && text(owner, "/name") == group;
    text(snapshot, "/status/volumeGroupSnapshotName") == group
        || items(snapshot, "/metadata/ownerReferences").iter().any(owns)
}

/// A group snapshot as it is, with its content if there is one, and its members.
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
            class: names.class(text(object, "/spec/volumeGroupSnapshotClassName")),
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
