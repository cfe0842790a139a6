//! The open database. After an error of the file system it has to be closed and opened again, because redb then
//! rejects every other operation: it cannot know what has reached the disk.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::RwLockReadGuard;

use csi_proto::lock::RwLock;
use redb::{Database, DatabaseError, ReadTransaction, ReadableDatabase, WriteTransaction};

use super::StoreError;
use super::rewrite::rewrite;

/// Opens the state file.
pub(super) type Open = Box<dyn Fn(&Path) -> Result<Database, DatabaseError> + Send + Sync>;

pub(super) struct Handle {
    path: PathBuf,
    open: Open,
    db: RwLock<Option<Database>>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Handle {
    pub(super) fn new(path: &Path, db: Database, open: Open) -> Handle {
        Handle { path: path.to_owned(), open, db: RwLock::new(Some(db)) }
    }

    pub(super) fn begin_read(&self) -> Result<ReadTransaction, StoreError> {
        Ok(self.opened()?.as_ref().ok_or(StoreError::Closed)?.begin_read()?)
    }

    pub(super) fn begin_write(&self) -> Result<WriteTransaction, StoreError> {
        Ok(self.opened()?.as_ref().ok_or(StoreError::Closed)?.begin_write()?)
    }

    /// The open database. If opening it again has failed, this tries once more.
    fn opened(&self) -> Result<RwLockReadGuard<'_, Option<Database>>, StoreError> {
        let db = self.db.read();
        if db.is_some() {
            return Ok(db);
        }
        drop(db);
        self.open_again(false)?;
        Ok(self.db.read())
    }

    /// Closes the database, and opens it again with the content of the disk.
    pub(super) fn reopen(&self) -> Result<(), StoreError> {
        self.open_again(true)
    }

    fn open_again(&self, close: bool) -> Result<(), StoreError> {
        let mut db = self.db.write();
        if db.is_some() && !close {
            return Ok(()); // Another thread has already opened it.
        }
        *db = None;
        rewrite(&self.path).map_err(|error| StoreError::io(&self.path, error))?;
        *db = Some((self.open)(&self.path)?);
        Ok(())
    }
}
