//! The comparison of two loads, or of several rounds of each: how much longer or shorter calls take, with the interval in which the change
//! lies. Slices of time are drawn at random many times (a bootstrap): calls in one slice depend on each other, since a busy moment slows all of
//! them, so that a single call proves less than it seems to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use crate::recorder::{Series, Slice};
use crate::report::Report;
use crate::threshold::{Metric, Threshold, Time};

/// The number of times that slices are drawn at random.
const DRAWS: usize = 1_000;
/// The part of the draws that lies outside of the interval at each of its ends, so that the interval has 99 %.
const OUTSIDE: f64 = 0.005;
/// The precision of a histogram in percent: a smaller change may be none.
const PRECISION_PERCENT: f64 = 1.0;
/// Calls beyond a percentile, without which it depends on single calls.
const BEYOND_MIN: f64 = 10.0;
/// Slices of a stage that are drawn. Where there are more, neighbours are joined.
const SLICES_MAX: usize = 16;
/// Slices that an interval needs on each side.
const SLICES_MIN: usize = 8;
/// One comparison has one result.
const SEED: u64 = 1;

/// A load compared with an earlier one.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The workload of both.
    pub workload: String,
    /// The earlier driver, with its version.
    pub before: String,
    /// The later driver.
    pub after: String,
    /// The number of loads on each side.
    pub rounds: (usize, usize),
    /// The changes by RPC and metric, also those that may be chance.
    pub changes: Vec<Change>,
    /// Limits of the user.
    pub thresholds: Vec<Limit>,
}

/// The change of one metric of one RPC.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    pub rpc: String,
    /// The metric, such as p99.
    pub metric: Metric,
    /// The earlier value: milliseconds, or calls for each second.
    pub before: f64,
    /// The later value.
    pub after: f64,
    /// The change in percent of the earlier value.
    pub percent: f64,
    /// The ends of the interval in which the change lies, in percent; `null` if there are too few measurements.
    pub interval: Option<(f64, f64)>,
    /// True if the interval is on one side of zero.
    pub is_shown: bool,
}

/// A limit on a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// The limit, as it was given.
    pub threshold: String,
    /// The change, for people.
    pub value: String,
    /// True if the limit is kept, or may be; `null` if the RPC was not called in both loads.
    pub is_met: Option<bool>,
}

impl Comparison {
    /// Compares loads with earlier ones. Where there are several on each side, the first was made beside the first, and so on.
    ///
    /// # Errors
    /// The loads have different workloads, or there are none.
    pub fn new(before: &[Report], after: &[Report], thresholds: &[Threshold]) -> Result<Comparison, String> {
        let (Some(first), Some(last)) = (before.first(), after.first()) else {
            return Err("there is no load to compare".to_owned());
        };
        let mut names = before.iter().chain(after).map(|report| &report.workload);
        if let Some(other) = names.find(|name| **name != first.workload) {
            return Err(format!(
                "{} and {other} are different loads, which cannot be compared",
                first.workload
            ));
        }
        let rpcs = |reports: &[Report]| -> BTreeSet<String> {
            let entries = reports.iter().flat_map(|report| &report.stages).flat_map(|stage| &stage.rpcs);
            entries.filter(|entry| entry.done > 0).map(|entry| entry.rpc.clone()).collect()
        };
        let both: Vec<String> = rpcs(before).intersection(&rpcs(after)).cloned().collect();
        let sides: BTreeMap<&str, Pair> =
            both.iter().map(|rpc| (rpc.as_str(), Pair::new(rpc, before, after))).collect();
        let changes = sides.values().flat_map(|pair| pair.changes(&Metric::COMPARED)).collect();
        let limits = thresholds.iter().map(|threshold| Limit::new(threshold, sides.get(threshold.rpc())));
        Ok(Comparison {
            workload: first.workload.clone(),
            before: first.driver.clone(),
            after: last.driver.clone(),
            rounds: (before.len(), after.len()),
            changes,
            thresholds: limits.collect(),
        })
    }

