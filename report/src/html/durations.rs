//! Shows how long checks took, by suite, and calls, by RPC.

use std::collections::BTreeMap;

use super::markup::Html;
use super::{labelled, stacking};
use crate::entry::RpcEntry;
use crate::journal::Run;
use crate::words::duration_text;

/// Size of the picture of a row.
const WIDTH: f64 = 200.0;

/// Percentiles of a set of times.
#[derive(Clone, Copy)]
struct Spread {
    p50: u64,
    p95: u64,
    p99: Option<u64>,
    longest: u64,
}

impl Spread {
    fn of(sorted: &[u64]) -> Spread {
        let at = |percent: usize| {
            let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
            sorted.get(place).copied().unwrap_or_default()
        };
        Spread { p50: at(50), p95: at(95), p99: Some(at(99)), longest: at(100) }
    }

    fn of_calls(calls: &RpcEntry) -> Spread {
        Spread {
            p50: calls.median_us,
            p95: calls.percentile_95_us,
            p99: calls.percentile_99_us,
            longest: calls.longest_us,
        }
    }

    fn texts(self) -> [String; 4] {
        [Some(self.p50), Some(self.p95), self.p99, Some(self.longest)]
            .map(|us| us.map_or_else(|| "–".to_owned(), duration_text))
    }
}

/// A scale on which both the shortest and the longest time can be seen.
struct Scale {
    shortest_us: u64,
    longest_us: u64,
}

impl Scale {
    fn of<'a>(spreads: impl Iterator<Item = &'a Spread> + Clone) -> Scale {
        let shortest_us = spreads.clone().map(|spread| spread.p50).min().unwrap_or(1).max(1);
        let longest_us = spreads.map(|spread| spread.longest).max().unwrap_or(1).max(shortest_us + 1);
        Scale { shortest_us, longest_us }
    }

    fn x(&self, us: u64) -> f64 {
        let log = |us: u64| (us.max(self.shortest_us) as f64).ln();
        let all = log(self.longest_us) - log(self.shortest_us);
        4.0 + (WIDTH - 8.0) * (log(us) - log(self.shortest_us)) / all
    }

    fn words(&self) -> String {
        format!(
            "Of 100, 50 took no longer than p50, 95 than p95 and 99 than p99. The pictures go from {} to {} on a logarithmic \
             scale: a dot for p50, ticks for p95 and p99, a ring for the longest.",
            duration_text(self.shortest_us),
            duration_text(self.longest_us)
        )
    }
}

/// Shows how long the checks of each suite took; the services of the specification stand for its suite.
pub(super) fn write_suites(html: &mut Html, run: &Run) {
    const COLUMNS: [&str; 8] =
        ["suite or service", "checks", "together", "p50", "p95", "p99", "longest", "picture"];
    let mut suites = BTreeMap::<&str, Vec<u64>>::new();
    for check in run
        .checks
        .iter()
        .filter(|check| check.counts_as() != csi_harness::results::outcome::OutcomeKind::Skipped)
    {
        let suite = check.id.split('/').next().unwrap_or_default();
        suites.entry(suite).or_default().push(check.duration_ms.saturating_mul(1_000));
    }
    suites.values_mut().for_each(|times| times.sort_unstable());
    let spreads: Vec<Spread> = suites.values().map(|times| Spread::of(times)).collect();
    let scale = Scale::of(spreads.iter());
    let took = duration_text(run.duration_ms.saturating_mul(1_000));
    html.leaf(
        "p",
        &[],
        &format!("The run took {took}. Below are the times of its checks, cleaning up included; some of them ran at the same time."),
    );
    html.leaf("p", &[("class", "dim")], &scale.words());
    stacking(html, "Checks by suite", &COLUMNS, |body| {
        for ((suite, times), spread) in suites.iter().zip(&spreads) {
            let all = times.iter().fold(0, |sum: u64, us| sum.saturating_add(*us));
            let texts = [times.len().to_string(), duration_text(all)];
            write_row(body, suite, &COLUMNS, &texts, Some((*spread, &scale)));
        }
    });
}

