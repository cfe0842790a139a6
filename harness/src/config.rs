//! The schema of `--config FILE`: the settings by which the user describes a driver. Every name is also a flag.

pub(crate) mod command;
pub mod profile;
mod size;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use csi_proto::{Endpoint, RPCS, hidden, v1};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tonic::async_trait;

use self::profile::{FlakyResult, Profile};
use crate::protocol::capability::Capability;
use crate::protocol::version::CsiVersion;
use crate::text::message::did_you_mean;

/// Longest time that can be set: 24 hours.
const LONGEST_MS: u64 = 24 * 60 * 60 * 1000;
/// The longest time for a check and for what it has made: a load may take 30 days, and longer to create and delete its volumes.
const LONGEST_LOAD_MS: u64 = 60 * LONGEST_MS;
/// The first size of volumes tried, in bytes: any file system fits into it, and xfs only just.
const SMALL_BYTES: i64 = 320 << 20;
/// The size of volumes for block access. It is smaller, because no file system has to fit, and drivers copy every byte.
const SMALL_BLOCK_BYTES: i64 = 32 << 20;

/// String pairs as the protocol has them: parameters, contexts, secrets.
pub type Pairs = BTreeMap<String, String>;

/// Everything that can be set about a driver and the surroundings of the tests.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Config {
    /// The address of the driver: unix:///path, a path, tcp://host:port or dns:///host:port.
    pub endpoint: Option<String>,
    /// The address of the Controller services, if it is another one.
    pub controller_endpoint: Option<String>,
    /// Further nodes. What `endpoint` names is the first one.
    pub nodes: Vec<NodeConfig>,
    /// Shell command that starts the driver. The run ends it, and starts it again when it dies.
    pub driver_command: Option<String>,
    /// Shell command that starts the next version of the driver, with the state and at the endpoint of the present one. The suite `upgrade`
    /// replaces one by the other.
    pub next_driver_command: Option<String>,
    /// Shell command that starts the driver in the middle of a rolling update, with the same state and endpoints: the controller of the next
    /// version, the plugin of the first node of the present version, and those of the other nodes of the next one.
    pub mixed_driver_command: Option<String>,
    /// True if the present version can be started on what the next one has stored, so that the suite `upgrade` goes back.
    pub downgrade: bool,
    /// Command that ends and starts a driver which runs elsewhere; it gets `kill`, `stop` or `start` as its argument.
    pub restart_command: Option<PathBuf>,
    /// Process of the driver, for tests that cannot find it: another process listens at its socket, or the socket is on another machine.
    pub driver_pid: Option<u32>,
    /// Directory in which the driver keeps what it knows and has; growth there is reported. If it was empty when the run
    /// started the driver, and the driver does not start with it any more, the run puts it aside and gives the driver an empty one.
    pub state_dir: Option<PathBuf>,
    /// True if only the tests use the driver and its back end, so that the driver is to blame for objects that stay there. This is assumed
    /// for a driver that the run has started and that had no objects then.
    pub exclusive: bool,
    /// Directory in which target paths of NodePublishVolume are made.
    pub mount_dir: Option<PathBuf>,
    /// Directory in which staging paths of NodeStageVolume are made.
    pub staging_dir: Option<PathBuf>,
    /// The layout of paths below these directories.
    pub path_layout: PathLayout,
    /// Commands that reach the driver's file system, where the tests do not share it.
    pub paths: PathCommands,
    /// Access types to test; checks that depend on it run once for each.
    pub access_types: Vec<AccessType>,
    /// fs_type of mount volumes; empty lets the driver choose.
    pub fs_type: String,
    /// mount_flags of mount volumes.
    pub mount_flags: Vec<String>,
    /// Size of the volumes made, in bytes or such as 1Gi; without it, a small one that the driver takes.
    #[serde(deserialize_with = "size::optional_bytes")]
    #[schemars(schema_with = "size::optional_schema")]
    pub volume_size_bytes: Option<i64>,
    /// Size that volumes are expanded to, in bytes or such as 2Gi; without it, twice the size of the volumes made.
    #[serde(deserialize_with = "size::optional_bytes")]
    #[schemars(schema_with = "size::optional_schema")]
    pub expand_size_bytes: Option<i64>,
    /// Smallest volume the back end can make, in bytes or such as 1Mi.
    #[serde(deserialize_with = "size::optional_bytes")]
    #[schemars(schema_with = "size::optional_schema")]
    pub size_min_bytes: Option<i64>,
    /// Largest volume the back end can make, in bytes or such as 16Ti.
    #[serde(deserialize_with = "size::optional_bytes")]
    #[schemars(schema_with = "size::optional_schema")]
    pub size_max_bytes: Option<i64>,
    /// The prefix of the names of volumes and snapshots; a number of the run and one of the check follow.
    pub name_prefix: String,
    /// Longest name of a volume or snapshot the back end can take, in bytes; the protocol asks for 128.
    pub name_length_max: usize,
    /// parameters of CreateVolume and of every other call that takes them.
    pub parameters: Pairs,
    /// mutable_parameters of CreateVolume and ControllerModifyVolume.
    pub mutable_parameters: Pairs,
    /// parameters of CreateSnapshot.
    pub snapshot_parameters: Pairs,
    /// parameters of CreateVolumeGroupSnapshot.
    pub group_snapshot_parameters: Pairs,
    /// Secrets of each RPC, by the RPC's name.
    pub secrets: BTreeMap<String, Secret>,
    /// accessibility_requirements of CreateVolume.
    pub topology_requirement: Option<TopologyRequirement>,
    /// Volumes that exist already, for drivers that do not create any.
    pub volumes: Vec<StaticVolume>,
    /// Ids that must not exist, for drivers that parse their ids.
    pub unknown_ids: UnknownIds,
    /// Set to true to attach volumes up to max_volumes_per_node, to test that limit.
    pub attach_limit: bool,
    /// Volumes attached at the most to test the limit; a higher limit is not tested.
    pub attach_limit_max: u32,
    /// True if checks run in which a defective driver could harm something that does not belong to the tests. For a machine and a back
    /// end that may be lost.
    pub allow_harm: bool,
    /// The rules that make a run fail.
    pub profile: Profile,
    /// The result of a failure that did not come again when its check was repeated. Without this setting, data loss, crashes and leaks fail,
    /// other flaky failures warn, and under the profile strict all of them fail.
    pub flaky_result: Option<FlakyResult>,
    /// Commands that make volumes and the back end ill, and well again.
    pub health: HealthHooks,
    /// Shell command that prints what the back end knows of an object, as YAML or JSON: `$1` is `volume` or `snapshot`, `$2` its id.
    pub inspect_command: Option<String>,
    /// Faults that only the user can make and undo, by commands.
    pub faults: Vec<FaultHook>,
    /// Proxies between the driver and its back end, which the run breaks.
    pub backend_proxies: Vec<BackendProxy>,
    /// The version of CSI by which the driver is judged; `auto` infers it from the driver's capabilities and answers.
    pub csi_version: CsiVersion,
    /// Capabilities that the driver has to advertise. Checks that need a capability skip without it; this keeps a driver that has
    /// lost one from passing for that.
    pub expect_capabilities: Vec<Capability>,
    /// Time limits.
    pub time_limits: TimeLimits,
    /// The amount of work of the suites that make many calls.
    pub effort: Effort,
    /// True if the run notes what it makes, so that it can be undone should the run be killed; no part of a file.
    #[serde(skip)]
    pub logbook: bool,
    /// The place of the driver if others call it, so that csi-sanity does not connect; no part of a file.
    #[serde(skip)]
    pub elsewhere: Option<Elsewhere>,
    /// Descriptions of forwarded endpoints, by endpoint, because their addresses mean nothing to people; no part of a file.
    #[serde(skip)]
    pub places: BTreeMap<String, String>,
}

