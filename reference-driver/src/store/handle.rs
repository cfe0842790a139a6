//! The open database, which has to be closed and opened again after an error of the file system: redb then refuses
//! everything else, since it cannot know what has reached the disk.

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use redb::{Database, DatabaseError, ReadTransaction, ReadableDatabase, WriteTransaction};

use super::StoreError;
use super::open::CACHE_BYTES;

/// How often, and with what pause, opening is tried while views of the old database are still in use.
const ATTEMPTS_MAX: usize = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// The open database.
#[derive(Debug)]
pub(super) struct Handle {
    path: PathBuf,
    db: RwLock<Option<Database>>,
}

impl Handle {
    pub(super) fn new(path: &Path, db: Database) -> Handle {
        Handle { path: path.to_owned(), db: RwLock::new(Some(db)) }
    }

    pub(super) fn begin_read(&self) -> Result<ReadTransaction, StoreError> {
        let db = self.db.read().unwrap_or_else(PoisonError::into_inner);
        Ok(db.as_ref().ok_or(StoreError::Closed)?.begin_read()?)
    }

    pub(super) fn begin_write(&self) -> Result<WriteTransaction, StoreError> {
        let db = self.db.read().unwrap_or_else(PoisonError::into_inner);
        Ok(db.as_ref().ok_or(StoreError::Closed)?.begin_write()?)
    }

    /// Closes the database and opens it again, as it was before the transaction that failed.
    pub(super) fn reopen(&self) -> Result<(), StoreError> {
        let mut db = self.db.write().unwrap_or_else(PoisonError::into_inner);
        *db = None;
        for _ in 0..ATTEMPTS_MAX {
            match Database::builder().set_cache_size(CACHE_BYTES).open(&self.path) {
                Ok(opened) => {
                    *db = Some(opened);
                    return Ok(());
                }
                Err(DatabaseError::DatabaseAlreadyOpen) => thread::sleep(PAUSE),
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::InUse(self.path.clone()))
    }
}
