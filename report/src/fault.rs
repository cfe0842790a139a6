//! What makes two outcomes the same fault, so that a reader meets it once.

use csi_harness::outcome::{CheckReport, Outcome};
use csi_harness::record::CallRecord;
use csi_harness::reply::{Answer, NoAnswer};
use csi_harness::story;

use crate::journal::CheckEntry;

/// A key that outcomes with the same cause share.
///
/// A rule broken in the same words is one fault, whatever names and numbers the words hold. Checks that could not
/// judge share the call that stood in their way: a driver that refuses every CreateVolume is one fault, and not one
/// for each check that needs a volume.
pub(crate) fn key(report: &CheckReport) -> String {
    match &report.outcome {
        Outcome::Passed => String::new(),
        Outcome::Skipped(why) => shape(why),
        Outcome::Broken(why) if is_undoing(report, why) => shape(why),
        Outcome::Broken(why) => obstacle(report).unwrap_or_else(|| shape(why)),
        Outcome::UnexpectedPass { .. } => report.label(),
        Outcome::Failed(violation) | Outcome::Warned(violation) | Outcome::KnownFailure { violation, .. } => {
            if let Some(rpc) = missing(report) {
                return rpc;
            }
            let rule = story::rule(report, violation).map_or("", |rule| rule.id);
            format!("{rule} {}{}", shape(&violation.message), deadly_fields(report))
        }
    }
}

/// A fault: the first check that met it, and the ids of the others.
pub(crate) struct Fault<'a> {
    pub(crate) first: &'a CheckEntry,
    pub(crate) others: Vec<&'a str>,
}

/// Each fault of these checks once.
pub(crate) fn each<'a>(checks: impl Iterator<Item = &'a CheckEntry>) -> Vec<Fault<'a>> {
    let mut faults: Vec<Fault<'a>> = Vec::new();
    for check in checks {
        let same =
            |fault: &&mut Fault<'_>| fault.first.outcome == check.outcome && fault.first.fault == check.fault;
        match faults.iter_mut().find(same) {
            Some(fault) => fault.others.push(&check.id),
            None => faults.push(Fault { first: check, others: Vec::new() }),
        }
    }
    faults
}

/// Whether a check judged, and what it made could not be undone: the same fault, whatever the check was about.
fn is_undoing(report: &CheckReport, why: &str) -> bool {
    report.leftovers.first().is_some_and(|leftover| why.ends_with(leftover))
}

/// The call that kept a check from judging: the last one, if it failed.
fn obstacle(report: &CheckReport) -> Option<String> {
    let last: &CallRecord = report.calls.iter().rev().find(|call| !call.cleanup)?;
    match last.outcome() {
        Answer::Ok(_) => None,
        Answer::Refused(refused) => Some(format!("{} {}", last.rpc, refused.code_name())),
        // A driver that died has one fault, whichever calls it met.
        Answer::Unknown(NoAnswer::Broken(_)) => Some("the connection broke".to_owned()),
        Answer::Unknown(
            NoAnswer::Timeout(_) | NoAnswer::Severed | NoAnswer::TooLong(_) | NoAnswer::CutOff,
        ) => Some(format!("{} no answer", last.rpc)),
        Answer::Unknown(NoAnswer::Withheld(_)) => Some(format!("{} withheld", last.rpc)),
        Answer::Unknown(NoAnswer::GivenUp(status)) => Some(format!("{} {}", last.rpc, status.code_name())),
    }
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
/// both in the same RPC.
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

/// The text with every word that has a digit in it made equal: ids, names, sizes and times.
pub(crate) fn shape(text: &str) -> String {
    let number = |word: &str| word.bytes().any(|byte| byte.is_ascii_digit());
    let words: Vec<&str> = text.split(' ').map(|word| if number(word) { "#" } else { word }).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_make_no_difference() {
        assert_eq!(shape("volume csi-sanity-1f-2 has 3 bytes"), shape("volume csi-sanity-1f-9 has 44 bytes"));
        assert_ne!(shape("the volume is gone"), shape("the snapshot is gone"));
    }
}