/// A driver that a run does not call: others do, and checks look at what comes of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// Its name.
    pub driver: String,
    /// A description of its place for people.
    pub place: String,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            endpoint: None,
            controller_endpoint: None,
            nodes: Vec::new(),
            driver_command: None,
            next_driver_command: None,
            mixed_driver_command: None,
            downgrade: false,
            restart_command: None,
            driver_pid: None,
            state_dir: None,
            exclusive: false,
            mount_dir: None,
            staging_dir: None,
            path_layout: PathLayout::default(),
            paths: PathCommands::default(),
            access_types: vec![AccessType::Mount],
            fs_type: String::new(),
            mount_flags: Vec::new(),
            volume_size_bytes: None,
            expand_size_bytes: None,
            size_min_bytes: None,
            size_max_bytes: None,
            name_prefix: "sanity-".to_owned(),
            name_length_max: 128,
            parameters: Pairs::new(),
            mutable_parameters: Pairs::new(),
            snapshot_parameters: Pairs::new(),
            group_snapshot_parameters: Pairs::new(),
            secrets: BTreeMap::new(),
            topology_requirement: None,
            volumes: Vec::new(),
            unknown_ids: UnknownIds::default(),
            attach_limit: false,
            attach_limit_max: 256,
            allow_harm: false,
            profile: Profile::default(),
            flaky_result: None,
            health: HealthHooks::default(),
            inspect_command: None,
            faults: Vec::new(),
            backend_proxies: Vec::new(),
            csi_version: CsiVersion::Auto,
            expect_capabilities: Vec::new(),
            time_limits: TimeLimits::default(),
            effort: Effort::default(),
            logbook: false,
            elsewhere: None,
            places: BTreeMap::new(),
        }
    }
}

