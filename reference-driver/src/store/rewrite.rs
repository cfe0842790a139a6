//! Makes sure that the readable content of a file is on disk.
//!
//! When a flush fails, the kernel marks the pages that it could not write as written. They can be read until they are
//! dropped from the cache, and no later flush writes them or fails. This was observed on XFS when a device had no
//! room for a moment. Changes that are based on such pages are lost with them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

const BLOCK_BYTES: usize = 4096;

/// Writes the whole content again in place, and flushes the file. Holes stay holes.
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
