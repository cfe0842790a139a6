//! Gives the files of a mounted volume to a group, for the capability VOLUME_MOUNT_GROUP.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::{DriverError, IoContext, Result};
use crate::paths::PathEntry;

/// The deepest nesting of directories, so that neither the stack nor file descriptors run out.
const DEPTH_MAX: usize = 256;

/// Makes all files belong to the group and writable for it, and new files inherit it. If the root directory already
/// has the right owner and mode, all files below it do too, so they are skipped.
pub(super) fn give_to_group(at: &PathEntry, group: u32) -> Result<()> {
    let root = at.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
    let stat = rustix::fs::fstat(&root).on("look at", at.path())?;
    if stat.st_gid == group && Mode::from_raw_mode(stat.st_mode).contains(wanted_mode(&stat)) {
        return Ok(());
    }
    give_entries(root.as_fd(), Gid::from_raw(group), 0).map_err(|error| DriverError::Io {
        action: "change the group of files in",
        path: at.path().to_owned(),
        source: error.into(),
    })?;
    // The root directory is changed last, because it marks that everything below is done.
    give_open(root.as_fd(), &stat, Gid::from_raw(group)).on("change the group of", at.path())
}

/// The mode bits that a file needs to be usable by its owner and the group.
fn wanted_mode(stat: &Stat) -> Mode {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Mode::SGID | Mode::RWXG | Mode::RUSR | Mode::WUSR | Mode::XUSR,
        _ => Mode::RGRP | Mode::WGRP | Mode::RUSR | Mode::WUSR,
    }
}

fn give_open(file: BorrowedFd<'_>, stat: &Stat, group: Gid) -> rustix::io::Result<()> {
    rustix::fs::fchown(file, None, Some(group))?;
    rustix::fs::fchmod(file, Mode::from_raw_mode(stat.st_mode) | wanted_mode(stat))
}

fn give_entries(directory: BorrowedFd<'_>, group: Gid, depth: usize) -> rustix::io::Result<()> {
    if depth == DEPTH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match give_entry(directory, name, group, depth) {
            Err(Errno::NOENT) => {}
            result => result?,
        }
    }
    Ok(())
}

fn give_entry(
    directory: BorrowedFd<'_>,
    name: &std::ffi::CStr,
    group: Gid,
    depth: usize,
) -> rustix::io::Result<()> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory | FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
            let stat = rustix::fs::fstat(&file)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                give_entries(file.as_fd(), group, depth + 1)?;
            }
            give_open(file.as_fd(), &stat, group)
        }
        _ => rustix::fs::chownat(directory, name, None, Some(group), AtFlags::SYMLINK_NOFOLLOW),
    }
}
