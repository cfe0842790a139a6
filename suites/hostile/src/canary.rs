//! A directory with files that no request names: a driver that changes it has left the directory of the request.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use csi_harness::prelude::*;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags, openat2, unlinkat};

/// The files with their contents.
const FILES: [(&str, &str); 5] = [
    ("keep", "no driver has any business here\n"),
    ("disk.img", "0000"),
    // Drivers append such endings to an id.
    ("disk.snap", "1111"),
    ("disk.json", "{}"),
    ("run.sh", "#!/bin/sh\n"),
];
/// Limits the entries that are read; a driver that makes more has already been found.
const ENTRIES_MAX: usize = 1_000;
/// Limits the levels of directories that are removed, because a driver may have made any number.
const DEPTH_MAX: usize = 16;

/// A directory of the run with its expected contents. It is made next to the staging paths, and removed at the end of
/// the check.
#[derive(Debug)]
pub struct Canary {
    dir: PathBuf,
    before: BTreeMap<PathBuf, Look>,
}

/// The observable properties of a file.
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
    /// Makes the directory.
    ///
    /// # Errors
    /// Skips if it is unknown whether the tests see the driver's changes to files; broken if it cannot be made.
    pub async fn set(cx: &Cx) -> CheckResult<Canary> {
        needs_shared_files(cx).await?;
        let dir = PathBuf::from(cx.staging_path().await?);
        for (name, text) in FILES {
            cx.write_file(&dir.join(name), text).await?;
        }
        let before = look(&dir).map_err(|error| unseen(&dir, &error))?;
        Ok(Canary { dir, before })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns a file in the directory.
    pub fn file(&self) -> PathBuf {
        self.dir.join(FILES[0].0)
    }

    /// Returns the path of a file without the ending that a driver appends to its own files.
    pub fn file_without_ending(&self) -> PathBuf {
        self.dir.join("disk")
    }

    /// Returns the path of a file that does not exist, and that only an injected command would make.
    pub fn mark(&self) -> PathBuf {
        self.dir.join("made-by-a-command")
    }

    /// Describes the change of the directory, or returns `None` if there is none.
    pub fn changed(&self) -> Option<String> {
        let now = match look(&self.dir) {
            Ok(now) => now,
            Err(error) => return Some(format!("{} can no longer be read: {error}", self.dir.display())),
        };
        // Files under a mount are still there, so they are not called gone.
        let identity = |looks: &BTreeMap<_, Look>| looks.get(&self.dir).map(|look| (look.device, look.inode));
        if identity(&now) != identity(&self.before) {
            return Some(format!(
                "another directory is at {}, for example because something was mounted there",
                self.dir.display()
            ));
        }
        let gone = self.before.keys().filter(|path| !now.contains_key(*path));
        let gone = gone.map(|path| format!("{} is gone", path.display()));
        let other = now.iter().filter_map(|(path, look)| match self.before.get(path) {
            None => Some(format!("{} is new, a {}", path.display(), look.kind)),
            Some(before) if before != look => Some(format!("{} has changed", path.display())),
            Some(_) => None,
        });
        let changes: Vec<String> = gone.chain(other).collect();
        (!changes.is_empty()).then(|| changes.join(", "))
    }

    /// Removes the files that a driver made in the directory; files that remain are reported as leaks with the
    /// directory. Nothing is removed from another directory that is there instead: what a driver mounts there may be the root of the host.
    pub fn sweep(&self) {
        let Ok(dir) = fs::File::open(&self.dir) else { return };
        let place = |look: &Look| (look.device, look.inode);
        let found = dir.metadata().ok().map(|metadata| place(&Look::of(&metadata)));
        if found.is_none() || found != self.before.get(&self.dir).map(place) {
            return;
        }
        let is_ours = |name: &CStr| FILES.iter().any(|(ours, _)| ours.as_bytes() == name.to_bytes());
        let _ = clear(&dir, &is_ours, DEPTH_MAX);
    }
}

/// Removes the contents of a directory, except some of them. It follows no link and enters no mount, even if a call
/// under way makes one meanwhile.
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
        // A directory that is in use or not empty stays.
        let _ = unlinkat(&dir, name, AtFlags::REMOVEDIR);
    }
    Ok(())
}

/// Checks that the tests see the driver's changes to files. Skips if that is unknown.
pub(crate) async fn needs_shared_files(cx: &Cx) -> CheckResult {
    if cx.config().paths.any() || !cx.shares_files_with_driver().await {
        let why = "needs to see the driver's files: run csi-sanity on the driver's host, over a Unix socket";
        return Err(Stop::skip(why));
    }
    Ok(())
}

fn unseen(dir: &Path, error: &io::Error) -> Stop {
    Stop::broken(format!("failed to look at {}: {error}", dir.display()))
}

/// Returns the directory and its contents by path.
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

    /// The times and the size of the directory follow from its contents, so they are ignored.
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Canary, look};

    #[test]
    fn files_that_are_covered_are_not_called_gone() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("canary");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("keep"), "").unwrap();
        let canary = Canary { before: look(&dir).unwrap(), dir: dir.clone() };
        assert_eq!(canary.changed(), None);

        fs::rename(&dir, root.path().join("aside")).unwrap();
        fs::create_dir(&dir).unwrap();
        let changed = canary.changed().unwrap();
        assert!(changed.starts_with("another directory is at "), "{changed}");
        assert!(!changed.contains("gone"), "{changed}");
    }

    #[test]
    fn only_the_own_directory_is_swept() {
        let root = tempfile::tempdir().unwrap();
        let [dir, other] = ["canary", "other"].map(|name| root.path().join(name));
        for dir in [&dir, &other] {
            fs::create_dir_all(dir.join("made/by/a driver")).unwrap();
        }
        let canary = Canary { before: look(&dir).unwrap(), dir: dir.clone() };
        canary.sweep();
        assert!(!dir.join("made").exists());
        fs::remove_dir(&dir).unwrap();
        std::os::unix::fs::symlink(&other, &dir).unwrap();
        canary.sweep();
        assert!(other.join("made/by/a driver").exists());
    }
}
