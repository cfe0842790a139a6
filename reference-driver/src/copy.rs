//! Copies images and directories. Data are shared with the source if the file system supports reflinks, and holes
//! stay holes.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use crate::capacity::Ledger;
use crate::error::{DriverError, IoContext, Result};

/// The largest number of bytes that one system call copies.
const CHUNK_BYTES: usize = 16 << 20;
/// The deepest nesting of directories, so that neither the stack nor file descriptors run out.
const DEPTH_MAX: usize = 256;
/// The longest list or value of extended attributes, in bytes.
const XATTR_BYTES_MAX: usize = 64 * 1024;
/// The largest total length of the paths that are remembered to restore hard links. Beyond it, and for paths that are
/// too long for a system call, each name becomes a file of its own.
const LINKED_BYTES_MAX: usize = 64 << 20;
/// `PATH_MAX` without the final NUL.
const PATH_BYTES_MAX: usize = 4095;

/// Copies an image to a new file, and flushes it. The new file has the given size, or the size of the source if that
/// is larger.
pub(crate) fn copy_image(source: &Path, target: &Path, size_bytes: u64, ledger: &Ledger) -> Result<()> {
    let from = File::open(source).on("open", source)?;
    let present = from.metadata().on("look at", source)?;
    let mut options = OpenOptions::new();
    let to = options.write(true).create_new(true).mode(0o600).open(target).on("make", target)?;
    if rustix::fs::ioctl_ficlone(&to, &from).is_err() {
        let _space = ledger.reserve_space(present.blocks() * 512)?;
        copy_data(from.as_fd(), to.as_fd()).on("copy to", target)?;
    }
    to.set_len(size_bytes.max(present.len())).on("resize", target)?;
    to.sync_all().on("flush", target)
}

/// Copies the parts of a file that contain data; the rest stay holes.
fn copy_data(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    let mut offset = 0;
    loop {
        let start = match rustix::fs::seek(from, SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(start))?;
        copy_range(from, to, start, end)?;
        offset = end;
    }
}

fn copy_range(from: BorrowedFd<'_>, to: BorrowedFd<'_>, start: u64, end: u64) -> io::Result<()> {
    let (mut read_at, mut write_at) = (start, start);
    while read_at < end {
        let rest = usize::try_from(end - read_at).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        match rustix::fs::copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), rest) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Copies the content of a directory and the directory's own attributes to an empty directory: owners, modes, times,
/// hard links, extended attributes and holes. Skips other file systems that are mounted inside, and files that are
/// deleted during the copy.
pub(crate) fn copy_tree(source: &Path, target: &Path) -> Result<()> {
    let from = open_directory(CWD, source).on("open", source)?;
    let to = open_directory(CWD, target).on("open", target)?;
    let root = rustix::fs::fstat(&from).on("look at", source)?;
    let mut tree = TreeCopy { device: root.st_dev, links: HashMap::new(), linked_bytes: 0, root: to };
    let to = tree.root.try_clone().on("open", target)?;
    tree.copy_entries(from.as_fd(), to.as_fd(), Path::new(""), 0).map_err(|error| match error {
        TreeError::Io(source) => DriverError::Io { action: "copy to", path: target.to_owned(), source },
        TreeError::Deep => {
            DriverError::precondition("the volume", "its directories are nested too deeply to copy")
        }
    })?;
    finish(from.as_fd(), to.as_fd(), &root).on("copy attributes to", target)?;
    rustix::fs::syncfs(&to).on("flush", target)
}

#[derive(Debug)]
enum TreeError {
    Io(io::Error),
    Deep,
}

impl<E: Into<io::Error>> From<E> for TreeError {
    fn from(error: E) -> TreeError {
        TreeError::Io(error.into())
    }
}

struct TreeCopy {
    device: u64,
    links: HashMap<u64, PathBuf>,
    linked_bytes: usize,
    root: OwnedFd,
}

impl TreeCopy {
    fn copy_entries(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        at: &Path,
        depth: usize,
    ) -> std::result::Result<(), TreeError> {
        if depth == DEPTH_MAX {
            return Err(TreeError::Deep);
        }
        for entry in Dir::read_from(from)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            match self.copy_entry(from, to, name, at, depth) {
                Err(TreeError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                result => result?,
            }
        }
        Ok(())
    }

