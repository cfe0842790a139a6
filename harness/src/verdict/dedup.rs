//! Stage 9: one fault is one failure. A check that only shows the fault of another check is not reported beside it.

use std::collections::BTreeMap;

use crate::checks::check::Planned;
use crate::checks::check::SAME_RULE;
use crate::config::profile::Profile;
use crate::results::failure_report;
use crate::results::outcome::{CheckReport, Finding, Outcome, OutcomeKind, SameFault, Source};
use crate::spec::faults::{FaultKey, Faults, asks_for_several};
use crate::spec::requirements::req;
use crate::verdict::shared_ids;

/// A check that others follow.
#[derive(Debug, Default)]
struct Leader {
    /// The number of its runs that have not ended.
    ahead: usize,
    /// The violation of the check, if it has one.
    accuses: Option<Accused>,
}

/// A fault that is reported, and where.
#[derive(Clone, Debug)]
struct Accused {
    label: String,
    message: String,
    counts_as: OutcomeKind,
}

/// A fault that a check has reported.
#[derive(Debug)]
struct Accusation {
    rule: &'static str,
    finding: Finding,
    /// The outcome of the check that reports it.
    counts_as: OutcomeKind,
    /// The label of that check.
    label: String,
}

impl Accusation {
    /// Returns true if the check reports the fault in full, and all others leave that to it.
    fn is_claimed(&self, faults: &Faults) -> bool {
        let claimed_by = self.finding.violation.fault.as_deref().and_then(|fault| faults.claimed_by(fault));
        self.finding.source != Source::MetAgain && claimed_by.is_some_and(|by| by == self.label)
    }

    fn is_crash_at_a_known_place(&self) -> bool {
        self.rule == req::GEN_ERR_001.id && self.finding.violation.fault.is_some()
    }

    /// Says if the other accusation would only repeat this one. One that binds from a stricter profile does not stand for one that binds
    /// earlier, and one that was only met again does not report the fault in full.
    fn covers(&self, other: &Accusation) -> bool {
        let (one, another) = (&self.finding, &other.finding);
        if [one.source, another.source].contains(&Source::Harm) {
            // The harm belongs to another call than those of the check, and so does its rule.
            return false;
        }
        let is_same = match (&one.violation.fault, &another.violation.fault) {
            (Some(one), Some(another)) => one == another,
            (Some(one), None) if one.what == FaultKey::AT_AN_UNUSUAL_PATH => false,
            // Each death and each call that breaks off is a fault of its own, unless the checks know better.
            _ if other.rule == req::GEN_ERR_001.id => false,
            _ if asks_for_several(other.rule) => one.violation.message == another.violation.message,
            _ => true,
        };
        // A fault that a check only met again is not repeated, so a failure that did not recur stands for it.
        let is_flaky = one.plays.is_some_and(|plays| plays.is_flaky());
        let binds = one.binds_from <= another.binds_from || (is_flaky && another.source == Source::MetAgain);
        self.rule == other.rule
            && is_same
            && binds
            && (one.source != Source::MetAgain || another.source == Source::MetAgain)
    }
}

/// The checks that others follow, and the reports that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Dedup {
    leaders: BTreeMap<&'static str, Leader>,
    /// The checks that judge whether ids are shared, by the RPC that returns them.
    judges_of_ids: BTreeMap<&'static str, Leader>,
    accusations: Vec<Accusation>,
    waiting: Vec<CheckReport>,
    /// True if a crash is reported once, whichever checks the driver dies of at one place of its code.
    joins_crashes: bool,
}

