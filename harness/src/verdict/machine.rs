//! Stage 2: what this machine does not permit is not the driver's fault.

use super::Evidence;
use crate::resources::machine;
use crate::spec::verdict::{Stop, Violation};

/// Removes every violation that only shows that this machine lacks a right. The check then has no verdict, unless
/// another violation remains. A skip or an inconclusive result names the right as well.
pub(super) fn excuse(evidence: &mut Evidence) {
    excuse_by(evidence, machine::lacks_right);
}

fn excuse_by(evidence: &mut Evidence, lacks_right: impl Fn(&str) -> Option<&'static str>) {
    let mut denied = None;
    let mut is_shown = |violation: &Violation| match lacks_right(&violation.actual) {
        Some(right) => {
            denied.get_or_insert_with(|| format!("{}: {}; {right}", violation.message, violation.actual));
            false
        }
        None => true,
    };
    evidence.blamed.retain(&mut is_shown);
    evidence.warnings.retain(&mut is_shown);
    match &mut evidence.ended {
        Err(Stop::Violation(violation) | Stop::MetAgain(violation)) if !is_shown(violation) => {
            evidence.ended = Ok(());
        }
        Err(Stop::Broken(reason) | Stop::Skip(reason)) => {
            // A check that looks for the right itself names it already.
            if let Some(right) = lacks_right(reason).filter(|right| !reason.contains(right)) {
                *reason = format!("{reason}; {right}");
            }
        }
        _ => {}
    }
    if let (Ok(()), Some(reason)) = (&evidence.ended, denied) {
        evidence.ended = Err(Stop::Broken(reason));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::verdict::CheckResult;

    #[test]
    fn a_right_that_the_machine_lacks_is_no_violation() {
        let lacks = |answer: &str| answer.contains("EPERM").then_some("the machine lacks a right");
        let said = |actual: &str| Violation::new("it must grow, but failed").actual(actual);
        let judge = |ended: CheckResult, blamed: &[&str], warned: &[&str]| {
            let of = |all: &[&str]| all.iter().map(|actual| said(actual)).collect();
            let (blamed, warnings, notes) = (of(blamed), of(warned), Vec::new());
            let mut evidence =
                Evidence { ended, blamed, warnings, notes, still_mounted: None, leftover: None };
            excuse_by(&mut evidence, lacks);
            (evidence.ended, evidence.blamed.len(), evidence.warnings.len())
        };
        for (ended, blamed, warned) in [
            (Err(Stop::from(said("INTERNAL EPERM"))), &[][..], &[][..]),
            (Ok(()), &["INTERNAL EPERM"][..], &[][..]),
            (Ok(()), &[][..], &["INTERNAL EPERM"][..]),
            (Err(Stop::broken("needs a staged volume: EPERM")), &[], &[]),
        ] {
            let (ended, blamed, warned) = judge(ended, blamed, warned);
            let Err(Stop::Broken(reason)) = ended else { panic!("{ended:?}") };
            assert!(reason.ends_with("EPERM; the machine lacks a right"), "{reason}");
            assert_eq!((blamed, warned), (0, 0));
        }
        let (ended, ..) =
            judge(Err(Stop::skip("the driver rejects this call for a volume in use: EPERM")), &[], &[]);
        let Err(Stop::Skip(reason)) = ended else { panic!("{ended:?}") };
        assert!(reason.ends_with("EPERM; the machine lacks a right"), "{reason}");
        let (again, ..) = judge(Err(Stop::skip(reason.clone())), &[], &[]);
        assert!(matches!(again, Err(Stop::Skip(again)) if again == reason), "the right is named once");
        let (ended, blamed, warned) = judge(Ok(()), &["INTERNAL EPERM", "OK"], &["NOT_FOUND"]);
        assert!(matches!(ended, Err(Stop::Broken(_))), "{ended:?}");
        assert_eq!((blamed, warned), (1, 1), "what else is wrong is still said");
        assert!(judge(Ok(()), &[], &[]).0.is_ok());
    }
}
