//! A small picture of the verdict, for a README. What a run did not look at is not hidden by it.

use std::fmt::Write as _;

use serde::Serialize;

use crate::conclusion::{Concluded, Severity};
use crate::journal::Run;

/// The text and colour of a badge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Badge {
    label: String,
    message: String,
    mood: Severity,
    /// The full text, for screen readers and tooltips.
    title: String,
}

/// The JSON of shields' endpoint badge.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint<'a> {
    schema_version: u8,
    label: &'a str,
    message: &'a str,
    color: &'static str,
    is_error: bool,
}

impl Severity {
    /// The name of its colour, and the colour itself: white text on it can be read.
    fn color(self) -> (&'static str, &'static str) {
        match self {
            Severity::Good => ("green", "#1c6b34"),
            Severity::Fair => ("orange", "#8a5300"),
            Severity::Bad => ("red", "#b3261e"),
            Severity::Open => ("lightgrey", "#57606a"),
        }
    }
}

impl Badge {
    pub fn of(run: &Run) -> Badge {
        let counts = run.summary;
        let again = counts.same_fault;
        let flaky = counts.flaky.saturating_sub(counts.flaky_failures);
        let passed = counts.passed + counts.warned + flaky + counts.unexpected_passes + again.warned;
        let failing = counts.failed + counts.flaky_failures;
        let failed = failing + counts.known_failures;
        let judged = passed + failed + again.failed + again.known_failures;
        let share = format!("{passed} of {judged}");
        let trouble = run.crashes.len() + run.leaks.iter().filter(|leak| leak.ours).count();
        let conclusion = run.conclude_briefly();
        let message = match conclusion.name {
            Concluded::Conforms => share.clone(),
            Concluded::ConformsButForKnownFailures => {
                format!("{share}, {} known failing", counts.known_failures)
            }
            Concluded::ConformsInPart => format!("a part: {share}"),
            Concluded::ConformsInPartButForKnownFailures => {
                format!("a part: {share}, {} known failing", counts.known_failures)
            }
            Concluded::KnownFailingListOutOfDate => format!("{share}, list out of date"),
            Concluded::NotJudged => "inconclusive".to_owned(),
            Concluded::Deviates if failing > 0 => format!("deviates: {failing}"),
            Concluded::Deviates => format!("deviates: {trouble}"),
            Concluded::Interrupted => "interrupted".to_owned(),
        };
        let mood = match conclusion.name.mood() {
            Severity::Good if conclusion.did_less => Severity::Fair,
            mood => mood,
        };
        let label = format!("CSI {}", run.specification);
        let title = format!("{label}: {} {}; {share} checks passed", run.target.driver(), conclusion.words);
        Badge { label, message, mood, title }
    }

    /// The badge as an SVG picture that loads nothing else.
    pub fn svg(&self) -> String {
        let Badge { label, message, title, mood } = self;
        let (left, right) = (width(label), width(message));
        let whole = left + right;
        let (_, color) = mood.color();
        let mut svg = String::new();
        // Writing into a string cannot fail.
        let _ = write!(
            svg,
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="20" role="img" aria-labelledby="t">
<title id="t">{}</title>
<clipPath id="c"><rect width="{whole}" height="20" rx="3"/></clipPath>
<g clip-path="url(#c)">
<rect width="{left}" height="20" fill="#30363d"/>
<rect x="{left}" width="{right}" height="20" fill="{color}"/>
</g>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{}" y="14" textLength="{}">{}</text>
<text x="{}" y="14" textLength="{}">{}</text>
</g>
</svg>
"##,
            escaped(title),
            left / 2,
            left - PADDING,
            escaped(label),
            left + right / 2,
            right - PADDING,
            escaped(message),
        );
        svg
    }

