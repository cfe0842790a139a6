use std::time::Duration;

use csi_harness::prelude::{Stop, Violation};
use futures_util::future::join_all;
use tokio::time::Instant;

use super::Scene;
use crate::cluster::Done;

/// The time after which a wait is reported.
const REPORTED_AFTER: Duration = Duration::from_secs(30);
/// The time after which a test reports one of its waits again.
const SAID_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The result of reading the cluster.
#[derive(Debug)]
pub(crate) enum Seen<T> {
    /// The wait is over.
    There(T),
    /// The wait continues for this reason.
    NotYet(String),
    /// The wait cannot succeed any more for this reason.
    Never(String),
}

impl Scene {
    /// Repeats a read until it succeeds. `what` describes the result, as in "the claim is bound".
    ///
    /// # Errors
    /// A violation if it does not succeed in time, or cannot succeed any more.
    pub(crate) async fn until<T, F>(
        &self,
        what: &str,
        limit: Duration,
        mut look: impl FnMut() -> F,
    ) -> Done<T>
    where
        F: Future<Output = Done<Seen<T>>>,
    {
        let started = Instant::now();
        loop {
            let changed = self.cluster().changed();
            let why = match look().await? {
                Seen::There(there) => return Ok(there),
                Seen::Never(why) => return Err(late(what, why)),
                Seen::NotYet(why) => why,
            };
            let left = limit.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Err(late(what, format!("not after {} s: {why}", limit.as_secs())));
            }
            if started.elapsed() >= REPORTED_AFTER && self.is_report_due() {
                self.say_what_is_waited_for(what, &why, left);
            }
            // The next read shows whether something changed.
            let _ = tokio::time::timeout(left, changed).await;
        }
    }

    /// Returns true if a report is due, which the caller makes then.
    fn is_report_due(&self) -> bool {
        let mut last_said = self.last_said.lock();
        let is_due = last_said.is_none_or(|last_said| last_said.elapsed() >= SAID_AGAIN_AFTER);
        if is_due {
            *last_said = Some(Instant::now());
        }
        is_due
    }

    fn say_what_is_waited_for(&self, what: &str, why: &str, left: Duration) {
        let left_s = left.as_secs();
        (self.say)(&format!("{}: waiting, up to {left_s} s more, until {what}; {why}", self.cx.label()));
    }

    /// Checks that something stays unchanged for a while. `look` returns the reason if it does not.
    ///
    /// # Errors
    /// A violation as soon as it changes.
    pub(crate) async fn stays<F>(&self, what: &str, limit: Duration, mut look: impl FnMut() -> F) -> Done
    where
        F: Future<Output = Done<Option<String>>>,
    {
        let started = Instant::now();
        loop {
            let changed = self.cluster().changed();
            if let Some(why) = look().await? {
                return Err(late(what, why));
            }
            let left = limit.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            let _ = tokio::time::timeout(left, changed).await;
        }
    }
}

/// Runs all steps concurrently, and waits for all of them even if some fail.
///
/// # Errors
/// Fails with the first error in the given order.
pub(crate) async fn all<T>(steps: impl IntoIterator<Item = impl Future<Output = Done<T>>>) -> Done<Vec<T>> {
    join_all(steps).await.into_iter().collect()
}

fn late(what: &str, why: String) -> Stop {
    Violation::new(format!("{what}: this does not happen")).expected(what).actual(why).into()
}
