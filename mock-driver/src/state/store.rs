//! The state that survives the end of a driver.

use std::sync::Arc;

use csi_proto::lock::Mutex;

use super::{State, StateFile, StateFileError};

/// The place where the next driver finds the state.
#[derive(Debug)]
pub(crate) enum Store {
    /// The state is in memory, and the next driver uses the same object.
    Memory,
    /// The state is in memory, as it was saved last, which may be outdated; for defects.
    Saved(Mutex<Option<Box<State>>>),
    /// The state is in a file.
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

    /// Leaves no readable state, like a driver that overwrites its file in place before it has finished; for defects.
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

    /// The state that the next driver in this process finds in memory, given the present state.
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
