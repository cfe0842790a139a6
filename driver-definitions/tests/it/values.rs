//! Checks that a definition has the contents of its file, with the defaults and rules of Kubernetes.

use std::path::Path;
use std::time::Duration;

use csi_driver_definitions::{AccessMode, Capability, DriverInfo, Quantity, SizeRange, Source, Timeouts};

use crate::{Written, load};

const SHORTEST: &str = "DriverInfo: {Name: a.example}";

fn mi(count: u64) -> Quantity {
    Quantity::from_bytes(count << 20)
}

#[test]
fn what_is_left_out_has_kubernetes_defaults() {
    let loaded = load(SHORTEST);
    assert_eq!(loaded.warnings, []);
    let definition = loaded.definition;
    let info = DriverInfo { name: "a.example".into(), ..DriverInfo::default() };
    assert_eq!(definition.driver_info, info);
    assert_eq!(info.supported_size_range, SizeRange { min: mi(5120), max: None, step: None });
    assert!(info.supports_fs_type("") && !info.supports_fs_type("ext4"));
    assert_eq!(info.supported_mount_option, None);
    assert_eq!(definition.storage_class.source(), None);
    assert_eq!(definition.timeouts, Timeouts::default());
    assert_eq!(definition.timeouts.pv_delete_slow, Duration::from_secs(20 * 60));
    assert!(Capability::ALL.iter().all(|capability| !definition.can(*capability)));
    assert_eq!(Capability::ALL.len(), 25);
}

#[test]
fn every_field_is_read() {
    let written = Written::new(
        r#"
StorageClass: {FromFile: class.yaml}
SnapshotClass: {FromName: true}
GroupSnapshotClass: {FromExistingClassName: group}
VolumeAttributesClass: {FromExistingClassName: gold}
InlineVolumes: [{Attributes: {size: "1"}, Shared: true, ReadOnly: true}]
ClientNodeName: node-1
NodeSelectors: {disk: ssd}
Timeouts: {PodStart: 1h15m, pvdelete: "90s"}
DriverInfo:
  Name: a.example
  InTreePluginName: kubernetes.io/a
  TestTags: [slow]
  MaxFileSize: 104857600
  SupportedSizeRange: {Min: 1Mi, Max: 63.9Ti, Step: 10G}
  SupportedFsType: {ext4: {}, xfs: }
  SupportedMountOption: {noatime: {}}
  RequiredMountOption: {}
  Capabilities: {RWX: true, controllerExpansion: true, onlineExpansion: false}
  RequiredAccessModes: [ReadWriteMany]
  TopologyKeys: [zone]
  NumAllowedTopologies: 2
  StressTestOptions: {NumPods: 1, NumRestarts: 2}
  VolumeSnapshotStressTestOptions: {NumPods: 3, NumSnapshots: 4}
  VolumeModifyStressTestOptions: {NumPods: 5}
  VolumeGroupSnapshotStressTestOptions: {NumPods: 6, NumSnapshots: 7}
  SnapshotMetadataStressTestOptions: {NumPods: 8, NumSnapshotPairs: 9}
  PerformanceTestOptions:
    ProvisioningOptions:
      VolumeSize: 1Mi
      Count: 300
      ExpectedMetrics: {AvgLatency: 120000000000, Throughput: 0.5}
"#,
    );
    written.beside("class.yaml", "");
    let loaded = written.load().unwrap();
    let definition = loaded.definition;
    assert_eq!(definition.storage_class.source(), Some(Source::File(Path::new("class.yaml"))));
    assert_eq!(definition.snapshot_class.source(), Some(Source::Name));
    assert_eq!(definition.group_snapshot_class.source(), Some(Source::ExistingClass("group")));
    assert_eq!(definition.volume_attributes_class.source(), Some(Source::ExistingClass("gold")));
    let [inline] = &definition.inline_volumes[..] else { panic!("one inline volume") };
    assert_eq!((&inline.attributes["size"][..], inline.shared, inline.read_only), ("1", true, true));
    assert_eq!(definition.client_node_name, "node-1");
    assert_eq!(definition.node_selectors["disk"], "ssd");
    assert_eq!(definition.timeouts.pod_start, Duration::from_secs(75 * 60));
    assert_eq!(definition.timeouts.pv_delete, Duration::from_secs(90));

    let info = &definition.driver_info;
    assert_eq!(info.in_tree_plugin_name, "kubernetes.io/a");
    assert_eq!(info.test_tags, ["slow"]);
    assert_eq!(info.max_file_size_bytes, 100 << 20);
    let range = &info.supported_size_range;
    assert_eq!((range.min, range.step), (mi(1), Some(Quantity::from_bytes(10_000_000_000))));
    assert_eq!(range.max, Some(Quantity::from_bytes(70_258_793_014_887)));
    assert_eq!(
        ["", "ext4", "xfs", "btrfs"].map(|name| info.supports_fs_type(name)),
        [true, true, true, false]
    );
    assert_eq!(info.supported_mount_option, Some(["noatime".to_owned()].into()));
    assert_eq!(info.required_mount_option, Some([].into()));
    assert_eq!(info.required_access_modes, [AccessMode::ReadWriteMany]);
    assert_eq!(info.topology_keys, ["zone"]);
    assert_eq!(info.num_allowed_topologies, 2);
    let stress = info.stress_test_options.as_ref().unwrap();
    assert_eq!((stress.num_pods, stress.num_restarts), (1, 2));
    let snapshots = info.volume_snapshot_stress_test_options.as_ref().unwrap();
    assert_eq!((snapshots.num_pods, snapshots.num_snapshots), (3, 4));
    assert_eq!(info.volume_modify_stress_test_options.as_ref().unwrap().num_pods, 5);
    let groups = info.volume_group_snapshot_stress_test_options.as_ref().unwrap();
    assert_eq!((groups.num_pods, groups.num_snapshots), (6, 7));
    let metadata = info.snapshot_metadata_stress_test_options.as_ref().unwrap();
    assert_eq!((metadata.num_pods, metadata.num_snapshot_pairs), (8, 9));
    let provisioning = info.performance_test_options.as_ref().unwrap().provisioning_options.as_ref().unwrap();
    assert_eq!((provisioning.volume_size, provisioning.count), (Some(mi(1)), 300));
    let metrics = provisioning.expected_metrics.as_ref().unwrap();
    assert_eq!((metrics.average_latency_ns, metrics.throughput), (120_000_000_000, 0.5));
}

