//! The tables, their changes, and a consistent view.

use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata, TableDefinition, WriteTransaction};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Group, Published, Snapshot, Staged, StoreError, Volume};
use crate::ids::{ObjectId, ObjectKind};

/// Tables with a string as key, and JSON or a key of another table as value.
type Table = TableDefinition<'static, &'static str, &'static str>;
/// Tables whose key is a volume and a path, or a volume and a snapshot.
type PairTable = TableDefinition<'static, (&'static str, &'static str), &'static str>;

pub(super) const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");
/// The entry of [`META`] that counts the commits.
const COMMITS_KEY: &str = "commits";
const VOLUMES: Table = Table::new("volumes");
const VOLUME_NAMES: Table = Table::new("volume_names");
const INLINE_IDS: Table = Table::new("inline_ids");
const SNAPSHOTS: Table = Table::new("snapshots");
const SNAPSHOT_NAMES: Table = Table::new("snapshot_names");
const SNAPSHOTS_OF: PairTable = PairTable::new("snapshots_of");
const GROUPS: Table = Table::new("groups");
const GROUP_NAMES: Table = Table::new("group_names");
const STAGED: PairTable = PairTable::new("staged");
const PUBLISHED: PairTable = PairTable::new("published");

#[derive(Clone, Debug)]
pub enum Change {
    PutVolume(Volume),
    DeleteVolume(Volume),
    PutSnapshot(Snapshot),
    DeleteSnapshot(Snapshot),
    PutGroup(Group),
    DeleteGroup(Group),
    PutStaged(Staged),
    DeleteStaged(Staged),
    PutPublished(Published),
    DeletePublished(Published),
}

impl Change {
    pub(super) fn apply(&self, to: &WriteTransaction) -> Result<(), StoreError> {
        match self {
            Change::PutVolume(volume) => put_volume(to, volume),
            Change::DeleteVolume(volume) => delete_volume(to, volume),
            Change::PutSnapshot(snapshot) => put_snapshot(to, snapshot),
            Change::DeleteSnapshot(snapshot) => delete_snapshot(to, snapshot),
            Change::PutGroup(group) => {
                put(to, GROUP_NAMES, &group.name, group.key.as_str())?;
                put(to, GROUPS, group.key.as_str(), &json(group.key.as_str(), group)?)
            }
            Change::DeleteGroup(group) => {
                delete(to, GROUP_NAMES, &group.name)?;
                delete(to, GROUPS, group.key.as_str())
            }
            Change::PutStaged(staged) => put_pair(to, STAGED, staged.key(), &json(&staged.path, staged)?),
            Change::DeleteStaged(staged) => delete_pair(to, STAGED, staged.key()),
            Change::PutPublished(published) => {
                put_pair(to, PUBLISHED, published.key(), &json(&published.path, published)?)
            }
            Change::DeletePublished(published) => delete_pair(to, PUBLISHED, published.key()),
        }
    }
}

impl Staged {
    fn key(&self) -> (&str, &str) {
        (self.volume.as_str(), &self.path)
    }
}

impl Published {
    fn key(&self) -> (&str, &str) {
        (self.volume.as_str(), &self.path)
    }
}

fn put_volume(to: &WriteTransaction, volume: &Volume) -> Result<(), StoreError> {
    let key = volume.key.as_str();
    match &volume.inline_id {
        Some(id) => put(to, INLINE_IDS, id, key)?,
        None => put(to, VOLUME_NAMES, &volume.name, key)?,
    }
    put(to, VOLUMES, key, &json(key, volume)?)
}

fn delete_volume(to: &WriteTransaction, volume: &Volume) -> Result<(), StoreError> {
    match &volume.inline_id {
        Some(id) => delete(to, INLINE_IDS, id)?,
        None => delete(to, VOLUME_NAMES, &volume.name)?,
    }
    delete(to, VOLUMES, volume.key.as_str())
}

fn put_snapshot(to: &WriteTransaction, snapshot: &Snapshot) -> Result<(), StoreError> {
    let key = snapshot.key.as_str();
    if snapshot.group.is_none() {
        put(to, SNAPSHOT_NAMES, &snapshot.name, key)?;
    }
    put_pair(to, SNAPSHOTS_OF, (&snapshot.source_volume_id, key), "")?;
    put(to, SNAPSHOTS, key, &json(key, snapshot)?)
}

fn delete_snapshot(to: &WriteTransaction, snapshot: &Snapshot) -> Result<(), StoreError> {
    let key = snapshot.key.as_str();
    if snapshot.group.is_none() {
        delete(to, SNAPSHOT_NAMES, &snapshot.name)?;
    }
    delete_pair(to, SNAPSHOTS_OF, (&snapshot.source_volume_id, key))?;
    delete(to, SNAPSHOTS, key)
}

