//! Decides for each requirement on drivers if the run shows it kept or broken, or why it was not judged.

use std::borrow::Cow;
use std::collections::BTreeMap;

use csi_harness::protocol::version::Version;
use csi_harness::results::outcome::OutcomeKind;
use csi_harness::spec::requirements::{Level, Party, Requirement, Testability, req};

use crate::entry::{CheckEntry, UntestedEntry};
use crate::journal::Run;

/// The state of a requirement; the gravest comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// No check tests it.
    Untested,
    /// Checks test it, and none of them was chosen.
    NotRun,
    /// None of its checks applies.
    Skipped,
    /// A check of it could not judge, or met something else first.
    Inconclusive,
    /// A check of it passed, and none found it broken.
    Kept,
    /// It is broken, and that only warns.
    Warned,
    /// It is broken, as the known-failing list says.
    KnownFailure,
    Broken,
}

impl Standing {
    pub(crate) const ALL: [Standing; 8] = [
        Standing::Broken,
        Standing::KnownFailure,
        Standing::Warned,
        Standing::Kept,
        Standing::Inconclusive,
        Standing::Skipped,
        Standing::NotRun,
        Standing::Untested,
    ];

    /// The state in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Standing::Untested => "no check",
            Standing::NotRun => "not run",
            Standing::Skipped => "skipped",
            Standing::Inconclusive => "inconclusive",
            Standing::Kept => "kept",
            Standing::Warned => "warned",
            Standing::KnownFailure => "known failure",
            Standing::Broken => "broken",
        }
    }

    pub(crate) fn is_judged(self) -> bool {
        self >= Standing::Kept
    }
}

/// A requirement with its state in the run.
#[derive(Debug)]
pub(crate) struct Rule<'a> {
    pub(crate) row: &'static Requirement,
    /// True if the version that the run judged by has it.
    pub(crate) holds: bool,
    pub(crate) standing: Standing,
    /// The reason why it was not judged, or the message of the check that found it broken.
    pub(crate) because: Cow<'a, str>,
    /// The checks that looked, those of the fewest requirements first.
    pub(crate) checks: Vec<&'a CheckEntry>,
}

impl Rule<'_> {
    /// Returns true if this version has it as a MUST, and it can be tested from outside.
    pub(crate) fn is_testable_must(&self) -> bool {
        let is_hidden = matches!(self.row.test, Testability::Untestable | Testability::ModelOnly);
        self.row.level == Level::Must && !is_hidden && self.holds
    }

    /// The check that decided its state.
    pub(crate) fn deciding_check(&self) -> Option<&CheckEntry> {
        self.checks.iter().copied().find(|check| found(check, self.row.id) == Some(self.standing))
    }
}

/// Every requirement that drivers MUST or SHOULD keep, in the order of the specification.
pub(crate) fn each(run: &Run) -> Vec<Rule<'_>> {
    let mut by_rule = BTreeMap::<&str, Vec<&CheckEntry>>::new();
    for check in &run.checks {
        for rule in &check.requirements {
            by_rule.entry(rule).or_default().push(check);
        }
        for also in check.also.iter().filter(|also| !check.requirements.contains(&also.requirement)) {
            by_rule.entry(&also.requirement).or_default().push(check);
        }
    }
    let untested = run.untested.iter().map(|entry| (entry.requirement.as_str(), entry)).collect();
    let versions =
        Version::ALL.into_iter().filter(|version| run.specification.contains(&version.to_string()));
    let versions: Vec<Version> = versions.collect();
    let rows = req::ALL.iter().copied().filter(|row| row.on == Party::Plugin && row.level != Level::May);
    let mut rules: Vec<Rule<'_>> = rows
        .map(|row| {
            let holds = versions.iter().any(|version| row.versions.has(*version));
            rule(row, holds, by_rule.remove(row.id).unwrap_or_default(), &untested)
        })
        .collect();
    follow(&mut rules, &untested);
    rules
}

fn rule<'a>(
    row: &'static Requirement,
    holds: bool,
    mut checks: Vec<&'a CheckEntry>,
    untested: &BTreeMap<&str, &'a UntestedEntry>,
) -> Rule<'a> {
    checks.sort_by_key(|check| check.requirements.len());
    let gravest = checks.iter().filter_map(|check| Some((found(check, row.id)?, *check)));
    // If several checks agree, the first one decides, which is about the fewest rules.
    let gravest = gravest.reduce(|worst, next| if next.0 > worst.0 { next } else { worst });
    let (standing, because) = match (gravest, untested.get(row.id)) {
        (Some((standing, check)), _) => (standing, why(standing, check, row.id)),
        (None, Some(entry)) => (Standing::Untested, entry.because.as_str().into()),
        (None, None) => match row.test {
            Testability::Untestable => (Standing::Untested, "it cannot be seen through gRPC".into()),
            Testability::ModelOnly => (Standing::Untested, "it says how to judge".into()),
            _ => (Standing::NotRun, "no check of it was selected".into()),
        },
    };
    Rule { row, holds, standing, because, checks }
}

