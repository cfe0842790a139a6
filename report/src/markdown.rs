//! The run as Markdown, fit for the summary of a CI step.

use std::fmt::Write as _;

use crate::areas::Verdict;
use crate::journal::{CheckEntry, Run};

/// Failures told in full. GitHub cuts a step's summary off at 1 MiB, and a reader far earlier.
const FAILURES_TOLD_MAX: usize = 100;

pub(crate) fn render(run: &Run) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write(&mut text, run);
    text
}

fn write(text: &mut String, run: &Run) -> std::fmt::Result {
    let summary = &run.summary;
    let verdict = if run.interrupted {
        "was interrupted"
    } else if summary.failed > 0 || run.leaks.iter().any(|leak| leak.ours) {
        "does not conform"
    } else if summary.broken > 0 || !run.crashes.is_empty() {
        "could not be judged"
    } else {
        "conforms"
    };
    writeln!(text, "## {} {}: {verdict}\n", code(&run.target.name), escaped(&run.target.vendor_version))?;
    writeln!(
        text,
        "| passed | failed | warned | skipped | not judged | known failures | unexpected passes |"
    )?;
    writeln!(text, "|--:|--:|--:|--:|--:|--:|--:|")?;
    writeln!(
        text,
        "| {} | {} | {} | {} | {} | {} | {} |\n",
        summary.passed,
        summary.failed,
        summary.warned,
        summary.skipped,
        summary.broken,
        summary.known_failures,
        summary.unexpected_passes
    )?;
    failures(text, run)?;
    trouble(text, run)?;
    areas(text, run)?;
    writeln!(
        text,
        "\n{} {}, {}, seed {}, {} ms",
        run.tool.name,
        run.tool.version,
        code(&run.target.endpoint),
        run.seed,
        run.duration_ms
    )
}

fn failures(text: &mut String, run: &Run) -> std::fmt::Result {
    let failed: Vec<&CheckEntry> = run
        .checks
        .iter()
        .filter(|check| matches!(check.outcome, "failed" | "broken" | "unexpected_pass"))
        .collect();
    for check in failed.iter().take(FAILURES_TOLD_MAX) {
        let id = escaped(&check.id);
        writeln!(text, "<details><summary>{}: {id}: {}</summary>\n", check.outcome, escaped(&check.message))?;
        writeln!(text, "{}\n", fenced(&check.story))?;
        writeln!(text, "</details>\n")?;
    }
    match failed.len().saturating_sub(FAILURES_TOLD_MAX) {
        0 => Ok(()),
        hidden => writeln!(text, "… and {hidden} more.\n"),
    }
}

fn trouble(text: &mut String, run: &Run) -> std::fmt::Result {
    for crash in &run.crashes {
        let after = if crash.back { "was back afterwards" } else { "stayed away" };
        writeln!(text, "- The driver died during {}, and {after}.", escaped(&crash.under_way.join(", ")))?;
    }
    for leak in &run.leaks {
        let whose = if leak.ours { "left behind" } else { "new, but not made by this run" };
        writeln!(text, "- {} {} is {whose}.", leak.kind, code(&leak.id))?;
    }
    if !run.crashes.is_empty() || !run.leaks.is_empty() {
        writeln!(text)?;
    }
    Ok(())
}

fn areas(text: &mut String, run: &Run) -> std::fmt::Result {
    writeln!(text, "| area | verdict | passed |")?;
    writeln!(text, "|---|---|--:|")?;
    for area in &run.areas {
        let mark = if area.verdict == Verdict::Failed { "**" } else { "" };
        writeln!(text, "| {} | {mark}{}{mark} | {}/{} |", area.name, area.verdict, area.passed, area.judged)?;
    }
    Ok(())
}

/// Text from a driver, without power over the page.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '\n' | '\r' => safe.push(' '),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' => {
                safe.push('\\');
                safe.push(c);
            }
            c => safe.push(c),
        }
    }
    safe
}

fn code(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !matches!(c, '`' | '\n' | '\r' | '|')).collect();
    format!("`{plain}`")
}

/// A code block with a fence longer than any in the text.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}", text.trim_end())
}
