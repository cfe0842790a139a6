//! The mock driver, served in this process where no other driver is named.

use std::{fs, io};

use csi_harness::config::{
    AccessType, Config, Effort, HealthHooks, NodeConfig, Pairs, Secret, StaticVolume, TimeLimits,
};
use csi_harness::driver::Driver;
use csi_harness::protocol::version::CsiVersion;
use csi_harness::resources::logbook::{BUILT_IN_PREFIX, BUILT_IN_STATE};
use csi_mock_driver::{
    Capability, CsiVersion as VersionOfMock, Defect, MockDriver, NodeConfig as NodeOfMock,
};
use csi_proto::Endpoint;
use csi_proto::lock::Mutex;
use tempfile::TempDir;

/// Creates a mock driver with these defects, without these capabilities, and enters its addresses in the configuration: it has a socket
/// for each of three nodes, the last of which is in another zone. Its state survives a restart.
pub(crate) fn driver(
    defects: Vec<Defect>,
    without: Vec<Capability>,
    config: &mut Config,
) -> Result<Driver, EmbeddedError> {
    let directory = directory()?;
    let names = ["csi.sock", "node-2.sock", "node-3.sock"];
    let sockets = names.map(|name| Endpoint::Unix(directory.path().join(name)));
    let [first, others @ ..] = sockets.each_ref().map(ToString::to_string);
    config.endpoint = Some(first);
    config.nodes = others.map(|endpoint| NodeConfig { endpoint, ..NodeConfig::default() }).into();
    let state_dir = directory.path().join(BUILT_IN_STATE);
    fs::create_dir(&state_dir)?;
    let [make_ill, make_well] = csi_mock_driver::health::commands(&state_dir);
    config.health =
        HealthHooks { make_ill: Some(make_ill), make_well: Some(make_well), ..Default::default() };
    config.inspect_command = Some(csi_mock_driver::inspect::command(&state_dir));
    config.state_dir = Some(state_dir.clone());
    let mock = csi_mock_driver::Config {
        defects,
        without,
        volumes: volumes(),
        nodes: nodes(),
        health_dir: Some(state_dir.clone()),
        inspect_dir: Some(state_dir),
        csi_version: match config.csi_version {
            CsiVersion::V1_14Preview => VersionOfMock::V1_14Preview,
            _ => VersionOfMock::default(),
        },
        ..Default::default()
    };
    let latest = Mutex::new(MockDriver::new(mock)?);
    Ok(Driver::in_process(move || {
        // The directory lives as long as the driver.
        let _ = &directory;
        let mut latest = latest.lock();
        *latest = latest.restarted()?;
        let nodes = (0..).map_while(|node| latest.at_node(node)).map(|driver| driver.routes());
        Ok(sockets.iter().cloned().zip(nodes).collect())
    }))
}

/// The directory for its sockets and for its report on its back end after each call. It is in memory where the machine has such a place for files.
fn directory() -> io::Result<TempDir> {
    let mut named = tempfile::Builder::new();
    named.prefix(BUILT_IN_PREFIX);
    named.tempdir_in("/dev/shm").or_else(|_| named.tempdir())
}

/// The reason why the driver could not be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EmbeddedError {
    #[error("failed to create a directory for the socket of the built-in mock driver")]
    Directory(#[from] io::Error),
    #[error("failed to start the built-in mock driver")]
    Driver(#[from] csi_mock_driver::ConfigError),
}

/// Volumes that an administrator has made, one for each access type.
fn provisioned() -> [StaticVolume; 2] {
    [AccessType::Mount, AccessType::Block].map(|access| StaticVolume {
        id: format!("static-{access}"),
        context: Pairs::from([("made-by".to_owned(), "an administrator".to_owned())]),
        publish_context: Pairs::new(),
        access_type: Some(access),
        size_bytes: 1 << 30,
        readonly: false,
    })
}

/// The usual nodes, which are served, and one in a zone of its own, for volumes that a defect puts elsewhere than requested.
fn nodes() -> Vec<NodeOfMock> {
    let topology = [("zone".to_owned(), "zone-c".to_owned())].into();
    let elsewhere = NodeOfMock { id: "node-4".to_owned(), topology };
    csi_mock_driver::Config::default().nodes.into_iter().chain([elsewhere]).collect()
}

fn volumes() -> Vec<csi_mock_driver::StaticVolume> {
    let volume = |volume: StaticVolume| csi_mock_driver::StaticVolume {
        id: volume.id,
        capacity_bytes: volume.size_bytes,
        volume_context: volume.context,
        readonly: volume.readonly,
    };
    provisioned().map(volume).into()
}

/// Settings with which every check can run on it.
pub(crate) fn settings() -> Config {
    let pairs = |pairs: &[(&str, &str)]| -> Pairs {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    Config {
        access_types: vec![AccessType::Mount, AccessType::Block],
        size_min_bytes: Some(1 << 20),
        size_max_bytes: Some(16 << 40),
        parameters: pairs(&[("pool", "mock"), ("tier", "silver")]),
        mutable_parameters: pairs(&[("iops", "3000"), ("tier", "gold")]),
        attach_limit: true,
        exclusive: true,
        // The checks can only harm this process's memory.
        allow_harm: true,
        secrets: [("CreateVolume", "user"), ("ControllerPublishVolume", "token")]
            .map(|(rpc, key)| (rpc.to_owned(), Secret(pairs(&[(key, "mock")]))))
            .into(),
        volumes: provisioned().into(),
        // This is enough to find each of its defects.
        effort: Effort { cases: 64, kills: 2, operations: 400, repeat: 2, ..Effort::default() },
        // A driver in memory answers at once, so a long wait is a defect.
        time_limits: TimeLimits {
            call_ms: 10_000,
            check_ms: 60_000,
            settle_ms: Some(3_000),
            ..TimeLimits::default()
        },
        ..Config::default()
    }
}

/// Keeps a driver from printing its crash, which the run reports.
pub(crate) fn crash_quietly() {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() == Some("main") {
            loud(panic);
        }
    }));
}
