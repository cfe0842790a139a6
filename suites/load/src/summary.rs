//! The report of a load as a person reads it: a table for each stage.

use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use crate::report::{GrowthEntry, Report, RpcEntry, StageEntry};
use crate::scaling::Knee;
use crate::threshold::Time;

const BOLD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const ODD: Style = AnsiColor::Yellow.on_default();

/// A column with numbers: its head, and the text for an RPC.
type Column = (&'static str, fn(&RpcEntry) -> String);
const DONE: Column = ("done", |one| one.done.to_string());
const RATE: Column = ("/s", |one| format!("{:.1}", one.per_second));
const MEAN: Column = ("mean", |one| time(one, one.mean_ms));
const P50: Column = ("p50", |one| time(one, one.p50_ms));
const P90: Column = ("p90", |one| time(one, one.p90_ms));
const P95: Column = ("p95", |one| time(one, one.p95_ms));
const P99: Column = ("p99", |one| time(one, one.p99_ms));
const P99_9: Column = ("p99.9", |one| time(one, one.p99_9_ms));
const MAX: Column = ("max", |one| time(one, one.max_ms));
const COLUMNS: [Column; 9] = [DONE, RATE, MEAN, P50, P90, P95, P99, P99_9, MAX];
/// The columns on a screen of 80 columns, most of which the names of RPCs and the errors leave free.
const LIVE_COLUMNS: [Column; 5] = [DONE, RATE, P50, P99, MAX];
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

/// The present stage and the resources of the driver, for a screen that shows a load while it runs.
pub fn live(report: &Report) -> String {
    let mut text = String::new();
    if let Some(stage) = report.stages.last() {
        // Life cycles that are due later in the stage are not late.
        let stage = StageEntry { cycles_due: None, ..stage.clone() };
        // Nothing can go wrong while a text is written to.
        let _ = write_stage(&mut text, &stage, &LIVE_COLUMNS, width([&stage]));
    }
    let _ = write_growth(&mut text, report);
    text.truncate(text.trim_end().len());
    text
}

/// The width of the longest name of an RPC.
fn width<'a>(stages: impl IntoIterator<Item = &'a StageEntry>) -> usize {
    let names = stages.into_iter().flat_map(|stage| &stage.rpcs).map(|one| one.rpc.len());
    names.max().unwrap_or_default()
}

fn write(text: &mut String, report: &Report) -> std::fmt::Result {
    let width = width(&report.stages);
    for stage in report.stages.iter().filter(|stage| !stage.rpcs.is_empty()) {
        write_stage(text, stage, &COLUMNS, width)?;
    }
    write_growth(text, report)?;
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

fn write_growth(text: &mut String, report: &Report) -> std::fmt::Result {
    if !report.growth.iter().any(GrowthEntry::has_changed) {
        return Ok(());
    }
    writeln!(text, "{BOLD}resources of the driver under constant load{BOLD:#}")?;
    for one in report.growth.iter().filter(|one| one.has_changed()) {
        let amount = |amount: u64| one.resource.amount(amount as f64).to_string();
        let grows = one.per_cycle.map_or_else(String::new, |per_cycle| {
            format!("   {ODD}{} for each life cycle{ODD:#}", one.resource.amount(per_cycle))
        });
        writeln!(text, "  {} → {}{grows}", amount(one.before), amount(one.after))?;
    }
    writeln!(text)
}

fn write_stage(text: &mut String, stage: &StageEntry, columns: &[Column], width: usize) -> std::fmt::Result {
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
    if let Some(Knee { callers, per_second, callers_at_highest, highest_per_second }) = stage.knee {
        write!(text, "  the highest rate is {highest_per_second:.1}/s, with {callers_at_highest} callers; ")?;
        match callers == callers_at_highest {
            true => writeln!(text, "more of them mostly wait")?,
            false => writeln!(text, "from {callers} on ({per_second:.1}/s), more of them mostly wait")?,
        }
    }
    write!(text, "  {:width$}", "")?;
    columns.iter().try_for_each(|(head, _)| write!(text, "{head:>COLUMN$}"))?;
    writeln!(text, "  errors")?;
    stage.rpcs.iter().try_for_each(|one| write_rpc(text, one, columns, width))?;
    writeln!(text)
}

/// A time in milliseconds, unless no call of the RPC was done.
fn time(one: &RpcEntry, ms: f64) -> String {
    match one.done {
        0 => "–".to_owned(),
        _ => Time(Duration::from_secs_f64(ms / 1e3)).to_string(),
    }
}

fn write_rpc(text: &mut String, one: &RpcEntry, columns: &[Column], width: usize) -> std::fmt::Result {
    write!(text, "  {:width$}", one.rpc)?;
    columns.iter().try_for_each(|(_, value)| write!(text, "{:>COLUMN$}", value(one)))?;
    let errors: Vec<String> = one.errors.iter().map(|(code, tries)| format!("{tries} {code}")).collect();
    match errors.is_empty() {
        true => writeln!(text, "  0"),
        false => writeln!(text, "  {ODD}{}{ODD:#}", errors.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use csi_harness::resources::usage::Resource;

    use super::*;
    use crate::Results;

    fn rpc(name: &str, done: u64) -> RpcEntry {
        let (rpc, per_second) = (name.to_owned(), done as f64 / 2.0);
        let errors = BTreeMap::from([("ABORTED".to_owned(), 3)]);
        let (p50_ms, p99_ms, max_ms) = (3.0, 70.0, 90.0);
        RpcEntry { rpc, done, per_second, errors, p50_ms, p99_ms, max_ms, ..RpcEntry::default() }
    }

    #[test]
    fn a_screen_shows_the_stage_and_what_has_grown() {
        let results = Results::default();
        let growth =
            |resource, after| GrowthEntry { resource, before: 8, after, per_cycle: None, points: Vec::new() };
        results.findings.lock().growth = vec![growth(Resource::Files, 11), growth(Resource::Threads, 8)];
        for name in ["create", "hold"] {
            results.recorder.begin(name, Some(40), None);
            results.recorder.cycle_begins();
        }
        let mut report = results.report("smoke");
        report.stages[1].rpcs = vec![rpc("CreateVolume", 7), rpc("NodeUnpublishVolume", 0)];
        let text = anstream::adapter::strip_str(&live(&report)).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("hold: ") && lines[0].ends_with(", 0 life cycles, 0.0/s"), "{text}");
        assert_eq!(
            &lines[1..4],
            [
                "                         done      /s     p50     p99     max  errors",
                "  CreateVolume              7     3.5  3.00ms  70.0ms  90.0ms  3 ABORTED",
                "  NodeUnpublishVolume       0     0.0       –       –       –  3 ABORTED",
            ]
        );
        assert_eq!(
            lines[4..],
            ["", "resources of the driver under constant load", "  8 open files → 11 open files"]
        );
        assert_eq!(live(&Results::default().report("smoke")), "");

        let knee = Knee { callers: 4, per_second: 91.0, callers_at_highest: 9, highest_per_second: 100.0 };
        report.stages[1].knee = Some(knee);
        let line =
            "\n  the highest rate is 100.0/s, with 9 callers; from 4 on (91.0/s), more of them mostly wait\n";
        assert!(summary(&report).contains(line), "{}", summary(&report));
    }
}
