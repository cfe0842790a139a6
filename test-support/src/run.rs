//! Runs checks and keeps every report.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use csi_harness::checks::check::Check;
use csi_harness::checks::check::Planned;
use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::Registry;
use csi_harness::client::target::Target;
use csi_harness::config::Config;
use csi_harness::driver::Driver;
use csi_harness::results::events::{Event, Reporter};
use csi_harness::results::failure_report::FailureReport;
use csi_harness::results::outcome::{CheckReport, Finding, Halt, Outcome, Summary};
use csi_harness::run::runner::{RunOptions, Runner};
use libtest_mimic::Failed;
use tokio::sync::watch;

use crate::wording;

/// Returns the number, or another parsed value, in an environment variable if it is set.
///
/// # Panics
/// Panics if the variable holds anything else.
pub fn from_environment<T>(variable: &str) -> Option<T>
where
    T: FromStr<Err: Display>,
{
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|problem| panic!("{variable}={text}: {problem}")))
}

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    /// The reports, in the order in which the checks ended.
    pub reports: Vec<CheckReport>,
    /// The remarks of the run.
    pub remarks: Vec<String>,
    /// The summary of the run.
    pub summary: Summary,
    /// The driver under test.
    pub target: Arc<Target>,
}

impl Reporter for Run {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::CheckFinished(report) => self.reports.push((*report).clone()),
            Event::Remark(remark) => self.remarks.push((*remark).to_owned()),
            _ => {}
        }
    }
}

impl Run {
    /// Runs the checks of a plan.
    pub async fn of(target: Arc<Target>, plan: Vec<Planned>, options: RunOptions) -> Run {
        let (_never, signal) = watch::channel(Halt::None);
        Run::until(signal, target, plan, options).await
    }

    /// Runs the wanted checks of the registry in the options on a driver, and stops the driver.
    ///
    /// # Errors
    /// Fails if the driver cannot be reached or stopped, or if a report contains words that the wording rules forbid.
    pub async fn on(
        driver: Driver,
        config: Config,
        options: RunOptions,
        is_wanted: impl Fn(&Check) -> bool,
    ) -> Result<Run, Failed> {
        let target = Target::connect_to(driver.clone(), config).await?;
        let mut plan = options.registry.select(&Filter::default(), &target.config().access_types);
        plan.retain(|planned| is_wanted(&planned.check));
        let run = Run::of(target, plan, options).await;
        driver.leave().await?;
        run.check_wording()
    }

    /// Runs the checks of a plan until they end or the signal halts them.
    pub async fn until(
        signal: watch::Receiver<Halt>,
        target: Arc<Target>,
        plan: Vec<Planned>,
        options: RunOptions,
    ) -> Run {
        let mut run = Run {
            reports: Vec::new(),
            remarks: Vec::new(),
            summary: Summary::default(),
            target: target.clone(),
        };
        let mut runner = Runner::new(target, options, signal);
        runner.report_to(&mut run);
        let summary = runner.run(plan).await;
        Run { summary, ..run }
    }

    /// Returns the reports by the labels of their checks.
    pub fn by_label(&self) -> BTreeMap<String, &CheckReport> {
        self.reports.iter().map(|report| (report.label(), report)).collect()
    }

    /// Returns the outcome of a check for each access type.
    pub fn outcomes_of(&self, check: &str) -> Vec<&Outcome> {
        let of_check = self.reports.iter().filter(|report| report.planned.check.id == check);
        of_check.map(|report| &report.outcome).collect()
    }

    /// Returns the text of a check's report and notes for each access type.
    pub fn stories_of(&self, check: &str) -> Vec<String> {
        let of_check = self.reports.iter().filter(|report| report.planned.check.id == check);
        of_check.map(|report| format!("{}{}", FailureReport(report), report.notes.join("\n"))).collect()
    }

    /// Returns everything that no run on a correct driver may have: failures, broken checks, leaks and crashes.
    pub fn accusations(&self) -> Vec<String> {
        let accused = self.by_label().into_iter().flat_map(|(label, report)| {
            let outcomes = outcomes(report).filter_map(|outcome| match outcome {
                Outcome::Failed(Finding { violation, .. }) => {
                    Some(format!("{label} failed: {violation:#?}\n{}", report.notes.join("\n")))
                }
                Outcome::Broken(why) => Some(format!("{label} is broken: {why}")),
                _ => None,
            });
            outcomes.collect::<Vec<_>>()
        });
        accused.chain(self.left()).collect()
    }

    /// Returns the leaks and crashes of the run.
    pub fn left(&self) -> impl Iterator<Item = String> {
        let leaks = self.summary.leaks.iter().map(|leak| format!("left behind: {} {}", leak.kind, leak.id));
        leaks.chain(self.summary.crashes.iter().map(|crash| format!("died: {crash:?}")))
    }

    /// Fails if a report contains words that the wording rules forbid.
    pub fn check_wording(self) -> Result<Run, Failed> {
        match self.reports.iter().flat_map(wording::complaints).next() {
            Some(complaint) => Err(complaint.into()),
            None => Ok(self),
        }
    }
}

/// The options of a run that reports every check on its own.
pub fn options(registry: Registry, seed: u64) -> RunOptions {
    RunOptions { seed, report_each: true, registry, ..RunOptions::default() }
}

/// Returns the gravest outcome of a check, then the others.
pub fn outcomes(report: &CheckReport) -> impl Iterator<Item = &Outcome> {
    std::iter::once(&report.outcome).chain(&report.also)
}

/// Returns the RPC names of a check's calls, except those of its cleanup.
pub fn called(report: &CheckReport) -> impl Iterator<Item = &'static str> {
    report.calls.iter().filter(|call| !call.cleanup).map(|call| call.rpc.method)
}

/// Fails if a check reports a violation of a requirement that it does not declare.
pub fn check_rules(check: &Check, reports: &[CheckReport]) -> Result<(), Failed> {
    let violations = reports.iter().filter_map(|report| report.outcome.violation());
    match violations
        .filter_map(|violation| violation.requirement)
        .find(|rule| !check.requirements.contains(rule))
    {
        Some(rule) => Err(format!("{} blames {}, which it does not name", check.id, rule.id).into()),
        None => Ok(()),
    }
}
