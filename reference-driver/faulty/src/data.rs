//! Defects that affect the data of volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use crate::contents::Contents;
use crate::kept::RECORDED_PATHS;
use crate::new_part::Image;
use crate::target::{change, detach_mount};
use crate::{Defect, Faults, Seen};

/// The content source of a volume.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) snapshot: Option<String>,
    pub(crate) volume: String,
}

/// The history of the data of volumes.
#[derive(Debug, Default)]
pub(crate) struct Data {
    /// The content source of each copy.
    pub(crate) origins: BTreeMap<String, Origin>,
    /// Snapshots with their volumes, oldest first.
    pub(crate) cuts: Vec<(String, String)>,
    /// Snapshots that are restored in place of others.
    pub(crate) instead: BTreeMap<String, String>,
    /// Snapshots of volumes from when they were staged.
    pub(crate) staged_as: BTreeMap<String, String>,
    /// The sizes of expanded volumes.
    pub(crate) grown: BTreeMap<String, i64>,
    pub(crate) deleted: BTreeSet<String>,
    /// Deleted snapshots with their volumes.
    pub(crate) deleted_cuts: BTreeMap<String, String>,
    /// Snapshots that hold nothing.
    pub(crate) hollow: BTreeSet<String>,
    /// The content of volumes when a snapshot of them was taken last.
    pub(crate) at_snapshot: BTreeMap<String, Contents>,
    /// The contents of sources after the barrier of their snapshot had been lifted, by the snapshot.
    pub(crate) after_barrier: BTreeMap<String, Contents>,
    /// The images of volumes before an expansion that the node has to finish.
    pub(crate) unfinished_expansions: BTreeMap<String, Image>,
    /// The images of expanded volumes.
    pub(crate) images: BTreeMap<String, Image>,
    /// Paths at which a volume was expanded, with its size.
    pub(crate) expanded_at: BTreeSet<(String, i64)>,
    /// The names of unfinished copies.
    pub(crate) half: BTreeSet<String>,
    /// Volumes that were never published.
    pub(crate) unused: BTreeSet<String>,
    /// All targets at which a volume was ever published.
    pub(crate) targets: BTreeSet<(String, String)>,
    /// Volumes that are emptied when they are published next.
    emptied: BTreeSet<String>,
    /// Copies that are damaged when they are published next.
    damaged: BTreeSet<String>,
    /// The content of volumes when they were unpublished last, and first.
    last: BTreeMap<String, Contents>,
    first: BTreeMap<String, Contents>,
    /// The content of published volumes when they were published.
    at_publication: BTreeMap<String, Contents>,
    /// The content of the volume that was deleted last.
    handed_out: Option<Contents>,
}

impl Faults {
    /// Empties a volume now, or when it is published next.
    pub(crate) fn empty(&self, seen: &mut Seen, id: &str) {
        match seen.target_of(id) {
            Some(target) => change(&target, Contents::emptied),
            None => {
                seen.data.emptied.insert(id.to_owned());
            }
        }
    }

    /// Changes the content of a volume that was just published, as the defect does.
    pub(crate) fn alter_contents(&self, seen: &mut Seen, id: &str, target: &str, is_restaged: bool) {
        self.remember_target(target);
        let is_first = seen.data.unused.remove(id);
        if seen.data.emptied.remove(id) {
            change(target, Contents::emptied);
        }
        if seen.data.damaged.remove(id) {
            change(target, Contents::damaged);
        }
        if self.has(Defect::DropsLastWrites)
            && let Ok(contents) = Contents::of(Path::new(target))
        {
            seen.data.at_publication.insert(id.to_owned(), contents);
        }
        match self.defect {
            Defect::RemovesLogsAtRestage if is_restaged => change(target, Contents::without_logs),
            Defect::SwapsSectorsAtRestage if is_restaged => {
                change(target, Contents::with_swapped_sectors);
            }
            _ => {}
        }
        let is_new_copy = is_first && seen.data.origins.contains_key(id);
        let snapshot = seen.data.origins.get(id).and_then(|origin| origin.snapshot.as_deref());
        if let Some(later) = snapshot.and_then(|snapshot| seen.data.after_barrier.get(snapshot))
            && is_first
        {
            change(target, |contents| contents.with_beginning_of(later));
        }
        match self.defect {
            Defect::CopiesLoseEnd if is_new_copy => change(target, Contents::without_end),
            Defect::CopiesShifted if is_new_copy => change(target, Contents::shifted),
            Defect::CopiesDamaged if is_new_copy => change(target, Contents::damaged),
            _ => {}
        }
        let other = match self.defect {
            Defect::RevertsAtRestage if is_restaged => seen.data.first.get(id).cloned(),
            Defect::HandsOutDeleted if is_first && !is_new_copy => seen.data.handed_out.clone(),
            Defect::CopiesWriteThrough => {
                let copy = seen.data.origins.iter().find(|(_, origin)| origin.volume == id);
                copy.and_then(|(copy, _)| seen.data.last.get(copy).cloned())
            }
            Defect::CopiesFollowSource => seen.origin_of(id, false).and_then(|source| seen.contents(&source)),
            Defect::RestoresShare => seen.sibling(id).and_then(|other| seen.contents(&other)),
            _ => None,
        };
        if let Some(other) = other {
            change(target, |_| other);
        }
    }

