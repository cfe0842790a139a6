//! The state as a file that survives a restart.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::State;

/// Largest state file that is read.
const STATE_BYTES_MAX: u64 = 1 << 30;
/// Layout of the file; one with a larger number is from a later release.
const VERSION: u32 = 2;

/// A state file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// It exists and cannot be read.
    #[error("read state {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is larger than any state.
    #[error("read state {path}: more than {STATE_BYTES_MAX} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is damaged, or something else.
    #[error("read state {path}: not a state of this driver: {source}; move it away to start empty")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// It was written by a later release.
    #[error("read state {path}: version {found} is newer than {VERSION}")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// It cannot be replaced.
    #[error("write state {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Where the state is kept.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
}

/// Read before the state itself, whose layout depends on it.
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

    /// The state in the file; none if there is no file yet.
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

    /// Replaces the file, so that a reader sees either the old state or the new one.
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
