//! The data of volumes: which blocks contain data, and which differ between snapshots. Most data are generated but
//! consistent. What workloads write into the files that stand for devices is added to them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The largest number of runs of blocks with data, for any size, which limits the reply to a metadata call.
const RUNS_MAX: u64 = 192;
/// The longest run, in blocks.
const RUN_BLOCKS_MAX: u64 = 4;
/// The largest number of recorded blocks that workloads have written.
const WRITTEN_MAX: usize = 4096;
/// The largest number of nested copies that are distinguished; older ones are merged with their copies.
const LAYERS_MAX: usize = 16;

/// The history of writes to a volume, or to a snapshot up to its creation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Content {
    /// The size for which the first data were generated.
    span_bytes: i64,
    layers: Vec<Layer>,
    /// The hash of each block that workloads have written; blocks have [`WRITTEN_BLOCK_BYTES`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    written: BTreeMap<u32, u64>,
}

/// The block size in which writes of workloads are recorded.
pub(crate) const WRITTEN_BLOCK_BYTES: usize = 4096;

/// The writes to one volume before it was copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    seed: u64,
    /// The number of rounds of writes; there is one before each snapshot.
    writes: u32,
}

/// A range of bytes that contains data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: i64,
    pub(crate) length: i64,
}

impl Content {
    pub(crate) fn new(seed: u64, span_bytes: i64) -> Self {
        Self { span_bytes, layers: vec![Layer { seed, writes: 0 }], written: BTreeMap::new() }
    }

    /// Returns a copy that is written independently.
    pub(crate) fn copy(&self, seed: u64) -> Self {
        let mut copy = self.clone();
        copy.layers.push(Layer { seed, writes: 0 });
        if copy.layers.len() > LAYERS_MAX {
            copy.layers.remove(1);
        }
        copy
    }

    /// Adds a round of writes.
    pub(crate) fn write(&mut self) {
        if let Some(newest) = self.layers.last_mut() {
            newest.writes = newest.writes.saturating_add(1);
        }
    }

    /// Records the hashes of blocks that workloads have written. Blocks beyond the limit are ignored.
    pub(crate) fn note_written(&mut self, blocks: impl IntoIterator<Item = (u32, u64)>) {
        for (number, hash) in blocks {
            if self.written.len() < WRITTEN_MAX || self.written.contains_key(&number) {
                self.written.insert(number, hash);
            }
        }
    }

    /// Returns the content without writes of workloads, for a defect.
    pub(crate) fn without_written(&self) -> Self {
        Self { written: BTreeMap::new(), ..self.clone() }
    }

    /// The ranges with data, in blocks of this size. With a base, only the ranges that differ from it.
    pub(crate) fn extents(&self, base: Option<&Content>, block_bytes: i64) -> Vec<Extent> {
        let blocks = u64::try_from(self.span_bytes / block_bytes).unwrap_or_default();
        let mut numbers = self.made_up(base, blocks);
        let noted = |number: &u32| base.and_then(|base| base.written.get(number));
        let changed = self.written.iter().filter(|(number, hash)| noted(number) != Some(*hash));
        let bytes = |number: &u32| u64::from(*number) * WRITTEN_BLOCK_BYTES as u64;
        numbers.extend(changed.map(|(number, _)| bytes(number) / block_bytes.unsigned_abs()));
        let mut extents = Vec::<Extent>::new();
        for number in numbers.range(..blocks) {
            let offset = *number as i64 * block_bytes;
            match extents.last_mut() {
                Some(last) if last.offset + last.length == offset => last.length += block_bytes,
                _ => extents.push(Extent { offset, length: block_bytes }),
            }
        }
        extents
    }

    /// The blocks with generated data, among the given number of blocks.
    fn made_up(&self, base: Option<&Content>, blocks: u64) -> BTreeSet<u64> {
        let stride = (blocks / RUNS_MAX).max(RUN_BLOCKS_MAX + 1);
        let mut numbers = BTreeSet::new();
        for run in 0..blocks.div_ceil(stride).min(RUNS_MAX) {
            let version = self.version(run);
            if version.is_none() || base.is_some_and(|base| base.version(run) == version) {
                continue;
            }
            let first = run * stride;
            let length = (1 + hash(&[0, run]) % RUN_BLOCKS_MAX).min(blocks - first);
            numbers.extend(first..first + length);
        }
        numbers
    }

    /// A value for the last write to a run; `None` if it was never written.
    fn version(&self, run: u64) -> Option<u64> {
        for layer in self.layers.iter().rev() {
            let touched = (1..=u64::from(layer.writes))
                .rev()
                .find(|write| hash(&[layer.seed, *write, run]).is_multiple_of(8));
            if let Some(write) = touched {
                return Some(hash(&[layer.seed, write]));
            }
        }
        let first = self.layers.first()?.seed;
        // The first run always contains data, so that no volume is without any.
        (run == 0 || hash(&[first, 0, run]).is_multiple_of(3)).then(|| hash(&[first, 0]))
    }
}

/// FNV-1a over words, with a final mix because its low bits are weak.
pub(crate) fn hash(words: &[u64]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

/// [`hash`] of a text.
pub(crate) fn hash_text(text: &str) -> u64 {
    let words: Vec<u64> = text.bytes().map(u64::from).collect();
    hash(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: i64 = 64 << 10;

    #[test]
    fn extents_rise_without_overlap_inside_the_volume() {
        for span in [BLOCK, 1 << 20, 1 << 30, 1 << 44, (1 << 30) + 511] {
            let extents = Content::new(7, span).extents(None, BLOCK);
            assert!(!extents.is_empty());
            assert!(extents.len() as u64 <= RUNS_MAX);
            assert!(extents.windows(2).all(|pair| pair[0].offset + pair[0].length <= pair[1].offset));
            assert!(extents.iter().all(|extent| extent.length > 0 && extent.offset + extent.length <= span));
        }
    }

    #[test]
    fn written_blocks_are_in_the_extents() {
        let mut volume = Content::new(7, 1 << 30);
        let before = volume.clone();
        let (near_the_end, beyond) = ((1 << 18) - 1, 1 << 18);
        volume.note_written([(near_the_end, 1), (beyond, 1)]);
        let last = Extent { offset: (1 << 30) - BLOCK, length: BLOCK };
        assert_eq!(volume.extents(Some(&before), BLOCK), [last]);
        assert_eq!(volume.extents(None, BLOCK).last(), Some(&last));
        let first = volume.clone();
        volume.note_written([(near_the_end, 1)]);
        assert_eq!(volume.extents(Some(&first), BLOCK), []);
        volume.note_written([(near_the_end, 2)]);
        assert_eq!(volume.extents(Some(&first), BLOCK), [last]);
    }

    #[test]
    fn only_what_was_written_differs() {
        let mut volume = Content::new(7, 1 << 30);
        let before = volume.clone();
        assert_eq!(volume.extents(Some(&before), BLOCK), []);
        volume.write();
        let changed = volume.extents(Some(&before), BLOCK);
        assert!(!changed.is_empty());
        let all = volume.extents(None, BLOCK);
        assert!(changed.iter().all(|extent| all.contains(extent)) && changed.len() < all.len());
        assert_eq!(volume.copy(9).extents(Some(&volume), BLOCK), []);
    }
}