#[test]
fn growth_follows_the_controllers_unless_refused() {
    let capabilities = |text: &str| {
        let definition = load(&format!("DriverInfo: {{Name: a, Capabilities: {{{text}}}}}")).definition;
        [Capability::OnlineExpansion, Capability::OfflineExpansion].map(|which| definition.can(which))
    };
    assert_eq!(capabilities(""), [false, false]);
    assert_eq!(capabilities("controllerExpansion: true"), [true, true]);
    assert_eq!(capabilities("controllerExpansion: true, onlineExpansion: false"), [false, true]);
    assert_eq!(capabilities("controllerExpansion: false, onlineExpansion: true"), [true, false]);
}

#[test]
fn json_is_read_as_well() {
    let loaded =
        load("{\n\t\"DriverInfo\": {\n\t\t\"Name\": \"a.example\",\n\t\t\"MaxFileSize\": 1\n\t}\n}\n");
    assert_eq!(loaded.definition.driver_info.max_file_size_bytes, 1);
    assert_eq!(loaded.warnings, []);
}

#[test]
fn null_leaves_a_field_as_it_was() {
    let keys = "StorageClass:\nInlineVolumes:\nTimeouts:\nClientNodeName:\n";
    let info =
        "Name: a, Capabilities: , SupportedFsType: null, SupportedSizeRange: {Min: }, StressTestOptions: ~";
    let loaded = load(&format!("{keys}DriverInfo: {{{info}}}\n"));
    assert_eq!(loaded.warnings, []);
    assert_eq!(loaded.definition.driver_info, DriverInfo { name: "a".into(), ..DriverInfo::default() });
}

#[test]
fn an_empty_quantity_is_none() {
    let loaded = load("DriverInfo: {Name: a, SupportedSizeRange: {Min: '', Max: '', Step: ''}}");
    let range = SizeRange { min: Quantity::from_bytes(1024), max: None, step: None };
    assert_eq!(loaded.definition.driver_info.supported_size_range, range);
}

#[test]
fn anchors_and_merges_are_followed() {
    let loaded =
        load("DriverInfo:\n  Name: &name a\n  TopologyKeys: [*name]\n  Capabilities: {<<: {RWX: true}}\n");
    assert_eq!(loaded.definition.driver_info.topology_keys, ["a"]);
    assert!(loaded.definition.can(Capability::Rwx));
    assert_eq!(loaded.warnings, []);
}
