//! Stage 10: a report contains no secrets of the configuration, although a driver may have sent them back in anything that a sentence
//! quotes.

use std::borrow::Cow;

use csi_proto::hidden;

use crate::results::outcome::{CheckReport, Flaky, Outcome};
use crate::spec::verdict::Violation;

/// Removes the secrets from all texts of the report.
pub(super) fn strip(report: &mut CheckReport) {
    outcome(&mut report.outcome);
    report.also.iter_mut().for_each(outcome);
    report.warnings.iter_mut().for_each(violation);
    texts(&mut report.notes);
    texts(&mut report.leftovers);
}

fn outcome(outcome: &mut Outcome) {
    match outcome {
        Outcome::Failed(finding)
        | Outcome::Warned(finding)
        | Outcome::Flaky(Flaky { finding, .. })
        | Outcome::KnownFailure { finding, .. } => violation(&mut finding.violation),
        Outcome::SameFault(same) => text(&mut same.message),
        Outcome::Skipped(why) | Outcome::Broken(why) => text(why),
        Outcome::Passed | Outcome::UnexpectedPass { .. } => {}
    }
}

fn violation(stated: &mut Violation) {
    [&mut stated.message, &mut stated.expected, &mut stated.actual].into_iter().for_each(text);
    texts(&mut stated.printed);
    texts(&mut stated.transcript);
    for call in &mut stated.timeline {
        [&mut call.call, &mut call.answer].into_iter().for_each(text);
    }
    // Their requests and responses have been stripped, as those of all recorded calls.
    stated.reproduction.iter_mut().for_each(|step| text(&mut step.what));
}

fn texts(all: &mut [String]) {
    all.iter_mut().for_each(text);
}

fn text(text: &mut String) {
    if let Cow::Owned(stripped) = hidden::strip(text) {
        *text = stripped;
    }
}
