//! Stage 6: rejections that come and go. A code that says nothing about the request, met while other checks ran, may be due to their calls.
//! The check is run again alone, as a sidecar would make the call again, and judged by that. The run then remarks on the rejection: which
//! check meets it is chance, and the specification speaks only of simultaneous calls for one volume. The suite `concurrency` judges those.

use std::collections::BTreeMap;

use csi_proto::Rpc;
use tonic::Code;

use crate::client::answer::Answer;
use crate::client::record::CallRecord;
use crate::client::tally::Tally;
use crate::protocol::effect::{self, Effect};
use crate::resources::machine;
use crate::results::outcome::{CheckReport, Finding, Outcome};

/// Number of checks without a verdict that are run again although earlier ones met the same rejection again.
const IN_VAIN_MAX: u32 = 8;

/// A check that ended with such a rejection.
#[derive(Debug)]
pub(crate) struct Rejected {
    pub(crate) report: CheckReport,
    by: (Rpc, Code),
    /// The rejection as the driver stated it.
    actual: String,
}

impl Rejected {
    /// Returns the report unchanged if the check ended in another way.
    pub(crate) fn of(report: CheckReport) -> Result<Rejected, Box<CheckReport>> {
        match rejection(&report) {
            Some((by, actual)) if machine::lacks_right(&actual).is_none() => {
                Ok(Rejected { report, by, actual })
            }
            _ => Err(Box::new(report)),
        }
    }

    fn key(&self) -> (&'static str, i32) {
        (self.by.0.path, self.by.1 as i32)
    }
}

/// The number of times that each rejection was met again by a check that ran alone.
#[derive(Debug, Default)]
pub(crate) struct MetAgain(BTreeMap<(&'static str, i32), u32>);

impl MetAgain {
    /// Says if a check without a verdict need not run again, since so many others have met its rejection again.
    pub(crate) fn is_enough_for(&self, one: &Rejected) -> bool {
        let times = self.0.get(&one.key()).copied().unwrap_or_default();
        matches!(one.report.outcome, Outcome::Broken(_) | Outcome::Skipped(_)) && times >= IN_VAIN_MAX
    }

    /// Compares a check with its repetition, which ran alone.
    pub(crate) fn compare(&mut self, one: &Rejected, alone: &CheckReport, tally: &Tally) {
        if rejection(alone).is_some_and(|(by, _)| by == one.by) {
            *self.0.entry(one.key()).or_default() += 1;
        } else if matches!(alone.outcome, Outcome::Passed | Outcome::Warned(_) | Outcome::Failed(_)) {
            let ended = format!("{} beside other checks", one.actual);
            tally.answered_when_repeated(&alone.label(), one.by.0, &ended);
        }
    }
}

/// The rejection that a check failed by, or that ended it without a verdict, if its code says nothing about the request.
fn rejection(report: &CheckReport) -> Option<((Rpc, Code), String)> {
    if let Outcome::Broken(_) | Outcome::Skipped(_) = &report.outcome {
        return last_rejection(&report.calls);
    }
    report.outcomes().find_map(|outcome| {
        let Outcome::Failed(Finding { violation, .. }) = outcome else { return None };
        let (rpc, code) = **violation.refused.as_ref()?;
        says_nothing(code).then(|| ((rpc, code), violation.actual.clone()))
    })
}

/// The rejection of the last call of a check, if its code says nothing about the request.
pub(crate) fn last_rejection(calls: &[CallRecord]) -> Option<((Rpc, Code), String)> {
    let last = calls.iter().rev().find(|call| !call.cleanup)?;
    let Answer::Refused(refused) = &last.outcome else { return None };
    says_nothing(refused.code).then(|| ((last.rpc, refused.code), refused.to_string()))
}

fn says_nothing(code: Code) -> bool {
    code != Code::ResourceExhausted && effect::of_change(code) == Effect::Unsure
}
