//! Suites inside `cargo test`: a driver written in Rust runs the checks as its own tests, with the command line that
//! `cargo test` and nextest know.
//!
//! ```no_run
//! // tests/csi.rs, with `harness = false` in Cargo.toml
//! use csi_harness::config::Config;
//!
//! # const SUITE: csi_harness::registry::Suite = csi_harness::registry::Suite { name: "", checks: &[], retired: &[] };
//! fn main() -> std::process::ExitCode {
//!     let endpoint = Some("unix:///run/my-driver/csi.sock".to_owned());
//!     csi_harness::embed::run(SUITE, Config { endpoint, ..Config::default() })
//! }
//! ```

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::Runtime;
use tokio::sync::{RwLock, watch};

use crate::check::Runs;
use crate::config::Config;
use crate::filter::Filter;
use crate::known::KnownFailing;
use crate::outcome::{Outcome, Planned};
use crate::registry::{Registry, Suite};
use crate::run_check::{Rules, run_check};
use crate::story::Story;
use crate::target::Target;

/// Runs the checks as tests, by the arguments of the process. Warnings pass; a check that could not judge fails.
///
/// The exit code is that of `cargo test`: 0 if all passed, 101 if not, and also if the driver cannot be reached.
pub fn run(suite: Suite, config: Config) -> ExitCode {
    let arguments = Arguments::from_args();
    let access_types = config.access_types.clone();
    let bench = match Bench::start(config, arguments.list) {
        Ok(bench) => Arc::new(bench),
        Err(error) => return libtest_mimic::run(&arguments, vec![unreachable_driver(error)]).exit_code(),
    };
    let plan = Registry::new([suite]).select(&Filter::default(), &access_types);
    let trials = plan.into_iter().map(|planned| trial(bench.clone(), planned)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// What all trials share.
struct Bench {
    runtime: Runtime,
    target: Option<Arc<Target>>,
    /// Held for writing by a check that runs alone.
    others: RwLock<()>,
    rules: Rules,
    stop: watch::Receiver<bool>,
}

impl Bench {
    fn start(config: Config, list_only: bool) -> Result<Bench, String> {
        config.validate()?;
        let runtime = Runtime::new().map_err(|error| error.to_string())?;
        let target = if list_only {
            None
        } else {
            Some(runtime.block_on(Target::connect(config)).map_err(|error| crate::error_chain(&error))?)
        };
        let repeat = Arc::new(|label: &str| format!("cargo test -- --exact {label}"));
        let rules =
            Rules { strict: false, keep_calls: false, known: Arc::new(KnownFailing::default()), repeat };
        // The sender may go: a signal that nobody can raise stays down.
        let (_, stop) = watch::channel(false);
        Ok(Bench { runtime, target, others: RwLock::new(()), rules, stop })
    }

    async fn run(&self, planned: Planned) -> Result<Completion, Failed> {
        let Some(target) = self.target.clone() else { return Ok(Completion::Completed) };
        let check = run_check(target, planned.clone(), self.rules.clone(), self.stop.clone());
        let done = if planned.check.runs == Runs::Parallel {
            let _shared = self.others.read().await;
            check.await
        } else {
            let _alone = self.others.write().await;
            check.await
        };
        match &done.report.outcome {
            Outcome::Passed | Outcome::Warned(_) => Ok(Completion::Completed),
            Outcome::Skipped(why) => Ok(Completion::ignored_with(why.clone())),
            Outcome::Failed(_)
            | Outcome::Broken(_)
            | Outcome::KnownFailure { .. }
            | Outcome::UnexpectedPass { .. } => Err(Failed::from(Story(&done.report))),
        }
    }
}

fn trial(bench: Arc<Bench>, planned: Planned) -> Trial {
    Trial::ignorable_test(planned.label(), move || bench.runtime.block_on(bench.run(planned)))
}

fn unreachable_driver(error: String) -> Trial {
    Trial::test("the-driver-is-reached", move || Err(Failed::from(error)))
}
