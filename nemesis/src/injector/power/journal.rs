//! Lists the changes of a disk that are not durable yet, with the data needed to undo them: when the power is lost, all
//! are undone, and those that are to survive are repeated.
//!
//! It behaves as file systems with a journal do: names and lengths survive in the order in which they were made and
//! changed, and any fsync makes all earlier ones durable; contents survive an fsync of their file, and without one in
//! any order or not at all. Changes that are written back early, for lack of memory, are durable, as on a real machine.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{FallocateFlags, SeekFrom};

use super::tree::{Entry, Made, Node, Tree};
use super::way::{Kind, Way};

/// Bytes that are kept of changes that are not durable.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Largest number of bytes of a change that are kept; a larger change is durable at once.
pub(super) const CHANGE_BYTES_MAX: usize = 8 << 20;
/// The largest write that a disk does as a whole, in bytes.
const SECTOR_BYTES: usize = 512;

/// A change that is not durable.
#[derive(Debug)]
pub(super) enum Change {
    Write {
        node: Node,
        at: u64,
        new: Vec<u8>,
        old: Vec<u8>,
        old_len: u64,
    },
    /// The length of the file changed; `tail` contains the bytes that were cut off.
    Truncate {
        node: Node,
        len: u64,
        old_len: u64,
        tail: Vec<u8>,
    },
    Make {
        node: Node,
        entry: Entry,
        made: Made,
    },
    Link {
        node: Node,
        entry: Entry,
    },
    Remove {
        node: Node,
        entry: Entry,
        kept: Made,
    },
    Rename {
        node: Node,
        from: Entry,
        to: Entry,
        replaced: Option<(Node, Made)>,
    },
}

impl Change {
    fn node(&self) -> Node {
        match self {
            Change::Write { node, .. }
            | Change::Truncate { node, .. }
            | Change::Make { node, .. }
            | Change::Link { node, .. }
            | Change::Remove { node, .. }
            | Change::Rename { node, .. } => *node,
        }
    }

    fn is_write(&self) -> bool {
        matches!(self, Change::Write { .. })
    }

    /// The length of the file is durable, and the write to it before is not: undone, it leaves zeros where there was nothing.
    fn lies_within(&mut self, last: u64, shortest: u64) {
        let Change::Write { at, new, old, old_len, .. } = self else { return };
        new.truncate(usize::try_from(shortest.saturating_sub(*at)).unwrap_or(usize::MAX));
        old.resize(new.len(), 0);
        *old_len = last;
    }

    fn bytes(&self) -> usize {
        match self {
            Change::Write { new, old, .. } => new.len() + old.len(),
            Change::Truncate { tail, .. } => tail.len(),
            _ => 0,
        }
    }

    /// Returns true if it is about contents of a file without a name.
    fn is_nowhere(&self, tree: &Tree) -> bool {
        matches!(self, Change::Write { .. } | Change::Truncate { .. }) && tree.path(self.node()).is_err()
    }

    fn undo(self, tree: &mut Tree) -> io::Result<Change> {
        match &self {
            Change::Write { node, at, old, old_len, .. } => {
                let file = tree.file(*node, true)?;
                file.write_all_at(old, *at)?;
                file.set_len(*old_len)?;
            }
            Change::Truncate { node, len, old_len, tail } => {
                let file = tree.file(*node, true)?;
                file.set_len(*old_len)?;
                file.write_all_at(tail, *len)?;
            }
            Change::Make { node, entry, .. } | Change::Link { node, entry } => tree.remove(*node, entry)?,
            Change::Remove { node, entry, kept } => drop(tree.make(entry, kept, Some(*node))?),
            Change::Rename { node, from, to, replaced } => {
                tree.rename(*node, to, from)?;
                if let Some((other, kept)) = replaced {
                    tree.make(to, kept, Some(*other))?;
                }
            }
        }
        Ok(self)
    }