impl Dedup {
    /// Prepares for the checks of a run, none of which has ended.
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
        let mut judges_of_ids = BTreeMap::<_, Leader>::new();
        for method in plan.iter().filter_map(|planned| planned.check.judges_ids_of) {
            judges_of_ids.entry(method).or_default().ahead += 1;
        }
        // Checks that follow any other check wait for all of them.
        if let Some(any) = leaders.get_mut(SAME_RULE) {
            any.ahead = usize::MAX;
        }
        Dedup { leaders, judges_of_ids, joins_crashes: true, ..Dedup::default() }
    }

    /// Takes a report, and returns those that do not have to wait any more.
    pub(crate) fn take(&mut self, report: CheckReport) -> Vec<CheckReport> {
        if let Some(leader) = self.leaders.get_mut(&*report.planned.check.id) {
            leader.ahead = leader.ahead.saturating_sub(1);
            // A failure that did not recur does not stand for one that other checks see each time.
            let confirmed = Some(&report.outcome).filter(|outcome| outcome.kind() != OutcomeKind::Flaky);
            if let Some(violation) = confirmed.and_then(Outcome::violation) {
                leader.accuses.get_or_insert_with(|| Accused::of(&report, violation.message.clone()));
            }
        }
        if let Some(judge) =
            report.planned.check.judges_ids_of.and_then(|method| self.judges_of_ids.get_mut(method))
        {
            judge.ahead = judge.ahead.saturating_sub(1);
            let violation = report.outcome.violation().filter(|_| shared_ids::is_found(&report));
            if let Some(violation) = violation {
                judge.accuses.get_or_insert_with(|| Accused::of(&report, violation.message.clone()));
            }
        }
        self.waiting.push(report);
        let (ready, waiting): (Vec<_>, _) =
            std::mem::take(&mut self.waiting).into_iter().partition(|one| !self.waits(one));
        self.waiting = waiting;
        ready.into_iter().map(|report| self.deduplicated(report)).collect()
    }

    /// Returns the reports that still wait when everything has ended. Those that report a fault in full come first, in the order of the run,
    /// and the check whose claim to a fault holds is the one that reports it.
    pub(crate) fn rest(&mut self, faults: &Faults) -> Vec<CheckReport> {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|report| {
            (has_source(&report.outcome, Source::MetAgain), faults.place(&report.label()))
        });
        for report in &waiting {
            let all = report.outcomes().filter_map(|one| accusation(report, one));
            self.accusations.extend(all.filter(|one| one.is_claimed(faults)));
        }
        waiting.into_iter().map(|report| self.deduplicated(report)).collect()
    }

    /// Says if the report has to wait for a check whose faults it may show again.
    fn waits(&self, report: &CheckReport) -> bool {
        let is_open = |leader: &Leader| leader.ahead > 0 && leader.accuses.is_none();
        report.outcome.violation().is_some()
            && (self.leader_of(report).is_some_and(is_open)
                || report.outcomes().filter_map(|one| self.judge_of_ids(report, one)).any(is_open))
    }

    /// The check that reports the shared id to which this outcome of another check may be due.
    fn judge_of_ids(&self, report: &CheckReport, outcome: &Outcome) -> Option<&Leader> {
        let judges_itself = report.planned.check.judges_ids_of.is_some();
        let method = shared_ids::cause(report, outcome).filter(|_| !judges_itself)?;
        self.judges_of_ids.get(method)
    }

    /// Leaves out what is due to shared ids that another check reports.
    fn without_shared_ids(&self, report: &mut CheckReport) {
        let accused = |one: &Outcome| self.judge_of_ids(report, one)?.accuses.clone();
        let Some(first) = report.outcomes().find_map(accused) else { return };
        let own: Vec<Outcome> = report.outcomes().filter(|one| accused(one).is_none()).cloned().collect();
        if own.is_empty() {
            suppress(report, first);
        } else {
            report.set_outcomes(own);
        }
    }

    fn leader_of(&self, report: &CheckReport) -> Option<&Leader> {
        self.leaders.get(report.planned.check.duplicate_of?)
    }

    fn deduplicated(&mut self, mut report: CheckReport) -> CheckReport {
        self.without_shared_ids(&mut report);
        let accused = match report.planned.check.duplicate_of {
            // No check follows if each is to report what it finds.
            Some(SAME_RULE) if !self.leaders.contains_key(SAME_RULE) => None,
            Some(SAME_RULE) => return self.without_reported(report, |_| true),
            Some(leader) => self.leaders.get(leader).and_then(|leader| leader.accuses.clone()),
            None => None,
        };
        match accused {
            Some(accused) if report.outcome.violation().is_some() => {
                let harm = report.outcomes().find(|outcome| has_source(outcome, Source::Harm)).cloned();
                match harm {
                    Some(harm) => report.set_outcomes([harm]),
                    None => suppress(&mut report, accused),
                }
            }
            _ => {
                let joins_crashes = self.joins_crashes;
                return self.without_reported(report, |one| joins_crashes && one.is_crash_at_a_known_place());
            }
        }
        report
    }

    /// The report without those of its accusations that other checks report; the gravest of what is left comes first.
    fn without_reported(
        &mut self,
        mut report: CheckReport,
        may_follow: impl Fn(&Accusation) -> bool,
    ) -> CheckReport {
        let (mut own, mut reported_elsewhere, mut accusations) = (Vec::new(), Vec::new(), Vec::new());
        for outcome in report.take_outcomes() {
            let accusation = accusation(&report, &outcome);
            match accusation.as_ref().filter(|one| may_follow(one)).and_then(|one| self.reported_by(one)) {
                Some((label, counts_as)) => {
                    accusations.extend(accusation.map(|one| Accusation {
                        label: label.clone(),
                        counts_as,
                        ..one
                    }));
                    reported_elsewhere.push((label, counts_as, outcome));
                }
                None => {
                    accusations.extend(accusation);
                    own.push(outcome);
                }
            }
        }
        self.accusations.append(&mut accusations);
        if own.is_empty()
            && let Some((label, counts_as, outcome)) = reported_elsewhere.into_iter().next()
        {
            let violation = outcome.violation();
            let rule =
                violation.and_then(|one| failure_report::rule(&report, one)).map_or("", |rule| rule.id);
            let rest = match violation.and_then(|one| one.fault.as_deref()) {
                Some(fault) if fault.rule == req::GEN_ERR_001.id => format!(", {}", fault.what),
                Some(_) => "; everything that was wrong is reported by other checks".to_owned(),
                None => String::new(),
            };
            let message = format!("{rule}{rest}");
            report.outcome = outcome;
            suppress(&mut report, Accused { label, message, counts_as });
        } else {
            report.set_outcomes(own);
        }
        report
    }

    /// The check that reports this already, and its outcome.
    fn reported_by(&self, accusation: &Accusation) -> Option<(String, OutcomeKind)> {
        let mut of_others = self.accusations.iter().filter(|one| one.label != accusation.label);
        of_others.find(|before| before.covers(accusation)).map(|one| (one.label.clone(), one.counts_as))
    }
}

fn has_source(outcome: &Outcome, source: Source) -> bool {
    outcome.finding().is_some_and(|finding| finding.source == source)
}

fn accusation(report: &CheckReport, outcome: &Outcome) -> Option<Accusation> {
    let finding = outcome.finding()?;
    // A flaky failure that only warns hides no failure that counts.
    let binds_from = outcome.binds_from().unwrap_or(Profile::Strict);
    Some(Accusation {
        rule: failure_report::rule(report, &finding.violation).map_or("", |rule| rule.id),
        finding: Finding { binds_from, ..finding.clone() },
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
