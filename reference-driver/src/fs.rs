//! The file systems that an image can contain.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::SeekFrom;
use serde::{Deserialize, Serialize};

use crate::error::{IoContext, Result};

/// The time limit of a program that formats, checks or grows a file system.
const TOOL_LIMIT: Duration = Duration::from_secs(600);
const NO_OPTIONS: [&str; 0] = [];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FsType {
    Ext3,
    Ext4,
    Xfs,
    Btrfs,
}

impl fmt::Display for FsType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FsType {
    pub const ALL: [FsType; 4] = [FsType::Ext3, FsType::Ext4, FsType::Xfs, FsType::Btrfs];

    pub fn parse(name: &str) -> Option<FsType> {
        FsType::ALL.into_iter().find(|fs_type| fs_type.name() == name)
    }

    pub const fn name(self) -> &'static str {
        match self {
            FsType::Ext3 => "ext3",
            FsType::Ext4 => "ext4",
            FsType::Xfs => "xfs",
            FsType::Btrfs => "btrfs",
        }
    }

    /// The smallest device that can be formatted, in bytes.
    pub const fn size_bytes_min(self) -> u64 {
        match self {
            FsType::Ext3 | FsType::Ext4 => ext4::SIZE_BYTES_MIN,
            FsType::Xfs => xfs::SIZE_BYTES_MIN,
            FsType::Btrfs => btrfs::SIZE_BYTES_MIN,
        }
    }

    /// Mount options that allow a copy to be mounted beside its original.
    pub(crate) const fn mount_data(self) -> &'static str {
        match self {
            FsType::Ext3 | FsType::Ext4 | FsType::Btrfs => "",
            FsType::Xfs => "nouuid",
        }
    }

    /// Formats the device. The caller has made sure that it contains nothing of value.
    pub(crate) fn format(self, device: &Path) -> Result<()> {
        match self {
            FsType::Ext3 => ext4::format("mkfs.ext3", device),
            FsType::Ext4 => ext4::format("mkfs.ext4", device),
            FsType::Xfs => xfs::format(device),
            FsType::Btrfs => btrfs::format(device),
        }
    }

    /// Checks an unmounted file system and repairs everything that can be repaired without losing data.
    pub(crate) fn check(self, device: &Path) -> Result<()> {
        match self {
            FsType::Ext3 | FsType::Ext4 => ext4::check(device),
            FsType::Xfs | FsType::Btrfs => Ok(()), // Both check themselves when they are mounted, and their tools are not meant to run without a reason.
        }
    }

    /// Repairs a file system that the kernel did not mount.
    pub(crate) fn repair(self, device: &Path) -> Result<()> {
        match self {
            FsType::Ext3 | FsType::Ext4 => ext4::check(device),
            FsType::Xfs => xfs::repair(device),
            FsType::Btrfs => Ok(()),
        }
    }

    /// Gives an unmounted copy a new UUID, if the kernel would not mount it beside the original otherwise.
    pub(crate) fn make_unique(self, device: &Path) -> Result<()> {
        match self {
            FsType::Ext3 | FsType::Ext4 | FsType::Xfs => Ok(()),
            FsType::Btrfs => btrfs::make_unique(device),
        }
    }

    /// Grows an unmounted file system to the size of its device. Returns false if this type can only grow while
    /// mounted.
    pub(crate) fn grow_unmounted(self, device: &Path) -> Result<bool> {
        match self {
            FsType::Ext3 | FsType::Ext4 => ext4::grow_unmounted(device).map(|()| true),
            FsType::Xfs | FsType::Btrfs => Ok(false),
        }
    }

    /// Grows a mounted file system to the size of its device.
    pub(crate) fn grow_mounted(self, device: &Path, mount_point: &Path) -> Result<()> {
        match self {
            FsType::Ext3 | FsType::Ext4 => ext4::grow_mounted(device),
            FsType::Xfs => xfs::grow(mount_point),
            FsType::Btrfs => btrfs::grow(mount_point),
        }
    }
}

/// The content of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Blank,
    Fs(FsType),
    /// Unknown data, which must not be overwritten by formatting.
    Data,
}

/// The number of bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Determines the content of an image. A read error is reported and never taken for a blank image.
pub(crate) fn probe(path: &Path) -> Result<Content> {
    let image = File::open(path).on("open", path)?;
    let magic = |offset: u64, expected: &[u8]| -> Result<bool> {
        let mut found = vec![0; expected.len()];
        match image.read_exact_at(&mut found, offset) {
            Ok(()) => Ok(found == expected),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error).on("read", path),
        }
    };
    if magic(ext4::MAGIC_OFFSET, &ext4::MAGIC)? {
        let mut features = [0; ext4::FEATURES_LENGTH];
        image.read_exact_at(&mut features, ext4::FEATURES_OFFSET).on("read", path)?;
        let fs_type = if ext4::is_ext3(features) { FsType::Ext3 } else { FsType::Ext4 };
        return Ok(Content::Fs(fs_type));
    }
    if magic(0, xfs::MAGIC)? {
        return Ok(Content::Fs(FsType::Xfs));
    }
    if magic(btrfs::MAGIC_OFFSET, btrfs::MAGIC)? {
        return Ok(Content::Fs(FsType::Btrfs));
    }
    Ok(if is_blank(&image).on("read", path)? { Content::Blank } else { Content::Data })
}

