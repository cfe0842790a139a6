//! What survives the end of a driver.

use std::sync::Arc;

use csi_proto::lock::Mutex;

use super::{State, StateFile, StateFileError};

/// Where the state is for the driver that comes after this one.
#[derive(Debug)]
pub(crate) enum Store {
    /// In memory: the next one takes it over as it is.
    Memory,
    /// In memory, as it was saved last, which may not be what it is; for defects.
    Saved(Mutex<Option<Box<State>>>),
    /// In a file.
    File(StateFile),
}

impl Store {
    pub(crate) fn save(&self, state: &State) -> Result<(), StateFileError> {
        match self {
            Store::Memory => Ok(()),
            Store::Saved(saved) => {
                *saved.lock() = Some(Box::new(state.clone()));
                Ok(())
            }
            Store::File(file) => file.save(state),
        }
    }

    /// Leaves nothing that can be read, as one who writes in place does until all is written; for defects.
    pub(crate) fn truncate(&self) -> Result<(), StateFileError> {
        match self {
            Store::Memory => Ok(()),
            Store::Saved(saved) => {
                *saved.lock() = None;
                Ok(())
            }
            Store::File(file) => file.truncate(),
        }
    }

    /// What the next driver in this process finds in memory, where `now` is the state of this one.
    pub(crate) fn remembered(&self, now: &Arc<Mutex<State>>) -> Option<Arc<Mutex<State>>> {
        match self {
            Store::Saved(saved) => {
                let saved = saved.lock().as_deref().cloned();
                saved.map(|saved| Arc::new(Mutex::new(saved)))
            }
            Store::Memory => Some(now.clone()),
            Store::File(_) => None,
        }
    }
}