    /// Repeats the change on the present tree. Returns the change that undoes it.
    fn redo(&self, tree: &mut Tree, share: SurvivingPart) -> io::Result<Change> {
        Ok(match self {
            Change::Write { node, at, new, .. } => {
                let whole = match share {
                    SurvivingPart::All => new.len(),
                    SurvivingPart::Half => new.len() / 2 / SECTOR_BYTES * SECTOR_BYTES,
                };
                write(tree, *node, *at, &new[..whole])?
            }
            Change::Truncate { node, len, .. } => truncate(tree, *node, *len)?,
            Change::Make { node, entry, made } => {
                let made = made.try_clone()?;
                tree.make(entry, &made, Some(*node))?;
                Change::Make { node: *node, entry: entry.clone(), made }
            }
            Change::Link { node, entry } => {
                tree.link(*node, entry)?;
                Change::Link { node: *node, entry: entry.clone() }
            }
            Change::Remove { node, entry, .. } => remove(tree, *node, entry)?,
            Change::Rename { node, from, to, .. } => rename(tree, *node, from, to)?,
        })
    }
}

/// Writes to a file.
pub(super) fn write(tree: &Tree, node: Node, at: u64, bytes: &[u8]) -> io::Result<Change> {
    let file = tree.file(node, true)?;
    let old_len = file.metadata()?.len();
    let old = read(&file, at, bytes.len())?;
    file.write_all_at(bytes, at)?;
    Ok(Change::Write { node, at, new: bytes.to_vec(), old, old_len })
}

/// Changes the length of a file. A cut must be small enough that its bytes can be kept.
pub(super) fn truncate(tree: &Tree, node: Node, len: u64) -> io::Result<Change> {
    let file = tree.file(node, true)?;
    let old_len = file.metadata()?.len();
    let tail = read(&file, len, usize::try_from(old_len.saturating_sub(len)).unwrap_or_default())?;
    file.set_len(len)?;
    Ok(Change::Truncate { node, len, old_len, tail })
}

/// The change of an allocation.
#[derive(Debug)]
pub(super) enum Allocated {
    /// The allocation changed nothing that can be read.
    Nothing,
    Change(Change),
    /// More than can be kept, or an unknown change: a file system may make it durable at once.
    Unknown,
}

/// Allocates room in a file, or gives it back.
pub(super) fn allocate(
    file: &File,
    node: Node,
    flags: FallocateFlags,
    at: u64,
    len: u64,
) -> io::Result<Allocated> {
    let old_len = file.metadata()?.len();
    let blanks = FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
    let is_blank = rustix::fs::seek(file, SeekFrom::Data(at)).map_or(true, |data| data >= at + len);
    let bytes = usize::try_from(len.min(old_len.saturating_sub(at))).unwrap_or(usize::MAX);
    let is_kept = flags.intersects(blanks) && !is_blank && bytes <= CHANGE_BYTES_MAX;
    let old = if is_kept { read(file, at, bytes)? } else { Vec::new() };
    rustix::fs::fallocate(file, flags, at, len)?;
    let len = file.metadata()?.len();
    let is_known = flags.difference(blanks | FallocateFlags::KEEP_SIZE).is_empty();
    Ok(match flags.intersects(blanks) {
        _ if !is_known => Allocated::Unknown,
        true if is_kept => {
            let new = vec![0; old.len()];
            Allocated::Change(Change::Write { node, at, new, old, old_len })
        }
        true if !is_blank => Allocated::Unknown,
        _ if len != old_len => Allocated::Change(Change::Truncate { node, len, old_len, tail: Vec::new() }),
        _ => Allocated::Nothing,
    })
}

/// Removes a name.
pub(super) fn remove(tree: &mut Tree, node: Node, entry: &Entry) -> io::Result<Change> {
    let kept = tree.keep(entry)?;
    tree.remove(node, entry)?;
    Ok(Change::Remove { node, entry: entry.clone(), kept })
}

