//! Decides which outcomes show one fault, so that a reader meets it once.

use crate::client::answer::{Answer, NoAnswer};
use crate::client::record::CallRecord;
use crate::client::tally::{FirstFailure, Tally};
use crate::results::failure_report;
use crate::results::outcome::{CheckReport, Flaky, Outcome};
use crate::spec::requirements::req;
use crate::spec::verdict::Violation;
use crate::text::message::shape;

/// A key that outcomes with one cause share.
///
/// A rule broken in equal words is one fault, whatever names and numbers the words hold. Checks that could not judge
/// share the call that stood in their way: a driver that refuses every CreateVolume is one fault, and not one for each
/// check that needs a volume.
pub fn key(report: &CheckReport) -> String {
    match &report.outcome {
        Outcome::Passed => String::new(),
        Outcome::SameFault(same) => shape(&same.sentence()),
        Outcome::Skipped(why) => shape(why),
        Outcome::Broken(why) if is_undoing(report, why) => shape(why),
        Outcome::Broken(why) => obstacle(report).unwrap_or_else(|| shape(why)),
        Outcome::UnexpectedPass { .. } => report.label(),
        Outcome::Failed(finding)
        | Outcome::Warned(finding)
        | Outcome::Flaky(Flaky { finding, .. })
        | Outcome::KnownFailure { finding, .. } => {
            if let Some(rpc) = missing(report) {
                return rpc;
            }
            let violation = &finding.violation;
            let rule = failure_report::rule(report, violation).map_or("", |rule| rule.id);
            let crash = violation.fault.as_ref().filter(|fault| fault.rule == req::GEN_ERR_001.id);
            let how = crash.map_or_else(|| deadly_fields(report), |fault| format!(" {}", fault.what));
            format!("{rule} {}{how}", shape(&violation.message))
        }
    }
}

/// Returns true if two violations of one check are one fault: one rule is broken in one way.
pub(crate) fn is_same(report: &CheckReport, one: &Violation, other: &Violation) -> bool {
    let rule = |violation| failure_report::rule(report, violation).map(|rule| rule.id);
    let alike = match (&one.fault, &other.fault) {
        (Some(one), Some(other)) => one == other,
        _ => shape(&one.message) == shape(&other.message),
    };
    rule(one) == rule(other) && alike
}

/// Returns true if a check judged, and what it made could not be undone. That is one fault, whatever the check was
/// about.
fn is_undoing(report: &CheckReport, why: &str) -> bool {
    report.leftovers.first().is_some_and(|leftover| why.ends_with(leftover))
}

/// The call that kept a check from judging: the last one, if it failed.
fn obstacle(report: &CheckReport) -> Option<String> {
    let last: &CallRecord = report.calls.iter().rev().find(|call| !call.cleanup)?;
    match &last.outcome {
        // A driver that died has one fault, whichever calls it met.
        Answer::Unknown(NoAnswer::Broken(_)) => Some("the connection broke".to_owned()),
        Answer::Unknown(NoAnswer::NotSent(_)) => Some(format!("{} withheld", last.rpc)),
        Answer::Unknown(
            NoAnswer::DisconnectedByTest
            | NoAnswer::TooLong(_)
            | NoAnswer::Cancelled(_)
            | NoAnswer::CheckEnded,
        ) => Some(format!("{} no answer", last.rpc)),
        failed => failed.failure().map(|failure| format!("{} {failure}", last.rpc)),
    }
}

/// The first call of the run that failed for the reason that kept this check from judging; nothing where that is the check's own.
pub(crate) fn began_with(report: &CheckReport, tally: &Tally) -> Option<FirstFailure> {
    let Outcome::Broken(why) = &report.outcome else { return None };
    let is_undoing = is_undoing(report, why);
    let last = report.calls.iter().rev().find(|call| call.cleanup == is_undoing)?;
    let first = tally.first_failure(last.rpc, &last.outcome.failure_with_reason()?)?;
    (first.check != report.label()).then_some(first)
}

/// The RPC that is not there, where that is what a check met in the end: one fault, whatever it broke.
fn missing(report: &CheckReport) -> Option<String> {
    let last = report.calls.iter().rev().find(|call| !call.cleanup)?;
    match last.outcome() {
        Answer::Refused(refused) if refused.code_name() == "UNIMPLEMENTED" => {
            Some(format!("{} UNIMPLEMENTED", last.rpc))
        }
        _ => None,
    }
}

/// The fields of a request that broke the connection: two different requests are two faults, though the driver dies of
/// both in one RPC.
fn deadly_fields(report: &CheckReport) -> String {
    let last = report.calls.iter().rev().find(|call| !call.cleanup);
    match last {
        Some(call) if matches!(call.outcome(), Answer::Unknown(NoAnswer::Broken(_))) => {
            let request = call.request();
            let names = request.as_object().into_iter().flatten().map(|(name, _)| format!(" {name}"));
            names.collect()
        }
        _ => String::new(),
    }
}
