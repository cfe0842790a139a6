//! Judges whether the resources that a driver takes up grow with the number of calls.

use crate::resources::usage::{Resource, Usage};

/// Growth that has other reasons, such as connections, workers of a pool, and memory that an allocator keeps.
const SPARE: f64 = 8.0;
const SPARE_BYTES: f64 = (2 << 20) as f64;
/// Pairs of looks between which nothing may have grown: a resource that is released now and then levels off.
const PAUSES_MAX: usize = 1;
/// A leak grows nearly as fast in the second half as in the first. Anything else levels off.
const STEADY: f64 = 0.6;
/// A leak grows nearly as fast when everything is done once more.
const SAME: f64 = 0.5;
/// The score of the Mann-Kendall test from which on a trend is no accident: one series in 30,000 without a trend has it.
const SCORE_MIN: f64 = 4.0;
/// Looks that a trend needs.
const LOOKS_MIN: usize = 10;

/// A look at the driver after so many rounds.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The rounds before it.
    pub rounds: u64,
    /// The resources that the driver took up.
    pub usage: Usage,
}

/// A resource that grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// The resource.
    pub resource: Resource,
    /// The amount at the first look.
    pub before: u64,
    /// The amount at the last look.
    pub after: u64,
    /// The rounds between them.
    pub rounds: u64,
}

impl Growth {
    /// The amount that comes with each round.
    pub fn per_round(&self) -> f64 {
        (self.after as f64 - self.before as f64) / self.rounds.max(1) as f64
    }

    /// The amount that has come.
    pub fn amount(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }

    /// This growth and a later one as one.
    #[must_use]
    pub fn and(self, later: &Growth) -> Growth {
        Growth { after: later.after, rounds: self.rounds + later.rounds, ..self }
    }

    /// Returns true if this is more of an earlier growth.
    pub fn is_again(&self, before: &Growth) -> bool {
        self.resource == before.resource && self.per_round() >= before.per_round() * SAME
    }
}

/// The resources that grow from look to look, while only one thing is done between them.
pub fn growing(samples: &[Sample]) -> Vec<Growth> {
    without_parts(Resource::ALL.into_iter().filter_map(|one| growth(samples, one)).collect())
}

/// The resources that grow while many things are done at once, so that their amounts go up and down: by the Mann-Kendall test, and
/// by the slope of Theil and Sen, which one odd look does not change.
pub fn rising(samples: &[Sample]) -> Vec<Growth> {
    without_parts(Resource::ALL.into_iter().filter_map(|one| rise(samples, one)).collect())
}

fn rise(samples: &[Sample], resource: Resource) -> Option<Growth> {
    let points =
        samples.iter().map(|sample| Some((sample.rounds as f64, sample.usage.get(resource)? as f64)));
    let points: Vec<(f64, f64)> = points.collect::<Option<_>>()?;
    let (first, last) = (points.first()?, points.last()?);
    let rounds = last.0 - first.0;
    let (early, late) = points.split_at(points.len() / 2);
    let [whole, early, late] = [&points[..], early, late].map(slope);
    let spare = if resource.is_bytes() { SPARE_BYTES } else { SPARE };
    let is_rise = points.len() >= LOOKS_MIN
        && mann_kendall(points.iter().map(|(_, amount)| *amount)) >= SCORE_MIN
        && whole * rounds >= spare
        && late >= early * STEADY;
    let before =
        points.iter().take(points.len() / 4).map(|(_, amount)| *amount).fold(f64::INFINITY, f64::min);
    is_rise.then_some(Growth {
        resource,
        before: before as u64,
        after: (before + whole * rounds) as u64,
        rounds: rounds as u64,
    })
}

/// The score of the Mann-Kendall test: how many standard deviations the number of pairs that rise exceeds the number that fall by. Equal
/// pairs count as neither.
pub fn mann_kendall(values: impl IntoIterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.into_iter().collect();
    let signs = values.iter().enumerate().flat_map(|(at, one)| {
        values[at + 1..].iter().map(move |other| f64::from(i8::from(other > one) - i8::from(other < one)))
    });
    let sum: f64 = signs.sum();
    let variance_of = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    let mut sorted = values.clone();
    sorted.sort_by(f64::total_cmp);
    let ties: f64 = sorted.chunk_by(|one, other| one == other).map(|tie| variance_of(tie.len() as f64)).sum();
    let deviation = (variance_of(values.len() as f64) - ties).max(0.0).sqrt();
    if deviation == 0.0 { 0.0 } else { (sum - sum.signum()) / deviation }
}

/// The slope of Theil and Sen: the median of the slopes between all pairs of points.
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let pairs = points.iter().enumerate().flat_map(|(at, one)| {
        points[at + 1..].iter().map(move |other| ((other.0 - one.0), (other.1 - one.1)))
    });
    let mut slopes: Vec<f64> = pairs.filter(|(run, _)| *run > 0.0).map(|(run, rise)| rise / run).collect();
    let middle = slopes.len() / 2;
    if slopes.is_empty() { 0.0 } else { *slopes.select_nth_unstable_by(middle, f64::total_cmp).1 }
}

