//! A copy-on-write view of the state file, whose changes never reach the disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use csi_proto::lock::RwLock;
use redb::StorageBackend;

/// The size of the parts in which changes are stored.
const PART_BYTES: usize = 4096;
/// The largest amount of changes. A repair changes little, but a damaged file may demand anything.
const CHANGED_BYTES_MAX: usize = 64 << 20;

/// A file that is only read. Written parts are kept in memory.
#[derive(Debug)]
pub(super) struct Overlay {
    file: File,
    len_max: u64,
    changes: RwLock<Changes>,
}

/// The changes that hide parts of the file.
#[derive(Debug)]
struct Changes {
    len: u64,
    /// The length up to which the file is visible. Bytes that were once truncated read as zeros.
    visible_len: u64,
    parts: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    pub(super) fn new(file: File) -> io::Result<Overlay> {
        let len = file.metadata()?.len();
        let len_max = len.saturating_mul(2).saturating_add(CHANGED_BYTES_MAX as u64);
        Ok(Overlay {
            file,
            len_max,
            changes: RwLock::new(Changes { len, visible_len: len, parts: BTreeMap::new() }),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.read().len == 0
    }
}

impl Changes {
    /// Fails unless the range lies within the length.
    fn check(&self, offset: u64, length: usize) -> io::Result<()> {
        let end = offset.checked_add(length as u64).filter(|end| *end <= self.len);
        end.map(|_| ()).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Reads the file, and zeros beyond its visible length.
    fn read_file(&self, file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let length = self.visible_len.saturating_sub(offset).min(out.len() as u64);
        let (visible, hidden) = out.split_at_mut(length as usize);
        hidden.fill(0);
        file.read_exact_at(visible, offset)
    }

    /// The changed part with this number; copies it from the file if it was not changed before.
    fn part(&mut self, file: &File, number: u64) -> io::Result<&mut Vec<u8>> {
        if !self.parts.contains_key(&number) {
            if self.parts.len() * PART_BYTES >= CHANGED_BYTES_MAX {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            let mut part = vec![0; PART_BYTES];
            self.read_file(file, number * PART_BYTES as u64, &mut part)?;
            self.parts.insert(number, part);
        }
        self.parts.get_mut(&number).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The numbers of the parts that overlap with a range.
fn parts_of(range: &Range<u64>) -> Range<u64> {
    range.start / PART_BYTES as u64..range.end.div_ceil(PART_BYTES as u64)
}

/// The overlap of a part and a range, relative to the start of each.
fn shared(number: u64, range: &Range<u64>) -> (Range<usize>, Range<usize>) {
    let begin = number * PART_BYTES as u64;
    let (from, to) = (range.start.max(begin), range.end.min(begin + PART_BYTES as u64));
    let counted_from = |start: u64| (from - start) as usize..(to - start) as usize;
    (counted_from(begin), counted_from(range.start))
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes.read().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes.read();
        changes.check(offset, out.len())?;
        changes.read_file(&self.file, offset, out)?;
        let range = offset..offset + out.len() as u64;
        for (number, part) in changes.parts.range(parts_of(&range)) {
            let (of_part, of_range) = shared(*number, &range);
            out[of_range].copy_from_slice(&part[of_part]);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len > self.len_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut changes = self.changes.write();
        let gone = len..changes.len.max(len);
        changes.parts.retain(|number, part| {
            if parts_of(&gone).contains(number) {
                part[shared(*number, &gone).0].fill(0);
            }
            *number * (PART_BYTES as u64) < len
        });
        changes.visible_len = changes.visible_len.min(len);
        changes.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes.write();
        changes.check(offset, data.len())?;
        let range = offset..offset + data.len() as u64;
        for number in parts_of(&range) {
            let (of_part, of_range) = shared(number, &range);
            changes.part(&self.file, number)?[of_part].copy_from_slice(&data[of_range]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies each change to an overlay and to a plain list of bytes.
    struct Twins {
        overlay: Overlay,
        bytes: Vec<u8>,
    }

    impl Twins {
        fn write(&mut self, offset: usize, data: &[u8]) {
            self.overlay.write(offset as u64, data).unwrap();
            self.bytes[offset..offset + data.len()].copy_from_slice(data);
        }

        fn set_len(&mut self, len: usize) {
            self.overlay.set_len(len as u64).unwrap();
            self.bytes.resize(len, 0);
        }

        fn compare(&self) {
            assert_eq!(self.overlay.len().unwrap(), self.bytes.len() as u64);
            let mut found = vec![7; self.bytes.len()];
            self.overlay.read(0, &mut found).unwrap();
            assert!(found == self.bytes);
            let mut some = vec![7; 5000];
            self.overlay.read(3000, &mut some).unwrap();
            assert!(some == self.bytes[3000..8000]);
        }
    }

    #[test]
    fn an_overlay_reads_like_a_file_and_never_changes_it() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let original: Vec<u8> = (0..20_000u32).map(|number| (number % 251) as u8).collect();
        std::fs::write(&path, &original).unwrap();
        let overlay = Overlay::new(File::open(&path).unwrap()).unwrap();
        let mut twins = Twins { overlay, bytes: original.clone() };
        twins.compare();
        twins.write(4000, &[1; 9000]);
        twins.write(10, b"x");
        twins.compare();
        twins.set_len(9000);
        twins.compare();
        twins.set_len(30_000);
        twins.compare();
        twins.write(8990, &[2; 20]);
        twins.write(29_999, b"y");
        twins.compare();
        assert!(twins.overlay.write(29_999, b"yz").is_err());
        assert!(twins.overlay.read(u64::MAX, &mut [0]).is_err());
        assert!(twins.overlay.set_len(u64::MAX).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), original);
    }

    #[test]
    fn the_memory_of_an_overlay_is_limited() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        File::create(&path).unwrap().set_len(2 * CHANGED_BYTES_MAX as u64).unwrap();
        let overlay = Overlay::new(File::open(&path).unwrap()).unwrap();
        let zeros = vec![0; PART_BYTES];
        let refused = (0..=CHANGED_BYTES_MAX / PART_BYTES)
            .find_map(|number| overlay.write((number * PART_BYTES) as u64, &zeros).err());
        assert_eq!(refused.unwrap().kind(), io::ErrorKind::FileTooLarge);
    }
}
