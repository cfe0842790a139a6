//! One fault, one failure: a check that only shows again what another one shows is reported where the other one passes.

use std::collections::BTreeMap;

use crate::checks::check::SAME_RULE;
use crate::checks::planned::Planned;
use crate::config::profile::Profile;
use crate::results::failure_report;
use crate::results::outcome::{CheckReport, Outcome, OutcomeKind, SameFault};
use crate::spec::faults::asks_for_several;
use crate::spec::requirements::req;
use crate::spec::verdict::Violation;

/// A check that others follow.
#[derive(Debug, Default)]
struct Leader {
    /// Its runs that have not ended.
    ahead: usize,
    /// What it accuses the driver of.
    accuses: Option<Accused>,
}

/// A fault that is reported, and where.
#[derive(Clone, Debug)]
struct Accused {
    label: String,
    message: String,
    counts_as: OutcomeKind,
}

/// What the driver was accused of, and where.
#[derive(Debug)]
struct Accusation {
    rule: &'static str,
    violation: Violation,
    /// What came of the check that tells it.
    counts_as: OutcomeKind,
    /// The label of that check.
    label: String,
}

impl Accusation {
    /// Whether it tells what this one would tell again. What binds from a stricter profile on does not tell what binds before, and
    /// one that has only met a fault again does not tell it in full.
    fn tells(&self, other: &Accusation) -> bool {
        if self.violation.harms || other.violation.harms {
            // What becomes of a driver is no fault of the call that shows it.
            return false;
        }
        let is_same = match (&self.violation.fault, &other.violation.fault) {
            (Some(one), Some(other)) => one == other,
            _ if asks_for_several(other.rule) => self.violation.message == other.violation.message,
            _ => true,
        };
        self.rule == other.rule
            && is_same
            && self.violation.binds_from <= other.violation.binds_from
            && (!self.violation.met_again || other.violation.met_again)
    }
}

/// The checks that others follow, and the reports that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Dedup {
    leaders: BTreeMap<&'static str, Leader>,
    accusations: Vec<Accusation>,
    waiting: Vec<CheckReport>,
}

impl Dedup {
    /// Everything that is planned, and nothing of it has ended.
    pub(crate) fn of(plan: &[Planned]) -> Dedup {
        let mut leaders = BTreeMap::<_, Leader>::new();
        for planned in plan {
            if let Some(leader) = planned.check.duplicate_of {
                leaders.entry(leader).or_default();
            }
        }
        for planned in plan {
            if let Some(leader) = leaders.get_mut(&*planned.check.id) {
                leader.ahead += 1;
            }
        }
        // Those that follow any other check wait for all of them.
        if let Some(any) = leaders.get_mut(SAME_RULE) {
            any.ahead = usize::MAX;
        }
        Dedup { leaders, ..Dedup::default() }
    }

    /// Takes a report, and gives back those that can be told now.
    pub(crate) fn take(&mut self, report: CheckReport) -> Vec<CheckReport> {
        if let Some(leader) = self.leaders.get_mut(&*report.planned.check.id) {
            leader.ahead = leader.ahead.saturating_sub(1);
            // What did not come again does not stand for what others see each time.
            let confirmed = Some(&report.outcome).filter(|outcome| outcome.kind() != OutcomeKind::Flaky);
            if let Some(violation) = confirmed.and_then(Outcome::violation) {
                leader.accuses.get_or_insert_with(|| Accused::of(&report, violation.message.clone()));
            }
        }
        self.waiting.push(report);
        let (ready, waiting): (Vec<_>, _) =
            std::mem::take(&mut self.waiting).into_iter().partition(|one| !self.waits(one));
        self.waiting = waiting;
        ready.into_iter().map(|report| self.deduplicated(report)).collect()
    }

