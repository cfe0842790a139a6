//! A failure told once and in full, as plain text: the rule, what was expected, what came, the calls that led
//! there, and the command that repeats it.

use std::fmt::{self, Write as _};

use crate::outcome::{CheckReport, Outcome};
use crate::record::CallRecord;
use crate::requirements::Requirement;
use crate::verdict::Violation;

/// Characters of one message shown at the most.
const MESSAGE_CHARS_MAX: usize = 600;
/// Calls shown at the most: the last ones, since those led there.
const CALLS_SHOWN_MAX: usize = 12;

/// Things left behind that are shown at the most.
const LEFTOVERS_SHOWN_MAX: usize = 5;

/// The story of a check that did not simply pass.
#[derive(Debug)]
pub struct Story<'a>(pub &'a CheckReport);

impl fmt::Display for Story<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        match &report.outcome {
            Outcome::Failed(violation)
            | Outcome::Warned(violation)
            | Outcome::KnownFailure { violation, .. } => {
                write_violation(f, report, violation)?;
            }
            Outcome::Skipped(why) | Outcome::Broken(why) => writeln!(f, "  {why}")?,
            Outcome::UnexpectedPass { reason } => {
                writeln!(f, "  it passes, but is listed as known to fail: {reason}")?;
            }
            Outcome::Passed => {}
        }
        for leftover in report.leftovers.iter().take(LEFTOVERS_SHOWN_MAX) {
            writeln!(f, "  left behind  {leftover}")?;
        }
        if let Some(hidden @ 1..) = report.leftovers.len().checked_sub(LEFTOVERS_SHOWN_MAX) {
            writeln!(f, "               … and {hidden} more; --report json=FILE has all")?;
        }
        write_calls(f, report)?;
        writeln!(f, "  repeat       {}", report.repeat)
    }
}

fn write_violation(f: &mut fmt::Formatter<'_>, report: &CheckReport, violation: &Violation) -> fmt::Result {
    writeln!(f, "  {}", violation.message)?;
    if let Some(rule) = rule(report, violation) {
        writeln!(f, "  requirement  {} ({}), {}", rule.id, rule.level, rule.section)?;
        writeln!(f, "               {}", rule.sentence())?;
    }
    if !violation.expected.is_empty() {
        writeln!(f, "  expected     {}", violation.expected)?;
    }
    if !violation.actual.is_empty() {
        writeln!(f, "  actual       {}", shortened(&violation.actual))?;
    }
    if !violation.printed.is_empty() {
        writeln!(f, "  the driver printed last")?;
    }
    violation.printed.iter().try_for_each(|line| writeln!(f, "    {line}"))
}

/// The requirement a violation is of.
pub fn rule(report: &CheckReport, violation: &Violation) -> Option<&'static Requirement> {
    violation.requirement.or_else(|| report.planned.check.requirements.first().copied())
}

fn write_calls(f: &mut fmt::Formatter<'_>, report: &CheckReport) -> fmt::Result {
    let calls: Vec<&CallRecord> = report.calls.iter().filter(|call| !call.cleanup).collect();
    if calls.is_empty() {
        return Ok(());
    }
    let runs = runs(&calls);
    let (hidden, shown) = runs.split_at(runs.len().saturating_sub(CALLS_SHOWN_MAX));
    let hidden = hidden.iter().map(|(_, times)| times).sum::<usize>() + report.calls_dropped;
    writeln!(f, "  calls")?;
    if hidden > 0 {
        writeln!(f, "    … {hidden} more; --report json=FILE has up to 200")?;
    }
    for (call, times) in shown {
        writeln!(f, "    {}", call_line(call))?;
        if *times > 1 {
            writeln!(f, "      … and the same {}", times_text(times - 1))?;
        }
    }
    Ok(())
}

fn times_text(times: usize) -> String {
    if times == 1 { "once more".to_owned() } else { format!("{times} times more") }
}

/// Calls that repeat the one before and get the same answer, as polling does, counted instead of told again.
fn runs<'a>(calls: &[&'a CallRecord]) -> Vec<(&'a CallRecord, usize)> {
    let mut runs: Vec<(&CallRecord, usize)> = Vec::new();
    for call in calls {
        match runs.last_mut() {
            Some((last, times))
                if last.rpc == call.rpc
                    && last.request() == call.request()
                    && last.outcome().to_string() == call.outcome().to_string() =>
            {
                *times += 1;
            }
            _ => runs.push((call, 1)),
        }
    }
    runs
}

/// One call on two lines: what was asked, what was answered.
pub fn call_line(call: &CallRecord) -> String {
    let mut line = format!("{} {}", call.rpc, shortened(&call.request().to_string()));
    let answer = shortened(&call.outcome().to_string());
    // Writing into a string cannot fail.
    let _ = write!(line, "\n      → {answer} ({} ms)", call.duration.as_millis());
    line
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
        None => text.to_owned(),
    }
}
