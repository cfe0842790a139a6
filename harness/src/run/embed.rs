//! Suites inside `cargo test`: a driver written in Rust runs the checks as its own tests, with the command line that
//! `cargo test` and nextest know.
//!
//! ```no_run
//! // tests/csi.rs, with `harness = false` in Cargo.toml
//! use csi_harness::config::Config;
//!
//! # const SUITE: csi_harness::checks::registry::Suite = csi_harness::checks::registry::Suite { name: "", checks: csi_harness::checks::registry::Checks::Declared(&[]), retired: &[] };
//! fn main() -> std::process::ExitCode {
//!     let endpoint = Some("unix:///run/my-driver/csi.sock".to_owned());
//!     csi_harness::run::embed::run(SUITE, Config { endpoint, ..Config::default() })
//! }
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use csi_proto::lock::{Condvar, Mutex};
use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};
use tokio::sync::watch;

use crate::checks::check::Planned;
use crate::checks::expected;
use crate::checks::filter::Filter;
use crate::checks::registry::{Registry, Suite};
use crate::client::target::Target;
use crate::config::Config;
use crate::results::events::{Event, Reporter};
use crate::results::failure_report::FailureReport;
use crate::results::outcome::{CheckReport, Outcome, Summary};
use crate::run::plan::Plan;
use crate::run::runner::{JOBS, RunOptions, Runner};
use crate::text::message::error_chain;

/// The test that looks at what the run as a whole left behind.
const WHOLE_RUN: &str = "the-run/leaves-nothing-behind-and-the-driver-alive";

/// Settings for the run of the tests.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Checks that have to fail: `pattern  # reason` on each line.
    pub known_failing: Option<PathBuf>,
    /// Seed of everything random.
    pub seed: u64,
}

/// Runs the checks as tests, by the arguments of the process. Warnings pass; a check that could not judge fails.
///
/// The exit code is that of `cargo test`: 0 if all passed, 101 if not, and also if the driver cannot be reached.
pub fn run(suite: Suite, config: Config) -> ExitCode {
    run_with(&[suite], config, &Options::default())
}

/// [`run`], with several suites and options.
pub fn run_with(suites: &[Suite], config: Config, options: &Options) -> ExitCode {
    conclude(&Arguments::from_args(), suites, config, options).exit_code()
}

fn conclude(arguments: &Arguments, suites: &[Suite], config: Config, options: &Options) -> Conclusion {
    let trials = trials(arguments, suites, config, options)
        .unwrap_or_else(|problem| vec![Trial::test("the-tests-can-run", move || Err(Failed::from(problem)))]);
    libtest_mimic::run(arguments, trials)
}

/// A test for each check, which are all that `--list` shows. Each waits for its part of the one run behind them all.
fn trials(
    arguments: &Arguments,
    suites: &[Suite],
    config: Config,
    options: &Options,
) -> Result<Vec<Trial>, String> {
    config.validate()?;
    let registry = Registry::new(suites.iter().cloned().chain(expected::suite(&config)));
    let known_failing = options.known_failing.as_deref();
    let plan = Plan::new(&registry, &Filter::default(), known_failing, &config, drop);
    let Plan { checks, known } = plan.map_err(|error| error_chain(&error))?;
    let options = RunOptions {
        jobs: arguments.test_threads.unwrap_or(JOBS),
        seed: options.seed,
        registry,
        known,
        repeat: Arc::new(|labels, _| match labels.contains(',') {
            true => "cargo test".to_owned(),
            false => format!("cargo test -- --exact {labels}"),
        }),
        ..RunOptions::default()
    };
    let results = Arc::new(Results::default());
    let mut trials = Vec::new();
    let mut chosen = Vec::new();
    for planned in checks {
        let (label, results) = (planned.label(), results.clone());
        let trial = Trial::ignorable_test(label.clone(), move || results.wait_for(&label));
        if !arguments.is_filtered_out(&trial) {
            chosen.push(planned);
        }
        trials.push(trial);
    }
    let of_the_run = results.clone();
    trials.push(Trial::ignorable_test(WHOLE_RUN, move || of_the_run.wait_for(WHOLE_RUN)));
    if !arguments.list && !chosen.is_empty() {
        std::thread::spawn(move || results.fill(chosen, config, options));
    }
    Ok(trials)
}