impl Config {
    /// Reads a YAML file.
    ///
    /// # Errors
    /// The file cannot be read, or a value is wrong; the text names file, line and column.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let config: Config = read_yaml(path)?;
        config.validate().map_err(|problem| ConfigError::Invalid { path: path.to_owned(), problem })?;
        Ok(config)
    }

    /// Says which value cannot be, naming it as the flag is named.
    ///
    /// # Errors
    /// One sentence about the first wrong value.
    pub fn validate(&self) -> Result<(), String> {
        let mut endpoints: Vec<&str> = self.endpoint.as_deref().into_iter().collect();
        for node in &self.nodes {
            if endpoints.contains(&node.endpoint.as_str()) {
                return Err(format!("nodes: {} is the endpoint of another node", node.endpoint));
            }
            endpoints.push(&node.endpoint);
        }
        if self.driver_command.is_some() && self.restart_command.is_some() {
            return Err("driver-command and restart-command exclude each other".to_owned());
        }
        if self.next_driver_command.is_some() && self.driver_command.is_none() {
            return Err(
                "next-driver-command needs driver-command, which starts the version before it".to_owned()
            );
        }
        if self.mixed_driver_command.is_some() && self.next_driver_command.is_none() {
            return Err(
                "mixed-driver-command needs next-driver-command, which starts the next version alone"
                    .to_owned(),
            );
        }
        if self.downgrade && self.next_driver_command.is_none() {
            return Err(
                "downgrade needs next-driver-command, which starts the version to go back from".to_owned()
            );
        }
        if self.access_types.is_empty() {
            return Err("access-types must name mount, block or both".to_owned());
        }
        for (i, access) in self.access_types.iter().enumerate() {
            if self.access_types[..i].contains(access) {
                return Err(format!("access-types names {access} twice"));
            }
        }
        for (name, value) in [
            ("volume-size-bytes", self.volume_size_bytes),
            ("expand-size-bytes", self.expand_size_bytes),
            ("size-min-bytes", self.size_min_bytes),
            ("size-max-bytes", self.size_max_bytes),
        ] {
            if value.is_some_and(|bytes| bytes <= 0) {
                return Err(format!("{name} must be a positive number of bytes"));
            }
        }
        let made = self.volume_size_bytes.unwrap_or_else(|| self.first_volume_bytes(AccessType::Mount));
        if self.expand_size_bytes.is_some_and(|expanded| expanded < made) {
            return Err("expand-size-bytes must not be below volume-size-bytes".to_owned());
        }
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.name_prefix.len() > Config::NAME_PREFIX_MAX || !self.name_prefix.chars().all(plain) {
            let most = Config::NAME_PREFIX_MAX;
            return Err(format!("name-prefix must be at most {most} characters out of a-z, 0-9 and -"));
        }
        if self.name_length_max < Config::NAME_LENGTH_FLOOR {
            return Err(format!("name-length-max must be at least {}", Config::NAME_LENGTH_FLOOR));
        }
        if let Some(rpc) = self.secrets.keys().find(|name| !is_rpc(name)) {
            return Err(format!("secrets: {rpc:?} is not an RPC; write for example CreateVolume"));
        }
        if self.health.make_ill.is_some() != self.health.make_well.is_some() {
            return Err("health: break and heal belong together".to_owned());
        }
        let mut names: Vec<&str> = self.faults.iter().map(|fault| fault.name.as_str()).collect();
        names.sort_unstable();
        if let Some(name) =
            names.iter().find(|name| name.is_empty() || !name.chars().all(plain) || **name == "health")
        {
            return Err(format!(
                "faults: the name {name:?} must be characters out of a-z, 0-9 and -, and not health"
            ));
        }
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("faults: two have the name {:?}", twice[0]));
        }
        let addresses = self.backend_proxies.iter().flat_map(|proxy| [&proxy.listen, &proxy.target]);
        if let Some(wrong) = addresses.into_iter().find(|address| !is_address(address)) {
            return Err(format!("backend-proxies: {wrong:?} is no address; write HOST:PORT"));
        }
        self.effort.validate()?;
        self.time_limits.validate()
    }

    /// The size of volumes to begin with where the user names none: small, within the limits of the back end, with room to grow.
    pub(crate) fn first_volume_bytes(&self, access: AccessType) -> i64 {
        let most = self.size_max_bytes.map_or(i64::MAX, |most| (most / 2).max(1));
        let small = match access {
            AccessType::Mount => SMALL_BYTES,
            AccessType::Block => SMALL_BLOCK_BYTES,
        };
        small.min(most).max(self.size_min_bytes.unwrap_or(1))
    }

    /// Has every secret of this configuration left out of what is printed from now on.
    pub(crate) fn hide_secrets(&self) {
        self.secrets.values().flat_map(|secret| secret.0.values()).for_each(|value| hidden::hide(value));
    }

    /// Longest prefix of names, in bytes: with more, long-lived checks would run out of short names.
    pub const NAME_PREFIX_MAX: usize = 8;

    /// Shortest limit on names: anything less leaves no room for names that are unique over runs.
    pub const NAME_LENGTH_FLOOR: usize = 24;

    /// Describes an endpoint for people.
    pub fn place_of(&self, endpoint: &Endpoint) -> String {
        let address = endpoint.to_string();
        self.places.get(&address).cloned().unwrap_or(address)
    }

    /// The secrets configured for an RPC.
    pub fn secrets_for(&self, method: &str) -> Option<&Pairs> {
        self.secrets.get(method).map(|secret| &secret.0)
    }
}

