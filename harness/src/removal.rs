//! What a check has made that is no driver's: it is removed as surely as what the ledger has.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tonic::async_trait;

/// Something that is removed at the end of a check, whatever happens: failure, timeout, Ctrl-C.
#[async_trait]
pub trait Remove: fmt::Debug + Send + Sync {
    /// What it is called where it is left behind.
    fn name(&self) -> String;

    /// Removes it, if it is there still.
    ///
    /// # Errors
    /// Why it is left.
    async fn remove(&self) -> Result<(), String>;
}

/// What one check has to remove.
#[derive(Debug, Default)]
pub(crate) struct Removals(Mutex<Vec<Arc<dyn Remove>>>);

impl Removals {
    pub(crate) fn add(&self, one: Arc<dyn Remove>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    }

    /// The names of all that is not removed.
    pub(crate) fn open(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|one| one.name()).collect()
    }

    /// Removes the latest first. Answers what is left, and why.
    pub(crate) async fn run(&self) -> Vec<String> {
        let mut left = Vec::new();
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for one in all.into_iter().rev() {
            match one.remove().await {
                Ok(()) => {
                    let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                    open.retain(|other| !Arc::ptr_eq(other, &one));
                }
                Err(why) => left.push(format!("{}: {why}", one.name())),
            }
        }
        left
    }
}
