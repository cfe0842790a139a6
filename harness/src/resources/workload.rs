//! Uses a published volume as a workload does: writes to places in it, makes that durable, and reads it back.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::resources::contents::{self, BLOCK_BYTES, Found, Stamp};
use crate::resources::mounts;
use crate::spec::verdict::{CheckResult, Stop};

/// The time that a workload waits for its volume.
const LIMIT: Duration = Duration::from_secs(60);
/// Distance between the places of a device, in bytes.
const PLACE_BYTES: u64 = 64 << 10;
/// Blocks of a write.
const BLOCKS: usize = 16;
/// The number of bytes that are written at once when a file is filled.
const FILL_CHUNK_BYTES: usize = 1 << 20;
/// The type of FUSE file systems in statfs(2).
const FUSE_SUPER_MAGIC: i64 = 0x6573_5546;
/// A file system smaller than this may have no room for what workloads write.
const ROOM_BYTES_MIN: u64 = 1 << 20;

/// Runs the work of a workload in a thread of its own, because it may hang with its volume.
///
/// # Errors
/// Broken if it panics. The inner error is the volume's, `TimedOut` if the work did not end in time.
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

/// Returns true if the file system at a path is served by a process, and ends with it.
pub fn is_fuse(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type == FUSE_SUPER_MAGIC)
}

/// Returns true if a volume is published at a path: another file system than above it, or a device.
pub fn is_published(path: &Path) -> bool {
    let Ok(there) = path.metadata() else { return false };
    if there.file_type().is_block_device() {
        return true;
    }
    let above = path.parent().and_then(|parent| parent.metadata().ok());
    // A bind mount may be of the file system above it; the mount table lists it.
    there.is_dir() && above.is_some_and(|above| there.dev() != above.dev() || !mounts::at(path).is_empty())
}

/// Opens a volume for writing, and changes nothing: in a file system it opens a new file without a name, otherwise the device.
///
/// # Errors
/// The error of the volume; `Unsupported` where its file system has no such files.
pub fn open_for_writing(path: &Path) -> io::Result<()> {
    let flags = if path.is_dir() { rustix::fs::OFlags::TMPFILE.bits() } else { 0 };
    OpenOptions::new().write(true).custom_flags(flags as i32).open(path).map(drop)
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

/// Bytes of the file system at a path that are in use.
///
/// # Errors
/// Nothing is there, or it cannot be looked at.
pub fn in_use_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize))
}

/// Writes a file of this many bytes that cannot be compressed into a file system, and makes it durable.
///
/// # Errors
/// The error of the file system.
pub fn fill(path: &Path, bytes: u64, rng: &mut fastrand::Rng) -> io::Result<()> {
    let mut file = File::create(path.join("csi-sanity-fill"))?;
    let mut chunk = vec![0; FILL_CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        rng.fill(&mut chunk);
        let length = left.min(FILL_CHUNK_BYTES as u64);
        file.write_all(&chunk[..length as usize])?;
        left -= length;
    }
    file.sync_all()
}

/// A place in a volume: a file of its file system, or a range of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteLocation {
    slot: u8,
    /// The offset of the place on a device.
    offset: u64,
    blocks: usize,
}

impl WriteLocation {
    /// The n-th place from the beginning.
    pub const fn near(slot: u8) -> WriteLocation {
        WriteLocation { slot, offset: slot as u64 * PLACE_BYTES, blocks: BLOCKS }
    }

    /// The n-th place, with a single block, which devices write whole or not at all.
    pub const fn of_one_block(slot: u8) -> WriteLocation {
        WriteLocation { blocks: 1, ..WriteLocation::near(slot) }
    }

    /// A place at the end of the smallest device with at least this many bytes, if that is not near its beginning.
    pub fn at_end(slot: u8, size_bytes: u64) -> WriteLocation {
        let far = (size_bytes & !(PLACE_BYTES - 1)).saturating_sub(PLACE_BYTES);
        let near = WriteLocation::near(slot);
        WriteLocation { offset: far.max(near.offset), ..near }
    }

    fn bytes(self) -> u64 {
        (self.blocks * BLOCK_BYTES) as u64
    }

