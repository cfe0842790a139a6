//! The command line. It has the flags of the Go hostpath driver, with the same names and defaults, and a few more.
//!
//! A flag may start with one dash or two. A boolean flag may stand alone or carry `=true` or `=false`. If a flag is
//! repeated, the last one counts.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, ValueEnum, value_parser};
use csi_proto::Endpoint;

use crate::config::{Config, ConfigError, Pool};
use crate::fs::FsType;
use crate::store::BackendKind;

/// The name in logs and replies if `--drivername` gives no other.
const DRIVER_NAME: &str = "hostpath.csi.k8s.io";

/// A CSI driver that keeps volumes in directories and images on the host it runs on.
#[derive(Debug, Parser)]
#[command(name = "csi-hostpath-driver", disable_version_flag = true, args_override_self = true)]
pub struct Args {
    /// The endpoint to listen on, such as unix:///csi/csi.sock.
    #[arg(long, env = "CSI_ENDPOINT", default_value = "unix:///tmp/csi.sock")]
    pub endpoint: Endpoint,
    /// The name of the driver.
    #[arg(long, default_value = DRIVER_NAME)]
    drivername: String,
    /// The directory for volumes, snapshots and the state.
    #[arg(long, default_value = "/csi-data-dir")]
    statedir: PathBuf,
    /// The name of this node.
    #[arg(long, default_value = "")]
    nodeid: String,
    /// Treat all volumes as ephemeral, even if the CO does not say so.
    #[arg(long, value_name = BOOL, value_parser = go_bool, action = ArgAction::Set, default_value = "false")]
    ephemeral: bool,
    /// The number of volumes that the node can take; 0 means any number.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    maxvolumespernode: i64,
    /// A pool of storage, as KIND=QUANTITY; may be repeated.
    #[arg(long, value_name = "KIND=QUANTITY")]
    capacity: Vec<Pool>,
    /// Offer ControllerPublishVolume and ControllerUnpublishVolume.
    #[arg(long, value_name = BOOL, value_parser = go_bool, action = ArgAction::Set, default_value = "false")]
    enable_attach: bool,
    /// Reject detaching a volume that is still staged or published.
    #[arg(long, value_name = BOOL, value_parser = go_bool, action = ArgAction::Set, default_value = "false")]
    check_volume_lifecycle: bool,
    /// The largest volume, in bytes.
    #[arg(long, default_value_t = 1 << 40)]
    max_volume_size: u64,
    /// Report the node from which a volume can be reached.
    #[arg(long, value_name = BOOL, value_parser = go_bool, action = ArgAction::Set, default_value = "true")]
    enable_topology: bool,
    /// Deprecated: use --enable-volume-expansion.
    #[arg(long, value_name = BOOL, value_parser = go_bool, action = ArgAction::Set, default_value = "true")]
    node_expand_required: bool,
    /// Offer to expand volumes.
    #[arg(long, value_name = BOOL, value_parser = go_bool, action = ArgAction::Set, default_value = "true")]
    enable_volume_expansion: bool,
    /// Offer ControllerModifyVolume.
    #[arg(long, value_name = BOOL, value_parser = go_bool, action = ArgAction::Set, default_value = "false")]
    enable_controller_modify_volume: bool,
    /// Offer the SnapshotMetadata service.
    #[arg(long, value_name = BOOL, value_parser = go_bool, action = ArgAction::Set, default_value = "false")]
    enable_snapshot_metadata: bool,
    /// The way in which SnapshotMetadata describes blocks.
    #[arg(long, value_enum, default_value = "FIXED_LENGTH")]
    snapshot_metadata_block_type: BlockType,
    /// The mutable parameters that may be set, separated by commas; `*` means any. By default none may be set, since
    /// the specification wants unknown ones rejected.
    #[arg(long, value_delimiter = ',')]
    accepted_mutable_parameter_names: Vec<String>,
    /// Do not offer ControllerExpandVolume.
    #[arg(long, value_name = BOOL, value_parser = go_bool, action = ArgAction::Set, default_value = "false")]
    disable_controller_expansion: bool,
    /// Do not offer NodeExpandVolume.
    #[arg(long, value_name = BOOL, value_parser = go_bool, action = ArgAction::Set, default_value = "false")]
    disable_node_expansion: bool,
    /// Offer ListSnapshots.
    #[arg(long, value_name = BOOL, value_parser = go_bool, action = ArgAction::Set, default_value = "true")]
    enable_list_snapshots: bool,
    /// The largest size to which the node expands a volume, in bytes; --max-volume-size if unset.
    #[arg(long)]
    max_volume_size_node: Option<u64>,
    /// The number of volumes that may be attached to the node; 0 means any number, and -1 reports a random number to
    /// the CO.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    attach_limit: i64,
    /// Serve nothing: only connect clients of --endpoint with clients of this endpoint.
    #[arg(long)]
    pub proxy_endpoint: Option<Endpoint>,
    /// Print the version and end.
    #[arg(long, value_name = BOOL, value_parser = go_bool, action = ArgAction::Set, default_value = "false")]
    pub version: bool,

