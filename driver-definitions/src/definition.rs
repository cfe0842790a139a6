//! What a file can say of a driver. The fields are Kubernetes'; what each means here is how the tests use it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::capability::{Capabilities, Capability};
use crate::document::parsed;
use crate::quantity::{Quantity, QuantityError};
use crate::timeouts::Timeouts;

/// What Kubernetes' external storage tests have to know of a driver.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DriverDefinition {
    /// The driver itself.
    pub driver_info: DriverInfo,
    /// Where the class of volumes comes from. Without it only inline volumes are tested.
    pub storage_class: ClassSource,
    /// Where the class of snapshots comes from. Without it tests of snapshots skip.
    pub snapshot_class: ClassSource,
    /// Where the class of group snapshots comes from. Without it their tests skip.
    pub group_snapshot_class: ClassSource,
    /// Where the class for changes of volumes comes from. Without it tests of such changes skip.
    pub volume_attributes_class: AttributesClassSource,
    /// Volumes in the definition of a pod, which tests take in turn. Without any, their tests skip.
    pub inline_volumes: Vec<InlineVolume>,
    /// The node that all pods run on, by its host name label. Tests of two nodes then skip.
    pub client_node_name: String,
    /// Labels of nodes that pods may run on, besides `kubernetes.io/os`.
    pub node_selectors: BTreeMap<String, String>,
    /// How long is waited for what.
    pub timeouts: Timeouts,
}

impl DriverDefinition {
    /// Whether the driver has a capability.
    pub fn can(&self, capability: Capability) -> bool {
        self.driver_info.capabilities.has(capability)
    }
}

/// What is true of a driver wherever it runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DriverInfo {
    /// The name that the driver returns in GetPluginInfo, such as `hostpath.csi.k8s.io`. It must be given.
    pub name: String,
    /// The plugin inside Kubernetes that the driver takes the place of. Leave it out: it turns tests off.
    pub in_tree_plugin_name: String,
    /// Added to the name of each test.
    pub test_tags: Vec<String>,
    /// The largest file that tests of reading and writing make, in bytes. They try 1 MiB, 100 MiB and 1 GiB; with 0, the
    /// default, they make none and check nothing.
    #[serde(rename = "MaxFileSize")]
    pub max_file_size_bytes: u64,
    /// How large volumes can be.
    pub supported_size_range: SizeRange,
    /// File systems that the driver makes, as keys with an empty map. The empty name stands for the driver's own choice,
    /// which always counts.
    #[serde(deserialize_with = "keys")]
    #[schemars(with = "BTreeMap<String, Option<Empty>>")]
    pub supported_fs_type: BTreeSet<String>,
    /// Mount options that the driver takes, as keys with an empty map. Without it the test of mount options skips.
    #[serde(deserialize_with = "keys_if_any")]
    #[schemars(with = "BTreeMap<String, Option<Empty>>")]
    pub supported_mount_option: Option<BTreeSet<String>>,
    /// Mount options that the test of mount options always adds, as keys with an empty map. No other test does.
    #[serde(deserialize_with = "keys_if_any")]
    #[schemars(with = "BTreeMap<String, Option<Empty>>")]
    pub required_mount_option: Option<BTreeSet<String>>,
    /// What the driver can do.
    pub capabilities: Capabilities,
    /// Access modes that most claims ask for; without any, ReadWriteOnce.
    pub required_access_modes: Vec<AccessMode>,
    /// Labels of nodes that make a topology segment.
    pub topology_keys: Vec<String>,
    /// How many segments a volume has to be allowed in; 0 is as 1. Volumes kept twice need 2.
    pub num_allowed_topologies: u32,
    /// The size of the stress test of volumes. Without it the test skips.
    pub stress_test_options: Option<StressTestOptions>,
    /// The size of the stress test of snapshots. Without it the test skips.
    pub volume_snapshot_stress_test_options: Option<SnapshotStressTestOptions>,
    /// The size of the stress test of changes of volumes. Without it the test skips.
    pub volume_modify_stress_test_options: Option<ModifyStressTestOptions>,
    /// The size of the stress test of group snapshots. Without it the test skips.
    pub volume_group_snapshot_stress_test_options: Option<SnapshotStressTestOptions>,
    /// The size of the stress test of snapshot metadata, of Kubernetes 1.37 or later. Without it the test skips.
    pub snapshot_metadata_stress_test_options: Option<SnapshotMetadataStressTestOptions>,
    /// What the driver has to achieve in the tests of performance. Without it they skip.
    pub performance_test_options: Option<PerformanceTestOptions>,
}

