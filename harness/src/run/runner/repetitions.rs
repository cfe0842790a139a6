//! Repeats checks alone whose results may be due to other checks or to chance.

use std::time::Instant;

use super::{CONFIRMING_MAX, Runner};
use crate::results::outcome::CheckReport;
use crate::verdict::alone::{MetAgain, Rejected};
use crate::verdict::confirmation::Confirmation;

impl Runner<'_> {
    /// Runs checks again alone whose calls were rejected while others ran, in the order of the run.
    pub(super) async fn run_rejected_alone(&mut self, mut all: Vec<Rejected>) {
        all.sort_by_key(|rejected| self.target.faults().place(&rejected.report.label()));
        let mut met_again = MetAgain::default();
        for rejected in all {
            if self.is_over() || met_again.is_enough_for(&rejected) {
                self.dispatcher.finish(rejected.report);
                continue;
            }
            self.dispatcher.remember_left_behind(&rejected.report);
            let alone = self.run_alone(rejected.report.planned.clone()).await;
            met_again.compare(&rejected, &alone, &self.target.tally);
            self.confirm_and_finish(alone).await;
        }
    }

    pub(super) async fn confirm_and_finish(&mut self, report: CheckReport) {
        let report = self.confirmed(report).await;
        self.dispatcher.finish(report);
    }

    /// Repeats a check until each of its failures has recurred, or it was repeated often enough.
    pub(super) async fn confirmed(&mut self, mut report: CheckReport) -> CheckReport {
        let confirmation = Confirmation::of(&report).filter(|_| !self.options.report_each);
        let Some(mut confirmation) = confirmation else { return report };
        let begun = Instant::now();
        let why_not = loop {
            if confirmation.is_complete() {
                break None;
            }
            if confirmation.is_exhausted() {
                break Some("no repetition got that far");
            }
            if self.is_over() {
                break Some("the run ended before it could be repeated");
            }
            if self.confirming + begun.elapsed() > CONFIRMING_MAX {
                break Some("the time for repetitions was used up");
            }
            let again = self.run_alone(report.planned.clone()).await;
            self.dispatcher.remember_left_behind(&again);
            confirmation.count(&report, &again);
        };
        self.confirming += begun.elapsed();
        report.spent.confirming += begun.elapsed();
        report.duration += begun.elapsed();
        if let Some(why) = why_not.filter(|_| confirmation.is_missing()) {
            report.notes.push(format!("a failure is not confirmed: {why}"));
        }
        confirmation.settle(&mut report, &self.rules.judge, self.target.faults());
        report
    }
}
