//! Judges if a check works: it must not accuse a right driver, and must accuse each driver with one of its defects.

use crate::checks::check::Check;
use crate::protocol::capability::Capability;
use crate::protocol::version::Version;
use crate::results::outcome::{Flaky, Outcome};
use crate::spec::need::Need;
use crate::spec::requirements::Requirement;
use crate::spec::verdict::Violation;

/// The verdict on a check that ran on a driver known to be right, or known to have a defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trial {
    /// The check works.
    Good,
    /// The check does not run here.
    Skipped(String),
    /// The check does not work, for this reason.
    Bad(String),
}

/// A right driver is accused of nothing.
pub fn on_a_right_driver(outcomes: &[&Outcome]) -> Trial {
    for outcome in outcomes {
        match outcome {
            Outcome::Passed | Outcome::Skipped(_) => {}
            Outcome::Broken(why) => return Trial::Bad(format!("cannot judge the right driver: {why}")),
            Outcome::Failed(finding)
            | Outcome::Warned(finding)
            | Outcome::Flaky(Flaky { finding, .. })
            | Outcome::KnownFailure { finding, .. } => {
                let Violation { message, expected, actual, .. } = &finding.violation;
                return Trial::Bad(format!(
                    "accuses the right driver: {message}; expected {expected}; actual {actual}"
                ));
            }
            Outcome::SameFault(same) => {
                return Trial::Bad(format!("accuses the right driver: {}", same.sentence()));
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

/// Passes only if the driver is accused by a rule that the check names. When the driver does not survive a call, the
/// runner reports that by its own rule, which shows nothing of what the check would have judged.
pub fn by_its_rules(check: &Check, outcomes: &[&Outcome]) -> Trial {
    let is_named = |outcome: &&Outcome| {
        let blamed = outcome.violation().map(|violation| violation.requirement);
        blamed.is_some_and(|rule| rule.is_none_or(|rule| check.requirements.contains(&rule)))
    };
    match on_a_defect(outcomes) {
        Trial::Good if !outcomes.iter().any(is_named) => {
            Trial::Bad(format!("is accused by rules that the check does not name: {outcomes:?}"))
        }
        trial => trial,
    }
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

/// Returns true if the check is of a version that is not released, so that it only runs where the user names that version.
pub fn is_of_preview(check: &Check) -> bool {
    let is_later = |capability: &Capability| capability.versions().first() > Version::RELEASED;
    check.needs.iter().any(|need| matches!(need, Need::Has(capability) if is_later(capability)))
}

/// A check that accuses a driver with a known defect.
#[derive(Clone, Copy, Debug)]
pub struct Accused {
    /// The defect.
    pub defect: &'static str,
    /// The id of the check.
    pub check: &'static str,
    /// The rule that the check blames the driver for.
    pub rule: &'static Requirement,
    /// True if it only warns.
    pub warns: bool,
}

/// Parses a matrix that refutation tests have written: a defect, then the checks that accuse it, a line each, with the
/// rule.
pub fn accused(matrix: &'static str) -> impl Iterator<Item = Accused> {
    let mut defect = "";
    matrix.lines().filter_map(move |line| {
        let Some(accusation) = line.strip_prefix("  ") else {
            defect = line;
            return None;
        };
        let mut words = accusation.split(' ');
        let (check, rule, warns) = (words.next()?, Requirement::find(words.next()?)?, words.next().is_some());
        Some(Accused { defect, check: Check::id_of(check), rule, warns })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_says_who_is_accused_of_what() {
        let matrix = "# a comment\n\na-defect\n  a/b/c GEN-ERR-001\n  a/b/d@block GEN-ERR-002 (warns)\n\nother\n  a/b/e GEN-ERR-008 (warns)\n";
        let found =
            accused(matrix).map(|accused| (accused.defect, accused.check, accused.rule.id, accused.warns));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                ("a-defect", "a/b/c", "GEN-ERR-001", false),
                ("a-defect", "a/b/d", "GEN-ERR-002", true),
                ("other", "a/b/e", "GEN-ERR-008", true)
            ]
        );
    }

    #[test]
    fn a_crash_refutes_only_who_names_the_rule() {
        use crate::spec::requirements::req;
        let crashed = Outcome::Failed(Violation::new("died").of(&req::GEN_ERR_001).into());
        let judged = Outcome::Failed(Violation::new("wrong").into());
        let named = Outcome::Failed(Violation::new("wrong").of(&req::ID_INFO_001).into());
        assert!(matches!(by_its_rules(&NAMES_ID_INFO_001, &[&crashed]), Trial::Bad(_)));
        for outcomes in [vec![&judged], vec![&named], vec![&crashed, &named]] {
            assert_eq!(by_its_rules(&NAMES_ID_INFO_001, &outcomes), Trial::Good);
        }
    }

    crate::check! {
        NAMES_ID_INFO_001 {
            id: "a/b/c",
            title: "anything",
            spec: [crate::spec::requirements::req::ID_INFO_001],
            refuted_by: ["anything"],
        }
        async |_cx| { Ok(()) }
    }

    #[test]
    fn only_a_violation_refutes() {
        let failed = Outcome::Failed(Violation::new("wrong").into());
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
