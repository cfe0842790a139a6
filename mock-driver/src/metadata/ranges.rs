//! Splits block metadata into tuples and messages.

use csi_proto::v1::{BlockMetadata, BlockMetadataType};
use tonic::Status;

use super::Message;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{Extent, Snapshot};

/// The number of tuples in a message if the request names none.
const TUPLES_DEFAULT: usize = 64;
/// The number of tuples in a message with the quirk that sends fewer than requested.
const TUPLES_FEW: usize = 3;

/// The common fields of both metadata requests.
pub(super) struct Query<'a> {
    pub(super) starting_offset: i64,
    pub(super) max_results: usize,
    pub(super) snapshot: &'a Snapshot,
    /// If set, only blocks that differ from this snapshot are reported.
    pub(super) base: Option<&'a Snapshot>,
}

pub(super) fn messages(driver: &MockDriver, asked: &Query<'_>) -> Result<Vec<Message>, Status> {
    let capacity = asked.snapshot.size_bytes;
    if asked.starting_offset < 0 || asked.starting_offset > capacity {
        let message = format!("starting_offset {} is not in 0 to {capacity}", asked.starting_offset);
        return Err(Status::out_of_range(message));
    }
    let style = match driver.is(Quirk::VariableLengthMetadata) {
        true => BlockMetadataType::VariableLength,
        false => BlockMetadataType::FixedLength,
    };
    let block_bytes = driver.config.metadata_block_bytes;
    let base = asked.base.map(|base| &base.content);
    let extents = asked.snapshot.content.extents(base, block_bytes);
    let unit = (style == BlockMetadataType::FixedLength).then_some(block_bytes);
    let mut tuples = tuples(&extents, unit);
    tuples.retain(|tuple| tuple.byte_offset + tuple.size_bytes > asked.starting_offset);
    let most = if driver.is(Quirk::FewerMetadataThanAsked) { TUPLES_FEW } else { TUPLES_DEFAULT };
    let length = if asked.max_results == 0 { most } else { asked.max_results.min(most) };
    let message = |block_metadata| Message {
        block_metadata_type: style.into(),
        volume_capacity_bytes: capacity,
        block_metadata,
    };
    let messages = tuples.chunks(length).map(|chunk| message(chunk.to_vec()));
    Ok(match driver.is(Quirk::EmptyMetadataMessages) {
        true => messages.flat_map(|full| [message(Vec::new()), full]).collect(),
        false => messages.collect(),
    })
}

/// Converts extents to tuples, split into blocks of one size if there is a unit.
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
