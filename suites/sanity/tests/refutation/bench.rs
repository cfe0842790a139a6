//! Runs the suite on a mock driver in this process, over a socket.

use std::collections::BTreeMap;

use csi_harness::checks::check::Check;
use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::Registry;
use csi_harness::client::target::Target;
use csi_harness::config::{AccessType, Config, HealthHooks, NodeConfig, Secret, StaticVolume};
use csi_harness::protocol::version::CsiVersion;
use csi_harness::run::refutation::absent_for;
use csi_harness::run::runner::RunOptions;
use csi_harness::spec::need::Need;
use csi_mock_driver::{Capability, MockDriver};
use csi_proto::{Endpoint, Listener};
use csi_test_support::mock::{self, pairs};
use csi_test_support::run::Run;
use libtest_mimic::Failed;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A correct driver is tried with this number of concurrent checks.
pub(crate) const JOBS: usize = 8;

/// Three nodes are served: two in one zone, and one in another. There is also a third zone.
const NODES: usize = 3;

/// Runs all checks, with this concurrency, on a mock driver with this configuration.
pub(crate) fn play(jobs: usize, mock: csi_mock_driver::Config, config: Config) -> Result<Run, Failed> {
    play_those(jobs, mock, config, |_| true)
}

/// Runs the wanted checks. They and the driver share one thread, so that the result does not depend on the machine's
/// load.
pub(crate) fn play_those(
    jobs: usize,
    mock: csi_mock_driver::Config,
    config: Config,
    wanted: impl Fn(&Check) -> bool,
) -> Result<Run, Failed> {
    play_by(RunOptions { jobs, report_each: true, ..RunOptions::default() }, mock, config, wanted)
}

/// Runs the wanted checks as a user does, so that each fault is reported once.
pub(crate) fn play_with_verdicts(
    jobs: usize,
    mock: csi_mock_driver::Config,
    config: Config,
    wanted: impl Fn(&Check) -> bool,
) -> Result<Run, Failed> {
    play_by(RunOptions { jobs, ..RunOptions::default() }, mock, config, wanted)
}

fn play_by(
    options: RunOptions,
    mock: csi_mock_driver::Config,
    config: Config,
    wanted: impl Fn(&Check) -> bool,
) -> Result<Run, Failed> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(options, mock, config, wanted))
}

/// Returns settings with which every check of the suite runs on the mock driver.
pub(crate) fn everything_set() -> Config {
    let mut config = Config {
        size_min_bytes: Some(1 << 20),
        size_max_bytes: Some(16 << 40),
        mutable_parameters: pairs(&[("iops", "3000"), ("tier", "gold")]),
        attach_limit: true,
        exclusive: true,
        allow_harm: false,
        secrets: [("CreateVolume", "user"), ("ControllerPublishVolume", "token")]
            .map(|(rpc, key)| (rpc.to_owned(), Secret(pairs(&[(key, "mock-7f3a91c2d45e")]))))
            .into(),
        volumes: vec![provisioned(AccessType::Mount), provisioned(AccessType::Block)],
        ..mock::everything_set()
    };
    config.time_limits.check_ms = 60_000;
    config
}

/// Returns a mock driver on which every check of the suite runs. The limit of a node suffices for all concurrent
/// checks, and for volumes that a defect leaves attached.
pub(crate) fn everything_on() -> csi_mock_driver::Config {
    let volumes =
        [AccessType::Mount, AccessType::Block].map(provisioned).map(|volume| csi_mock_driver::StaticVolume {
            id: volume.id,
            capacity_bytes: volume.size_bytes,
            volume_context: volume.context,
            readonly: volume.readonly,
        });
    let mut nodes = csi_mock_driver::Config::default().nodes;
    nodes.push(csi_mock_driver::NodeConfig {
        id: "node-4".to_owned(),
        topology: pairs(&[("zone", "zone-c")]),
    });
    csi_mock_driver::Config { nodes, max_volumes_per_node: 48, volumes: volumes.into(), ..Default::default() }
}

