//! The way in which a driver scales: the time of a call by the number of volumes, and the rate of life cycles by the number of callers.

use std::time::Duration;

use csi_harness::prelude::*;
use csi_harness::resources::trend::slope;
use serde::{Deserialize, Serialize};

use crate::judge::LOAD_006;
use crate::recorder::milliseconds;
use crate::threshold::Time;

/// Times below this depend on the machine more than on the driver.
pub(crate) const WORTH_A_WORD: Duration = Duration::from_millis(20);
/// An exponent from which on the cost counts as more than proportional. Caches that become too small, and a machine that is busy at the end,
/// make a proportional cost look like one with an exponent of up to 1.6.
const EXPONENT_MAX: f64 = 1.7;
/// Times from which on a cost that has become so many times as high has a number.
const WORTH_A_NUMBER: Duration = Duration::from_millis(2);
const HAS_GROWN: f64 = 4.0;
/// An exponent below which the cost counts as constant.
const EXPONENT_MIN: f64 = 0.2;
/// The time with a number of callers, and the life cycles that end in it, below which their rate means nothing.
const KNEE_SECONDS_MIN: f64 = 0.5;
const KNEE_CYCLES_MIN: u64 = 5;
/// Numbers of callers of which the rate is known, and how many times the lowest the highest one has to be.
const KNEE_NUMBERS_MIN: usize = 5;
const KNEE_CALLERS_TIMES: u64 = 4;
/// The part of the highest rate from which on more callers mostly wait.
const KNEE_OF_HIGHEST: f64 = 0.9;

/// The time that a call takes beside so many volumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The RPC; a list with all its pages.
    pub rpc: String,
    /// The power of the number of volumes with which the time grows; `null` if it is too short to say.
    pub exponent: Option<f64>,
    /// The number of volumes, and the time in milliseconds.
    pub points: Vec<(usize, f64)>,
}

impl Cost {
    /// The cost by calls, or lists, beside so many volumes, which took so many milliseconds.
    pub(crate) fn new(rpc: &str, points: Vec<(usize, f64)>) -> Option<Cost> {
        (!points.is_empty()).then(|| Cost { rpc: rpc.to_owned(), exponent: exponent(&points), points })
    }

    /// Takes in another time beside the largest number of volumes. The shortest one counts: a machine that is busy for a moment makes a call
    /// slower, and never faster.
    pub(crate) fn timed_again(&mut self, ms: f64) {
        if let Some((_, last)) = self.points.last_mut() {
            *last = last.min(ms);
        }
        self.exponent = exponent(&self.points);
    }

    /// The cost in words.
    pub(crate) fn text(&self) -> String {
        let (volumes, ms) = self.points.last().copied().unwrap_or_default();
        let time = Time(Duration::from_secs_f64(ms / 1e3));
        match self.exponent {
            Some(exponent) if exponent >= EXPONENT_MIN => {
                format!("{} grows with n^{exponent:.1}: {time} for {volumes} volumes", self.rpc)
            }
            _ => format!("{} takes {time} for {volumes} volumes", self.rpc),
        }
    }

    pub(crate) fn violation(&self) -> Option<Violation> {
        let last = self.points.last()?.1;
        self.exponent.filter(|exponent| *exponent > EXPONENT_MAX && last >= milliseconds(WORTH_A_WORD))?;
        let points =
            self.points.iter().map(|(volumes, ms)| format!("{volumes}: {ms:.1} ms")).collect::<Vec<_>>();
        Some(
            Violation::new(format!("the time of {} grows faster than the number of volumes", self.rpc))
                .of(&LOAD_006)
                .expected("time in proportion to the number of volumes")
                .actual(format!("{} ({})", self.text(), points.join(", "))),
        )
    }
}

/// The power with which times grow from the first to the last one.
fn exponent(points: &[(usize, f64)]) -> Option<f64> {
    let (first, last) = (points.first()?.1, points.last()?.1);
    let logs: Vec<(f64, f64)> =
        points.iter().map(|(volumes, ms)| (((*volumes).max(1) as f64).ln(), ms.max(1e-3).ln())).collect();
    // At first, most of the time goes into the call itself.
    let large = &logs[logs.len().saturating_sub(4)..];
    let has_grown = last >= milliseconds(WORTH_A_NUMBER) && last >= first * HAS_GROWN;
    (large.len() >= 3 && (last >= milliseconds(WORTH_A_WORD) || has_grown)).then(|| slope(large).max(0.0))
}