/// Leaves out files where sockets grow: a socket is a file, too.
fn without_parts(found: Vec<Growth>) -> Vec<Growth> {
    let has = |resource| found.iter().any(|growth: &Growth| growth.resource == resource);
    let is_whole = |growth: &&Growth| growth.resource != Resource::Files || !has(Resource::Sockets);
    found.iter().filter(is_whole).copied().collect()
}

fn growth(samples: &[Sample], resource: Resource) -> Option<Growth> {
    let points = samples.iter().map(|sample| Some((sample.rounds, sample.usage.get(resource)?)));
    let points: Vec<(u64, u64)> = points.collect::<Option<_>>()?;
    let (first, last) = (*points.first()?, *points.last()?);
    let of = |(from, to): ((u64, u64), (u64, u64))| Growth {
        resource,
        before: from.1,
        after: to.1,
        rounds: to.0.saturating_sub(from.0),
    };
    let whole = of((first, last));
    let spare = if resource.is_bytes() { SPARE_BYTES } else { SPARE };
    if (last.1 as f64) < first.1 as f64 + spare {
        return None;
    }
    let pauses = points.windows(2).filter(|pair| pair[1].1 <= pair[0].1).count();
    let middle = points[points.len() / 2];
    let [early, late] = [(first, middle), (middle, last)].map(|half| of(half).per_round());
    (pauses <= PAUSES_MAX && late >= early * STEADY).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(amounts: &[u64], resource: Resource) -> Vec<Sample> {
        let sample = |(at, amount): (usize, &u64)| {
            let usage = Usage::from_amounts([(resource, *amount)]);
            Sample { rounds: 100 * at as u64, usage }
        };
        amounts.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn what_is_added_each_time_grows() {
        let grown = growing(&samples(&[10, 110, 210, 310, 410, 510, 610], Resource::Threads));
        let [growth] = grown[..] else { panic!("{grown:?}") };
        assert_eq!((growth.per_round(), growth.before, growth.after), (1.0, 10, 610));
        assert!(growth.is_again(&growth));
        // One round in fifty leaks, and one of the intervals shows no growth.
        assert_eq!(growing(&samples(&[10, 12, 14, 14, 17, 18, 20], Resource::Files)).len(), 1);
    }

    #[test]
    fn resources_that_level_off_do_not_grow() {
        let mib = |amounts: &[u64]| {
            samples(&amounts.iter().map(|one| one << 20).collect::<Vec<_>>(), Resource::Memory)
        };
        for quiet in [
            samples(&[10, 210, 300, 330, 335, 335, 335], Resource::Threads),
            samples(&[10, 60, 20, 70, 20, 80, 30], Resource::Files),
            samples(&[10, 11, 12, 13, 14, 15, 16], Resource::Files),
            mib(&[20, 40, 60, 30, 50, 70, 35]),
            mib(&[20, 30, 36, 39, 40, 40, 41]),
            mib(&[20, 20, 21, 21, 21, 21, 21]),
        ] {
            assert_eq!(growing(&quiet), Vec::new(), "{quiet:?}");
        }
    }

    #[test]
    fn a_socket_is_not_reported_as_a_file_as_well() {
        let sample = |at: u64| {
            let usage = Usage::from_amounts([(Resource::Files, 10 + at), (Resource::Sockets, at)]);
            Sample { rounds: at, usage }
        };
        let grown = growing(&[0, 100, 200, 300].map(sample));
        assert_eq!(grown.iter().map(|one| one.resource).collect::<Vec<_>>(), [Resource::Sockets]);
    }

    #[test]
    fn a_trend_shows_in_noise_and_noise_is_no_trend() {
        let noise = [0, 5, 2, 7, 1, 4, 6, 3, 0, 5, 2, 7, 1, 4, 6, 3, 0, 5, 2, 7];
        let with = |per_look: u64| -> Vec<u64> {
            noise.iter().zip(0..).map(|(noise, at)| 50 + noise + per_look * at).collect()
        };
        let [growth] = rising(&samples(&with(2), Resource::Files))[..] else { panic!("a leak is found") };
        assert!((0.015..0.025).contains(&growth.per_round()), "{growth:?}");
        for quiet in [
            with(0),
            noise.iter().zip(0..).map(|(noise, at)| 50 + noise + 40 * u64::min(at, 5)).collect(),
            [1, 2, 3, 4, 5].map(|at| 100 * at).to_vec(),
        ] {
            assert_eq!(rising(&samples(&quiet, Resource::Files)), Vec::new(), "{quiet:?}");
        }
    }

    #[test]
    fn the_score_and_the_slope_are_those_of_the_textbook() {
        // 10 values that only rise: S is 45, and its variance 125.
        let score = mann_kendall((0..10).map(f64::from));
        assert!((score - 44.0 / 125_f64.sqrt()).abs() < 1e-9, "{score}");
        assert_eq!((mann_kendall([3.0; 9]), mann_kendall([])), (0.0, 0.0));
        let odd = [(0.0, 1.0), (1.0, 3.0), (2.0, 5.0), (3.0, 7.0), (4.0, 900.0)];
        assert_eq!((slope(&odd), slope(&odd[..1])), (2.0, 0.0));
    }
}
