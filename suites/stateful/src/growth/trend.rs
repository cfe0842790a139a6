//! Decides if the resources of a driver grow with the number of calls.

use csi_harness::resources::usage::{Resource, Usage};

/// Growth that has other reasons, such as connections, workers of a pool, and memory that an allocator keeps.
const SPARE: f64 = 8.0;
const SPARE_BYTES: f64 = (2 << 20) as f64;
/// Looks between which nothing may have grown, of all: what is let go now and then is let go.
const PAUSES_MAX: usize = 1;
/// A leak grows in the second half nearly as fast as in the first. A cache levels off.
const STEADY: f64 = 0.6;
/// A leak grows again when everything is repeated, nearly as fast.
const SAME: f64 = 0.5;

/// A look at the driver after a number of rounds.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) rounds: u64,
    pub(crate) usage: Usage,
}

/// The growth of a resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Growth {
    pub(crate) resource: Resource,
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) rounds: u64,
}

impl Growth {
    pub(crate) fn per_round(&self) -> f64 {
        (self.after as f64 - self.before as f64) / self.rounds.max(1) as f64
    }

    /// The amount by which it has grown.
    pub(crate) fn amount(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }

    /// The growth including later rounds.
    pub(crate) fn and(self, later: &Growth) -> Growth {
        Growth { after: later.after, rounds: self.rounds + later.rounds, ..self }
    }

    /// Returns true if the earlier growth is seen again.
    pub(crate) fn is_again(&self, before: &Growth) -> bool {
        self.resource == before.resource && self.per_round() >= before.per_round() * SAME
    }
}

/// The resources that grow from look to look.
pub(crate) fn growing(samples: &[Sample]) -> Vec<Growth> {
    // Sockets are counted as files, too.
    let found: Vec<Growth> = Resource::ALL.into_iter().filter_map(|one| growth(samples, one)).collect();
    let has = |resource| found.iter().any(|growth: &Growth| growth.resource == resource);
    let is_separate = |growth: &&Growth| match growth.resource {
        Resource::Files => !has(Resource::Sockets),
        _ => true,
    };
    found.iter().filter(is_separate).copied().collect()
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
        // The resource grows by one in fifty rounds, and one look between saw no growth.
        assert_eq!(growing(&samples(&[10, 12, 14, 14, 17, 18, 20], Resource::Files)).len(), 1);
    }

    #[test]
    fn what_levels_off_comes_and_goes_or_is_little_does_not() {
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
}