impl DriverInfo {
    /// Whether the driver makes a file system; its own choice, the empty name, it always does.
    pub fn supports_fs_type(&self, fs_type: &str) -> bool {
        fs_type.is_empty() || self.supported_fs_type.contains(fs_type)
    }
}

/// How large volumes can be, as quantities such as `1Gi`, always in quotes where they are plain numbers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct SizeRange {
    /// The smallest volume; 5Gi if it is left out. Most claims ask for this, or for what the test needs if that is more.
    #[serde(deserialize_with = "smallest")]
    pub min: Quantity,
    /// The largest volume.
    #[serde(deserialize_with = "quantity_if_any")]
    #[schemars(with = "Quantity")]
    pub max: Option<Quantity>,
    /// By how much volumes grow in tests; 1Gi if it is left out.
    #[serde(deserialize_with = "quantity_if_any")]
    #[schemars(with = "Quantity")]
    pub step: Option<Quantity>,
}

impl Default for SizeRange {
    fn default() -> SizeRange {
        SizeRange { min: Quantity::from_bytes(5 << 30), max: None, step: None }
    }
}

/// Where a class comes from. Of several ways `FromName` counts first, and `FromFile` last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ClassSource {
    /// Make a class for the driver, without parameters.
    pub from_name: bool,
    /// Copy the class of this name, which is in the cluster.
    pub from_existing_class_name: String,
    /// Copy the class in this manifest. It is looked for in the folder of the definition, in those above it, and in the
    /// working directory; upstream looks in the root of its test files.
    pub from_file: PathBuf,
}

/// Where the class for changes of volumes comes from. Of both ways `FromExistingClassName` counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AttributesClassSource {
    /// Copy the class of this name, which is in the cluster.
    pub from_existing_class_name: String,
    /// Copy the class in this manifest. It is looked for as those of the other kinds.
    pub from_file: PathBuf,
}

/// The way that counts, of those that a source names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// Made for the driver, without parameters.
    Name,
    /// That of this name in the cluster.
    ExistingClass(&'a str),
    /// That in this manifest, as it is written in the definition.
    File(&'a Path),
}

impl ClassSource {
    /// The way that counts; none if there is no class.
    pub fn source(&self) -> Option<Source<'_>> {
        if self.from_name {
            Some(Source::Name)
        } else {
            source(&self.from_existing_class_name, &self.from_file)
        }
    }
}

impl AttributesClassSource {
    /// The way that counts; none if there is no class.
    pub fn source(&self) -> Option<Source<'_>> {
        source(&self.from_existing_class_name, &self.from_file)
    }
}

impl Source<'_> {
    /// The manifest that is read where there is no cluster.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        match self {
            Source::Name => None,
            Source::ExistingClass(name) => Some(format!("classes/{name}.yaml").into()),
            Source::File(file) => Some(file.to_path_buf()),
        }
    }
}

fn source<'a>(existing: &'a str, file: &'a Path) -> Option<Source<'a>> {
    if !existing.is_empty() {
        return Some(Source::ExistingClass(existing));
    }
    (!file.as_os_str().is_empty()).then_some(Source::File(file))
}

/// A volume in the definition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct InlineVolume {
    /// What the driver gets as `volume_context`.
    pub attributes: BTreeMap<String, String>,
    /// Two pods with these attributes see the same data.
    pub shared: bool,
    /// The volume can only be read.
    pub read_only: bool,
}

