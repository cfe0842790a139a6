//! The run as Markdown, fit for the summary of a CI step.

use std::fmt::Write as _;

use csi_harness::results::outcome::OutcomeKind;
use csi_harness::spec::requirements::Requirement;
use csi_harness::text::shorten::{named, shortened};

use crate::areas;
use crate::conclusion::by_profile;
use crate::entry::TargetEntry;
use crate::fault::{self, FaultGroup, WrongCodes};
use crate::journal::Run;
use crate::statement::{FOUND_ELSEWHERE, Says};
use crate::words::{DID_LESS, count, in_words};

/// Faults shown in full. GitHub cuts a step's summary off at 1 MiB, and a reader stops far earlier.
const FAULTS_IN_FULL_MAX: usize = 100;
/// Names of deviating checks that a row of the statement has.
const DEVIATIONS_MAX: usize = 3;
/// Things that may be left behind.
const LEFT_BEHIND_MAX: usize = 100;

pub(crate) fn render(run: &Run) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write(&mut text, run);
    text
}

fn write(text: &mut String, run: &Run) -> std::fmt::Result {
    let summary = run.to_summary();
    let tally = summary.counts.checks;
    writeln!(text, "## {}: {}\n", driver(&run.target), run.conclude().words)?;
    if !run.by_profile.is_empty() {
        writeln!(text, "By profile: {}.\n", by_profile(&run.by_profile, run.profile))?;
    }
    writeln!(
        text,
        "| passed | failed | flaky | same fault | warned | skipped | inconclusive | known failures | unexpected passes |"
    )?;
    writeln!(text, "|--:|--:|--:|--:|--:|--:|--:|--:|--:|")?;
    writeln!(
        text,
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        tally.passed,
        tally.failed,
        tally.flaky,
        tally.same_fault,
        tally.warned,
        tally.skipped,
        tally.broken,
        tally.known_failures,
        tally.unexpected_passes
    )?;
    writeln!(text, "{}.\n", in_words(&summary))?;
    if !summary.cut_short.is_empty() {
        writeln!(text, "{DID_LESS}\n")?;
        for (check, work) in &summary.cut_short {
            writeln!(text, "- {}: {}", code(check), escaped(&work.to_string()))?;
        }
        writeln!(text)?;
    }
    write_statement(text, run)?;
    let mut codes = WrongCodes::default();
    run.checks.iter().for_each(|check| codes.add(check));
    codes.sentences().iter().try_for_each(|sentence| writeln!(text, "{sentence}.\n"))?;
    failures(text, run)?;
    warnings(text, run)?;
    trouble(text, run)?;
    write_areas(text, run)?;
    writeln!(
        text,
        "\n{} {}, {}{}, seed {}, {} ms",
        run.tool.name,
        run.tool.version,
        code(&run.target.endpoint),
        parts(run),
        run.seed,
        run.duration_ms
    )
}

/// Describes which shard of a run this is, or of how many shards it is merged.
fn parts(run: &Run) -> String {
    match (&run.shard, run.shards.len()) {
        (Some(shard), _) => format!(", shard {} of {}", shard.index, shard.of),
        (None, 0) => String::new(),
        (None, parts) => format!(", {}", count(parts, "shard")),
    }
}

fn driver(target: &TargetEntry) -> String {
    let name = if target.name.is_empty() { "A driver without a name".to_owned() } else { code(&target.name) };
    format!("{name} {}", escaped(&target.vendor_version)).trim_end().to_owned()
}

fn failures(text: &mut String, run: &Run) -> std::fmt::Result {
    let faults = faults(run);
    for FaultGroup { first, others } in faults.iter().take(FAULTS_IN_FULL_MAX) {
        let word = match first.outcome() {
            OutcomeKind::Broken => "inconclusive",
            OutcomeKind::Flaky => "flaky",
            _ => "failed",
        };
        let id = escaped(&first.id);
        writeln!(
            text,
            "<details><summary>{word}: {id}: {}</summary>\n",
            escaped(&shortened(&first.message))
        )?;
        writeln!(text, "{}\n", fenced(&first.story()))?;
        if !others.is_empty() {
            writeln!(
                text,
                "The same in {}.\n",
                others.iter().map(|id| code(id)).collect::<Vec<_>>().join(", ")
            )?;
        }
        writeln!(text, "</details>\n")?;
    }
    match faults.len().saturating_sub(FAULTS_IN_FULL_MAX) {
        0 => Ok(()),
        hidden => writeln!(text, "… and {}.\n", count(hidden, "more fault")),
    }
}