    /// The file or device, and where in it.
    fn of(self, path: &Path) -> io::Result<(PathBuf, u64)> {
        if !is_published(path) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "nothing is mounted at the target path"));
        }
        if path.is_dir() {
            let file = path.join(format!("csi-sanity-{}", self.slot));
            // Some file systems do not report their size.
            let is_small = (1..ROOM_BYTES_MIN).contains(&size_bytes(path)?);
            return if is_small { Err(no_room()) } else { Ok((file, 0)) };
        }
        let end = self.offset.saturating_add(self.bytes());
        if end > size_bytes(path)? { Err(no_room()) } else { Ok((path.to_owned(), self.offset)) }
    }
}

fn no_room() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "the volume is too small for what a workload writes there")
}

/// Writes into a place of the volume at a path, and waits until it is durable. On a device the last block is written as well,
/// which belongs to no place.
///
/// # Errors
/// That of the volume, `NotFound` if nothing is published there, `Unsupported` if it has no such place.
pub fn write(path: &Path, place: WriteLocation, stamp: &Stamp) -> io::Result<()> {
    let (file, offset) = place.of(path)?;
    let is_file = file != path;
    let open = OpenOptions::new()
        .write(true)
        .create(is_file)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(&file)?;
    open.write_all_at(&contents::bytes(stamp, offset, place.blocks), offset)?;
    if !is_file {
        write_last_block(&open, path)?;
    }
    open.sync_all()?;
    if is_file { File::open(path)?.sync_all() } else { Ok(()) }
}

/// Writes the last block of a device. All of a device belongs to the volume.
fn write_last_block(device: &File, path: &Path) -> io::Result<()> {
    let Some(offset) = size_bytes(path)?.checked_sub(BLOCK_BYTES as u64) else { return Ok(()) };
    let failed = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("the last {BLOCK_BYTES} bytes of the device, at {offset}: {error}"),
        )
    };
    device.write_all_at(&[0xa5; BLOCK_BYTES], offset).map_err(failed)?;
    device.sync_all().map_err(failed)
}

/// Removes the file of a place from the file system at a path.
///
/// # Errors
/// The error of the file system.
pub fn remove(path: &Path, place: WriteLocation) -> io::Result<()> {
    std::fs::remove_file(place.of(path)?.0)
}

/// Reads a place of the volume at a path.
///
/// # Errors
/// The error of the volume, `NotFound` if nothing is published there, `Unsupported` if it has no such place.
pub fn read(path: &Path, place: WriteLocation) -> io::Result<Found> {
    let (file, offset) = place.of(path)?;
    let mut bytes = Vec::new();
    let open = match File::open(&file) {
        Ok(open) => open,
        Err(error) if error.kind() == io::ErrorKind::NotFound && file != path => return Ok(Found::Empty),
        Err(error) => return Err(error),
    };
    io::Seek::seek(&mut &open, io::SeekFrom::Start(offset))?;
    (&open).take(place.bytes()).read_to_end(&mut bytes)?;
    Ok(contents::found(&bytes, offset, place.blocks))
}

/// A number that distinguishes this writer from others in this process and elsewhere.
pub fn new_run() -> u64 {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (time.as_nanos() as u64).wrapping_mul(1 << 16).wrapping_add(RUNS.fetch_add(1, Ordering::Relaxed))
}

/// Describes the mount or the device at a path: `ext4 on /dev/loop3 (/var/lib/driver/1.img)`.
pub fn whereabouts(path: &Path) -> String {
    let Ok(found) = path.metadata() else { return "nothing".to_owned() };
    if found.file_type().is_block_device() {
        let device = found.rdev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        return format!("device {major}:{minor}{}", backing(&format!("/sys/dev/block/{major}:{minor}")));
    }
    let Some(mount) = mounts::at(path).pop() else { return "no mount".to_owned() };
    let name = Path::new(&mount.source).file_name().unwrap_or_default().to_string_lossy();
    let part =
        if mount.root == Path::new("/") { String::new() } else { format!(", {}", mount.root.display()) };
    format!("{} on {}{}{part}", mount.fs_type, mount.source, backing(&format!("/sys/block/{name}")))
}

/// The file behind a loop device.
fn backing(device: &str) -> String {
    let file = std::fs::read_to_string(Path::new(device).join("loop/backing_file"));
    file.map_or_else(|_| String::new(), |file| format!(" ({})", file.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_for_writing_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        open_for_writing(directory.path()).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(open_for_writing(Path::new("/proc")).is_err(), "no file can be made there");
    }
}
