//! Paths that a peer sends: staging, target and volume paths.
//!
//! They must be absolute, without `..`, and without symbolic links except those of root ([`crate::links`]). Otherwise
//! a user who can write to a directory in the path could redirect the driver. After this check, all operations are
//! relative to the open parent directory.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use crate::error::{DriverError, IoContext, Result};
use crate::links;

/// `PATH_MAX` without the final NUL.
const PATH_BYTES_MAX: usize = 4095;
/// `NAME_MAX`.
const NAME_BYTES_MAX: usize = 255;

/// A path whose form has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedPath {
    path: PathBuf,
    field: &'static str,
}

impl CheckedPath {
    /// Checks the form of a path; errors mention it as `field`.
    pub fn parse(field: &'static str, text: &str) -> Result<CheckedPath> {
        let invalid = |reason: &str| Err(DriverError::invalid(field, reason));
        if text.is_empty() {
            return Err(DriverError::Missing { field });
        }
        if !text.starts_with('/') {
            return invalid("it is not absolute");
        }
        if text.len() > PATH_BYTES_MAX || text.split('/').any(|part| part.len() > NAME_BYTES_MAX) {
            return invalid("it is longer than the operating system allows");
        }
        if text.contains('\0') {
            return invalid("it contains a NUL");
        }
        let path: PathBuf = Path::new(text).components().collect();
        if path.components().any(|part| part == Component::ParentDir) {
            return invalid("it contains ..");
        }
        if path.file_name().is_none() {
            return invalid("it is the root directory");
        }
        Ok(CheckedPath { path, field })
    }

    /// The normalised path, without repeated or trailing slashes.
    pub fn as_path(&self) -> &Path {
        &self.path
    }

    pub fn to_text(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Opens the parent directory; returns `None` if it does not exist.
    pub fn place(&self) -> Result<Option<PathEntry>> {
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        let name = self.path.file_name().unwrap_or(OsStr::new("")).to_owned();
        match links::open_directory(parent) {
            Ok(parent) => Ok(Some(PathEntry { parent, name, path: self.path.clone() })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP) => {
                let reason = "it leads through a symbolic link that others than root can have put there";
                Err(DriverError::invalid(self.field, reason))
            }
            Err(Errno::NOTDIR) => Err(DriverError::invalid(self.field, "its parent is not a directory")),
            Err(error) => Err(error).on("open", parent),
        }
    }

    /// Opens the parent directory, which the CO must have created outside of the state directory.
    pub fn existing_place(&self, state: &Path) -> Result<PathEntry> {
        let missing = || DriverError::precondition(self.field, "its parent directory does not exist");
        let place = self.place()?.ok_or_else(missing)?;
        if place.real_path()?.starts_with(state) {
            return Err(DriverError::invalid(self.field, "it lies in the state directory"));
        }
        Ok(place)
    }
}

/// A name in an open directory.
#[derive(Debug)]
pub struct PathEntry {
    parent: OwnedFd,
    name: OsString,
    path: PathBuf,
}

/// An open file or directory, which stays the same even if its name is changed.
#[derive(Debug)]
pub struct Held(OwnedFd);

impl Held {
    /// A path to it that other users cannot redirect, valid while this value lives.
    pub fn path(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.0.as_raw_fd().to_string())
    }

    /// Like [`Held::path`], for programs that the driver starts.
    pub fn path_for_children(&self) -> PathBuf {
        Path::new("/proc")
            .join(std::process::id().to_string())
            .join("fd")
            .join(self.0.as_raw_fd().to_string())
    }

    pub fn statvfs(&self) -> rustix::io::Result<rustix::fs::StatVfs> {
        rustix::fs::fstatvfs(&self.0)
    }
}

/// The file, directory or mount at a path.
#[derive(Clone, Copy, Debug)]
pub struct Occupant {
    pub file_type: FileType,
    pub is_mount_root: bool,
    /// The id of the mount that contains it.
    pub mount_id: u64,
    pub identity: (u64, u64),
    /// The major and minor number of a device node.
    pub device_number: (u32, u32),
}

impl From<Statx> for Occupant {
    fn from(stat: Statx) -> Occupant {
        Occupant {
            file_type: FileType::from_raw_mode(stat.stx_mode.into()),
            is_mount_root: stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
            mount_id: stat.stx_mnt_id,
            identity: (rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino),
            device_number: (stat.stx_rdev_major, stat.stx_rdev_minor),
        }
    }
}

const STAT: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::MNT_ID);
const NO_FOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::NO_AUTOMOUNT);

/// Looks at a path that the driver has chosen itself.
pub fn occupant_of(path: &Path) -> Result<Option<Occupant>> {
    found(rustix::fs::statx(CWD, path, NO_FOLLOW, STAT)).on("look at", path)
}

/// The id of the mount that contains an open file, which the kernel knows without asking the file system.
fn mount_id_of(file: &OwnedFd) -> io::Result<u64> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    id.ok_or_else(|| io::Error::other("the kernel does not say which mount it is on"))
}

fn found(result: rustix::io::Result<Statx>) -> rustix::io::Result<Option<Occupant>> {
    match result {
        Ok(stat) => Ok(Some(stat.into())),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error),
    }
}

impl PathEntry {
    /// Opens the path in a record; returns `None` if the parent directory is gone.
    pub(crate) fn recorded(path: &str) -> Result<Option<PathEntry>> {
        CheckedPath::parse("path", path)?.place()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file or directory that is there now; rejects a symbolic link.
    pub fn hold(&self) -> Result<Held> {
        let held = self.open(OFlags::PATH)?;
        let stat = rustix::fs::fstat(&held).on("look at", &self.path)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return Err(DriverError::precondition(self.path.display().to_string(), "it is a symbolic link"));
        }
        Ok(Held(held))
    }

