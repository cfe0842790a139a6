//! The files of a directory that another file system lies over: by the numbers that the kernel knows them by, wherever they are moved.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, mknodat};

/// The number of a file.
pub(super) type Node = u64;

/// The directory itself.
pub(super) const ROOT: Node = 1;
/// Bytes that are copied at once.
const BLOCK_BYTES: usize = 1 << 16;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) parent: Node,
    pub(super) name: OsString,
}

/// The object behind a name, so that it can be made, and made again after it was removed.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) kind: MadeKind,
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
}

#[derive(Debug)]
pub(super) enum MadeKind {
    /// A file, with its contents where it is not empty.
    File(Option<File>),
    Directory,
    Symlink(PathBuf),
    /// A socket, a pipe or a device.
    Special(FileType, u64),
}

impl Made {
    pub(super) fn try_clone(&self) -> io::Result<Made> {
        let kind = match &self.kind {
            MadeKind::File(contents) => MadeKind::File(contents.as_ref().map(File::try_clone).transpose()?),
            MadeKind::Directory => MadeKind::Directory,
            MadeKind::Symlink(target) => MadeKind::Symlink(target.clone()),
            MadeKind::Special(kind, device) => MadeKind::Special(*kind, *device),
        };
        Ok(Made { kind, ..*self })
    }
}

/// The directory, and where everything in it is now.
#[derive(Debug)]
pub(super) struct Tree {
    /// Leads to what is below the mount.
    root: OwnedFd,
    names: HashMap<Node, Vec<Entry>>,
    /// Numbers by those of the file system below.
    known: HashMap<u64, Node>,
    next: Node,
}