    /// The back end of volumes whose parameters name none.
    #[arg(long, value_parser = backend_name(), default_value = "directory", help_heading = "Beyond the Go driver")]
    backend: BackendKind,
    /// The file system of images whose volume capability names none.
    #[arg(long, default_value = "ext4", value_parser = fs_type, help_heading = "Beyond the Go driver")]
    fs_type: FsType,
    /// The size in bytes of volumes for which the CO names no size.
    #[arg(long, default_value_t = 1 << 30, help_heading = "Beyond the Go driver")]
    default_volume_size: u64,
    /// Serve another node from this process, as NODEID=ENDPOINT; may be repeated. All nodes share all volumes.
    #[arg(long, value_name = "NODEID=ENDPOINT", help_heading = "Beyond the Go driver")]
    pub node_endpoint: Vec<NodeEndpoint>,
    /// Offer to give volumes to the group of a pod; otherwise the CO has to do it.
    #[arg(long, value_name = BOOL, value_parser = go_bool, action = ArgAction::Set, default_value = "true", help_heading = "Beyond the Go driver")]
    enable_volume_mount_group: bool,
    /// Let all volumes together be larger than the free space; has no effect on pools, which never hold more than
    /// their size.
    #[arg(long, value_name = BOOL, value_parser = go_bool, action = ArgAction::Set, default_value = "true", help_heading = "Beyond the Go driver")]
    overcommit: bool,
    /// Serve Prometheus metrics at this address.
    #[arg(long, help_heading = "Beyond the Go driver")]
    pub metrics_address: Option<SocketAddr>,
    /// The format of the logs.
    #[arg(long, value_enum, default_value = "text", help_heading = "Beyond the Go driver")]
    pub log_format: LogFormat,

    /// The log level: 5 and more turns on debug logs.
    #[arg(
        short,
        long = "v",
        default_value_t = 0,
        allow_negative_numbers = true,
        help_heading = "Logging of klog"
    )]
    pub v: i32,
}

/// The other flags of klog that take a boolean, and those that take a text. They are accepted without effect, so that manifests of the Go
/// driver work unchanged.
const KLOG_SWITCHES: [&str; 8] = [
    "add_dir_header",
    "alsologtostderr",
    "automaxprocs",
    "legacy_stderr_threshold_behavior",
    "logtostderr",
    "one_output",
    "skip_headers",
    "skip_log_headers",
];
const KLOG_TEXTS: [&str; 6] =
    ["alsologtostderrthreshold", "log_backtrace_at", "log_dir", "log_file", "stderrthreshold", "vmodule"];

/// The format of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// The way in which SnapshotMetadata describes blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BlockType {
    #[value(name = "FIXED_LENGTH")]
    FixedLength,
    /// Each range of data is reported as one block of its own length.
    #[value(name = "VARIABLE_LENGTH")]
    VariableLength,
}

