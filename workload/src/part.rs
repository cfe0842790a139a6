//! A part of a volume that is written and read as a whole, such as what an expansion has added. Each block in it says where it belongs, so that
//! what is read says whose it is.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use csi_harness::resources::contents::{self, BLOCK_BYTES, Found, Stamp};
use csi_harness::resources::mounts;
use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate};
use rustix::io::Errno;

use crate::layout::RECORD_BYTES;

/// The bytes that are written and made durable at once. Parts are multiples of it.
pub const PIECE_BYTES: u64 = 1 << 20;
/// The writes to a part end after this time, and what was written until then is read.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// The file that takes the room of a file system, so that what is written next has to be in its new part.
const FILLER: &str = "csi-sanity-in-use-filler";

/// A range of a file, or of a device.
#[derive(Clone, Debug)]
pub struct Part {
    file: PathBuf,
    is_device: bool,
    offset: u64,
    bytes: u64,
    stamp: Stamp,
}

/// Something in a part that was not written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The number of bytes before it in the part.
    pub after_bytes: u64,
    /// The data that are there instead.
    pub found: Found,
}

impl Part {
    /// A file of a file system. The parts of one volume have different names.
    pub fn of_file_system(target: &Path, name: &str, bytes: u64, stamp: Stamp) -> Part {
        let file = target.join(format!("csi-sanity-in-use-{name}"));
        Part { file, is_device: false, offset: 0, bytes: bytes / PIECE_BYTES * PIECE_BYTES, stamp }
    }

    /// The last bytes of a device up to an end, and none before a beginning.
    pub fn of_device(target: &Path, from: u64, to: u64, bytes: u64, stamp: Stamp) -> Part {
        let to = to / RECORD_BYTES * RECORD_BYTES;
        let bytes = to.saturating_sub(from).min(bytes) / PIECE_BYTES * PIECE_BYTES;
        Part { file: target.to_owned(), is_device: true, offset: to - bytes, bytes, stamp }
    }

    /// Returns true for a part without a byte.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The identity of the data that are written to it.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Writes all of it, or as much as there is time for, and waits until that is durable.
    ///
    /// # Errors
    /// The error of the volume.
    pub fn write(&mut self) -> io::Result<()> {
        let file = self.open(true)?;
        let begun = Instant::now();
        let mut written = 0;
        while written < self.bytes && (written == 0 || begun.elapsed() < WRITE_LIMIT) {
            let at = self.offset + written;
            file.write_all_at(&contents::bytes(&self.stamp, at, BLOCKS), at)?;
            file.sync_data()?;
            written += PIECE_BYTES;
        }
        self.bytes = written;
        file.sync_all()
    }

    /// Reads what was written, past the caches. Returns the first place where it is not.
    ///
    /// # Errors
    /// The error of the volume.
    pub fn read(&self) -> io::Result<Option<Wrong>> {
        let file = self.open(false)?;
        match fadvise(&file, 0, None, Advice::DontNeed) {
            // Not every file system takes advice.
            Ok(()) | Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
        let mut piece = vec![0; BLOCKS * BLOCK_BYTES];
        for after_bytes in (0..self.bytes).step_by(PIECE_BYTES as usize) {
            let at = self.offset + after_bytes;
            let found = match file.read_exact_at(&mut piece, at) {
                Ok(()) => contents::found(&piece, at, BLOCKS),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Found::Empty,
                Err(error) => return Err(error),
            };
            if found != Found::Write(self.stamp.clone()) {
                return Ok(Some(Wrong { after_bytes, found }));
            }
        }
        Ok(None)
    }

    fn open(&self, for_writing: bool) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(for_writing).create(for_writing && !self.is_device);
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(&self.file)
    }
}

/// Blocks of a piece.
const BLOCKS: usize = PIECE_BYTES as usize / BLOCK_BYTES;

/// The bytes of a file system that can be written.
///
/// # Errors
/// The error of the volume.
pub fn free_bytes(target: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(target)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Takes most of the free room of a file system without writing to it: all but the bytes that are left. Returns false where that is not
/// possible: a file system that is on no device would write, and a part of one would take the room of others.
///
/// # Errors
/// The error of the volume.
pub fn take_room(target: &Path, left: u64) -> io::Result<bool> {
    let is_whole_device =
        |mount: mounts::Mount| mount.root == Path::new("/") && mount.source.starts_with("/dev/");
    if !mounts::at(target).pop().is_some_and(is_whole_device) {
        return Ok(false);
    }
    let Some(taken) = free_bytes(target)?.checked_sub(left).filter(|taken| *taken > 0) else {
        return Ok(false);
    };
    let file = OpenOptions::new().write(true).create_new(true).open(target.join(FILLER))?;
    Ok(fallocate(&file, FallocateFlags::empty(), 0, taken).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(volume: &str) -> Stamp {
        Stamp { run: 1, volume: volume.to_owned(), number: 1 }
    }

    #[test]
    fn a_part_names_what_it_should_not_hold() {
        let directory = tempfile::tempdir().unwrap();
        let mut part = Part::of_file_system(directory.path(), "new", 5 * PIECE_BYTES / 2, stamp("v1"));
        part.write().unwrap();
        assert_eq!((part.bytes, part.read().unwrap()), (2 * PIECE_BYTES, None));
        let other = contents::bytes(&stamp("v2"), PIECE_BYTES, BLOCKS);
        part.open(true).unwrap().write_all_at(&other, PIECE_BYTES).unwrap();
        let wrong = Wrong { after_bytes: PIECE_BYTES, found: Found::Write(stamp("v2")) };
        assert_eq!(part.read().unwrap(), Some(wrong));
    }

    #[test]
    fn a_part_of_a_device_ends_where_the_device_ends() {
        let range = |from, to, bytes| {
            let part = Part::of_device(Path::new("/dev/none"), from, to, bytes, stamp("v1"));
            (part.offset, part.bytes)
        };
        let mib = |count: u64| count * PIECE_BYTES;
        assert_eq!(range(mib(10), mib(30), mib(4)), (mib(26), mib(4)));
        assert_eq!(range(mib(10) + 1, mib(14) + RECORD_BYTES + 1, mib(64)), (mib(10) + RECORD_BYTES, mib(4)));
        assert_eq!(range(mib(10), mib(10), mib(4)).1, 0);
    }
}
