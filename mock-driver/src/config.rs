//! The configuration of the driver: capabilities, limits, nodes, quirks, defects, faults and files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::capability::{Capability, CsiVersion};
use crate::defect::Defect;
use crate::hold::HoldPoint;
use crate::option_value::{Delay, Failure, RpcName};
use crate::quirk::Quirk;
use crate::state::StateFileError;

/// The largest configuration file that is read.
const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// The time for which a call is held if a defect only shows in overlapping calls.
const DEFECT_WINDOW: Duration = Duration::from_millis(20);

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
const TIB: i64 = 1 << 40;
/// The storage of a driver whose mistake shows when it is used up.
const SMALL_STORAGE_BYTES: i64 = TIB / 2;

/// The configuration of a mock driver. [`Config::default`] is a correct driver in memory, with every capability and
/// without a need for privileges.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// The name of the plugin.
    pub driver_name: String,
    /// The version of the plugin.
    pub vendor_version: String,
    /// The version of CSI that the driver supports: 1.12, 1.13, or both.
    pub csi_version: CsiVersion,
    /// Offers only these capabilities and their prerequisites; empty for all.
    pub only: Vec<Capability>,
    /// Switches these capabilities off, and those that depend on them.
    pub without: Vec<Capability>,
    /// Legal but unusual behaviour.
    pub quirks: Vec<Quirk>,
    /// Violations of the specification.
    pub defects: Vec<Defect>,
    /// The nodes that the controller knows. The first one is served by default.
    pub nodes: Vec<NodeConfig>,
    /// The limit that NodeGetInfo reports; 0 for none.
    pub max_volumes_per_node: u32,
    /// The number of volumes that can be attached to a node; `max-volumes-per-node` by default.
    pub attach_limit: Option<u32>,
    /// The largest number of volumes, and of snapshots.
    pub objects_max: u32,
    /// The total storage, divided evenly between the topologies of the nodes.
    pub capacity_bytes: i64,
    /// The smallest size of a volume.
    pub volume_size_bytes_min: i64,
    /// The largest size of a volume.
    pub volume_size_bytes_max: i64,
    /// The size of a volume if the request names none.
    pub volume_size_bytes_default: i64,
    /// The longest name of a volume, snapshot or group snapshot.
    pub name_bytes_max: usize,
    /// The known keys of parameters. The keys of Kubernetes are always known.
    pub parameters: Vec<String>,
    /// The known keys of mutable parameters.
    pub mutable_parameters: Vec<String>,
    /// The parameters that CreateVolume demands, with their values.
    pub required_parameters: BTreeMap<String, String>,
    /// The secrets that every RPC with a field for secrets demands, with their values.
    pub required_secrets: Secrets,
    /// The volumes that exist when the driver starts.
    pub volumes: Vec<StaticVolume>,
    /// The ids or names of volumes whose condition is reported as abnormal, and whose health as degraded.
    pub abnormal_volumes: Vec<String>,
    /// A directory with files that inject health: VOLUME.health, VOLUME.controller.health, VOLUME.node.health and
    /// storage.health. Each contains the status, reason and message of a problem.
    pub health_dir: Option<PathBuf>,
    /// A directory to which the driver writes the facts that its back end knows: volume-ID.json and snapshot-ID.json.
    pub inspect_dir: Option<PathBuf>,
    /// The block size of snapshot metadata.
    pub metadata_block_bytes: i64,
    /// The time for which the quirk `lists-lag` keeps a new volume or snapshot out of lists.
    pub list_lag: Delay,
    /// The time for which the quirk `slow-start` answers no call after a start.
    pub start_delay: Delay,
    /// The time for which the quirk `slow-calls` delays each call.
    pub call_delay: Delay,
    /// The times for which RPCs are held, before they have any effect or at another step.
    pub delay: BTreeMap<HoldPoint, Delay>,
    /// The errors that RPCs return before they work.
    pub fail: BTreeMap<RpcName, Failure>,
    /// Makes ids and generated data repeatable; random by default.
    pub seed: Option<u32>,
    /// A log file to which every call is appended as a line of JSON, without secrets.
    pub call_log: Option<PathBuf>,
    /// The file in which the state survives a restart.
    pub state: Option<PathBuf>,
    /// The way in which the driver crashes if a defect makes it.
    #[serde(skip)]
    pub crash: CrashMode,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            driver_name: "mock.csi-sanity.example".to_owned(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            csi_version: CsiVersion::Both,
            only: Vec::new(),
            without: Vec::new(),
            quirks: Vec::new(),
            defects: Vec::new(),
            nodes: NodeConfig::defaults(),
            max_volumes_per_node: 64,
            attach_limit: None,
            objects_max: 100_000,
            capacity_bytes: 1024 * TIB,
            volume_size_bytes_min: MIB,
            volume_size_bytes_max: 16 * TIB,
            volume_size_bytes_default: GIB,
            name_bytes_max: 128,
            parameters: vec!["tier".to_owned(), "pool".to_owned()],
            mutable_parameters: vec!["tier".to_owned(), "iops".to_owned()],
            required_parameters: BTreeMap::new(),
            required_secrets: Secrets::default(),
            volumes: Vec::new(),
            abnormal_volumes: Vec::new(),
            health_dir: None,
            inspect_dir: None,
            metadata_block_bytes: 64 << 10,
            list_lag: Delay(Duration::from_secs(5)),
            start_delay: Delay(Duration::from_secs(12)),
            call_delay: Delay(Duration::from_millis(100)),
            delay: BTreeMap::new(),
            fail: BTreeMap::new(),
            seed: None,
            call_log: None,
            state: None,
            crash: CrashMode::default(),
        }
    }
}

