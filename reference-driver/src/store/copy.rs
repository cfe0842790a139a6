//! A copy of the state file in memory.

use std::io;
use std::sync::{PoisonError, RwLock};

use redb::StorageBackend;

/// How much larger than the file the copy may get by repairs, in bytes.
const GROWTH_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes that are read and written like a file. Unlike a file of nonsense they do not grow beyond all bounds.
#[derive(Debug)]
pub(super) struct Copy {
    bytes: RwLock<Vec<u8>>,
    len_max: usize,
}

impl Copy {
    pub(super) fn new(bytes: Vec<u8>) -> Copy {
        let len_max = bytes.len().saturating_mul(2).saturating_add(GROWTH_BYTES_MAX);
        Copy { bytes: RwLock::new(bytes), len_max }
    }
}

/// The part of the bytes from `offset` on that is `length` long.
fn range(offset: u64, length: usize, end: usize) -> io::Result<std::ops::Range<usize>> {
    let start = usize::try_from(offset).ok();
    let range = start.and_then(|start| Some(start..start.checked_add(length)?));
    range.filter(|range| range.end <= end).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

impl StorageBackend for Copy {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.read().unwrap_or_else(PoisonError::into_inner).len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        out.copy_from_slice(&bytes[range(offset, out.len(), bytes.len())?]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).ok().filter(|len| *len <= self.len_max);
        let len = len.ok_or(io::ErrorKind::FileTooLarge)?;
        self.bytes.write().unwrap_or_else(PoisonError::into_inner).resize(len, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        let range = range(offset, data.len(), bytes.len())?;
        bytes[range].copy_from_slice(data);
        Ok(())
    }
}