/// Makes the driver offer what a draft of the next version adds, and the suite test it.
pub(crate) fn preview(mock: &mut csi_mock_driver::Config, config: &mut Config) {
    mock.csi_version = csi_mock_driver::CsiVersion::V1_14Preview;
    config.csi_version = CsiVersion::V1_14Preview;
}

/// Returns a volume that an administrator made.
fn provisioned(access: AccessType) -> StaticVolume {
    StaticVolume {
        id: format!("static-{access}"),
        context: pairs(&[("made-by", "an administrator")]),
        publish_context: BTreeMap::new(),
        access_type: Some(access),
        size_bytes: 1 << 30,
        readonly: false,
    }
}

async fn run(
    options: RunOptions,
    mut mock: csi_mock_driver::Config,
    mut config: Config,
    wanted: impl Fn(&Check) -> bool,
) -> Result<Run, Failed> {
    let dir = mock::directory()?;
    let [make_ill, make_well] = csi_mock_driver::health::commands(dir.path());
    config.health =
        HealthHooks { make_ill: Some(make_ill), make_well: Some(make_well), ..Default::default() };
    mock.health_dir = Some(dir.path().to_owned());
    config.inspect_command = Some(csi_mock_driver::inspect::command(dir.path()));
    mock.inspect_dir = Some(dir.path().to_owned());
    let driver = MockDriver::new(mock)?;
    let (stop_driver, stopped) = watch::channel(());
    let mut serving = JoinSet::new();
    for node in (0..NODES).filter_map(|number| driver.at_node(number)) {
        let endpoint = Endpoint::Unix(dir.path().join(format!("node-{}.sock", serving.len())));
        let listener = Listener::bind(&endpoint).await?;
        match config.endpoint {
            None => config.endpoint = Some(endpoint.to_string()),
            Some(_) => {
                config.nodes.push(NodeConfig { endpoint: endpoint.to_string(), ..Default::default() });
            }
        }
        let mut stopped = stopped.clone();
        serving.spawn(listener.serve(node.routes(), async move {
            // The drop of the sender ends the wait.
            let _ = stopped.changed().await;
        }));
    }

    // Mounts are made inside the directory, so that its removal also removes the files that a defective driver
    // leaves.
    config.mount_dir = Some(dir.path().join("mount"));
    config.staging_dir = Some(dir.path().join("staging"));
    let target = Target::connect(config).await?;
    let options = RunOptions { seed: 1, keep_calls: true, registry: registry(), ..options };
    let mut plan = registry().select(&Filter::default(), &target.config().access_types);
    plan.retain(|planned| wanted(&planned.check));
    let run = Run::of(target, plan, options).await;
    drop(stop_driver);
    // A handler that panicked may have ended the server.
    serving.abort_all();
    run.check_wording()
}

/// Returns the capabilities that the driver must lack for the check to run.
pub(crate) fn lacks(check: &Check) -> Vec<Capability> {
    absent_for(check).into_iter().map(of_the_mock).collect()
}

/// Returns the capabilities that the driver must lack for some rule of the check to apply.
pub(crate) fn lacks_for_rules(check: &Check) -> Vec<Capability> {
    let needed = absent_for(check);
    let wanted = check.requirements.iter().flat_map(|rule| rule.requires).filter_map(|need| match need {
        Need::Lacks(capability) if !needed.contains(capability) => Some(of_the_mock(*capability)),
        _ => None,
    });
    wanted.collect()
}

/// Returns the mock driver's name of a capability.
fn of_the_mock(capability: csi_harness::protocol::capability::Capability) -> Capability {
    let name = capability.name();
    // If two services have a capability of one name, the harness means the controller's.
    let found = name.parse().or_else(|_| format!("Controller.{name}").parse());
    found.expect("both know the capabilities of the protocol")
}

pub(crate) fn registry() -> Registry {
    Registry::new([csi_suite_sanity::SUITE])
}
