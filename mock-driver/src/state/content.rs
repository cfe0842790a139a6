//! What is written on a volume, made up but consistent: which blocks hold data, and which differ between snapshots.

use serde::{Deserialize, Serialize};

/// Runs of blocks that can hold data, whatever the size; bounds the answer to one metadata call.
const RUNS_MAX: u64 = 192;
/// Longest run, in blocks.
const RUN_BLOCKS_MAX: u64 = 4;
/// Copies of copies that are told apart; beyond, the oldest are merged with their copies.
const LAYERS_MAX: usize = 16;

/// The history of writes to a volume, or to a snapshot up to the moment it was cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Content {
    /// Size for which the first data were laid out.
    span_bytes: i64,
    layers: Vec<Layer>,
}

/// Writes to one volume, before it was copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    seed: u64,
    /// Rounds of writes; one happens before each snapshot.
    writes: u32,
}

/// A range of bytes that holds data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: i64,
    pub(crate) length: i64,
}

impl Content {
    pub(crate) fn new(seed: u64, span_bytes: i64) -> Self {
        Self { span_bytes, layers: vec![Layer { seed, writes: 0 }] }
    }

    /// A copy that is written to independently.
    pub(crate) fn copy(&self, seed: u64) -> Self {
        let mut copy = self.clone();
        copy.layers.push(Layer { seed, writes: 0 });
        if copy.layers.len() > LAYERS_MAX {
            copy.layers.remove(1);
        }
        copy
    }

    /// One more round of writes.
    pub(crate) fn write(&mut self) {
        if let Some(newest) = self.layers.last_mut() {
            newest.writes = newest.writes.saturating_add(1);
        }
    }

    /// Where data are, in blocks of this size; with a base only where they differ from it.
    pub(crate) fn extents(&self, base: Option<&Content>, block_bytes: i64) -> Vec<Extent> {
        let blocks = u64::try_from(self.span_bytes / block_bytes).unwrap_or_default();
        let stride = (blocks / RUNS_MAX).max(RUN_BLOCKS_MAX + 1);
        let mut extents = Vec::new();
        for run in 0..blocks.div_ceil(stride).min(RUNS_MAX) {
            let version = self.version(run);
            if version.is_none() || base.is_some_and(|base| base.version(run) == version) {
                continue;
            }
            let first = run * stride;
            let length = (1 + hash(&[0, run]) % RUN_BLOCKS_MAX).min(blocks - first);
            extents.push(Extent { offset: first as i64 * block_bytes, length: length as i64 * block_bytes });
        }
        extents
    }

    /// What the last write to a run left there; none if there never was one.
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
        // The first run always holds data, so that no volume is without any.
        (run == 0 || hash(&[first, 0, run]).is_multiple_of(3)).then(|| hash(&[first, 0]))
    }
}

/// FNV-1a over words, with a final mix since FNV's low bits are weak.
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
