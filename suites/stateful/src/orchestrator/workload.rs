//! What a workload does with a volume: it writes to its places, waits until that is durable, and reads them all.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use csi_harness::mounts;
use csi_harness::prelude::*;
use serde_json::Value;

use super::{Listing, Made, Orchestrator};
use crate::case::Came;
use crate::model::Span;
use crate::model::answer::{Answer, Found, Said, VolumeSaid};
use crate::model::call::VolumeCall;
use crate::model::generate::SLOTS;
use crate::model::names::{Slot, Stamp};

/// How long a workload waits for its volume.
const LIMIT: Duration = Duration::from_secs(60);
/// Distance between the places of a device, in bytes.
const PLACE_BYTES: u64 = 64 << 10;
/// What statfs(2) says of FUSE.
const FUSE_SUPER_MAGIC: i64 = 0x6573_5546;
/// What stands before the number of a write, so that nothing else is taken for one.
const MARK: [u8; 12] = *b"csi-sanity: ";

impl Orchestrator {
    pub(super) async fn work(&self, call: &VolumeCall) -> CheckResult<Made> {
        let (at, write) = match *call {
            VolumeCall::Write { volume, node, target, slot, stamp } => {
                ((volume, node, target), Some((slot, stamp)))
            }
            VolumeCall::Read { volume, node, target } => ((volume, node, target), None),
            _ => return Err(Stop::broken(format!("{} is nothing that a workload does", call.method()))),
        };
        let path = PathBuf::from(self.target_path(at).await?);
        let invoked = self.now();
        let work = play(move || match write {
            Some((slot, stamp)) => self::write(&path, slot, stamp).map(|()| VolumeSaid::Nothing),
            None => read(&path).map(VolumeSaid::Read),
        });
        let (answer, message) = match work.await? {
            Ok(said) => (Answer::Done(Said::Volume(said)), String::new()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => (Answer::Unknown, error.to_string()),
            Err(error) => (Answer::Refused(code(&error)), error.to_string()),
        };
        let came = Came::new(&answer, &message, Value::Null);
        let span = Span { invoked, returned: self.now() };
        Ok(Made { answer, span, request: Value::Null, came, listing: Listing::None })
    }
}

/// Does what a workload does, which may hang with its volume.
///
/// # Errors
/// Broken if it panics. The error inside is that of the volume, `TimedOut` if nothing came of it in time.
pub(crate) async fn play<T: Send + 'static>(
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
pub(crate) fn is_fuse(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type == FUSE_SUPER_MAGIC)
}

/// Whether something is published at a path: another file system than above it, or a device.
pub(crate) fn is_published(path: &Path) -> bool {
    let Ok(there) = path.metadata() else { return false };
    if there.file_type().is_block_device() {
        return true;
    }
    let above = path.parent().and_then(|parent| parent.metadata().ok());
    there.is_dir() && above.is_some_and(|above| is_other_mount(path, &there, &above))
}

/// A bind mount may be of the same file system; the kernel lists it.
fn is_other_mount(path: &Path, there: &std::fs::Metadata, above: &std::fs::Metadata) -> bool {
    there.dev() != above.dev() || !mounts::at(path).is_empty()
}

fn code(error: &io::Error) -> Code {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Code::PermissionDenied,
        io::ErrorKind::NotFound => Code::NotFound,
        _ => Code::FailedPrecondition,
    }
}

fn not_published() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "nothing is mounted at the target path")
}

/// A place in a volume: a file of its file system, or a range of its device.
fn place(path: &Path, slot: Slot) -> io::Result<(PathBuf, u64)> {
    if !is_published(path) {
        return Err(not_published());
    }
    Ok(match path.is_dir() {
        true => (path.join(format!("csi-sanity-{}", slot.0)), 0),
        false => (path.to_owned(), u64::from(slot.0) * PLACE_BYTES),
    })
}

pub(crate) fn write(path: &Path, slot: Slot, stamp: Stamp) -> io::Result<()> {
    let (place, offset) = place(path, slot)?;
    let is_file = place != path;
    let file = OpenOptions::new()
        .write(true)
        .create(is_file)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(&place)?;
    let mut bytes = [0; 512];
    bytes[..MARK.len()].copy_from_slice(&MARK);
    bytes[MARK.len()..MARK.len() + 4].copy_from_slice(&stamp.0.to_le_bytes());
    file.write_all_at(&bytes, offset)?;
    file.sync_all()?;
    if is_file { File::open(path)?.sync_all() } else { Ok(()) }
}

fn read(path: &Path) -> io::Result<BTreeMap<Slot, Found>> {
    (0..SLOTS).map(|slot| Ok((Slot(slot), found(path, Slot(slot))?))).collect()
}

pub(crate) fn found(path: &Path, slot: Slot) -> io::Result<Found> {
    let (place, offset) = place(path, slot)?;
    let mut bytes = [0; MARK.len() + 4];
    let file = match File::open(&place) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Other),
        Err(error) => return Err(error),
    };
    let read =
        if place == path { file.read_exact_at(&mut bytes, offset) } else { (&file).read_exact(&mut bytes) };
    match read {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Found::Other),
        Err(error) => return Err(error),
    }
    let (mark, stamp) = bytes.split_at(MARK.len());
    let stamp: Option<[u8; 4]> = stamp.try_into().ok();
    Ok(match stamp {
        Some(stamp) if mark == MARK => Found::Stamp(Stamp(u32::from_le_bytes(stamp))),
        _ => Found::Other,
    })
}
