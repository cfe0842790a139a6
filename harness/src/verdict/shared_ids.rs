//! The part of stage 9 that knows which violations may be due to an id that the driver returned for two objects.

use std::collections::BTreeSet;

use serde_json::Value;
use tonic::Code;

use crate::client::answer::Answer;
use crate::client::record::CallRecord;
use crate::results::failure_report;
use crate::results::outcome::{CheckReport, Outcome, OutcomeKind, Source};
use crate::spec::requirements::{Requirement, req};
use crate::spec::verdict::Damage;

/// Rules about the fields of a message that a driver breaks with the fields of another object, each of which is correct in itself.
const ABOUT_OTHER_OBJECTS: [&Requirement; 7] = [
    &req::MSG_VOLUME_003,
    &req::MSG_VOLUME_011,
    &req::MSG_VOLSOURCE_004,
    &req::MSG_VOLSOURCE_006,
    &req::MSG_SNAPSHOT_003,
    &req::MSG_SNAPSHOT_006,
    &req::MSG_SNAPSHOT_017,
];

/// The RPC whose ids explain why a check found this, if any do: the check used a shared id, and the answer that breaks the rule depends on
/// the object behind it.
pub(super) fn cause(report: &CheckReport, outcome: &Outcome) -> Option<&'static str> {
    let finding = outcome.finding().filter(|finding| finding.source != Source::Harm)?;
    let violation = &finding.violation;
    if violation.injected.is_some() || matches!(violation.damage, Some(Damage::Crash | Damage::Leak)) {
        return None;
    }
    let rule = failure_report::rule(report, violation)?;
    let refused = violation.refused.as_deref();
    let of_rule = |call: &&CallRecord| match (refused, &call.outcome) {
        // The plain call that is made after a rejection succeeds.
        (Some((rpc, code)), Answer::Refused(refused)) => call.rpc == *rpc && refused.code == *code,
        (Some(_), _) => false,
        (None, _) => call.rpc.method == rule.rpc,
    };
    let calls: Vec<&CallRecord> = report.calls.iter().filter(|call| !call.cleanup).collect();
    let of_rule: Vec<&CallRecord> = calls.iter().copied().filter(of_rule).collect();
    // A rule about a message does not say which call broke it.
    let accused = *of_rule.last().or(calls.last())?;
    let suspects = match &accused.outcome {
        Answer::Refused(refused) if is_about_objects(refused.code) => vec![accused],
        // A rule about several objects may be broken by any call of the check that used the shared id.
        Answer::Ok(_) if refused.is_none() && is_about_several_objects(rule) => calls,
        _ => return None,
    };
    let is_used = |ids: &BTreeSet<String>| suspects.iter().any(|call| uses(call, &|id| ids.contains(id)));
    report.shared_ids.iter().find(|(_, ids)| is_used(ids)).map(|(method, _)| *method)
}

/// Returns true if the check has found that two objects have one id, which is what it looks for.
pub(super) fn is_found(report: &CheckReport) -> bool {
    let judged = report.planned.check.judges_ids_of;
    judged.is_some()
        && cause(report, &report.outcome) == judged
        && report.outcome.kind() != OutcomeKind::Flaky
}

/// Returns true for the codes by which a driver rejects a request because of the state of an object.
fn is_about_objects(code: Code) -> bool {
    use Code::*;
    matches!(code, NotFound | AlreadyExists | FailedPrecondition | Aborted | InvalidArgument | OutOfRange)
}

/// Returns true if a call that succeeds can break the rule because of another object. A field that is wrong in itself, and a request that is
/// wrong whichever object it names, do not depend on that.
fn is_about_several_objects(rule: &Requirement) -> bool {
    let is_about_request = matches!(rule.code, Some("INVALID_ARGUMENT" | "OUT_OF_RANGE"));
    let is_about_fields = rule.id.starts_with("GEN-") || rule.id.starts_with("MSG-");
    !is_about_request && (!is_about_fields || ABOUT_OTHER_OBJECTS.contains(&rule))
}

/// Returns true if such an id is in a field for ids of the request, or of the response.
fn uses(call: &CallRecord, is_such: &dyn Fn(&str) -> bool) -> bool {
    let in_response = || matches!(call.outcome(), Answer::Ok(response) if has_id(&response, is_such));
    has_id(&call.request(), is_such) || in_response()
}

fn has_id(message: &Value, is_such: &dyn Fn(&str) -> bool) -> bool {
    match message {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            let is_id = |value: &Value| value.as_str().is_some_and(is_such);
            match value {
                Value::String(_) => name.ends_with("_id") && is_id(value),
                Value::Array(values) if name.ends_with("_ids") => values.iter().any(is_id),
                _ => has_id(value, is_such),
            }
        }),
        Value::Array(values) => values.iter().any(|value| has_id(value, is_such)),
        _ => false,
    }
}
