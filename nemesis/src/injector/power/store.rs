//! The state of a disk: its files, those that are open, what is not durable, and when the power is lost.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileType, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, Timestamps};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::journal::{self, Allocated, CHANGE_BYTES_MAX, Change, Journal, Lost, Pending};
use super::tree::{Entry, Made, MadeKind, Node, Tree, set_times};
use super::way::Way;

/// Changes of one step that are counted separately.
const POINTS_MAX: usize = 1_000;

/// A change that the driver was about to make, and what was not durable then.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) what: String,
    pub(super) pending: Pending,
}

/// The process that makes a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    pub(super) process: u32,
    pub(super) user: u32,
    pub(super) group: u32,
}

#[derive(Debug)]
pub(super) struct Store {
    tree: Tree,
    journal: Journal,
    open: HashMap<u64, (Node, File)>,
    listed: HashMap<u64, Vec<(Node, FileType, OsString)>>,
    next_handle: u64,
    /// The changes of the step that is under way.
    points: Vec<Point>,
    /// Before which of the driver's changes the power is lost, from 1.
    armed: Option<usize>,
    counted: usize,
    /// True if the power is lost. The kernel may still write, since mounts and loop devices cannot be taken from it
    /// otherwise; such writes are on the disk, and make nothing else durable.
    is_dead: bool,
    /// True if all requests fail from now on.
    is_gone: bool,
}

impl Store {
    /// # Errors
    /// It is no directory that can be opened.
    pub(super) fn open(directory: &Path) -> io::Result<Store> {
        Ok(Store {
            tree: Tree::open(directory)?,
            journal: Journal::default(),
            open: HashMap::new(),
            listed: HashMap::new(),
            next_handle: 0,
            points: Vec::new(),
            armed: None,
            counted: 0,
            is_dead: false,
            is_gone: false,
        })
    }

    /// Counts changes from 1 again, and loses the power before that one, if any.
    pub(super) fn arm(&mut self, before: Option<usize>) {
        (self.armed, self.counted) = (before, 0);
    }

    /// Takes the changes of the driver since the last time.
    pub(super) fn take_points(&mut self) -> Vec<Point> {
        std::mem::take(&mut self.points)
    }

    pub(super) fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// The changes that are not durable now.
    pub(super) fn pending(&self) -> Pending {
        self.journal.pending()
    }

    /// Everything is durable, as after sync(2).
    pub(super) fn sync_all(&mut self) {
        if !self.is_dead {
            self.journal.sync_all();
        }
    }

    /// Loses the power: nothing becomes durable from now on.
    pub(super) fn lose_power(&mut self) {
        self.is_dead = true;
    }

    /// Loses the changes that are not durable in the given way, and prevents all further changes.
    pub(super) fn lose(&mut self, way: &Way) -> io::Result<Lost> {
        self.is_gone = true;
        let kinds = self.journal.pending().kinds;
        let keeps = |number| way.keeps(number, &kinds);
        self.journal.lose(&mut self.tree, keeps, *way == Way::Torn)
    }

    /// Restores what was lost.
    pub(super) fn restore(&mut self, lost: Lost) -> io::Result<()> {
        lost.restore(&mut self.tree)
    }

    /// A change is about to be made; the power may be lost before it.
    fn begin(&mut self, asker: Asker, what: impl FnOnce() -> String) -> io::Result<()> {
        if self.is_gone {
            return Err(Errno::IO.into());
        }
        let Some(group) = group_of(asker.process) else { return Ok(()) };
        if group == rustix::process::getpgrp() {
            return Ok(());
        }
        if self.is_dead {
            return Err(Errno::IO.into());
        }
        self.counted += 1;
        if self.points.len() < POINTS_MAX {
            self.points.push(Point { what: what(), pending: self.journal.pending() });
        }
        if self.armed != Some(self.counted) {
            return Ok(());
        }
        self.is_dead = true;
        // The driver must not learn of the loss, so it is killed. It may have ended already.
        let _ = kill_process_group(group, Signal::KILL);
        Err(Errno::IO.into())
    }

