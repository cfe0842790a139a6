//! Defects of the part that an expansion adds to a volume on a loop device.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{SeekFrom, major, minor, seek};

use crate::target::run;
use crate::{Defect, Faults, Seen};

/// A driver writes over a new part once something was written to it within this time.
const WATCHED: Duration = Duration::from_secs(5);
/// The pause between two looks at it.
const LOOK: Duration = Duration::from_millis(5);
/// The size of the part of an image that is written over.
const BLOCK_BYTES: usize = 4096;
/// The beginning of everything that workloads of tests write.
const MARK: &[u8] = b"csi-sanity: ";
const SECTOR_BYTES: u64 = 512;

/// The loop device of a volume, with the file behind it.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    device: PathBuf,
    file: PathBuf,
    bytes: u64,
}

impl Image {
    /// The device at a target, or the one that the file system there is on; none if it is no loop device.
    pub(crate) fn at(target: &Path) -> Option<Image> {
        let found = target.metadata().ok()?;
        let number = if found.file_type().is_block_device() { found.rdev() } else { found.dev() };
        let entry = fs::canonicalize(format!("/sys/dev/block/{}:{}", major(number), minor(number))).ok()?;
        let line = |name: &str| fs::read_to_string(entry.join(name)).map(|text| text.trim_end().to_owned());
        let file = PathBuf::from(line("loop/backing_file").ok()?);
        let sectors: u64 = line("size").ok()?.parse().ok()?;
        Some(Image {
            device: Path::new("/dev").join(entry.file_name()?),
            file,
            bytes: sectors * SECTOR_BYTES,
        })
    }
}

impl Faults {
    /// Does to the new part of a volume what the defect does, once the volume is expanded. The image is the one from before.
    pub(crate) fn spoil_new_part(&self, seen: &mut Seen, id: &str, before: &Image) {
        let Some(target) = seen.target_of(id) else { return };
        let Some(now) = Image::at(Path::new(&target)).filter(|now| now.bytes > before.bytes) else { return };
        match self.defect {
            Defect::NewPartInitialisedLate => write_over(now.file, before.bytes, None),
            Defect::NewPartsCollide => {
                let is_other = |(other, image): &(&String, &Image)| {
                    *other != id && image.bytes == now.bytes && seen.target_of(other).is_some()
                };
                if let Some((_, other)) = seen.data.images.iter().find(is_other) {
                    write_over(now.file.clone(), before.bytes, Some(other.file.clone()));
                }
                seen.data.images.insert(id.to_owned(), now);
            }
            Defect::FileSystemLargerThanDevice if Path::new(&target).is_dir() => {
                let image = OpenOptions::new().write(true).open(&now.file).unwrap();
                image.set_len(before.bytes).unwrap();
                run("losetup", &["--set-capacity", &now.device.to_string_lossy()]);
            }
            _ => {}
        }
    }
}

/// Waits in the background until something is written behind this many bytes of an image, and writes over it: zeros, or what another image has at
/// that place once it has something there.
fn write_over(file: PathBuf, from: u64, other: Option<PathBuf>) {
    let image = OpenOptions::new().read(true).write(true).open(file).unwrap();
    let other = other.map(|other| File::open(other).unwrap());
    std::thread::spawn(move || {
        let begun = Instant::now();
        while begun.elapsed() < WATCHED {
            let written = written_blocks(&image, from).find_map(|at| match &other {
                None => Some((at, [0; BLOCK_BYTES])),
                Some(other) => block(other, at).map(|block| (at, block)),
            });
            if let Some((at, block)) = written {
                image.write_all_at(&block, at).unwrap();
                return;
            }
            std::thread::sleep(LOOK);
        }
    });
}

/// The places behind this many bytes to which a workload has written.
fn written_blocks(image: &File, from: u64) -> impl Iterator<Item = u64> {
    let mut next = from;
    std::iter::from_fn(move || {
        loop {
            let at = seek(image, SeekFrom::Data(next)).ok()? / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
            next = at + BLOCK_BYTES as u64;
            if block(image, at).is_some() {
                return Some(at);
            }
        }
    })
}

/// A block of an image if a workload has written it.
fn block(image: &File, at: u64) -> Option<[u8; BLOCK_BYTES]> {
    let mut block = [0; BLOCK_BYTES];
    image.read_exact_at(&mut block, at).ok()?;
    block.starts_with(MARK).then_some(block)
}
