//! NodeGetVolumeStats.

use csi_proto::v1::volume_usage::Unit;
use csi_proto::v1::{NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, VolumeCondition, VolumeUsage};
use rustix::fs::{FileType, OFlags};
use rustix::mount::MountFlags;

use super::{is_device_of, is_mounted};
use crate::capability::Capability;
use crate::condition;
use crate::controller::signed;
use crate::driver::{Driver, required};
use crate::error::{DriverError, IoContext, Result};
use crate::ids::Shown;
use crate::mount::MountOptions;
use crate::paths::{CheckedPath, Occupant, Place};
use crate::storage;
use crate::store::{Backend, Phase, Volume};

pub(crate) fn node_get_volume_stats(
    driver: &Driver,
    request: &NodeGetVolumeStatsRequest,
) -> Result<NodeGetVolumeStatsResponse> {
    required("volume_id", &request.volume_id)?;
    required("volume_path", &request.volume_path)?;
    if !request.staging_target_path.is_empty() {
        CheckedPath::parse("staging_target_path", &request.staging_target_path)?;
    }
    let volume = driver.volume(&driver.store.view()?, &request.volume_id)?;
    let use_there = find_use(driver, &volume, &request.volume_path)?;
    let not_there = || DriverError::NotAtPath {
        id: Shown(volume.id()).to_string(),
        path: Shown(&request.volume_path).to_string(),
    };
    let (place, readonly) = use_there.ok_or_else(not_there)?;
    let (usage, condition) = match storage::check_present(driver, &volume) {
        Err(error) => (Vec::new(), condition::abnormal(error.to_string())),
        Ok(()) if volume.backend == Backend::Block => block_usage(driver, &volume, &place)?,
        Ok(()) => file_system_usage(driver, &volume, &place, readonly)?,
    };
    Ok(NodeGetVolumeStatsResponse { usage, volume_condition: Some(condition) })
}

/// The place at which the volume is staged or published, and whether it is read-only there. A CO may also name
/// another node of the device of a block volume, as it binds it elsewhere (kubelet's global map). At a path of bad form
/// there is no volume.
pub(super) fn find_use(driver: &Driver, volume: &Volume, volume_path: &str) -> Result<Option<(Place, bool)>> {
    let Ok(path) = CheckedPath::parse("volume_path", volume_path) else { return Ok(None) };
    let view = driver.store.view()?;
    let text = path.to_text();
    let published = view.published_of(&volume.key)?.into_iter().filter(|p| p.phase == Phase::Done);
    let staged = view.staged_of(&volume.key)?.into_iter().filter(|s| s.phase == Phase::Done);
    let readonly = published
        .map(|published| (published.path, published.readonly))
        .chain(staged.map(|staged| (staged.path, is_mounted_readonly(&staged.capability))))
        .find(|(used, _)| *used == text)
        .map(|(_, readonly)| readonly);
    let Some(place) = path.place()? else { return Ok(None) };
    if let Some(readonly) = readonly {
        return Ok(Some((place, readonly)));
    }
    let image = driver.layout.volume(&volume.key);
    let is_device = volume.backend == Backend::Block
        && place.occupant()?.is_some_and(|occupant| is_device_of(&occupant, &image));
    Ok(is_device.then_some((place, false)))
}

/// Whether staging with the capability mounts read-only; access modes count only for targets.
fn is_mounted_readonly(capability: &Capability) -> bool {
    MountOptions::parse(capability.flags()).flags.contains(MountFlags::RDONLY)
}

fn block_usage(
    driver: &Driver,
    volume: &Volume,
    place: &Place,
) -> Result<(Vec<VolumeUsage>, VolumeCondition)> {
    let total = volume.capacity_bytes;
    let image = driver.layout.volume(&volume.key);
    let used = storage::allocated_bytes(&image)?.min(total);
    // A staging path stays the directory it was.
    let is_there = |there: &Occupant| there.file_type == FileType::Directory || is_device_of(there, &image);
    let condition = if !super::block::is_attached(driver, volume)? {
        condition::abnormal("the device of the volume is gone")
    } else if !place.occupant()?.as_ref().is_some_and(is_there) {
        condition::abnormal("the mount of the volume is gone")
    } else {
        condition::normal()
    };
    Ok((vec![usage(total, used, total - used, Unit::Bytes)], condition))
}

fn file_system_usage(
    driver: &Driver,
    volume: &Volume,
    place: &Place,
    readonly: bool,
) -> Result<(Vec<VolumeUsage>, VolumeCondition)> {
    if driver.privileged && !is_mounted(driver, volume, place)? {
        return Ok((Vec::new(), condition::abnormal("the mount of the volume is gone")));
    }
    let space = if driver.privileged {
        let root = place.open(OFlags::PATH | OFlags::DIRECTORY)?;
        rustix::fs::fstatvfs(&root).on("get the usage of", place.path())?
    } else {
        rustix::fs::statvfs(driver.layout.volume(&volume.key)).on("get the usage of", place.path())?
    };
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
    let used = space.f_blocks.saturating_sub(space.f_bfree);
    let inodes_used = space.f_files.saturating_sub(space.f_ffree);
    let usages = vec![
        usage(bytes(space.f_blocks), bytes(used), bytes(space.f_bavail), Unit::Bytes),
        usage(space.f_files, inodes_used, space.f_favail, Unit::Inodes),
    ];
    Ok((usages, condition::of_file_system(&space, readonly)))
}

fn usage(total: u64, used: u64, available: u64, unit: Unit) -> VolumeUsage {
    VolumeUsage { available: signed(available), total: signed(total), used: signed(used), unit: unit.into() }
}