    fn copy_entry(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
        at: &Path,
        depth: usize,
    ) -> std::result::Result<(), TreeError> {
        let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if stat.st_dev != self.device {
            return Ok(());
        }
        let path = at.join(OsStr::from_bytes(name.to_bytes()));
        let file_type = FileType::from_raw_mode(stat.st_mode);
        if file_type != FileType::Directory && stat.st_nlink > 1 {
            if let Some(first) = self.links.get(&stat.st_ino) {
                rustix::fs::linkat(&self.root, first, to, name, AtFlags::empty())?;
                return Ok(());
            }
            let bytes = path.as_os_str().len();
            if bytes <= PATH_BYTES_MAX && self.linked_bytes + bytes <= LINKED_BYTES_MAX {
                self.linked_bytes += bytes;
                self.links.insert(stat.st_ino, path.clone());
            }
        }
        match file_type {
            FileType::Directory => self.copy_directory(from, to, name, &stat, &path, depth),
            FileType::RegularFile => Ok(copy_file(from, to, name, &stat)?),
            FileType::Symlink => Ok(copy_link(from, to, name, &stat)?),
            _ => Ok(copy_special(to, name, file_type, &stat)?),
        }
    }

    fn copy_directory(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
        stat: &Stat,
        path: &Path,
        depth: usize,
    ) -> std::result::Result<(), TreeError> {
        let source = open_directory(from, name)?;
        rustix::fs::mkdirat(to, name, Mode::RWXU)?;
        let target = open_directory(to, name)?;
        self.copy_entries(source.as_fd(), target.as_fd(), path, depth + 1)?;
        Ok(finish(source.as_fd(), target.as_fd(), stat)?)
    }
}

/// Opens a directory for reading, without following a symbolic link.
pub(crate) fn open_directory(at: impl AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, name, flags, Mode::empty())?)
}

fn copy_file(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> io::Result<()> {
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let source = rustix::fs::openat(from, name, read, Mode::empty())?;
    let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let target = rustix::fs::openat(to, name, write, Mode::RUSR | Mode::WUSR)?;
    if rustix::fs::ioctl_ficlone(&target, &source).is_err() {
        copy_data(source.as_fd(), target.as_fd())?;
        rustix::fs::ftruncate(&target, rustix::fs::fstat(&source)?.st_size.try_into().unwrap_or(0))?;
    }
    finish(source.as_fd(), target.as_fd(), stat)
}

fn copy_link(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> io::Result<()> {
    let link: CString = rustix::fs::readlinkat(from, name, Vec::new())?;
    rustix::fs::symlinkat(&link, to, name)?;
    rustix::fs::chownat(to, name, Some(owner(stat)), Some(group(stat)), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(rustix::fs::utimensat(to, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)?)
}

fn copy_special(to: BorrowedFd<'_>, name: &CStr, file_type: FileType, stat: &Stat) -> io::Result<()> {
    let mode = Mode::from_raw_mode(stat.st_mode);
    rustix::fs::mknodat(to, name, file_type, mode, stat.st_rdev)?;
    rustix::fs::chownat(to, name, Some(owner(stat)), Some(group(stat)), AtFlags::SYMLINK_NOFOLLOW)?;
    rustix::fs::chmodat(to, name, mode, AtFlags::empty())?;
    Ok(rustix::fs::utimensat(to, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Copies owner, attributes, mode and times, in an order in which a later step does not undo an earlier one: changing
/// the owner clears mode bits, and changing attributes changes times.
fn finish(from: BorrowedFd<'_>, to: BorrowedFd<'_>, stat: &Stat) -> io::Result<()> {
    match rustix::fs::fchown(to, Some(owner(stat)), Some(group(stat))) {
        Err(Errno::PERM) => {} // Without privileges the driver owns all files, and cannot give them to others.
        result => result?,
    }
    copy_attributes(from, to)?;
    rustix::fs::fchmod(to, Mode::from_raw_mode(stat.st_mode))?;
    Ok(rustix::fs::futimens(to, &times(stat))?)
}

fn copy_attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    let mut names = vec![0u8; XATTR_BYTES_MAX];
    let count = match rustix::fs::flistxattr(from, &mut names[..]) {
        Err(Errno::OPNOTSUPP) => return Ok(()),
        result => result?,
    };
    let mut value = vec![0u8; XATTR_BYTES_MAX];
    for name in names[..count].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let length = match rustix::fs::fgetxattr(from, name, &mut value[..]) {
            Err(Errno::NODATA) => continue,
            result => result?,
        };
        match rustix::fs::fsetxattr(to, name, &value[..length], XattrFlags::empty()) {
            Err(Errno::PERM | Errno::OPNOTSUPP) => {}
            result => result?,
        }
    }
    Ok(())
}

fn owner(stat: &Stat) -> Uid {
    Uid::from_raw(stat.st_uid)
}

fn group(stat: &Stat) -> Gid {
    Gid::from_raw(stat.st_gid)
}

fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime as _, tv_nsec: stat.st_atime_nsec as _ },
        last_modification: Timespec { tv_sec: stat.st_mtime as _, tv_nsec: stat.st_mtime_nsec as _ },
    }
}
