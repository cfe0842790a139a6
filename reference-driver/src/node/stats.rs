//! NodeGetVolumeStats, NodeGetVolumeHealth and NodeGetStorageHealth.

use csi_proto::health::Side;
use csi_proto::v1::{
    NodeGetStorageHealthRequest, NodeGetStorageHealthResponse, NodeGetVolumeHealthRequest,
    NodeGetVolumeHealthResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, VolumeUsage,
};
use rustix::mount::MountFlags;

use crate::capability::Capability;
use crate::driver::{Driver, required};
use crate::error::{DriverError, Result, Shown};
use crate::health::{self, Problem};
use crate::mount::MountOptions;
use crate::paths::{CheckedPath, PathEntry};
use crate::store::{Phase, Volume};

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
    let (usage, problem) = usage(driver, &volume, &place, readonly)?;
    let volume_condition = Some(health::condition(problem.as_ref()));
    Ok(NodeGetVolumeStatsResponse { usage, volume_condition })
}

pub(super) fn usage(
    driver: &Driver,
    volume: &Volume,
    place: &PathEntry,
    readonly: bool,
) -> Result<(Vec<VolumeUsage>, Option<Problem>)> {
    match health::of_data(driver, volume) {
        Some(absent) => Ok((Vec::new(), Some(absent))),
        None => volume.backend().usage(driver, volume, place, readonly),
    }
}

/// The path if the volume is staged or published there, or if the CO has bound it there, and whether it is read-only
/// there. There is no volume at a malformed path.
pub(super) fn find_use(
    driver: &Driver,
    volume: &Volume,
    volume_path: &str,
) -> Result<Option<(PathEntry, bool)>> {
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
    Ok(volume.backend().is_bound_by_co(driver, volume, &place)?.then_some((place, false)))
}

/// Returns whether staging with this capability mounts read-only. Access modes do not matter here, as they only
/// restrict targets.
pub(super) fn is_mounted_readonly(capability: &Capability) -> bool {
    MountOptions::parse(capability.flags()).flags.contains(MountFlags::RDONLY)
}

pub(crate) fn node_get_volume_health(
    driver: &Driver,
    request: &NodeGetVolumeHealthRequest,
) -> Result<NodeGetVolumeHealthResponse> {
    let volume = driver.volume(&driver.store.view()?, &request.volume_id)?;
    let mut asked_for = Vec::new();
    for (field, path) in [
        ("volume_publish_path", &request.volume_publish_path),
        ("staging_target_path", &request.staging_target_path),
    ] {
        if !path.is_empty() {
            asked_for.push(CheckedPath::parse(field, path)?.to_text());
        }
    }
    let seen =
        seen_at(driver, &volume, |path| asked_for.is_empty() || asked_for.iter().any(|asked| asked == path))?;
    let volume_health = health::of_volume(driver, &volume, Side::Node, seen)?;
    Ok(NodeGetVolumeHealthResponse { volume_health: Some(volume_health) })
}

/// The problems of a volume at the requested ones of its paths. Paths with an unfinished operation are skipped, since
/// their state is unknown.
fn seen_at(driver: &Driver, volume: &Volume, is_asked_for: impl Fn(&str) -> bool) -> Result<Vec<Problem>> {
    let view = driver.store.view()?;
    let published = view.published_of(&volume.key)?.into_iter().filter(|one| one.phase == Phase::Done);
    let staged = view.staged_of(&volume.key)?.into_iter().filter(|one| one.phase == Phase::Done);
    let places = published
        .map(|one| (one.path, one.readonly))
        .chain(staged.map(|one| (one.path, is_mounted_readonly(&one.capability))));
    if let Some(absent) = health::of_data(driver, volume) {
        return Ok(vec![absent]);
    }
    let mut seen = Vec::new();
    for (path, readonly) in places.filter(|(path, _)| is_asked_for(path)) {
        seen.extend(match CheckedPath::parse("path", &path)?.place()? {
            None => Some(Problem::inaccessible("PathGone", format!("{path} is gone"))),
            Some(place) => usage(driver, volume, &place, readonly)?.1,
        });
    }
    Ok(seen)
}

pub(crate) fn node_get_storage_health(
    driver: &Driver,
    _: &NodeGetStorageHealthRequest,
) -> Result<NodeGetStorageHealthResponse> {
    Ok(NodeGetStorageHealthResponse { backend_health: health::of_storage(driver)? })
}
