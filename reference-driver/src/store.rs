//! The durable state: an ACID database in one file.
//!
//! A change is on disk when [`Store::commit`] returns. Calls that commit at the same time share one flush, so that
//! durability costs a flush per group and not per call.
//!
//! A commit of redb that reports an error can be there all the same: if only its last flush has failed, all of it has
//! been written by then, and the next one to open the file finds it. So after an error the file is opened again, and the
//! number that each commit gets tells what has become of it.

#[cfg(test)]
pub(crate) mod faults;
mod group;
mod handle;
mod open;
mod overlay;
mod quiet;
mod records;
mod rewrite;
mod tables;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use group::Job;
use handle::{Handle, Open};
pub use records::{Attachment, FsState, Group, Phase, Published, Snapshot, Source, Staged, Volume};
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
    /// The caller that wrote for this one has panicked.
    #[error("the state is closed")]
    Closed,
    /// A commit has failed, and so has opening the file again, so that nobody knows whether it is there.
    #[error("{0}; it may or may not have been recorded")]
    Unsettled(Box<StoreError>),
}

impl StoreError {
    /// Whether storage has run out.
    pub fn is_full(&self) -> bool {
        match self {
            StoreError::Database(error) => {
                matches!(&**error, redb::Error::Io(io) if crate::error::is_full(io))
            }
            StoreError::Io { source, .. } => crate::error::is_full(source),
            StoreError::Unsettled(error) => error.is_full(),
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

/// Whether what was to be committed is there, or may be. Then what it speaks of has to stay; what turns out to have no
/// record is removed at the next start.
pub fn may_be_there(committed: &Result<(), StoreError>) -> bool {
    matches!(committed, Ok(()) | Err(StoreError::Unsettled(_)))
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
        Store::open_by(path, data, open::plainly())
    }

    fn open_by(path: &Path, data: &[&Path], open: Open) -> Result<Store, StoreError> {
        let db = open::open(path, data, &open)?;
        Ok(Store { db: Handle::new(path, db, open), callers: group::Group::default() })
    }

    /// A consistent view of everything committed so far.
    pub fn view(&self) -> Result<View, StoreError> {
        Ok(View::new(self.db.begin_read()?))
    }

    /// Makes the changes durable, all or none. Blocks until they are.
    ///
    /// # Errors
    /// None of the changes is there, unless the error is [`StoreError::Unsettled`].
    pub fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        self.submit(changes, None)
    }

    /// As [`Store::commit`], but first flushes a directory in which entries have been made that the changes speak of.
    pub fn commit_after_flush(&self, directory: &Arc<File>, changes: Vec<Change>) -> Result<(), StoreError> {
        self.submit(changes, Some(Arc::clone(directory)))
    }

    fn submit(&self, changes: Vec<Change>, flush: Option<Arc<File>>) -> Result<(), StoreError> {
        self.callers.submit(changes, flush, |jobs| {
            flush_directories(jobs)?;
            write_group(&self.db, jobs).or_else(|failed| self.settle(failed))
        })
    }

    /// Finds out what has become of changes whose commit has failed.
    fn settle(&self, failed: Failed) -> Result<(), StoreError> {
        let found = self.db.reopen().and_then(|()| self.view()?.last_commit());
        match (found, failed.number) {
            (Ok(found), Some(number)) if found == number => {
                tracing::warn!(error = %failed.error, "a commit has reported an error and is there");
                Ok(())
            }
            (Ok(_), _) => Err(failed.error),
            (Err(error), number) => {
                tracing::error!(%error, "the state could not be opened again; the next call tries anew");
                let unsettled = |error| StoreError::Unsettled(Box::new(error));
                Err(if number.is_some() { unsettled(failed.error) } else { failed.error })
            }
        }
    }
}

/// A group that could not be written.
struct Failed {
    error: StoreError,
    /// The number of its commit, if it came so far.
    number: Option<u64>,
}

impl<E: Into<StoreError>> From<E> for Failed {
    fn from(error: E) -> Failed {
        Failed { error: error.into(), number: None }
    }
}

fn flush_directories(group: &[Job]) -> Result<(), StoreError> {
    let mut flushed: Vec<&Arc<File>> = Vec::new();
    for directory in group.iter().filter_map(|job| job.flush.as_ref()) {
        if !flushed.iter().any(|done| Arc::ptr_eq(done, directory)) {
            directory.sync_all().map_err(|error| StoreError::io(Path::new("state directory"), error))?;
            flushed.push(directory);
        }
    }
    Ok(())
}

fn write_group(db: &Handle, group: &[Job]) -> Result<(), Failed> {
    let transaction = db.begin_write()?;
    for change in group.iter().flat_map(|job| &job.changes) {
        change.apply(&transaction)?;
    }
    let number = tables::number_commit(&transaction)?;
    transaction.commit().map_err(|error| Failed { error: error.into(), number: Some(number) })
}