/// A node that the controller knows.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NodeConfig {
    /// The node id that NodeGetInfo reports there.
    pub id: String,
    /// The topology segments. A key without a prefix gets the driver name as prefix.
    #[serde(default)]
    pub topology: BTreeMap<String, String>,
}

impl NodeConfig {
    /// Returns two nodes in one zone and a third node in another.
    fn defaults() -> Vec<Self> {
        [("node-1", "zone-a"), ("node-2", "zone-a"), ("node-3", "zone-b")]
            .map(|(id, zone)| Self {
                id: id.to_owned(),
                topology: BTreeMap::from([("zone".to_owned(), zone.to_owned())]),
            })
            .into()
    }
}

/// A volume that was provisioned outside of CSI.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StaticVolume {
    /// The volume id.
    pub id: String,
    /// The size of the volume.
    #[serde(default = "StaticVolume::default_capacity")]
    pub capacity_bytes: i64,
    /// The volume_context that callers pass.
    #[serde(default)]
    pub volume_context: BTreeMap<String, String>,
    /// True if the volume can only be published read-only.
    #[serde(default)]
    pub readonly: bool,
}

impl StaticVolume {
    fn default_capacity() -> i64 {
        GIB
    }
}

/// Secrets whose values `Debug` never shows.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secrets(pub BTreeMap<String, String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The effect of a crash that a defect causes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CrashMode {
    /// The process aborts; for the binary.
    Abort,
    /// The handler panics, which closes the connection; for drivers inside another process.
    #[default]
    DropConnection,
}