/// Renames.
pub(super) fn rename(tree: &mut Tree, node: Node, from: &Entry, to: &Entry) -> io::Result<Change> {
    let replaced = match tree.look(to.parent, &to.name) {
        Ok(other) => Some((other, tree.keep(to)?)),
        Err(_) => None,
    };
    tree.rename(node, from, to)?;
    Ok(Change::Rename { node, from: from.clone(), to: to.clone(), replaced })
}

/// Reads bytes of a file, up to its end.
fn read(file: &File, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let (mut old, mut length) = (vec![0; bytes], 0);
    while length < bytes {
        match file.read_at(&mut old[length..], at + length as u64)? {
            0 => break,
            read => length += read,
        }
    }
    old.truncate(length);
    Ok(old)
}

/// The part of a write that survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SurvivingPart {
    All,
    /// The whole sectors of its first half.
    Half,
}

/// The changes that are not durable, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Journal {
    changes: VecDeque<Change>,
    bytes: usize,
    /// The number of syncs so far.
    syncs: u64,
}

/// The changes that are not durable at some moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    /// The condition of each change.
    pub(super) kinds: Vec<Kind>,
    /// Bytes of each: a write may be gone on with.
    bytes: Vec<usize>,
    /// The number of syncs before.
    syncs: u64,
}

/// The state after a loss of power: the number of syncs before, the changes that survive with their bytes, and true if
/// the last one is torn. Equal values mean equal disks, since without a sync changes are only added.
pub(super) type Remains = (u64, Vec<(usize, usize)>, bool);

impl Pending {
    /// The state when the power is lost this way.
    pub(super) fn after(&self, way: &Way) -> Remains {
        let kept = self.bytes.iter().copied().enumerate().filter(|(at, _)| way.keeps(*at, &self.kinds));
        (self.syncs, kept.collect(), *way == Way::Torn)
    }
}

impl Journal {
    /// Adds a change that was made.
    pub(super) fn push(&mut self, change: Change) {
        self.bytes += change.bytes();
        if let Change::Write { at, new, old, .. } = &change
            && self.is_continued(change.node(), *at)
            && let Some(Change::Write { new: before, old: old_before, .. }) = self.changes.back_mut()
        {
            before.extend(new);
            old_before.extend(old);
        } else {
            self.changes.push_back(change);
        }
        while self.bytes > KEPT_BYTES_MAX {
            let Some(oldest) = self.changes.pop_front() else { return };
            self.bytes -= oldest.bytes();
            self.syncs += 1;
        }
    }

    /// Returns true if a write continues the last change.
    pub(super) fn is_continued(&self, node: Node, to: u64) -> bool {
        let Some(Change::Write { node: last, at, new, old, old_len }) = self.changes.back() else {
            return false;
        };
        // Beyond the old end, nothing was there that would have to be kept.
        let is_in_order = old.len() == new.len() || at + old.len() as u64 == *old_len;
        *last == node && at + new.len() as u64 == to && new.len() < CHANGE_BYTES_MAX && is_in_order
    }

    /// A file was made durable, and with it all names and lengths.
    pub(super) fn sync(&mut self, node: Node) {
        self.syncs += 1;
        // The last length of each file, and the shortest.
        let mut lengths = BTreeMap::<Node, (u64, u64)>::new();
        for mut change in std::mem::take(&mut self.changes).into_iter().rev() {
            if let Change::Truncate { node, len, .. } = change {
                let known = lengths.entry(node).or_insert((len, len));
                known.1 = known.1.min(len);
            } else if change.is_write() && change.node() != node {
                if let Some((last, shortest)) = lengths.get(&change.node()) {
                    change.lies_within(*last, *shortest);
                }
                self.changes.push_front(change);
            }
        }
        self.bytes = self.changes.iter().map(Change::bytes).sum();
    }

    /// The contents of a file were made durable, and nothing else.
    pub(super) fn sync_contents(&mut self, node: Node) {
        self.syncs += 1;
        self.changes.retain(|change| !change.is_write() || change.node() != node);
        self.bytes = self.changes.iter().map(Change::bytes).sum();
    }

