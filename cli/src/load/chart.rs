//! The page about a load, or about two drivers under one load.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use csi_report::{Axis, Chart, ChartSection, LINES_MAX, chart_page};
use csi_suite_load::compare::Comparison;
use csi_suite_load::recorder::Series;
use csi_suite_load::report::{Report, StageEntry};
use csi_suite_load::threshold::Time;

/// Percentiles of a curve.
const PERCENTILES: [f64; 12] = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99, 100.0];
/// Rows of a heat map: each is this many times as long as the one below.
const ROW_FACTOR: f64 = 1.5;
/// RPCs that have a heat map: those with most calls.
const HEAT_MAPS_MAX: usize = 8;

const TIME: Axis = Axis { is_log: true, text: |ms| ms_text(ms) };
const AMOUNT: Axis = Axis { is_log: false, text: amount_text };
/// The part of the calls that take longer, from all to few.
const PERCENTILE: Axis = Axis { is_log: true, text: |of| format!("p{}", rounded(100.0 - 100.0 / of)) };

/// The page about one load.
pub(crate) fn of_load(report: &Report) -> String {
    let mut sections = vec![ChartSection {
        id: "stages",
        heading: "Stages".to_owned(),
        explanation:
            "Times count from the moment at which a call was due until the driver has done it. Errors are \
            tries that ended otherwise; most of them were made again."
                .to_owned(),
        charts: report.stages.iter().filter(|stage| !stage.rpcs.is_empty()).map(table).collect(),
    }];
    sections.push(ChartSection {
        id: "heat",
        heading: "Times over the load".to_owned(),
        explanation: "Each column is a slice of time, from the first stage to the last one, and each row a range of times. The darker a \
            cell, the more calls."
            .to_owned(),
        charts: heat_maps(report),
    });
    sections.push(ChartSection {
        id: "percentiles",
        heading: "Percentiles".to_owned(),
        explanation: "So many percent of the calls took no longer.".to_owned(),
        charts: vec![curves(
            "Percentiles of each RPC",
            by_calls(report).into_iter().map(|rpc| {
                let series = report.whole(&rpc).map(|(series, _)| series);
                (rpc, series.unwrap_or_default())
            }),
        )],
    });
    let throughput: Vec<_> = report.stages.iter().filter_map(throughput).collect();
    if !throughput.is_empty() {
        sections.push(lines(
            ("throughput", "Throughput against callers"),
            "Life cycles that ended in a second, by the number under way. Where the line stays level, more callers only wait longer.",
            vec![(String::from("Life cycles for each second"), AMOUNT, AMOUNT, throughput)],
        ));
    }
    let growth: Vec<_> = report
        .growth
        .iter()
        .filter(|one| one.has_changed() && one.points.len() > 1)
        .map(|one| {
            let points = one.points.iter().map(|(cycles, amount)| (*cycles as f64, *amount as f64)).collect();
            let name = one.resource.name(false).to_owned();
            (format!("Growth: {name}"), AMOUNT, AMOUNT, vec![(name, points)])
        })
        .collect();
    if !growth.is_empty() {
        let explanation =
            "Resources of the driver under constant load, by the number of life cycles that have ended.";
        sections.push(lines(("growth", "Growth"), explanation, growth));
    }
    let cost: Vec<_> = report
        .cost
        .iter()
        .map(|cost| {
            let points = cost.points.iter().map(|(volumes, ms)| (*volumes as f64, *ms)).collect();
            let axis = Axis { is_log: true, ..AMOUNT };
            (format!("{} over volumes", cost.rpc), axis, TIME, vec![(cost.rpc.clone(), points)])
        })
        .collect();
    if !cost.is_empty() {
        let explanation = "The time of a list of so many volumes, or of another call beside them. Both axes are logarithmic: a line that rises by one row for each \
            column is proportional.";
        sections.push(lines(("cost", "Cost over volumes"), explanation, cost));
    }
    let met = report.thresholds.iter().map(|one| {
        format!("{} {} ({})", one.threshold, if one.is_met { "is met" } else { "is not met" }, one.value)
    });
    let met: Vec<String> = met.collect();
    let summary = match met.is_empty() {
        true => format!("The load {}.", report.workload),
        false => format!("The load {}. {}.", report.workload, met.join("; ")),
    };
    chart_page("A load", &report.driver, &summary, &sections, env!("CARGO_PKG_VERSION"))
}

