//! The known content of a volume.

use std::collections::BTreeMap;

use super::answer::Found;
use super::names::{Id, Slot, Stamp};

/// The last write to each place; `None` if a write may have come through or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bytes(BTreeMap<Slot, Option<Write>>);

/// A write, and to which volume it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// The volume, which copies have it from.
    pub volume: Id,
    /// The stamp of the write.
    pub stamp: Stamp,
}

impl Bytes {
    /// Enters a write that is durable.
    pub fn write(&mut self, slot: Slot, write: Write) {
        self.0.insert(slot, Some(write));
    }

    /// Enters a write of unknown extent.
    pub fn blur(&mut self, slot: Slot) {
        self.0.insert(slot, None);
    }

    /// Keeps the places that are equal in both.
    #[must_use]
    pub fn common(mut self, other: &Bytes) -> Bytes {
        for slot in other.0.keys() {
            self.0.entry(*slot).or_insert(None);
        }
        for (slot, write) in &mut self.0 {
            if other.0.get(slot) != Some(write) {
                *write = None;
            }
        }
        self
    }

    /// The first place that does not hold what was written there, with that.
    pub fn lost(&self, found: &BTreeMap<Slot, Found>) -> Option<(Slot, Write)> {
        let mut written = self.0.iter().filter_map(|(slot, write)| Some((*slot, (*write)?)));
        written.find(|(slot, write)| found.get(slot).and_then(|found| found.stamp()) != Some(write.stamp))
    }

    /// Returns true if anything was ever written to a place.
    pub fn has(&self, slot: Slot) -> bool {
        self.0.contains_key(&slot)
    }
}

#[cfg(test)]
mod tests {
    use super::super::names::Name;
    use super::*;

    fn of(stamp: u32) -> Write {
        Write { volume: Name::volume(0).id(0), stamp: Stamp(stamp) }
    }

    fn bytes(stamps: &[(u8, u32)]) -> Bytes {
        let mut bytes = Bytes::default();
        stamps.iter().for_each(|(slot, stamp)| bytes.write(Slot(*slot), of(*stamp)));
        bytes
    }

    #[test]
    fn what_is_known_to_be_written_has_to_be_there() {
        let mut written = bytes(&[(0, 1), (1, 2)]);
        written.blur(Slot(1));
        assert_eq!(written.lost(&[(Slot(0), Found::Stamp(Stamp(1)))].into()), None);
        assert_eq!(written.lost(&[(Slot(0), Found::Strange)].into()), Some((Slot(0), of(1))));
        assert_eq!(written.lost(&BTreeMap::new()), Some((Slot(0), of(1))));
    }

    #[test]
    fn what_two_states_do_not_share_is_not_known() {
        let common = bytes(&[(0, 1), (1, 2), (2, 3)]).common(&bytes(&[(0, 1), (1, 9), (3, 4)]));
        let found = [(Slot(0), Found::Stamp(Stamp(1)))].into();
        assert_eq!(common.lost(&found), None);
        assert_eq!(common.lost(&BTreeMap::new()), Some((Slot(0), of(1))));
    }
}
