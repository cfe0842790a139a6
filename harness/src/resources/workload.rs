//! What a workload does with a published volume: it writes to its places, waits until that is durable, and reads them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::resources::mounts;
use crate::spec::verdict::{CheckResult, Stop};

/// How long a workload waits for its volume.
const LIMIT: Duration = Duration::from_secs(60);
/// Distance between the places of a device, in bytes.
const PLACE_BYTES: u64 = 64 << 10;
/// What statfs(2) says of FUSE.
const FUSE_SUPER_MAGIC: i64 = 0x6573_5546;
/// What stands before the number of a write, so that nothing else is taken for one.
const MARK: [u8; 12] = *b"csi-sanity: ";

/// Does what a workload does, which may hang with its volume.
///
/// # Errors
/// Broken if it panics. The error inside is that of the volume, `TimedOut` if nothing came of it in time.
pub async fn play<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> CheckResult<io::Result<T>> {
    match tokio::time::timeout(LIMIT, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(panic)) => Err(Stop::broken(format!("a workload failed: {panic}"))),
        Err(_) => {
            Ok(Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing within {} s", LIMIT.as_secs()))))
        }
    }
}

/// Whether the file system at a path is served by a process, and ends with it.
pub fn is_fuse(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type == FUSE_SUPER_MAGIC)
}

/// Whether something is published at a path: another file system than above it, or a device.
pub fn is_published(path: &Path) -> bool {
    let Ok(there) = path.metadata() else { return false };
    if there.file_type().is_block_device() {
        return true;
    }
    let above = path.parent().and_then(|parent| parent.metadata().ok());
    // A bind mount may be of the same file system; the kernel lists it.
    there.is_dir() && above.is_some_and(|above| there.dev() != above.dev() || !mounts::at(path).is_empty())
}

/// Bytes of the device at a path, or of the file system, its own overhead left out.
///
/// # Errors
/// Nothing is there, or it cannot be looked at.
pub fn size_bytes(path: &Path) -> io::Result<u64> {
    if path.is_dir() {
        let found = rustix::fs::statvfs(path)?;
        return Ok(found.f_blocks.saturating_mul(found.f_frsize));
    }
    let mut device = File::open(path)?;
    io::Seek::seek(&mut device, io::SeekFrom::End(0))
}

/// A place in a volume: a file of its file system, or a range of its device.
fn place(path: &Path, slot: u8) -> io::Result<(PathBuf, u64)> {
    if !is_published(path) {
        return Err(io::Error::new(io::ErrorKind::NotFound, "nothing is mounted at the target path"));
    }
    Ok(match path.is_dir() {
        true => (path.join(format!("csi-sanity-{slot}")), 0),
        false => (path.to_owned(), u64::from(slot) * PLACE_BYTES),
    })
}

/// Writes a number into a place of the volume at a path, and waits until it is durable.
///
/// # Errors
/// That of the volume, or `NotFound` if nothing is published there.
pub fn write(path: &Path, slot: u8, stamp: u32) -> io::Result<()> {
    let (place, offset) = place(path, slot)?;
    let is_file = place != path;
    let file = OpenOptions::new()
        .write(true)
        .create(is_file)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(&place)?;
    let mut bytes = [0; 512];
    bytes[..MARK.len()].copy_from_slice(&MARK);
    bytes[MARK.len()..MARK.len() + 4].copy_from_slice(&stamp.to_le_bytes());
    file.write_all_at(&bytes, offset)?;
    file.sync_all()?;
    if is_file { File::open(path)?.sync_all() } else { Ok(()) }
}

/// The number in a place; `None` if something else is there, or nothing.
///
/// # Errors
/// That of the volume, or `NotFound` if nothing is published there.
pub fn read(path: &Path, slot: u8) -> io::Result<Option<u32>> {
    let (place, offset) = place(path, slot)?;
    let mut bytes = [0; MARK.len() + 4];
    let file = match File::open(&place) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let read =
        if place == path { file.read_exact_at(&mut bytes, offset) } else { (&file).read_exact(&mut bytes) };
    match read {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let (mark, stamp) = bytes.split_at(MARK.len());
    Ok(stamp.try_into().ok().filter(|_| mark == MARK).map(u32::from_le_bytes))
}
