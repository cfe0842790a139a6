//! The SnapshotMetadata service. It describes which blocks of a snapshot contain data, and which have changed between
//! two snapshots.
//!
//! A request is checked immediately. Its own thread then finds the blocks; it stays a few messages ahead of the peer,
//! and stops when the peer goes away. The memory needed does not depend on the size of the snapshot.

mod sender;

use std::fs::File;
use std::io;

use csi_proto::v1::{
    GetMetadataAllocatedRequest, GetMetadataAllocatedResponse, GetMetadataDeltaRequest,
    GetMetadataDeltaResponse,
};
use tokio::sync::mpsc;
use tonic::Status;

use crate::driver::{Driver, required};
use crate::error::{DriverError, IoContext, Result};
use crate::extents::{CHUNK_BYTES, Extent, next_data, next_data_of_either, read_padded, shared_until};
use crate::store::Snapshot;
use sender::{Layout, Sender};

/// The block size if the size of the volume is a multiple of it.
const BLOCK_BYTES: u64 = 4096;
/// The block size of other volumes.
const SECTOR_BYTES: u64 = 512;

fn open_image(driver: &Driver, field: &'static str, id: &str) -> Result<(Snapshot, File)> {
    let snapshot = driver.snapshot(&driver.store.view()?, field, id)?;
    if !snapshot.backend.get().is_file() {
        let reason = "the snapshot is of a directory and has no blocks";
        return Err(DriverError::precondition(snapshot.key.to_string(), reason));
    }
    let path = driver.layout.snapshot(&snapshot.key);
    let file = File::open(&path).on("open", &path)?;
    Ok((snapshot, file))
}

/// Checks offset and count of a request, and chooses how blocks are described (META-ALLOC-019).
fn read_layout(
    driver: &Driver,
    capacity_bytes: u64,
    starting_offset: i64,
    max_results: i32,
) -> Result<Layout> {
    let outside = || DriverError::out_of_range("starting_offset lies outside the volume");
    let start = u64::try_from(starting_offset).map_err(|_| outside())?;
    if start >= capacity_bytes {
        return Err(outside());
    }
    let asked = usize::try_from(max_results);
    let asked = asked.map_err(|_| DriverError::invalid("max_results", "it is negative"))?;
    let block_bytes = if capacity_bytes.is_multiple_of(BLOCK_BYTES) { BLOCK_BYTES } else { SECTOR_BYTES };
    Ok(Layout {
        capacity_bytes,
        block_bytes,
        fixed: driver.config.fixed_length_blocks,
        start: start - start % block_bytes,
        tuples_max: if asked == 0 { sender::TUPLES_MAX } else { asked.min(sender::TUPLES_MAX) },
    })
}

#[derive(Debug)]
pub(crate) struct Allocated {
    layout: Layout,
    image: File,
}

impl Allocated {
    pub(crate) fn read(driver: &Driver, request: &GetMetadataAllocatedRequest) -> Result<Allocated> {
        driver.require(driver.config.snapshot_metadata, "snapshot metadata")?;
        required("snapshot_id", &request.snapshot_id)?;
        let (snapshot, image) = open_image(driver, "snapshot_id", &request.snapshot_id)?;
        let layout = read_layout(driver, snapshot.size_bytes, request.starting_offset, request.max_results)?;
        Ok(Allocated { layout, image })
    }

    /// Sends every range that contains data; stops early when the peer goes away.
    pub(crate) fn run(
        self,
        to: mpsc::Sender<Result<GetMetadataAllocatedResponse, Status>>,
    ) -> io::Result<()> {
        let mut sender = Sender::new(self.layout, to);
        let mut offset = self.layout.start;
        while let Some(extent) = next_data(&self.image, offset)? {
            if sender.add(extent).is_err() {
                return Ok(());
            }
            offset = extent.end;
        }
        let _ = sender.finish();
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Delta {
    layout: Layout,
    base: File,
    target: File,
}

impl Delta {
    pub(crate) fn read(driver: &Driver, request: &GetMetadataDeltaRequest) -> Result<Delta> {
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