type Verdict = Result<Option<String>, String>;

/// The result of each check: passed, skipped with a reason, or failed with its report.
#[derive(Debug, Default)]
struct Results {
    inner: Mutex<Inner>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    verdicts: BTreeMap<String, Verdict>,
    /// The reason why there will be no further results.
    over: Option<String>,
}

impl Results {
    fn wait_for(&self, label: &str) -> Result<Completion, Failed> {
        let inner = self.inner.lock();
        let open = |inner: &mut Inner| inner.over.is_none() && !inner.verdicts.contains_key(label);
        let mut inner = self.news.wait_while(inner, open);
        match inner.verdicts.remove(label) {
            Some(Ok(None)) => Ok(Completion::Completed),
            Some(Ok(Some(why))) => Ok(Completion::ignored_with(why)),
            Some(Err(story)) => Err(Failed::from(story)),
            None => Err(Failed::from(inner.over.clone().unwrap_or_default())),
        }
    }

    fn update(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.inner.lock());
        self.news.notify_all();
    }

    /// Runs the checks, and records the result of each.
    fn fill(self: Arc<Results>, checks: Vec<Planned>, config: Config, options: RunOptions) {
        // If the run panics, no test may wait for ever.
        let _over = Over(self.clone());
        let mut listener = self.clone();
        let run = async {
            let target = Target::connect(config).await.map_err(|error| error_chain(&error))?;
            // The sender may be dropped: the signal then never comes.
            let (_, stop) = watch::channel(Default::default());
            let mut runner = Runner::new(target, options, stop);
            runner.report_to(&mut listener);
            Ok(runner.run(checks).await)
        };
        let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string());
        let ended = runtime.and_then(|runtime| runtime.block_on(run));
        match ended {
            Ok(summary) => self.update(|inner| {
                inner.verdicts.insert(WHOLE_RUN.to_owned(), of_run(&summary));
            }),
            Err(why) => self.update(|inner| inner.over = Some(why)),
        }
    }
}

/// Ends the waiting when dropped.
struct Over(Arc<Results>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.update(|inner| {
            inner.over.get_or_insert_with(|| "the run ended without a result for it".to_owned());
        });
    }
}

impl Reporter for Arc<Results> {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::CheckFinished(report) = event {
            self.update(|inner| {
                inner.verdicts.insert(report.label(), of_check(report));
            });
        }
    }
}

fn of_check(report: &CheckReport) -> Verdict {
    match &report.outcome {
        Outcome::Flaky(flaky) if flaky.fails => Err(FailureReport(report).to_string()),
        Outcome::Passed | Outcome::Warned(_) | Outcome::Flaky(_) | Outcome::KnownFailure { .. } => Ok(None),
        Outcome::Skipped(why) => Ok(Some(why.clone())),
        Outcome::SameFault(same) => Ok(Some(same.sentence())),
        Outcome::Failed(_) | Outcome::Broken(_) | Outcome::UnexpectedPass { .. } => {
            Err(FailureReport(report).to_string())
        }
    }
}

