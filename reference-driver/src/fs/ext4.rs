//! ext4, through e2fsprogs.

use std::path::Path;

use super::TOOL_LIMIT;
use crate::error::Result;
use crate::tool::run;

/// The smallest file system that still has a journal, in bytes.
pub(super) const SIZE_BYTES_MIN: u64 = 1 << 20;
/// Where the magic number of the superblock is.
pub(super) const MAGIC_OFFSET: u64 = 1080;
pub(super) const MAGIC: [u8; 2] = [0x53, 0xef];

pub(super) fn format(device: &Path) -> Result<()> {
    let device = device.as_os_str();
    let options = ["-q", "-F", "-m", "0", "-E", "nodiscard"].map(AsRef::as_ref);
    Ok(run("mkfs.ext4", options.into_iter().chain([device]), &[0], TOOL_LIMIT)?)
}

/// Replays the journal and repairs what is safe to repair; 1 says that something was.
pub(super) fn check(device: &Path) -> Result<()> {
    Ok(run("e2fsck", ["-p".as_ref(), device.as_os_str()], &[0, 1], TOOL_LIMIT)?)
}

pub(super) fn grow(device: &Path) -> Result<()> {
    Ok(run("resize2fs", [device], &[0], TOOL_LIMIT)?)
}