/// The page about two drivers.
pub(crate) fn of_comparison(comparison: &Comparison, before: &[Report], after: &[Report]) -> String {
    let rows = comparison.changes.iter().map(|change| {
        let [earlier, later] = [change.before, change.after].map(ms_text);
        vec![change.rpc.clone(), change.metric.name().to_owned(), earlier, later, change.text()]
    });
    let changes = Chart::Table {
        title: "Changes".to_owned(),
        columns: vec!["RPC", "percentile", "before", "after", "change"],
        rows: rows.collect(),
    };
    let rpcs: BTreeSet<&str> = comparison.changes.iter().map(|change| change.rpc.as_str()).collect();
    let whole = |reports: &[Report], rpc: &str| {
        let rounds = reports.iter().filter_map(|report| report.whole(rpc));
        Series::whole(rounds).map(|(series, _)| series).unwrap_or_default()
    };
    let names = match comparison.before == comparison.after {
        true => ["the first one".to_owned(), "the other one".to_owned()],
        false => [comparison.before.clone(), comparison.after.clone()],
    };
    let curve = |rpc: &str| {
        let sides = [whole(before, rpc), whole(after, rpc)];
        curves(rpc, names.iter().cloned().zip(sides))
    };
    let sections = [
        ChartSection {
            id: "changes",
            heading: "Changes".to_owned(),
            explanation: "The change is shown with the interval in which it lies with a probability of 99 %."
                .to_owned(),
            charts: vec![changes],
        },
        ChartSection {
            id: "percentiles",
            heading: "Percentiles".to_owned(),
            explanation: "So many percent of the calls took no longer.".to_owned(),
            charts: rpcs.into_iter().map(curve).collect(),
        },
    ];
    let title = format!("{} and {}", names[0], names[1]);
    let summary = format!("The load {}; rounds: {}.", comparison.workload, comparison.rounds.0);
    chart_page("Two drivers under one load", &title, &summary, &sections, env!("CARGO_PKG_VERSION"))
}

/// A name, the axes, and lines.
type NamedLines = (String, Axis, Axis, Vec<(String, Vec<(f64, f64)>)>);

