//! The durable state: an ACID database in one file.
//!
//! A change is on disk when [`Store::commit`] returns. Calls that commit at the same time share one flush, so that
//! durability costs a flush per group and not per call.

mod group;
mod handle;
mod open;
mod overlay;
mod quiet;
mod records;
mod tables;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use group::Job;
use handle::Handle;
pub use records::{Attachment, Backend, FsState, Group, Phase, Published, Snapshot, Source, Staged, Volume};
pub use tables::{Change, View};

/// The state could not be opened, read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process uses the state directory.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// The file was written by a newer version.
    #[error("{} has schema version {found}, this driver knows versions up to {known}", path.display())]
    Newer {
        /// The state file.
        path: PathBuf,
        /// The version in the file.
        found: u64,
        /// The newest version known.
        known: u64,
    },
    /// The file cannot be read as state.
    #[error("{} is corrupt: {reason}; nothing was changed, restore it or move the state directory away", path.display())]
    Corrupt {
        /// The state file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// There are data but no state.
    #[error("{} is missing although {} holds data; nothing was changed", path.display(), data.display())]
    Missing {
        /// The state file.
        path: PathBuf,
        /// The directory that holds data.
        data: PathBuf,
    },
    /// A record does not read as what it should be.
    #[error("record {key} does not parse: {reason}")]
    Record {
        /// The key of the record.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// The database failed.
    #[error("{0}")]
    Database(Arc<redb::Error>),
    /// A file could not be read or flushed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The file could not be opened again after an error, or the caller that wrote for this one has panicked.
    #[error("the state is closed")]
    Closed,
}

impl StoreError {
    /// Whether storage has run out.
    pub fn is_full(&self) -> bool {
        match self {
            StoreError::Database(error) => {
                matches!(&**error, redb::Error::Io(io) if crate::error::is_full(io))
            }
            StoreError::Io { source, .. } => crate::error::is_full(source),
            _ => false,
        }
    }

    fn io(path: &Path, source: io::Error) -> StoreError {
        StoreError::Io { path: path.to_owned(), source: Arc::new(source) }
    }
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> StoreError {
        StoreError::Database(Arc::new(error.into()))
    }
}

/// The open state.
#[derive(Debug)]
pub struct Store {
    db: Handle,
    callers: group::Group,
}

impl Store {
    /// Opens the state file, or makes one where there is neither a file nor data.
    ///
    /// # Errors
    /// Whatever is wrong with an existing file is found before anything is written to it, so it stays as it was.
    pub fn open(path: &Path, data: &[&Path]) -> Result<Store, StoreError> {
        Ok(Store { db: Handle::new(path, open::open(path, data)?), callers: group::Group::default() })
    }

    /// A consistent view of everything committed so far.
    pub fn view(&self) -> Result<View, StoreError> {
        Ok(View::new(self.db.begin_read()?))
    }

    /// Makes the changes durable, all or none. Blocks until they are.
    pub fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        self.submit(changes, None)
    }

    /// As [`Store::commit`], but first flushes a directory in which entries have been made that the changes speak of.
    pub fn commit_after_flush(&self, directory: &Arc<File>, changes: Vec<Change>) -> Result<(), StoreError> {
        self.submit(changes, Some(Arc::clone(directory)))
    }

    fn submit(&self, changes: Vec<Change>, flush: Option<Arc<File>>) -> Result<(), StoreError> {
        self.callers.submit(changes, flush, |jobs| {
            let result = write_group(&self.db, jobs);
            if result.is_err()
                && let Err(error) = self.db.reopen()
            {
                tracing::error!(%error, "the state could not be opened again; the next commit tries anew");
            }
            result
        })
    }
}

fn write_group(db: &Handle, group: &[Job]) -> Result<(), StoreError> {
    let mut flushed: Vec<&Arc<File>> = Vec::new();
    for directory in group.iter().filter_map(|job| job.flush.as_ref()) {
        if !flushed.iter().any(|done| Arc::ptr_eq(done, directory)) {
            directory.sync_all().map_err(|error| StoreError::io(Path::new("state directory"), error))?;
            flushed.push(directory);
        }
    }
    let transaction = db.begin_write()?;
    for change in group.iter().flat_map(|job| &job.changes) {
        change.apply(&transaction)?;
    }
    transaction.commit()?;
    Ok(())
}
