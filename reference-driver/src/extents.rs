//! Finds out where an image contains data, and where two images differ.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::kernel;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// The number of bytes that are compared at once; a multiple of every block size.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

const FIEMAP_EXTENT_UNKNOWN: u32 = 0x2;
const FIEMAP_EXTENT_DELALLOC: u32 = 0x4;
const FIEMAP_EXTENT_ENCODED: u32 = 0x8;
const FIEMAP_EXTENT_NOT_ALIGNED: u32 = 0x100;
const FIEMAP_EXTENT_SHARED: u32 = 0x2000;

/// The next range with data at or after an offset.
pub(crate) fn next_data(file: &File, offset: u64) -> io::Result<Option<Extent>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok(Some(Extent { start, end }))
}

/// The next range at or after an offset in which either file contains data.
pub(crate) fn next_data_of_either(base: &File, target: &File, offset: u64) -> io::Result<Option<Extent>> {
    let (base, target) = (next_data(base, offset)?, next_data(target, offset)?);
    Ok(match (base, target) {
        (Some(a), Some(b)) if a.start <= b.end && b.start <= a.end => {
            Some(Extent { start: a.start.min(b.start), end: a.end.max(b.end) })
        }
        (Some(a), Some(b)) => Some(if a.start < b.start { a } else { b }),
        (a, b) => a.or(b),
    })
}

/// Reads a range; bytes beyond the end of the file read as zeros.
pub(crate) fn read_padded(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer[done..].fill(0);
    Ok(())
}

/// The offset up to which two files share their storage, starting at `offset`. Returns `offset` itself if they share
/// nothing there or the file system does not support the question.
pub(crate) fn shared_until(base: &File, target: &File, offset: u64) -> u64 {
    match (extent_at(base, offset), extent_at(target, offset)) {
        (Some(a), Some(b)) if a.0 == b.0 => a.1.min(b.1),
        _ => offset,
    }
}

/// The physical position of an offset, and the end of the shared extent that contains it.
fn extent_at(file: &File, offset: u64) -> Option<(u64, u64)> {
    let extent = kernel::fiemap(file, offset).ok()?.into_iter().next()?;
    let end = extent.logical.checked_add(extent.length)?;
    let vague =
        FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_NOT_ALIGNED;
    let holds = extent.logical <= offset && offset < end;
    let usable = extent.flags & vague == 0 && extent.flags & FIEMAP_EXTENT_SHARED != 0;
    (holds && usable).then(|| (extent.physical + (offset - extent.logical), end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_padding_are_found() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(16 << 20).unwrap();
        file.write_all_at(b"x", 8 << 20).unwrap();
        let extent = next_data(&file, 0).unwrap().unwrap();
        assert!(extent.start <= 8 << 20 && extent.end > 8 << 20);
        assert_eq!(next_data(&file, extent.end).unwrap(), None);
        let mut buffer = [1; 8];
        read_padded(&file, &mut buffer, (16 << 20) - 4).unwrap();
        assert_eq!(buffer, [0; 8]);
    }
}
