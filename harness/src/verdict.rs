//! The way of a violation from its check to the report. The stages are in files of this folder, and run in this order:
//!
//! 1. [`precondition`]: a rejection counts only if the driver accepts the plain form of the call.
//! 2. [`machine`]: what this machine does not permit is not the driver's fault.
//! 3. [`profile`]: the broken requirement decides whether a violation fails the check or only warns.
//! 4. [`profile::listed`]: a check on the user's list has to fail.
//! 5. [`crash`]: a driver that died is blamed by the call that it died of.
//! 6. [`alone`]: an error that was met while other checks ran counts only if it recurs when the check runs alone.
//! 7. [`confirmation`]: a failure that may be due to time or chance is flaky unless it recurs.
//! 8. [`harm`]: a check is blamed if the driver has stopped working after it.
//! 9. [`dedup`]: one fault is one failure.
//! 10. [`stripping`]: a report contains no secrets.
//!
//! Stage 1 runs while the check can still make calls, and [`Judge::judge`] applies stages 2 to 4 as soon as the check has ended. Stages 5
//! to 8 decide what has to be run again and what follows from it; the runner makes the calls. [`conclude`] applies the last two.

use std::sync::Arc;

use crate::checks::check::Planned;
use crate::checks::known::KnownFailing;
use crate::config::profile::Profile;
use crate::results::failure_report;
use crate::results::outcome::{CheckReport, Finding, Outcome, Source};
use crate::spec::faults::{Claim, FaultKey, Faults};
use crate::spec::requirements::Requirement;
use crate::spec::verdict::{CheckResult, Stop, Violation};
use dedup::Dedup;
use profile::Strictness;

pub(crate) mod alone;
pub(crate) mod confirmation;
pub(crate) mod crash;
pub(crate) mod dedup;
pub(crate) mod harm;
mod machine;
pub(crate) mod precondition;
pub(crate) mod profile;
mod shared_ids;
mod stripping;

/// The settings by which all checks of a run are judged.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    pub(crate) strictness: Strictness,
    pub(crate) known: Arc<KnownFailing>,
}

/// Everything that a check has found when it ends.
pub(crate) struct Evidence {
    pub(crate) ended: CheckResult,
    /// Violations that did not stop the check.
    pub(crate) blamed: Vec<Violation>,
    /// Remarks that did not stop the check.
    pub(crate) warnings: Vec<Violation>,
    pub(crate) notes: Vec<String>,
    /// A mount that stays although the driver answered OK to the call that removes it.
    pub(crate) still_mounted: Option<Violation>,
    /// An object that could not be undone, so that the check cannot pass.
    pub(crate) leftover: Option<String>,
}

impl Judge {
    /// Judges a check that has ended and registers the faults that it reports, so that other checks look behind them.
    /// Returns all its outcomes, the gravest first. Only the remarks of the check are left in the evidence.
    pub(crate) fn judge(
        &self,
        planned: &Planned,
        evidence: &mut Evidence,
        faults: &Faults,
    ) -> (Outcome, Vec<Outcome>) {
        let label = planned.label();
        machine::excuse(evidence);
        if let Some(violation) = evidence.still_mounted.take() {
            match reported_by(faults, &label, &violation, evidence) {
                Some(other) if other == label => {
                    let why = "possibly a consequence of this failure";
                    evidence.notes.push(format!("{}, {why}", violation.message));
                }
                Some(other) => evidence.notes.push(format!("{}, which {other} reports", violation.message)),
                None => evidence.blamed.push(violation),
            }
        }
        let entry = self.known.entry(&label);
        let all = self.weigh(planned, evidence).into_iter().map(|one| profile::listed(one, entry));
        let all: Vec<Outcome> = all.collect();
        let violations = all.iter().filter_map(Outcome::violation);
        let own: Vec<&FaultKey> = violations.filter_map(|one| one.fault.as_deref()).collect();
        faults.keep_reported(&label, &own);
        let mut all = all.into_iter();
        (all.next().unwrap_or(Outcome::Passed), all.collect())
    }

    /// The outcome of a violation that the runner found, by the profile and the list of known failures.
    pub(crate) fn outcome(&self, label: &str, finding: Finding) -> Outcome {
        profile::listed(self.strictness.weigh(finding), self.known.entry(label))
    }

    /// Puts a violation that the runner found before all other outcomes of a check.
    pub(crate) fn accuse(&self, report: &mut CheckReport, finding: impl Into<Finding>) {
        let outcome = self.outcome(&report.label(), finding.into());
        let before = std::mem::replace(&mut report.outcome, outcome);
        report.also.extend(Some(before).filter(|before| before.violation().is_some()));
    }

