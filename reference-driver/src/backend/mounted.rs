//! What back ends with a file system that is mounted have in common.

use csi_proto::v1::VolumeUsage;
use csi_proto::v1::volume_usage::Unit;
use rustix::fs::{OFlags, StatVfs};
use rustix::mount::MountFlags;

use super::{Backend, ownership, used};
use crate::capability::Capability;
use crate::driver::Driver;
use crate::error::{IoContext, Result};
use crate::health::{self, Trouble};
use crate::mount::{self, MountOptions};
use crate::paths::PathEntry;
use crate::store::{Published, Volume};

/// Why such a volume cannot be used as a device.
pub(super) fn no_device() -> String {
    "a file system volume cannot be used as a block device".to_owned()
}

/// Gives what was mounted to the group that a capability names, if it can be written.
pub(super) fn give_to_group(capability: &Capability, at: &PathEntry) -> Result<()> {
    let readonly = MountOptions::parse(capability.flags()).flags.contains(MountFlags::RDONLY);
    match capability.group() {
        Some(group) if !readonly => ownership::give_to_group(at, group),
        _ => Ok(()),
    }
}

/// Makes what is mounted at the staging path appear at a target.
pub(super) fn publish(wanted: &Published, staged: &PathEntry, at: &PathEntry) -> Result<()> {
    at.make_directory()?;
    let mut flags = MountOptions::parse(wanted.capability.flags()).flags;
    flags.set(MountFlags::RDONLY, wanted.readonly);
    mount::bind(&staged.hold()?.path(), flags, at)
}

/// Mounts writable, so that a fresh image can be formatted and handed to a group, and restricts the mount afterwards.
pub(super) fn publish_inline(
    backend: &dyn Backend,
    driver: &Driver,
    volume: &mut Volume,
    wanted: &Published,
    at: &PathEntry,
) -> Result<()> {
    at.make_directory()?;
    backend.stage(driver, volume, &wanted.capability, at)?;
    if wanted.readonly {
        let flags = MountOptions::parse(wanted.capability.flags()).flags | MountFlags::RDONLY;
        mount::restrict(flags, at)?;
    }
    Ok(())
}

/// How much of a volume is used, and what is wrong with it, as seen from a place where it should be mounted.
pub(super) fn usage(
    backend: &dyn Backend,
    driver: &Driver,
    volume: &Volume,
    at: &PathEntry,
    readonly: bool,
) -> Result<(Vec<VolumeUsage>, Option<Trouble>)> {
    if !backend.is_mounted(driver, volume, at)? {
        let gone = Trouble::inaccessible("MountGone", "the mount of the volume is gone");
        return Ok((Vec::new(), Some(gone)));
    }
    let root = at.open(OFlags::PATH | OFlags::DIRECTORY)?;
    let space = rustix::fs::fstatvfs(&root).on("get the usage of", at.path())?;
    Ok(usage_of(&space, readonly))
}

pub(super) fn usage_of(space: &StatVfs, readonly: bool) -> (Vec<VolumeUsage>, Option<Trouble>) {
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
    let blocks_used = space.f_blocks.saturating_sub(space.f_bfree);
    let inodes_used = space.f_files.saturating_sub(space.f_ffree);
    let usages = vec![
        used(bytes(space.f_blocks), bytes(blocks_used), bytes(space.f_bavail), Unit::Bytes),
        used(space.f_files, inodes_used, space.f_favail, Unit::Inodes),
    ];
    (usages, health::of_file_system(space, readonly))
}
