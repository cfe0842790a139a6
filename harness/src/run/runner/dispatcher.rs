//! Receives the results of checks: decides which of them report a fault, counts them, and sends the events of the run to its listeners.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::checks::check::Planned;
use crate::client::target::Target;
use crate::config::profile::Profile;
use crate::results::events::{Event, Reporter};
use crate::results::fault;
use crate::results::outcome::{CheckReport, Outcome, Summary};
use crate::verdict;
use crate::verdict::dedup::Dedup;

/// The results so far, and those who listen to them.
pub(super) struct Dispatcher<'a> {
    target: Arc<Target>,
    reporters: Vec<&'a mut dyn Reporter>,
    dedup: Dedup,
    /// Ids of the checks that have passed.
    passed: BTreeSet<String>,
    pub(super) summary: Summary,
}

impl<'a> Dispatcher<'a> {
    pub(super) fn new(target: Arc<Target>, profile: Profile) -> Dispatcher<'a> {
        Dispatcher {
            target,
            reporters: Vec::new(),
            dedup: Dedup::default(),
            passed: BTreeSet::new(),
            summary: Summary { profile, ..Summary::default() },
        }
    }

    pub(super) fn report_to(&mut self, reporter: &'a mut dyn Reporter) {
        self.reporters.push(reporter);
    }

    /// Makes checks refer to others of this plan that report the fault that they show.
    pub(super) fn report_each_fault_once(&mut self, plan: &[Planned]) {
        self.dedup = Dedup::of(plan);
    }

    pub(super) fn emit(&mut self, event: &Event<'_>) {
        for reporter in &mut self.reporters {
            reporter.event(event);
        }
    }

    pub(super) fn has_passed(&self, check: &str) -> bool {
        self.passed.contains(check)
    }

    /// The number of failures that count as such.
    pub(super) fn failures(&self) -> usize {
        self.summary.counts.failed + self.summary.counts.flaky_failures
    }

    /// Keeps what a check may have left behind; also of one that runs again.
    pub(super) fn remember_left_behind(&mut self, report: &CheckReport) {
        self.summary.left_behind.extend(report.left_behind.iter().cloned());
    }

    /// Takes the final result of a check. It is reported once it is certain which check reports its faults.
    pub(super) fn finish(&mut self, report: CheckReport) {
        let ready = verdict::conclude(report, &mut self.dedup, self.target.faults());
        self.report(ready);
    }

    /// Reports the checks that were waiting for others.
    pub(super) fn finish_rest(&mut self) {
        let rest = verdict::conclude_rest(&mut self.dedup, self.target.faults());
        self.report(rest);
    }

    fn report(&mut self, reports: Vec<CheckReport>) {
        for report in reports {
            if report.outcome == Outcome::Passed {
                self.passed.insert(report.planned.check.id.to_string());
            }
            for work in &report.cut_short {
                self.summary.cut_short.push((report.label(), work.clone()));
            }
            let (outcome, counts_as) = (report.outcome.kind(), report.outcome.counts_as());
            self.summary.count(outcome, counts_as, &fault::key(&report), report.outcome.binds_from());
            self.remember_left_behind(&report);
            self.emit(&Event::CheckFinished(&report));
        }
    }
}
