//! Plays the suite against a mock driver in this process, over a socket.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use csi_harness::checks::check::Check;
use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::Registry;
use csi_harness::client::target::Target;
use csi_harness::config::{AccessType, Config, NodeConfig, Secret, StaticVolume, TimeLimits};
use csi_harness::results::events::{Event, Reporter};
use csi_harness::results::outcome::{Outcome, Summary};
use csi_harness::results::wording;
use csi_harness::run::refutation::absent_for;
use csi_harness::run::runner::{RunOptions, Runner};
use csi_harness::spec::need::Need;
use csi_mock_driver::{Capability, MockDriver};
use csi_proto::{Endpoint, Listener};
use libtest_mimic::Failed;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Checks of a right driver that run at the same time.
pub(crate) const JOBS: usize = 8;

/// Nodes of the driver that are served: two in one zone, and one in another. There is a third zone, too.
const NODES: usize = 3;

/// What one check said of one driver.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) outcome: Outcome,
    /// Names of the RPCs it called.
    pub(crate) called: BTreeSet<&'static str>,
}

/// What all checks said of one driver, by label, and what the run as a whole came to.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) said: BTreeMap<String, Said>,
    pub(crate) summary: Summary,
    pub(crate) target: Arc<Target>,
}

impl Played {
    /// Everything that is no verdict on a right driver: failures, broken checks, leaks, deaths.
    pub(crate) fn accusations(&self) -> Vec<String> {
        let mut all: Vec<String> = self
            .said
            .iter()
            .filter_map(|(label, said)| match &said.outcome {
                Outcome::Failed(violation) => {
                    let (expected, actual) = (&violation.expected, &violation.actual);
                    Some(format!(
                        "{label} failed: {}; expected {expected}; actual {actual}",
                        violation.message
                    ))
                }
                Outcome::Broken(why) => Some(format!("{label} is broken: {why}")),
                _ => None,
            })
            .collect();
        all.extend(self.summary.leaks.iter().map(|leak| format!("left behind: {} {}", leak.kind, leak.id)));
        all.extend(self.summary.crashes.iter().map(|crash| format!("died: {crash:?}")));
        all
    }
}

/// Plays all checks, so many at a time, against a mock driver of this configuration.
pub(crate) fn play(jobs: usize, mock: csi_mock_driver::Config, config: Config) -> Result<Played, Failed> {
    play_those(jobs, mock, config, |_| true)
}

/// Plays the checks that are wanted. They and the driver live in one thread, so that what happens does not depend on how
/// busy the machine is.
pub(crate) fn play_those(
    jobs: usize,
    mock: csi_mock_driver::Config,
    config: Config,
    wanted: impl Fn(&Check) -> bool,
) -> Result<Played, Failed> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(jobs, mock, config, wanted))
}

/// Settings with which every check of the suite runs on the mock driver.
pub(crate) fn everything_set() -> Config {
    Config {
        access_types: vec![AccessType::Mount, AccessType::Block],
        volume_size_bytes: Some(2 << 30),
        expand_size_bytes: Some(4 << 30),
        size_min_bytes: Some(1 << 20),
        size_max_bytes: Some(16 << 40),
        parameters: pairs(&[("pool", "mock"), ("tier", "silver")]),
        mutable_parameters: pairs(&[("iops", "3000"), ("tier", "gold")]),
        attach_limit: true,
        secrets: [("CreateVolume", "user"), ("ControllerPublishVolume", "token")]
            .map(|(rpc, key)| (rpc.to_owned(), Secret(pairs(&[(key, "mock-7f3a91c2d45e")]))))
            .into(),
        volumes: vec![provisioned(AccessType::Mount), provisioned(AccessType::Block)],
        time_limits: TimeLimits {
            dial_ms: 10_000,
            call_ms: 10_000,
            check_ms: 60_000,
            settle_ms: Some(1_500),
            ..TimeLimits::default()
        },
        ..Config::default()
    }
}

/// A mock driver on which every check of the suite runs. The limit of a node leaves room for all checks that run at
/// the same time, and for what a defect leaves attached.
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

/// A volume that an administrator has made.
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

pub(crate) fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

async fn run(
    jobs: usize,
    mock: csi_mock_driver::Config,
    mut config: Config,
    wanted: impl Fn(&Check) -> bool,
) -> Result<Played, Failed> {
    let dir = tempfile::tempdir()?;
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
            // The sender gone is what ends the wait.
            let _ = stopped.changed().await;
        }));
    }

    // What a wrong driver leaves goes with it.
    config.mount_dir = Some(dir.path().join("mount"));
    config.staging_dir = Some(dir.path().join("staging"));
    let target = Target::connect(config).await?;
    let options = RunOptions {
        jobs,
        seed: 1,
        keep_calls: true,
        tell_each: true,
        registry: registry(),
        ..RunOptions::default()
    };
    let mut plan = registry().select(&Filter::default(), &target.config().access_types);
    plan.retain(|planned| wanted(planned.check));
    let mut listening = Listening::default();
    // Nobody raises it.
    let (_stop, never) = watch::channel(Default::default());
    let mut runner = Runner::new(target.clone(), options, never);
    runner.report_to(&mut listening);
    let summary = runner.run(plan).await;
    drop(stop_driver);
    // A handler that panicked, as some defects do, may have taken the server along.
    serving.abort_all();
    if let [first, ..] = &listening.wording[..] {
        return Err(first.as_str().into());
    }
    Ok(Played { said: listening.said, summary, target })
}

/// The capabilities that the driver must not have for the check to run.
pub(crate) fn lacks(check: &Check) -> Vec<Capability> {
    absent_for(check).into_iter().map(of_the_mock).collect()
}

/// Those that it must not have for some rule of the check to be the one that it goes by.
pub(crate) fn lacks_for_rules(check: &Check) -> Vec<Capability> {
    let needed = absent_for(check);
    let wanted = check.requirements.iter().flat_map(|rule| rule.requires).filter_map(|need| match need {
        Need::Lacks(capability) if !needed.contains(capability) => Some(of_the_mock(*capability)),
        _ => None,
    });
    wanted.collect()
}

/// A capability as the mock driver spells it.
fn of_the_mock(capability: csi_harness::protocol::capability::Capability) -> Capability {
    let name = capability.name();
    // Where two services have a capability of one name, the harness means the controller's by it.
    let found = name.parse().or_else(|_| format!("Controller.{name}").parse());
    found.expect("both know the capabilities of the protocol")
}

pub(crate) fn registry() -> Registry {
    Registry::new([csi_suite_sanity::SUITE])
}

#[derive(Default)]
struct Listening {
    said: BTreeMap<String, Said>,
    /// What is wrong with the words of reports.
    wording: Vec<String>,
}

impl Reporter for Listening {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::CheckFinished(report) = event {
            self.wording.extend(wording::complaints(report));
            let called =
                report.calls.iter().filter(|call| !call.cleanup).map(|call| call.rpc.method).collect();
            self.said.insert(report.label(), Said { outcome: report.outcome.clone(), called });
        }
    }
}
