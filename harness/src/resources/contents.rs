//! The data that workloads write into volumes. Each block states its volume, its write and its place in the write, so
//! that a reader can say who wrote the data, how old it is, and how it was damaged.

use std::fmt;

/// Bytes of a block: what the smallest devices write at once.
pub const BLOCK_BYTES: usize = 512;
/// The bytes at the beginning of each block, by which blocks are recognised.
const MARK: &[u8; 12] = b"csi-sanity: ";
/// Bytes of the name of a writer that are kept.
const WRITER_BYTES_MAX: usize = 128;
/// The offset of the checksum over all bytes before it.
const SUM_AT: usize = BLOCK_BYTES - 8;

/// Identifies a write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Distinguishes writers whose volumes may have equal names.
    pub run: u64,
    /// The volume.
    pub volume: String,
    /// The number of the write.
    pub number: u32,
}

/// The content of a place of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// All of a write.
    Write(Stamp),
    /// Nothing: no file, or zeros alone.
    Empty,
    /// A write that ends after this many bytes.
    Cut(Stamp, usize),
    /// A write in which this many bytes are zeros.
    Holes(Stamp, usize),
    /// A write this many bytes before or behind its place.
    Shifted(Stamp, i64),
    /// Parts of two writes.
    Mixed(Stamp, Stamp),
    /// A write with other bytes in it.
    Damaged(Stamp),
    /// Nothing that a workload of these tests has written.
    Strange,
}

impl Found {
    /// The number of the write that is there whole.
    pub fn number(&self) -> Option<u32> {
        match self {
            Found::Write(stamp) => Some(stamp.number),
            _ => None,
        }
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "write {} of volume {}", self.number, self.volume)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Write(stamp) => stamp.fmt(f),
            Found::Empty => f.write_str("nothing"),
            Found::Cut(stamp, bytes) => write!(f, "{stamp}, of which only the first {bytes} bytes exist"),
            Found::Holes(stamp, bytes) => write!(f, "{stamp}, of which {bytes} bytes are zeros"),
            Found::Shifted(stamp, bytes) => write!(f, "{stamp}, moved by {bytes} bytes"),
            Found::Mixed(one, other) => write!(f, "parts of {one} and of {other}"),
            Found::Damaged(stamp) => write!(f, "{stamp}, with other bytes in it"),
            Found::Strange => f.write_str("bytes that no workload of these tests has written"),
        }
    }
}

/// A block of a write, and where it stands in the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    stamp: Stamp,
    at_bytes: u64,
    is_whole: bool,
}

/// So many blocks of a write into the place that begins at an offset.
pub fn bytes(stamp: &Stamp, offset: u64, blocks: usize) -> Vec<u8> {
    let at = |nth: usize| offset.saturating_add((nth * BLOCK_BYTES) as u64);
    (0..blocks).flat_map(|nth| block(stamp, at(nth))).collect()
}

fn block(stamp: &Stamp, at_bytes: u64) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    let volume = kept(&stamp.volume);
    let numbers = [&stamp.run.to_le_bytes()[..], &at_bytes.to_le_bytes(), &stamp.number.to_le_bytes()];
    let length = [volume.len() as u8];
    let head = [&MARK[..], &numbers.concat(), &length, volume.as_bytes()].concat();
    block[..head.len()].copy_from_slice(&head);
    let mut state = stamp.run ^ at_bytes ^ u64::from(stamp.number);
    for byte in &mut block[head.len()..SUM_AT] {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (state >> 56) as u8;
    }
    let sum = sum(&block[..SUM_AT]);
    block[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
    block
}

/// The part of a name that fits into a block.
fn kept(volume: &str) -> &str {
    let mut end = volume.len().min(WRITER_BYTES_MAX);
    while !volume.is_char_boundary(end) {
        end -= 1;
    }
    &volume[..end]
}

