//! What is reported of a check, without the secrets of the configuration: a driver may have sent them back in anything that a
//! sentence quotes.

use std::borrow::Cow;

use csi_proto::hidden;

use crate::results::outcome::{CheckReport, Flaky, Outcome};
use crate::spec::verdict::Violation;

/// Takes the secrets out of everything that the report says.
pub(crate) fn strip(report: &mut CheckReport) {
    outcome(&mut report.outcome);
    report.also.iter_mut().for_each(outcome);
    report.warnings.iter_mut().for_each(violation);
    texts(&mut report.notes);
    texts(&mut report.leftovers);
}

fn outcome(outcome: &mut Outcome) {
    match outcome {
        Outcome::Failed(told)
        | Outcome::Warned(told)
        | Outcome::Flaky(Flaky { violation: told, .. })
        | Outcome::KnownFailure { violation: told, .. } => violation(told),
        Outcome::SameFault(same) => text(&mut same.message),
        Outcome::Skipped(why) | Outcome::Broken(why) => text(why),
        Outcome::Passed | Outcome::UnexpectedPass { .. } => {}
    }
}

fn violation(told: &mut Violation) {
    [&mut told.message, &mut told.expected, &mut told.actual].into_iter().for_each(text);
    texts(&mut told.printed);
    texts(&mut told.transcript);
    for call in &mut told.timeline {
        [&mut call.call, &mut call.answer].into_iter().for_each(text);
    }
    // Their requests and responses have been stripped, as those of all recorded calls.
    told.reproduction.iter_mut().for_each(|step| text(&mut step.what));
}

fn texts(all: &mut [String]) {
    all.iter_mut().for_each(text);
}

fn text(text: &mut String) {
    if let Cow::Owned(stripped) = hidden::strip(text) {
        *text = stripped;
    }
}
