//! How it is judged that a check can fail: it says nothing of a right driver, and accuses each of its defects.

use crate::capability::Capability;
use crate::check::Check;
use crate::need::Need;
use crate::outcome::Outcome;
use crate::requirements::Requirement;

/// What came of one check on a driver that is known to be right, or known to have a defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trial {
    /// As it should be.
    Good,
    /// The check does not run here.
    Skipped(String),
    /// Not as it should be.
    Bad(String),
}

/// A right driver is accused of nothing.
pub fn on_a_right_driver(outcomes: &[&Outcome]) -> Trial {
    for outcome in outcomes {
        match outcome {
            Outcome::Passed | Outcome::Skipped(_) => {}
            Outcome::Broken(why) => return Trial::Bad(format!("cannot judge the right driver: {why}")),
            Outcome::Failed(violation)
            | Outcome::Warned(violation)
            | Outcome::KnownFailure { violation, .. } => {
                let told = (&violation.message, &violation.expected, &violation.actual);
                return Trial::Bad(format!(
                    "accuses the right driver: {}; expected {}; actual {}",
                    told.0, told.1, told.2
                ));
            }
            Outcome::UnexpectedPass { reason } => return Trial::Bad(reason.clone()),
        }
    }
    skipped(outcomes).unwrap_or(Trial::Good)
}

/// A driver with a defect is accused for at least one access type.
pub fn on_a_defect(outcomes: &[&Outcome]) -> Trial {
    if outcomes.iter().any(|outcome| outcome.violation().is_some()) {
        return Trial::Good;
    }
    skipped(outcomes).unwrap_or_else(|| Trial::Bad(format!("does not find it: {outcomes:?}")))
}

/// The reason, if the check ran for no access type.
fn skipped(outcomes: &[&Outcome]) -> Option<Trial> {
    let reason = |outcome: &&Outcome| match outcome {
        Outcome::Skipped(why) => Some(why.clone()),
        _ => None,
    };
    let reasons: Vec<_> = outcomes.iter().map(reason).collect::<Option<_>>()?;
    reasons.into_iter().next().map(Trial::Skipped)
}

/// Capabilities that have to be absent for the check to run.
pub fn absent_for(check: &Check) -> Vec<Capability> {
    let absent = |need: &Need| match need {
        Need::Lacks(capability) => Some(*capability),
        Need::LacksOneOf(some) => some.first().copied(),
        _ => None,
    };
    check.needs.iter().filter_map(absent).collect()
}

/// Ids of the rules that checks blame some defect for, by a matrix that refutation tests have written: a defect, then the checks
/// that say something, a line each, with the rule. Where a rule binds, the check has to fail; elsewhere it warns.
pub fn blamed(matrix: &'static str) -> impl Iterator<Item = &'static str> {
    matrix.lines().filter_map(|line| {
        let mut words = line.strip_prefix("  ")?.split(' ').skip(1);
        let rule = Requirement::find(words.next()?)?;
        let warns = words.next().is_some();
        (warns != rule.is_binding()).then_some(rule.id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Violation;

    #[test]
    fn a_rule_that_binds_has_to_fail() {
        let matrix = "# a comment\n\na-defect\n  a/b/c GEN-ERR-001\n  a/b/d@block GEN-ERR-002 (warns)\n  a/b/e GEN-ERR-008 (warns)\n";
        assert_eq!(blamed(matrix).collect::<Vec<_>>(), ["GEN-ERR-001", "GEN-ERR-008"]);
    }

    #[test]
    fn only_a_violation_refutes() {
        let failed = Outcome::Failed(Violation::new("wrong"));
        let (passed, broken) = (Outcome::Passed, Outcome::Broken("no answer".to_owned()));
        let skipped = Outcome::Skipped("no root".to_owned());
        assert_eq!(on_a_defect(&[&passed, &failed]), Trial::Good);
        assert_eq!(on_a_defect(&[&skipped, &skipped]), Trial::Skipped("no root".to_owned()));
        for outcomes in [vec![&passed], vec![&broken], vec![&passed, &skipped], vec![]] {
            assert!(matches!(on_a_defect(&outcomes), Trial::Bad(_)), "{outcomes:?}");
        }
        assert_eq!(on_a_right_driver(&[&passed, &skipped]), Trial::Good);
        for outcomes in [vec![&failed], vec![&passed, &broken]] {
            assert!(matches!(on_a_right_driver(&outcomes), Trial::Bad(_)), "{outcomes:?}");
        }
    }
}
