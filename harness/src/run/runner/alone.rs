//! Refusals that come and go. A code that says nothing of the request, met while other checks ran, may be of their calls: the check
//! is run again alone, as a sidecar would make the call again, and judged by that.

use std::collections::BTreeMap;

use tonic::Code;

use super::Runner;
use crate::client::answer::Answer;
use crate::config::profile::Profile;
use crate::protocol::effect::{self, Effect};
use crate::results::outcome::{CheckReport, Outcome};
use crate::spec::faults::FaultKey;
use crate::spec::requirements::req;
use crate::spec::verdict::Violation;

/// Checks without a verdict that are run again although those before them, which met the same refusal, met it again.
const IN_VAIN_MAX: u32 = 8;

/// A check that ended with such a refusal.
#[derive(Debug)]
pub(super) struct Refused {
    report: CheckReport,
    /// The RPC and the code.
    by: (&'static str, Code),
    /// The refusal as it was told.
    actual: String,
    /// Labels of checks that ran at the same time.
    beside: Vec<String>,
}

impl Refused {
    /// A check that ended with such a refusal, or as it did.
    pub(super) fn of(report: CheckReport, beside: Vec<String>) -> Result<Refused, Box<CheckReport>> {
        match refusal(&report) {
            Some((by, actual)) => Ok(Refused { report, by, actual, beside }),
            None => Err(Box::new(report)),
        }
    }
}

/// The refusal that a check failed by, or that kept it from judging, if its code says nothing of the request.
fn refusal(report: &CheckReport) -> Option<((&'static str, Code), String)> {
    if let Outcome::Broken(_) = &report.outcome {
        let last = report.calls.iter().rev().find(|call| !call.cleanup)?;
        let Answer::Refused(refused) = &last.outcome else { return None };
        return says_nothing(refused.code).then(|| ((last.rpc.method, refused.code), refused.to_string()));
    }
    std::iter::once(&report.outcome).chain(&report.also).find_map(|outcome| {
        let Outcome::Failed(violation) = outcome else { return None };
        let (rpc, code) = **violation.refused.as_ref()?;
        says_nothing(code).then(|| ((rpc.method, code), violation.actual.clone()))
    })
}

fn says_nothing(code: Code) -> bool {
    code != Code::ResourceExhausted && effect::of_change(code) == Effect::Unsure
}

impl Runner<'_> {
    /// Runs checks again alone that others may have spoilt.
    pub(super) async fn run_refused_alone(&mut self, all: Vec<Refused>) {
        let mut in_vain: BTreeMap<(&'static str, i32), u32> = BTreeMap::new();
        for Refused { report, by, actual, beside } in all {
            let in_vain = in_vain.entry((by.0, by.1 as i32)).or_default();
            let is_broken = matches!(report.outcome, Outcome::Broken(_));
            if self.is_over() || (is_broken && *in_vain >= IN_VAIN_MAX) {
                self.finish(report);
                continue;
            }
            self.remember_left_behind(&report);
            let mut alone = self.run_alone(report.planned).await;
            let is_refused_again = refusal(&alone).is_some_and(|(again, _)| again == by);
            match is_refused_again {
                true => *in_vain += 1,
                false => self.tell_of_others(&mut alone, by.0, actual, &beside),
            }
            self.confirm_and_finish(alone).await;
        }
    }

    /// Says that a call was refused beside others and not alone: as a warning for the first one of the run.
    fn tell_of_others(&self, report: &mut CheckReport, method: &str, actual: String, beside: &[String]) {
        if !matches!(report.outcome, Outcome::Passed | Outcome::Warned(_) | Outcome::Failed(_)) {
            return;
        }
        let rule = &req::GEN_CONC_003;
        let message = format!("{method} is rejected while other calls are under way, and not alone");
        let fault = FaultKey { rule: rule.id, what: FaultKey::BESIDE_ANOTHER_CALL.to_owned() };
        if let Err(reported_by) = self.target.faults().claim(&fault, &report.label()) {
            report.notes.push(format!("{message}: {actual}; {reported_by} reports it"));
            return;
        }
        let mut told = vec!["checks that ran at the same time".to_owned()];
        told.extend(beside.iter().map(|label| format!("  {label}")));
        let expected = "OK, or ABORTED, which tells the caller that another call is pending";
        let mut violation =
            Violation::new(message).of(rule).expected(expected).actual(actual).transcript(told);
        violation.fault = Some(Box::new(fault));
        let warned = self.rules.strictness.weigh(violation, Profile::Strict);
        match report.outcome {
            Outcome::Passed => report.outcome = warned,
            _ => report.also.push(warned),
        }
    }
}
