//! A table of objects by age, id and name.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;

use serde::{Deserialize, Serialize};

/// An object with an id and possibly a name.
pub(crate) trait Row {
    fn id(&self) -> &str;
    /// The name from the request; none for objects without one.
    fn name(&self) -> Option<&str>;
}

/// Rows in order of creation, which can be found by id or name without a scan.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound = "T: Row + Serialize + serde::de::DeserializeOwned", from = "Rows<T>", into = "Rows<T>")]
pub(crate) struct Table<T: Row + Clone> {
    /// The rows by sequence number. Numbers are never reused.
    rows: BTreeMap<u64, T>,
    by_id: BTreeMap<String, u64>,
    by_name: BTreeMap<String, u64>,
    next: u64,
}

/// The stored part of a table; the rest is derived from it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows<T> {
    rows: BTreeMap<u64, T>,
    next: u64,
}

impl<T: Row + Clone> From<Rows<T>> for Table<T> {
    fn from(stored: Rows<T>) -> Self {
        let mut table = Self::default();
        for (sequence, row) in stored.rows {
            table.insert_at(sequence, row);
        }
        table.next = table.next.max(stored.next);
        table
    }
}

impl<T: Row + Clone> From<Table<T>> for Rows<T> {
    fn from(table: Table<T>) -> Self {
        Self { rows: table.rows, next: table.next }
    }
}

impl<T: Row + Clone> Default for Table<T> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), by_id: BTreeMap::new(), by_name: BTreeMap::new(), next: 1 }
    }
}

impl<T: Row + Clone> Table<T> {
    /// Adds a row as the newest one.
    pub(crate) fn insert(&mut self, row: T) {
        self.insert_at(self.next, row);
    }

    fn insert_at(&mut self, sequence: u64, row: T) {
        self.by_id.insert(row.id().to_owned(), sequence);
        if let Some(name) = row.name() {
            self.by_name.insert(name.to_owned(), sequence);
        }
        self.rows.insert(sequence, row);
        self.next = self.next.max(sequence.saturating_add(1));
    }

    /// Adds a row that only appears in lists; for defects.
    pub(crate) fn insert_unfindable(&mut self, row: T) {
        self.rows.insert(self.next, row);
        self.next = self.next.saturating_add(1);
    }

    /// Frees the name for another row; for defects.
    pub(crate) fn forget_name(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    /// The number of rows created so far, including removed ones.
    pub(crate) fn made(&self) -> u64 {
        self.next
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<T> {
        let sequence = self.by_id.remove(id)?;
        let row = self.rows.remove(&sequence)?;
        if let Some(name) = row.name()
            && self.by_name.get(name) == Some(&sequence)
        {
            self.by_name.remove(name);
        }
        Some(row)
    }

    pub(crate) fn get(&self, id: &str) -> Option<&T> {
        self.rows.get(self.by_id.get(id)?)
    }

    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut T> {
        self.rows.get_mut(self.by_id.get(id)?)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&T> {
        self.rows.get(self.by_name.get(name)?)
    }

    pub(crate) fn named_mut(&mut self, name: &str) -> Option<&mut T> {
        self.rows.get_mut(self.by_name.get(name)?)
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn values(&self) -> btree_map::Values<'_, u64, T> {
        self.rows.values()
    }

    pub(crate) fn values_mut(&mut self) -> btree_map::ValuesMut<'_, u64, T> {
        self.rows.values_mut()
    }

    /// The rows after the one with this sequence number, oldest first.
    pub(crate) fn after(&self, sequence: u64) -> impl Iterator<Item = (u64, &T)> {
        self.rows.range((Bound::Excluded(sequence), Bound::Unbounded)).map(|(sequence, row)| (*sequence, row))
    }

    /// The rows whose id is greater than this one, in the order of ids.
    pub(crate) fn after_id(&self, id: &str) -> impl Iterator<Item = &T> {
        let range = self.by_id.range::<str, _>((Bound::Excluded(id), Bound::Unbounded));
        range.filter_map(|(_, sequence)| self.rows.get(sequence))
    }
}
