//! Btrfs, through btrfs-progs.

use std::path::Path;

use super::TOOL_LIMIT;
use crate::error::Result;
use crate::tool::{ToolError, run};

/// The smallest device for mkfs.btrfs with one copy of data and metadata, rounded up.
pub(super) const SIZE_BYTES_MIN: u64 = 128 << 20;
pub(super) const MAGIC_OFFSET: u64 = 65_600;
pub(super) const MAGIC: &[u8] = b"_BHRfS_M";

/// mkfs.btrfs reads every loop device that is mounted anywhere, and fails if one of another program is detached while
/// it does.
const FORMAT_TRIES_MAX: usize = 5;
const OTHERS_DETACHED: &str = "cannot check mount status";

pub(super) fn format(device: &Path) -> Result<()> {
    let options = ["-q", "-f", "-K", "-m", "single", "-d", "single"].map(AsRef::as_ref);
    let format = || run("mkfs.btrfs", options.into_iter().chain([device.as_os_str()]), &[0], TOOL_LIMIT);
    for _ in 1..FORMAT_TRIES_MAX {
        match format() {
            Err(ToolError::Failed { output, .. }) if output.contains(OTHERS_DETACHED) => {}
            ended => return Ok(ended?),
        }
    }
    Ok(format()?)
}

/// Changes the UUID, because the kernel does not mount two file systems with the same one.
pub(super) fn make_unique(device: &Path) -> Result<()> {
    Ok(run("btrfstune", ["-f".as_ref(), "-m".as_ref(), device.as_os_str()], &[0], TOOL_LIMIT)?)
}

pub(super) fn grow(mount_point: &Path) -> Result<()> {
    let command = ["filesystem", "resize", "max"].map(AsRef::as_ref);
    Ok(run("btrfs", command.into_iter().chain([mount_point.as_os_str()]), &[0], TOOL_LIMIT)?)
}
