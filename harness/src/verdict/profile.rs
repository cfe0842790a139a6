//! Stages 3 and 4: the requirement that was broken, and the run's profile, decide whether a violation fails the check or only warns. A check on
//! the user's list of known failures has to fail, and one that is listed as flaky may.

use crate::checks::known::Entry;
use crate::config::profile::{FlakyResult, Profile};
use crate::results::outcome::{Finding, Flaky, Outcome};

/// The settings that decide how grave a violation is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Strictness {
    pub(crate) profile: Profile,
    /// The result of flaky failures, if the user sets it.
    pub(crate) flaky_result: Option<FlakyResult>,
}

impl Strictness {
    /// The outcome of a violation. A flaky one fails if it proves damage, under the profile strict, or as the user sets it.
    pub(super) fn weigh(self, finding: Finding) -> Outcome {
        let Finding { binds_from, plays, .. } = finding;
        if binds_from > self.profile {
            return Outcome::Warned(finding);
        }
        if !plays.is_some_and(|plays| plays.is_flaky()) {
            return Outcome::Failed(finding);
        }
        let fails_from = match self.flaky_result {
            Some(FlakyResult::Fail) => Some(binds_from),
            Some(FlakyResult::Warn) => None,
            None if finding.violation.damage.is_some() => Some(binds_from),
            None => Some(Profile::Strict),
        };
        let fails = fails_from.is_some_and(|from| from <= self.profile);
        Outcome::Flaky(Flaky { finding, fails_from, fails })
    }
}

/// Stage 4: the outcome of a check with this entry in the list, if it has one.
pub(super) fn listed(outcome: Outcome, entry: Option<&Entry>) -> Outcome {
    let Some(entry) = entry else { return outcome };
    let reason = entry.reason.clone();
    match outcome {
        // One list serves runs under every profile, so what only warns is known as well.
        Outcome::Failed(finding) | Outcome::Warned(finding) | Outcome::Flaky(Flaky { finding, .. }) => {
            Outcome::KnownFailure { finding, reason }
        }
        Outcome::Passed if !entry.is_flaky => Outcome::UnexpectedPass { reason },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::outcome::{Counts, OutcomeKind, Summary, Verdict};
    use crate::spec::verdict::{Damage, Violation};

    #[test]
    fn a_flaky_failure_fails_for_damage_or_by_a_setting() {
        let flaky = |damage: Option<Damage>, flaky_result, profile| {
            let violation = Violation { damage, ..Violation::new("once").replayed(1, 4) };
            let outcome = Strictness { profile, flaky_result }.weigh(violation.into());
            let mut summary =
                Summary { profile, counts: Counts { passed: 1, ..Counts::default() }, ..Summary::default() };
            summary.count(outcome.kind(), outcome.counts_as(), "a", outcome.binds_from());
            assert_eq!((summary.counts.flaky, summary.counts.failed, summary.checks()), (1, 0, 2));
            assert_eq!(
                summary.verdict_under(Profile::Strict) == Verdict::Conforms,
                flaky_result == Some(FlakyResult::Warn)
            );
            summary.verdict()
        };
        use Verdict::*;
        assert_eq!(flaky(None, None, Profile::Csi), Conforms);
        assert_eq!(flaky(None, None, Profile::Strict), Deviates);
        assert_eq!(flaky(None, Some(FlakyResult::Fail), Profile::Csi), Deviates);
        for damage in [Damage::DataLoss, Damage::Crash, Damage::Leak] {
            assert_eq!(flaky(Some(damage), None, Profile::Csi), Deviates);
            assert_eq!(flaky(Some(damage), Some(FlakyResult::Warn), Profile::Strict), Conforms);
        }
        let confirmed = Violation::new("each time").replayed(2, 2);
        let strictness = Strictness { flaky_result: Some(FlakyResult::Warn), ..Strictness::default() };
        assert_eq!(strictness.weigh(confirmed.into()).kind(), OutcomeKind::Failed);
        let milder = Violation::new("once").replayed(1, 4);
        assert_eq!(
            strictness.weigh(Finding { binds_from: Profile::Strict, ..milder.into() }).kind(),
            OutcomeKind::Warned
        );
    }
}
