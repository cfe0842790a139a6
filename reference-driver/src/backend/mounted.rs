//! Code shared by the back ends whose volumes are mounted.

use csi_proto::v1::VolumeUsage;
use csi_proto::v1::volume_usage::Unit;
use rustix::fs::{OFlags, StatVfs};
use rustix::mount::MountFlags;

use super::{ownership, used};
use crate::capability::Capability;
use crate::driver::Driver;
use crate::error::{IoContext, Result};
use crate::health::{self, Problem};
use crate::mount::{self, MountOptions};
use crate::paths::PathEntry;
use crate::store::{Published, Volume};

pub(super) fn no_device() -> String {
    "a file system volume cannot be used as a block device".to_owned()
}

/// Gives a writable mount to the group that the capability names.
pub(super) fn give_to_group(capability: &Capability, at: &PathEntry) -> Result<()> {
    let readonly = MountOptions::parse(capability.flags()).flags.contains(MountFlags::RDONLY);
    match capability.group() {
        Some(group) if !readonly => ownership::give_to_group(at, group),
        _ => Ok(()),
    }
}

/// Binds the mount at the staging path to a target path.
pub(super) fn publish(wanted: &Published, staged: &PathEntry, at: &PathEntry) -> Result<()> {
    at.make_directory()?;
    let mut flags = MountOptions::parse(wanted.capability.flags()).flags;
    flags.set(MountFlags::RDONLY, wanted.readonly);
    mount::bind(&staged.hold()?.path(), flags, at)
}

/// Mounts writable at first, so that a fresh image can be formatted and given to a group, and makes the mount
/// read-only afterwards.
pub(super) fn publish_inline(
    driver: &Driver,
    volume: &mut Volume,
    wanted: &Published,
    at: &PathEntry,
) -> Result<()> {
    at.make_directory()?;
    volume.backend().stage(driver, volume, &wanted.capability, at)?;
    if wanted.readonly {
        let flags = MountOptions::parse(wanted.capability.flags()).flags | MountFlags::RDONLY;
        mount::restrict(flags, at)?;
    }
    Ok(())
}

pub(super) fn usage(
    driver: &Driver,
    volume: &Volume,
    at: &PathEntry,
    readonly: bool,
) -> Result<(Vec<VolumeUsage>, Option<Problem>)> {
    if !volume.backend().is_mounted(driver, volume, at)? {
        let gone = Problem::inaccessible("MountGone", "the mount of the volume is gone");
        return Ok((Vec::new(), Some(gone)));
    }
    let root = at.open(OFlags::PATH | OFlags::DIRECTORY)?;
    let space = rustix::fs::fstatvfs(&root).on("get the usage of", at.path())?;
    let (usages, problem) = usage_of(&space, readonly);
    let is_in_emergency = at.occupant()?.is_some_and(|mount| mount::is_in_emergency(mount.mount_id));
    Ok((usages, is_in_emergency.then(health::read_only).or(problem)))
}

pub(super) fn usage_of(space: &StatVfs, readonly: bool) -> (Vec<VolumeUsage>, Option<Problem>) {
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
    let blocks_used = space.f_blocks.saturating_sub(space.f_bfree);
    let inodes_used = space.f_files.saturating_sub(space.f_ffree);
    let usages = vec![
        used(bytes(space.f_blocks), bytes(blocks_used), bytes(space.f_bavail), Unit::Bytes),
        used(space.f_files, inodes_used, space.f_favail, Unit::Inodes),
    ];
    (usages, health::of_file_system(space, readonly))
}