    /// A path for system calls, valid while this value lives. Other users cannot redirect the way to it, but a
    /// symbolic link at its end is followed unless the system call refuses to.
    pub fn fd_path(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.parent.as_raw_fd().to_string()).join(&self.name)
    }

    /// The absolute path without symbolic links.
    fn real_path(&self) -> Result<PathBuf> {
        let parent = Path::new("/proc/self/fd").join(self.parent.as_raw_fd().to_string());
        Ok(std::fs::read_link(&parent).on("read", &parent)?.join(&self.name))
    }

    pub fn occupant(&self) -> Result<Option<Occupant>> {
        match rustix::fs::statx(self.parent.as_fd(), &self.name, NO_FOLLOW, STAT) {
            Err(Errno::IO) => self.failed_mount().on("look at", &self.path).map(Some),
            stat => found(stat).on("look at", &self.path),
        }
    }

    /// Describes a mount whose file system has failed, so that it can still be unmounted. XFS answers each question
    /// with EIO once it has shut down, but the kernel knows the mount.
    fn failed_mount(&self) -> io::Result<Occupant> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::openat(&self.parent, &self.name, flags, Mode::empty())?;
        let mount_id = mount_id_of(&root)?;
        if mount_id == mount_id_of(&self.parent)? {
            return Err(Errno::IO.into());
        }
        let file_type = FileType::Directory;
        Ok(Occupant { file_type, is_mount_root: true, mount_id, identity: (0, 0), device_number: (0, 0) })
    }

    /// Creates a directory, unless one exists; returns whether it did.
    pub fn make_directory(&self) -> Result<bool> {
        match rustix::fs::mkdirat(&self.parent, &self.name, Mode::from_raw_mode(0o750)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => self.expect(FileType::Directory).map(|()| false),
            Err(error) => Err(error).on("make", &self.path),
        }
    }

    /// Creates an empty file, unless one exists; returns whether it did.
    pub fn make_file(&self) -> Result<bool> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.parent, &self.name, flags, Mode::from_raw_mode(0o640)) {
            Ok(_) => Ok(true),
            Err(Errno::EXIST) => self.expect(FileType::RegularFile).map(|()| false),
            Err(error) => Err(error).on("make", &self.path),
        }
    }

    pub fn make_link(&self, to: &Path) -> Result<()> {
        rustix::fs::symlinkat(to, &self.parent, &self.name).on("make", &self.path)
    }

    fn expect(&self, file_type: FileType) -> Result<()> {
        match self.occupant()? {
            Some(occupant) if occupant.file_type == file_type => Ok(()),
            _ => {
                let reason = format!("a {file_type:?} is needed there, and something else exists");
                Err(DriverError::precondition(self.path.display().to_string(), reason))
            }
        }
    }

    /// Opens the entry without following a symbolic link.
    pub fn open(&self, flags: OFlags) -> Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.parent, &self.name, flags, Mode::empty()).on("open", &self.path)
    }

    /// Removes an empty directory, a file or a link; it is no error if nothing exists. A directory with content
    /// stays.
    pub fn remove(&self) -> Result<()> {
        let directory = match self.occupant()? {
            None => return Ok(()),
            Some(occupant) => occupant.file_type == FileType::Directory,
        };
        let flags = if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match rustix::fs::unlinkat(&self.parent, &self.name, flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(io::Error::from(error)).on("remove", &self.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> bool {
        CheckedPath::parse("target_path", text).is_err()
    }

    #[test]
    fn only_plain_absolute_paths_pass() {
        for text in ["", "relative", "./x", "/", "//", "/a/../b", "/..", "/a\0b"] {
            assert!(refused(text), "{text:?}");
        }
        assert!(refused(&format!("/{}", "a".repeat(256))));
        assert!(refused(&"/a".repeat(2048)));
        assert!(!refused(&"/a".repeat(2047)));
    }

    #[test]
    fn slashes_are_folded() {
        let path = CheckedPath::parse("target_path", "//a//b/./c/").unwrap();
        assert_eq!(path.to_text(), "/a/b/c");
    }

    #[test]
    fn a_link_of_another_user_is_rejected() {
        const NOBODY: u32 = 65_534;
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(root.join("link"), Some(NOBODY), None).unwrap();
        }
        let parse = |path: PathBuf| CheckedPath::parse("target_path", path.to_str().unwrap()).unwrap();
        assert!(matches!(parse(root.join("link/target")).place(), Err(DriverError::Invalid { .. })));
        assert!(parse(root.join("link")).place().unwrap().unwrap().make_directory().is_err());
    }

    #[test]
    fn paths_into_the_state_directory_are_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("state/volumes")).unwrap();
        std::fs::create_dir(root.join("statement")).unwrap();
        let parse = |path: PathBuf| CheckedPath::parse("target_path", path.to_str().unwrap()).unwrap();
        let state = root.join("state");
        for path in ["state", "state/x", "state/volumes/x"] {
            let refused = parse(root.join(path)).existing_place(&state);
            assert!(matches!(refused, Err(DriverError::Invalid { .. })), "{path}");
        }
        assert!(parse(root.join("statement/x")).existing_place(&state).is_ok());
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::symlink(&state, root.join("link")).unwrap();
            assert!(matches!(
                parse(root.join("link/x")).existing_place(&state),
                Err(DriverError::Invalid { .. })
            ));
        }
    }

    #[test]
    fn a_missing_parent_has_its_own_error() {
        let path = CheckedPath::parse("target_path", "/no/such/directory").unwrap();
        assert!(path.place().unwrap().is_none());
        assert!(matches!(path.existing_place(Path::new("/state")), Err(DriverError::Precondition { .. })));
    }
}