/// A configuration that is not possible.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("read configuration {path}: {source}")]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is too large.
    #[error("read configuration {path}: more than {CONFIG_BYTES_MAX} bytes")]
    TooLarge {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file is not a valid configuration.
    #[error("parse configuration {path}: {message}")]
    Parse {
        /// The path of the file.
        path: PathBuf,
        /// The error message, with line, column and an excerpt.
        message: String,
    },
    /// A value is not allowed.
    #[error("configure {option}: {reason}")]
    Value {
        /// The name of the option.
        option: &'static str,
        /// The reason.
        reason: String,
    },
    /// The call log cannot be opened.
    #[error("open call log {path}: {source}")]
    CallLog {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The state file cannot be used.
    #[error(transparent)]
    State(#[from] StateFileError),
}

impl Config {
    /// Reads a YAML file. Fields that it does not contain keep their defaults; unknown fields are errors.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let failed = |source| ConfigError::Read { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(failed)?.len() > CONFIG_BYTES_MAX {
            return Err(ConfigError::TooLarge { path: path.to_owned() });
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let options = serde_saphyr::options! { strict_booleans: true };
        serde_saphyr::from_str_with_options(&text, options)
            .map_err(|error| ConfigError::Parse { path: path.to_owned(), message: error.to_string() })
    }

    /// Applies the values that quirks and defects imply, and rejects impossible configurations.
    pub(crate) fn settle(mut self) -> Result<Self, ConfigError> {
        let has = |quirk| self.quirks.contains(&quirk);
        if has(Quirk::MinimumSize) || has(Quirk::SmallSizesRefused) {
            self.volume_size_bytes_min = self.volume_size_bytes_min.max(GIB);
        }
        if has(Quirk::ParametersDemanded) {
            self.required_parameters.entry("pool".to_owned()).or_insert_with(|| "mock".to_owned());
        }
        if has(Quirk::SecretsDemanded) {
            self.required_secrets.0.entry("password".to_owned()).or_insert_with(|| "mock".to_owned());
        }
        if self.defects.contains(&Defect::GetCapacityConstant) {
            // A number that stays as it is contradicts nothing until the storage is used up.
            self.capacity_bytes = self.capacity_bytes.min(SMALL_STORAGE_BYTES);
        }
        for point in self.defects.iter().filter_map(|defect| defect.needs_time()) {
            self.delay.entry(point).or_insert(Delay(DEFECT_WINDOW));
        }
        self.volume_size_bytes_default = self.volume_size_bytes_default.max(self.volume_size_bytes_min);
        self.prefix_topology_keys();
        self.check()?;
        Ok(self)
    }

    fn prefix_topology_keys(&mut self) {
        for node in &mut self.nodes {
            let segments = std::mem::take(&mut node.topology);
            node.topology = segments
                .into_iter()
                .map(|(key, value)| match key.contains('/') {
                    true => (key, value),
                    false => (format!("{}/{key}", self.driver_name.to_ascii_lowercase()), value),
                })
                .collect();
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let value = |option, reason: String| Err(ConfigError::Value { option, reason });
        if self.nodes.is_empty() {
            return value("nodes", "at least one node is needed".to_owned());
        }
        if self.nodes.iter().any(|node| node.id.is_empty() || node.id.len() > 256) {
            return value("nodes", "a node id has 1 to 256 bytes".to_owned());
        }
        let mut ids = BTreeSet::new();
        if let Some(twice) = self.nodes.iter().find(|node| !ids.insert(&node.id)) {
            return value("nodes", format!("node id `{}` is given twice", twice.id));
        }
        if self.volume_size_bytes_min < 1 || self.volume_size_bytes_min > self.volume_size_bytes_max {
            let (min, max) = (self.volume_size_bytes_min, self.volume_size_bytes_max);
            return value("volume-size-bytes-min", format!("{min} is not between 1 and the maximum {max}"));
        }
        if self.capacity_bytes < 0 {
            return value("capacity-bytes", format!("{} is negative", self.capacity_bytes));
        }
        if !(4096..=1 << 30).contains(&self.metadata_block_bytes) {
            return value(
                "metadata-block-bytes",
                format!("{} is not in 4096..=1Gi", self.metadata_block_bytes),
            );
        }
        if let Some(volume) =
            self.volumes.iter().find(|volume| volume.id.is_empty() || volume.capacity_bytes < 0)
        {
            return value(
                "volumes",
                format!("volume `{}` needs an id and a size that is not negative", volume.id),
            );
        }
        if self.quirks.contains(&Quirk::ControllerOnly) && self.quirks.contains(&Quirk::NodeOnly) {
            return value("quirks", "controller-only and node-only exclude each other".to_owned());
        }
        if self.quirks.contains(&Quirk::BlockOnly) && self.quirks.contains(&Quirk::MountOnly) {
            return value("quirks", "block-only and mount-only exclude each other".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secrets_of_a_configuration_do_not_show() {
        let config = Config {
            required_secrets: Secrets([("password".to_owned(), "hunter2".to_owned())].into()),
            ..Config::default()
        };
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
