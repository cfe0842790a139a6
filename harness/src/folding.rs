//! One fault, one failure: a check that only shows again what another one shows is reported where the other one passes.

use std::collections::BTreeMap;

use crate::check::SAME_RULE;
use crate::outcome::{CheckReport, Kind, Outcome, Planned, SameFault};
use crate::requirements::req;
use crate::story;

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
    counts_as: Kind,
}

/// The checks that others follow, and the reports that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Folding {
    leaders: BTreeMap<&'static str, Leader>,
    /// The rules that the driver was accused of breaking, and the first check that did.
    rules: BTreeMap<&'static str, Accused>,
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
                leader.accuses.get_or_insert_with(|| Accused::of(&report, violation.message.clone()));
            }
        }
        self.waiting.push(report);
        let (ready, waiting): (Vec<_>, _) =
            std::mem::take(&mut self.waiting).into_iter().partition(|one| !self.waits(one));
        self.waiting = waiting;
        ready.into_iter().map(|report| self.folded(report)).collect()
    }

    /// Those that still wait when everything has ended.
    pub(crate) fn rest(&mut self) -> Vec<CheckReport> {
        let waiting = std::mem::take(&mut self.waiting);
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
        let Some(violation) = report.outcome.violation() else { return report };
        let rule = story::rule(&report, violation).map_or("", |rule| rule.id);
        let same = match report.planned.check.follows {
            // Each death and each call that breaks off is a fault of its own.
            Some(SAME_RULE) if rule == req::GEN_ERR_001.id => None,
            Some(SAME_RULE) => self.rules.get(rule).cloned(),
            Some(leader) => self.leaders.get(leader).and_then(|leader| leader.accuses.clone()),
            None => None,
        };
        if let Some(Accused { label: first, message, counts_as }) = same {
            let deviates = !matches!(report.outcome, Outcome::Warned(_));
            report.outcome = Outcome::SameFault(SameFault { first, message, counts_as, deviates });
            report.calls.clear();
        } else {
            self.rules.entry(rule).or_insert_with(|| Accused::of(&report, rule.to_owned()));
        }
        report
    }
}

impl Accused {
    fn of(report: &CheckReport, message: String) -> Accused {
        Accused { label: report.label(), message, counts_as: report.outcome.kind() }
    }
}
