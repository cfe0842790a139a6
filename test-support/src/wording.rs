//! Finds texts in a report that people cannot read: values in the debug format of Rust, and overlong lines.

use std::sync::LazyLock;

use csi_harness::results::failure_report::{self, FailureReport};
use csi_harness::results::outcome::{CheckReport, Outcome};
use csi_harness::text::shorten::{is_of_word, shortened};
use regex_lite::Regex;

/// A line of a report may have this number of characters.
const LINE_CHARS_MAX: usize = 1_000;
/// A word of a report may have this number of characters. A word is the text between punctuation and spaces.
const WORD_CHARS_MAX: usize = 200;

/// These patterns match values in the debug format of Rust.
static DEBUG_TEXTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns = [
        r"\b(Some|Ok|Err)\(",
        r"(^|[ (\[:,])None($|[,;)\]}])",
        r"\b[A-Z][A-Za-z0-9]*( \{ [a-z_]+: |\([A-Z]?\d)",
        r"\(-?\d+, -?\d+",
    ];
    patterns.into_iter().filter_map(|pattern| Regex::new(pattern).ok()).collect()
});

/// Returns all faults in the texts of a report: in those of its verdict, and in all that a terminal shows of it.
pub fn complaints(report: &CheckReport) -> Vec<String> {
    let story = FailureReport(report).to_string();
    let calls = report.calls.iter().map(failure_report::call_line);
    let shown: Vec<String> =
        calls.chain(report.notes.iter().map(|note| shortened(note))).chain([story]).collect();
    let long = shown.iter().flat_map(|text| long_lines(text)).map(|line| format!("a long line: {line}"));
    let unseen = shown.iter().filter_map(|text| Some(format!("{} in {}", unseen(text)?, beginning(text))));
    let sentences = sentences(report).into_iter().map(|text| (text, debug_text(text).or_else(|| gap(text))));
    let tables = tables(report).into_iter().map(|text| (text, debug_text(text)));
    let odd =
        sentences.chain(tables).filter_map(|(text, odd)| Some(format!("{} in {}", odd?, beginning(text))));
    odd.chain(long).chain(unseen).map(|complaint| format!("{}: {complaint}", report.label())).collect()
}

fn beginning(text: &str) -> String {
    shortened(text).replace('\n', " ")
}

/// Returns the sentences that the check has written.
fn sentences(report: &CheckReport) -> Vec<&str> {
    let mut texts: Vec<&str> = report.notes.iter().chain(&report.leftovers).map(String::as_str).collect();
    for violation in report.outcome.violation().into_iter().chain(&report.warnings) {
        texts.extend([&violation.message, &violation.expected, &violation.actual].map(String::as_str));
        texts.extend(violation.timeline.iter().flat_map(|span| [span.call.as_str(), span.answer.as_str()]));
    }
    if let Outcome::Skipped(why) | Outcome::Broken(why) = &report.outcome {
        texts.push(why);
    }
    texts
}

/// Returns the calls as the check describes them, in columns.
fn tables(report: &CheckReport) -> Vec<&str> {
    let violations = report.outcome.violation().into_iter().chain(&report.warnings);
    violations.flat_map(|violation| &violation.transcript).map(String::as_str).collect()
}

/// Returns the beginnings of lines that are too long.
pub fn long_lines(text: &str) -> Vec<String> {
    let is_long = |line: &&str| line.chars().count() > LINE_CHARS_MAX;
    let long = text.lines().filter(|line| is_long(line) && !failure_report::is_command(line));
    long.map(|line| format!("{} ({} characters)", shortened(line), line.chars().count())).collect()
}

/// Returns a part of a text that its reader cannot see: a control character, or an overlong word.
fn unseen(text: &str) -> Option<String> {
    if let Some(c) = text.chars().find(|c| c.is_control() && *c != '\n') {
        return Some(format!("the control character {c:?}"));
    }
    let lines = text.lines().filter(|line| !failure_report::is_command(line));
    let words = lines.flat_map(|line| line.split(|c| !is_of_word(c)));
    let long = words.map(|word| word.chars().count()).find(|length| *length > WORD_CHARS_MAX);
    long.map(|length| format!("a word of {length} characters"))
}

/// Returns a place where a word seems to be missing: two spaces, or a space at the end. Spaces that indent columns are allowed.
fn gap(text: &str) -> Option<String> {
    let text = without_quoted(text);
    let is_gap = |line: &str| line.trim_start().contains("  ") || line.ends_with(' ');
    text.lines().find(|line| is_gap(line)).map(|line| format!("a gap `{}`", line.trim_start()))
}

/// Returns an Option, a Result, a struct or a tuple in the debug format of Rust, outside of quoted texts.
pub fn debug_text(text: &str) -> Option<String> {
    let text = without_quoted(text);
    let found = DEBUG_TEXTS.iter().find_map(|pattern| pattern.find(&text));
    found.map(|found| format!("`{}`", found.as_str().trim()))
}

/// Returns the text without its quoted parts, which may be words of a driver or a request.
fn without_quoted(text: &str) -> String {
    let (mut plain, mut is_quoted, mut is_escaped) = (String::with_capacity(text.len()), false, false);
    for c in text.chars() {
        match c {
            '"' if !is_escaped => {
                is_quoted = !is_quoted;
                plain.push(c);
            }
            _ if !is_quoted => plain.push(c),
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_text_is_found() {
        for text in [
            "Some((1795413373, 186641625))",
            "expected None, got \"x\"",
            "it was Ok(())",
            "Rejected { code: Internal }",
            "(1795413373, 186641625)",
            "Known(3)",
        ] {
            assert!(debug_text(text).is_some(), "{text}");
        }
    }

    #[test]
    fn words_names_and_json_are_not() {
        for text in [
            "None of the volumes is there",
            "the driver said \"Some(thing) is None, Err(2)\"",
            "CreateVolume {\"name\":\"Ok(1)\",\"capacity_range\":{}}",
            "v1 (the second volume) on [\"node-1\", \"node-2\"]",
            "OK (3 ms), took 2 s (of 30)",
            "lost its last byte (4096 of 4097)",
        ] {
            assert_eq!(debug_text(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_not_seen_is_found() {
        assert!(
            unseen("a\tb").is_some() && unseen(&format!("{{\"name\":\"{}\"}}", "x".repeat(201))).is_some()
        );
        assert!(unseen(&format!("a\n      b, {}", "x,".repeat(201))).is_none());
        assert!(gap("volume  staged at").is_some() && gap("published at ").is_some());
        assert!(gap("OK \"a  b\"\n      → done").is_none());
    }

    #[test]
    fn long_lines_are_found_unless_they_are_commands() {
        let long = "x".repeat(LINE_CHARS_MAX + 1);
        assert_eq!(long_lines(&format!("short\n{long}\n  repeat       {long}")).len(), 1);
    }
}