    /// Adds a limit for each RPC: its median time may become this many times as long.
    pub fn limit_medians(&mut self, factor: f64) {
        let medians = self.changes.iter().filter(|change| change.metric == Metric::MEDIAN);
        let limits = medians.map(|change| {
            let percent = (factor - 1.0) * 100.0;
            Limit {
                threshold: format!("{} p50 < +{percent:.0}%", change.rpc),
                value: change.text(),
                is_met: Some(!change.is_shown || change.interval.is_none_or(|(low, _)| low < percent)),
            }
        });
        self.thresholds.extend(limits.collect::<Vec<_>>());
    }

    pub fn json(&self) -> String {
        // It has nothing in it that JSON cannot say.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// A line for each change.
    pub fn csv(&self) -> String {
        let mut text = "rpc,metric,before,after,percent,low_percent,high_percent,is_shown\n".to_owned();
        for change in &self.changes {
            let [low, high] = match change.interval {
                Some((low, high)) => [low, high].map(|end| format!("{end:.2}")),
                None => Default::default(),
            };
            // Nothing can go wrong while a text is written to.
            let _ = writeln!(
                text,
                "{},{},{:.3},{:.3},{:.2},{low},{high},{}",
                change.rpc,
                change.metric.name(),
                change.before,
                change.after,
                change.percent,
                change.is_shown
            );
        }
        text
    }

    /// The comparison for people.
    pub fn text(&self) -> String {
        let mut text = format!("{}: {} → {}\n", self.workload, self.before, self.after);
        let width = self.changes.iter().map(|change| change.rpc.len()).max().unwrap_or_default();
        let mut last = "";
        for change in &self.changes {
            let name = if change.rpc == last { "" } else { &change.rpc };
            last = &change.rpc;
            // Nothing can go wrong while a text is written to.
            let _ = writeln!(
                text,
                "  {name:width$}  {:>5}  {:>7} → {:>7}  {}",
                change.metric.name(),
                change.metric.shown(change.before),
                change.metric.shown(change.after),
                change.text()
            );
        }
        if !self.thresholds.is_empty() {
            text.push_str("thresholds\n");
        }
        for limit in &self.thresholds {
            let _ = writeln!(text, "  {} {}   {}", limit.mark(), limit.threshold, limit.value);
        }
        text
    }

    /// The comparison for the summary of a CI step.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "### {}: {} → {}\n\n| RPC | | before | after | change |\n|---|---|--:|--:|---|\n",
            self.workload, self.before, self.after
        );
        for change in &self.changes {
            let [before, after] = [change.before, change.after].map(|value| change.metric.shown(value));
            // Nothing can go wrong while a text is written to.
            let _ = writeln!(
                text,
                "| {} | {} | {before} | {after} | {} |",
                change.rpc,
                change.metric.name(),
                change.text()
            );
        }
        for limit in &self.thresholds {
            let _ = write!(text, "\n- {} `{}`: {}", limit.mark(), limit.threshold, limit.value);
        }
        text.push('\n');
        text
    }
}

impl Change {
    /// The change for people.
    pub fn text(&self) -> String {
        match self.interval {
            None => "too few measurements".to_owned(),
            Some(_) if !self.is_shown => "no difference shown".to_owned(),
            Some((low, high)) => format!("{:+.0} % ({low:+.0} to {high:+.0})", self.percent),
        }
    }
}

impl Limit {
    fn new(threshold: &Threshold, pair: Option<&Pair>) -> Limit {
        let change = pair.and_then(|pair| pair.changes(&[threshold.metric()]).pop());
        Limit {
            threshold: threshold.to_string(),
            value: change.as_ref().map_or_else(|| "not called in both loads".to_owned(), Change::text),
            is_met: change.map(|change| {
                !change.is_shown || change.interval.is_none_or(|interval| threshold.allows(interval))
            }),
        }
    }

