//! How long this driver is waited for: what one check has learnt about it spares the others the same wait.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use csi_proto::Rpc;
use tokio::sync::watch;

/// Time limit of a call of an RPC that has never answered and has been silent once for all of its time.
const SILENT_LIMIT: Duration = Duration::from_secs(2);

/// What is known of the driver.
#[derive(Debug)]
pub(crate) struct Patience {
    silent_limit: Duration,
    answered: Mutex<BTreeSet<&'static str>>,
    /// RPCs that were waited for in vain and have never answered.
    silent: watch::Sender<BTreeSet<&'static str>>,
    /// RPCs that said "not now" for as long as a call is made again.
    unwilling: Mutex<BTreeSet<&'static str>>,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            silent_limit: SILENT_LIMIT,
            answered: Mutex::default(),
            silent: watch::Sender::default(),
            unwilling: Mutex::default(),
        }
    }
}

impl Patience {
    /// Waits for a call: for its limit, or for less once another call has shown that the RPC never answers.
    ///
    /// # Errors
    /// How long was waited in vain.
    pub(crate) async fn wait<T>(
        &self,
        rpc: Rpc,
        limit: Duration,
        call: impl Future<Output = T>,
    ) -> Result<T, Duration> {
        let mut silent = self.silent.subscribe();
        let in_vain = async {
            // The sender is ours, so it lives on.
            let _ = silent.wait_for(|silent| silent.contains(rpc.path)).await;
        };
        let short = self.silent_limit.min(limit);
        let started = tokio::time::Instant::now();
        tokio::pin!(call);
        tokio::select! {
            ended = &mut call => return Ok(ended),
            () = tokio::time::sleep(limit) => return Err(limit),
            () = in_vain => {}
        }
        tokio::time::timeout_at(started + short, call).await.map_err(|_| started.elapsed().max(short))
    }

    /// Notes that the RPC has answered, whatever it said.
    pub(crate) fn answered(&self, rpc: Rpc) {
        lock(&self.answered).insert(rpc.path);
        self.silent.send_if_modified(|silent| silent.remove(rpc.path));
    }

    /// Notes that the RPC did not answer within its whole limit.
    pub(crate) fn kept_silent(&self, rpc: Rpc) {
        if !lock(&self.answered).contains(rpc.path) {
            self.silent.send_if_modified(|silent| silent.insert(rpc.path));
        }
    }

    /// Whether the RPC has never answered so far although it had all its time.
    pub(crate) fn is_silent(&self, rpc: Rpc) -> bool {
        self.silent.borrow().contains(rpc.path)
    }

    /// Notes whether a call that is made again and again was done in the end.
    pub(crate) fn was_willing(&self, rpc: Rpc, done: bool) {
        let mut unwilling = lock(&self.unwilling);
        if done {
            unwilling.remove(rpc.path)
        } else {
            unwilling.insert(rpc.path)
        };
    }

    /// Whether "not now" is all that the RPC says.
    pub(crate) fn is_unwilling(&self, rpc: Rpc) -> bool {
        lock(&self.unwilling).contains(rpc.path)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use csi_proto::{Call as _, v1};

    use super::*;

    const RPC: Rpc = v1::ProbeRequest::RPC;
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn hasty() -> Patience {
        Patience { silent_limit: Duration::from_millis(1), ..Patience::default() }
    }

    #[tokio::test]
    async fn one_long_wait_shortens_the_others() {
        let patience = hasty();
        let others = async {
            tokio::join!(
                patience.wait(RPC, DAY, std::future::pending::<()>()),
                patience.wait(RPC, DAY, std::future::pending::<()>())
            )
        };
        let (ended, ()) = tokio::join!(others, async { patience.kept_silent(RPC) });
        assert!(ended.0.is_err_and(|waited| waited < DAY) && ended.1.is_err_and(|waited| waited < DAY));
        assert!(patience.wait(RPC, DAY, std::future::pending::<()>()).await.is_err());
        let other = v1::GetPluginInfoRequest::RPC;
        assert_eq!(patience.wait(other, DAY, std::future::ready(1)).await, Ok(1));
    }

    #[test]
    fn an_rpc_that_answers_is_never_called_silent() {
        let patience = hasty();
        patience.kept_silent(RPC);
        assert!(patience.is_silent(RPC));
        patience.answered(RPC);
        assert!(!patience.is_silent(RPC));
        patience.kept_silent(RPC);
        assert!(!patience.is_silent(RPC));
    }
}
