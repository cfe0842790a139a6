//! The driver definition has only keys that the Kubernetes storage tests know, since those ignore all others silently.
#![expect(dead_code, reason = "fields stand here to be accepted, and all others refused")]

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::yaml::{documents, parse, text_at};
use super::{deploy, kustomize, plugin, root};

/// Every capability that the tests look at or accept.
const CAPABILITIES: [&str; 24] = [
    "FSResizeFromSourceNotSupported",
    "RWX",
    "block",
    "capReadOnlyMany",
    "capacity",
    "controllerExpansion",
    "exec",
    "fsGroup",
    "groupSnapshot",
    "multiplePVsSameID",
    "multipods",
    "nodeExpansion",
    "offlineExpansion",
    "onlineExpansion",
    "persistence",
    "pvcDataSource",
    "readWriteOncePod",
    "seLinuxMount",
    "singleNodeVolume",
    "snapshotDataSource",
    "snapshotMetadata",
    "topology",
    "volumeLimits",
    "volumeMountGroup",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Definition {
    driver_info: DriverInfo,
    storage_class: Option<Class>,
    snapshot_class: Option<Class>,
    group_snapshot_class: Option<Class>,
    volume_attributes_class: Option<NamedClass>,
    #[serde(default)]
    inline_volumes: Vec<InlineVolume>,
    client_node_name: Option<String>,
    #[serde(default)]
    node_selectors: BTreeMap<String, String>,
    #[serde(default)]
    timeouts: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Class {
    #[serde(default)]
    from_name: bool,
    from_existing_class_name: Option<String>,
    from_file: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct NamedClass {
    from_existing_class_name: Option<String>,
    from_file: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct InlineVolume {
    #[serde(default)]
    attributes: BTreeMap<String, String>,
    #[serde(default)]
    shared: bool,
    #[serde(default)]
    read_only: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct DriverInfo {
    name: String,
    in_tree_plugin_name: Option<String>,
    #[serde(default)]
    test_tags: Vec<String>,
    #[serde(default)]
    max_file_size: i64,
    supported_size_range: Option<SizeRange>,
    #[serde(default)]
    supported_fs_type: BTreeMap<String, BTreeMap<String, IgnoredAny>>,
    supported_mount_option: Option<BTreeMap<String, BTreeMap<String, IgnoredAny>>>,
    required_mount_option: Option<BTreeMap<String, BTreeMap<String, IgnoredAny>>>,
    #[serde(default)]
    capabilities: BTreeMap<String, bool>,
    #[serde(default)]
    required_access_modes: Vec<String>,
    #[serde(default)]
    topology_keys: Vec<String>,
    num_allowed_topologies: Option<u32>,
    stress_test_options: Option<StressOptions>,
    volume_snapshot_stress_test_options: Option<SnapshotStressOptions>,
    volume_modify_stress_test_options: Option<ModifyStressOptions>,
    volume_group_snapshot_stress_test_options: Option<SnapshotStressOptions>,
    performance_test_options: Option<PerformanceOptions>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct SizeRange {
    min: Option<String>,
    max: Option<String>,
    step: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct StressOptions {
    num_pods: u32,
    num_restarts: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct SnapshotStressOptions {
    num_pods: u32,
    num_snapshots: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct ModifyStressOptions {
    num_pods: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct PerformanceOptions {
    provisioning_options: ProvisioningOptions,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct ProvisioningOptions {
    volume_size: String,
    count: u32,
    expected_metrics: ExpectedMetrics,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct ExpectedMetrics {
    avg_latency: i64,
    throughput: f64,
}

fn text() -> String {
    std::fs::read_to_string(root().join("driver-definitions/hostpath.yaml")).unwrap()
}

fn definition() -> Definition {
    parse(&text()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_key_is_one_that_the_tests_read() {
    let found: BTreeSet<String> = definition().driver_info.capabilities.into_keys().collect();
    assert_eq!(
        found,
        BTreeSet::from(CAPABILITIES.map(str::to_owned)),
        "each capability is decided, none is invented"
    );
}

#[test]
fn keys_that_would_be_ignored_are_found() {
    let faulty = [
        text().replace("  MaxFileSize:", "  MaxFilesize:"),
        text().replace("VolumeAttributesClass:\n", "VolumeAttributeClass:\n"),
        text().replace("    ReadOnly:", "    Readonly:"),
        text().replace("  StressTestOptions:", "StressTestOptions:"),
    ];
    for faulty in faulty {
        assert_ne!(faulty, text());
        assert!(parse::<Definition>(&faulty).is_err());
    }
}

#[test]
fn it_agrees_with_the_full_deployment() {
    let definition = definition();
    let objects = kustomize::build(&deploy().join("kubernetes/full"));
    let config = plugin::config(&objects);
    let capability = |name: &str| definition.driver_info.capabilities[name];
    assert_eq!(definition.driver_info.name, config.name);
    assert_eq!(capability("snapshotMetadata"), config.snapshot_metadata);
    assert_eq!(capability("controllerExpansion"), config.controller_expansion);
    assert_eq!(capability("nodeExpansion"), config.node_expansion);
    assert_eq!(capability("topology"), config.topology);
    assert_eq!(capability("volumeLimits"), config.max_volumes_per_node != 0 || config.attach_limit != 0);
    let driver = objects.iter().find(|object| object["kind"] == json!("CSIDriver")).unwrap();
    assert_eq!(capability("seLinuxMount"), driver["spec"]["seLinuxMount"]);
    assert_eq!(capability("capacity"), driver["spec"]["storageCapacity"]);
}

#[test]
fn the_file_with_the_attributes_class_holds_that_class_alone() {
    let file = definition().volume_attributes_class.and_then(|class| class.from_file).unwrap();
    let documents = documents(&root().join(file));
    assert_eq!(documents.len(), 1);
    assert_eq!(text_at(&documents[0], "/kind"), Some("VolumeAttributesClass"));
}

#[test]
fn inline_volumes_and_sizes_can_be_had() {
    let definition = definition();
    assert!(!definition.inline_volumes.is_empty());
    for key in definition.inline_volumes.iter().flat_map(|volume| volume.attributes.keys()) {
        assert!(["backend", "kind", "size"].contains(&key.as_str()), "{key}");
    }
    for fs_type in definition.driver_info.supported_fs_type.keys().filter(|name| !name.is_empty()) {
        assert!(csi_hostpath_driver::FsType::parse(fs_type).is_some(), "{fs_type}");
    }
}
