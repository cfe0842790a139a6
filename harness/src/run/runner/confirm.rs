//! Failures that may be due to time or chance. Before one counts, its check is repeated alone with the same seed. A failure that does not
//! come again is flaky.

use std::time::{Duration, Instant};

use super::Runner;
use crate::results::fault;
use crate::results::outcome::{CheckReport, Outcome, OutcomeKind};
use crate::spec::faults::FaultKey;
use crate::spec::verdict::{Damage, Plays, Violation};

/// Repetitions of one check.
const REPETITIONS_MAX: u32 = 3;
/// Time for the repetitions of a whole run. Failures beyond it count as they are.
const CONFIRMING_MAX: Duration = Duration::from_secs(600);

/// A fault that a check has shown, and how often.
struct Sighting {
    violation: Violation,
    plays: Plays,
    /// The first run of the check showed it, and not only a repetition.
    is_first: bool,
}

/// The violation of an outcome that needs a repetition. A dead driver, what was proven by other means, and a fault that another check
/// reports need none.
fn needs_confirmation(outcome: &Outcome) -> Option<&Violation> {
    let Outcome::Failed(violation) = outcome else { return None };
    let is_proven = violation.plays.is_some()
        || violation.met_again
        || violation.damage == Some(Damage::Crash)
        || violation.harms;
    (!is_proven).then_some(violation)
}

fn outcomes(report: &CheckReport) -> impl Iterator<Item = &Outcome> {
    std::iter::once(&report.outcome).chain(&report.also)
}

/// Says if a failure of the check is still to be confirmed.
pub(super) fn is_open(report: &CheckReport) -> bool {
    report.planned.check.varies && outcomes(report).any(|outcome| needs_confirmation(outcome).is_some())
}

impl Runner<'_> {
    pub(super) async fn confirm_and_finish(&mut self, report: CheckReport) {
        let report = self.confirmed(report).await;
        self.finish(report);
    }

    /// Repeats a check until each of its failures has come again, and makes those flaky that have not.
    pub(super) async fn confirmed(&mut self, mut report: CheckReport) -> CheckReport {
        if self.options.tell_each || !is_open(&report) {
            return report;
        }
        let first = |violation: &Violation| Sighting {
            violation: violation.clone(),
            plays: Plays { failed: 1, of: 1 },
            is_first: true,
        };
        let mut sightings: Vec<Sighting> =
            outcomes(&report).filter_map(needs_confirmation).map(first).collect();
        let begun = Instant::now();
        let mut repetitions = 0;
        let why_not = loop {
            if !sightings.iter().any(|one| one.is_first && one.plays.failed < 2) {
                break None;
            }
            if repetitions == REPETITIONS_MAX {
                break Some("no repetition got that far");
            }
            if self.is_over() {
                break Some("the run ended before it could be repeated");
            }
            if self.confirming + begun.elapsed() > CONFIRMING_MAX {
                break Some("the time for repetitions was used up");
            }
            repetitions += 1;
            let again = self.run_alone(report.planned.clone()).await;
            self.remember_left_behind(&again);
            take_in(&mut sightings, &report, &again, repetitions + 1);
        };
        self.confirming += begun.elapsed();
        report.spent.confirming += begun.elapsed();
        report.duration += begun.elapsed();
        if let Some(why) = why_not.filter(|_| sightings.iter().any(|one| one.is_first && one.plays.of < 2)) {
            report.notes.push(format!("a failure is not confirmed: {why}"));
        }
        self.settle(&mut report, sightings);
        report
    }

    /// Writes the number of plays of each failure into the report, and what that makes of it.
    fn settle(&self, report: &mut CheckReport, sightings: Vec<Sighting>) {
        let label = report.label();
        let mut all = vec![std::mem::replace(&mut report.outcome, Outcome::Passed)];
        all.append(&mut report.also);
        all.retain(|outcome| needs_confirmation(outcome).is_none());
        for Sighting { mut violation, plays, is_first } in sightings {
            // A fault that only one repetition showed was seen too rarely to be reported, unless it did damage.
            if is_first || plays.failed > 1 || violation.damage.is_some() {
                violation.plays = Some(plays).filter(|plays| plays.of > 1);
                let binds_from = violation.binds_from;
                all.push(self.rules.strictness.weigh(violation, binds_from));
            }
        }
        all.sort_by_key(|outcome| match outcome.kind() {
            OutcomeKind::Failed => 0,
            OutcomeKind::Flaky if outcome.counts_as() == OutcomeKind::Failed => 1,
            OutcomeKind::Flaky => 2,
            _ => 3,
        });
        let mut all = all.into_iter();
        report.outcome = all.next().unwrap_or(Outcome::Passed);
        report.also = all.collect();
        // Other checks look behind the faults that this one reports, and only behind those.
        let reported: Vec<&FaultKey> = outcomes(report)
            .filter(|outcome| outcome.kind() != OutcomeKind::Flaky)
            .filter_map(|outcome| outcome.violation()?.fault.as_deref())
            .collect();
        let faults = self.target.faults();
        for fault in &reported {
            // If another check has claimed it, both report it.
            let _ = faults.claim(fault, &label);
        }
        faults.keep_reported(&label, &reported);
    }
}

/// Counts what a repetition shows, which is so many-th of all plays.
fn take_in(sightings: &mut Vec<Sighting>, report: &CheckReport, again: &CheckReport, play: u32) {
    if !outcomes(again).any(|one| matches!(one, Outcome::Passed) || one.violation().is_some()) {
        // It was skipped or inconclusive, which says nothing.
        return;
    }
    let failures: Vec<&Violation> = outcomes(again)
        .filter(|one| one.kind() == OutcomeKind::Failed)
        .filter_map(Outcome::violation)
        .collect();
    let mut new = failures.clone();
    for Sighting { violation, plays, .. } in sightings.iter_mut() {
        let comes_again = failures.iter().any(|one| fault::is_same(report, one, violation));
        new.retain(|one| !fault::is_same(report, one, violation));
        // A check that stops at its first failure has perhaps not come as far as this one.
        if comes_again || failures.is_empty() || violation.fault.is_some() {
            plays.of += 1;
            plays.failed += u32::from(comes_again);
        }
    }
    sightings.extend(new.into_iter().map(|violation| Sighting {
        violation: violation.clone(),
        plays: Plays { failed: 1, of: play },
        is_first: false,
    }));
}
