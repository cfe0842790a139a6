//! The SnapshotMetadata service. It describes which blocks of a snapshot contain data, and which have changed between
//! two snapshots.
//!
//! A request is checked immediately. Its own thread then finds the blocks; it stays a few messages ahead of the peer,
//! and stops when the peer goes away. The memory needed does not depend on the size of the snapshot.

mod allocated;
mod delta;
mod sender;

use std::fs::File;

use crate::driver::Driver;
use crate::error::{DriverError, IoContext, Result};
use crate::store::Snapshot;

pub(crate) use allocated::Allocated;
pub(crate) use delta::Delta;
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