fn is_rpc(name: &str) -> bool {
    RPCS.iter().any(|rpc| rpc.method == name)
}

/// Reads any YAML file of ours, so that all of them fail alike.
///
/// # Errors
/// The file cannot be read, or a value is wrong.
pub fn read_yaml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    parse_yaml(path, &text)
}

/// Reads a value from the text of a YAML file.
///
/// # Errors
/// A value is wrong: the file, the line and the column.
pub fn parse_yaml<T: serde::de::DeserializeOwned>(path: &Path, text: &str) -> Result<T, ConfigError> {
    // No excerpt of the file with an error: the lines around it may hold secrets.
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error.location().and_then(|place| usize::try_from(place.line()).ok());
        let key = line.and_then(|line| key_of(text.lines().nth(line.checked_sub(1)?)?));
        ConfigError::Parse { path: path.to_owned(), problem: explained(&error.to_string(), key) }
    })
}

/// The key at the beginning of a line, with or without the dash of a list before it.
fn key_of(line: &str) -> Option<&str> {
    let (key, _) = line.trim_start_matches([' ', '-']).split_once(':')?;
    let is_key =
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    is_key.then_some(key)
}

/// The error with the key that it is about, and in words that are not those of the parser. For an unknown key it has those that resemble it,
/// instead of all of them.
fn explained(problem: &str, key: Option<&str>) -> String {
    let unknown = || {
        let (unknown, rest) = problem.split_once(", expected one of ")?;
        let (names, place) = rest.rsplit_once(" at ")?;
        let wrong = unknown.split('`').nth(1)?;
        Some(match did_you_mean(wrong, names.split(", ")) {
            suggestion if suggestion.is_empty() => format!("{unknown} at {place}; these are known: {names}"),
            suggestion => format!("{unknown} at {place}{suggestion}"),
        })
    };
    unknown().unwrap_or_else(|| {
        let words = [
            ("expected sequence start", "expected a list, such as [a, b]"),
            ("expected mapping start", "expected a map, such as {a: b}"),
            ("expected string scalar", "expected a string"),
            ("invalid u64", "expected a number that is not negative"),
        ];
        let said = words.iter().find(|(theirs, _)| problem.starts_with(theirs));
        let problem =
            said.map_or_else(|| problem.to_owned(), |(theirs, ours)| problem.replacen(theirs, ours, 1));
        match key {
            Some(key) if !problem.contains(key) => format!("{key}: {problem}"),
            _ => problem,
        }
    })
}

/// A reason why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file is not what the schema asks for.
    #[error("failed to parse {}: {problem}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line, the column and the problem.
        problem: String,
    },
    /// A value cannot be.
    #[error("{}: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The value and the reason.
        problem: String,
    },
}

/// Secret pairs, which neither `Debug` nor a serialised configuration shows.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Secret(pub Pairs);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.keys().map(|key| (key, csi_proto::hidden::STRIPPED))).finish()
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.keys().map(|key| (key, csi_proto::hidden::STRIPPED)))
    }
}

/// The form in which a volume is offered to a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessType {
    /// A file system, mounted at a directory.
    Mount,
    /// A raw block device.
    Block,
}

impl AccessType {
    /// The one that it is not.
    pub fn other(self) -> AccessType {
        match self {
            AccessType::Mount => AccessType::Block,
            AccessType::Block => AccessType::Mount,
        }
    }
}

impl fmt::Display for AccessType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            AccessType::Mount => "mount",
            AccessType::Block => "block",
        })
    }
}

impl FromStr for AccessType {
    type Err = String;

    fn from_str(text: &str) -> Result<AccessType, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "mount" => Ok(AccessType::Mount),
            "block" => Ok(AccessType::Block),
            _ => Err(format!("{text:?} is not an access type; allowed are mount and block")),
        }
    }
}

/// A node of the driver beside the first one.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NodeConfig {
    /// The address of its Node service.
    pub endpoint: String,
    /// Directory for its target paths; a directory for it below the common `mount-dir` if not given.
    #[serde(default)]
    pub mount_dir: Option<PathBuf>,
    /// Directory for its staging paths; a directory for it below the common `staging-dir` if not given.
    #[serde(default)]
    pub staging_dir: Option<PathBuf>,
    /// Commands that reach its file system; the common `paths` if not given.
    #[serde(default)]
    pub paths: Option<PathCommands>,
}

/// The layout of target and staging paths below their directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PathLayout {
    /// Side by side, each with a name of its own.
    #[default]
    Flat,
    /// The layout of kubelet below its root directory: `plugins/kubernetes.io/csi` and `pods`.
    Kubelet,
}