impl Args {
    /// Parses the arguments; the first one is the program's name. Flags may start with one dash, as in Go.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Args, clap::Error> {
        let mut arguments = arguments.into_iter();
        let program = arguments.next();
        let ignored = |name: &'static str| Arg::new(name).long(name).hide(true);
        let command = Args::command()
            .args(KLOG_SWITCHES.map(|name| ignored(name).value_name(BOOL).value_parser(go_bool)))
            .args(KLOG_TEXTS.map(ignored))
            .arg(ignored("log_file_max_size").value_parser(value_parser!(u64)))
            .mut_args(|argument| if is_switch(&argument) { optional_value(argument) } else { argument });
        let mut matches =
            command.try_get_matches_from(program.into_iter().chain(arguments.map(with_two_dashes)))?;
        Args::from_arg_matches_mut(&mut matches)
    }

    /// Converts the arguments to settings and checks them.
    pub fn into_config(self) -> Result<Config, ConfigError> {
        let pools = self.capacity.into_iter().map(|pool| (pool.kind, pool.bytes)).collect();
        let accepted: BTreeSet<String> =
            self.accepted_mutable_parameter_names.into_iter().filter(|name| !name.is_empty()).collect();
        let config = Config {
            name: self.drivername,
            node_id: self.nodeid,
            other_nodes: self.node_endpoint.into_iter().map(|node| node.node_id).collect(),
            state_dir: self.statedir,
            backend: self.backend,
            fs_type: self.fs_type,
            default_volume_bytes: self.default_volume_size,
            max_volume_bytes: self.max_volume_size,
            max_volume_bytes_node: self.max_volume_size_node.unwrap_or(self.max_volume_size),
            max_volumes_per_node: self.maxvolumespernode,
            attach_limit: self.attach_limit,
            pools,
            overcommit: self.overcommit,
            always_ephemeral: self.ephemeral,
            mount_group: self.enable_volume_mount_group,
            attach: self.enable_attach,
            check_lifecycle: self.check_volume_lifecycle,
            topology: self.enable_topology,
            controller_expansion: self.enable_volume_expansion && !self.disable_controller_expansion,
            node_expansion: self.enable_volume_expansion
                && self.node_expand_required
                && !self.disable_node_expansion,
            modify: self.enable_controller_modify_volume,
            accepted_mutable_parameters: accepted,
            snapshot_metadata: self.enable_snapshot_metadata,
            fixed_length_blocks: self.snapshot_metadata_block_type == BlockType::FixedLength,
            list_snapshots: self.enable_list_snapshots,
        };
        config.check()?;
        Ok(config)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEndpoint {
    pub node_id: String,
    pub endpoint: Endpoint,
}

impl FromStr for NodeEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<NodeEndpoint, String> {
        let (node_id, endpoint) = text.split_once('=').ok_or("expected NODEID=ENDPOINT")?;
        let endpoint = endpoint.parse().map_err(|error: csi_proto::ParseEndpointError| error.to_string())?;
        Ok(NodeEndpoint { node_id: node_id.to_owned(), endpoint })
    }
}

/// The value name that marks boolean flags, which may stand alone.
const BOOL: &str = "BOOL";

fn is_switch(argument: &Arg) -> bool {
    argument.get_value_names().is_some_and(|names| names.iter().any(|name| name.as_str() == BOOL))
}

/// Lets a flag that stands alone mean `=true`. A value has to follow a `=`, as in Go.
fn optional_value(argument: Arg) -> Arg {
    argument.num_args(0..=1).require_equals(true).default_missing_value("true")
}