fn of_run(summary: &Summary) -> Verdict {
    let leaks = summary.own_leaks().map(|leak| format!("left behind: {} {}", leak.kind, leak.id));
    let died = |crash: &crate::results::outcome::Crash| {
        format!("the driver died during {}", crash.under_way.join(", "))
    };
    let crashes = summary.crashes.iter().filter(|crash| !crash.known).map(died);
    let wrong: Vec<String> = leaks.chain(crashes).collect();
    if wrong.is_empty() { Ok(None) } else { Err(wrong.join("\n")) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use csi_mock_driver::{Defect, MockDriver};
    use csi_proto::{Endpoint, Listener};

    use super::*;
    use crate::checks::registry::Checks;
    use crate::prelude::*;

    check! {
        /// Leaves a volume behind, where the driver deletes none.
        LEAVES {
            id: "embed/leaves",
            title: "makes a volume",
            spec: [req::CTRL_CREATEVOL_001],
            refuted_by: ["none"],
        }
        async |cx| {
            cx.new_volume().await?;
            Ok(())
        }
    }

    check! {
        /// Fails on each driver.
        FAILS {
            id: "embed/fails",
            title: "fails",
            spec: [req::CTRL_CREATEVOL_001],
            refuted_by: ["none"],
        }
        async |_cx| {
            ensure!(false, "made to fail");
            Ok(())
        }
    }

    check! {
        /// Sends what the driver below does not survive.
        KILLS {
            id: "embed/kills",
            title: "kills",
            spec: [req::CTRL_LISTVOL_001],
            refuted_by: ["none"],
            runs: CrashProne,
        }
        async |cx| {
            cx.call(v1::ListVolumesRequest { max_entries: -1, ..Default::default() }).await.any_answer()?.ok();
            Ok(())
        }
    }

    check! {
        /// Passes on each driver.
        PASSES {
            id: "embed/passes",
            title: "passes",
            spec: [req::ID_PROBE_001],
            refuted_by: ["none"],
        }
        async |cx| {
            cx.call(v1::ProbeRequest {}).await.must("be answered")?;
            Ok(())
        }
    }

    const SUITE: Suite = Suite {
        name: "embed",
        checks: Checks::Declared(&[&[&LEAVES, &FAILS, &KILLS, &PASSES]]),
        retired: &[],
    };

    /// Runs these tests on a driver that deletes nothing and breaks off at a negative number of entries: how many passed,
    /// and how many failed.
    fn ran(arguments: &[&str], known: &str) -> (u64, u64) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let defects = vec![Defect::ListVolumesPanicsOnNegativeMax, Defect::DeleteVolumeKeepsVolume];
        let driver = MockDriver::new(csi_mock_driver::Config { defects, ..Default::default() }).unwrap();
        let endpoint = Endpoint::Unix(directory.path().join("csi.sock"));
        let listener = runtime.block_on(Listener::bind(&endpoint)).unwrap();
        runtime.spawn(listener.serve(driver.routes(), std::future::pending()));
        let mut list = tempfile::NamedTempFile::new().unwrap();
        list.write_all(known.as_bytes()).unwrap();
        let options = Options { known_failing: Some(list.path().to_owned()), ..Options::default() };
        let mut config = Config { endpoint: Some(endpoint.to_string()), ..Config::default() };
        config.time_limits.settle_ms = Some(100);
        // The output goes to /dev/null, so that these expected failures are not shown among the tests of this program.
        let arguments = Arguments::from_iter([&["csi", "--logfile", "/dev/null"], arguments].concat());
        let conclusion = conclude(&arguments, &[SUITE], config, &options);
        (conclusion.num_passed, conclusion.num_failed)
    }

    #[test]
    fn each_check_is_a_test_and_so_are_leftovers() {
        assert_eq!(ran(&[], ""), (2, 3), "one leaves a volume, one fails, and one kills");
        assert_eq!(ran(&["--exact", "embed/passes"], ""), (1, 0), "a filter chooses what is run");
        assert_eq!(ran(&["--skip", "embed/leaves"], ""), (2, 2));
    }

    #[test]
    fn the_list_of_known_failures_counts() {
        let known = "embed/fails # as agreed\nembed/kills # the same\n";
        assert_eq!(ran(&["--skip", "embed/leaves"], known), (4, 0));
        assert_eq!(ran(&["--exact", "embed/passes"], "embed/passes # no more\n"), (0, 1));
        assert_eq!(ran(&[], "embed/gone # matches nothing\n"), (0, 1));
    }
}