impl FromStr for PathLayout {
    type Err = String;

    fn from_str(text: &str) -> Result<PathLayout, String> {
        match text {
            "flat" => Ok(PathLayout::Flat),
            "kubelet" => Ok(PathLayout::Kubelet),
            _ => Err(format!("{text:?} is not a layout; allowed are flat and kubelet")),
        }
    }
}

/// Commands that make, remove and look at paths where the driver sees them; each gets the path as its only argument.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PathCommands {
    /// Makes a directory for target paths and prints its path.
    pub create_mount_path_command: Option<PathBuf>,
    /// Makes a staging directory and prints its path.
    pub create_staging_path_command: Option<PathBuf>,
    /// Removes the directory that `create-mount-path-command` made.
    pub remove_mount_path_command: Option<PathBuf>,
    /// Removes the directory that `create-staging-path-command` made.
    pub remove_staging_path_command: Option<PathBuf>,
    /// Prints `file`, `directory`, `not_found` or `other` for a path.
    pub check_path_command: Option<PathBuf>,
    /// Time limit of the two create commands.
    pub create_timeout_ms: Option<u64>,
    /// Time limit of the two remove commands.
    pub remove_timeout_ms: Option<u64>,
    /// Time limit of the check command.
    pub check_timeout_ms: Option<u64>,
    /// The shell in which the commands run, if it is not on this machine; no part of a file.
    #[serde(skip)]
    pub shell: Option<Arc<dyn Shell>>,
}

/// A place where commands run that is not this machine.
#[async_trait]
pub trait Shell: fmt::Debug + Send + Sync {
    /// Runs a script of `sh` with one argument and returns what it printed, trimmed.
    ///
    /// # Errors
    /// It did not run, or ended with another code than 0: a sentence that says so.
    async fn run(&self, script: &str, argument: &str, limit: Duration) -> Result<String, String>;
}

impl PathCommands {
    /// Runs one of them, and returns what it printed, trimmed. The error is a sentence that names the command.
    pub(crate) async fn run(&self, command: &Path, path: &Path, limit: Duration) -> Result<String, String> {
        let Some(shell) = &self.shell else { return command::run(command, path.as_os_str(), limit).await };
        let text =
            |path: &Path| path.to_str().map(str::to_owned).ok_or_else(|| format!("{path:?} is not UTF-8"));
        shell.run(&text(command)?, &text(path)?, limit).await
    }

    /// Returns true if any command is set, which means that the tests do not share the driver's file system.
    pub fn any(&self) -> bool {
        self.create_mount_path_command.is_some()
            || self.create_staging_path_command.is_some()
            || self.remove_mount_path_command.is_some()
            || self.remove_staging_path_command.is_some()
            || self.check_path_command.is_some()
    }
}

/// accessibility_requirements, as in the protocol.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TopologyRequirement {
    /// The volume must be accessible from at least one of these topologies.
    pub requisite: Vec<Pairs>,
    /// The topologies in the order in which to try them.
    pub preferred: Vec<Pairs>,
}

impl TopologyRequirement {
    /// The message that goes over the wire.
    pub fn message(&self) -> v1::TopologyRequirement {
        let topologies =
            |all: &[Pairs]| all.iter().map(|segments| v1::Topology { segments: segments.clone() }).collect();
        v1::TopologyRequirement {
            requisite: topologies(&self.requisite),
            preferred: topologies(&self.preferred),
        }
    }
}

/// A volume that an administrator made.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StaticVolume {
    /// volume_id.
    pub id: String,
    /// volume_context, sent wherever the protocol has that field.
    #[serde(default)]
    pub context: Pairs,
    /// publish_context, for drivers that want one without ControllerPublishVolume.
    #[serde(default)]
    pub publish_context: Pairs,
    /// Access type it can be used with; any if not given.
    #[serde(default)]
    pub access_type: Option<AccessType>,
    /// Size in bytes, or such as 1Gi, where known.
    #[serde(default, deserialize_with = "size::bytes")]
    #[schemars(schema_with = "size::schema")]
    pub size_bytes: i64,
    /// Set to true if it can only be published with `readonly`. Checks that need to write leave it out.
    #[serde(default)]
    pub readonly: bool,
}

/// Templates of ids that must not exist. `{n}` becomes a number, different at each use.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct UnknownIds {
    /// volume_id of a volume that does not exist.
    pub volume: String,
    /// snapshot_id of a snapshot that does not exist.
    pub snapshot: String,
    /// group_snapshot_id of a group snapshot that does not exist.
    pub group_snapshot: String,
    /// node_id of a node that does not exist.
    pub node: String,
}

impl Default for UnknownIds {
    fn default() -> UnknownIds {
        let id = |kind: &str| format!("csi-sanity-no-such-{kind}-{{n}}");
        UnknownIds {
            volume: id("volume"),
            snapshot: id("snapshot"),
            group_snapshot: id("group-snapshot"),
            node: id("node"),
        }
    }
}

