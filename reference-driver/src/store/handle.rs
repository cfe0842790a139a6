//! The open database. After an error of the file system it has to be closed and opened again, because redb then
//! rejects every other operation: it cannot know what has reached the disk.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::RwLockReadGuard;
use std::{fmt, io};

use csi_proto::lock::RwLock;
use redb::{Database, DatabaseError, ReadTransaction, ReadableDatabase, WriteTransaction};
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::StoreError;

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

const BLOCK_BYTES: usize = 4096;

/// Writes the whole content of a file again in place, and flushes the file, so that its readable content is on disk.
/// Holes stay holes.
///
/// When a flush fails, the kernel marks the pages that it could not write as written. They can be read until they are
/// dropped from the cache, and no later flush writes them or fails. This was observed on XFS when a device had no
/// room for a moment. Changes that are based on such pages are lost with them.
pub(super) fn rewrite(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let mut block = [0; BLOCK_BYTES];
    for offset in (0..length).step_by(BLOCK_BYTES) {
        let count = (length - offset).min(BLOCK_BYTES as u64) as usize;
        let part = &mut block[..count];
        file.read_exact_at(part, offset)?;
        if part.iter().any(|byte| *byte != 0) || !is_hole(&file, offset)? {
            file.write_all_at(part, offset)?;
        }
    }
    file.sync_all()
}

/// Returns whether the block at an offset is a hole.
fn is_hole(file: &File, offset: u64) -> io::Result<bool> {
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(data) => Ok(data >= offset + BLOCK_BYTES as u64),
        Err(Errno::NXIO) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
