//! Stage 7: failures that may be due to time or chance. Before one counts, its check is repeated alone with the seed of the run. A failure
//! that does not recur is flaky.

use super::Judge;
use crate::results::fault;
use crate::results::outcome::{CheckReport, Finding, Outcome, OutcomeKind, Source};
use crate::spec::faults::{Claim, Faults};
use crate::spec::verdict::{Damage, Plays};

/// Repetitions of one check.
const REPETITIONS_MAX: u32 = 3;

/// The failures of a check that are to be confirmed.
#[derive(Debug)]
pub(crate) struct Confirmation {
    sightings: Vec<Sighting>,
    repetitions: u32,
}

/// A fault that a check has shown, and how often.
#[derive(Debug)]
struct Sighting {
    finding: Finding,
    plays: Plays,
    /// The first run of the check showed it, and not only a repetition.
    is_first: bool,
}

impl Sighting {
    fn is_open(&self) -> bool {
        self.is_first && self.plays.failed < 2
    }
}

/// The finding of an outcome that needs a repetition. A dead driver, a failure that was proven by other means, and a fault that another
/// check reports need none.
fn needs_confirmation(outcome: &Outcome) -> Option<&Finding> {
    let Outcome::Failed(finding) = outcome else { return None };
    let is_proven = finding.plays.is_some()
        || finding.source != Source::Check
        || finding.violation.damage == Some(Damage::Crash);
    (!is_proven).then_some(finding)
}

impl Confirmation {
    /// The confirmation that a check needs, if it needs one.
    pub(crate) fn of(report: &CheckReport) -> Option<Confirmation> {
        let first = |finding: &Finding| Sighting {
            finding: finding.clone(),
            plays: Plays { failed: 1, of: 1 },
            is_first: true,
        };
        let sightings: Vec<Sighting> = report.outcomes().filter_map(needs_confirmation).map(first).collect();
        let is_needed = report.planned.check.varies && !sightings.is_empty();
        is_needed.then_some(Confirmation { sightings, repetitions: 0 })
    }

    /// Says if each failure has recurred.
    pub(crate) fn is_complete(&self) -> bool {
        !self.sightings.iter().any(Sighting::is_open)
    }

    /// Says if the check has been repeated as often as it may be.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.repetitions == REPETITIONS_MAX
    }

    /// Says if a failure was not played again.
    pub(crate) fn is_missing(&self) -> bool {
        self.sightings.iter().any(|one| one.is_first && one.plays.of < 2)
    }

    /// Counts what a repetition shows.
    pub(crate) fn count(&mut self, report: &CheckReport, again: &CheckReport) {
        self.repetitions += 1;
        if !again.outcomes().any(|one| matches!(one, Outcome::Passed) || one.violation().is_some()) {
            // A repetition that was skipped or inconclusive says nothing.
            return;
        }
        let failed = again.outcomes().filter(|one| one.kind() == OutcomeKind::Failed);
        let failures: Vec<&Finding> = failed.filter_map(Outcome::finding).collect();
        let is_same =
            |one: &Finding, other: &Finding| fault::is_same(report, &one.violation, &other.violation);
        // A failure that needs no repetition is in the report already.
        let is_reported = |one: &Finding| {
            let failed = report.outcomes().filter(|other| other.kind() == OutcomeKind::Failed);
            failed.filter_map(Outcome::finding).any(|other| is_same(one, other))
        };
        let mut new: Vec<&Finding> = failures.iter().copied().filter(|one| !is_reported(one)).collect();
        for Sighting { finding, plays, .. } in &mut self.sightings {
            let recurs = failures.iter().any(|one| is_same(one, finding));
            new.retain(|one| !is_same(one, finding));
            // A check that stops at its first failure may not have come as far as this one.
            if recurs || failures.is_empty() || finding.violation.fault.is_some() {
                plays.of += 1;
                plays.failed += u32::from(recurs);
            }
        }
        let plays = Plays { failed: 1, of: self.repetitions + 1 };
        let new = new.into_iter().cloned();
        self.sightings.extend(new.map(|finding| Sighting { finding, plays, is_first: false }));
    }

    /// Writes the number of plays of each failure into the report, with the outcome that follows from it.
    pub(crate) fn settle(self, report: &mut CheckReport, judge: &Judge, faults: &Faults) {
        let label = report.label();
        let mut all = report.take_outcomes();
        all.retain(|outcome| needs_confirmation(outcome).is_none());
        for Sighting { finding, plays, is_first } in self.sightings {
            // A fault that only one repetition showed was seen too rarely to be reported, unless it did damage.
            if is_first || plays.failed > 1 || finding.violation.damage.is_some() {
                let plays = Some(plays).filter(|plays| plays.of > 1);
                all.push(judge.outcome(&label, Finding { plays, ..finding }));
            }
        }
        all.sort_by_key(Outcome::place);
        report.set_outcomes(all);
        // Other checks look behind the faults that this one reports, and only behind those.
        let mut reported = Vec::new();
        for outcome in report.outcomes().filter(|outcome| outcome.kind() != OutcomeKind::Flaky) {
            let Some(fault) = outcome.violation().and_then(|violation| violation.fault.as_deref()) else {
                continue;
            };
            // A check that only warns of something must not turn the warnings of others into failures.
            if outcome.deviates() {
                // If another check has claimed it, both report it.
                let _ = faults.claim(fault, &Claim::of(&*label));
            }
            reported.push(fault);
        }
        faults.keep_reported(&label, &reported);
    }
}