    /// Everything was made durable.
    pub(super) fn sync_all(&mut self) {
        self.syncs += 1;
        self.changes.clear();
        self.bytes = 0;
    }

    /// The changes that are not durable now.
    pub(super) fn pending(&self) -> Pending {
        let bytes = self.changes.iter().map(Change::bytes).collect();
        Pending { kinds: self.kinds(), bytes, syncs: self.syncs }
    }

    fn kinds(&self) -> Vec<Kind> {
        let mut made = Vec::new();
        let kind = |change: &Change| match change.is_write() {
            true => {
                let made_by = made.iter().rposition(|node| *node == change.node());
                Kind::Contents { names: made_by.map_or(0, |at| at + 1) }
            }
            false => {
                made.push(if matches!(change, Change::Make { .. }) { change.node() } else { 0 });
                Kind::Name
            }
        };
        self.changes.iter().map(kind).collect()
    }

    /// Loses the changes but for those that are kept, by their numbers from 0; of the last write that is kept only a half, on request.
    /// Makes the remaining state durable.
    ///
    /// # Errors
    /// Something could not be undone.
    pub(super) fn lose(
        &mut self,
        tree: &mut Tree,
        keeps: impl Fn(usize) -> bool,
        tears: bool,
    ) -> io::Result<Lost> {
        let mut all = VecDeque::new();
        while let Some(change) = self.changes.pop_back() {
            if !change.is_nowhere(tree) {
                all.push_front((self.changes.len(), change.undo(tree)?));
            }
        }
        self.bytes = 0;
        let writes = all.iter().rev().filter(|(_, change)| change.is_write());
        let torn = writes.map(|(number, _)| *number).next().filter(|_| tears);
        let share = |number| if torn == Some(number) { SurvivingPart::Half } else { SurvivingPart::All };
        let again = all.iter().filter(|(number, _)| keeps(*number));
        // The object of a change may be lost, and then the change is lost, too.
        let kept = again.filter_map(|(number, change)| change.redo(tree, share(*number)).ok()).collect();
        Ok(Lost { all: all.into_iter().map(|(_, change)| change).collect(), kept })
    }
}

/// The changes that were lost, and those that survived.
#[derive(Debug)]
pub(super) struct Lost {
    all: VecDeque<Change>,
    kept: Vec<Change>,
}

