//! This file has the kinds that the oldest supported version of the Kubernetes API lacks: custom resources, and one newer kind.
#![expect(dead_code, reason = "fields stand here to be accepted, and all others rejected")]

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
enum DeletionPolicy {
    Delete,
    Retain,
}

/// A VolumeSnapshotClass or a VolumeGroupSnapshotClass.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct SnapshotClass {
    api_version: String,
    kind: String,
    metadata: Metadata,
    driver: String,
    deletion_policy: DeletionPolicy,
    #[serde(default)]
    parameters: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct VolumeAttributesClass {
    api_version: String,
    kind: String,
    metadata: Metadata,
    driver_name: String,
    parameters: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct VolumeSnapshot {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: VolumeSnapshotSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct VolumeSnapshotSpec {
    volume_snapshot_class_name: Option<String>,
    source: VolumeSnapshotSource,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct VolumeSnapshotSource {
    persistent_volume_claim_name: Option<String>,
    volume_snapshot_content_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct VolumeGroupSnapshot {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: VolumeGroupSnapshotSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct VolumeGroupSnapshotSpec {
    volume_group_snapshot_class_name: Option<String>,
    source: VolumeGroupSnapshotSource,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct VolumeGroupSnapshotSource {
    selector: Option<Selector>,
    volume_group_snapshot_content_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Selector {
    match_labels: BTreeMap<String, String>,
}