    /// Orders everything that a check has found, the gravest first. A check that found nothing has one outcome.
    fn weigh(&self, planned: &Planned, evidence: &mut Evidence) -> Vec<Outcome> {
        let by_rule = |violation: Violation, source| {
            let rule = violation.requirement.or_else(|| planned.check.requirements.first().copied());
            let binds_from = rule.map_or(Profile::Csi, |rule| rule.binds_from()).max(violation.counts_from);
            self.strictness.weigh(Finding { binds_from, source, ..violation.into() })
        };
        let blamed = std::mem::take(&mut evidence.blamed);
        let mut all: Vec<Outcome> = blamed.into_iter().map(|one| by_rule(one, Source::Check)).collect();
        let ended = match std::mem::replace(&mut evidence.ended, Ok(())) {
            Err(Stop::Violation(violation)) => {
                all.push(by_rule(*violation, Source::Check));
                Ok(())
            }
            Err(Stop::MetAgain(violation)) => {
                all.push(by_rule(*violation, Source::MetAgain));
                Ok(())
            }
            other => other,
        };
        all.sort_by_key(Outcome::place);
        let not_undone = evidence.leftover.as_ref().map(|what| format!("could not undo: {what}"));
        match ended {
            // The end of the run does not look for what a check that was skipped or interrupted has left behind.
            Err(Stop::Skip(reason) | Stop::Declined(_, reason)) if all.is_empty() => {
                return vec![match not_undone {
                    Some(not_undone) => Outcome::Broken(format!("{reason}; {not_undone}")),
                    None => Outcome::Skipped(reason),
                }];
            }
            Err(Stop::Broken(reason) | Stop::Unanswered(reason)) if all.is_empty() => {
                return vec![Outcome::Broken(reason)];
            }
            Err(Stop::Broken(reason) | Stop::Unanswered(reason)) => {
                evidence.notes.push(format!("the check ended early: {reason}"));
            }
            _ => {}
        }
        // A check that only warns is not sure of its evidence. A stricter rule does not make the evidence better.
        all.extend(evidence.warnings.iter().map(|violation| {
            self.strictness.weigh(Finding { binds_from: Profile::Strict, ..violation.clone().into() })
        }));
        if all.is_empty() {
            all.push(not_undone.map_or(Outcome::Passed, Outcome::Broken));
        }
        all
    }
}

/// Takes a check through the last stages, and returns the reports that are final now. This report may have to wait for
/// other checks, and other reports may have waited for this check.
pub(crate) fn conclude(report: CheckReport, dedup: &mut Dedup, faults: &Faults) -> Vec<CheckReport> {
    for outcome in report.outcomes() {
        if let Outcome::Failed(Finding { violation, .. })
        | Outcome::KnownFailure { finding: Finding { violation, .. }, .. } = outcome
            && violation.fault.is_none()
            // Such a failure does not prove that the driver breaks the rule.
            && shared_ids::cause(&report, outcome).is_none()
            && let Some(rule) = failure_report::rule(&report, violation)
        {
            faults.failed_by(rule, &report.label());
        }
    }
    without_secrets(dedup.take(report))
}

/// The reports that still wait when all checks have ended.
pub(crate) fn conclude_rest(dedup: &mut Dedup, faults: &Faults) -> Vec<CheckReport> {
    without_secrets(dedup.rest(faults))
}

fn without_secrets(mut reports: Vec<CheckReport>) -> Vec<CheckReport> {
    reports.iter_mut().for_each(stripping::strip);
    reports
}

/// The check that reports a mount that stays, unless that is left to this one: another check with this rule or fault, or this check if it
/// fails for something else, of which the mount may be a consequence.
fn reported_by(faults: &Faults, label: &str, violation: &Violation, evidence: &Evidence) -> Option<String> {
    let fails = |own: &Violation| {
        own.requirement.is_none_or(Requirement::is_binding) && own.counts_from == Profile::Csi
    };
    let stopped_by = match &evidence.ended {
        Err(Stop::Violation(own) | Stop::MetAgain(own)) => Some(&**own),
        _ => None,
    };
    if stopped_by.into_iter().chain(&evidence.blamed).any(fails) {
        return Some(label.to_owned());
    }
    let by_rule = violation.requirement.and_then(|rule| faults.reported_by(rule));
    by_rule.or_else(|| faults.claim(violation.fault.as_deref()?, &Claim::of(label)).err())
}
