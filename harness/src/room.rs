//! Room for volumes on a node that reports a limit: not more checks attach volumes at the same time than it has room for.

use std::sync::Arc;

use csi_proto::v1;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

use crate::cx::Session;
use crate::reply::Answer;

/// Volumes that most checks have attached at the same time, at the most.
const ATTACHED_BY_A_CHECK: usize = 2;

/// The room on the first node, which is asked for when somebody needs it.
#[derive(Debug, Default)]
pub(crate) struct Room(OnceCell<Option<Arc<Semaphore>>>);

impl Room {
    /// Waits until there is room for one more check, and keeps it as long as the permit lives; `None` where there is no limit.
    pub(crate) async fn enter(&self, session: &Session) -> Option<OwnedSemaphorePermit> {
        let checks = self.0.get_or_init(|| async {
            let info = session.call(v1::NodeGetInfoRequest {}).once().await;
            let limit = match info.answer() {
                Answer::Ok(info) => {
                    usize::try_from(info.max_volumes_per_node).ok().filter(|limit| *limit > 0)
                }
                Answer::Refused(_) | Answer::Unknown(_) => None,
            };
            let checks = |limit: usize| (limit / ATTACHED_BY_A_CHECK).clamp(1, Semaphore::MAX_PERMITS);
            limit.map(|limit| Arc::new(Semaphore::new(checks(limit))))
        });
        checks.await.clone()?.acquire_owned().await.ok()
    }
}
