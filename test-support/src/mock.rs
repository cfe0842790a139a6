//! Runs checks on a mock driver in this process, which the harness can kill and start like any other driver.

use csi_harness::checks::check::Check;
use csi_harness::checks::registry::Registry;
use csi_harness::config::{AccessType, Config, Effort, NodeConfig, Pairs, TimeLimits};
use csi_harness::driver::Driver;
use csi_mock_driver::MockDriver;
use csi_proto::Endpoint;
use csi_proto::lock::Mutex;
use libtest_mimic::Failed;
use tempfile::TempDir;
use tokio::runtime::Builder;

use crate::run::{Run, options};

/// Returns settings with which every sequential check can run.
pub fn everything_set() -> Config {
    Config {
        access_types: vec![AccessType::Mount, AccessType::Block],
        volume_size_bytes: Some(2 << 30),
        expand_size_bytes: Some(4 << 30),
        parameters: pairs(&[("pool", "mock"), ("tier", "silver")]),
        mutable_parameters: pairs(&[("tier", "gold")]),
        allow_harm: true,
        time_limits: TimeLimits {
            dial_ms: 10_000,
            call_ms: 10_000,
            check_ms: 120_000,
            settle_ms: Some(1_500),
            ..TimeLimits::default()
        },
        ..Config::default()
    }
}

/// Returns an effort that is small enough to try many drivers.
pub fn little() -> Effort {
    Effort { cases: 3, operations: 100, kills: 1, repeat: 2, check_budget_ms: 500, ..Effort::default() }
}

/// Makes parameters, contexts or secrets.
pub fn pairs(pairs: &[(&str, &str)]) -> Pairs {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Runs the wanted checks of these suites.
pub fn run(
    registry: Registry,
    mock: csi_mock_driver::Config,
    config: Config,
    seed: u64,
    wanted: impl Fn(&Check) -> bool,
) -> Result<Run, Failed> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let run = runtime.block_on(run_in_process(registry, mock, config, seed, wanted));
    runtime.shutdown_background();
    run
}

/// Makes a directory for the sockets and paths of a driver in this process, in memory if possible. Defects that
/// damage the host only touch paths with its prefix.
///
/// # Errors
/// Fails if the directory cannot be made.
pub fn directory() -> std::io::Result<TempDir> {
    let mut named = tempfile::Builder::new();
    named.prefix("csi-sanity-");
    named.tempdir_in("/dev/shm").or_else(|_| named.tempdir())
}

async fn run_in_process(
    registry: Registry,
    mock: csi_mock_driver::Config,
    mut config: Config,
    seed: u64,
    wanted: impl Fn(&Check) -> bool,
) -> Result<Run, Failed> {
    let dir = directory()?;
    let sockets = ["csi.sock", "node-2.sock"].map(|name| Endpoint::Unix(dir.path().join(name)));
    config.endpoint = Some(sockets[0].to_string());
    // Mounts are made inside the directory, so that its removal also removes the files that a defective driver
    // leaves.
    config.mount_dir = Some(dir.path().join("mount"));
    config.staging_dir = Some(dir.path().join("staging"));
    config.nodes = vec![NodeConfig { endpoint: sockets[1].to_string(), ..NodeConfig::default() }];
    let latest = Mutex::new(MockDriver::new(mock)?);
    let driver = Driver::in_process(move || {
        let mut latest = latest.lock();
        *latest = latest.restarted()?;
        let nodes = (0..).map_while(|node| latest.at_node(node)).map(|driver| driver.routes());
        Ok(sockets.iter().cloned().zip(nodes).collect())
    });
    Run::on(driver, config, options(registry, seed), wanted).await
}