/// The rate of life cycles by the number of callers, as far as a stage with more and more callers shows it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Callers from which on the rate hardly rises: most of what others add is waiting.
    pub callers: u64,
    /// Life cycles that ended in each second with so many callers.
    pub per_second: f64,
    /// Callers with which the rate was highest.
    pub callers_at_highest: u64,
    /// The highest rate.
    pub highest_per_second: f64,
}

impl Knee {
    /// Finds it by the number of life cycles under way, the seconds with so many, and how many ended in them. `None` if their number did
    /// not rise enough to say.
    pub(crate) fn of(under_way: &[(u64, f64, u64)]) -> Option<Knee> {
        // Neighbouring numbers are joined until they were there for long enough: callers, seconds, life cycles that ended.
        let mut joined: Vec<(u64, f64, u64)> = Vec::new();
        for (callers, seconds, ended) in under_way.iter().copied().filter(|(callers, ..)| *callers > 0) {
            match joined.last_mut().filter(|last| last.1 < KNEE_SECONDS_MIN || last.2 < KNEE_CYCLES_MIN) {
                Some(last) => *last = (callers, last.1 + seconds, last.2 + ended),
                None => joined.push((callers, seconds, ended)),
            }
        }
        // The last ones may be too few.
        joined.retain(|(_, seconds, ended)| *seconds >= KNEE_SECONDS_MIN && *ended >= KNEE_CYCLES_MIN);
        let rate = |(_, seconds, ended): &(u64, f64, u64)| *ended as f64 / seconds;
        let (first, last) = (joined.first()?, joined.last()?);
        if joined.len() < KNEE_NUMBERS_MIN || last.0 < first.0 * KNEE_CALLERS_TIMES {
            return None;
        }
        let highest = joined.iter().max_by(|one, other| rate(one).total_cmp(&rate(other)))?;
        let knee = joined.iter().find(|one| rate(one) >= rate(highest) * KNEE_OF_HIGHEST)?;
        Some(Knee {
            callers: knee.0,
            per_second: rate(knee),
            callers_at_highest: highest.0,
            highest_per_second: rate(highest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(time_us: impl Fn(u64) -> u64) -> Cost {
        let points = [31, 62, 125, 250, 500, 1_000].map(|n| (n as usize, time_us(n) as f64 / 1e3));
        Cost::new("ListVolumes", points.to_vec()).unwrap()
    }

    #[test]
    fn only_a_cost_above_the_proportion_is_remarked_on() {
        let quadratic = cost(|n| 300 + n * n / 5);
        assert!(quadratic.text().starts_with("ListVolumes grows with n^2.0"), "{}", quadratic.text());
        assert!(quadratic.violation().is_some());
        assert_eq!(cost(|n| 500 + 40 * n).violation(), None);
        // Every time that the number doubles, a call takes three times as long.
        let busy = cost(|n| 10_000 * 3_u64.pow((n / 31).ilog2()));
        assert!(busy.exponent > Some(1.5) && busy.violation().is_none(), "{busy:?}");
        let short = cost(|n| 500 + n * n / 200);
        assert!(short.exponent > Some(1.0), "{short:?}");
        assert_eq!(short.violation(), None, "5 ms depend on the machine");
        assert_eq!(cost(|n| 300 + n / 2).exponent, None);
        assert_eq!(cost(|_| 30_000).text(), "ListVolumes takes 30.0ms for 1000 volumes");
        assert_eq!(Cost::new("ListVolumes", Vec::new()), None);
    }

    #[test]
    fn a_busy_moment_is_not_the_cost() {
        let mut busy = cost(|n| match n {
            500 => 80_000,
            1_000 => 300_000,
            _ => 40 * n,
        });
        busy.timed_again(400.0);
        assert!(busy.violation().is_some(), "{busy:?}");
        busy.timed_again(40.0);
        assert_eq!((busy.violation(), busy.points.last()), (None, Some(&(1_000, 40.0))));
    }

    /// Each number of callers is there for a second, in which 40 life cycles end at most.
    #[test]
    fn callers_that_only_wait_begin_at_the_knee() {
        let under_way = |callers: u64| (callers, 1.0, (callers * 10).min(40));
        let all: Vec<_> = (0..=32).map(under_way).collect();
        let knee = Knee::of(&all).unwrap();
        assert_eq!((knee.callers, knee.per_second, knee.highest_per_second), (4, 40.0, 40.0));
        assert_eq!(Knee::of(&all[..4]), None, "three callers say nothing of more");
        let short: Vec<_> = all.iter().map(|(callers, _, ended)| (*callers, 0.01, *ended)).collect();
        assert_eq!(Knee::of(&short), None);
    }
}
