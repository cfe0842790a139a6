//! Splits ranges into blocks, and blocks into messages.

use csi_proto::v1::{BlockMetadata, BlockMetadataType, GetMetadataAllocatedResponse};
use tokio::sync::mpsc;
use tonic::Status;

use crate::capacity_range::signed;
use crate::extents::Extent;

/// The largest number of blocks in one message.
pub(super) const TUPLES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) capacity_bytes: u64,
    pub(super) block_bytes: u64,
    /// True if each described block has this size.
    pub(super) fixed: bool,
    /// The offset of the first described block; a multiple of the block size.
    pub(super) start: u64,
    pub(super) tuples_max: usize,
}

#[derive(Debug)]
pub(super) struct PeerGone;

/// Collects ranges in ascending order and sends them as messages of either stream, which have the same fields.
#[derive(Debug)]
pub(super) struct Sender<R> {
    layout: Layout,
    to: mpsc::Sender<Result<R, Status>>,
    open: Option<Extent>,
    blocks: Vec<BlockMetadata>,
}

impl<R: From<GetMetadataAllocatedResponse>> Sender<R> {
    pub(super) fn new(layout: Layout, to: mpsc::Sender<Result<R, Status>>) -> Sender<R> {
        Sender { layout, to, open: None, blocks: Vec::new() }
    }

    /// Adds a range, extended to whole blocks, and joined with the previous one if they touch.
    pub(super) fn add(&mut self, extent: Extent) -> Result<(), PeerGone> {
        let unit = self.layout.block_bytes;
        let start = (extent.start - extent.start % unit).max(self.layout.start);
        let end = extent.end.next_multiple_of(unit).min(self.layout.capacity_bytes);
        if start >= end {
            return Ok(());
        }
        match &mut self.open {
            Some(open) if start <= open.end => {
                open.end = open.end.max(end);
                Ok(())
            }
            _ => {
                let before = self.open.replace(Extent { start, end });
                before.map_or(Ok(()), |before| self.describe(before))
            }
        }
    }

    /// Sends the rest. A stream has at least one message, so that the peer learns the capacity.
    pub(super) fn finish(mut self) -> Result<(), PeerGone> {
        if let Some(last) = self.open.take() {
            self.describe(last)?;
        }
        self.send()
    }

    fn describe(&mut self, extent: Extent) -> Result<(), PeerGone> {
        let step = if self.layout.fixed { self.layout.block_bytes } else { extent.end - extent.start };
        let mut offset = extent.start;
        while offset < extent.end {
            if self.blocks.len() == self.layout.tuples_max {
                self.send()?;
            }
            self.blocks.push(BlockMetadata { byte_offset: signed(offset), size_bytes: signed(step) });
            offset += step;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), PeerGone> {
        let kind = if self.layout.fixed {
            BlockMetadataType::FixedLength
        } else {
            BlockMetadataType::VariableLength
        };
        let message = GetMetadataAllocatedResponse {
            block_metadata_type: kind.into(),
            volume_capacity_bytes: signed(self.layout.capacity_bytes),
            block_metadata: std::mem::take(&mut self.blocks),
        };
        self.to.blocking_send(Ok(message.into())).map_err(|_| PeerGone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(layout: Layout, extents: &[(u64, u64)]) -> Vec<Vec<(i64, i64)>> {
        let (to, mut from) = mpsc::channel(100);
        let mut sender = Sender::<GetMetadataAllocatedResponse>::new(layout, to);
        for (start, end) in extents {
            sender.add(Extent { start: *start, end: *end }).unwrap();
        }
        sender.finish().unwrap();
        let mut messages = Vec::new();
        while let Ok(message) = from.try_recv() {
            let blocks = message.unwrap().block_metadata;
            messages.push(blocks.iter().map(|block| (block.byte_offset, block.size_bytes)).collect());
        }
        messages
    }

    const LAYOUT: Layout =
        Layout { capacity_bytes: 64, block_bytes: 8, fixed: true, start: 0, tuples_max: 2 };

    #[test]
    fn fixed_blocks_are_cut_into_messages() {
        assert_eq!(
            describe(LAYOUT, &[(1, 2), (7, 9), (30, 64)]),
            [vec![(0, 8), (8, 8)], vec![(24, 8), (32, 8)], vec![(40, 8), (48, 8)], vec![(56, 8)],]
        );
    }

    #[test]
    fn variable_ranges_are_joined_and_begin_at_the_start() {
        let layout = Layout { fixed: false, start: 16, ..LAYOUT };
        assert_eq!(describe(layout, &[(0, 24), (24, 30), (40, 41)]), [vec![(16, 16), (40, 8)]]);
        assert_eq!(describe(layout, &[]), [Vec::new()]);
    }
}
