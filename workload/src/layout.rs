//! The place of each record of a workload. It depends only on the number of the record, so that a reader can tell from the last number what
//! each place has to hold.

use std::fmt;

use csi_harness::resources::contents::BLOCK_BYTES;
use serde::{Deserialize, Serialize};

/// Bytes of a record. Devices with blocks of 4 KiB write no less at once.
pub const RECORD_BYTES: u64 = 4096;
/// Blocks of a record.
pub(crate) const RECORD_BLOCKS: usize = RECORD_BYTES as usize / BLOCK_BYTES;
/// Records that are overwritten in place. On a device they are spread over all of it.
pub(crate) const SLOTS: u32 = 16;
/// Records that are appended until the workload begins again at the beginning.
pub(crate) const APPENDS_MAX: u32 = 256;
/// The smallest volume that has room for all places, with a file system on it.
pub const SIZE_BYTES_MIN: u64 = 4 << 20;

/// A place that holds one record at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Place {
    /// The n-th record of a file that grows, or of a range of a device that is written from its beginning to its end.
    Appended(u32),
    /// A record that is overwritten in place.
    Overwritten(u32),
    /// A file that another one is renamed over. Devices have none.
    Renamed,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Appended(nth) => write!(f, "appended record {nth}"),
            Place::Overwritten(slot) => write!(f, "overwritten record {slot}"),
            Place::Renamed => f.write_str("the renamed file"),
        }
    }
}

/// The places of one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The bytes of the device; none for a file system.
    device_bytes: Option<u64>,
    /// The bytes at the beginning of the device that hold other data.
    kept_bytes: u64,
}

impl Layout {
    /// The places in a file system.
    pub const fn of_file_system() -> Layout {
        Layout { device_bytes: None, kept_bytes: 0 }
    }

    /// The places on a device of so many bytes; none if it is too small.
    pub fn of_device(bytes: u64) -> Option<Layout> {
        (bytes >= SIZE_BYTES_MIN).then_some(Layout { device_bytes: Some(bytes), kept_bytes: 0 })
    }

    /// The places in the second half of a device, whose first half holds other data; none if it is too small.
    pub fn of_second_half(bytes: u64) -> Option<Layout> {
        let kept_bytes = (bytes / 2).next_multiple_of(RECORD_BYTES);
        let is_large = bytes.saturating_sub(kept_bytes) >= SIZE_BYTES_MIN;
        is_large.then_some(Layout { device_bytes: Some(bytes), kept_bytes })
    }

    /// Returns true for a device.
    pub fn is_device(&self) -> bool {
        self.device_bytes.is_some()
    }

    /// Returns the number of bytes at the beginning of a device that hold other data.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// The distance between two overwritten records.
    pub(crate) fn stride_bytes(&self) -> u64 {
        let spread = self
            .device_bytes
            .map(|bytes| (bytes - self.kept_bytes) / u64::from(SLOTS) / RECORD_BYTES * RECORD_BYTES);
        spread.unwrap_or(RECORD_BYTES)
    }

    /// Records that fit between the first and the second overwritten record of a device.
    pub(crate) fn appends(&self) -> u32 {
        match self.device_bytes {
            None => APPENDS_MAX,
            Some(_) => {
                let free = self.stride_bytes() / RECORD_BYTES - 1;
                u32::try_from(free).unwrap_or(APPENDS_MAX).min(APPENDS_MAX)
            }
        }
    }

    /// The place of a record.
    pub fn place(&self, number: u32) -> Place {
        match number % 4 {
            2 => Place::Appended(number / 4 % self.appends()),
            0 if !self.is_device() => Place::Renamed,
            _ => Place::Overwritten(number / 2 % SLOTS),
        }
    }

    /// The bytes before a place: in its file, or on the device.
    pub fn offset_bytes(&self, place: Place) -> u64 {
        let records = |count: u32| u64::from(count) * RECORD_BYTES;
        match (place, self.is_device()) {
            (Place::Appended(nth), false) => records(nth),
            (Place::Appended(nth), true) => self.kept_bytes + RECORD_BYTES + records(nth),
            (Place::Overwritten(slot), _) => self.kept_bytes + u64::from(slot) * self.stride_bytes(),
            (Place::Renamed, _) => 0,
        }
    }

    /// The last record up to a number that was written to a place.
    pub fn last_write(&self, place: Place, up_to: u32) -> Option<u32> {
        let period = 4 * self.appends().max(SLOTS);
        let first = up_to.saturating_sub(period).max(1);
        (first..=up_to).rev().find(|number| self.place(*number) == place)
    }

    /// All places.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        let renamed = (!self.is_device()).then_some(Place::Renamed);
        let appended = (0..self.appends()).map(Place::Appended);
        (0..SLOTS).map(Place::Overwritten).chain(renamed).chain(appended)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn layouts() -> [Layout; 4] {
        let device = |bytes| Layout::of_device(bytes).unwrap();
        let half = Layout::of_second_half(320 << 20).unwrap();
        [Layout::of_file_system(), device(SIZE_BYTES_MIN), device(320 << 20), half]
    }

    #[test]
    fn each_place_is_written_to_and_no_two_overlap() {
        for layout in layouts() {
            let all: BTreeSet<Place> = layout.places().collect();
            let written: BTreeSet<Place> = (1..=8 * APPENDS_MAX).map(|number| layout.place(number)).collect();
            assert_eq!(written, all, "{layout:?}");
            if layout.is_device() {
                let ranges: BTreeSet<u64> = all.iter().map(|place| layout.offset_bytes(*place)).collect();
                assert_eq!(ranges.len(), all.len());
                assert!(ranges.iter().all(|offset| offset.is_multiple_of(RECORD_BYTES)));
                assert!(ranges.last().unwrap() + RECORD_BYTES <= layout.device_bytes.unwrap());
                assert!(*ranges.first().unwrap() >= layout.kept_bytes);
            }
        }
    }

    #[test]
    fn the_last_write_to_a_place_is_found() {
        for layout in layouts() {
            let mut last = std::collections::BTreeMap::new();
            for number in 1..=5 * APPENDS_MAX {
                last.insert(layout.place(number), number);
                for place in [layout.place(number), Place::Overwritten(3), Place::Appended(1)] {
                    assert_eq!(
                        layout.last_write(place, number),
                        last.get(&place).copied(),
                        "{place} {number}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_device_that_is_too_small_has_no_places() {
        assert_eq!(Layout::of_device(SIZE_BYTES_MIN - 1), None);
        assert_eq!(Layout::of_second_half(2 * SIZE_BYTES_MIN - 1), None);
    }
}
