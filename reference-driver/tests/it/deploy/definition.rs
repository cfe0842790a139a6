//! Checks that the driver definitions have only keys that the Kubernetes storage tests know, because these tests silently ignore others.
#![expect(dead_code, reason = "fields stand here to be accepted, and all others rejected")]

use std::collections::{BTreeMap, BTreeSet};

use csi_hostpath_driver::args::Args;
use csi_hostpath_driver::config::parse_quantity;
use csi_hostpath_driver::{Config, FsType};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::yaml::{documents, parse, text_at};
use super::{deploy, kinds, kustomize, plugin, root};

/// The storage tests read or accept these capabilities.
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
    snapshot_metadata_stress_test_options: Option<MetadataStressOptions>,
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
struct MetadataStressOptions {
    num_pods: u32,
    num_snapshot_pairs: u32,
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

/// The definitions are for directory volumes, for images, and for several nodes in one process.
const DEFINITIONS: [&str; 3] = ["hostpath.yaml", "hostpath-image.yaml", NODES];
/// No manifest deploys this driver; the file names the flags with which to start it.
const NODES: &str = "hostpath-nodes.yaml";

/// Returns the settings of the driver that a definition describes, from its flags if it names any.
fn config_of(name: &str, deployed: &Config) -> Config {
    if name != NODES {
        return deployed.clone();
    }
    let lines =
        text(name).lines().map(|line| line.trim_start_matches('#').trim().to_owned()).collect::<Vec<_>>();
    let lines = lines.into_iter().skip_while(|line| !line.starts_with("csi-hostpath-driver "));
    let command: Vec<String> = lines.take_while(|line| !line.starts_with("csi-sanity ")).collect();
    let command = command.join(" ").replace('\\', "");
    Args::read(command.split_whitespace().map(Into::into)).unwrap().into_config().unwrap()
}

fn text(name: &str) -> String {
    std::fs::read_to_string(root().join("driver-definitions").join(name)).unwrap()
}

fn definition(name: &str) -> Definition {
    parse(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn definitions() -> [(&'static str, Definition); 3] {
    DEFINITIONS.map(|name| (name, definition(name)))
}

/// Returns the storage class that the tests use.
fn storage_class(definition: &Definition) -> Value {
    let class = definition.storage_class.as_ref().unwrap();
    let Some(file) = class.from_file.as_ref().filter(|_| !class.from_name) else {
        return json!({"provisioner": definition.driver_info.name});
    };
    let mut objects = documents(&root().join(file));
    assert_eq!(objects.len(), 1, "{file}: the tests want exactly one");
    kinds::check(&objects[0]).unwrap_or_else(|reason| panic!("{file}: {reason}"));
    objects.remove(0)
}

#[test]
fn every_definition_of_this_driver_is_looked_at() {
    let files = std::fs::read_dir(root().join("driver-definitions")).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // The driver in Go has this name as well.
    let found: BTreeSet<String> =
        names.filter(|name| name.starts_with("hostpath") && name != "hostpath-go.yaml").collect();
    assert_eq!(found, BTreeSet::from(DEFINITIONS.map(str::to_owned)));
}

#[test]
fn every_key_is_one_that_the_tests_read() {
    for (name, definition) in definitions() {
        let found: BTreeSet<String> = definition.driver_info.capabilities.into_keys().collect();
        let known = BTreeSet::from(CAPABILITIES.map(str::to_owned));
        assert_eq!(found, known, "{name}: each capability is decided, none is invented");
    }
}

#[test]
fn keys_that_would_be_ignored_are_found() {
    for name in DEFINITIONS {
        let text = text(name);
        let faulty = [
            text.replace("  MaxFileSize:", "  MaxFilesize:"),
            text.replace("VolumeAttributesClass:\n", "VolumeAttributeClass:\n"),
            text.replace("    ReadOnly:", "    Readonly:"),
            text.replace("  StressTestOptions:", "StressTestOptions:"),
        ];
        for faulty in faulty {
            assert_ne!(faulty, text, "{name}");
            assert!(parse::<Definition>(&faulty).is_err(), "{name}");
        }
    }
}

#[test]
fn they_agree_with_the_flags_of_the_driver() {
    let objects = kustomize::build(&deploy().join("kubernetes/full"));
    let deployed = plugin::config(&objects);
    let driver = objects.iter().find(|object| object["kind"] == json!("CSIDriver")).unwrap();
    for (name, definition) in definitions() {
        let config = config_of(name, &deployed);
        let capability = |capability: &str| definition.driver_info.capabilities[capability];
        let has_nodes = !config.other_nodes.is_empty();
        assert_eq!((capability("RWX"), capability("singleNodeVolume")), (has_nodes, !has_nodes), "{name}");
        assert_eq!(capability("volumeMountGroup"), config.mount_group, "{name}");
        assert_eq!(definition.driver_info.name, config.name, "{name}");
        assert_eq!(storage_class(&definition)["provisioner"], json!(config.name), "{name}");
        assert!(config.snapshot_metadata || !capability("snapshotMetadata"), "{name}");
        assert_eq!(capability("controllerExpansion"), config.controller_expansion, "{name}");
        assert_eq!(capability("nodeExpansion"), config.node_expansion, "{name}");
        assert_eq!(capability("topology"), config.topology, "{name}");
        let limited = config.max_volumes_per_node != 0 || config.attach_limit != 0;
        assert_eq!(capability("volumeLimits"), limited, "{name}");
        assert_eq!(capability("seLinuxMount"), driver["spec"]["seLinuxMount"], "{name}");
        assert_eq!(capability("capacity"), driver["spec"]["storageCapacity"], "{name}");
    }
}

#[test]
fn each_agrees_with_its_backend() {
    for (name, definition) in definitions() {
        let info = &definition.driver_info;
        let is_image = storage_class(&definition)["parameters"]["backend"] == json!("image");
        assert_eq!(is_image, name != "hostpath.yaml");
        assert_eq!(info.capabilities["FSResizeFromSourceNotSupported"], !is_image, "{name}");
        assert_eq!(info.capabilities["groupSnapshot"], is_image, "{name}");
        assert_eq!(definition.group_snapshot_class.is_some(), is_image, "{name}");
        let fs_types = info.supported_fs_type.keys().filter(|fs_type| !fs_type.is_empty());
        let fs_types: Vec<FsType> = fs_types.map(|fs_type| FsType::parse(fs_type).expect(fs_type)).collect();
        assert_eq!(fs_types.is_empty(), !is_image, "{name}: directories have the file system of the host");
        let size_min = info.supported_size_range.as_ref().and_then(|range| range.min.as_deref()).unwrap();
        let size_min = parse_quantity(size_min).unwrap();
        for fs_type in fs_types {
            assert!(size_min >= fs_type.size_bytes_min(), "{name}: no {fs_type} is as small as {size_min}");
        }
    }
}

#[test]
fn the_attributes_class_has_its_own_file() {
    for (name, definition) in definitions() {
        let file = definition.volume_attributes_class.and_then(|class| class.from_file).unwrap();
        let documents = documents(&root().join(file));
        assert_eq!(documents.len(), 1, "{name}");
        assert_eq!(text_at(&documents[0], "/kind"), Some("VolumeAttributesClass"), "{name}");
    }
}

#[test]
fn inline_volumes_can_be_had() {
    for (name, definition) in definitions() {
        assert!(!definition.inline_volumes.is_empty());
        for key in definition.inline_volumes.iter().flat_map(|volume| volume.attributes.keys()) {
            assert!(["backend", "kind", "size"].contains(&key.as_str()), "{name}: {key}");
        }
    }
}