/// Turns `-flag` into `--flag`; `-v5`, `-v` and `-h` stay as they are.
fn with_two_dashes(argument: OsString) -> OsString {
    let Some(text) = argument.to_str() else { return argument };
    let Some(name) = text.strip_prefix('-') else { return argument };
    let is_flag = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_short = name.len() == 1 || name.strip_prefix('v').is_some_and(|rest| rest.parse::<i32>().is_ok());
    if is_flag && !is_short { OsString::from(format!("--{name}")) } else { argument }
}

/// Accepts the spellings of Go's `strconv.ParseBool`.
fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

fn backend_name() -> impl TypedValueParser<Value = BackendKind> {
    let known = PossibleValuesParser::new(BackendKind::OF_FILE_SYSTEMS.map(BackendKind::name));
    known.try_map(|name| BackendKind::named(&name).ok_or("there is no such back end"))
}

fn fs_type(text: &str) -> Result<FsType, String> {
    FsType::parse(text).ok_or_else(|| "expected ext3, ext4, xfs or btrfs".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(flags: &[&str]) -> Args {
        Args::read(["csi-hostpath-driver"].iter().chain(flags).map(OsString::from)).unwrap()
    }

    #[test]
    fn defaults_are_those_of_the_go_driver() {
        let config = read(&["--nodeid=n"]).into_config().unwrap();
        assert_eq!(config.name, "hostpath.csi.k8s.io");
        assert_eq!(config.max_volume_bytes, 1_099_511_627_776);
        assert!(
            config.topology && config.controller_expansion && config.node_expansion && config.list_snapshots
        );
        assert!(!config.attach && !config.modify && !config.snapshot_metadata && !config.always_ephemeral);
    }

    #[test]
    fn flags_may_have_one_dash() {
        let args =
            read(&["-v=5", "-nodeid", "n", "-enable-attach", "-enable-topology=false", "-logtostderr=true"]);
        assert_eq!(args.v, 5);
        let config = args.into_config().unwrap();
        assert!(config.attach && !config.topology);
        assert_eq!(read(&["-v5", "--nodeid=n"]).v, 5);
        assert_eq!(read(&["--v=5", "--nodeid=n"]).v, 5);
    }

    #[test]
    fn the_last_of_repeated_flags_counts() {
        let flags = ["--nodeid=a", "--nodeid=n", "-v=2", "--v=5", "--enable-attach", "-enable-attach=false"];
        let args = read(&flags);
        assert_eq!(args.v, 5);
        let config = args.into_config().unwrap();
        assert!(config.node_id == "n" && !config.attach);
    }

    #[test]
    fn pools_are_read_and_bad_flags_refused() {
        let config =
            read(&["--nodeid=n", "--capacity=slow=10Gi", "-capacity", "fast=1G"]).into_config().unwrap();
        assert_eq!(config.pools["slow"], 10 << 30);
        assert_eq!(config.pools["fast"], 1_000_000_000);
        for flags in
            [["--capacity=fast"], ["--capacity=fast=-1"], ["--enable-attach=maybe"], ["--no-such-flag"]]
        {
            let arguments = ["x"].iter().chain(&flags).map(OsString::from);
            assert!(Args::read(arguments).is_err(), "{flags:?}");
        }
        assert!(read(&[]).into_config().is_err(), "a node id is needed");
    }

    #[test]
    fn other_nodes_need_unique_ids_and_no_topology() {
        let two = ["--nodeid=a", "--node-endpoint=b=unix:///b.sock", "--enable-topology=false"];
        let args = read(&two);
        assert_eq!(args.node_endpoint[0].endpoint.to_string(), "unix:///b.sock");
        assert!(args.into_config().unwrap().has_node("b"));
        for flags in [
            &two[..2],
            &["--nodeid=b", two[1], two[2]],
            &["--nodeid=a", "--node-endpoint==unix:///b.sock", two[2]],
        ] {
            assert!(read(flags).into_config().is_err(), "{flags:?}");
        }
        let arguments = ["x", "--node-endpoint=unix:///b.sock"].map(OsString::from);
        assert!(Args::read(arguments).is_err());
    }
}
