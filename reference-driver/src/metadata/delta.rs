//! GetMetadataDelta.

use std::fs::File;
use std::io;

use csi_proto::v1::{GetMetadataDeltaRequest, GetMetadataDeltaResponse};

use tokio::sync::mpsc;
use tonic::Status;

use super::{Layout, Sender, open_image, read_layout};
use crate::driver::{Driver, required};
use crate::error::DriverError;
use crate::extents::{CHUNK_BYTES, Extent, next_data_of_either, read_padded, shared_until};

#[derive(Debug)]
pub(crate) struct Delta {
    layout: Layout,
    base: File,
    target: File,
}

impl Delta {
    pub(crate) fn read(driver: &Driver, request: &GetMetadataDeltaRequest) -> Result<Delta, DriverError> {
        driver.require(driver.config.snapshot_metadata, "snapshot metadata")?;
        required("base_snapshot_id", &request.base_snapshot_id)?;
        required("target_snapshot_id", &request.target_snapshot_id)?;
        let (base_snapshot, base) = open_image(driver, "base_snapshot_id", &request.base_snapshot_id)?;
        let (snapshot, target) = open_image(driver, "target_snapshot_id", &request.target_snapshot_id)?;
        if base_snapshot.source_volume_id != snapshot.source_volume_id {
            return Err(DriverError::invalid("base_snapshot_id", "the snapshots are of different volumes"));
        }
        let layout = read_layout(driver, snapshot.size_bytes, request.starting_offset, request.max_results)?;
        Ok(Delta { layout, base, target })
    }

    /// Sends every range that differs; stops early when the peer goes away.
    pub(crate) fn run(self, to: mpsc::Sender<Result<GetMetadataDeltaResponse, Status>>) -> io::Result<()> {
        let mut sender = Sender::new(self.layout, to);
        let mut compare = Compare::new(self.layout.block_bytes);
        let mut offset = self.layout.start;
        while let Some(extent) = next_data_of_either(&self.base, &self.target, offset)? {
            let end = extent.end.min(self.layout.capacity_bytes);
            offset = extent.start.max(offset);
            offset -= offset % self.layout.block_bytes;
            while offset < end {
                let shared = shared_until(&self.base, &self.target, offset).min(end);
                let whole_blocks = shared - shared % self.layout.block_bytes;
                if whole_blocks > offset {
                    offset = whole_blocks;
                    continue;
                }
                let chunk = Extent { start: offset, end: end.min(offset + CHUNK_BYTES as u64) };
                if compare.send_differences(&self.base, &self.target, chunk, &mut sender)? {
                    return Ok(());
                }
                offset = chunk.end;
            }
            if extent.end >= self.layout.capacity_bytes {
                break;
            }
            offset = extent.end;
        }
        let _ = sender.finish();
        Ok(())
    }
}

/// Compares two files block by block, with reused buffers.
struct Compare {
    block_bytes: usize,
    base: Vec<u8>,
    target: Vec<u8>,
}

impl Compare {
    fn new(block_bytes: u64) -> Compare {
        let block_bytes = usize::try_from(block_bytes).unwrap_or(CHUNK_BYTES);
        Compare { block_bytes, base: vec![0; CHUNK_BYTES], target: vec![0; CHUNK_BYTES] }
    }

    /// Sends the blocks of a chunk that differ; returns whether the peer has gone away.
    fn send_differences(
        &mut self,
        base: &File,
        target: &File,
        chunk: Extent,
        sender: &mut Sender<GetMetadataDeltaResponse>,
    ) -> io::Result<bool> {
        let length = usize::try_from(chunk.end - chunk.start).unwrap_or(CHUNK_BYTES);
        read_padded(base, &mut self.base[..length], chunk.start)?;
        read_padded(target, &mut self.target[..length], chunk.start)?;
        let blocks =
            self.base[..length].chunks(self.block_bytes).zip(self.target[..length].chunks(self.block_bytes));
        let mut start = chunk.start;
        for (before, after) in blocks {
            let end = start + before.len() as u64;
            if before != after && sender.add(Extent { start, end }).is_err() {
                return Ok(true);
            }
            start = end;
        }
        Ok(false)
    }
}
