//! Limits that the user sets, such as `CreateVolume p99 < 5s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use csi_harness::text::message::did_you_mean;
use csi_proto::{RPCS, Rpc};
use serde::{Deserialize, Serialize, Serializer};

use crate::recorder::Series;

/// The form, for messages.
const FORM: &str = "write for example 'CreateVolume p99 < 5s', 'ListVolumes rate > 10', 'NodeStageVolume errors < 1%', or, for a comparison, 'CreateVolume p99 < +10%'";

/// A limit on a measurement of one RPC over the whole load.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Threshold {
    rpc: Rpc,
    metric: Metric,
    is_upper: bool,
    /// True if the limit is a change in percent, compared with another load.
    is_change: bool,
    limit: f64,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// The time that so many percent of the calls do not exceed, in seconds.
    Percentile(f64),
    /// The mean time, in seconds.
    Mean,
    /// Calls done for each second.
    Rate,
    /// The share of tries that were not done.
    Errors,
}

impl Metric {
    /// The median time.
    pub const MEDIAN: Metric = Metric::Percentile(50.0);
    /// The metrics that are compared.
    pub(crate) const COMPARED: [Metric; 4] =
        [Metric::MEDIAN, Metric::Percentile(90.0), Metric::Percentile(99.0), Metric::Percentile(99.9)];

    /// Its name in a threshold.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Rate => "rate",
            Metric::Errors => "errors",
            _ => TIMES.iter().find(|(_, metric)| *metric == self).map_or("", |(name, _)| name),
        }
    }

    /// The value that was measured, in seconds where it is a time, and for people.
    pub(crate) fn measured(self, series: &Series, elapsed: Duration) -> (f64, String) {
        match self {
            Metric::Percentile(percent) => {
                let time = series.percentile(percent);
                (time.as_secs_f64(), Time(time).to_string())
            }
            Metric::Mean => (series.mean().as_secs_f64(), Time(series.mean()).to_string()),
            Metric::Rate => {
                let rate = series.done as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
                (rate, format!("{rate:.1}/s"))
            }
            Metric::Errors => {
                let share = series.errors() as f64 / (series.done + series.errors()).max(1) as f64;
                (share, format!("{:.2}%", share * 100.0))
            }
        }
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// The times of the metrics, by name.
const TIMES: &[(&str, Metric)] = &[
    ("p50", Metric::Percentile(50.0)),
    ("p90", Metric::Percentile(90.0)),
    ("p95", Metric::Percentile(95.0)),
    ("p99", Metric::Percentile(99.0)),
    ("p99.9", Metric::Percentile(99.9)),
    ("max", Metric::Percentile(100.0)),
    ("mean", Metric::Mean),
];

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [rpc, metric, comparison, limit] = words[..] else { return Err(format!("{text:?}: {FORM}")) };
        let found = RPCS.iter().find(|one| one.method == rpc).copied();
        let rpc = found.ok_or_else(|| {
            let near = did_you_mean(rpc, RPCS.iter().map(|rpc| rpc.method));
            format!("{text:?}: {rpc} is not an RPC{near}")
        })?;
        let is_upper = match comparison {
            "<" => true,
            ">" => false,
            _ => return Err(format!("{text:?}: {comparison:?} is neither < nor >; {FORM}")),
        };
        let number =
            |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        let time = TIMES.iter().find(|(name, _)| *name == metric).map(|(_, metric)| *metric);
        let change = limit.strip_suffix('%').and_then(|limit| match is_upper {
            true => limit.strip_prefix('+').and_then(number),
            false => limit.strip_prefix('-').and_then(number).map(|number| -number),
        });
        let (metric, limit) = match (metric, time) {
            (_, Some(metric)) if change.is_some() => (metric, change),
            ("rate", _) if change.is_some() => (Metric::Rate, change),
            (_, Some(metric)) => {
                let duration = csi_driver_definitions::parse_duration(limit).ok();
                (metric, duration.map(|duration| duration.as_secs_f64()))
            }
            ("rate", _) => (Metric::Rate, number(limit.trim_end_matches("/s"))),
            ("errors", _) => {
                let share = limit.strip_suffix('%').and_then(number).map(|percent| percent / 100.0);
                (Metric::Errors, share)
            }
            _ => {
                return Err(format!(
                    "{text:?}: {metric} is not a metric; the metrics are p50, p90, p95, p99, p99.9, max, mean, rate and errors"
                ));
            }
        };
        let limit = limit
            .ok_or_else(|| format!("{text:?}: {:?} is not a limit for this metric; {FORM}", words[3]))?;
        let is_change = change.is_some() && metric != Metric::Errors;
        Ok(Threshold { rpc, metric, is_upper, is_change, limit, text: words.join(" ") })
    }
}

