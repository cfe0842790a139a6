//! XFS, through xfsprogs.

use std::path::Path;

use super::TOOL_LIMIT;
use crate::error::Result;
use crate::tool::run;

/// The smallest size that mkfs.xfs accepts.
pub(super) const SIZE_BYTES_MIN: u64 = 300 << 20;
pub(super) const MAGIC: &[u8] = b"XFSB";

pub(super) fn format(device: &Path) -> Result<()> {
    Ok(run("mkfs.xfs", ["-q".as_ref(), "-f".as_ref(), "-K".as_ref(), device.as_os_str()], &[0], TOOL_LIMIT)?)
}

/// Repairs without discarding the log, so that no written data are lost.
pub(super) fn repair(device: &Path) -> Result<()> {
    Ok(run("xfs_repair", [device], &[0], TOOL_LIMIT)?)
}

pub(super) fn grow(mount_point: &Path) -> Result<()> {
    Ok(run("xfs_growfs", ["-d".as_ref(), mount_point.as_os_str()], &[0], TOOL_LIMIT)?)
}
