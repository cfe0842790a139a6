//! Limits of volumes: a pre-provisioned volume belongs to one check at a time, and a node gets no more volumes than the limit that it
//! reports.

use std::sync::Arc;

use csi_proto::lock::Mutex;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

use crate::config::{AccessType, Config, StaticVolume};

/// The number of volumes that most checks have attached at one time.
const ATTACHED_BY_A_CHECK: usize = 2;

/// Pre-provisioned volumes that no check is using.
#[derive(Debug)]
pub(crate) struct Pool {
    free: Arc<Mutex<Vec<StaticVolume>>>,
    turn: Arc<Semaphore>,
}

impl Pool {
    pub(crate) fn new(config: &Config) -> Pool {
        Pool {
            free: Arc::new(Mutex::new(config.volumes.clone())),
            // Two checks that each hold one volume and need another would otherwise wait for each other.
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Takes a volume that can be used with the access type, and written to if necessary, beside one that the check holds already. The
    /// first volume is available once no other check holds any. `None` if the user named no such volume, or no further one.
    pub(crate) async fn lease(
        &self,
        access: AccessType,
        writable: bool,
        beside: Option<&Lease>,
    ) -> Option<Lease> {
        let turn = match beside {
            Some(lease) => lease.turn.clone(),
            None => Arc::new(self.turn.clone().acquire_owned().await.ok()?),
        };
        let mut free = self.free.lock();
        let usable = |volume: &StaticVolume| {
            volume.access_type.is_none_or(|only| only == access) && !(writable && volume.readonly)
        };
        let at = free.iter().position(usable)?;
        let volume = free.remove(at);
        Some(Lease { volume, free: self.free.clone(), turn })
    }
}

/// One volume, given back when dropped. The last one that a check gives back ends its turn.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) volume: StaticVolume,
    free: Arc<Mutex<Vec<StaticVolume>>>,
    turn: Arc<OwnedSemaphorePermit>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.free.lock().push(self.volume.clone());
    }
}

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
