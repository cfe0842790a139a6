//! The tests serve a mock driver in this process, and run a few checks against it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use csi_harness::checks::check::Planned;
use csi_harness::client::target::Target;
use csi_harness::config::{Config, TimeLimits};
use csi_harness::prelude::*;
use csi_harness::results::events::{Event, Reporter};
use csi_harness::results::failure_report::FailureReport;
use csi_harness::results::outcome::{Halt, Outcome, Summary};
use csi_harness::run::runner::{RunOptions, Runner};
use csi_mock_driver::MockDriver;
use csi_proto::{Endpoint, Listener};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A served mock driver.
pub(crate) struct Bench {
    pub(crate) target: Arc<Target>,
    pub(crate) options: RunOptions,
    pub(crate) stop: watch::Sender<Halt>,
    serving: JoinHandle<Result<(), csi_proto::ServeError>>,
    _dir: TempDir,
}

/// These are the results of a run.
#[derive(Default)]
pub(crate) struct Ran {
    pub(crate) outcomes: Vec<(String, Outcome)>,
    pub(crate) stories: String,
    pub(crate) leftovers: Vec<String>,
    pub(crate) remarks: Vec<String>,
    /// Has the calls of passed checks only if the run has `keep_calls`.
    pub(crate) calls: Vec<Call>,
    pub(crate) summary: Summary,
}

/// A call of a check.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) rpc: &'static str,
    pub(crate) request: String,
    pub(crate) node: usize,
    pub(crate) worker: usize,
    pub(crate) cleanup: bool,
    /// The call was sent at the start of this range and ended at its end, counted from the start of the check.
    pub(crate) time: Range<Duration>,
}

/// The limits are short, so that a driver that hangs is noticed soon.
pub(crate) fn config() -> Config {
    Config {
        volume_size_bytes: Some(1 << 30),
        expand_size_bytes: Some(2 << 30),
        time_limits: TimeLimits {
            call_ms: 2_000,
            check_ms: 10_000,
            settle_ms: Some(500),
            restart_ms: Some(500),
            ..TimeLimits::default()
        },
        ..Config::default()
    }
}

impl Bench {
    pub(crate) async fn start(mock: csi_mock_driver::Config, mut config: Config) -> Bench {
        let dir = tempfile::tempdir().expect("a directory");
        let endpoint = Endpoint::Unix(dir.path().join("csi.sock"));
        let driver = MockDriver::new(mock).expect("a mock driver");
        let listener = Listener::bind(&endpoint).await.expect("a socket");
        let serving = tokio::spawn(listener.serve(driver.routes(), std::future::pending()));
        config.endpoint = Some(endpoint.to_string());
        let target = Target::connect(config).await.expect("an answer");
        Bench { target, options: options(), stop: watch::Sender::default(), serving, _dir: dir }
    }

    /// Ends the server, as if the driver had died.
    pub(crate) async fn stop_serving(&self) {
        self.serving.abort();
        while !self.serving.is_finished() {
            tokio::task::yield_now().await;
        }
    }

    /// Runs the checks.
    pub(crate) async fn run(self, checks: &[&'static Check]) -> Ran {
        let ran = run(self.target.clone(), self.options, self.stop.subscribe(), checks).await;
        self.serving.abort();
        ran
    }
}

pub(crate) fn options() -> RunOptions {
    RunOptions {
        jobs: 4,
        seed: 7,
        repeat: Arc::new(|label, _| format!("csi-sanity run --filter {label}")),
        ..RunOptions::default()
    }
}

/// Runs the checks against any driver, for the first access type of its configuration.
pub(crate) async fn run(
    target: Arc<Target>,
    options: RunOptions,
    stop: watch::Receiver<Halt>,
    checks: &[&'static Check],
) -> Ran {
    let access = target.config().access_types[0];
    let planned =
        |(number, check): (usize, &&'static Check)| Planned { check: (*check).clone(), access, number };
    let plan = checks.iter().enumerate().map(planned).collect();
    let mut ran = Ran::default();
    let mut runner = Runner::new(target, options, stop);
    runner.report_to(&mut ran);
    let summary = runner.run(plan).await;
    ran.summary = summary;
    ran
}

impl Ran {
    pub(crate) fn outcome(&self, check: &Check) -> &Outcome {
        let found = self.outcomes.iter().find(|(label, _)| *label == check.id);
        &found.expect("the check ran").1
    }
}

impl Reporter for Ran {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Remark(remark) = event {
            self.remarks.push((*remark).to_owned());
        }
        if let Event::CheckFinished(report) = event {
            self.outcomes.push((report.label(), report.outcome.clone()));
            self.leftovers.extend(report.leftovers.clone());
            self.stories.push_str(&FailureReport(report).to_string());
            self.calls.extend(report.calls.iter().map(|call| Call {
                rpc: call.rpc.method,
                request: call.request().to_string(),
                node: call.node,
                worker: call.worker,
                cleanup: call.cleanup,
                time: call.sent_after..call.sent_after + call.duration,
            }));
        }
    }
}

/// Another process writes the script. If this one did, a process that another test starts at the same time could hold it open for writing
/// for a moment, and to execute it would fail with ETXTBSY.
pub(crate) fn write_script(script: &std::path::Path, text: &str) {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\""]).arg(script).arg(text);
    assert!(shell.status().expect("a shell starts").success(), "{} is written", script.display());
}
