//! The amount of work that a check of these suites does. It depends on the settings alone, so that a driver gets one
//! verdict on any machine. Time is only a ceiling.

use std::time::Instant;

use csi_harness::prelude::*;
use fastrand::Rng;

/// Part of the time of a check that is left for undoing and looking twice.
const SPARE: f64 = 0.25;

/// The tries of a check: first those that are equal in every run, then random ones.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    fixed: u32,
    random: u32,
    seed: u64,
    until: Instant,
}

impl Budget {
    /// A budget with this many tries that are equal in every run, and this many random ones, which `--budget`
    /// multiplies.
    pub(crate) fn new(cx: &Cx, fixed: usize, random: u32) -> Budget {
        let effort = &cx.config().effort;
        let fixed = u32::try_from(fixed).unwrap_or(u32::MAX);
        let random = if random == 0 { 0 } else { effort.scaled(random) };
        let until = Instant::now() + effort.ceiling().min(cx.remaining().mul_f64(1.0 - SPARE));
        Budget { fixed, random, seed: cx.rng().u64(..), until }
    }

    /// So many random tries for a user who asks for more with `--budget`, and none otherwise.
    pub(crate) fn more(cx: &Cx, random: u32) -> u32 {
        if cx.config().effort.budget_ms.is_some() { random } else { 0 }
    }

    fn tries(&self) -> u32 {
        self.fixed.saturating_add(self.random)
    }

    /// The time after which nothing more is begun, however much is left to do.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// The seed of the random tries.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Begins another try after `done` of them, unless the work is done or the ceiling is met. The try is shown as the
    /// progress of the check.
    pub(crate) fn begins(&self, cx: &Cx, what: &'static str, done: u32) -> bool {
        let begins = self.goes_on(done);
        if begins {
            cx.stage(what, u64::from(done) + 1, Some(self.tries().into()));
        }
        begins
    }

    fn goes_on(&self, done: u32) -> bool {
        done < self.tries() && Instant::now() < self.until
    }

    /// Returns true if the try after `done` of them depends on the seed of the run.
    pub(crate) fn is_random(&self, done: u32) -> bool {
        done >= self.fixed
    }

    /// The random choices of the try after `done` of them. Those of a fixed try do not depend on the seed of the run.
    pub(crate) fn rng(&self, done: u32) -> Rng {
        let seed = if self.is_random(done) { self.seed } else { 0 };
        Rng::with_seed(seed.wrapping_add(done.into()))
    }

    /// Reports how much was done, if the ceiling left something undone.
    pub(crate) fn end(&self, cx: &Cx, done: u32, what: &str) {
        if done < self.tries() && Instant::now() >= self.until {
            cx.cut_short(done.into(), self.tries().into(), what);
        }
    }

    /// Notes for a user of `--budget`, all of whose tries were right, which faults they would have shown.
    pub(crate) fn note_chances(&self, cx: &Cx, done: u32, what: &str) {
        if let Some(rarest) = rarest(done).filter(|_| cx.config().effort.budget_ms.is_some()) {
            cx.note(format!(
                "{done} {what} found nothing wrong: a fault that shows in 1 of {rarest} would have been found with a probability of 95 %"
            ));
        }
    }
}

/// The rarest fault, as one in this many tries, that `tries` tries would have shown with a probability of 95 %. For
/// many tries that is a third of their number, the rule of three. `None` if a fault in every second try could have gone
/// unseen.
fn rarest(tries: u32) -> Option<u64> {
    let unseen: f64 = 0.05;
    let per_try = 1.0 - unseen.powf(1.0 / f64::from(tries));
    let one_in = (1.0 / per_try).floor() as u64;
    (one_in >= 2).then_some(one_in)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Before, a check ended earlier the longer its tries took, long before any limit.
    #[test]
    fn the_number_of_tries_does_not_depend_on_time() {
        let budget = |seed, left| Budget { fixed: 64, random: 64, seed, until: Instant::now() + left };
        let minute = Duration::from_secs(60);
        assert!((0..128).all(|done| budget(1, minute).goes_on(done)));
        assert!(!budget(1, minute).goes_on(128));
        assert!(!budget(1, Duration::ZERO).goes_on(0), "the ceiling is met");
    }

    #[test]
    fn only_random_tries_depend_on_the_seed() {
        let choices = |seed| {
            let budget = Budget { fixed: 2, random: 2, seed, until: Instant::now() };
            [0, 1, 2, 3].map(|done| budget.rng(done).u64(..))
        };
        let (one, other) = (choices(1), choices(1_000));
        assert_eq!(one[..2], other[..2]);
        assert!(one[2] != other[2] && one[3] != other[3]);
        assert_ne!(one[0], one[1]);
    }

    #[test]
    fn the_rarest_fault_that_tries_would_have_shown() {
        for tries in 0..5 {
            assert_eq!(rarest(tries), None, "a coin falls on one side four times with a probability of 6 %");
        }
        assert_eq!(rarest(5), Some(2));
        assert_eq!(rarest(256), Some(85));
        assert_eq!(rarest(3_000), Some(1001));
        for tries in [5, 59, 256, 100_000, u32::MAX] {
            let unseen = |one_in: u64| (1.0 - 1.0 / one_in as f64).powf(tries.into());
            let rarest = rarest(tries).unwrap_or_default();
            assert!(unseen(rarest) <= 0.05 + 1e-6, "{tries}: {rarest} is often seen");
            assert!(unseen(rarest + 1) > 0.05 - 1e-6, "{tries}: so is something rarer");
        }
    }
}