    fn mark(&self) -> char {
        match self.is_met {
            Some(true) => '✓',
            Some(false) => '✗',
            None => '?',
        }
    }
}

/// A slice with the places of its times among all times, and how many calls took each.
type Places = Vec<(usize, u64)>;

/// The calls of one RPC on one side, of each round, by stage and slice.
#[derive(Debug)]
struct Side {
    whole: Series,
    seconds: f64,
    rounds: Vec<Vec<Vec<Places>>>,
}

/// The calls of one RPC on both sides.
#[derive(Debug)]
struct Pair {
    rpc: String,
    before: Side,
    after: Side,
    /// All times that there are, in microseconds.
    times: Vec<u64>,
}

impl Pair {
    fn new(rpc: &str, before: &[Report], after: &[Report]) -> Pair {
        let common = common_stages(before, after);
        let of = |reports: &[Report]| -> Vec<Vec<(Series, f64)>> {
            let of_one = |report: &Report| {
                let stages = report.numbered_stages().filter(|(key, _)| common.contains(key));
                let series = stages.filter_map(|(_, stage)| {
                    let entry = stage.rpcs.iter().find(|entry| entry.rpc == rpc)?;
                    Some((entry.series(), stage.seconds))
                });
                series.collect()
            };
            reports.iter().map(of_one).collect()
        };
        let (before, after) = (of(before), of(after));
        let all = before.iter().chain(&after).flatten().flat_map(|(series, _)| series.slices()).flatten();
        let times: Vec<u64> = all.map(|(us, _)| *us).collect::<BTreeSet<u64>>().into_iter().collect();
        let side = |rounds: Vec<Vec<(Series, f64)>>| {
            let stages = rounds.iter().flatten();
            let whole = Series::whole(stages.map(|(series, seconds)| {
                (series, Duration::try_from_secs_f64(*seconds).unwrap_or_default())
            }));
            let (whole, elapsed) = whole.unwrap_or_default();
            let rounds = rounds
                .iter()
                .map(|stages| stages.iter().map(|(series, _)| places(series.slices(), &times)).collect());
            Side { whole, seconds: elapsed.as_secs_f64(), rounds: rounds.collect() }
        };
        Pair { rpc: rpc.to_owned(), before: side(before), after: side(after), times }
    }

    fn changes(&self, metrics: &[Metric]) -> Vec<Change> {
        let has_enough = |metric: &&Metric| {
            let beyond = |side: &Side| side.whole.done as f64 * metric.beyond();
            beyond(&self.before).min(beyond(&self.after)) >= BEYOND_MIN
        };
        let metrics: Vec<Metric> = metrics.iter().filter(has_enough).copied().collect();
        let mut drawn = self.draw(&metrics);
        let changes = metrics.iter().zip(&mut drawn).filter_map(|(metric, drawn)| {
            let value = |side: &Side| metric.of(&side.whole, Duration::try_from_secs_f64(side.seconds).ok()?);
            let (before, after) = (value(&self.before)?, value(&self.after)?);
            let interval = interval(drawn);
            let is_beyond =
                interval.is_some_and(|(low, high)| low > PRECISION_PERCENT || high < -PRECISION_PERCENT);
            Some(Change {
                rpc: self.rpc.clone(),
                metric: *metric,
                before,
                after,
                percent: percent(before, after)?,
                interval,
                is_shown: is_beyond && self.is_in_most_slices(*metric, before, after),
            })
        });
        changes.collect()
    }