    /// Saves the content of a volume that is about to be unpublished, and changes it as the defect does.
    pub(crate) fn save_contents(&self, seen: &mut Seen, target: &str) {
        let Some((_, id)) = seen.published.iter().find(|(other, _)| other == target).cloned() else { return };
        if self.has(Defect::LosesEnd) {
            change(target, Contents::without_end);
        }
        if let Some(before) = seen.data.at_publication.remove(&id) {
            let newest = newest_file(Path::new(target));
            change(target, |contents| contents.with_file_of(&before, newest.as_deref()));
        }
        let keeps = [
            Defect::RevertsAtRestage,
            Defect::HandsOutDeleted,
            Defect::CopiesWriteThrough,
            Defect::CopiesFollowSource,
            Defect::RestoresShare,
        ];
        if keeps.contains(&self.defect)
            && let Ok(contents) = Contents::of(Path::new(target))
        {
            seen.data.first.entry(id.clone()).or_insert_with(|| contents.clone());
            seen.data.last.insert(id, contents);
        }
    }

    /// Applies the side effects of a deletion.
    pub(crate) fn apply_side_effects(&self, seen: &mut Seen, id: &str) {
        seen.data.handed_out = seen.data.last.get(id).cloned();
        let copies = seen.data.origins.iter().filter(|(_, origin)| origin.volume == id);
        let copies: Vec<String> = copies.map(|(copy, _)| copy.clone()).collect();
        let source = seen.data.origins.get(id).map(|origin| origin.volume.clone());
        match self.defect {
            Defect::ClonesDamagedWithSource => {
                seen.data.damaged.extend(copies.into_iter().filter(|copy| seen.data.unused.contains(copy)));
            }
            Defect::DeletesCopies => copies.iter().for_each(|copy| self.empty(seen, copy)),
            Defect::DeletesSource => source.iter().for_each(|source| self.empty(seen, source)),
            Defect::DeleteUnmountsOthers => {
                let other = seen.published.iter().rfind(|(_, volume)| volume != id);
                other.iter().for_each(|(target, _)| detach_mount(target));
            }
            _ => {}
        }
        seen.data.deleted.insert(id.to_owned());
    }

    /// Returns true if the driver's records already contain the path, and adds it.
    pub(crate) fn is_recorded(&self, path: &str) -> bool {
        self.has(Defect::TrustsRecords)
            && self.kept.change(RECORDED_PATHS, |paths| paths.insert(path.to_owned())) == Some(false)
    }

    /// Removes a path from the driver's records.
    pub(crate) fn remove_record(&self, path: &str) {
        if self.has(Defect::TrustsRecords) {
            self.kept.change(RECORDED_PATHS, |paths| paths.remove(path));
        }
    }
}

impl Seen {
    pub(crate) fn target_of(&self, id: &str) -> Option<String> {
        self.published.iter().find(|(_, volume)| volume == id).map(|(target, _)| target.clone())
    }

    /// The existing source volume of a copy; with `through_snapshot` also the source of a snapshot that was restored.
    pub(crate) fn origin_of(&self, id: &str, through_snapshot: bool) -> Option<String> {
        let origin = self.data.origins.get(id)?;
        let counts = through_snapshot || origin.snapshot.is_none();
        (counts && !self.data.deleted.contains(&origin.volume)).then(|| origin.volume.clone())
    }

    /// Another volume that was restored from this snapshot.
    fn sibling(&self, id: &str) -> Option<String> {
        let snapshot = self.data.origins.get(id)?.snapshot.as_ref()?;
        let is_it =
            |(other, origin): &(&String, &Origin)| *other != id && origin.snapshot.as_ref() == Some(snapshot);
        self.data.origins.iter().find(is_it).map(|(other, _)| other.clone())
    }

    /// The present content of a volume, or what it contained when it was unpublished last.
    fn contents(&self, id: &str) -> Option<Contents> {
        let live = self.target_of(id).and_then(|target| Contents::of(Path::new(&target)).ok());
        live.or_else(|| self.data.last.get(id).cloned())
    }
}

/// Returns the name of the file that was written to last.
fn newest_file(directory: &Path) -> Option<OsString> {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let files = files.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let newest = files.max_by_key(|entry| entry.metadata().and_then(|found| found.modified()).ok());
    newest.map(|entry| entry.file_name())
}
