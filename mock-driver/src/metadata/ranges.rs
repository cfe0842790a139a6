//! Block metadata cut into tuples and messages.

use csi_proto::v1::{BlockMetadata, BlockMetadataType};
use tonic::Status;

use super::Message;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{Extent, Snapshot};

/// Tuples in a message if the caller leaves the number open.
const TUPLES_DEFAULT: usize = 64;
/// Tuples in a message where the quirk sends fewer than asked.
const TUPLES_FEW: usize = 3;

/// What a metadata call asks for.
pub(super) struct Asked<'a> {
    pub(super) starting_offset: i64,
    pub(super) max_results: usize,
    pub(super) snapshot: &'a Snapshot,
    /// Only what differs from this one.
    pub(super) base: Option<&'a Snapshot>,
}

/// The messages of the stream.
pub(super) fn messages(driver: &MockDriver, asked: &Asked<'_>) -> Result<Vec<Message>, Status> {
    let capacity = asked.snapshot.size_bytes;
    let beyond = asked.starting_offset < 0 || asked.starting_offset > capacity;
    if beyond && !driver.has(Defect::GetMetadataAcceptsAnyOffset) {
        return Err(match driver.has(Defect::GetMetadataOffsetAsInternal) {
            true => Status::internal("seek failed"),
            false => Status::out_of_range(format!(
                "starting_offset {} is not in 0 to {capacity}",
                asked.starting_offset
            )),
        });
    }
    let mut style = match driver.is(Quirk::VariableLengthMetadata) {
        true => BlockMetadataType::VariableLength,
        false => BlockMetadataType::FixedLength,
    };
    let block_bytes = driver.config.metadata_block_bytes;
    let base = asked.base.map(|base| &base.content);
    let extents = asked.snapshot.content.extents(base, block_bytes);
    let unit = (style == BlockMetadataType::FixedLength).then_some(block_bytes);
    let mut tuples = tuples(&extents, unit);
    spoil_tuples(driver, &mut tuples, asked.starting_offset);
    if !driver.has(Defect::GetMetadataIgnoresOffset) {
        tuples.retain(|tuple| tuple.byte_offset + tuple.size_bytes > asked.starting_offset);
    }
    if driver.has(Defect::GetMetadataTypeUnknown) {
        style = BlockMetadataType::Unknown;
    }
    let most = if driver.is(Quirk::FewerMetadataThanAsked) { TUPLES_FEW } else { TUPLES_DEFAULT };
    let length = match asked.max_results {
        0 => most,
        _ if driver.has(Defect::GetMetadataIgnoresMaxResults) => most,
        asked => asked.min(most),
    };
    let mut messages: Vec<Message> =
        tuples.chunks(length).map(|chunk| (style, capacity, chunk.to_vec())).collect();
    if driver.is(Quirk::EmptyMetadataMessages) {
        messages =
            messages.into_iter().flat_map(|message| [(style, capacity, Vec::new()), message]).collect();
    }
    spoil_messages(driver, &mut messages);
    Ok(messages)
}

/// Extents as they are, or cut into blocks of one size.
fn tuples(extents: &[Extent], unit: Option<i64>) -> Vec<BlockMetadata> {
    let tuple = |byte_offset, size_bytes| BlockMetadata { byte_offset, size_bytes };
    let Some(unit) = unit else {
        return extents.iter().map(|extent| tuple(extent.offset, extent.length)).collect();
    };
    let blocks = |extent: &Extent| {
        let first = extent.offset;
        (0..extent.length / unit).map(move |block| tuple(first + block * unit, unit))
    };
    extents.iter().flat_map(blocks).collect()
}

fn spoil_tuples(driver: &MockDriver, tuples: &mut Vec<BlockMetadata>, starting_offset: i64) {
    if driver.has(Defect::GetMetadataUnordered) {
        tuples.reverse();
    }
    if driver.has(Defect::GetMetadataOverlaps)
        && let Some(first) = tuples.first().copied()
    {
        tuples.insert(1, BlockMetadata { byte_offset: first.byte_offset + 1, ..first });
    }
    if driver.has(Defect::GetMetadataEmptyRanges) {
        tuples.iter_mut().for_each(|tuple| tuple.size_bytes = 0);
    }
    if driver.has(Defect::GetMetadataSizesVary)
        && let Some(first) = tuples.first_mut()
    {
        first.size_bytes /= 2;
    }
    if driver.has(Defect::GetMetadataResumeSkipsBlock) && starting_offset > 0 {
        tuples.retain(|tuple| tuple.byte_offset > starting_offset);
    }
}

fn spoil_messages(driver: &MockDriver, messages: &mut Vec<Message>) {
    if driver.has(Defect::GetMetadataEndsEarly) {
        messages.truncate(1);
    }
    if driver.has(Defect::GetMetadataTypeChanges) {
        messages.iter_mut().skip(1).for_each(|message| message.0 = BlockMetadataType::VariableLength);
    }
    if driver.has(Defect::GetMetadataCapacityChanges) {
        messages.iter_mut().skip(1).for_each(|message| message.1 += 4096);
    }
    if driver.has(Defect::GetMetadataCapacityZero) {
        messages.iter_mut().for_each(|message| message.1 = 0);
    }
}
