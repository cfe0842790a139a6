//! The contents of a definition. The fields are those of Kubernetes, and their descriptions say how the tests use
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::capability::{Capabilities, Capability};
use crate::document::parsed;
use crate::quantity::{Quantity, QuantityError};
use crate::timeouts::Timeouts;

/// A description of a driver for the external storage tests of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DriverDefinition {
    /// The driver itself.
    pub driver_info: DriverInfo,
    /// The source of the class for volumes. Without it only inline volumes are tested.
    pub storage_class: ClassSource,
    /// The source of the class for snapshots. Without it tests of snapshots skip.
    pub snapshot_class: ClassSource,
    /// The source of the class for group snapshots. Without it their tests skip.
    pub group_snapshot_class: ClassSource,
    /// The source of the class for changes of volumes. Without it tests of such changes skip.
    pub volume_attributes_class: AttributesClassSource,
    /// Volumes in the definition of a pod, which tests use one after the other. Without any, their tests skip.
    pub inline_volumes: Vec<InlineVolume>,
    /// The node that all pods run on, by its host name label. Tests of two nodes then skip.
    pub client_node_name: String,
    /// Labels of nodes that pods may run on, besides `kubernetes.io/os`.
    pub node_selectors: BTreeMap<String, String>,
    /// The timeouts of the tests.
    pub timeouts: Timeouts,
}

impl DriverDefinition {
    /// Returns whether the driver has a capability.
    pub fn can(&self, capability: Capability) -> bool {
        self.driver_info.capabilities.has(capability)
    }
}

/// The properties of a driver that do not depend on where it runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DriverInfo {
    /// The name that the driver returns in GetPluginInfo, such as `hostpath.csi.k8s.io`. It must be given.
    pub name: String,
    /// The in-tree plugin of Kubernetes that the driver replaces. Leave it out, because it turns tests off.
    pub in_tree_plugin_name: String,
    /// Tags that are added to the name of each test.
    pub test_tags: Vec<String>,
    /// The largest file that tests of reading and writing make, in bytes. They try 1 MiB, 100 MiB and 1 GiB; with 0, the
    /// default, they make none and check nothing.
    #[serde(rename = "MaxFileSize")]
    pub max_file_size_bytes: u64,
    /// The sizes that volumes can have.
    pub supported_size_range: SizeRange,
    /// File systems that the driver makes, as keys with an empty map. The empty name stands for the driver's default,
    /// which is always supported.
    #[serde(deserialize_with = "keys")]
    #[schemars(with = "BTreeMap<String, Option<Empty>>")]
    pub supported_fs_type: BTreeSet<String>,
    /// Mount options that the driver accepts, as keys with an empty map. Without it the test of mount options skips.
    #[serde(deserialize_with = "keys_if_any")]
    #[schemars(with = "BTreeMap<String, Option<Empty>>")]
    pub supported_mount_option: Option<BTreeSet<String>>,
    /// Mount options that the test of mount options always adds, as keys with an empty map. No other test does.
    #[serde(deserialize_with = "keys_if_any")]
    #[schemars(with = "BTreeMap<String, Option<Empty>>")]
    pub required_mount_option: Option<BTreeSet<String>>,
    /// The capabilities of the driver.
    pub capabilities: Capabilities,
    /// The access modes of most claims; the default is ReadWriteOnce.
    pub required_access_modes: Vec<AccessMode>,
    /// Labels of nodes that make a topology segment.
    pub topology_keys: Vec<String>,
    /// The number of segments in which a volume must be allowed; 0 means 1. Replicated volumes need 2.
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
    /// The required performance of the driver. Without it the performance tests skip.
    pub performance_test_options: Option<PerformanceTestOptions>,
}

impl DriverInfo {
    /// Returns whether the driver makes a file system; it always makes its default, the empty name.
    pub fn supports_fs_type(&self, fs_type: &str) -> bool {
        fs_type.is_empty() || self.supported_fs_type.contains(fs_type)
    }
}

/// The sizes that volumes can have, as quantities such as `1Gi`, which need quotes if they are plain numbers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct SizeRange {
    /// The smallest volume; the default is 5Gi. Most claims request this size, or the size that the test needs if
    /// that is larger.
    #[serde(deserialize_with = "smallest")]
    pub min: Quantity,
    /// The largest volume.
    #[serde(deserialize_with = "quantity_if_any")]
    #[schemars(with = "Quantity")]
    pub max: Option<Quantity>,
    /// The growth of volumes in tests; the default is 1Gi.
    #[serde(deserialize_with = "quantity_if_any")]
    #[schemars(with = "Quantity")]
    pub step: Option<Quantity>,
}

impl Default for SizeRange {
    fn default() -> SizeRange {
        SizeRange { min: Quantity::from_bytes(5 << 30), max: None, step: None }
    }
}