    /// The JSON that shields' endpoint badge reads.
    pub fn json(&self) -> String {
        let endpoint = Endpoint {
            schema_version: 1,
            label: &self.label,
            message: &self.message,
            color: self.mood.color().0,
            is_error: self.mood == Severity::Bad,
        };
        // Texts, a number and a flag: nothing that JSON cannot say.
        let mut text = serde_json::to_string_pretty(&endpoint).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// Free space at the sides of a text.
const PADDING: usize = 12;

/// Estimates the width of a text with the space around it. Other fonts stretch the text to this width.
fn width(text: &str) -> usize {
    text.chars().count() * 13 / 2 + PADDING
}

/// Escapes text for XML, because a driver or a user may have written it.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() => safe.push(char::REPLACEMENT_CHARACTER),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use csi_harness::results::outcome::{Again, Counts, Crash, Verdict};

    use super::*;
    use crate::entry::{Selection, TargetEntry};

    fn run() -> Run {
        Run {
            specification: "1.12".to_owned(),
            selection: Selection { suites: vec!["sanity".to_owned()], terms: Vec::new(), is_whole: true },
            target: TargetEntry {
                name: "<script>".to_owned(),
                vendor_version: "1".to_owned(),
                ..TargetEntry::default()
            },
            summary: Counts { passed: 411, warned: 1, ..Counts::default() },
            ..Run::default()
        }
    }

    fn says(run: &Run) -> (String, Severity) {
        let badge = Badge::of(run);
        (badge.message, badge.mood)
    }

    #[test]
    fn a_whole_run_that_conforms_is_good() {
        assert_eq!(says(&run()), ("412 of 412".to_owned(), Severity::Good));
        let flaky = Run { summary: Counts { flaky: 2, ..run().summary }, ..run() };
        assert_eq!(says(&flaky), ("414 of 414".to_owned(), Severity::Good), "they only warn");
    }

    #[test]
    fn nothing_else_is() {
        let part = Selection { is_whole: false, ..run().selection };
        let known = Counts { known_failures: 3, ..run().summary };
        let failed = Counts { failed: 3, ..run().summary };
        let again = Again { known_failures: 2, warned: 1, failed: 0 };
        let shown_again = Counts { known_failures: 1, same_fault: again, ..run().summary };
        let crash = Crash { under_way: Vec::new(), back: true, known: false, log: None };
        let others = [
            (Run { selection: part.clone(), ..run() }, "a part: 412 of 412", Severity::Open),
            (Run { interrupted: true, ..run() }, "interrupted", Severity::Open),
            (Run { verdict: Verdict::Interrupted, ..run() }, "interrupted", Severity::Open),
            (Run { verdict: Verdict::NotJudged, ..run() }, "inconclusive", Severity::Open),
            (Run { summary: known, ..run() }, "412 of 415, 3 known failing", Severity::Fair),
            (Run { summary: shown_again, ..run() }, "413 of 416, 1 known failing", Severity::Fair),
            (Run { verdict: Verdict::Deviates, summary: failed, ..run() }, "deviates: 3", Severity::Bad),
            (
                Run {
                    verdict: Verdict::Deviates,
                    summary: Counts { flaky: 2, flaky_failures: 1, ..run().summary },
                    ..run()
                },
                "deviates: 1",
                Severity::Bad,
            ),
            (Run { verdict: Verdict::Deviates, crashes: vec![crash], ..run() }, "deviates: 1", Severity::Bad),
            (
                Run { verdict: Verdict::Deviates, summary: failed, selection: part, ..run() },
                "deviates: 3",
                Severity::Bad,
            ),
        ];
        for (run, message, mood) in others {
            assert_eq!(says(&run), (message.to_owned(), mood));
        }
    }

    #[test]
    fn names_of_drivers_stay_text() {
        let svg = Badge::of(&run()).svg();
        assert!(svg.contains("&lt;script&gt; 1") && !svg.contains("<script>"), "{svg}");
    }

    #[test]
    fn shields_can_read_it() {
        let json: serde_json::Value = serde_json::from_str(&Badge::of(&run()).json()).unwrap();
        let wanted = serde_json::json!({
            "schemaVersion": 1, "label": "CSI 1.12", "message": "412 of 412", "color": "green", "isError": false,
        });
        assert_eq!(json, wanted);
    }
}