/// Time limits.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TimeLimits {
    /// Reaching the endpoint, retries included.
    pub dial_ms: u64,
    /// One call.
    pub call_ms: u64,
    /// One call of the RPCs named here.
    pub rpc_ms: BTreeMap<String, u64>,
    /// One check, without the time for undoing.
    pub check_ms: u64,
    /// Undoing everything that one check made.
    pub undo_ms: u64,
    /// Until a deleted volume or snapshot has gone from the lists, or a new snapshot is ready. Where it is not set, 12 s,
    /// or ten times the slowest call, and less for what has happened at once or never before.
    pub settle_ms: Option<u64>,
    /// Until a driver that died, or was ended on purpose, is back; also one call of `restart-command`. Where it is not set,
    /// ten times the longest start seen, 5 min at the most, but not less than `dial-ms`; 10 s where the run cannot start it.
    pub restart_ms: Option<u64>,
    /// Until a driver that left a call unanswered has to answer GetPluginInfo; one that does not is called dead.
    pub alive_ms: u64,
    /// One write of a workload in a volume in use, whatever the driver does meanwhile.
    pub stall_ms: u64,
}

impl Default for TimeLimits {
    fn default() -> TimeLimits {
        TimeLimits {
            dial_ms: 30_000,
            call_ms: 30_000,
            rpc_ms: BTreeMap::new(),
            check_ms: 300_000,
            undo_ms: 120_000,
            settle_ms: None,
            restart_ms: None,
            alive_ms: 30_000,
            stall_ms: 30_000,
        }
    }
}

impl TimeLimits {
    /// The limit of one call of an RPC.
    pub fn call(&self, method: &str) -> Duration {
        Duration::from_millis(self.rpc_ms.get(method).copied().unwrap_or(self.call_ms))
    }

    /// The limit of one call of `restart-command`.
    pub fn restart_command(&self) -> Duration {
        Duration::from_millis(self.restart_ms.unwrap_or(self.dial_ms))
    }

    fn validate(&self) -> Result<(), String> {
        if let Some(rpc) = self.rpc_ms.keys().find(|name| !is_rpc(name)) {
            return Err(format!(
                "time-limits: rpc-ms: {rpc:?} is not an RPC; write for example CreateVolume"
            ));
        }
        let limits = [
            ("dial-ms", Some(self.dial_ms), LONGEST_MS),
            ("call-ms", Some(self.call_ms), LONGEST_MS),
            ("check-ms", Some(self.check_ms), LONGEST_LOAD_MS),
            ("undo-ms", Some(self.undo_ms), LONGEST_LOAD_MS),
            ("settle-ms", self.settle_ms, LONGEST_MS),
            ("restart-ms", self.restart_ms, LONGEST_MS),
            ("alive-ms", Some(self.alive_ms), LONGEST_MS),
            ("stall-ms", Some(self.stall_ms), LONGEST_MS),
        ];
        let of_rpcs = self.rpc_ms.iter().map(|(rpc, ms)| (rpc.as_str(), Some(*ms), LONGEST_MS));
        match limits.into_iter().chain(of_rpcs).find(|(_, ms, max)| ms.is_some_and(|ms| ms == 0 || ms > *max))
        {
            Some((key, ms, max)) => Err(format!(
                "time-limits: {key}: {} is out of range; allowed are 1 to {max} milliseconds",
                ms.unwrap_or_default()
            )),
            None => Ok(()),
        }
    }
}

/// The amount of work of the suites that make many calls: idempotency, property, concurrency, restart and the sequences of data. It
/// depends on nothing else, so that a driver gets the same verdict on any machine.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Effort {
    /// Times that the idempotency suite makes each call.
    pub repeat: u32,
    /// Sequences that each check of the property suite tries, half of them where the tests write to what the driver mounts. The
    /// first half is the same in every run, the second one depends on the seed.
    pub cases: u32,
    /// Calls of a random sequence at the most.
    pub steps: u32,
    /// Calls that each check of the concurrency suite makes.
    pub operations: u32,
    /// Times that the restart suite ends the driver at a random moment, after it has done so at fixed ones.
    pub kills: u32,
    /// Faults that each check of these suites reports before it stops looking for more.
    pub faults: u32,
    /// Time after which a check of these suites begins nothing new, although it has not done everything. It is a ceiling for drivers
    /// and machines that are slow: about five times what such a check takes on an idle machine.
    pub check_budget_ms: u64,
    /// About the time that these suites are to take on an idle machine, in place of one minute: what they try at random is multiplied
    /// accordingly.
    pub budget_ms: Option<u64>,
    /// Directory in which failing cases are stored, and from which the property and faults suites take what they try first.
    pub regressions: Option<PathBuf>,
    /// The stored case that is run again; no part of a file.
    #[serde(skip)]
    pub replay: Option<PathBuf>,
    /// The only faults that are tried, as they are stored; none stands for all. No part of a file.
    #[serde(skip)]
    pub only_faults: Vec<String>,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort {
            repeat: 3,
            cases: 128,
            steps: 40,
            operations: 1_000,
            kills: 6,
            faults: 4,
            check_budget_ms: 150_000,
            budget_ms: None,
            regressions: None,
            replay: None,
            only_faults: Vec::new(),
        }
    }
}