fn lines((id, heading): (&'static str, &str), explanation: &str, charts: Vec<NamedLines>) -> ChartSection {
    ChartSection {
        id,
        heading: heading.to_owned(),
        explanation: explanation.to_owned(),
        charts: charts.into_iter().map(|(title, x, y, lines)| Chart::Lines { title, x, y, lines }).collect(),
    }
}

fn table(stage: &StageEntry) -> Chart {
    let row = |one: &csi_suite_load::report::RpcEntry| {
        let errors: Vec<String> = one.errors.iter().map(|(code, tries)| format!("{tries} {code}")).collect();
        let times = [one.p50_ms, one.p90_ms, one.p99_ms, one.p99_9_ms, one.max_ms].map(ms_text);
        let mut row = vec![one.rpc.clone(), one.done.to_string(), format!("{:.1}", one.per_second)];
        row.extend(times);
        row.push(errors.join(", "));
        row
    };
    // The stage that creates volumes counts these, and has no life cycles.
    let due = stage.cycles_due.filter(|_| stage.cycles_begun > 0);
    let late = due.map_or(0, |due| due.saturating_sub(stage.cycles_begun));
    let late = if late > 0 { format!(", {late} were due and did not begin") } else { String::new() };
    Chart::Table {
        title: format!("{}: {:.1} s, {} life cycles{late}", stage.name, stage.seconds, stage.cycles_ended),
        columns: vec!["RPC", "done", "for each second", "p50", "p90", "p99", "p99.9", "longest", "errors"],
        rows: stage.rpcs.iter().map(row).collect(),
    }
}

/// The RPCs of a load, those with most calls first.
fn by_calls(report: &Report) -> Vec<String> {
    let mut done = BTreeMap::<&str, u64>::new();
    for one in report.stages.iter().flat_map(|stage| &stage.rpcs).filter(|one| one.done > 0) {
        *done.entry(&one.rpc).or_default() += one.done;
    }
    let mut rpcs: Vec<(&str, u64)> = done.into_iter().collect();
    rpcs.sort_by_key(|(rpc, done)| (std::cmp::Reverse(*done), *rpc));
    rpcs.into_iter().map(|(rpc, _)| rpc.to_owned()).collect()
}

fn heat_maps(report: &Report) -> Vec<Chart> {
    let row = |us: u64| ((us.max(1) as f64).ln() / ROW_FACTOR.ln()) as usize;
    let map = |rpc: &String| {
        let mut cells = BTreeMap::<(usize, usize), u64>::new();
        let (mut column, mut seconds) = (0, 0.0);
        for stage in &report.stages {
            let slices = stage.seconds / stage.slice_seconds.max(1e-3);
            let entry = stage.rpcs.iter().find(|one| one.rpc == *rpc);
            let own = entry.map_or(&[][..], |entry| &entry.slices);
            for (at, slice) in own.iter().enumerate() {
                for (us, calls) in slice {
                    *cells.entry((column + at, row(*us))).or_default() += calls;
                }
            }
            column += own.len().max((slices.ceil() as usize).min(64));
            seconds += stage.seconds;
        }
        let rows = || cells.keys().map(|(_, row)| *row);
        let (lowest, highest) = (rows().min()?, rows().max()?);
        Some(Chart::HeatMap {
            title: rpc.clone(),
            columns: column,
            end: format!("{seconds:.0} s"),
            rows: (lowest..=highest).map(|row| ms_text(ROW_FACTOR.powf(row as f64 + 0.5) / 1e3)).collect(),
            cells: cells.iter().map(|((column, row), calls)| (*column, row - lowest, *calls)).collect(),
        })
    };
    by_calls(report).iter().take(HEAT_MAPS_MAX).filter_map(map).collect()
}

fn curves(title: &str, lines: impl Iterator<Item = (String, Series)>) -> Chart {
    let curve = |(name, series): (String, Series)| {
        let point = |percent: f64| {
            // The longest time is placed at the percentile beyond which there would be a tenth of a call.
            let of = match percent < 100.0 {
                true => 100.0 / (100.0 - percent),
                false => 10.0 * series.done as f64,
            };
            (of, series.percentile(percent).as_secs_f64() * 1e3)
        };
        let reached =
            |percent: &f64| *percent == 100.0 || series.done as f64 * (1.0 - percent / 100.0) >= 1.0;
        let points = PERCENTILES.iter().filter(|percent| reached(percent)).map(|percent| point(*percent));
        let points = points.collect();
        (name, points)
    };
    Chart::Lines {
        title: title.to_owned(),
        x: PERCENTILE,
        y: TIME,
        lines: lines.take(LINES_MAX).map(curve).collect(),
    }
}

/// The life cycles that ended in a second, by the number under way.
fn throughput(stage: &StageEntry) -> Option<(String, Vec<(f64, f64)>)> {
    /// Time that so many have to be under way, so that the number means something.
    const SECONDS_MIN: f64 = 0.05;
    let counts = stage.under_way.iter().filter(|(count, seconds, _)| *count > 0 && *seconds >= SECONDS_MIN);
    let points: Vec<(f64, f64)> =
        counts.map(|(count, seconds, ended)| (*count as f64, *ended as f64 / seconds)).collect();
    (!points.is_empty()).then(|| (stage.name.clone(), points))
}

fn ms_text(ms: f64) -> String {
    Time(Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default()).to_string()
}

fn amount_text(amount: f64) -> String {
    match amount {
        large if large >= 1e7 => format!("{:.0} M", large / 1e6),
        large if large >= 1e4 => format!("{:.0} k", large / 1e3),
        small if small < 10.0 && small.fract() > 0.05 => format!("{small:.1}"),
        other => format!("{other:.0}"),
    }
}

/// A percentile with as many digits as distinguish it from 100.
fn rounded(percent: f64) -> String {
    // A little is added, since 100 - 99.9 is not quite a tenth.
    let digits = (-((100.0 - percent) * 1.001).log10().floor()).clamp(0.0, 4.0);
    let digits = if (99.0..100.0).contains(&percent) { digits as usize } else { 0 };
    format!("{percent:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_has_the_digits_that_it_needs() {
        assert_eq!([50.0, 99.0, 99.9, 99.99, 100.0].map(rounded), ["50", "99", "99.9", "99.99", "100"]);
    }
}
