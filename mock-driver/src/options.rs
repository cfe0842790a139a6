//! The command line of the program. Flags override the configuration file.

use std::path::PathBuf;

use clap::Parser;
use csi_proto::Endpoint;

use crate::capability::{Capability, CsiVersion};
use crate::config::{Config, ConfigError, NodeConfig};
use crate::defect::Defect;
use crate::hold::HoldPoint;
use crate::option_value::{Delay, Failure, RpcName, parse_pair, parse_size};
use crate::quirk::Quirk;

/// An in-memory CSI driver that keeps the specification, or breaks it in named places.
#[derive(Debug, Parser)]
#[command(name = "csi-mock-driver", version, max_term_width = 100)]
pub struct Options {
    /// The endpoint to listen on, such as unix:///tmp/csi.sock; repeatable: the second one serves the second node,
    /// and so on.
    #[arg(long, env = "CSI_ENDPOINT", required_unless_present_any = ["list_defects", "list_quirks"])]
    pub endpoint: Vec<Endpoint>,
    /// YAML file with the same names as these flags.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Plugin name.
    #[arg(long, value_name = "NAME")]
    driver_name: Option<String>,
    /// Version of the plugin.
    #[arg(long, value_name = "VERSION")]
    vendor_version: Option<String>,
    /// Be made for this version of CSI: 1.12, 1.13, both, as drivers are while callers move, or 1.14-preview, which is both
    /// and a draft of 1.14.
    #[arg(long, value_name = "VERSION")]
    csi_version: Option<CsiVersion>,
    /// Offer this capability and no other that is not named too, such as CREATE_DELETE_VOLUME or Node.EXPAND_VOLUME.
    #[arg(long, value_name = "CAPABILITY")]
    only: Vec<Capability>,
    /// Switch this capability off, with those that need it.
    #[arg(long, value_name = "CAPABILITY")]
    without: Vec<Capability>,
    /// Be legal but unusual in this way; see --list-quirks.
    #[arg(long, value_name = "ID")]
    quirk: Vec<Quirk>,
    /// Break the specification in this way; see --list-defects.
    #[arg(long, value_name = "ID")]
    defect: Vec<Defect>,
    /// Print all defects, an id and a description to a line.
    #[arg(long)]
    pub list_defects: bool,
    /// Print all quirks, an id, a description and what permits it to a line.
    #[arg(long)]
    pub list_quirks: bool,
    /// Id of a node; repeatable: the first endpoint serves the first one.
    #[arg(long, value_name = "ID")]
    node_id: Vec<String>,
    /// Topology segment of the nodes given by --node-id, or of the first node without.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair::<String, String>)]
    topology: Vec<(String, String)>,
    /// Volumes that a node can hold, as NodeGetInfo reports it; 0 for no limit.
    #[arg(long, value_name = "NUMBER")]
    max_volumes_per_node: Option<u32>,
    /// Volumes that can be attached to a node, if that differs.
    #[arg(long, value_name = "NUMBER")]
    attach_limit: Option<u32>,
    /// Storage in all.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    capacity: Option<i64>,
    /// Smallest volume.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    volume_size_min: Option<i64>,
    /// Largest volume.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    volume_size_max: Option<i64>,
    /// Key that is understood in mutable parameters, instead of the usual ones.
    #[arg(long, value_name = "KEY")]
    mutable_parameter: Vec<String>,
    /// Key that is understood in parameters, instead of the usual ones.
    #[arg(long, value_name = "KEY")]
    parameter: Vec<String>,
    /// Secret that RPCs with secrets demand.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair::<String, String>)]
    required_secret: Vec<(String, String)>,
    /// Parameter that CreateVolume demands.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair::<String, String>)]
    required_parameter: Vec<(String, String)>,
    /// Id or name of a volume whose condition is abnormal, and whose health is degraded.
    #[arg(long, value_name = "VOLUME")]
    abnormal_volume: Vec<String>,
    /// Report what files in this directory say is wrong: VOLUME.health, VOLUME.controller.health, VOLUME.node.health and
    /// storage.health.
    #[arg(long, value_name = "DIR")]
    health_dir: Option<PathBuf>,
    /// Write what the back end knows of each volume and snapshot to this directory: volume-ID.json and snapshot-ID.json.
    #[arg(long, value_name = "DIR")]
    inspect_dir: Option<PathBuf>,
    /// The time for which a new volume or snapshot is in no list, with the quirk lists-lag.
    #[arg(long, value_name = "TIME")]
    list_lag: Option<Delay>,
    /// The time for which no call is answered after a start, with the quirk slow-start.
    #[arg(long, value_name = "TIME")]
    start_delay: Option<Delay>,
    /// The time that each call waits before anything is done, with the quirk slow-calls.
    #[arg(long, value_name = "TIME")]
    call_delay: Option<Delay>,
    /// Hold an RPC for a time, such as CreateVolume=200ms, or at a step: CreateVolume:before-commit, when all is
    /// prepared and nothing changed, or CreateVolume:before-answer.
    #[arg(long, value_name = "RPC[:STEP]=TIME", value_parser = parse_pair::<HoldPoint, Delay>)]
    delay: Vec<(HoldPoint, Delay)>,
    /// Let an RPC fail a number of times, such as CreateVolume=UNAVAILABLE:3.
    #[arg(long, value_name = "RPC=CODE[:TIMES]", value_parser = parse_pair::<RpcName, Failure>)]
    fail: Vec<(RpcName, Failure)>,
    /// Make ids and made-up data the same for the same calls.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u32>,
    /// Append every call to this file as a line of JSON, secrets removed.
    #[arg(long, value_name = "FILE")]
    call_log: Option<PathBuf>,
    /// Keep the state in this file across restarts.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
}