impl Lost {
    /// Restores all of them, as long as nothing was changed since.
    ///
    /// # Errors
    /// They cannot be restored.
    pub(super) fn restore(self, tree: &mut Tree) -> io::Result<()> {
        for change in self.kept.into_iter().rev() {
            change.undo(tree)?;
        }
        self.all.iter().try_for_each(|change| change.redo(tree, SurvivingPart::All).map(drop))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;

    use tempfile::tempdir;

    use super::super::tree::{MadeKind, ROOT};
    use super::*;

    fn entry(name: &str) -> Entry {
        Entry { parent: ROOT, name: OsString::from(name) }
    }

    /// A directory in which a file was replaced by way of a new one.
    fn replaced(dir: &Path) -> (Tree, Journal, Node) {
        fs::write(dir.join("state"), "old").unwrap();
        let (mut tree, mut journal) = (Tree::open(dir).unwrap(), Journal::default());
        let found = fs::metadata(dir).unwrap();
        let made = Made { kind: MadeKind::File(None), mode: 0o600, owner: (found.uid(), found.gid()) };
        let new = tree.make(&entry("new"), &made, None).unwrap();
        journal.push(Change::Make { node: new, entry: entry("new"), made });
        journal.push(write(&tree, new, 0, b"new ").unwrap());
        journal.push(write(&tree, new, 4, b"text").unwrap());
        journal.push(rename(&mut tree, new, &entry("new"), &entry("state")).unwrap());
        (tree, journal, new)
    }

    fn state(dir: &Path) -> String {
        fs::read_to_string(dir.join("state")).unwrap()
    }

    #[test]
    fn names_survive_before_contents() {
        let dir = tempdir().unwrap();
        let (mut tree, mut journal, _) = replaced(dir.path());
        assert_eq!(state(dir.path()), "new text");
        assert_eq!(journal.kinds(), [Kind::Name, Kind::Contents { names: 1 }, Kind::Name]);
        journal.lose(&mut tree, |number| number != 1, false).unwrap();
        assert_eq!(state(dir.path()), "");
    }

    #[test]
    fn a_power_loss_can_be_undone() {
        let dir = tempdir().unwrap();
        let (mut tree, mut journal, _) = replaced(dir.path());
        let lost = journal.lose(&mut tree, |_| false, false).unwrap();
        assert_eq!((state(dir.path()).as_str(), dir.path().join("new").exists()), ("old", false));
        lost.restore(&mut tree).unwrap();
        assert_eq!((state(dir.path()).as_str(), dir.path().join("new").exists()), ("new text", false));
    }

    #[test]
    fn what_was_made_durable_is_not_lost() {
        let dir = tempdir().unwrap();
        let (mut tree, mut journal, node) = replaced(dir.path());
        journal.sync(node);
        assert_eq!(journal.kinds(), []);
        journal.lose(&mut tree, |_| false, false).unwrap();
        assert_eq!(state(dir.path()), "new text");
    }

    #[test]
    fn a_loss_changes_only_with_new_or_durable_writes() {
        let dir = tempdir().unwrap();
        let (tree, mut journal, node) = replaced(dir.path());
        let keeps = |journal: &Journal, kept: &[usize]| journal.pending().after(&Way::These(kept.to_vec()));
        let [first, both] = [&[1][..], &[1, 2]].map(|kept| keeps(&journal, kept));
        assert_ne!(first, both);
        journal.push(write(&tree, node, 8, b" and more").unwrap());
        assert_eq!([&[1][..], &[1, 2]].map(|kept| keeps(&journal, kept)), [first.clone(), both]);
        let begun = keeps(&journal, &[1, 4]);
        journal.push(write(&tree, node, 17, b" and on").unwrap());
        assert_eq!(keeps(&journal, &[1]), first);
        assert_ne!(keeps(&journal, &[1, 4]), begun, "more of it was written");
        journal.sync_contents(node);
        assert_ne!(keeps(&journal, &[1]), first, "the write is durable now");
    }

    #[test]
    fn a_length_is_durable_before_what_was_written() {
        let dir = tempdir().unwrap();
        fs::write(dir.path().join("state"), "old").unwrap();
        let (mut tree, mut journal) = (Tree::open(dir.path()).unwrap(), Journal::default());
        let node = tree.look(ROOT, "state".as_ref()).unwrap();
        journal.push(write(&tree, node, 0, b"longer text").unwrap());
        journal.push(truncate(&tree, node, 6).unwrap());
        journal.sync(ROOT);
        assert_eq!(journal.kinds(), [Kind::Contents { names: 0 }]);
        journal.lose(&mut tree, |_| false, false).unwrap();
        assert_eq!(state(dir.path()), "old\0\0\0");
    }

    #[test]
    fn what_was_removed_and_overwritten_comes_back() {
        let dir = tempdir().unwrap();
        fs::write(dir.path().join("state"), "first text").unwrap();
        let (mut tree, mut journal) = (Tree::open(dir.path()).unwrap(), Journal::default());
        let node = tree.look(ROOT, "state".as_ref()).unwrap();
        journal.push(truncate(&tree, node, 3).unwrap());
        journal.push(write(&tree, node, 0, b"second").unwrap());
        journal.push(remove(&mut tree, node, &entry("state")).unwrap());
        assert!(!dir.path().join("state").exists());
        journal.lose(&mut tree, |number| number == 1, false).unwrap();
        assert_eq!(state(dir.path()), "secondtext");
    }
}
