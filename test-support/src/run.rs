//! Runs of checks, of which every report is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_harness::checks::check::Check;
use csi_harness::checks::planned::Planned;
use csi_harness::client::target::Target;
use csi_harness::results::events::{Event, Reporter};
use csi_harness::results::failure_report::FailureReport;
use csi_harness::results::outcome::{CheckReport, Finding, Halt, Outcome, Summary};
use csi_harness::results::wording;
use csi_harness::run::runner::{RunOptions, Runner};
use libtest_mimic::Failed;
use tokio::sync::watch;

/// What a run came to.
#[derive(Debug)]
pub struct Run {
    /// In the order in which the checks ended.
    pub reports: Vec<CheckReport>,
    /// What was remarked meanwhile.
    pub remarks: Vec<String>,
    /// What came of all checks.
    pub summary: Summary,
    /// The driver that they ran on.
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

    /// The same, until the signal is raised.
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

    /// The reports by the labels of their checks.
    pub fn by_label(&self) -> BTreeMap<String, &CheckReport> {
        self.reports.iter().map(|report| (report.label(), report)).collect()
    }

    /// What a check came to, for each access type.
    pub fn outcomes_of(&self, check: &str) -> Vec<&Outcome> {
        let of_check = self.reports.iter().filter(|report| report.planned.check.id == check);
        of_check.map(|report| &report.outcome).collect()
    }

    /// What is told of a check, with its notes, one text for each access type.
    pub fn stories_of(&self, check: &str) -> Vec<String> {
        let of_check = self.reports.iter().filter(|report| report.planned.check.id == check);
        of_check.map(|report| format!("{}{}", FailureReport(report), report.notes.join("\n"))).collect()
    }

    /// Everything that is no verdict on a right driver: failures, broken checks, leaks, deaths.
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

    /// What the run has left behind, or died of.
    pub fn left(&self) -> impl Iterator<Item = String> {
        let leaks = self.summary.leaks.iter().map(|leak| format!("left behind: {} {}", leak.kind, leak.id));
        leaks.chain(self.summary.crashes.iter().map(|crash| format!("died: {crash:?}")))
    }

    /// Fails if reports have words that no report should have.
    pub fn check_wording(self) -> Result<Run, Failed> {
        match self.reports.iter().flat_map(wording::complaints).next() {
            Some(complaint) => Err(complaint.into()),
            None => Ok(self),
        }
    }
}

/// The gravest outcome of a check, and the others.
pub fn outcomes(report: &CheckReport) -> impl Iterator<Item = &Outcome> {
    std::iter::once(&report.outcome).chain(&report.also)
}

/// The RPC names of the calls that a check made, without those that undid something.
pub fn called(report: &CheckReport) -> impl Iterator<Item = &'static str> {
    report.calls.iter().filter(|call| !call.cleanup).map(|call| call.rpc.method)
}

/// Fails if a check blames the driver by a rule that it does not name.
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