    /// Returns true if the slices differ as the loads do: more slices of the one than of the other are on its side of the middle, by Fisher's
    /// exact test. A draw knows only the slices that there are: where one load by chance met no busy moment, no draw has one.
    fn is_in_most_slices(&self, metric: Metric, before: f64, after: f64) -> bool {
        if metric == Metric::Rate {
            return true;
        }
        let middle = (before * after).sqrt() * 1e3;
        let count = |side: &Side| {
            let slices = side.rounds.iter().flatten().flatten().filter(|slice| !slice.is_empty());
            let values: Vec<f64> =
                slices.map(|slice| metric.of_calls(slice.iter().copied(), &self.times, 1.0)).collect();
            (values.iter().filter(|value| **value > middle).count(), values.len())
        };
        let (slower, faster) = match after > before {
            true => (count(&self.after), count(&self.before)),
            false => (count(&self.before), count(&self.after)),
        };
        by_chance(slower, faster) < 2.0 * OUTSIDE
    }

    /// The changes in percent of each metric, in each draw.
    fn draw(&self, metrics: &[Metric]) -> Vec<Vec<f64>> {
        let mut drawn = vec![Vec::new(); metrics.len()];
        let slices = |side: &Side| side.rounds.iter().flatten().map(Vec::len).sum::<usize>();
        if slices(&self.before).min(slices(&self.after)) < SLICES_MIN {
            return drawn;
        }
        let mut rng = fastrand::Rng::with_seed(SEED);
        let is_paired = self.before.rounds.len() == self.after.rounds.len();
        for _ in 0..DRAWS {
            let rounds: Vec<usize> =
                self.before.rounds.iter().map(|_| rng.usize(..self.before.rounds.len())).collect();
            let before = self.before.drawn(&rounds, self.times.len(), &mut rng);
            // Rounds that were made one beside the other met the same moment of the machine.
            let rounds = match is_paired {
                true => rounds,
                false => self.after.rounds.iter().map(|_| rng.usize(..self.after.rounds.len())).collect(),
            };
            let after = self.after.drawn(&rounds, self.times.len(), &mut rng);
            for (metric, drawn) in metrics.iter().zip(&mut drawn) {
                let [before, after] =
                    [(&before, &self.before), (&after, &self.after)].map(|(calls, side)| {
                        metric.of_calls(calls.iter().copied().enumerate(), &self.times, side.seconds)
                    });
                drawn.extend(percent(before, after));
            }
        }
        drawn
    }
}

impl Side {
    /// The number of calls of each time, in slices that are drawn at random from each stage of these rounds. A slice may be drawn twice.
    fn drawn(&self, rounds: &[usize], times: usize, rng: &mut fastrand::Rng) -> Vec<u64> {
        let mut calls = vec![0; times];
        for stage in rounds.iter().flat_map(|round| &self.rounds[*round]).filter(|stage| !stage.is_empty()) {
            for _ in 0..stage.len() {
                for (place, more) in &stage[rng.usize(..stage.len())] {
                    calls[*place] += more;
                }
            }
        }
        calls
    }
}

/// The stages that all loads have.
fn common_stages<'a>(before: &'a [Report], after: &'a [Report]) -> BTreeSet<(&'a str, usize)> {
    let mut all =
        before.iter().chain(after).map(|report| report.numbered_stages().map(|(key, _)| key).collect());
    let first: BTreeSet<_> = all.next().unwrap_or_default();
    all.fold(first, |common, keys| common.intersection(&keys).copied().collect())
}

/// The slices with places for times. Neighbours are joined where there are many.
fn places(slices: &[Slice], times: &[u64]) -> Vec<Places> {
    let joined = slices.chunks(slices.len().div_ceil(SLICES_MAX).max(1)).map(|slices| {
        let mut calls = BTreeMap::<usize, u64>::new();
        for (us, more) in slices.iter().flatten() {
            let place = times.binary_search(us).unwrap_or_else(|place| place);
            *calls.entry(place).or_default() += more;
        }
        calls.into_iter().collect()
    });
    joined.collect()
}

/// The change in percent; `None` where there is nothing to compare with.
fn percent(before: f64, after: f64) -> Option<f64> {
    let percent = (after / before - 1.0) * 100.0;
    percent.is_finite().then_some(percent)
}