impl Effort {
    /// Numbers are at most this.
    const MOST: u32 = 1_000_000;
    /// About what these suites take by default, on an idle machine and a driver that mounts.
    const USUAL_MS: u64 = 60_000;

    /// The number of random tries with `--budget` where it is usually `amount`; at least one.
    pub fn scaled(&self, amount: u32) -> u32 {
        let budget_ms = self.budget_ms.unwrap_or(Effort::USUAL_MS);
        let scaled = u64::from(amount).saturating_mul(budget_ms) / Effort::USUAL_MS;
        u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
    }

    /// A check begins nothing new after this time.
    pub fn ceiling(&self) -> Duration {
        Duration::from_millis(self.check_budget_ms.max(self.budget_ms.unwrap_or_default()))
    }

    fn validate(&self) -> Result<(), String> {
        let numbers = [
            ("repeat", self.repeat),
            ("cases", self.cases),
            ("steps", self.steps),
            ("operations", self.operations),
            ("kills", self.kills),
            ("faults", self.faults),
        ];
        if let Some((name, _)) = numbers.iter().find(|(_, number)| *number == 0 || *number > Effort::MOST) {
            return Err(format!("effort: {name} must lie between 1 and {}", Effort::MOST));
        }
        match self.budget_ms.iter().chain([&self.check_budget_ms]).any(|ms| *ms == 0 || *ms > LONGEST_MS) {
            true => Err("effort: budgets must lie between 1 ms and 24 hours".to_owned()),
            false => Ok(()),
        }
    }
}

/// Commands that make a volume or the back end ill, and well again. Without them a driver on a back end that is well has nothing to
/// report health, so that checks of its reports are skipped.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct HealthHooks {
    /// Shell command that makes something ill: `$1` is the id of a volume, or `backend`.
    #[serde(rename = "break")]
    pub make_ill: Option<String>,
    /// Shell command that makes the volume healthy again.
    #[serde(rename = "heal")]
    pub make_well: Option<String>,
    /// Time limit of either.
    pub timeout_ms: u64,
}

impl Default for HealthHooks {
    fn default() -> HealthHooks {
        HealthHooks { make_ill: None, make_well: None, timeout_ms: 30_000 }
    }
}

/// A fault that only the user can make and undo, such as a storage node that stops.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FaultHook {
    /// The name, in characters out of a-z, 0-9 and -.
    pub name: String,
    /// Shell command that breaks it: `$1` is the name. It has to end when that is done.
    #[serde(rename = "break")]
    pub break_command: String,
    /// Shell command that heals it. It is also run where nothing is broken.
    #[serde(rename = "heal")]
    pub heal_command: String,
    /// Time limit of either.
    #[serde(default = "hook_timeout_ms")]
    pub timeout_ms: u64,
}

/// A proxy over TCP: the driver is told to reach its back end at `listen`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BackendProxy {
    /// Address that the run listens at, such as 127.0.0.1:13260.
    pub listen: String,
    /// Address of the back end.
    pub target: String,
}

impl std::str::FromStr for BackendProxy {
    type Err = String;

    fn from_str(text: &str) -> Result<BackendProxy, String> {
        let (listen, target) = text.split_once('=').ok_or("write LISTEN=TARGET, each HOST:PORT")?;
        match [listen, target].into_iter().find(|address| !is_address(address)) {
            Some(wrong) => Err(format!("{wrong:?} is no address; write HOST:PORT")),
            None => Ok(BackendProxy { listen: listen.to_owned(), target: target.to_owned() }),
        }
    }
}

/// Returns true if an address names a host and a port.
fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

fn hook_timeout_ms() -> u64 {
    HealthHooks::default().timeout_ms
}

/// Something that only some users configure, and some checks need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `--mutable-parameters`
    MutableParameters,
    /// `--topology-requirement`
    TopologyRequirement,
    /// `--size-min-bytes`
    SizeMin,
    /// `--size-max-bytes`
    SizeMax,
    /// `volumes` of `--config`
    Volumes,
    /// `health` of `--config`
    Health,
    /// `inspect-command` of `--config`
    Inspect,
    /// `faults` of `--config`
    Faults,
    /// `--backend-proxy`
    BackendProxy,
    /// `--next-driver-command`
    NextDriverCommand,
    /// `--mixed-driver-command`
    MixedDriverCommand,
    /// `--downgrade`
    Downgrade,
}

