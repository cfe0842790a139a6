//! One fault, one failure: a check that only shows again what another one shows is told where the other one passes.

use std::collections::BTreeMap;

use crate::check::SAME_RULE;
use crate::faults::asks_for_several;
use crate::outcome::{CheckReport, Outcome, Planned};
use crate::requirements::req;
use crate::story;
use crate::verdict::Violation;

/// A check that others follow.
#[derive(Debug, Default)]
struct Leader {
    /// Its runs that have not ended.
    ahead: usize,
    /// What it accuses the driver of.
    accuses: Option<String>,
}

/// What the driver was accused of, and where.
#[derive(Debug)]
struct Accusation {
    rule: &'static str,
    violation: Violation,
    /// Whether the rule binds, so that it is not a mere warning.
    deviates: bool,
    label: String,
}

impl Accusation {
    /// Whether it tells what this one would tell again. A warning does not tell a failure.
    fn tells(&self, other: &Accusation) -> bool {
        let is_same = match (&self.violation.fault, &other.violation.fault) {
            (Some(one), Some(other)) => one == other,
            _ if asks_for_several(other.rule) => self.violation.message == other.violation.message,
            _ => true,
        };
        self.rule == other.rule && is_same && (self.deviates || !other.deviates)
    }
}

/// The checks that others follow, and the reports that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Folding {
    leaders: BTreeMap<&'static str, Leader>,
    accusations: Vec<Accusation>,
    waiting: Vec<CheckReport>,
}

impl Folding {
    /// Everything that is planned, and nothing of it has ended.
    pub(crate) fn of(plan: &[Planned]) -> Folding {
        let mut leaders = BTreeMap::<_, Leader>::new();
        for planned in plan {
            if let Some(leader) = planned.check.follows {
                leaders.entry(leader).or_default();
            }
        }
        for planned in plan {
            if let Some(leader) = leaders.get_mut(planned.check.id) {
                leader.ahead += 1;
            }
        }
        // Those that follow any other check wait for all of them.
        if let Some(any) = leaders.get_mut(SAME_RULE) {
            any.ahead = usize::MAX;
        }
        Folding { leaders, ..Folding::default() }
    }

    /// Takes a report, and gives back those that can be told now.
    pub(crate) fn take(&mut self, report: CheckReport) -> Vec<CheckReport> {
        if let Some(leader) = self.leaders.get_mut(report.planned.check.id) {
            leader.ahead = leader.ahead.saturating_sub(1);
            if let Some(violation) = report.outcome.violation() {
                leader.accuses.get_or_insert_with(|| violation.message.clone());
            }
        }
        self.waiting.push(report);
        let (ready, waiting): (Vec<_>, _) =
            std::mem::take(&mut self.waiting).into_iter().partition(|one| !self.waits(one));
        self.waiting = waiting;
        ready.into_iter().map(|report| self.folded(report)).collect()
    }

    /// Those that still wait when everything has ended: first those that tell a fault in full.
    pub(crate) fn rest(&mut self) -> Vec<CheckReport> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let only_met = |one: &CheckReport| one.outcome.violation().is_some_and(|one| one.met_again);
        waiting.sort_by_key(only_met);
        waiting.into_iter().map(|report| self.folded(report)).collect()
    }

    /// Whether the report has to wait for a check that it follows.
    fn waits(&self, report: &CheckReport) -> bool {
        report.outcome.violation().is_some()
            && self.leader_of(report).is_some_and(|leader| leader.ahead > 0 && leader.accuses.is_none())
    }

    fn leader_of(&self, report: &CheckReport) -> Option<&Leader> {
        self.leaders.get(report.planned.check.follows?)
    }

    fn folded(&mut self, mut report: CheckReport) -> CheckReport {
        let what = match report.planned.check.follows {
            Some(SAME_RULE) => return self.without_told(report),
            Some(leader) => self.leaders.get(leader).and_then(|leader| leader.accuses.clone()),
            None => None,
        };
        match (what, report.planned.check.follows) {
            (Some(what), Some(leader)) if report.outcome.violation().is_some() => {
                leave_untold(&mut report, leader.to_owned(), &what);
            }
            _ => {
                let all = std::iter::once(&report.outcome).chain(&report.also);
                self.accusations.extend(all.filter_map(|one| accusation(&report, one)));
            }
        }
        report
    }

    /// The report without what other checks tell; the gravest of what is left comes first.
    fn without_told(&mut self, mut report: CheckReport) -> CheckReport {
        let mut all = vec![std::mem::replace(&mut report.outcome, Outcome::Passed)];
        all.append(&mut report.also);
        let (mut own, mut told, mut accusations) = (Vec::new(), Vec::new(), Vec::new());
        for outcome in all {
            let accusation = accusation(&report, &outcome);
            match accusation.as_ref().and_then(|one| self.teller(one)) {
                Some(first) => {
                    accusations.extend(accusation.map(|one| Accusation { label: first.clone(), ..one }));
                    told.push((first, outcome));
                }
                None => {
                    accusations.extend(accusation);
                    own.push(outcome);
                }
            }
        }
        self.accusations.append(&mut accusations);
        if own.is_empty()
            && let Some((first, outcome)) = told.into_iter().next()
        {
            let violation = outcome.violation();
            let rule = violation.and_then(|one| story::rule(&report, one)).map_or("", |rule| rule.id);
            let looked = violation.is_some_and(|one| one.fault.is_some());
            let what = format!("{rule}{}", if looked { ", and nothing else behind it" } else { "" });
            report.outcome = outcome;
            leave_untold(&mut report, first, &what);
        } else {
            report.outcome = own.remove(0);
            report.also = own;
        }
        report
    }

    /// The check that tells this already. Each death and each call that breaks off is a fault of its own.
    fn teller(&self, accusation: &Accusation) -> Option<String> {
        let told = self.accusations.iter().find(|before| before.tells(accusation));
        told.filter(|_| accusation.rule != req::GEN_ERR_001.id).map(|one| one.label.clone())
    }
}

fn accusation(report: &CheckReport, outcome: &Outcome) -> Option<Accusation> {
    let violation = outcome.violation()?;
    Some(Accusation {
        rule: story::rule(report, violation).map_or("", |rule| rule.id),
        violation: violation.clone(),
        deviates: outcome.deviates(),
        label: report.label(),
    })
}

fn leave_untold(report: &mut CheckReport, first: String, what: &str) {
    let why = format!("the same fault as in {first}: {what}");
    let deviates = !matches!(report.outcome, Outcome::Warned(_));
    report.told_in = Some(first).filter(|_| deviates);
    report.outcome = Outcome::Skipped(why);
    report.also.clear();
    report.calls.clear();
}
