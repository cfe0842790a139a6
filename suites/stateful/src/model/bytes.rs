//! What is in a volume, as far as it is known.

use std::collections::BTreeMap;

use super::answer::Found;
use super::names::{Slot, Stamp};

/// What was last written to each place; `None` where a write may or may not have come through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bytes(BTreeMap<Slot, Option<Stamp>>);

impl Bytes {
    /// Enters a write that is durable.
    pub fn write(&mut self, slot: Slot, stamp: Stamp) {
        self.0.insert(slot, Some(stamp));
    }

    /// Enters a write of which nobody knows how far it came.
    pub fn blur(&mut self, slot: Slot) {
        self.0.insert(slot, None);
    }

    /// Keeps what is the same in both.
    #[must_use]
    pub fn common(mut self, other: &Bytes) -> Bytes {
        for slot in other.0.keys() {
            self.0.entry(*slot).or_insert(None);
        }
        for (slot, stamp) in &mut self.0 {
            if other.0.get(slot) != Some(stamp) {
                *stamp = None;
            }
        }
        self
    }

    /// The first place that does not hold what was written there, with that.
    pub fn lost(&self, found: &BTreeMap<Slot, Found>) -> Option<(Slot, Stamp)> {
        let written = self.0.iter().filter_map(|(slot, stamp)| Some((*slot, (*stamp)?)));
        written.into_iter().find(|(slot, stamp)| found.get(slot) != Some(&Found::Stamp(*stamp)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(stamps: &[(u8, u32)]) -> Bytes {
        let mut bytes = Bytes::default();
        stamps.iter().for_each(|(slot, stamp)| bytes.write(Slot(*slot), Stamp(*stamp)));
        bytes
    }

    #[test]
    fn what_is_known_to_be_written_has_to_be_there() {
        let mut written = bytes(&[(0, 1), (1, 2)]);
        written.blur(Slot(1));
        assert_eq!(written.lost(&[(Slot(0), Found::Stamp(Stamp(1)))].into()), None);
        assert_eq!(written.lost(&[(Slot(0), Found::Other)].into()), Some((Slot(0), Stamp(1))));
        assert_eq!(written.lost(&BTreeMap::new()), Some((Slot(0), Stamp(1))));
    }

    #[test]
    fn what_two_states_do_not_share_is_not_known() {
        let common = bytes(&[(0, 1), (1, 2), (2, 3)]).common(&bytes(&[(0, 1), (1, 9), (3, 4)]));
        let found = [(Slot(0), Found::Stamp(Stamp(1)))].into();
        assert_eq!(common.lost(&found), None);
        assert_eq!(common.lost(&BTreeMap::new()), Some((Slot(0), Stamp(1))));
    }
}