impl Setting {
    /// The flag that sets it.
    pub fn flag(self) -> &'static str {
        match self {
            Setting::MutableParameters => "--mutable-parameters",
            Setting::TopologyRequirement => "topology-requirement of --config",
            Setting::SizeMin => "--size-min-bytes",
            Setting::SizeMax => "--size-max-bytes",
            Setting::Volumes => "volumes of --config",
            Setting::Health => "health of --config",
            Setting::Inspect => "inspect-command of --config",
            Setting::Faults => "faults of --config",
            Setting::BackendProxy => "--backend-proxy",
            Setting::NextDriverCommand => "--next-driver-command",
            Setting::MixedDriverCommand => "--mixed-driver-command",
            Setting::Downgrade => "--downgrade",
        }
    }

    pub(crate) fn is_set(self, config: &Config) -> bool {
        match self {
            Setting::MutableParameters => !config.mutable_parameters.is_empty(),
            Setting::TopologyRequirement => config.topology_requirement.is_some(),
            Setting::SizeMin => config.size_min_bytes.is_some(),
            Setting::SizeMax => config.size_max_bytes.is_some(),
            Setting::Volumes => !config.volumes.is_empty(),
            Setting::Health => config.health.make_ill.is_some(),
            Setting::Inspect => config.inspect_command.is_some(),
            Setting::Faults => !config.faults.is_empty(),
            Setting::BackendProxy => !config.backend_proxies.is_empty(),
            Setting::NextDriverCommand => config.next_driver_command.is_some(),
            Setting::MixedDriverCommand => config.mixed_driver_command.is_some(),
            Setting::Downgrade => config.downgrade,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        let config: Config = parse_yaml(Path::new("driver.yaml"), text).map_err(|error| error.to_string())?;
        config.validate().map(|()| config)
    }

    #[test]
    fn an_unknown_key_is_reported_with_similar_ones() {
        let text =
            "unknown field `paramters`, expected one of endpoint, parameters, effort at line 2, column 1";
        assert_eq!(
            explained(text, None),
            "unknown field `paramters` at line 2, column 1; did you mean parameters?"
        );
        let unlike = "unknown field `x`, expected one of endpoint, effort at line 2, column 1";
        assert_eq!(
            explained(unlike, None),
            "unknown field `x` at line 2, column 1; these are known: endpoint, effort"
        );
    }

    #[test]
    fn an_empty_file_is_the_default() {
        let (read, default) = (parse("{}").unwrap(), Config::default());
        assert_eq!(format!("{read:?}"), format!("{default:?}"));
    }

    #[test]
    fn a_wrong_key_is_named_with_its_line() {
        let error = parse("endpoint: unix:///csi.sock\nparametres: {}\n").unwrap_err();
        assert!(error.contains("parametres") && error.contains("driver.yaml"), "{error}");
        assert!(error.contains('2'), "names the line: {error}");
    }

    #[test]
    fn a_value_of_a_wrong_type_is_explained() {
        for (text, problem) in [
            ("access-types: mount", "access-types: expected a list, such as [a, b] at line 1, column 15"),
            ("time-limits: 5", "time-limits: expected a map, such as {a: b} at line 1, column 14"),
            (
                "time-limits:\n  call-ms: abc",
                "call-ms: expected a number that is not negative at line 2, column 12",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.ends_with(problem), "{text}: {error}");
        }
    }

    #[test]
    fn wrong_values_are_named() {
        for (text, name) in [
            ("{driver-command: a, restart-command: b}", "restart-command"),
            ("{endpoint: /a, nodes: [{endpoint: /a}]}", "/a"),
            ("nodes: [{endpoint: /a}, {endpoint: /b}, {endpoint: /b}]", "/b"),
            ("nodes: [{mount-dir: /a}]", "endpoint"),
            ("path-layout: flatt", "flatt"),
            ("access-types: []", "access-types"),
            ("access-types: [mount, mount]", "access-types"),
            ("volume-size-bytes: -1", "volume-size-bytes"),
            ("expand-size-bytes: 1", "expand-size-bytes"),
            ("secrets: {MakeVolume: {a: b}}", "MakeVolume"),
            ("time-limits: {call-ms: 0}", "time-limits: call-ms: 0"),
            ("time-limits: {call-ms: 86400001}", "call-ms"),
            ("time-limits: {undo-ms: 5184000001}", "undo-ms"),
            ("time-limits: {rpc-ms: {Sleep: 5}}", "Sleep"),
            ("effort: {cases: 0}", "cases"),
            ("effort: {budget-ms: 0}", "budgets"),
            ("name-length-max: 3", "name-length-max"),
            ("name-prefix: a_b", "name-prefix"),
            ("name-prefix: far-too-long", "name-prefix"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(name), "{text}: {error}");
        }
    }

    #[test]
    fn secrets_do_not_show() {
        let config = parse("secrets: {CreateVolume: {password: hunter2}}").unwrap();
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(!serde_json::to_string(&config).unwrap().contains("hunter2"));
        assert_eq!(config.secrets_for("CreateVolume").unwrap()["password"], "hunter2");
    }
}
