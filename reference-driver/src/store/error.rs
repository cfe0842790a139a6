//! Errors of the state file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    #[error("{} has schema version {found}, this driver knows versions up to {known}", path.display())]
    Newer { path: PathBuf, found: u64, known: u64 },
    #[error("{} is corrupt: {reason}; nothing was changed, restore it or move the state directory away", path.display())]
    Corrupt { path: PathBuf, reason: String },
    #[error("{} is missing although {} holds data; nothing was changed", path.display(), data.display())]
    Missing {
        path: PathBuf,
        /// The directory that contains data.
        data: PathBuf,
    },
    #[error("record {key} does not parse: {reason}")]
    Record { key: String, reason: String },
    #[error("{0}")]
    Database(Arc<redb::Error>),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: Arc<io::Error> },
    /// The thread that wrote for this caller has panicked.
    #[error("the state is closed")]
    Closed,
    /// A commit has failed, and so has opening the file again, so it is unknown whether the commit took place.
    #[error("{0}; it may or may not have been recorded")]
    Unsettled(Box<StoreError>),
}

impl StoreError {
    pub fn is_full(&self) -> bool {
        match self {
            StoreError::Database(error) => {
                matches!(&**error, redb::Error::Io(io) if is_full(io))
            }
            StoreError::Io { source, .. } => is_full(source),
            StoreError::Unsettled(error) => error.is_full(),
            _ => false,
        }
    }

    pub(super) fn io(path: &Path, source: io::Error) -> StoreError {
        StoreError::Io { path: path.to_owned(), source: Arc::new(source) }
    }
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> StoreError {
        StoreError::Database(Arc::new(error.into()))
    }
}

/// Returns whether the file system, or the quota, has no room left.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns whether a commit took place or may have. Then the data that it describes have to stay; the next start
/// removes them if they turn out to have no record.
pub fn may_be_committed(committed: &Result<(), StoreError>) -> bool {
    matches!(committed, Ok(()) | Err(StoreError::Unsettled(_)))
}
