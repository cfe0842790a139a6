//! ext4 and ext3, through e2fsprogs.

use std::path::Path;

use super::TOOL_LIMIT;
use crate::error::{DriverError, Result};
use crate::privilege::{CAP_SYS_RESOURCE, has_capability};
use crate::tool::run;

/// The smallest size at which mkfs still creates a journal.
pub(super) const SIZE_BYTES_MIN: u64 = 1 << 20;
/// The offset of the magic number in the superblock.
pub(super) const MAGIC_OFFSET: u64 = 1080;
pub(super) const MAGIC: [u8; 2] = [0x53, 0xef];

/// The offset of two feature masks in the superblock: the compatible features, which an old kernel may ignore, and
/// the incompatible ones.
pub(super) const FEATURES_OFFSET: u64 = 1116;
pub(super) const FEATURES_LENGTH: usize = 8;
const HAS_JOURNAL: u32 = 0x4;
const EXTENTS: u32 = 0x40;

/// Returns whether a file system is ext3, which has a journal but no extents.
pub(super) fn is_ext3(features: [u8; FEATURES_LENGTH]) -> bool {
    let [a, b, c, d, e, f, g, h] = features;
    let (compatible, incompatible) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    compatible & HAS_JOURNAL != 0 && incompatible & EXTENTS == 0
}

pub(super) fn format(tool: &'static str, device: &Path) -> Result<()> {
    let device = device.as_os_str();
    let options = ["-q", "-F", "-m", "0", "-E", "nodiscard"].map(AsRef::as_ref);
    Ok(run(tool, options.into_iter().chain([device]), &[0], TOOL_LIMIT)?)
}

/// Replays the journal and makes safe repairs. Exit code 1 means that something was repaired.
pub(super) fn check(device: &Path) -> Result<()> {
    Ok(run("e2fsck", ["-p".as_ref(), device.as_os_str()], &[0, 1], TOOL_LIMIT)?)
}

/// Grows an unmounted file system. resize2fs demands a full check first.
pub(super) fn grow_unmounted(device: &Path) -> Result<()> {
    run("e2fsck", ["-f".as_ref(), "-p".as_ref(), device.as_os_str()], &[0, 1], TOOL_LIMIT)?;
    Ok(run("resize2fs", [device], &[0], TOOL_LIMIT)?)
}

/// Grows a mounted file system, which needs CAP_SYS_RESOURCE.
pub(super) fn grow_mounted(device: &Path) -> Result<()> {
    if !has_capability(CAP_SYS_RESOURCE) {
        let reason = "growing it while mounted needs CAP_SYS_RESOURCE; it is grown when it is staged next";
        return Err(DriverError::precondition("an ext4 file system", reason));
    }
    Ok(run("resize2fs", [device], &[0], TOOL_LIMIT)?)
}