/// The FNV-1a checksum.
fn sum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Block {
    fn read(bytes: &[u8]) -> Option<Block> {
        let rest = bytes.strip_prefix(MARK)?;
        let (run, rest) = rest.split_first_chunk()?;
        let (at_bytes, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first()?;
        let volume = String::from_utf8_lossy(rest.get(..usize::from(*length))?).into_owned();
        let is_whole = bytes.get(SUM_AT..).is_some_and(|end| *end == sum(&bytes[..SUM_AT]).to_le_bytes());
        let stamp = Stamp { run: u64::from_le_bytes(*run), volume, number: u32::from_le_bytes(*number) };
        Some(Block { stamp, at_bytes: u64::from_le_bytes(*at_bytes), is_whole })
    }
}

/// Recognises the bytes that were read from an offset at which this many blocks were written.
pub fn found(bytes: &[u8], offset: u64, written: usize) -> Found {
    if bytes.iter().all(|byte| *byte == 0) {
        return Found::Empty;
    }
    let blocks: Vec<(usize, Block)> = bytes
        .chunks(BLOCK_BYTES)
        .enumerate()
        .filter_map(|(nth, bytes)| Some((nth, Block::read(bytes)?)))
        .collect();
    // If the beginning is lost, the blocks may not be aligned to their size.
    let Some((nth, first)) = blocks.first() else { return unaligned(bytes, offset) };
    if let Some((_, other)) = blocks.iter().find(|(_, block)| block.stamp != first.stamp) {
        return Found::Mixed(first.stamp.clone(), other.stamp.clone());
    }
    let stands_at = offset.saturating_add((nth * BLOCK_BYTES) as u64);
    if first.at_bytes != stands_at {
        return Found::Shifted(first.stamp.clone(), stands_at.wrapping_sub(first.at_bytes).cast_signed());
    }
    let whole = blocks.iter().filter(|(_, block)| block.is_whole).count();
    let zeros = bytes.chunks(BLOCK_BYTES).filter(|block| block.iter().all(|byte| *byte == 0)).count();
    match () {
        () if whole == written => Found::Write(first.stamp.clone()),
        () if bytes.len() < written * BLOCK_BYTES && whole == bytes.len() / BLOCK_BYTES => {
            Found::Cut(first.stamp.clone(), bytes.len())
        }
        () if whole + zeros == written => Found::Holes(first.stamp.clone(), zeros * BLOCK_BYTES),
        () => Found::Damaged(first.stamp.clone()),
    }
}

fn unaligned(bytes: &[u8], offset: u64) -> Found {
    let mark = bytes.windows(MARK.len()).position(|window| window == MARK);
    match mark.and_then(|at| Some((at, Block::read(&bytes[at..])?))) {
        Some((at, Block { stamp, at_bytes, .. })) => {
            let stands_at = offset.saturating_add(at as u64);
            Found::Shifted(stamp, stands_at.wrapping_sub(at_bytes).cast_signed())
        }
        None => Found::Strange,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSET: u64 = 64 << 10;
    const BLOCKS: usize = 16;
    const WRITE_BYTES: usize = BLOCKS * BLOCK_BYTES;

    fn stamp(number: u32) -> Stamp {
        Stamp { run: 7, volume: "v1".to_owned(), number }
    }

    #[test]
    fn what_has_become_of_a_write_is_recognised() {
        let (one, two) = (bytes(&stamp(1), OFFSET, BLOCKS), bytes(&stamp(2), OFFSET, BLOCKS));
        assert_eq!(found(&one, OFFSET, BLOCKS), Found::Write(stamp(1)));
        assert_eq!(found(&[], OFFSET, BLOCKS), Found::Empty);
        assert_eq!(found(&[0; WRITE_BYTES], OFFSET, BLOCKS), Found::Empty);
        assert_eq!(found(&one[..1024], OFFSET, BLOCKS), Found::Cut(stamp(1), 1024));
        assert_eq!(found(&one, 0, BLOCKS), Found::Shifted(stamp(1), -65_536));
        assert_eq!(found(&[&one[512..], &[0; 512]].concat(), OFFSET, BLOCKS), Found::Shifted(stamp(1), -512));
        assert_eq!(
            found(&[&[0; 100], &one[..WRITE_BYTES - 100]].concat(), OFFSET, BLOCKS),
            Found::Shifted(stamp(1), 100)
        );
        assert_eq!(
            found(&[&one[..4096], &two[4096..]].concat(), OFFSET, BLOCKS),
            Found::Mixed(stamp(1), stamp(2))
        );
        assert_eq!(found(&[&one[..4096], &[0; 4096]].concat(), OFFSET, BLOCKS), Found::Holes(stamp(1), 4096));
        assert_eq!(found(&[1; WRITE_BYTES], OFFSET, BLOCKS), Found::Strange);
        let mut damaged = one;
        damaged[1000] ^= 1;
        assert_eq!(found(&damaged, OFFSET, BLOCKS), Found::Damaged(stamp(1)));
    }

    #[test]
    fn any_bytes_are_something_and_long_names_are_cut() {
        let long = Stamp { volume: "é".repeat(200), ..stamp(1) };
        let kept = Stamp { volume: "é".repeat(64), ..stamp(1) };
        assert_eq!(found(&bytes(&long, 0, BLOCKS), 0, BLOCKS), Found::Write(kept));
        for length in 0..100 {
            let head = &bytes(&long, 0, BLOCKS)[..length];
            found(head, 0, BLOCKS);
            found(&[head, &[255; 40]].concat(), u64::MAX, BLOCKS);
        }
    }
}