/// The interval that nearly all draws are in.
fn interval(drawn: &mut [f64]) -> Option<(f64, f64)> {
    if drawn.len() < DRAWS / 2 {
        return None;
    }
    drawn.sort_by(f64::total_cmp);
    let outside = (drawn.len() as f64 * OUTSIDE) as usize;
    Some((drawn[outside], drawn[drawn.len() - 1 - outside]))
}

impl Metric {
    /// The value in a form for people.
    fn shown(self, value: f64) -> String {
        match self {
            Metric::Percentile(_) | Metric::Mean => {
                Time(Duration::try_from_secs_f64(value / 1e3).unwrap_or_default()).to_string()
            }
            Metric::Rate => format!("{value:.1}/s"),
            Metric::Errors => format!("{:.2}%", value * 100.0),
        }
    }

    /// The part of the calls that is beyond a percentile.
    fn beyond(self) -> f64 {
        match self {
            Metric::Percentile(percent) => 1.0 - percent / 100.0,
            Metric::Mean | Metric::Rate | Metric::Errors => 1.0,
        }
    }

    /// The value that was measured: milliseconds, or calls for each second.
    fn of(self, series: &Series, elapsed: Duration) -> Option<f64> {
        let (value, _) = self.measured(series, elapsed);
        match self {
            Metric::Percentile(_) | Metric::Mean => Some(value * 1e3),
            Metric::Rate => Some(value),
            Metric::Errors => None,
        }
    }

    /// Computes the metric from a histogram, which is the number of calls for each of `times`, in ascending order. The result is in
    /// microseconds, or in calls for each second.
    fn of_calls(
        self,
        mut calls: impl Iterator<Item = (usize, u64)> + Clone,
        times: &[u64],
        seconds: f64,
    ) -> f64 {
        let all: u64 = calls.clone().map(|(_, calls)| calls).sum();
        match self {
            Metric::Percentile(percent) => {
                let mut left = ((all as f64 * percent / 100.0).ceil() as u64).max(1);
                let reached = calls.find(|(_, calls)| {
                    let is_here = *calls >= left;
                    left = left.saturating_sub(*calls);
                    is_here
                });
                reached.map_or(f64::NAN, |(place, _)| times[place] as f64)
            }
            Metric::Mean => {
                let sum: f64 = calls.map(|(place, calls)| calls as f64 * times[place] as f64).sum();
                sum / all as f64
            }
            Metric::Rate => all as f64 / seconds,
            Metric::Errors => f64::NAN,
        }
    }
}