/// Returns whether a file contains nothing but holes and zeros.
fn is_blank(file: &File) -> io::Result<bool> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        offset = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let count = file.read_at(&mut chunk, offset)?;
        if chunk[..count].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        if count == 0 {
            return Ok(true);
        }
        offset += count as u64;
    }
}

/// ext4 and ext3, through e2fsprogs.
mod ext4 {
    use std::path::Path;

    use rustix::thread::CapabilitySet;

    use super::{NO_OPTIONS, TOOL_LIMIT};
    use crate::error::{DriverError, Result};
    use crate::kernel::has_capability;
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
        Ok(run(tool, ["-q", "-F", "-m", "0", "-E", "nodiscard"], device, &[0], TOOL_LIMIT)?)
    }

    /// Replays the journal and makes safe repairs. Exit code 1 means that something was repaired.
    pub(super) fn check(device: &Path) -> Result<()> {
        Ok(run("e2fsck", ["-p"], device, &[0, 1], TOOL_LIMIT)?)
    }

    /// Grows an unmounted file system. resize2fs demands a full check first.
    pub(super) fn grow_unmounted(device: &Path) -> Result<()> {
        run("e2fsck", ["-f", "-p"], device, &[0, 1], TOOL_LIMIT)?;
        Ok(run("resize2fs", NO_OPTIONS, device, &[0], TOOL_LIMIT)?)
    }

    /// Grows a mounted file system, which needs CAP_SYS_RESOURCE.
    pub(super) fn grow_mounted(device: &Path) -> Result<()> {
        if !has_capability(CapabilitySet::SYS_RESOURCE) {
            let reason =
                "growing it while mounted needs CAP_SYS_RESOURCE; it is grown when it is staged next";
            return Err(DriverError::precondition("an ext4 file system", reason));
        }
        Ok(run("resize2fs", NO_OPTIONS, device, &[0], TOOL_LIMIT)?)
    }
}

/// XFS, through xfsprogs.
mod xfs {
    use std::path::Path;

    use super::{NO_OPTIONS, TOOL_LIMIT};
    use crate::error::Result;
    use crate::tool::run;

    /// The smallest size that mkfs.xfs accepts.
    pub(super) const SIZE_BYTES_MIN: u64 = 300 << 20;
    pub(super) const MAGIC: &[u8] = b"XFSB";

    pub(super) fn format(device: &Path) -> Result<()> {
        Ok(run("mkfs.xfs", ["-q", "-f", "-K"], device, &[0], TOOL_LIMIT)?)
    }

    /// Repairs without discarding the log, so that no written data are lost.
    pub(super) fn repair(device: &Path) -> Result<()> {
        Ok(run("xfs_repair", NO_OPTIONS, device, &[0], TOOL_LIMIT)?)
    }

    pub(super) fn grow(mount_point: &Path) -> Result<()> {
        Ok(run("xfs_growfs", ["-d"], mount_point, &[0], TOOL_LIMIT)?)
    }
}

/// Btrfs, through btrfs-progs.
mod btrfs {
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
        let options = ["-q", "-f", "-K", "-m", "single", "-d", "single"];
        let format = || run("mkfs.btrfs", options, device, &[0], TOOL_LIMIT);
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
        Ok(run("btrfstune", ["-f", "-m"], device, &[0], TOOL_LIMIT)?)
    }

    pub(super) fn grow(mount_point: &Path) -> Result<()> {
        Ok(run("btrfs", ["filesystem", "resize", "max"], mount_point, &[0], TOOL_LIMIT)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(bytes: &[u8], at: u64) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8 << 20).unwrap();
        file.as_file().write_all_at(bytes, at).unwrap();
        file
    }

    #[test]
    fn only_zeros_are_blank() {
        assert_eq!(probe(image(&[0; 4096], 1 << 20).path()).unwrap(), Content::Blank);
        assert_eq!(probe(image(&[1], 5 << 20).path()).unwrap(), Content::Data);
        assert_eq!(probe(image(b"XFSB", 0).path()).unwrap(), Content::Fs(FsType::Xfs));
        assert_eq!(probe(image(b"_BHRfS_M", 65_600).path()).unwrap(), Content::Fs(FsType::Btrfs));
        assert_eq!(probe(image(&[0x53, 0xef], 1080).path()).unwrap(), Content::Fs(FsType::Ext4));
        let journal = image(&[0x53, 0xef], 1080);
        journal.as_file().write_all_at(&[4], ext4::FEATURES_OFFSET).unwrap();
        assert_eq!(probe(journal.path()).unwrap(), Content::Fs(FsType::Ext3));
        journal.as_file().write_all_at(&[0x40], ext4::FEATURES_OFFSET + 4).unwrap();
        assert_eq!(probe(journal.path()).unwrap(), Content::Fs(FsType::Ext4));
    }

    #[test]
    fn an_unreadable_image_is_an_error() {
        assert!(probe(Path::new("/no/such/image")).is_err());
    }
}