/// How a claim asks to use a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
pub enum AccessMode {
    /// To read and write from one node.
    ReadWriteOnce,
    /// To read from many nodes.
    ReadOnlyMany,
    /// To read and write from many nodes.
    ReadWriteMany,
    /// To read and write from one pod.
    ReadWriteOncePod,
}

impl<'de> Deserialize<'de> for AccessMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AccessMode, D::Error> {
        parsed(deserializer, |text| match text {
            "ReadWriteOnce" => Ok(AccessMode::ReadWriteOnce),
            "ReadOnlyMany" => Ok(AccessMode::ReadOnlyMany),
            "ReadWriteMany" => Ok(AccessMode::ReadWriteMany),
            "ReadWriteOncePod" => Ok(AccessMode::ReadWriteOncePod),
            _ => {
                let meant = match text {
                    "RWO" => "ReadWriteOnce",
                    "ROX" => "ReadOnlyMany",
                    "RWX" => "ReadWriteMany",
                    "RWOP" => "ReadWriteOncePod",
                    _ => "ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod",
                };
                Err(format!("{text:?} is not an access mode; write {meant}"))
            }
        })
    }
}

/// The size of the stress test of volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct StressTestOptions {
    /// Pods, each with a volume. The test fails with 0.
    pub num_pods: u32,
    /// How often each pod is made and deleted. The test fails with 0.
    pub num_restarts: u32,
}

/// The size of a stress test of snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct SnapshotStressTestOptions {
    /// Pods, each with a volume. The test fails with 0.
    pub num_pods: u32,
    /// Snapshots of each volume, or of the group. The test fails with 0.
    pub num_snapshots: u32,
}

/// The size of the stress test of changes of volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ModifyStressTestOptions {
    /// Volumes. The test fails with 0.
    pub num_pods: u32,
}

/// The size of the stress test of snapshot metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct SnapshotMetadataStressTestOptions {
    /// Pods, each with a block volume, and later with two more. The test skips with 0.
    pub num_pods: u32,
    /// How often the snapshots of each volume are taken and looked at. The test skips with 0.
    pub num_snapshot_pairs: u32,
}

/// What the driver has to achieve in the tests of performance.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PerformanceTestOptions {
    /// When it makes volumes.
    pub provisioning_options: Option<ProvisioningOptions>,
}

/// What the driver has to achieve when it makes volumes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ProvisioningOptions {
    /// The size of each volume.
    #[serde(deserialize_with = "quantity_if_any")]
    #[schemars(with = "Quantity")]
    pub volume_size: Option<Quantity>,
    /// How many volumes.
    pub count: u32,
    /// The limits. Without them upstream's test crashes.
    pub expected_metrics: Option<ExpectedMetrics>,
}

/// Limits of how long it may take to make volumes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ExpectedMetrics {
    /// Longest time to make a volume, on average, in nanoseconds.
    #[serde(rename = "AvgLatency")]
    pub average_latency_ns: u64,
    /// Fewest volumes a second.
    pub throughput: f64,
}

/// What stands beside the keys of a set.
#[derive(Deserialize, JsonSchema)]
struct Empty {}

fn keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<String>, D::Error> {
    let map = BTreeMap::<String, Option<Empty>>::deserialize(deserializer)?;
    Ok(map.into_keys().collect())
}

fn keys_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BTreeSet<String>>, D::Error> {
    keys(deserializer).map(Some)
}

/// As upstream, an empty string is no quantity.
fn quantity_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Quantity>, D::Error> {
    let given = |text: &str| if text.is_empty() { Ok(None) } else { text.parse().map(Some) };
    parsed::<_, _, QuantityError>(deserializer, given)
}

/// The smallest volume, where none is named on purpose.
fn smallest<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
    quantity_if_any(deserializer).map(|min| min.unwrap_or(Quantity::from_bytes(1 << 10)))
}
