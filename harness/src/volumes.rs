//! Volumes that an administrator made: one check at a time has one of them.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::{AccessType, Config, StaticVolume};

/// Pre-provisioned volumes that no check is using.
#[derive(Debug)]
pub(crate) struct Pool {
    free: Arc<Mutex<Vec<StaticVolume>>>,
    one: Arc<Semaphore>,
}

impl Pool {
    pub(crate) fn new(config: &Config) -> Pool {
        Pool {
            free: Arc::new(Mutex::new(config.volumes.clone())),
            // One lease at a time: which volume a check can use depends on its access type.
            one: Arc::new(Semaphore::new(1)),
        }
    }

    /// Waits for a volume that can be used with the access type; `None` if the user named none such.
    pub(crate) async fn lease(&self, access: AccessType) -> Option<Lease> {
        let permit = self.one.clone().acquire_owned().await.ok()?;
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let usable = |volume: &StaticVolume| volume.access_type.is_none_or(|only| only == access);
        let at = free.iter().position(usable)?;
        Some(Lease { volume: free.remove(at), free: self.free.clone(), _permit: permit })
    }
}

/// One volume, given back when dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) volume: StaticVolume,
    free: Arc<Mutex<Vec<StaticVolume>>>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.volume.clone());
    }
}
