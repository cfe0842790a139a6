//! Stage 6: rejections that come and go. A code that says nothing about the request, met while other checks ran, may be due to their calls.
//! The check is run again alone, as a sidecar would make the call again, and judged by that.

use std::collections::BTreeMap;

use tonic::Code;

use super::Judge;
use crate::client::answer::Answer;
use crate::config::profile::Profile;
use crate::protocol::effect::{self, Effect};
use crate::resources::machine;
use crate::results::outcome::{CheckReport, Finding, Outcome};
use crate::spec::faults::{Claim, FaultKey, Faults};
use crate::spec::requirements::req;
use crate::spec::verdict::Violation;

/// Number of inconclusive checks that are run again although earlier ones met the same rejection again.
const IN_VAIN_MAX: u32 = 8;

/// A check that ended with such a rejection.
#[derive(Debug)]
pub(crate) struct Rejected {
    pub(crate) report: CheckReport,
    by: (&'static str, Code),
    /// The rejection as the driver stated it.
    actual: String,
    /// Labels of checks that ran in parallel.
    beside: Vec<String>,
}

impl Rejected {
    /// Returns the report unchanged if the check ended in another way.
    pub(crate) fn of(report: CheckReport, beside: Vec<String>) -> Result<Rejected, Box<CheckReport>> {
        match rejection(&report) {
            Some((by, actual)) if machine::lacks_right(&actual).is_none() => {
                Ok(Rejected { report, by, actual, beside })
            }
            _ => Err(Box::new(report)),
        }
    }

    fn key(&self) -> (&'static str, i32) {
        (self.by.0, self.by.1 as i32)
    }

    /// States that a call was rejected beside others and not alone. Only the first such check of a run warns.
    fn warn_of_others(self, alone: &mut CheckReport, judge: &Judge, faults: &Faults) {
        if !matches!(alone.outcome, Outcome::Passed | Outcome::Warned(_) | Outcome::Failed(_)) {
            return;
        }
        let rule = &req::GEN_CONC_003;
        let message = format!("{} is rejected while other calls are under way, but not alone", self.by.0);
        let fault = FaultKey { rule: rule.id, what: FaultKey::BESIDE_ANOTHER_CALL.to_owned() };
        if let Err(reported_by) = faults.claim(&fault, &Claim::of(alone.label())) {
            alone.notes.push(format!("{message}: {}; {reported_by} reports it", self.actual));
            return;
        }
        let mut lines = vec!["checks that ran at the same time".to_owned()];
        lines.extend(self.beside.iter().map(|label| format!("  {label}")));
        let mut violation = Violation::new(message)
            .of(rule)
            .expected("OK, or ABORTED for a pending call, or the code for what another call has changed, such as NOT_FOUND")
            .actual(self.actual)
            .transcript(lines);
        violation.fault = Some(Box::new(fault));
        let finding = Finding { binds_from: Profile::Strict, ..violation.into() };
        let warned = judge.outcome(&alone.label(), finding);
        match alone.outcome {
            Outcome::Passed => alone.outcome = warned,
            _ => alone.also.push(warned),
        }
    }
}

/// The number of times that each rejection was met again by a check that ran alone.
#[derive(Debug, Default)]
pub(crate) struct MetAgain(BTreeMap<(&'static str, i32), u32>);

impl MetAgain {
    /// Says if an inconclusive check need not run again, since so many others have met its rejection again.
    pub(crate) fn is_enough_for(&self, one: &Rejected) -> bool {
        let times = self.0.get(&one.key()).copied().unwrap_or_default();
        matches!(one.report.outcome, Outcome::Broken(_)) && times >= IN_VAIN_MAX
    }

    /// Judges a check by its repetition, which ran alone.
    pub(crate) fn settle(&mut self, one: Rejected, alone: &mut CheckReport, judge: &Judge, faults: &Faults) {
        match rejection(alone) {
            Some((by, _)) if by == one.by => *self.0.entry(one.key()).or_default() += 1,
            _ => one.warn_of_others(alone, judge, faults),
        }
    }
}

/// The rejection that a check failed by, or that made it inconclusive, if its code says nothing about the request.
fn rejection(report: &CheckReport) -> Option<((&'static str, Code), String)> {
    if let Outcome::Broken(_) = &report.outcome {
        let last = report.calls.iter().rev().find(|call| !call.cleanup)?;
        let Answer::Refused(refused) = &last.outcome else { return None };
        return says_nothing(refused.code).then(|| ((last.rpc.method, refused.code), refused.to_string()));
    }
    report.outcomes().find_map(|outcome| {
        let Outcome::Failed(Finding { violation, .. }) = outcome else { return None };
        let (rpc, code) = **violation.refused.as_ref()?;
        says_nothing(code).then(|| ((rpc.method, code), violation.actual.clone()))
    })
}

fn says_nothing(code: Code) -> bool {
    code != Code::ResourceExhausted && effect::of_change(code) == Effect::Unsure
}
