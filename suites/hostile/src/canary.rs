//! A place that no request is for, with files in it: whoever changes it has left the place that the request was for.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use csi_harness::prelude::*;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags, openat2, unlinkat};

/// The files in it, with what is in them.
const FILES: [(&str, &str); 4] = [
    ("keep", "no driver has any business here\n"),
    ("disk.img", "0000"),
    // Drivers put such endings behind an id.
    ("disk.snap", "1111"),
    ("run.sh", "#!/bin/sh\n"),
];
/// Entries looked at; a driver that makes more has been found out by then.
const ENTRIES_MAX: usize = 1_000;
/// Levels of directories that a driver has made in the place and that are removed.
const DEPTH_MAX: usize = 16;

/// A directory of the run's own, and how it has to stay. It is made where the tests make staging paths, and goes with the
/// check.
#[derive(Debug)]
pub struct Canary {
    dir: PathBuf,
    before: BTreeMap<PathBuf, Look>,
}

/// What can be seen of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Look {
    kind: &'static str,
    device: u64,
    inode: u64,
    mode: u32,
    owner: (u32, u32),
    bytes: u64,
    changed_ns: i128,
}

impl Canary {
    /// Makes the place.
    ///
    /// # Errors
    /// Skip where the tests are not known to see what the driver does to files; broken if it cannot be made.
    pub async fn set(cx: &Cx) -> CheckResult<Canary> {
        needs_shared_files(cx).await?;
        let dir = PathBuf::from(cx.staging_path().await?);
        for (name, text) in FILES {
            cx.write_file(&dir.join(name), text).await?;
        }
        let before = look(&dir).map_err(|error| unseen(&dir, &error))?;
        Ok(Canary { dir, before })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A file in it.
    pub fn file(&self) -> PathBuf {
        self.dir.join(FILES[0].0)
    }

    /// A file in it, but for the ending that a driver gives its own files.
    pub fn file_without_ending(&self) -> PathBuf {
        self.dir.join("disk")
    }

    /// A file that is not there, and that only a command which we have made up would make.
    pub fn mark(&self) -> PathBuf {
        self.dir.join("made-by-a-command")
    }

    /// What has changed, in words; `None` if nothing has.
    pub fn changed(&self) -> Option<String> {
        let now = match look(&self.dir) {
            Ok(now) => now,
            Err(error) => return Some(format!("{} cannot be read any more: {error}", self.dir.display())),
        };
        let gone = self.before.keys().filter(|path| !now.contains_key(*path));
        let gone = gone.map(|path| format!("{} is gone", path.display()));
        let other = now.iter().filter_map(|(path, look)| match self.before.get(path) {
            None => Some(format!("{} is new, a {}", path.display(), look.kind)),
            Some(before) if before != look => Some(format!("{} has changed", path.display())),
            Some(_) => None,
        });
        let told: Vec<String> = gone.chain(other).collect();
        (!told.is_empty()).then(|| told.join(", "))
    }

    /// Removes what a driver has made in the place; what stays is told as left behind with the directory.
    pub fn sweep(&self) {
        let Ok(dir) = fs::File::open(&self.dir) else { return };
        let is_ours = |name: &CStr| FILES.iter().any(|(ours, _)| ours.as_bytes() == name.to_bytes());
        let _ = clear(&dir, &is_ours, DEPTH_MAX);
    }
}

/// Removes what is in a directory, but for some of it. No link is followed, and no mount entered, also none that a call which
/// is still under way makes meanwhile.
fn clear(dir: impl AsFd, stays: &dyn Fn(&CStr) -> bool, depth: usize) -> rustix::io::Result<()> {
    for entry in Dir::read_from(&dir)?.take(ENTRIES_MAX) {
        let entry = entry?;
        let name = entry.file_name();
        if stays(name) || [c".", c".."].contains(&name) || unlinkat(&dir, name, AtFlags::empty()).is_ok() {
            continue;
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
        if let Ok(inner) = openat2(&dir, name, flags, Mode::empty(), within)
            && depth > 0
        {
            clear(inner, &|_| false, depth - 1)?;
        }
        // What is in use, or not empty, stays.
        let _ = unlinkat(&dir, name, AtFlags::REMOVEDIR);
    }
    Ok(())
}

/// Looks whether it can be seen what the driver does to files.
///
/// # Errors
/// Skip where it is not known to be.
pub(crate) async fn needs_shared_files(cx: &Cx) -> CheckResult {
    if cx.config().paths.any() || !cx.shares_files_with_driver().await {
        let why = "needs to see the driver's files: run it on the driver's host, over a Unix socket";
        return Err(Stop::skip(why));
    }
    Ok(())
}

fn unseen(dir: &Path, error: &io::Error) -> Stop {
    Stop::broken(format!("failed to look at {}: {error}", dir.display()))
}

/// The directory and what is in it, by path.
fn look(dir: &Path) -> io::Result<BTreeMap<PathBuf, Look>> {
    let mut found = BTreeMap::from([(dir.to_owned(), Look::of_directory(&fs::symlink_metadata(dir)?))]);
    for entry in fs::read_dir(dir)?.take(ENTRIES_MAX) {
        let path = entry?.path();
        let look = Look::of(&fs::symlink_metadata(&path)?);
        found.insert(path, look);
    }
    Ok(found)
}

impl Look {
    fn of(metadata: &Metadata) -> Look {
        Look {
            kind: kind(metadata.file_type()),
            device: metadata.dev(),
            inode: metadata.ino(),
            mode: metadata.mode(),
            owner: (metadata.uid(), metadata.gid()),
            bytes: metadata.len(),
            changed_ns: i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec()),
        }
    }

    /// Of the directory itself, times and size follow from what is in it.
    fn of_directory(metadata: &Metadata) -> Look {
        Look { bytes: 0, changed_ns: 0, ..Look::of(metadata) }
    }
}

fn kind(kind: FileType) -> &'static str {
    match kind {
        _ if kind.is_dir() => "directory",
        _ if kind.is_symlink() => "symbolic link",
        _ if kind.is_block_device() => "device",
        _ if kind.is_file() => "file",
        _ => "special file",
    }
}