fn put(to: &WriteTransaction, table: Table, key: &str, value: &str) -> Result<(), StoreError> {
    to.open_table(table)?.insert(key, value)?;
    Ok(())
}

fn delete(to: &WriteTransaction, table: Table, key: &str) -> Result<(), StoreError> {
    to.open_table(table)?.remove(key)?;
    Ok(())
}

fn put_pair(
    to: &WriteTransaction,
    table: PairTable,
    key: (&str, &str),
    value: &str,
) -> Result<(), StoreError> {
    to.open_table(table)?.insert(key, value)?;
    Ok(())
}

fn delete_pair(to: &WriteTransaction, table: PairTable, key: (&str, &str)) -> Result<(), StoreError> {
    to.open_table(table)?.remove(key)?;
    Ok(())
}

fn json<T: Serialize>(key: &str, record: &T) -> Result<String, StoreError> {
    serde_json::to_string(record)
        .map_err(|error| StoreError::Record { key: key.to_owned(), reason: error.to_string() })
}

fn parse<T: DeserializeOwned>(key: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| StoreError::Record { key: key.to_owned(), reason: error.to_string() })
}

/// Numbers the present commit. The state of an older version has no number yet.
pub(super) fn number_commit(to: &WriteTransaction) -> Result<u64, StoreError> {
    let mut meta = to.open_table(META)?;
    let number = meta.get(COMMITS_KEY)?.map_or(0, |last| last.value()).wrapping_add(1);
    meta.insert(COMMITS_KEY, number)?;
    Ok(number)
}

/// Creates all tables, so that views can open them.
pub(super) fn create_tables(to: &WriteTransaction) -> Result<(), StoreError> {
    for table in [VOLUMES, VOLUME_NAMES, INLINE_IDS, SNAPSHOTS, SNAPSHOT_NAMES, GROUPS, GROUP_NAMES] {
        to.open_table(table)?;
    }
    for table in [SNAPSHOTS_OF, STAGED, PUBLISHED] {
        to.open_table(table)?;
    }
    Ok(())
}

type ReadTable = redb::ReadOnlyTable<&'static str, &'static str>;
type ReadPairTable = redb::ReadOnlyTable<(&'static str, &'static str), &'static str>;

/// A view of the state at one moment.
pub struct View {
    from: ReadTransaction,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}

impl View {
    pub(super) fn new(from: ReadTransaction) -> View {
        View { from }
    }

    fn open(&self, table: Table) -> Result<ReadTable, StoreError> {
        Ok(self.from.open_table(table)?)
    }

    fn open_pairs(&self, table: PairTable) -> Result<ReadPairTable, StoreError> {
        Ok(self.from.open_table(table)?)
    }

    /// The volume with the identifier that the CO uses.
    pub fn volume(&self, id: &str) -> Result<Option<Volume>, StoreError> {
        if ObjectId::parse(ObjectKind::Volume, id).is_ok()
            && let Some(volume) = get::<Volume>(&self.open(VOLUMES)?, id)?
        {
            return Ok(Some(volume).filter(|volume| volume.inline_id.is_none()));
        }
        follow(&self.open(INLINE_IDS)?, id, &self.open(VOLUMES)?)
    }

    pub fn volume_by_key(&self, key: &ObjectId) -> Result<Option<Volume>, StoreError> {
        get(&self.open(VOLUMES)?, key.as_str())
    }

    pub fn volume_by_name(&self, name: &str) -> Result<Option<Volume>, StoreError> {
        follow(&self.open(VOLUME_NAMES)?, name, &self.open(VOLUMES)?)
    }

    /// Up to `count` volumes after the given key, ordered by key.
    pub fn volumes_after(&self, after: &str, count: usize) -> Result<Vec<Volume>, StoreError> {
        after_key(&self.open(VOLUMES)?, after, count)
    }

    pub fn volume_count(&self) -> Result<u64, StoreError> {
        Ok(self.open(VOLUMES)?.len()?)
    }

    pub fn snapshot_count(&self) -> Result<u64, StoreError> {
        Ok(self.open(SNAPSHOTS)?.len()?)
    }

    pub fn snapshot(&self, id: &str) -> Result<Option<Snapshot>, StoreError> {
        get(&self.open(SNAPSHOTS)?, id)
    }

    pub fn snapshot_by_name(&self, name: &str) -> Result<Option<Snapshot>, StoreError> {
        follow(&self.open(SNAPSHOT_NAMES)?, name, &self.open(SNAPSHOTS)?)
    }

