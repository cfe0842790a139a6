//! How long a check of these suites goes on.

use std::time::{Duration, Instant};

use csi_harness::prelude::*;

/// Runs of checks that `--budget` is divided among.
const SHARES: u32 = 8;
/// Part of the time of a check that is left for undoing, shrinking and looking twice.
const SPARE: f64 = 0.25;

/// When a check ends: after so many tries, or so much time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    started: Instant,
    limit: Duration,
    tries_max: u32,
}

impl Budget {
    /// For a check that tries so many times unless the user has given a time.
    pub(crate) fn new(cx: &Cx, tries: u32) -> Budget {
        let effort = &cx.config().effort;
        let (limit, tries_max) = match effort.budget_ms {
            Some(budget_ms) => (Duration::from_millis(budget_ms) / SHARES, u32::MAX),
            None => (Duration::from_millis(effort.check_budget_ms), tries),
        };
        Budget { started: Instant::now(), limit: limit.min(cx.remaining().mul_f64(1.0 - SPARE)), tries_max }
    }

    /// When nothing new is begun any more.
    pub(crate) fn until(&self) -> Instant {
        self.started + self.limit
    }

    /// Whether there is to be another try after so many.
    pub(crate) fn goes_on(&self, tries: u32) -> bool {
        tries < self.tries_max && Instant::now() < self.until()
    }

    /// Says how far it came, if time ran out or was what counts.
    pub(crate) fn tell(&self, cx: &Cx, tries: u32, what: &str) {
        if self.tries_max == u32::MAX {
            cx.note(format!("{tries} {what} in {} s", self.started.elapsed().as_secs()));
        } else if tries < self.tries_max {
            let (most, seconds) = (self.tries_max, self.limit.as_secs());
            cx.note(format!("{tries} of {most} {what}: the time for it, {seconds} s, was over"));
        }
    }
}
