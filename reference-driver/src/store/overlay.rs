//! The state file with changes that never reach it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use csi_proto::lock::RwLock;
use redb::StorageBackend;

/// In what parts changes are kept, in bytes.
const PART_BYTES: usize = 4096;
/// How much may be changed, in bytes. A repair changes little; a file of nonsense asks for anything.
const CHANGED_BYTES_MAX: usize = 64 << 20;

/// A file that is only read. What is written is kept in memory, a part at a time.
#[derive(Debug)]
pub(super) struct Overlay {
    file: File,
    len_max: u64,
    above: RwLock<Above>,
}

/// What hides the file.
#[derive(Debug)]
struct Above {
    len: u64,
    /// Up to where the file is seen; what was once cut off reads as zeros.
    seen: u64,
    parts: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    pub(super) fn new(file: File) -> io::Result<Overlay> {
        let len = file.metadata()?.len();
        let len_max = len.saturating_mul(2).saturating_add(CHANGED_BYTES_MAX as u64);
        Ok(Overlay { file, len_max, above: RwLock::new(Above { len, seen: len, parts: BTreeMap::new() }) })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.above.read().len == 0
    }
}

impl Above {
    /// Fails unless there are that many bytes at the offset.
    fn check(&self, offset: u64, length: usize) -> io::Result<()> {
        let end = offset.checked_add(length as u64).filter(|end| *end <= self.len);
        end.map(|_| ()).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Reads the file, and zeros behind what is seen of it.
    fn read_file(&self, file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let seen = self.seen.saturating_sub(offset).min(out.len() as u64);
        let (seen, hidden) = out.split_at_mut(seen as usize);
        hidden.fill(0);
        file.read_exact_at(seen, offset)
    }

    /// The part with that number, which from now on hides the file.
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

/// The numbers of the parts that a range touches.
fn parts_of(range: &Range<u64>) -> Range<u64> {
    range.start / PART_BYTES as u64..range.end.div_ceil(PART_BYTES as u64)
}

/// The bytes that a part and a range share, counted from the start of each.
fn shared(number: u64, range: &Range<u64>) -> (Range<usize>, Range<usize>) {
    let begin = number * PART_BYTES as u64;
    let (from, to) = (range.start.max(begin), range.end.min(begin + PART_BYTES as u64));
    let counted_from = |start: u64| (from - start) as usize..(to - start) as usize;
    (counted_from(begin), counted_from(range.start))
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.above.read().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let above = self.above.read();
        above.check(offset, out.len())?;
        above.read_file(&self.file, offset, out)?;
        let range = offset..offset + out.len() as u64;
        for (number, part) in above.parts.range(parts_of(&range)) {
            let (of_part, of_range) = shared(*number, &range);
            out[of_range].copy_from_slice(&part[of_part]);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len > self.len_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut above = self.above.write();
        let gone = len..above.len.max(len);
        above.parts.retain(|number, part| {
            if parts_of(&gone).contains(number) {
                part[shared(*number, &gone).0].fill(0);
            }
            *number * (PART_BYTES as u64) < len
        });
        above.seen = above.seen.min(len);
        above.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut above = self.above.write();
        above.check(offset, data.len())?;
        let range = offset..offset + data.len() as u64;
        for number in parts_of(&range) {
            let (of_part, of_range) = shared(number, &range);
            above.part(&self.file, number)?[of_part].copy_from_slice(&data[of_range]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the same to an overlay and to a list of bytes.
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
    fn it_reads_like_a_file_and_the_file_stays() {
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
    fn it_does_not_take_any_amount_of_memory() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        File::create(&path).unwrap().set_len(2 * CHANGED_BYTES_MAX as u64).unwrap();
        let overlay = Overlay::new(File::open(&path).unwrap()).unwrap();
        let zeros = vec![0; PART_BYTES];
        let refused = (0..=CHANGED_BYTES_MAX / PART_BYTES)
            .find_map(|number| overlay.write((number * PART_BYTES) as u64, &zeros).err());
        assert_eq!(refused.unwrap().kind(), io::ErrorKind::FileTooLarge);
    }
}