impl Options {
    /// The configuration file, if there is one, overridden by the flags.
    pub fn into_config(self) -> Result<Config, ConfigError> {
        let mut config = self.config.as_deref().map_or_else(|| Ok(Config::default()), Config::load)?;
        set(&mut config.csi_version, self.csi_version);
        config.health_dir = self.health_dir.or(config.health_dir);
        config.inspect_dir = self.inspect_dir.or(config.inspect_dir);
        set(&mut config.driver_name, self.driver_name);
        set(&mut config.vendor_version, self.vendor_version);
        set(&mut config.max_volumes_per_node, self.max_volumes_per_node);
        set(&mut config.capacity_bytes, self.capacity);
        set(&mut config.list_lag, self.list_lag);
        set(&mut config.start_delay, self.start_delay);
        set(&mut config.call_delay, self.call_delay);
        set(&mut config.volume_size_bytes_min, self.volume_size_min);
        set(&mut config.volume_size_bytes_max, self.volume_size_max);
        config.attach_limit = self.attach_limit.or(config.attach_limit);
        config.seed = self.seed.or(config.seed);
        config.call_log = self.call_log.or(config.call_log);
        config.state = self.state.or(config.state);
        config.only.extend(self.only);
        config.without.extend(self.without);
        config.quirks.extend(self.quirk);
        config.defects.extend(self.defect);
        config.abnormal_volumes.extend(self.abnormal_volume);
        config.delay.extend(self.delay);
        config.fail.extend(self.fail);
        config.required_parameters.extend(self.required_parameter);
        config.required_secrets.0.extend(self.required_secret);
        replace(&mut config.parameters, self.parameter);
        replace(&mut config.mutable_parameters, self.mutable_parameter);
        let topology = config.nodes.first().map(|node| node.topology.clone()).unwrap_or_default();
        let nodes = self.node_id.into_iter().map(|id| NodeConfig { id, topology: topology.clone() });
        replace(&mut config.nodes, nodes.collect());
        if !self.topology.is_empty()
            && let Some(first) = config.nodes.first_mut()
        {
            first.topology = self.topology.into_iter().collect();
        }
        Ok(config)
    }
}

fn set<T>(field: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
    }
}

fn replace<T>(field: &mut Vec<T>, given: Vec<T>) {
    if !given.is_empty() {
        *field = given;
    }
}