/// The source of a class. If several are given, `FromName` takes precedence, and `FromFile` comes last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ClassSource {
    /// Make a class for the driver, without parameters.
    pub from_name: bool,
    /// Copy the class of this name, which is in the cluster.
    pub from_existing_class_name: String,
    /// Copy the class in this manifest. It is searched for in the folder of the definition, in its parents, and in
    /// the working directory; Kubernetes searches the root of its test files.
    pub from_file: PathBuf,
}

/// The source of the class for changes of volumes. If both are given, `FromExistingClassName` takes precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AttributesClassSource {
    /// Copy the class of this name, which is in the cluster.
    pub from_existing_class_name: String,
    /// Copy the class in this manifest. It is searched for like those of the other kinds.
    pub from_file: PathBuf,
}

/// The source that takes precedence among those of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// A class that is made for the driver, without parameters.
    Name,
    /// The class of this name in the cluster.
    ExistingClass(&'a str),
    /// The class in this manifest, whose path is as in the definition.
    File(&'a Path),
}

impl ClassSource {
    /// Returns the source that takes precedence, or `None` if there is no class.
    pub fn source(&self) -> Option<Source<'_>> {
        if self.from_name {
            Some(Source::Name)
        } else {
            source(&self.from_existing_class_name, &self.from_file)
        }
    }
}

impl AttributesClassSource {
    /// Returns the source that takes precedence, or `None` if there is no class.
    pub fn source(&self) -> Option<Source<'_>> {
        source(&self.from_existing_class_name, &self.from_file)
    }
}

impl Source<'_> {
    /// Returns the manifest that is read when there is no cluster.
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
    /// The `volume_context` of the calls to the driver.
    pub attributes: BTreeMap<String, String>,
    /// Two pods with these attributes see the same data.
    pub shared: bool,
    /// The volume can only be read.
    pub read_only: bool,
}

/// The access mode of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
pub enum AccessMode {
    /// One node reads and writes.
    ReadWriteOnce,
    /// Many nodes read.
    ReadOnlyMany,
    /// Many nodes read and write.
    ReadWriteMany,
    /// One pod reads and writes.
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
    /// The number of pods, each with a volume. The test fails with 0.
    pub num_pods: u32,
    /// The number of times that each pod is made and deleted. The test fails with 0.
    pub num_restarts: u32,
}

/// The size of a stress test of snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct SnapshotStressTestOptions {
    /// The number of pods, each with a volume. The test fails with 0.
    pub num_pods: u32,
    /// The number of snapshots of each volume, or of the group. The test fails with 0.
    pub num_snapshots: u32,
}

/// The size of the stress test of changes of volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ModifyStressTestOptions {
    /// The number of volumes. The test fails with 0.
    pub num_pods: u32,
}

/// The size of the stress test of snapshot metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct SnapshotMetadataStressTestOptions {
    /// The number of pods, each with a block volume, and later with two more. The test skips with 0.
    pub num_pods: u32,
    /// The number of times that the snapshots of each volume are taken and read. The test skips with 0.
    pub num_snapshot_pairs: u32,
}

/// The required performance of the driver. Without it the performance tests skip.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PerformanceTestOptions {
    /// The required performance of provisioning.
    pub provisioning_options: Option<ProvisioningOptions>,
}

/// The required performance of provisioning.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ProvisioningOptions {
    /// The size of each volume.
    #[serde(deserialize_with = "quantity_if_any")]
    #[schemars(with = "Quantity")]
    pub volume_size: Option<Quantity>,
    /// The number of volumes.
    pub count: u32,
    /// The limits. Without them Kubernetes' test crashes.
    pub expected_metrics: Option<ExpectedMetrics>,
}

/// The limits of the time that provisioning may take.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ExpectedMetrics {
    /// The longest average time to make a volume, in nanoseconds.
    #[serde(rename = "AvgLatency")]
    pub average_latency_ns: u64,
    /// The smallest number of volumes per second.
    pub throughput: f64,
}

/// The value of each key in a set.
#[derive(Deserialize, JsonSchema)]
struct Empty {}

fn keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<String>, D::Error> {
    let map = BTreeMap::<String, Option<Empty>>::deserialize(deserializer)?;
    Ok(map.into_keys().collect())
}

fn keys_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BTreeSet<String>>, D::Error> {
    keys(deserializer).map(Some)
}

/// Reads a quantity; an empty string means none, as in Kubernetes.
fn quantity_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Quantity>, D::Error> {
    let given = |text: &str| if text.is_empty() { Ok(None) } else { text.parse().map(Some) };
    parsed::<_, _, QuantityError>(deserializer, given)
}

/// Returns the default of the smallest volume if an empty string is given.
fn smallest<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
    quantity_if_any(deserializer).map(|min| min.unwrap_or(Quantity::from_bytes(1 << 10)))
}
