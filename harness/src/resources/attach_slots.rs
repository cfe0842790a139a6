//! Limits the checks that attach volumes at one time on a node that reports a limit of volumes.

use std::sync::Arc;

use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

/// The number of volumes that most checks have attached at one time.
const ATTACHED_BY_A_CHECK: usize = 2;

/// The room on the first node, which is found out at the first use.
#[derive(Debug, Default)]
pub(crate) struct AttachSlots(OnceCell<Option<Arc<Semaphore>>>);

impl AttachSlots {
    /// Waits until there is room for one more check, and keeps it as long as the permit lives; `None` where there is no limit.
    /// `ask` finds out how many volumes the node takes.
    pub(crate) async fn enter(
        &self,
        ask: impl Future<Output = Option<usize>>,
    ) -> Option<OwnedSemaphorePermit> {
        let checks = self.0.get_or_init(|| async {
            let checks = |limit: usize| (limit / ATTACHED_BY_A_CHECK).clamp(1, Semaphore::MAX_PERMITS);
            ask.await.map(|limit| Arc::new(Semaphore::new(checks(limit))))
        });
        checks.await.clone()?.acquire_owned().await.ok()
    }
}
