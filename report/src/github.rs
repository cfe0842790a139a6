//! The run as workflow commands of GitHub Actions: a line for each fault, which its pages show as an annotation.

use std::fmt::Write as _;

use csi_harness::results::outcome::{OutcomeKind, Verdict};
use csi_harness::text::shorten::named;

use crate::entry::CheckEntry;
use crate::fault;
use crate::journal::Run;
use crate::words::{again, count};

/// Errors shown, including the line that counts the others: GitHub shows ten of a step.
const ERRORS_MAX: usize = 10;
/// Warnings shown: GitHub shows ten of these, too.
const WARNINGS_MAX: usize = 10;
/// Characters of a message. What an annotation leaves out stands in the other reports.
const MESSAGE_CHARS_MAX: usize = 2000;

pub(crate) fn render(run: &Run) -> String {
    let mut text = String::new();
    annotate(&mut text, "error", ERRORS_MAX, &errors(run));
    annotate(&mut text, "warning", WARNINGS_MAX, &warnings(run));
    text
}

/// The title and text of an annotation.
struct Annotation {
    title: String,
    message: String,
}

fn errors(run: &Run) -> Vec<Annotation> {
    // Inconclusive checks come last, because GitHub shows only the first annotations.
    let kinds = [OutcomeKind::Failed, OutcomeKind::UnexpectedPass, OutcomeKind::Broken];
    let faults = fault::flaky(run, OutcomeKind::Failed)
        .into_iter()
        .chain(kinds.into_iter().flat_map(|kind| fault::each(run, kind)));
    let mut errors: Vec<Annotation> =
        faults.map(|fault| annotation(fault.first, fault.others.len())).collect();
    errors.extend(run.crashes.iter().map(|crash| Annotation {
        title: "the driver died".to_owned(),
        message: format!("during {}", crash.under_way.join(", ")),
    }));
    errors.extend(run.leaks.iter().filter(|leak| leak.ours).map(|leak| Annotation {
        title: format!("a {} is left behind", leak.kind),
        message: match &leak.check {
            Some(check) => format!("{}, made by {check}", named(&leak.id)),
            None => named(&leak.id),
        },
    }));
    if run.verdict == Verdict::Interrupted {
        errors.push(Annotation {
            title: "csi-sanity was interrupted".to_owned(),
            message: "The checks that were left did not run.".to_owned(),
        });
    }
    errors
}

fn warnings(run: &Run) -> Vec<Annotation> {
    let mut faults = fault::flaky(run, OutcomeKind::Warned);
    faults.extend(fault::each(run, OutcomeKind::Warned));
    faults.iter().map(|fault| annotation(fault.first, fault.others.len())).collect()
}

fn annotation(check: &CheckEntry, others: usize) -> Annotation {
    let mut message = check.message.clone();
    if check.outcome() == OutcomeKind::Flaky {
        let _ = write!(message, "\n{}", check.repeated());
    }
    if !check.expected.is_empty() || !check.actual.is_empty() {
        let _ = write!(message, "\nexpected: {}\nactual: {}", check.expected, check.actual);
    }
    if others > 0 {
        let _ = write!(message, "\n{}", again(others));
    }
    let _ = write!(message, "\n{}", check.repeat);
    let rule = check.requirements.first().filter(|_| {
        matches!(check.outcome(), OutcomeKind::Failed | OutcomeKind::Flaky | OutcomeKind::Warned)
    });
    Annotation {
        title: rule.map_or_else(|| check.id.clone(), |rule| format!("{} breaks {rule}", check.id)),
        message,
    }
}

fn annotate(text: &mut String, level: &str, most: usize, annotations: &[Annotation]) {
    let shown = if annotations.len() > most { most - 1 } else { annotations.len() };
    for Annotation { title, message } in &annotations[..shown] {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "::{level} title={}::{}", property(title), data(&shortened(message)));
    }
    match annotations.len() - shown {
        0 => {}
        hidden => {
            let _ = writeln!(
                text,
                "::{level} title=csi-sanity::and {}, in the summary and the reports",
                count(hidden, "more note")
            );
        }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The text of a command, which ends with its line.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property, which ends at a comma, and all of them at a colon.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_line_or_its_property() {
        let annotation = Annotation {
            title: "a:b,c::d%\n".to_owned(),
            message: "first, 100 %: x\r\n::error title=forged::second".to_owned(),
        };
        let mut text = String::new();
        annotate(&mut text, "error", 1, &[annotation]);
        assert_eq!(
            text,
            "::error title=a%3Ab%2Cc%3A%3Ad%25%0A::first, 100 %25: x%0D%0A::error title=forged::second\n"
        );
    }

    #[test]
    fn what_would_not_be_shown_is_counted() {
        let annotations: Vec<Annotation> = (0..12)
            .map(|n| Annotation { title: format!("t{n}"), message: "ü".repeat(MESSAGE_CHARS_MAX + 1) })
            .collect();
        let mut text = String::new();
        annotate(&mut text, "error", 10, &annotations);
        assert_eq!(text.lines().count(), 10);
        assert!(text.lines().all(|line| line.chars().count() < MESSAGE_CHARS_MAX + 100));
        assert!(
            text.ends_with("::error title=csi-sanity::and 3 more notes, in the summary and the reports\n"),
            "{text}"
        );
        let mut text = String::new();
        annotate(&mut text, "error", 12, &annotations);
        assert_eq!(text.lines().count(), 12);
        assert!(!text.contains("title=csi-sanity"));
    }
}
