//! A state file that survives a restart.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csi_proto::lock::Mutex;
use serde::{Deserialize, Serialize};

use super::State;

/// The largest state file that is read.
const STATE_BYTES_MAX: u64 = 1 << 30;
/// The version of the file format. A larger number is from a later release.
const VERSION: u32 = 2;

/// A state file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The file exists but cannot be read.
    #[error("read state {path}: {source}")]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is too large.
    #[error("read state {path}: more than {STATE_BYTES_MAX} bytes")]
    TooLarge {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file is damaged, or is not a state file.
    #[error("read state {path}: not a state of this driver: {source}; move it away to start empty")]
    Corrupt {
        /// The path of the file.
        path: PathBuf,
        /// The error, with line and column.
        source: serde_json::Error,
    },
    /// The file was written by a later release.
    #[error("read state {path}: version {found} is newer than {VERSION}")]
    Newer {
        /// The path of the file.
        path: PathBuf,
        /// The version of the file.
        found: u32,
    },
    /// The file cannot be replaced.
    #[error("write state {path}: {source}")]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
}

/// The version is read first, because the format of the state depends on it.
#[derive(Deserialize)]
struct Header {
    version: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    #[serde(rename = "version")]
    _version: u32,
    state: State,
}

#[derive(Serialize)]
struct Storing<'a> {
    version: u32,
    state: &'a State,
}

impl StateFile {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Reads the state; returns `None` if there is no file yet.
    pub(crate) fn load(&self) -> Result<Option<State>, StateFileError> {
        let path = || self.path.clone();
        let text = match std::fs::metadata(&self.path) {
            Ok(metadata) if metadata.len() > STATE_BYTES_MAX => {
                return Err(StateFileError::TooLarge { path: path() });
            }
            Ok(_) => {
                std::fs::read(&self.path).map_err(|source| StateFileError::Read { path: path(), source })?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StateFileError::Read { path: path(), source }),
        };
        let corrupt = |source| StateFileError::Corrupt { path: path(), source };
        let header: Header = serde_json::from_slice(&text).map_err(corrupt)?;
        if header.version > VERSION {
            return Err(StateFileError::Newer { path: path(), found: header.version });
        }
        let stored: Stored = serde_json::from_slice(&text).map_err(corrupt)?;
        Ok(Some(stored.state))
    }

    /// Empties the file; for defects.
    pub(crate) fn truncate(&self) -> Result<(), StateFileError> {
        std::fs::write(&self.path, "")
            .map_err(|source| StateFileError::Write { path: self.path.clone(), source })
    }

    /// Replaces the file atomically, so that a reader sees either the old state or the new one.
    pub(crate) fn save(&self, state: &State) -> Result<(), StateFileError> {
        let failed = |source| StateFileError::Write { path: self.path.clone(), source };
        let parent =
            self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut new = tempfile::NamedTempFile::new_in(parent).map_err(failed)?;
        let text =
            serde_json::to_vec(&Storing { version: VERSION, state }).map_err(|error| failed(error.into()))?;
        new.write_all(&text).and_then(|()| new.as_file().sync_data()).map_err(failed)?;
        new.persist(&self.path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// The place where the next driver finds the state.
#[derive(Debug)]
pub(crate) enum Store {
    /// The state is in memory, and the next driver takes over this object.
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
