//! How long a check of these suites goes on.

use std::time::{Duration, Instant};

use csi_harness::prelude::*;

use crate::reported::Reported;

/// Runs of checks that `--budget` is divided among.
const SHARES: u32 = 8;
/// Part of the time of a check that is left for undoing, shrinking and looking twice.
const SPARE: f64 = 0.25;
/// Part of the time for looking that is there for making small what was found.
const SHRINKING: f64 = 0.5;

/// When a check ends: after so many tries, or so much time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    started: Instant,
    limit: Duration,
    tries_max: u32,
    /// With so many tries a quarter of the time is enough, and with half of them half of it.
    enough: u32,
    /// What there is beyond it to make small what was found late.
    rest: Duration,
}

impl Budget {
    /// For a check that tries so many times unless the user has given a time.
    pub(crate) fn new(cx: &Cx, tries: u32) -> Budget {
        let effort = &cx.config().effort;
        let (limit, tries_max) = match effort.budget_ms {
            Some(budget_ms) => (Duration::from_millis(budget_ms) / SHARES, u32::MAX),
            None => (Duration::from_millis(effort.check_budget_ms), tries),
        };
        Budget::of(cx, limit, tries_max)
    }

    fn of(cx: &Cx, limit: Duration, tries_max: u32) -> Budget {
        let limit = limit.min(cx.remaining().mul_f64(1.0 - SPARE));
        let rest = limit.mul_f64(SHRINKING).min((cx.remaining() - limit) / 2);
        Budget { started: Instant::now(), limit, tries_max, enough: u32::MAX, rest }
    }

    /// The same for tries at random, each of which finds less than the one before: of so many, nearly all of it.
    pub(crate) fn at_random(cx: &Cx, tries: u32, enough: u32) -> Budget {
        let enough = if cx.config().effort.budget_ms.is_some() { u32::MAX } else { enough };
        Budget { enough, ..Budget::new(cx, tries) }
    }

    /// For calls that are made again: all the time that the check has.
    pub(crate) fn whole(cx: &Cx) -> Budget {
        Budget::of(cx, cx.remaining(), 1)
    }

    /// When nothing more is begun to make small what was found now: something is left for what may be found yet, so that all
    /// faults together take no longer than this.
    pub(crate) fn shrink_until(&self) -> Instant {
        let now = Instant::now();
        let left = (self.until() + self.rest).saturating_duration_since(now);
        now + self.limit.mul_f64(SHRINKING).min(left / 2)
    }

    /// When nothing new is begun any more.
    pub(crate) fn until(&self) -> Instant {
        self.started + self.limit
    }

    /// Says that a try begins, after so many.
    pub(crate) fn tell_stage(&self, cx: &Cx, what: &'static str, tries: u32) {
        let of = Some(self.tries_max).filter(|most| *most < u32::MAX);
        cx.stage(what, u64::from(tries) + 1, of.map(u64::from));
    }

    /// Whether there is to be another try after so many.
    pub(crate) fn goes_on(&self, tries: u32) -> bool {
        let limit = match tries {
            _ if tries >= self.enough => self.limit / 4,
            _ if tries >= self.enough / 2 => self.limit / 2,
            _ => self.limit,
        };
        tries < self.tries_max && self.started.elapsed() < limit
    }

    /// Says how far it came, if time ran out or was what counts; what the tries do is chosen at random, one apart from the
    /// other, and all of them were right.
    pub(crate) fn tell_at_random(&self, cx: &Cx, told: &Reported, tries: u32, what: &str) {
        match rarest(tries).filter(|_| self.tries_max == u32::MAX && told.is_all_right()) {
            Some(rarest) => cx.note(format!(
                "{tries} {what} in {} s, all right: what goes wrong 1 time in {rarest} would have been seen with a probability of \
                 95 %; for 1 time in {} run ten times as long, --budget {}s",
                self.started.elapsed().as_secs(),
                rarest * 10,
                (self.limit * SHARES * 10).as_secs(),
            )),
            None => self.tell(cx, tries, what),
        }
    }

    /// Says how far it came, if time ran out or was what counts.
    pub(crate) fn tell(&self, cx: &Cx, tries: u32, what: &str) {
        if self.tries_max == u32::MAX {
            let what = if tries == 1 { what.trim_end_matches('s') } else { what };
            cx.note(format!("{tries} {what} in {} s", self.started.elapsed().as_secs()));
        } else if tries < self.tries_max {
            let (most, seconds) = (self.tries_max, self.started.elapsed().as_secs());
            cx.note(format!("{tries} of {most} {what}: the time for it was over after {seconds} s"));
        }
    }
}

/// The rarest fault, as one in so many tries, that so many would have shown with a probability of 95 %. For many that is a
/// third of their number, the rule of three. `None` of so few that a fault in every second try could have gone unseen.
fn rarest(tries: u32) -> Option<u64> {
    if tries == 0 {
        return None;
    }
    let unseen: f64 = 0.05;
    let per_try = 1.0 - unseen.powf(1.0 / f64::from(tries));
    let one_in = (1.0 / per_try).floor() as u64;
    (one_in >= 2).then_some(one_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_late_or_often_takes_no_more_time_in_all() {
        let (limit, rest) = (Duration::from_secs(40), Duration::from_secs(20));
        let at = |elapsed: u64| {
            let started = Instant::now().checked_sub(Duration::from_secs(elapsed)).expect("a clock");
            Budget { started, limit, tries_max: 1, enough: 1, rest }
        };
        // The first fault has half of the time for looking, and each later one leaves something for the next.
        let mut now = 0;
        while now < 60 {
            let budget = at(now);
            let until = budget.shrink_until().saturating_duration_since(budget.started);
            assert!(until <= limit + rest, "{until:?}");
            assert!(until <= Duration::from_secs(now) + limit.mul_f64(SHRINKING) + Duration::from_secs(1));
            now = until.as_secs() + 1;
        }
        let late = at(70);
        assert!(late.shrink_until() <= Instant::now(), "it is over");
    }

    #[test]
    fn what_many_tries_would_have_shown_is_a_third_of_their_number() {
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