/// The state of a requirement by one check.
fn found(check: &CheckEntry, rule: &str) -> Option<Standing> {
    let of = |kind| match kind {
        OutcomeKind::Failed => Standing::Broken,
        OutcomeKind::Flaky if check.counts_as() == OutcomeKind::Failed => Standing::Broken,
        OutcomeKind::KnownFailure => Standing::KnownFailure,
        _ => Standing::Warned,
    };
    let outcome = check.outcome();
    let also = check.also.iter().filter(|also| also.requirement == rule).map(|also| of(also.outcome)).max();
    let is_first = check.requirements.first().is_some_and(|first| first == rule);
    let itself = match outcome {
        OutcomeKind::Failed | OutcomeKind::Flaky | OutcomeKind::KnownFailure | OutcomeKind::Warned
            if is_first =>
        {
            of(outcome)
        }
        // The other check may have stopped before it came to this rule. It shows where the fault lies.
        OutcomeKind::Failed
        | OutcomeKind::Flaky
        | OutcomeKind::KnownFailure
        | OutcomeKind::Warned
        | OutcomeKind::SameFault
        | OutcomeKind::Broken => Standing::Inconclusive,
        OutcomeKind::Skipped => Standing::Skipped,
        OutcomeKind::Passed | OutcomeKind::UnexpectedPass => Standing::Kept,
    };
    also.max(Some(itself))
}

fn why<'a>(standing: Standing, check: &'a CheckEntry, rule: &str) -> Cow<'a, str> {
    match standing {
        Standing::Kept | Standing::Untested | Standing::NotRun => "".into(),
        Standing::Inconclusive if check.outcome() != OutcomeKind::Broken => {
            "its check met another fault first".into()
        }
        Standing::Broken | Standing::KnownFailure | Standing::Warned => {
            let also = check.also.iter().find(|also| also.requirement == rule);
            let is_first = check.requirements.first().is_some_and(|first| first == rule);
            also.filter(|_| !is_first).map_or(check.message.as_str(), |also| also.message.as_str()).into()
        }
        Standing::Skipped | Standing::Inconclusive => check.message.as_str().into(),
    }
}

/// A requirement that others ask for as well is judged as the gravest of them, where all of them are judged.
fn follow(rules: &mut [Rule<'_>], untested: &BTreeMap<&str, &UntestedEntry>) {
    let standings: BTreeMap<&str, Standing> = rules.iter().map(|rule| (rule.row.id, rule.standing)).collect();
    for rule in rules.iter_mut().filter(|rule| rule.standing == Standing::Untested) {
        let others = untested.get(rule.row.id).map_or(&[][..], |entry| &entry.same_as);
        let others: Option<Vec<Standing>> =
            others.iter().map(|other| standings.get(other.as_str()).copied()).collect();
        match others.as_deref() {
            Some(others @ [_, ..]) if others.iter().all(|other| other.is_judged()) => {
                rule.standing = others.iter().copied().max().unwrap_or(Standing::Untested);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const RULE: &str = "CTRL-CREATEVOL-002";

    fn check(id: &str, outcome: &str, rules: &[&str]) -> Value {
        json!({ "id": id, "outcome": outcome, "requirements": rules, "message": format!("{id} says") })
    }

    /// The state of a rule after a run with these checks, and the reason.
    fn standing(checks: &[Value], untested: &[Value]) -> (Standing, String) {
        let run = Run {
            checks: serde_json::from_value(checks.into()).unwrap(),
            untested: serde_json::from_value(untested.into()).unwrap(),
            ..Run::default()
        };
        let rules = each(&run);
        let rule = rules.iter().find(|rule| rule.row.id == RULE).unwrap();
        (rule.standing, rule.because.clone().into_owned())
    }

    #[test]
    fn the_gravest_of_what_its_checks_say_counts() {
        let of = |outcomes: &[&str]| {
            let checks: Vec<Value> =
                outcomes.iter().map(|outcome| check(outcome, outcome, &[RULE])).collect();
            standing(&checks, &[]).0
        };
        assert_eq!(of(&[]), Standing::NotRun);
        assert_eq!(of(&["skipped"]), Standing::Skipped);
        assert_eq!(of(&["skipped", "broken"]), Standing::Inconclusive);
        assert_eq!(of(&["broken", "passed"]), Standing::Kept);
        assert_eq!(of(&["passed", "warned"]), Standing::Warned);
        assert_eq!(of(&["failed", "passed"]), Standing::Broken);
    }

    /// A check that fails blames the driver for its first rule alone, and has perhaps not come to the others.
    #[test]
    fn a_failure_of_another_rule_is_none_of_this_one() {
        let other = check("a", "failed", &["GEN-ERR-001", RULE]);
        assert_eq!(standing(std::slice::from_ref(&other), &[]).0, Standing::Inconclusive);
        assert_eq!(standing(&[other.clone(), check("b", "passed", &[RULE])], &[]).0, Standing::Kept);
        let mut also = other;
        also["also"] = json!([{
            "outcome": "warned", "requirement": RULE, "message": "this as well", "expected": "", "actual": "",
        }]);
        assert_eq!(standing(&[also], &[]), (Standing::Warned, "this as well".to_owned()));
    }

    #[test]
    fn what_others_ask_for_as_well_is_judged_by_them() {
        let same = |others: &[&str]| json!({"requirement": RULE, "because": "said again", "same_as": others});
        let kept = check("a", "passed", &["CTRL-CREATEVOL-010"]);
        assert_eq!(standing(std::slice::from_ref(&kept), &[same(&["CTRL-CREATEVOL-010"])]).0, Standing::Kept);
        let open = same(&["CTRL-CREATEVOL-010", "CTRL-CREATEVOL-001"]);
        assert_eq!(standing(&[kept], &[open]), (Standing::Untested, "said again".to_owned()));
    }
}