    /// A file as people know it.
    fn name_of(&self, node: Node) -> String {
        let name = self.tree.path(node).ok().and_then(|path| Some(path.file_name()?.to_owned()));
        name.unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(super) fn look(&mut self, parent: Node, name: &OsStr) -> io::Result<(Node, Metadata)> {
        let node = self.tree.look(parent, name)?;
        Ok((node, self.tree.metadata(node)?))
    }

    pub(super) fn metadata(&self, node: Node, handle: Option<u64>) -> io::Result<Metadata> {
        match handle.and_then(|handle| self.open.get(&handle)) {
            Some((_, file)) => file.metadata(),
            None => self.tree.metadata(node),
        }
    }

    pub(super) fn path(&self, node: Node) -> io::Result<PathBuf> {
        self.tree.path(node)
    }

    /// Mode, owner and times are durable at once: no driver keeps its state in them.
    pub(super) fn set_mode(&self, node: Node, mode: u32) -> io::Result<()> {
        fs::set_permissions(self.tree.path(node)?, Permissions::from_mode(mode & 0o7777))
    }

    pub(super) fn set_owner(&self, node: Node, user: Option<u32>, group: Option<u32>) -> io::Result<()> {
        std::os::unix::fs::lchown(self.tree.path(node)?, user, group)
    }

    pub(super) fn set_times(&self, node: Node, times: &Timestamps) -> io::Result<()> {
        set_times(&self.tree.path(node)?, times)
    }

    pub(super) fn truncate(
        &mut self,
        asker: Asker,
        node: Node,
        handle: Option<u64>,
        len: u64,
    ) -> io::Result<()> {
        let name = self.name_of(node);
        self.begin(asker, || format!("a change of the length of {name}"))?;
        let is_large = self.metadata(node, handle)?.len().saturating_sub(len) > CHANGE_BYTES_MAX as u64;
        match (self.tree.path(node), handle.and_then(|handle| self.open.get(&handle))) {
            // A file without a name cannot be found after a loss of power.
            (Err(_), Some((_, file))) => file.set_len(len),
            _ if is_large => {
                self.tree.file(node, true)?.set_len(len)?;
                self.journal.sync(node);
                Ok(())
            }
            _ => {
                self.journal.push(journal::truncate(&self.tree, node, len)?);
                Ok(())
            }
        }
    }

    pub(super) fn make(
        &mut self,
        asker: Asker,
        parent: Node,
        name: &OsStr,
        kind: MadeKind,
        mode: u32,
    ) -> io::Result<(Node, Metadata)> {
        self.begin(asker, || format!("the making of {}", name.to_string_lossy()))?;
        let entry = Entry { parent, name: name.to_owned() };
        let made = Made { kind, mode, owner: (asker.user, asker.group) };
        let node = self.tree.make(&entry, &made, None)?;
        self.journal.push(Change::Make { node, entry, made });
        Ok((node, self.tree.metadata(node)?))
    }

    pub(super) fn link(
        &mut self,
        asker: Asker,
        node: Node,
        parent: Node,
        name: &OsStr,
    ) -> io::Result<Metadata> {
        self.begin(asker, || format!("the link {}", name.to_string_lossy()))?;
        let entry = Entry { parent, name: name.to_owned() };
        self.tree.link(node, &entry)?;
        self.journal.push(Change::Link { node, entry });
        self.tree.metadata(node)
    }

    pub(super) fn remove(&mut self, asker: Asker, parent: Node, name: &OsStr) -> io::Result<()> {
        self.begin(asker, || format!("the removal of {}", name.to_string_lossy()))?;
        let node = self.tree.look(parent, name)?;
        let entry = Entry { parent, name: name.to_owned() };
        self.journal.push(journal::remove(&mut self.tree, node, &entry)?);
        Ok(())
    }

    pub(super) fn rename(&mut self, asker: Asker, from: Entry, to: Entry) -> io::Result<()> {
        let described =
            || format!("the renaming of {} to {}", from.name.to_string_lossy(), to.name.to_string_lossy());
        self.begin(asker, described)?;
        let node = self.tree.look(from.parent, &from.name)?;
        self.journal.push(journal::rename(&mut self.tree, node, &from, &to)?);
        Ok(())
    }

    pub(super) fn open_file(&mut self, node: Node, writes: bool) -> io::Result<u64> {
        let file = self.tree.file(node, writes)?;
        self.next_handle += 1;
        self.open.insert(self.next_handle, (node, file));
        Ok(self.next_handle)
    }

    pub(super) fn close_file(&mut self, handle: u64) {
        self.open.remove(&handle);
    }

    pub(super) fn file(&self, handle: u64) -> io::Result<&File> {
        self.open.get(&handle).map(|(_, file)| file).ok_or_else(|| Errno::BADF.into())
    }

    pub(super) fn read(&self, handle: u64, at: u64, size: u32) -> io::Result<Vec<u8>> {
        let (file, size) = (self.file(handle)?, usize::try_from(size).unwrap_or_default());
        let (mut bytes, mut length) = (vec![0; size], 0);
        while length < size {
            match file.read_at(&mut bytes[length..], at + length as u64)? {
                0 => break,
                read => length += read,
            }
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    pub(super) fn write(
        &mut self,
        asker: Asker,
        node: Node,
        handle: u64,
        at: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        if self.is_gone {
            return Err(Errno::IO.into());
        }
        if self.tree.path(node).is_err() {
            return self.file(handle)?.write_all_at(bytes, at);
        }
        if !self.journal.is_continued(node, at) {
            let name = self.name_of(node);
            self.begin(asker, || format!("a write to {name}"))?;
        }
        if self.is_dead {
            self.journal.sync_contents(node);
            return self.file(handle)?.write_all_at(bytes, at);
        }
        let written = journal::write(&self.tree, node, at, bytes)?;
        self.journal.push(written);
        Ok(())
    }

    pub(super) fn allocate(&mut self, handle: u64, mode: u32, at: u64, len: u64) -> io::Result<()> {
        if self.is_gone {
            return Err(Errno::IO.into());
        }
        let (node, file) = self.open.get(&handle).ok_or(Errno::BADF)?;
        let flags = FallocateFlags::from_bits_retain(mode);
        if self.is_dead || self.tree.path(*node).is_err() {
            return Ok(rustix::fs::fallocate(file, flags, at, len)?);
        }
        match journal::allocate(file, *node, flags, at, len)? {
            Allocated::Nothing => {}
            Allocated::Change(change) => self.journal.push(change),
            Allocated::Unknown => self.journal.sync_contents(*node),
        }
        Ok(())
    }

    pub(super) fn sync(&mut self, node: Node) -> io::Result<()> {
        if self.is_gone {
            return Err(Errno::IO.into());
        }
        if !self.is_dead {
            self.journal.sync(node);
        }
        Ok(())
    }

    pub(super) fn list(&mut self, node: Node) -> io::Result<u64> {
        let listed = self.tree.list(node)?;
        self.next_handle += 1;
        self.listed.insert(self.next_handle, listed);
        Ok(self.next_handle)
    }

    pub(super) fn listed(&self, handle: u64) -> &[(Node, FileType, OsString)] {
        self.listed.get(&handle).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn end_list(&mut self, handle: u64) {
        self.listed.remove(&handle);
    }
}

/// The process group of a process; none of a thread of the kernel.
fn group_of(process: u32) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, which may contain anything, is in parentheses.
    let (_, fields) = stat.rsplit_once(") ")?;
    Pid::from_raw(fields.split(' ').nth(2)?.parse().ok()?)
}
