//! Copies of the content of volumes, which defects put back at the wrong time.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The number of bytes that are read at the beginning and at the end of a device.
const RANGE_BYTES: u64 = 256 << 10;
/// The distance by which content is shifted, and the length of a damaged part.
const BLOCK_BYTES: usize = 512;
/// The bytes in which two sectors are swapped.
const SWAPPED_IN_BYTES: usize = 64 << 10;

/// The content of a volume.
#[derive(Clone, Debug)]
pub(crate) enum Contents {
    Files(BTreeMap<OsString, Vec<u8>>),
    Ranges(Vec<(u64, Vec<u8>)>),
}

impl Contents {
    /// Reads the content at a target; returns an error if it cannot be read.
    pub(crate) fn of(target: &Path) -> io::Result<Contents> {
        if target.is_dir() {
            let entries = fs::read_dir(target)?.flatten();
            let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
            let read = |entry: fs::DirEntry| Ok((entry.file_name(), fs::read(entry.path())?));
            return Ok(Contents::Files(files.map(read).collect::<io::Result<_>>()?));
        }
        let device = File::open(target)?;
        let end = io::Seek::seek(&mut &device, io::SeekFrom::End(0))?;
        let read = |from: u64| {
            let mut bytes = vec![0; usize::try_from(RANGE_BYTES.min(end - from)).unwrap_or_default()];
            device.read_exact_at(&mut bytes, from).map(|()| (from, bytes))
        };
        Ok(Contents::Ranges(vec![read(0)?, read(end.saturating_sub(RANGE_BYTES))?]))
    }

    /// Replaces the content at a target.
    pub(crate) fn put(&self, target: &Path) -> io::Result<()> {
        match self {
            Contents::Files(files) => {
                if let Contents::Files(others) = Contents::of(target)? {
                    let others = others.into_keys().filter(|name| !files.contains_key(name));
                    others.into_iter().try_for_each(|name| fs::remove_file(target.join(name)))?;
                }
                for (name, bytes) in files {
                    fs::write(target.join(name), bytes)?;
                }
                rustix::fs::syncfs(File::open(target)?).map_err(io::Error::from)
            }
            Contents::Ranges(ranges) => {
                let device = OpenOptions::new().write(true).open(target)?;
                let end = io::Seek::seek(&mut &device, io::SeekFrom::End(0))?;
                for (from, bytes) in ranges.iter().filter(|(from, bytes)| from + bytes.len() as u64 <= end) {
                    device.write_all_at(bytes, *from)?;
                }
                device.sync_all()
            }
        }
    }

    /// Applies a change to each file or range.
    fn with(mut self, mut change: impl FnMut(&mut Vec<u8>)) -> Contents {
        match &mut self {
            Contents::Files(files) => files.values_mut().for_each(&mut change),
            Contents::Ranges(ranges) => ranges.iter_mut().for_each(|(_, bytes)| change(bytes)),
        }
        self
    }

    pub(crate) fn emptied(self) -> Contents {
        match self {
            Contents::Files(_) => Contents::Files(BTreeMap::new()),
            ranges => ranges.with(|bytes| bytes.fill(0)),
        }
    }

    pub(crate) fn shifted(self) -> Contents {
        self.with(|bytes| {
            bytes.splice(0..0, [0; BLOCK_BYTES]);
            bytes.truncate(bytes.len() - BLOCK_BYTES);
        })
    }

    pub(crate) fn damaged(self) -> Contents {
        self.with(|bytes| {
            bytes.iter_mut().skip(BLOCK_BYTES / 2).step_by(BLOCK_BYTES).for_each(|byte| *byte ^= 1)
        })
    }

    /// These contents with the first file or range of other ones.
    pub(crate) fn with_beginning_of(mut self, other: &Contents) -> Contents {
        match (&mut self, other) {
            (Contents::Files(files), Contents::Files(others)) => {
                files.extend(others.first_key_value().map(|(name, bytes)| (name.clone(), bytes.clone())));
            }
            (Contents::Ranges(ranges), Contents::Ranges(others)) => {
                ranges.iter_mut().zip(others).take(1).for_each(|(range, other)| *range = other.clone());
            }
            _ => {}
        }
        self
    }

    /// These contents with one file as it is in others, or without it where they lack it.
    pub(crate) fn with_file_of(mut self, other: &Contents, name: Option<&OsStr>) -> Contents {
        if let (Contents::Files(files), Contents::Files(others), Some(name)) = (&mut self, other, name) {
            files.remove(name);
            files.extend(others.get_key_value(name).map(|(name, bytes)| (name.clone(), bytes.clone())));
        }
        self
    }

    pub(crate) fn without_logs(mut self) -> Contents {
        if let Contents::Files(files) = &mut self {
            files.retain(|name, _| !name.as_encoded_bytes().ends_with(b"-wal"));
        }
        self
    }

    /// These contents with two sectors swapped in every stretch of the largest file or of each range.
    pub(crate) fn with_swapped_sectors(mut self) -> Contents {
        let swap = |bytes: &mut Vec<u8>| {
            for stretch in bytes.chunks_exact_mut(SWAPPED_IN_BYTES) {
                let (first, second) = stretch.split_at_mut(BLOCK_BYTES);
                first.swap_with_slice(&mut second[..BLOCK_BYTES]);
            }
        };
        match &mut self {
            Contents::Files(files) => {
                files.values_mut().max_by_key(|bytes| bytes.len()).into_iter().for_each(swap)
            }
            Contents::Ranges(ranges) => ranges.iter_mut().for_each(|(_, bytes)| swap(bytes)),
        }
        self
    }

    pub(crate) fn without_end(mut self) -> Contents {
        match &mut self {
            Contents::Files(files) => files.values_mut().for_each(|bytes| bytes.truncate(bytes.len() / 2)),
            Contents::Ranges(ranges) => {
                if let Some((_, last)) = ranges.last_mut() {
                    last.fill(0);
                }
            }
        }
        self
    }
}
