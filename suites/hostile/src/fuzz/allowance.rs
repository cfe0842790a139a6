//! Divides the time and inputs of one run among its checks. The unused part of a check is left to the later ones.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The smallest time of a check, so that no RPC is left out because others were slow.
const SHARE_MIN: Duration = Duration::from_millis(250);

/// The remaining time and inputs, which all checks of a run share; they take their parts one after the other.
#[derive(Clone, Debug)]
pub struct Allowance(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    duration: Duration,
    /// The end, which is set when the first check begins.
    until: OnceLock<Instant>,
    inputs_left: AtomicU64,
    checks_left: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct InputLimits {
    /// The time after which the check sends nothing new.
    pub(crate) until: Instant,
    /// The limit on the check's inputs.
    pub(crate) inputs_max: u64,
}

impl Allowance {
    pub fn new(duration: Duration, inputs: u64) -> Allowance {
        let (inputs_left, checks_left) = (AtomicU64::new(inputs), AtomicU64::new(1));
        Allowance(Arc::new(Inner { duration, until: OnceLock::new(), inputs_left, checks_left }))
    }

    /// Sets the number of checks that share it.
    pub fn among(&self, checks: u64) {
        self.0.checks_left.store(checks, Ordering::Relaxed);
    }

    /// Returns the share of the next check: the rest, divided among the checks that have not begun. It is `None` once
    /// the time is over, because even a short check takes some time, and many of them would exceed the user's limit.
    pub(crate) fn take(&self) -> Option<InputLimits> {
        let until = *self.0.until.get_or_init(|| Instant::now() + self.0.duration);
        let checks = self
            .0
            .checks_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(1)));
        let checks = u32::try_from(checks.unwrap_or(1).max(1)).unwrap_or(u32::MAX);
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        let inputs_max = self.0.inputs_left.load(Ordering::Relaxed).div_ceil(u64::from(checks));
        Some(InputLimits { until: Instant::now() + (left / checks).max(SHARE_MIN), inputs_max })
    }

    /// Subtracts the inputs that a check sent.
    pub(crate) fn used(&self, inputs: u64) {
        self.0
            .inputs_left
            .fetch_sub(inputs.min(self.0.inputs_left.load(Ordering::Relaxed)), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_leaves_the_others_have() {
        let allowance = Allowance::new(Duration::from_secs(100), 1_000);
        allowance.among(4);
        let first = allowance.take().unwrap();
        assert_eq!(first.inputs_max, 250);
        assert!(first.until.saturating_duration_since(Instant::now()) <= Duration::from_secs(25));
        allowance.used(10);
        assert_eq!(allowance.take().unwrap().inputs_max, 330);
        allowance.used(330);
        let third = allowance.take().unwrap();
        assert_eq!(third.inputs_max, 330);
        assert!(third.until.saturating_duration_since(Instant::now()) > Duration::from_secs(45));
        allowance.used(10_000);
        assert_eq!(allowance.take().unwrap().inputs_max, 0);
        assert_eq!(allowance.take().unwrap().inputs_max, 0, "nobody else is expected");
    }

    #[test]
    fn nothing_begins_when_the_time_is_over() {
        let allowance = Allowance::new(Duration::ZERO, 1_000);
        allowance.among(4);
        assert!(allowance.take().is_none());
    }
}