impl Tree {
    /// # Errors
    /// It is no directory that can be opened.
    pub(super) fn open(directory: &Path) -> io::Result<Tree> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(directory, flags, Mode::empty())?;
        Ok(Tree { root, names: HashMap::new(), known: HashMap::new(), next: ROOT })
    }

    /// The present path of a file.
    pub(super) fn path(&self, node: Node) -> io::Result<PathBuf> {
        if node == ROOT {
            return Ok(PathBuf::from(format!("/proc/self/fd/{}", self.root.as_raw_fd())));
        }
        let entry = self.names.get(&node).and_then(|names| names.first()).ok_or_else(gone)?;
        self.path_of(entry)
    }

    pub(super) fn path_of(&self, entry: &Entry) -> io::Result<PathBuf> {
        Ok(self.path(entry.parent)?.join(&entry.name))
    }

    /// The attributes of a file for the kernel.
    pub(super) fn metadata(&self, node: Node) -> io::Result<Metadata> {
        match node {
            // The path of the root is itself a link.
            ROOT => fs::metadata(self.path(node)?),
            _ => fs::symlink_metadata(self.path(node)?),
        }
    }

    /// Returns the node number of the entry `name` in `parent`.
    pub(super) fn look(&mut self, parent: Node, name: &OsStr) -> io::Result<Node> {
        let entry = Entry { parent, name: name.to_owned() };
        let found = fs::symlink_metadata(self.path_of(&entry)?)?;
        Ok(self.meet(entry, found.ino()))
    }

    fn meet(&mut self, entry: Entry, inode: u64) -> Node {
        let node = *self.known.entry(inode).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        let names = self.names.entry(node).or_default();
        if !names.contains(&entry) {
            names.push(entry);
        }
        node
    }

    /// The entries of a directory with their types.
    pub(super) fn list(&mut self, node: Node) -> io::Result<Vec<(Node, fs::FileType, OsString)>> {
        let mut listed = Vec::new();
        for entry in fs::read_dir(self.path(node)?)? {
            let entry = entry?;
            let found = entry.metadata()?;
            let name = entry.file_name();
            let number = self.meet(Entry { parent: node, name: name.clone() }, found.ino());
            listed.push((number, found.file_type(), name));
        }
        Ok(listed)
    }

    /// Opens a file for reading and writing, or only for reading.
    pub(super) fn file(&self, node: Node, writes: bool) -> io::Result<File> {
        let follows_nothing = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
        OpenOptions::new().read(true).write(writes).custom_flags(follows_nothing).open(self.path(node)?)
    }

    /// Makes something under a name that is free; the number is a new one, unless it was there before.
    pub(super) fn make(&mut self, entry: &Entry, made: &Made, again: Option<Node>) -> io::Result<Node> {
        let path = self.path_of(entry)?;
        match &made.kind {
            MadeKind::Directory => fs::create_dir(&path)?,
            MadeKind::Symlink(target) => std::os::unix::fs::symlink(target, &path)?,
            MadeKind::Special(kind, device) => {
                mknodat(CWD, &path, *kind, Mode::from_raw_mode(made.mode), *device)?;
            }
            MadeKind::File(contents) => {
                let new = OpenOptions::new().write(true).create_new(true).open(&path)?;
                if let Some(contents) = contents {
                    copy(contents, &new)?;
                }
            }
        }
        std::os::unix::fs::lchown(&path, Some(made.owner.0), Some(made.owner.1))?;
        if !matches!(made.kind, MadeKind::Symlink(_)) {
            fs::set_permissions(&path, Permissions::from_mode(made.mode & 0o7777))?;
        }
        let inode = fs::symlink_metadata(&path)?.ino();
        // A number of the file system below that is used again is another file.
        self.known.remove(&inode);
        if let Some(node) = again {
            self.known.insert(inode, node);
        }
        Ok(self.meet(entry.clone(), inode))
    }

    /// Keeps the object behind a name, so that it can be made again.
    pub(super) fn keep(&self, entry: &Entry) -> io::Result<Made> {
        let path = self.path_of(entry)?;
        let found = fs::symlink_metadata(&path)?;
        let kind = found.file_type();
        let kind = if kind.is_dir() {
            MadeKind::Directory
        } else if kind.is_symlink() {
            MadeKind::Symlink(fs::read_link(&path)?)
        } else if kind.is_file() {
            MadeKind::File(Some(File::open(&path)?))
        } else if kind.is_socket() {
            MadeKind::Special(FileType::Socket, 0)
        } else {
            MadeKind::Special(FileType::from_raw_mode(found.mode()), found.rdev())
        };
        Ok(Made { kind, mode: found.mode(), owner: (found.uid(), found.gid()) })
    }

    /// Removes a name.
    pub(super) fn remove(&mut self, node: Node, entry: &Entry) -> io::Result<()> {
        let path = self.path_of(entry)?;
        let found = fs::symlink_metadata(&path)?;
        if found.is_dir() {
            fs::remove_dir(&path)?
        } else {
            fs::remove_file(&path)?
        }
        self.forget(node, entry);
        if found.is_dir() || found.nlink() == 1 {
            self.known.remove(&found.ino());
        }
        Ok(())
    }

    /// Gives a file another name besides.
    pub(super) fn link(&mut self, node: Node, entry: &Entry) -> io::Result<()> {
        fs::hard_link(self.path(node)?, self.path_of(entry)?)?;
        self.names.entry(node).or_default().push(entry.clone());
        Ok(())
    }

    /// Moves what has one name to another one; what is there is replaced.
    pub(super) fn rename(&mut self, node: Node, from: &Entry, to: &Entry) -> io::Result<()> {
        let replaced = fs::symlink_metadata(self.path_of(to)?).ok().map(|found| found.ino());
        fs::rename(self.path_of(from)?, self.path_of(to)?)?;
        if let Some(inode) = replaced
            && let Some(other) = self.known.get(&inode).copied().filter(|other| *other != node)
        {
            self.forget(other, to);
            if self.names.get(&other).is_none_or(Vec::is_empty) {
                self.known.remove(&inode);
            }
        }
        self.forget(node, from);
        self.names.entry(node).or_default().push(to.clone());
        Ok(())
    }

    fn forget(&mut self, node: Node, entry: &Entry) {
        if let Some(names) = self.names.get_mut(&node) {
            names.retain(|name| name != entry);
        }
    }
}

pub(super) fn set_times(path: &Path, times: &rustix::fs::Timestamps) -> io::Result<()> {
    Ok(rustix::fs::utimensat(CWD, path, times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(rustix::io::Errno::NOENT.raw_os_error())
}

/// Copies contents; where there is nothing but zeros, nothing is written.
fn copy(from: &File, to: &File) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    to.set_len(from.metadata()?.len())?;
    let (mut at, mut block) = (0, vec![0; BLOCK_BYTES]);
    loop {
        let read = from.read_at(&mut block, at)?;
        if read == 0 {
            return Ok(());
        }
        if block[..read].iter().any(|byte| *byte != 0) {
            to.write_all_at(&block[..read], at)?;
        }
        at += read as u64;
    }
}