/// The probability that at least so many of the first ones are beyond the middle by chance, where so many of all are (Fisher's exact test).
/// Both are a number of slices beyond the middle, and the number of slices.
fn by_chance(first: (usize, usize), second: (usize, usize)) -> f64 {
    let ln_factorial = |number: usize| (1..=number).map(|factor| (factor as f64).ln()).sum::<f64>();
    let ln_choices = |of: usize, some: usize| ln_factorial(of) - ln_factorial(some) - ln_factorial(of - some);
    let (beyond, all) = (first.0 + second.0, first.1 + second.1);
    let possible = first.0..=beyond.min(first.1);
    let each = possible.filter(|number| beyond - number <= second.1).map(|number| {
        let choices = ln_choices(first.1, number) + ln_choices(second.1, beyond - number);
        (choices - ln_choices(all, beyond)).exp()
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{RpcEntry, StageEntry};

    /// A load of 40 slices with 50 calls each, which take about as long, and a tenth of the slices three times as long.
    fn load(us: u64, rng: &mut fastrand::Rng) -> Report {
        let mut series = Series::default();
        for slice in 0..40 {
            let busy = if rng.u32(..10) == 0 { 3 } else { 1 };
            for _ in 0..50 {
                series.add(slice, Duration::from_micros(us * busy * rng.u64(80..120) / 100));
            }
        }
        let stage = StageEntry {
            name: "hold".to_owned(),
            seconds: 10.0,
            slice_seconds: 0.25,
            rpcs: vec![RpcEntry::new("Probe", &series, 10.0)],
            ..StageEntry::default()
        };
        Report { workload: "mine".to_owned(), stages: vec![stage], ..Report::default() }
    }

    fn medians(before: &[Report], after: &[Report]) -> Change {
        let comparison = Comparison::new(before, after, &[]).unwrap();
        comparison.changes.into_iter().find(|change| change.metric == Metric::MEDIAN).unwrap()
    }

    fn rng() -> fastrand::Rng {
        fastrand::Rng::with_seed(SEED)
    }

    #[test]
    fn a_driver_that_takes_half_as_long_again_is_slower() {
        let mut rng = rng();
        let change = medians(&[load(1_000, &mut rng)], &[load(1_500, &mut rng)]);
        let (low, high) = change.interval.unwrap();
        assert!(change.is_shown && low < 50.0 && high > 50.0 && low > 30.0 && high < 70.0, "{change:?}");
    }

    /// Each pair differs by chance alone: some loads meet more busy moments than others.
    #[test]
    fn a_driver_is_neither_slower_nor_faster_than_itself() {
        let mut rng = rng();
        let wrong = (0..300).filter(|_| {
            let (one, other) = (load(1_000, &mut rng), load(1_000, &mut rng));
            let comparison = Comparison::new(&[one], &[other], &[]).unwrap();
            comparison.changes.iter().any(|change| change.is_shown)
        });
        let wrong = wrong.count();
        assert!(wrong <= 6, "{wrong} of 300 pairs, each with three percentiles (seed {SEED})");
        let mut rounds = || -> Vec<Report> { (0..5).map(|_| load(1_000, &mut rng)).collect() };
        assert!(!medians(&rounds(), &rounds()).is_shown);
    }

    #[test]
    fn the_probability_is_that_of_the_textbook() {
        // The lady who tastes tea: all of 4 cups right, and 3 of 4 or more.
        assert!((by_chance((4, 4), (0, 4)) - 1.0 / 70.0).abs() < 1e-9);
        assert!((by_chance((3, 4), (1, 4)) - 17.0 / 70.0).abs() < 1e-9);
        assert!((by_chance((0, 5), (0, 5)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_limit_is_crossed_by_the_whole_interval_alone() {
        let limits = |after: &Report, limit: &str| {
            let limit = [limit.parse().unwrap()];
            let before = [load(1_000, &mut rng())];
            Comparison::new(&before, std::slice::from_ref(after), &limit).unwrap().thresholds[0].is_met
        };
        let slower = load(1_500, &mut fastrand::Rng::with_seed(SEED + 1));
        assert_eq!(limits(&slower, "Probe p50 < +20%"), Some(false));
        assert_eq!(limits(&slower, "Probe p50 < +50%"), Some(true), "it may be less");
        assert_eq!(limits(&slower, "Probe mean < +200%"), Some(true));
        assert_eq!(limits(&slower, "Probe rate > -5%"), Some(true));
        assert_eq!(limits(&slower, "CreateVolume p50 < +20%"), None);
    }

    #[test]
    fn few_calls_and_other_loads_are_not_compared() {
        let mut rng = rng();
        let (one, other) = (load(1_000, &mut rng), load(1_000, &mut rng));
        let comparison = Comparison::new(std::slice::from_ref(&one), &[other], &[]).unwrap();
        let metrics: Vec<&str> = comparison.changes.iter().map(|change| change.metric.name()).collect();
        assert_eq!(metrics, ["p50", "p90", "p99"], "2 calls of 2,000 are beyond p99.9");
        let other = Report { workload: "other".to_owned(), ..one.clone() };
        assert!(Comparison::new(&[one], &[other], &[]).unwrap_err().contains("different loads"));
        assert!(comparison.text().contains("no difference shown"), "{}", comparison.text());
    }
}