/// Shows how long successful calls took.
pub(super) fn write(html: &mut Html, run: &Run) {
    const COLUMNS: [&str; 9] =
        ["RPC", "done", "rejected", "no answer", "p50", "p95", "p99", "longest", "picture"];
    let spreads: Vec<Spread> = run.rpcs.iter().filter(|calls| calls.done > 0).map(Spread::of_calls).collect();
    let scale = Scale::of(spreads.iter());
    html.leaf(
        "p",
        &[],
        "Every call of the run, those of cleaning up included. Times are of calls that the driver answered with OK.",
    );
    html.leaf("p", &[("class", "dim")], &scale.words());
    stacking(html, "Calls by RPC", &COLUMNS, |body| {
        for calls in &run.rpcs {
            let numbers = [calls.done, calls.refused, calls.unanswered].map(|number| number.to_string());
            let spread = (calls.done > 0).then(|| (Spread::of_calls(calls), &scale));
            write_row(body, &calls.rpc, &COLUMNS, &numbers, spread);
        }
    });
    write_pauses(html, run);
}

/// The longest write of a workload beside each RPC, the longest first.
fn write_pauses(html: &mut Html, run: &Run) {
    const COLUMNS: [&str; 2] = ["RPC", "longest write"];
    let mut pauses: Vec<(&str, u64)> =
        run.rpcs.iter().filter_map(|calls| Some((&*calls.rpc, calls.longest_pause_us?))).collect();
    pauses.sort_by_key(|(rpc, us)| (std::cmp::Reverse(*us), *rpc));
    if pauses.is_empty() {
        return;
    }
    html.leaf(
        "p",
        &[],
        "How long a write of a workload took at the most while calls about its volume were in progress.",
    );
    stacking(html, "Longest pause of a writer by RPC", &COLUMNS, |body| {
        for (rpc, us) in pauses {
            body.element("tr", &[], |row| {
                row.leaf("th", &[("scope", "row")], rpc);
                labelled(row, COLUMNS[1], |cell| cell.text(&duration_text(us)));
            });
        }
    });
}

fn write_row(
    body: &mut Html,
    name: &str,
    columns: &[&str],
    numbers: &[String],
    spread: Option<(Spread, &Scale)>,
) {
    let times = spread.map_or_else(|| ["–"; 4].map(str::to_owned), |(spread, _)| spread.texts());
    body.element("tr", &[], |row| {
        row.leaf("th", &[("scope", "row")], name);
        for (name, text) in columns[1..].iter().zip(numbers.iter().chain(&times)) {
            labelled(row, name, |cell| cell.text(text));
        }
        row.element("td", &[], |cell| {
            if let Some((spread, scale)) = spread {
                draw(cell, spread, scale);
            }
        });
    });
}

/// A picture of the numbers beside it.
fn draw(html: &mut Html, spread: Spread, scale: &Scale) {
    let view = format!("0 0 {WIDTH} 14");
    let attributes =
        [("class", "times"), ("viewBox", view.as_str()), ("aria-hidden", "true"), ("focusable", "false")];
    let x = |us: u64| format!("{:.1}", scale.x(us));
    let (middle, longest) = (x(spread.p50), x(spread.longest));
    html.element("svg", &attributes, |svg| {
        svg.empty("path", &[("class", "axis"), ("d", &format!("M{middle} 7H{longest}"))]);
        svg.empty("circle", &[("class", "longest"), ("cx", &longest), ("cy", "7"), ("r", "3")]);
        let ticks = [Some(spread.p95), spread.p99].into_iter().flatten();
        let ticks: String = ticks.map(|us| format!("M{} 2V12", x(us))).collect();
        svg.empty("path", &[("class", "tick"), ("d", &ticks)]);
        svg.empty("circle", &[("class", "dot"), ("cx", &middle), ("cy", "7"), ("r", "3.5")]);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hundredths_are_those_of_the_times() {
        let times: Vec<u64> = (1..=200).collect();
        let Spread { p50, p95, p99, longest } = Spread::of(&times);
        assert_eq!((p50, p95, p99, longest), (100, 190, Some(198), 200));
        let Spread { p50, longest, .. } = Spread::of(&[7]);
        assert_eq!((p50, longest), (7, 7));
        assert_eq!(Spread::of(&[]).longest, 0);
    }

    #[test]
    fn every_time_lies_within_the_picture() {
        let scale = Scale::of([Spread::of(&[10, 20, 40_000])].iter());
        for us in [0, 10, 20, 39_999, 40_000] {
            assert!((4.0..=WIDTH - 4.0).contains(&scale.x(us)), "{us}");
        }
    }
}
