//! Plain directories and files at target paths. They are created without privileges, and only removed if they were
//! not replaced since.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, openat, statat, unlinkat};
use rustix::io::Errno;
use tonic::Status;

use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::state::{Access, Made, Volume, WRITTEN_BLOCK_BYTES, hash};
use crate::validate::{invalid, required};

/// The largest number of blocks that are read from the data of workloads.
const WRITTEN_READ_MAX: usize = 1024;
/// The longest path in Linux.
const PATH_BYTES_MAX: usize = 4095;

/// Checks a path of a request: it is absolute and leads nowhere unexpected.
pub(super) fn path<'a>(field: &str, given: &'a str) -> Result<&'a str, Status> {
    required(field, given)?;
    let path = Path::new(given);
    if !path.is_absolute() {
        return Err(invalid(format!("{field} is not absolute")));
    }
    if given.len() > PATH_BYTES_MAX || given.contains('\0') {
        return Err(invalid(format!("{field} is no path of the operating system")));
    }
    if path.components().any(|component| component == Component::ParentDir) || path.file_name().is_none() {
        return Err(invalid(format!("{field} has to name a file or directory, without `..`")));
    }
    Ok(given)
}

/// Creates the directory or file at a target path. Returns its identity, or `None` if it existed before.
pub(super) fn make(
    driver: &MockDriver,
    target: &str,
    access: &Access,
    readonly: bool,
) -> Result<Option<Made>, Status> {
    let (parent, name) = open_parent(target).map_err(|errno| unusable(target, errno))?;
    let is_block = matches!(access, Access::Block);
    let wanted = match is_block == driver.has(Defect::NodePublishMakesOtherKind) {
        true => FileType::Directory,
        false => FileType::RegularFile,
    };
    let made = match wanted {
        FileType::Directory => {
            let mode = if readonly { 0o555 } else { 0o755 };
            rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(mode))
        }
        _ => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::WRONLY;
            let mode = if readonly { 0o444 } else { 0o644 };
            openat(&parent, name, flags, Mode::from_raw_mode(mode)).map(drop)
        }
    };
    match made {
        Ok(()) => Ok(Some(identity(&parent, name).map_err(|errno| failed("look at", target, errno))?.0)),
        Err(Errno::EXIST) => {
            let (_, present) = identity(&parent, name).map_err(|errno| failed("look at", target, errno))?;
            if present != wanted {
                return Err(invalid(format!("target_path {target} exists and is no {}", noun(wanted))));
            }
            Ok(None)
        }
        Err(errno) => Err(failed("make", target, errno)),
    }
}

/// Removes what [`make`] created, and its content. If something else has taken its place, that stays.
pub(super) fn remove(target: &str, made: Made) -> Result<(), Status> {
    let (parent, name) = match open_parent(target) {
        // The parent directory was removed, and the target with it.
        Err(Errno::NOENT) => return Ok(()),
        opened => opened.map_err(|errno| unusable(target, errno))?,
    };
    let (present, kind) = match identity(&parent, name) {
        Err(Errno::NOENT) => return Ok(()),
        found => found.map_err(|errno| failed("look at", target, errno))?,
    };
    if present != made {
        return Ok(());
    }
    let removed = match kind {
        FileType::Directory => unlinkat(&parent, name, AtFlags::REMOVEDIR),
        _ => unlinkat(&parent, name, AtFlags::empty()),
    };
    match removed {
        Err(Errno::NOTEMPTY) => remove_tree(target, made.device),
        removed => removed.map_err(|errno| failed("remove", target, errno)),
    }
}

/// Removes a directory with the files that a workload has written, unless something is mounted below it.
fn remove_tree(target: &str, device: u64) -> Result<(), Status> {
    let failed = |error: std::io::Error| Status::internal(format!("remove target_path {target}: {error}"));
    let mut pending = vec![std::path::PathBuf::from(target)];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let metadata = entry.metadata().map_err(failed)?;
            if std::os::unix::fs::MetadataExt::dev(&metadata) != device {
                return Err(Status::failed_precondition(format!(
                    "something is mounted below target_path {target}"
                )));
            }
            if metadata.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    std::fs::remove_dir_all(target).map_err(failed)
}

/// Records what workloads have written so far into the files that stand for devices.
pub(crate) fn note_written(volume: &mut Volume) {
    let published = volume.on_nodes.values().flat_map(|node| &node.published);
    let devices = published.filter(|(_, publication)| publication.usage.is_block());
    let blocks: Vec<_> =
        devices.filter_map(|(path, publication)| Some(written(path, publication.made?))).flatten().collect();
    volume.content.note_written(blocks);
}

/// The hashes of the blocks that a workload has written into a file that stands for a device, by block number. Holes
/// and unreadable blocks are left out.
fn written(target: &str, made: Made) -> Vec<(u32, u64)> {
    let mut blocks = Vec::new();
    // An error only leaves the rest out.
    let _ = read_written(target, made, &mut blocks);
    blocks
}

fn read_written(target: &str, made: Made, blocks: &mut Vec<(u32, u64)>) -> io::Result<()> {
    let (parent, name) = open_parent(target)?;
    let file = File::from(openat(
        &parent,
        name,
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?);
    if identity(&parent, name)? != (made, FileType::RegularFile) {
        return Ok(());
    }
    let mut bytes = [0; WRITTEN_BLOCK_BYTES];
    let mut number = 0;
    while blocks.len() < WRITTEN_READ_MAX {
        let data = match rustix::fs::seek(&file, SeekFrom::Data(u64::from(number) * bytes.len() as u64)) {
            Ok(offset) => offset / bytes.len() as u64,
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        number = u32::try_from(data).map_err(io::Error::other)?;
        let read = file.read_at(&mut bytes, data * WRITTEN_BLOCK_BYTES as u64)?;
        bytes[read..].fill(0);
        let words =
            bytes.chunks_exact(8).map(|word| word.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        blocks.push((number, hash(&words.collect::<Vec<_>>())));
        number += 1;
    }
    Ok(())
}

/// Opens the parent directory of a target without following symbolic links. Returns it with the last name of the
/// path.
fn open_parent(target: &str) -> rustix::io::Result<(OwnedFd, &OsStr)> {
    let path = Path::new(target);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directory = rustix::fs::open("/", flags, Mode::empty())?;
    let mut names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let last = names.next_back().ok_or(Errno::INVAL)?;
    for name in names {
        directory = openat(&directory, name, flags, Mode::empty())?;
    }
    Ok((directory, last))
}

fn identity(parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<(Made, FileType)> {
    let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((Made { device: stat.st_dev, inode: stat.st_ino }, FileType::from_raw_mode(stat.st_mode)))
}

fn noun(kind: FileType) -> &'static str {
    if kind == FileType::Directory { "directory" } else { "regular file" }
}

/// Reports a path that cannot be used, which is the caller's mistake.
fn unusable(target: &str, errno: Errno) -> Status {
    match errno {
        Errno::NOENT => invalid(format!("the parent directory of {target} does not exist")),
        Errno::NOTDIR | Errno::LOOP => {
            invalid(format!("{target} leads through a symbolic link or something that is no directory"))
        }
        other => failed("reach", target, other),
    }
}

fn failed(verb: &str, target: &str, errno: Errno) -> Status {
    Status::internal(format!("{verb} target_path {target}: {errno}"))
}
