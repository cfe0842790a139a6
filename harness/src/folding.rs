//! One fault, one failure: a check that only shows again what another one shows is told where the other one passes.

use std::collections::BTreeMap;

use crate::outcome::{CheckReport, Outcome, Planned};

/// A check that others follow.
#[derive(Debug, Default)]
struct Leader {
    /// Its runs that have not ended.
    ahead: usize,
    /// What it accuses the driver of.
    accuses: Option<String>,
}

/// The checks that others follow, and the reports that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Folding {
    leaders: BTreeMap<&'static str, Leader>,
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
        Folding { leaders, waiting: Vec::new() }
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
        let (ready, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|one| !self.waits(one));
        self.waiting = waiting;
        let ready: Vec<CheckReport> = ready;
        ready.into_iter().map(|report| self.folded(report)).collect()
    }

    /// Whether the report has to wait for a check that it follows.
    fn waits(&self, report: &CheckReport) -> bool {
        report.outcome.violation().is_some()
            && self.leader_of(report).is_some_and(|leader| leader.ahead > 0 && leader.accuses.is_none())
    }

    fn leader_of(&self, report: &CheckReport) -> Option<&Leader> {
        self.leaders.get(report.planned.check.follows?)
    }

    fn folded(&self, mut report: CheckReport) -> CheckReport {
        let accuses = self.leader_of(&report).and_then(|leader| leader.accuses.as_ref());
        if let (Some(what), Some(_), Some(leader)) =
            (accuses, report.outcome.violation(), report.planned.check.follows)
        {
            report.outcome = Outcome::Skipped(format!("the same fault as in {leader}: {what}"));
            report.calls.clear();
        }
        report
    }
}