impl TryFrom<String> for Threshold {
    type Error = String;

    fn try_from(text: String) -> Result<Threshold, String> {
        text.parse()
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Threshold {
    pub fn rpc(&self) -> &'static str {
        self.rpc.method
    }

    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Returns true if it limits a change, compared with another load.
    pub fn is_change(&self) -> bool {
        self.is_change
    }

    /// The value that was measured, for people, and true if the limit is kept.
    pub fn evaluate(&self, series: &Series, elapsed: Duration) -> (String, bool) {
        let (value, text) = self.metric.measured(series, elapsed);
        (text, if self.is_upper { value < self.limit } else { value > self.limit })
    }

    /// Returns true if a change that lies in this interval, in percent, may keep the limit.
    pub(crate) fn allows(&self, (low, high): (f64, f64)) -> bool {
        if self.is_upper { low < self.limit } else { high > self.limit }
    }
}

/// A time as people read it: three digits, and the unit that fits.
#[derive(Clone, Copy, Debug)]
pub struct Time(pub Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0.as_secs_f64() * 1e6;
        let (value, unit) = match us {
            us if us < 999.5 => (us, "µs"),
            us if us < 999_500.0 => (us / 1e3, "ms"),
            us => (us / 1e6, "s"),
        };
        let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
        let digits = if unit == "µs" { 0 } else { digits };
        f.pad(&format!("{value:.digits$}{unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_compares_what_was_measured() {
        let mut series = Series::default();
        for ms in [10, 10, 10, 2_000] {
            series.add(0, Duration::from_millis(ms));
        }
        series.failed("ABORTED");
        let kept = |text: &str| {
            let threshold: Threshold = text.parse().unwrap();
            threshold.evaluate(&series, Duration::from_secs(2)).1
        };
        assert!(
            kept("CreateVolume p50 < 11ms")
                && !kept("CreateVolume p99 < 1s")
                && kept("CreateVolume mean < 1s")
        );
        assert!(kept("CreateVolume rate > 1.9/s") && !kept("CreateVolume rate > 3"));
        assert!(kept("CreateVolume errors < 21%") && !kept("CreateVolume errors < 20%"));
    }

    #[test]
    fn a_limit_on_a_change_has_a_sign() {
        let is_change = |text: &str| text.parse::<Threshold>().map(|threshold| threshold.is_change());
        assert_eq!(is_change("CreateVolume p99 < +10%"), Ok(true));
        assert_eq!(is_change("CreateVolume rate > -10%"), Ok(true));
        assert_eq!(is_change("CreateVolume errors < 10%"), Ok(false));
    }

    #[test]
    fn a_wrong_threshold_is_explained() {
        for (text, expected) in [
            ("CreateVolume p99", "write for example"),
            ("CreateVolum p99 < 5s", "did you mean CreateVolume"),
            ("CreateVolume p98 < 5s", "p99.9"),
            ("CreateVolume p99 <= 5s", "neither < nor >"),
            ("CreateVolume p99 < 5", "is not a limit"),
            ("CreateVolume errors < 5", "is not a limit"),
            ("CreateVolume p99 < -5%", "is not a limit"),
            ("CreateVolume rate > +5%", "is not a limit"),
        ] {
            let error = text.parse::<Threshold>().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn times_have_three_digits() {
        let shown = |us| Time(Duration::from_micros(us)).to_string();
        assert_eq!(
            [7, 999, 1_000, 12_345, 123_456, 2_000_000].map(shown),
            ["7µs", "999µs", "1.00ms", "12.3ms", "123ms", "2.00s"]
        );
    }
}
