//! The durable state: an ACID database in one file.
//!
//! A change is on disk when [`Store::commit`] returns. Calls that commit at the same time share one flush, which is
//! what makes commits expensive.
//!
//! A commit of redb that reports an error may still have taken place: if only its last flush has failed, everything
//! is written by then, and the next process that opens the file finds it. Therefore, after an error the file is
//! opened again, and the number that each commit has shows whether it took place.

pub(crate) mod error;
#[cfg(test)]
pub(crate) mod faults;
mod group;
mod handle;
mod open;
mod overlay;
mod quiet;
mod records;
mod tables;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

pub use error::{StoreError, may_be_committed};
use group::Job;
use handle::{Handle, Open};
pub use records::{
    Attachment, BackendKind, FsState, Group, Phase, Published, Snapshot, Source, Staged, Volume,
};
pub use tables::{Change, View};

#[derive(Debug)]
pub struct Store {
    db: Handle,
    callers: group::Group,
}

impl Store {
    /// Opens the state file. Creates it if there is neither a state file nor data.
    ///
    /// # Errors
    /// An existing file is checked completely before anything is written, so a damaged one stays as it was.
    pub fn open(path: &Path, data: &[&Path]) -> Result<Store, StoreError> {
        Store::open_by(path, data, open::default_opener())
    }

    fn open_by(path: &Path, data: &[&Path], open: Open) -> Result<Store, StoreError> {
        let db = open::open(path, data, &open)?;
        Ok(Store { db: Handle::new(path, db, open), callers: group::Group::default() })
    }

    pub fn view(&self) -> Result<View, StoreError> {
        Ok(View::new(self.db.begin_read()?))
    }

    /// Commits all of the changes or none. Blocks until they are on disk.
    ///
    /// # Errors
    /// After an error none of the changes has taken place, unless it is [`StoreError::Unsettled`].
    pub fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        self.submit(changes, None)
    }

    /// Like [`Store::commit`], but first flushes the directory in which the data of the changed records were created.
    pub fn commit_after_flush(&self, directory: &Arc<File>, changes: Vec<Change>) -> Result<(), StoreError> {
        self.submit(changes, Some(Arc::clone(directory)))
    }

    fn submit(&self, changes: Vec<Change>, flush: Option<Arc<File>>) -> Result<(), StoreError> {
        self.callers.submit(changes, flush, |jobs| {
            flush_directories(jobs)?;
            write_group(&self.db, jobs).or_else(|failed| self.settle(failed))
        })
    }

    /// Finds out whether a commit that reported an error took place.
    fn settle(&self, failed: Failed) -> Result<(), StoreError> {
        let found = self.db.reopen().and_then(|()| self.view()?.last_commit());
        match (found, failed.number) {
            (Ok(found), Some(number)) if found == number => {
                tracing::warn!(error = %failed.error, "a commit has reported an error and is there");
                Ok(())
            }
            (Ok(_), _) => Err(failed.error),
            (Err(error), number) => {
                tracing::error!(%error, "the state could not be opened again; the next call tries again");
                let unsettled = |error| StoreError::Unsettled(Box::new(error));
                Err(if number.is_some() { unsettled(failed.error) } else { failed.error })
            }
        }
    }
}

/// The error of a group of changes.
struct Failed {
    error: StoreError,
    /// The number of the commit, if the group came as far as committing.
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
