//! The report of a load as a person reads it: a table for each stage.

use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use crate::report::{GrowthEntry, Report, RpcEntry, StageEntry};
use crate::threshold::Time;

const BOLD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const ODD: Style = AnsiColor::Yellow.on_default();

/// The heads of the columns with numbers.
const COLUMNS: [&str; 9] = ["done", "/s", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"];
const COLUMN: usize = 8;

/// The tables, with codes for colours, which a stream for anything but a terminal removes.
pub fn summary(report: &Report) -> String {
    let mut text = String::new();
    // Nothing can go wrong while a text is written to.
    let _ = write(&mut text, report);
    // The verdict begins with an empty line.
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn write(text: &mut String, report: &Report) -> std::fmt::Result {
    let names = report.stages.iter().flat_map(|stage| &stage.rpcs).map(|one| one.rpc.len());
    let width = names.max().unwrap_or_default();
    for stage in report.stages.iter().filter(|stage| !stage.rpcs.is_empty()) {
        write_stage(text, stage, width)?;
    }
    if report.growth.iter().any(GrowthEntry::has_changed) {
        writeln!(text, "{BOLD}resources of the driver under constant load{BOLD:#}")?;
        for one in report.growth.iter().filter(|one| one.has_changed()) {
            let amount = |amount: u64| one.resource.amount(amount as f64).to_string();
            let grows = one.per_cycle.map_or_else(String::new, |per_cycle| {
                format!("   {ODD}{} for each life cycle{ODD:#}", one.resource.amount(per_cycle))
            });
            writeln!(text, "  {} → {}{grows}", amount(one.before), amount(one.after))?;
        }
        writeln!(text)?;
    }
    if !report.cost.is_empty() {
        writeln!(text, "{BOLD}cost{BOLD:#}")?;
        report.cost.iter().try_for_each(|cost| writeln!(text, "  {}", cost.text()))?;
        writeln!(text)?;
    }
    if !report.thresholds.is_empty() {
        writeln!(text, "{BOLD}thresholds{BOLD:#}")?;
        for one in &report.thresholds {
            let (style, mark) = if one.is_met { (GOOD, "✓") } else { (BAD, "✗") };
            writeln!(text, "  {style}{mark}{style:#} {}   {}", one.threshold, one.value)?;
        }
        writeln!(text)?;
    }
    Ok(())
}

fn write_stage(text: &mut String, stage: &StageEntry, width: usize) -> std::fmt::Result {
    write!(text, "{BOLD}{}{BOLD:#}: {}", stage.name, Time(Duration::from_secs_f64(stage.seconds)))?;
    if stage.cycles_begun > 0 {
        let rate = |cycles: u64| cycles as f64 / stage.seconds.max(1e-6);
        write!(text, ", {} life cycles, {:.1}/s", stage.cycles_ended, rate(stage.cycles_ended))?;
        let late = stage.cycles_due.map_or(0, |due| due.saturating_sub(stage.cycles_begun));
        if late > 0 {
            let due = rate(stage.cycles_begun + late);
            write!(text, " of {due:.1}/s, {ODD}{late} were due and did not begin{ODD:#}")?;
        }
    }
    writeln!(text)?;
    write!(text, "  {:width$}", "")?;
    COLUMNS.iter().try_for_each(|head| write!(text, "{head:>COLUMN$}"))?;
    writeln!(text, "  errors")?;
    stage.rpcs.iter().try_for_each(|one| write_rpc(text, one, width))?;
    writeln!(text)
}

fn write_rpc(text: &mut String, one: &RpcEntry, width: usize) -> std::fmt::Result {
    write!(text, "  {:width$}{:>COLUMN$}{:>COLUMN$.1}", one.rpc, one.done, one.per_second)?;
    for ms in [one.mean_ms, one.p50_ms, one.p90_ms, one.p95_ms, one.p99_ms, one.p99_9_ms, one.max_ms] {
        match one.done {
            0 => write!(text, "{:>COLUMN$}", "–")?,
            _ => write!(text, "{:>COLUMN$}", Time(Duration::from_secs_f64(ms / 1e3)))?,
        }
    }
    let errors: Vec<String> = one.errors.iter().map(|(code, tries)| format!("{tries} {code}")).collect();
    match errors.is_empty() {
        true => writeln!(text, "  0"),
        false => writeln!(text, "  {ODD}{}{ODD:#}", errors.join(", ")),
    }
}
