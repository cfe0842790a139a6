//! The loop of every controller: it finds objects that need work, and works on each in its own task.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::shared::Shared;
use super::store::Objects;

/// The pauses between failures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
}

/// The pauses of the sidecars.
pub(super) const SIDECAR: Backoff =
    Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(300) };
/// The pauses of kubelet for each volume.
pub(super) const KUBELET: Backoff =
    Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(122) };

impl Backoff {
    /// Returns the pause after a number of consecutive failures.
    pub(super) fn pause(self, failures: u32) -> Duration {
        let doubled = 2_u32.checked_pow(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(doubled).min(self.longest)
    }
}

/// The result of the work on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// The work is done, or the component gave up.
    Done,
    /// The work has to be repeated.
    Again,
}

impl Work {
    /// Returns the result of a failure: the work ends if there is a reason to give up.
    pub(super) fn after(given_up: Option<&String>) -> Work {
        if given_up.is_some() { Work::Done } else { Work::Again }
    }
}

/// Works on the objects that `wanted` returns without end, in one task each, with pauses that grow after failures.
pub(super) async fn work<K, F>(
    shared: Arc<Shared>,
    wanted: impl Fn(&Objects) -> Vec<K>,
    work: impl Fn(Arc<Shared>, K) -> F,
) where
    K: Ord + Clone + Send + 'static,
    F: Future<Output = Work> + Send + 'static,
{
    let mut changes = shared.store.subscribe();
    let mut running = JoinSet::new();
    let mut busy = BTreeSet::new();
    let mut failing: BTreeMap<K, (u32, Instant)> = BTreeMap::new();
    loop {
        changes.borrow_and_update();
        let now = Instant::now();
        for key in shared.store.look(&wanted) {
            let rests = failing.get(&key).is_some_and(|(_, until)| *until > now);
            if !rests && busy.insert(key.clone()) {
                let work = work(shared.clone(), key.clone());
                running.spawn(async move { (key, work.await) });
            }
        }
        let next = failing.values().map(|(_, until)| *until).filter(|until| *until > now).min();
        let rest = async {
            match next {
                Some(next) => tokio::time::sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(Ok((key, ended))) = running.join_next() => {
                busy.remove(&key);
                match ended {
                    Work::Done => {
                        failing.remove(&key);
                    }
                    Work::Again => {
                        let failures = failing.get(&key).map_or(0, |(failures, _)| *failures) + 1;
                        failing.insert(key, (failures, Instant::now() + SIDECAR.pause(failures)));
                    }
                }
            }
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = rest => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let seconds: Vec<u64> = (1..=10).map(|failures| SIDECAR.pause(failures).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(KUBELET.pause(1), Duration::from_millis(500));
        assert_eq!(KUBELET.pause(100), Duration::from_secs(122));
    }
}
