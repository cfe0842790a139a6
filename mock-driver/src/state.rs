//! The state of the driver.

mod content;
mod file;
mod model;
mod table;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

use serde::{Deserialize, Serialize};
use tonic::Status;

pub(crate) use self::content::{Content, Extent, WRITTEN_BLOCK_BYTES, hash, hash_text};
pub use self::file::StateFileError;
pub(crate) use self::file::{StateFile, Store};
pub(crate) use self::model::{
    Access, Attachment, Group, Made, Map, Publication, Snapshot, Source, Usage, Volume,
};
pub(crate) use self::table::{Row, Table};

/// The number of lists that still contain a volume after it was deleted in the background.
const LISTINGS_AFTER_DELETION: u32 = 3;

/// Volumes, snapshots, group snapshots, and the storage that they use.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    /// Distinguishes the ids of this state from those of others.
    nonce: u32,
    /// The number of ids that were generated so far.
    ids: u64,
    pub(crate) volumes: Table<Volume>,
    pub(crate) snapshots: Table<Snapshot>,
    pub(crate) groups: Table<Group>,
    /// Volumes that are being deleted, with the number of lists that will still contain them.
    leaving: Vec<(Volume, u32)>,
    /// The used storage by zone. It is not stored, because it follows from the volumes.
    #[serde(skip)]
    allocated: Vec<i64>,
    /// The ids of all volumes that were attached since they exist, so that those of a node are found without looking at each volume. It is
    /// not stored, because it follows from the volumes.
    #[serde(skip)]
    once_attached: BTreeSet<String>,
}

impl State {
    /// An empty state. States with different seeds generate different ids.
    pub(crate) fn new(seed: Option<u32>) -> Self {
        Self {
            nonce: seed.unwrap_or_else(|| RandomState::new().hash_one("csi-mock-driver") as u32),
            ids: 0,
            volumes: Table::default(),
            snapshots: Table::default(),
            groups: Table::default(),
            leaving: Vec::new(),
            allocated: Vec::new(),
            once_attached: BTreeSet::new(),
        }
    }

    /// Generates an id that was never used before.
    pub(crate) fn fresh_id(&mut self, prefix: &str) -> String {
        self.ids += 1;
        format!("{prefix}-{:08x}-{:08x}", self.nonce, self.ids)
    }

    /// A number that differs for each call and each state.
    pub(crate) fn fresh_seed(&mut self) -> u64 {
        self.ids += 1;
        hash(&[u64::from(self.nonce), self.ids])
    }

    /// Derives from the volumes all that is not stored, for this number of zones. A volume of a zone that no longer exists counts in the first
    /// one.
    pub(crate) fn recount(&mut self, zones: usize) {
        self.allocated = vec![0; zones.max(1)];
        for volume in self.volumes.values_mut() {
            if volume.zone >= self.allocated.len() {
                volume.zone = 0;
            }
            self.allocated[volume.zone] += volume.capacity_bytes;
            if !volume.attachments.is_empty() {
                self.once_attached.insert(volume.id.clone());
            }
        }
    }

    /// Attaches a volume to a node, unless it is attached there already.
    pub(crate) fn attach(&mut self, volume_id: &str, node_id: &str, attachment: Attachment) {
        if let Some(volume) = self.volumes.get_mut(volume_id) {
            volume.attachments.entry(node_id.to_owned()).or_insert(attachment);
            self.once_attached.insert(volume_id.to_owned());
        }
    }

    /// The volumes that are attached to a node.
    pub(crate) fn attached_to(&self, node_id: &str) -> impl Iterator<Item = &Volume> {
        let volumes = self.once_attached.iter().filter_map(|id| self.volumes.get(id));
        volumes.filter(move |volume| volume.attachments.contains_key(node_id))
    }

    /// The staging and target paths of all volumes, on all nodes.
    pub(crate) fn paths_in_use(&self) -> impl Iterator<Item = &String> {
        let on_nodes = self.volumes.values().flat_map(|volume| volume.on_nodes.values());
        on_nodes.flat_map(|node| node.staged.keys().chain(node.published.keys()))
    }

    /// The storage that the volumes of a zone use.
    pub(crate) fn allocated(&self, zone: usize) -> i64 {
        self.allocated.get(zone).copied().unwrap_or_default()
    }

    pub(crate) fn add_volume(&mut self, volume: Volume) {
        // An id is listed once, also if it is that of a volume which is being deleted.
        self.leaving.retain(|(other, _)| other.id != volume.id);
        if let Some(allocated) = self.allocated.get_mut(volume.zone) {
            *allocated = allocated.saturating_add(volume.capacity_bytes);
        }
        self.volumes.insert(volume);
    }

    /// Removes all volumes; for defects.
    pub(crate) fn remove_all_volumes(&mut self) {
        let ids: Vec<String> = self.volumes.values().map(|volume| volume.id.clone()).collect();
        ids.iter().for_each(|id| drop(self.remove_volume(id)));
    }

    pub(crate) fn forget_volume_names(&mut self) {
        let names: Vec<String> = self.volumes.values().filter_map(|volume| volume.name.clone()).collect();
        names.iter().for_each(|name| self.volumes.forget_name(name));
    }

    pub(crate) fn remove_volume(&mut self, id: &str) -> Option<Volume> {
        let volume = self.volumes.remove(id)?;
        self.once_attached.remove(id);
        if let Some(allocated) = self.allocated.get_mut(volume.zone) {
            *allocated -= volume.capacity_bytes;
        }
        Some(volume)
    }

    /// Marks storage as used although no volume has it; for defects.
    pub(crate) fn take_storage(&mut self, zone: usize, bytes: i64) {
        if let Some(allocated) = self.allocated.get_mut(zone) {
            *allocated = allocated.saturating_add(bytes);
        }
    }

    pub(crate) fn resize_volume(&mut self, id: &str, capacity_bytes: i64) {
        let Some(volume) = self.volumes.get_mut(id) else { return };
        if let Some(allocated) = self.allocated.get_mut(volume.zone) {
            *allocated = allocated.saturating_add(capacity_bytes - volume.capacity_bytes);
        }
        volume.capacity_bytes = capacity_bytes;
    }

    /// Keeps a deleted volume in lists for a while.
    pub(crate) fn keep_listed(&mut self, volume: Volume) {
        self.leaving.push((volume, LISTINGS_AFTER_DELETION));
    }

    /// The deleted volumes that are still listed. Counts as one list.
    pub(crate) fn still_listed(&mut self) -> Vec<Volume> {
        let seen = self.leaving.iter().map(|(volume, _)| volume.clone()).collect();
        self.count_down(|_| true);
        seen
    }

    /// The reason why a volume that does not exist cannot be copied: it is still being deleted, or it is gone.
    pub(crate) fn no_source(&mut self, id: &str) -> Status {
        if self.leaving.iter().all(|(volume, _)| volume.id != id) {
            return Status::not_found(format!("source volume {id} does not exist"));
        }
        self.count_down(|volume| volume.id == id);
        Status::aborted(format!("source volume {id} is being deleted"))
    }

    /// Counts one more use of these deleted volumes.
    fn count_down(&mut self, which: impl Fn(&Volume) -> bool) {
        self.leaving.retain_mut(|(volume, left)| {
            *left -= u32::from(which(volume));
            *left > 0
        });
    }
}
