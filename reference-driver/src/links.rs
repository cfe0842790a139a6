//! Opens a directory through symbolic links, but only through those that root must have created.
//!
//! A link is followed if it belongs to root, is in a directory that only root can write to, and the path to that
//! directory cannot be changed by others either. Then only root decides where the path ends. Any other link is
//! rejected. The path is resolved one name at a time, starting from the open parent directory, so that each name is
//! checked and entered without a race.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2};
use rustix::io::{Errno, Result};

/// The largest number of links in a path, as in the kernel.
const LINKS_MAX: usize = 40;
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const LINK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a directory. `LOOP` means that the path contains a link that is not followed.
pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd> {
    let no_links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, path, DIRECTORY, Mode::empty(), no_links) {
        Err(Errno::LOOP) => walk(path),
        opened => opened,
    }
}

fn walk(path: &Path) -> Result<OwnedFd> {
    let mut resolver = Resolver::new()?;
    let mut remaining = names_backwards(path);
    let mut links = 0;
    while let Some(name) = remaining.pop() {
        let Some(target) = resolver.enter(&name)? else { continue };
        links += 1;
        if links > LINKS_MAX {
            return Err(Errno::LOOP);
        }
        if target.is_absolute() {
            resolver = Resolver::new()?;
        }
        remaining.extend(names_backwards(&target));
    }
    Ok(resolver.here)
}

fn names_backwards(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.map(OsStr::to_owned).collect()
}

/// A partly resolved path.
struct Resolver {
    here: OwnedFd,
    /// True if only root can change where the names so far lead.
    only_root: bool,
}

impl Resolver {
    fn new() -> Result<Resolver> {
        Ok(Resolver { here: openat(CWD, "/", DIRECTORY, Mode::empty())?, only_root: true })
    }

    /// Enters a directory, or returns the target of a link.
    fn enter(&mut self, name: &OsStr) -> Result<Option<PathBuf>> {
        let parent = fstat(&self.here)?;
        let next = match openat(&self.here, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::NOTDIR) => return self.read_link(name, &parent).map(Some),
            opened => opened?,
        };
        if name != ".." {
            self.only_root &= only_root_writes(&parent) || is_fixed(&parent, &fstat(&next)?);
        }
        self.here = next;
        Ok(None)
    }

    fn read_link(&self, name: &OsStr, parent: &Stat) -> Result<PathBuf> {
        let link = openat(&self.here, name, LINK, Mode::empty())?;
        let found = fstat(&link)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
            return Err(Errno::NOTDIR);
        }
        // Links in procfs belong to root, but lead wherever a process has gone.
        let of_process = rustix::fs::fstatfs(&link)?.f_type == rustix::fs::PROC_SUPER_MAGIC;
        if !self.only_root || !only_root_writes(parent) || found.st_uid != 0 || of_process {
            return Err(Errno::LOOP);
        }
        let target = rustix::fs::readlinkat(&link, "", Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }
}

fn only_root_writes(directory: &Stat) -> bool {
    let others = Mode::WGRP | Mode::WOTH;
    directory.st_uid == 0 && !Mode::from_raw_mode(directory.st_mode).intersects(others)
}

/// Returns whether only root can move or replace this entry, although others can write to the directory: the sticky
/// bit forbids it.
fn is_fixed(directory: &Stat, entry: &Stat) -> bool {
    let sticky = Mode::from_raw_mode(directory.st_mode).contains(Mode::SVTX);
    directory.st_uid == 0 && sticky && entry.st_uid == 0
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use super::*;

    const NOBODY: u32 = 65_534;

    /// Creates a directory with `real/end` and with a link to `real`, lets the test change it, and opens `link/end`.
    fn fixture(prepare: impl FnOnce(&Path)) -> (tempfile::TempDir, Result<OwnedFd>) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        fs::create_dir_all(path.join("real/end")).unwrap();
        symlink(path.join("real"), path.join("link")).unwrap();
        prepare(&path);
        let opened = open_directory(&path.join("link/end"));
        (root, opened)
    }

    fn needs_root() -> bool {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            println!("skipped: needs root to make links that belong to root, and others");
        }
        is_root
    }

    #[test]
    fn a_link_of_root_is_followed() {
        if !needs_root() {
            return;
        }
        let (root, opened) = fixture(|_| {});
        let inode = |path: &str| rustix::fs::stat(root.path().join(path)).unwrap().st_ino;
        assert_eq!(fstat(opened.unwrap()).unwrap().st_ino, inode("real/end"));
        let opened = open_directory(&root.path().join("link"));
        assert_eq!(fstat(opened.unwrap()).unwrap().st_ino, inode("real"));
        let relink = |path: &Path, target: &str| {
            fs::remove_file(path.join("link")).unwrap();
            symlink(target, path.join("link")).unwrap();
        };
        for target in ["real", "./real/../real/.", "other"] {
            let (_root, opened) = fixture(|path| {
                symlink("real", path.join("other")).unwrap();
                relink(path, target);
            });
            assert!(opened.is_ok(), "{target}: {opened:?}");
        }
        for (target, error) in [("link", Errno::LOOP), ("nothing", Errno::NOENT)] {
            let (_root, opened) = fixture(|path| relink(path, target));
            assert_eq!(opened.unwrap_err(), error, "{target}");
        }
    }

    #[test]
    fn a_link_that_others_could_have_created_is_rejected() {
        if !needs_root() {
            return;
        }
        let refused = |prepare: &dyn Fn(&Path)| assert_eq!(fixture(prepare).1.unwrap_err(), Errno::LOOP);
        refused(&|path| lchown(path.join("link"), Some(NOBODY), Some(NOBODY)).unwrap());
        refused(&|path| chown(path, Some(NOBODY), Some(NOBODY)).unwrap());
        refused(&|path| fs::set_permissions(path, Permissions::from_mode(0o775)).unwrap());
        refused(&|path| fs::set_permissions(path, Permissions::from_mode(0o1777)).unwrap());
        // A link of root that another user could have moved there.
        refused(&|path| {
            let (theirs, ours) = (path.join("theirs"), path.join("theirs/ours"));
            fs::create_dir_all(&ours).unwrap();
            chown(theirs, Some(NOBODY), Some(NOBODY)).unwrap();
            symlink(path.join("real"), ours.join("link")).unwrap();
            fs::remove_file(path.join("link")).unwrap();
            symlink("theirs/ours/link", path.join("link")).unwrap();
        });
        assert_eq!(open_directory(Path::new("/proc/self/cwd")).unwrap_err(), Errno::LOOP);
    }

    #[test]
    fn without_links_anything_is_opened() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        fs::write(path.join("file"), b"").unwrap();
        assert!(open_directory(&path).is_ok());
        assert_eq!(open_directory(&path.join("file")).unwrap_err(), Errno::NOTDIR);
        assert_eq!(open_directory(&path.join("nothing")).unwrap_err(), Errno::NOENT);
    }
}