    /// Those that still wait when everything has ended: first those that tell a fault in full.
    pub(crate) fn rest(&mut self) -> Vec<CheckReport> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let only_met = |one: &CheckReport| one.outcome.violation().is_some_and(|one| one.met_again);
        waiting.sort_by_key(only_met);
        waiting.into_iter().map(|report| self.deduplicated(report)).collect()
    }

    /// Whether the report has to wait for a check whose faults it may show again.
    fn waits(&self, report: &CheckReport) -> bool {
        report.outcome.violation().is_some()
            && self.leader_of(report).is_some_and(|leader| leader.ahead > 0 && leader.accuses.is_none())
    }

    fn leader_of(&self, report: &CheckReport) -> Option<&Leader> {
        self.leaders.get(report.planned.check.duplicate_of?)
    }

    fn deduplicated(&mut self, mut report: CheckReport) -> CheckReport {
        let accused = match report.planned.check.duplicate_of {
            // Where each check is to tell what it finds, nobody follows.
            Some(SAME_RULE) if !self.leaders.contains_key(SAME_RULE) => None,
            Some(SAME_RULE) => return self.without_reported(report),
            Some(leader) => self.leaders.get(leader).and_then(|leader| leader.accuses.clone()),
            None => None,
        };
        match accused {
            Some(accused) if report.outcome.violation().is_some() => {
                let harms = |one: &Outcome| one.violation().is_some_and(|one| one.harms);
                let all = std::iter::once(report.outcome.clone()).chain(std::mem::take(&mut report.also));
                match all.into_iter().find(harms) {
                    Some(harm) => report.outcome = harm,
                    None => suppress(&mut report, accused),
                }
            }
            _ => {
                let all = std::iter::once(&report.outcome).chain(&report.also);
                self.accusations.extend(all.filter_map(|one| accusation(&report, one)));
            }
        }
        report
    }

    /// The report without what other checks tell; the gravest of what is left comes first.
    fn without_reported(&mut self, mut report: CheckReport) -> CheckReport {
        let mut all = vec![std::mem::replace(&mut report.outcome, Outcome::Passed)];
        all.append(&mut report.also);
        let (mut own, mut told, mut accusations) = (Vec::new(), Vec::new(), Vec::new());
        for outcome in all {
            let accusation = accusation(&report, &outcome);
            match accusation.as_ref().and_then(|one| self.reported_by(one)) {
                Some((label, counts_as)) => {
                    accusations.extend(accusation.map(|one| Accusation {
                        label: label.clone(),
                        counts_as,
                        ..one
                    }));
                    told.push((label, counts_as, outcome));
                }
                None => {
                    accusations.extend(accusation);
                    own.push(outcome);
                }
            }
        }
        self.accusations.append(&mut accusations);
        if own.is_empty()
            && let Some((label, counts_as, outcome)) = told.into_iter().next()
        {
            let violation = outcome.violation();
            let rule =
                violation.and_then(|one| failure_report::rule(&report, one)).map_or("", |rule| rule.id);
            let looked = violation.is_some_and(|one| one.fault.is_some());
            let message = format!("{rule}{}", if looked { ", and nothing else behind it" } else { "" });
            report.outcome = outcome;
            suppress(&mut report, Accused { label, message, counts_as });
        } else {
            report.outcome = own.remove(0);
            report.also = own;
        }
        report
    }

    /// The check that tells this already, and what came of it. Each death and each call that breaks off is a fault of its own.
    fn reported_by(&self, accusation: &Accusation) -> Option<(String, OutcomeKind)> {
        let told = self.accusations.iter().find(|before| before.tells(accusation));
        told.filter(|_| accusation.rule != req::GEN_ERR_001.id).map(|one| (one.label.clone(), one.counts_as))
    }
}

fn accusation(report: &CheckReport, outcome: &Outcome) -> Option<Accusation> {
    let violation = outcome.violation()?;
    // A flaky failure that only warns hides no failure that counts.
    let binds_from = outcome.binds_from().unwrap_or(Profile::Strict);
    Some(Accusation {
        rule: failure_report::rule(report, violation).map_or("", |rule| rule.id),
        violation: Violation { binds_from, ..violation.clone() },
        counts_as: outcome.counts_as(),
        label: report.label(),
    })
}

fn suppress(report: &mut CheckReport, accused: Accused) {
    let Accused { label: first, message, counts_as } = accused;
    let deviates = !matches!(report.outcome, Outcome::Warned(_));
    report.outcome = Outcome::SameFault(SameFault { first, message, counts_as, deviates });
    report.also.clear();
    report.calls.clear();
}

impl Accused {
    fn of(report: &CheckReport, message: String) -> Accused {
        Accused { label: report.label(), message, counts_as: report.outcome.counts_as() }
    }
}