/// Lists the warnings, each with the reason why it is no failure.
fn warnings(text: &mut String, run: &Run) -> std::fmt::Result {
    let warnings = fault::each(run, OutcomeKind::Warned);
    if warnings.is_empty() {
        return Ok(());
    }
    writeln!(text, "<details><summary>{}</summary>\n", count(warnings.len(), "warning"))?;
    for FaultGroup { first, others } in warnings.iter().take(FAULTS_IN_FULL_MAX) {
        let rule = first.requirements.first().and_then(|id| Requirement::find(id));
        let why = rule.and_then(Requirement::why_only_warned);
        let why = why.map_or_else(String::new, |why| format!("; only a warning: {}", escaped(why)));
        let checks = std::iter::once(&*first.id).chain(others.iter().copied()).collect::<Vec<_>>();
        writeln!(text, "- {}: {}{why}", labels(&checks), escaped(&shortened(&first.message)))?;
    }
    if let Some(hidden @ 1..) = warnings.len().checked_sub(FAULTS_IN_FULL_MAX) {
        writeln!(text, "- … and {}", count(hidden, "more warning"))?;
    }
    writeln!(text, "\n</details>\n")
}

/// Each fault once. What could not be judged comes last.
fn faults(run: &Run) -> Vec<FaultGroup<'_>> {
    let kinds = [OutcomeKind::Failed, OutcomeKind::Flaky, OutcomeKind::UnexpectedPass, OutcomeKind::Broken];
    kinds.into_iter().flat_map(|kind| fault::each(run, kind)).collect()
}

fn trouble(text: &mut String, run: &Run) -> std::fmt::Result {
    for crash in &run.crashes {
        let after = if crash.back { "was back afterwards" } else { "stayed away" };
        writeln!(text, "- The driver died during {}, and {after}.", escaped(&crash.under_way.join(", ")))?;
    }
    for leak in &run.leaks {
        let whose = if leak.ours { "left behind" } else { "new, but named in no reply to this run" };
        let made = leak.check.as_ref().map_or_else(String::new, |check| format!(", made by {}", code(check)));
        writeln!(text, "- {} {} is {whose}{made}.", leak.kind, code(&named(&leak.id)))?;
    }
    for left in run.left_behind.iter().take(LEFT_BEHIND_MAX) {
        let whether = if left.in_doubt { "may be left behind" } else { "left behind" };
        let made = left.check.as_ref().map_or_else(String::new, |check| format!(", made by {}", code(check)));
        let remove = left
            .remove
            .as_ref()
            .map_or_else(String::new, |command| format!("; to remove it: {}", code(command)));
        writeln!(
            text,
            "- {} is {whether}{made}: {}{remove}.",
            code(&left.what),
            escaped(&shortened(&left.why))
        )?;
    }
    if !(run.crashes.is_empty() && run.leaks.is_empty() && run.left_behind.is_empty()) {
        writeln!(text)?;
    }
    Ok(())
}

fn write_statement(text: &mut String, run: &Run) -> std::fmt::Result {
    writeln!(text, "| area | the driver | passed | run | deviates in | {FOUND_ELSEWHERE} |")?;
    writeln!(text, "|---|---|--:|--:|---|---|")?;
    for line in &run.statement {
        let mark = if line.says == Says::Deviates { "**" } else { "" };
        writeln!(
            text,
            "| {} | {mark}{}{mark} | {} | {} | {} | {} |",
            line.area,
            line.says.words(),
            line.passed,
            line.run(),
            labels(&line.found_here()),
            labels(&line.found_there())
        )?;
    }
    writeln!(text)
}

/// Names of checks, the last of which are only counted.
fn labels(labels: &[&str]) -> String {
    let mut text = labels.iter().take(DEVIATIONS_MAX).map(|label| code(label)).collect::<Vec<_>>().join(", ");
    if let Some(hidden @ 1..) = labels.len().checked_sub(DEVIATIONS_MAX) {
        text.push_str(&format!(" and {hidden} more"));
    }
    text
}

fn write_areas(text: &mut String, run: &Run) -> std::fmt::Result {
    writeln!(text, "<details><summary>by RPC</summary>\n")?;
    writeln!(text, "| checks of | verdict | passed, of those that ran |")?;
    writeln!(text, "|---|---|--:|")?;
    for area in run.areas.iter().filter(|area| area.is_listed()) {
        let mark = if area.verdict == areas::Verdict::Failed { "**" } else { "" };
        writeln!(text, "| {} | {mark}{}{mark} | {}/{} |", area.name, area.verdict, area.passed, area.run)?;
    }
    writeln!(text, "\n</details>")
}

/// Text from a driver, without power over the page.
pub(crate) fn escaped(text: &str) -> String {
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

pub(crate) fn code(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !matches!(c, '`' | '\n' | '\r' | '|')).collect();
    format!("`{plain}`")
}

/// A code block with a fence longer than any in the text.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}", text.trim_end())
}
