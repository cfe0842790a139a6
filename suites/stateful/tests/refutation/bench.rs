//! Plays the suites against a mock driver in this process, which can be killed and started like any other.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use csi_harness::checks::check::Check;
use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::Registry;
use csi_harness::client::target::Target;
use csi_harness::config::{AccessType, Config, Effort, NodeConfig, Pairs, TimeLimits};
use csi_harness::driver::Driver;
use csi_harness::results::events::{Event, Reporter};
use csi_harness::results::outcome::{Outcome, Summary};
use csi_harness::results::wording;
use csi_harness::run::runner::{RunOptions, Runner};
use csi_mock_driver::MockDriver;
use csi_proto::Endpoint;
use libtest_mimic::Failed;
use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::registry;

/// What all checks said of one driver, by label, and what the run as a whole came to.
pub(crate) struct Played {
    pub(crate) said: BTreeMap<String, Said>,
    pub(crate) summary: Summary,
}

/// What one check said of one driver.
pub(crate) struct Said {
    pub(crate) outcome: Outcome,
    pub(crate) also: Vec<Outcome>,
    pub(crate) notes: Vec<String>,
}

impl Played {
    /// Everything that is no verdict on a right driver: failures, broken checks, leaks, deaths.
    pub(crate) fn accusations(&self) -> Vec<String> {
        let mut all: Vec<String> = self
            .said
            .iter()
            .flat_map(|(label, said)| {
                std::iter::once(&said.outcome).chain(&said.also).map(move |outcome| (label, said, outcome))
            })
            .filter_map(|(label, said, outcome)| match outcome {
                Outcome::Failed(violation) => {
                    Some(format!("{label} failed: {violation:#?}\n{}", said.notes.join("\n")))
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

/// Settings with which every check can run on the mock driver.
pub(crate) fn everything_set() -> Config {
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

/// So little that many drivers can be tried.
pub(crate) fn little() -> Effort {
    Effort { cases: 3, operations: 100, kills: 1, repeat: 2, check_budget_ms: 1_500, ..Effort::default() }
}

pub(crate) fn pairs(pairs: &[(&str, &str)]) -> Pairs {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Accusations by rules that the check does not name.
pub(crate) fn misattributed(check: &Check, said: &[Said]) -> Result<(), Failed> {
    let violations = said.iter().filter_map(|said| said.outcome.violation());
    for rule in violations.filter_map(|violation| violation.requirement) {
        if !check.requirements.contains(&rule) {
            return Err(Failed::from(format!("{} blames {}, which it does not name", check.id, rule.id)));
        }
    }
    Ok(())
}

/// Plays the checks that are wanted.
pub(crate) fn play(
    mock: csi_mock_driver::Config,
    config: Config,
    seed: u64,
    wanted: impl Fn(&Check) -> bool,
) -> Result<Played, Failed> {
    play_of(registry(), mock, config, seed, wanted)
}

/// Plays the checks of these suites that are wanted.
pub(crate) fn play_of(
    registry: Registry,
    mock: csi_mock_driver::Config,
    config: Config,
    seed: u64,
    wanted: impl Fn(&Check) -> bool,
) -> Result<Played, Failed> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let played = runtime.block_on(run(registry, mock, config, seed, wanted));
    runtime.shutdown_background();
    played
}

async fn run(
    registry: Registry,
    mock: csi_mock_driver::Config,
    mut config: Config,
    seed: u64,
    wanted: impl Fn(&Check) -> bool,
) -> Result<Played, Failed> {
    // Defects that show on the host touch only what is named so.
    let dir = tempfile::Builder::new().prefix("csi-sanity-").tempdir()?;
    let sockets = ["csi.sock", "node-2.sock"].map(|name| Endpoint::Unix(dir.path().join(name)));
    config.endpoint = Some(sockets[0].to_string());
    // What a wrong driver leaves goes with it.
    config.mount_dir = Some(dir.path().join("mount"));
    config.staging_dir = Some(dir.path().join("staging"));
    config.nodes = vec![NodeConfig { endpoint: sockets[1].to_string(), ..NodeConfig::default() }];
    let latest = Mutex::new(MockDriver::new(mock)?);
    let driver = Driver::in_process(move || {
        let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = latest.restarted()?;
        let nodes = (0..).map_while(|node| latest.at_node(node)).map(|driver| driver.routes());
        Ok(sockets.iter().cloned().zip(nodes).collect())
    });
    play_on(registry, driver, config, seed, wanted).await
}

/// Plays the checks that are wanted on a driver of whichever kind.
pub(crate) async fn play_on(
    registry: Registry,
    driver: Driver,
    config: Config,
    seed: u64,
    wanted: impl Fn(&Check) -> bool,
) -> Result<Played, Failed> {
    let target = Target::connect_to(driver.clone(), config).await?;
    let mut plan = registry.select(&Filter::default(), &target.config().access_types);
    plan.retain(|planned| wanted(planned.check));
    let options = RunOptions { seed, tell_each: true, registry, ..RunOptions::default() };
    let mut listening = Listening::default();
    // Nobody raises it.
    let (_stop, never) = watch::channel(Default::default());
    let mut runner = Runner::new(target, options, never);
    runner.report_to(&mut listening);
    let summary = runner.run(plan).await;
    driver.leave().await?;
    if let [first, ..] = &listening.wording[..] {
        return Err(first.as_str().into());
    }
    Ok(Played { said: listening.said, summary })
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
            let said = Said {
                outcome: report.outcome.clone(),
                also: report.also.clone(),
                notes: report.notes.clone(),
            };
            self.said.insert(report.label(), said);
        }
    }
}
