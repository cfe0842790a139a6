//! NodeGetVolumeHealth and NodeGetStorageHealth.

use csi_proto::health::Side;
use csi_proto::v1::{
    NodeGetStorageHealthRequest, NodeGetStorageHealthResponse, NodeGetVolumeHealthRequest,
    NodeGetVolumeHealthResponse,
};

use super::stats::{is_mounted_readonly, usage};
use crate::driver::Driver;
use crate::error::Result;
use crate::health::{self, Problem};
use crate::paths::CheckedPath;
use crate::store::{Phase, Volume};

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