    /// Up to `count` snapshots after the given identifier, ordered by identifier.
    pub fn snapshots_after(&self, after: &str, count: usize) -> Result<Vec<Snapshot>, StoreError> {
        after_key(&self.open(SNAPSHOTS)?, after, count)
    }

    /// Up to `count` snapshots of one volume after the given identifier, ordered by identifier.
    pub fn snapshots_of_after(
        &self,
        volume: &str,
        after: &str,
        count: usize,
    ) -> Result<Vec<Snapshot>, StoreError> {
        let mut found = Vec::new();
        for entry in self.open_pairs(SNAPSHOTS_OF)?.range((volume, after)..)? {
            let (key, _) = entry?;
            let (source, snapshot) = key.value();
            if source != volume || found.len() == count {
                break;
            }
            if snapshot > after {
                found.extend(self.snapshot(snapshot)?);
            }
        }
        Ok(found)
    }

    pub fn group(&self, id: &str) -> Result<Option<Group>, StoreError> {
        get(&self.open(GROUPS)?, id)
    }

    pub fn group_by_name(&self, name: &str) -> Result<Option<Group>, StoreError> {
        follow(&self.open(GROUP_NAMES)?, name, &self.open(GROUPS)?)
    }

    pub fn staged_of(&self, volume: &ObjectId) -> Result<Vec<Staged>, StoreError> {
        pairs_of(&self.open_pairs(STAGED)?, volume)
    }

    pub fn published_of(&self, volume: &ObjectId) -> Result<Vec<Published>, StoreError> {
        pairs_of(&self.open_pairs(PUBLISHED)?, volume)
    }

    pub fn all_staged(&self) -> Result<Vec<Staged>, StoreError> {
        all(&self.open_pairs(STAGED)?)
    }

    pub fn all_published(&self) -> Result<Vec<Published>, StoreError> {
        all(&self.open_pairs(PUBLISHED)?)
    }

    pub(super) fn last_commit(&self) -> Result<u64, StoreError> {
        Ok(self.from.open_table(META)?.get(COMMITS_KEY)?.map_or(0, |last| last.value()))
    }

    /// Opens every table and parses every record, to find missing tables and damaged records.
    pub(super) fn verify(&self) -> Result<(), StoreError> {
        parse_all::<Volume>(&self.open(VOLUMES)?)?;
        parse_all::<Snapshot>(&self.open(SNAPSHOTS)?)?;
        parse_all::<Group>(&self.open(GROUPS)?)?;
        self.all_staged()?;
        self.all_published()?;
        for table in [VOLUME_NAMES, INLINE_IDS, SNAPSHOT_NAMES, GROUP_NAMES] {
            self.open(table)?;
        }
        self.open_pairs(SNAPSHOTS_OF)?;
        Ok(())
    }
}

fn get<T: DeserializeOwned>(table: &ReadTable, key: &str) -> Result<Option<T>, StoreError> {
    table.get(key)?.map(|value| parse(key, value.value())).transpose()
}

fn follow<T: DeserializeOwned>(
    index: &ReadTable,
    key: &str,
    table: &ReadTable,
) -> Result<Option<T>, StoreError> {
    match index.get(key)? {
        Some(target) => get(table, target.value()),
        None => Ok(None),
    }
}

/// Parses each record without keeping any.
fn parse_all<T: DeserializeOwned>(table: &ReadTable) -> Result<(), StoreError> {
    for entry in table.iter()? {
        let (key, value) = entry?;
        parse::<T>(key.value(), value.value())?;
    }
    Ok(())
}

fn after_key<T: DeserializeOwned>(
    table: &ReadTable,
    after: &str,
    count: usize,
) -> Result<Vec<T>, StoreError> {
    use std::ops::Bound::{Excluded, Unbounded};
    let mut found = Vec::new();
    for entry in table.range::<&str>((Excluded(after), Unbounded))?.take(count) {
        let (key, value) = entry?;
        found.push(parse(key.value(), value.value())?);
    }
    Ok(found)
}

fn pairs_of<T: DeserializeOwned>(table: &ReadPairTable, volume: &ObjectId) -> Result<Vec<T>, StoreError> {
    let mut found = Vec::new();
    for entry in table.range((volume.as_str(), "")..)? {
        let (key, value) = entry?;
        let (owner, path) = key.value();
        if owner != volume.as_str() {
            break;
        }
        found.push(parse(path, value.value())?);
    }
    Ok(found)
}

fn all<T: DeserializeOwned>(table: &ReadPairTable) -> Result<Vec<T>, StoreError> {
    let mut found = Vec::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        found.push(parse(key.value().1, value.value())?);
    }
    Ok(found)
}
