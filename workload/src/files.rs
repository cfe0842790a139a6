//! The files of a workload, or its device: how a record is written so that it is durable, and how it is read past the caches.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use csi_harness::resources::contents::{self, Found, Stamp};
use csi_harness::resources::workload;
use rustix::fs::{Advice, OFlags, fadvise, statvfs};
use rustix::io::Errno;

use crate::checker::{Contents, Writer};
use crate::layout::{Layout, Place, RECORD_BLOCKS, RECORD_BYTES, SIZE_BYTES_MIN};

/// The alignment of buffers for O_DIRECT, in bytes.
const ALIGNED_BYTES: usize = RECORD_BYTES as usize;

const APPENDED: &str = "csi-sanity-in-use-appended";
const OVERWRITTEN: &str = "csi-sanity-in-use-overwritten";
const RENAMED: &str = "csi-sanity-in-use-renamed";
const NEW: &str = "csi-sanity-in-use-new";

/// Free bytes of a file system with other data, so that those who write them have room as well.
pub(crate) const FREE_BYTES_MIN: u64 = 16 << 20;

/// The places of the volume that is published at a path; none if the volume is too small. A volume with other data has some room for them.
///
/// # Errors
/// Nothing is published there, or it cannot be measured.
pub(crate) fn layout(path: &Path, has_other_data: bool) -> io::Result<Option<Layout>> {
    if path.metadata()?.file_type().is_block_device() {
        let bytes = workload::size_bytes(path)?;
        return Ok(if has_other_data { Layout::of_second_half(bytes) } else { Layout::of_device(bytes) });
    }
    let found = statvfs(path)?;
    let of_bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    // Not every file system says how large it is.
    let is_small = (1..SIZE_BYTES_MIN).contains(&of_bytes(found.f_blocks));
    let is_full = has_other_data && found.f_blocks > 0 && of_bytes(found.f_bavail) < FREE_BYTES_MIN;
    Ok((!is_small && !is_full).then_some(Layout::of_file_system()))
}

/// Reads all places of a volume or of a copy, through files that are opened for this.
///
/// # Errors
/// The error of the volume.
pub fn read_all(path: &Path, layout: &Layout) -> io::Result<Contents> {
    let read = |place: Place| {
        let file = match open(path, layout, place, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.exists() => {
                return Ok((place, Found::Empty));
            }
            Err(error) => return Err(error),
        };
        Ok((place, read_place(&file, layout, place)?))
    };
    layout.places().map(read).collect()
}

/// The files of a workload, which stay open.
#[derive(Debug)]
pub(crate) struct Files {
    directory: PathBuf,
    writer: Writer,
    overwritten: File,
    /// The device itself where there is one.
    appended: File,
}

/// A failure with the operation that failed.
pub(crate) type Failed = (&'static str, io::Error);

impl Files {
    pub(crate) fn open(path: &Path, writer: Writer) -> Result<Files, Failed> {
        let opened = |place| open(path, &writer.layout, place, true).map_err(|error| ("open", error));
        let (overwritten, appended) = (opened(Place::Overwritten(0))?, opened(Place::Appended(0))?);
        Ok(Files { directory: path.to_owned(), writer, overwritten, appended })
    }

    fn stamp(&self, number: u32) -> Stamp {
        Stamp { run: self.writer.run, volume: self.writer.volume.clone(), number }
    }

    /// Writes a record to its place, and waits until it is durable.
    pub(crate) fn write(&self, number: u32) -> Result<(), Failed> {
        let layout = &self.writer.layout;
        let place = layout.place(number);
        let offset = layout.offset_bytes(place);
        let record = contents::bytes(&self.stamp(number), offset, RECORD_BLOCKS);
        let file = match place {
            Place::Renamed => return self.rename_over(&record),
            Place::Appended(_) => &self.appended,
            Place::Overwritten(_) => &self.overwritten,
        };
        let mut buffer = Buffer::new();
        buffer.record().copy_from_slice(&record);
        file.write_all_at(buffer.record(), offset).map_err(|error| ("write", error))?;
        file.sync_data().map_err(|error| ("fdatasync", error))
    }

    fn rename_over(&self, record: &[u8]) -> Result<(), Failed> {
        let new = self.directory.join(NEW);
        let created = OpenOptions::new().write(true).create(true).truncate(true).open(&new);
        let file = created.map_err(|error| ("create", error))?;
        file.write_all_at(record, 0).map_err(|error| ("write", error))?;
        file.sync_all().map_err(|error| ("fsync", error))?;
        std::fs::rename(&new, self.directory.join(RENAMED)).map_err(|error| ("rename", error))?;
        match File::open(&self.directory).and_then(|directory| directory.sync_all()) {
            // Some file systems have no fsync for directories.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced.map_err(|error| ("fsync of the directory", error)),
        }
    }

    /// Reads a place through the files that are open; the renamed file is opened each time.
    pub(crate) fn read(&self, place: Place) -> Result<Found, Failed> {
        let file = match place {
            Place::Appended(_) => self.appended.try_clone(),
            Place::Overwritten(_) => self.overwritten.try_clone(),
            Place::Renamed => open(&self.directory, &self.writer.layout, place, false),
        };
        let file = file.map_err(|error| ("open", error))?;
        read_place(&file, &self.writer.layout, place).map_err(|error| ("read", error))
    }
}

fn open(path: &Path, layout: &Layout, place: Place, for_writing: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(for_writing);
    if layout.is_device() {
        return options.custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path);
    }
    let name = match place {
        Place::Appended(_) => APPENDED,
        Place::Overwritten(_) => OVERWRITTEN,
        Place::Renamed => RENAMED,
    };
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    options.create(for_writing).custom_flags(flags).open(path.join(name))
}

fn read_place(file: &File, layout: &Layout, place: Place) -> io::Result<Found> {
    let offset = layout.offset_bytes(place);
    match fadvise(file, offset, NonZeroU64::new(RECORD_BYTES), Advice::DontNeed) {
        // Not every file system takes advice.
        Ok(()) | Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        Err(error) => return Err(error.into()),
    }
    let mut buffer = Buffer::new();
    let length = read_up_to(file, buffer.record(), offset)?;
    Ok(contents::found(&buffer.record()[..length], offset, RECORD_BLOCKS))
}

/// Reads until the buffer is full or the file ends.
fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read_at(&mut buffer[length..], offset + length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// A buffer for one record at an address that O_DIRECT accepts.
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    fn new() -> Buffer {
        let bytes = vec![0; 2 * ALIGNED_BYTES];
        let start = bytes.as_ptr().align_offset(ALIGNED_BYTES).min(ALIGNED_BYTES);
        Buffer { bytes, start }
    }

    fn record(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + ALIGNED_BYTES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::Span;

    #[test]
    fn a_file_system_holds_each_record_that_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let writer = Writer { layout: Layout::of_file_system(), run: 1, volume: "v1".to_owned() };
        let files = Files::open(directory.path(), writer.clone()).unwrap();
        for number in 1..=200 {
            files.write(number).unwrap();
            let last = contents_number(files.read(writer.layout.place(number)).unwrap());
            assert_eq!(last, Some(number));
        }
        let contents = read_all(directory.path(), &writer.layout).unwrap();
        assert_eq!(writer.judge(Span { acknowledged: 200, begun: 200 }, &contents), []);
        assert_ne!(writer.judge(Span { acknowledged: 201, begun: 201 }, &contents), []);
    }

    fn contents_number(found: Found) -> Option<u32> {
        found.number()
    }
}
