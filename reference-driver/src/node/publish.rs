//! NodePublishVolume and NodeUnpublishVolume.

use csi_proto::v1::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest,
    NodeUnpublishVolumeResponse,
};

use super::inline;
use super::publication::{asks_for_readonly, match_present, publish_recorded, undo_published};
use crate::backend;
use crate::capability::Capability;
use crate::driver::{Driver, checked_map, required};
use crate::error::{DriverError, Result, Shown};
use crate::paths::{CheckedPath, PathEntry};
use crate::store::{Phase, Published, Volume};

pub(crate) fn node_publish_volume(
    driver: &Driver,
    request: &NodePublishVolumeRequest,
) -> Result<NodePublishVolumeResponse> {
    required("volume_id", &request.volume_id)?;
    let target = CheckedPath::parse("target_path", &request.target_path)?;
    let capability = Capability::required(request.volume_capability.as_ref())?;
    checked_map("publish_context", &request.publish_context)?;
    if inline::is_inline(driver, request) {
        inline::publish(driver, request, &target, capability)?;
        return Ok(NodePublishVolumeResponse {});
    }
    checked_map("volume_context", &request.volume_context)?;
    let staging = staging_path(&request.staging_target_path)?;
    let (volume, _guard) = driver.volume_exclusive(&request.volume_id)?;
    backend::check_fit(driver, &volume, &capability)?;
    let attached_readonly = driver.attachment(&volume)?.is_some_and(|attachment| attachment.readonly);
    let wanted = Published {
        volume: volume.key.clone(),
        path: target.to_text(),
        node: driver.config.node_id.clone(),
        staging_path: Some(staging.to_text()),
        readonly: request.readonly || attached_readonly || asks_for_readonly(&capability),
        capability,
        made_path: true,
        phase: Phase::Begun,
    };
    let place = target.existing_place(driver.layout.root())?;
    let present = match_present(driver, &volume, &wanted)?;
    if present && volume.backend().is_published(driver, &volume, &place)? {
        return Ok(NodePublishVolumeResponse {});
    }
    let staged = staged_place(driver, &volume, &wanted)?;
    publish_recorded(driver, &volume, wanted, &place, |wanted| {
        volume.backend().publish(driver, &volume, wanted, &staged, &place)
    })?;
    Ok(NodePublishVolumeResponse {})
}

/// Checks the staging path. If it is missing, the specification wants FAILED_PRECONDITION instead of INVALID_ARGUMENT
/// (NODE-PUBLISH-042).
fn staging_path(text: &str) -> Result<CheckedPath> {
    if text.is_empty() {
        return Err(DriverError::precondition(
            "staging_target_path",
            "it is missing, and volumes are staged first",
        ));
    }
    CheckedPath::parse("staging_target_path", text)
}

/// The path where the volume is staged; fails if it is not (NODE-PUBLISH-042).
fn staged_place(driver: &Driver, volume: &Volume, wanted: &Published) -> Result<PathEntry> {
    let what = || format!("volume {}", Shown(volume.id()));
    let not_staged = || DriverError::precondition(what(), "it is not staged at staging_target_path");
    let staged = driver.store.view()?.staged_of(&volume.key)?.into_iter();
    let staged = staged
        .filter(|staged| staged.phase == Phase::Done)
        .find(|staged| wanted.staging_path.as_ref() == Some(&staged.path))
        .ok_or_else(not_staged)?;
    if staged.capability.access != wanted.capability.access {
        return Err(DriverError::precondition(what(), "it is staged with another volume_capability"));
    }
    let place = PathEntry::recorded(&staged.path)?.ok_or_else(not_staged)?;
    if volume.backend().is_staged(driver, volume, &place)? { Ok(place) } else { Err(not_staged()) }
}

pub(crate) fn node_unpublish_volume(
    driver: &Driver,
    request: &NodeUnpublishVolumeRequest,
) -> Result<NodeUnpublishVolumeResponse> {
    required("volume_id", &request.volume_id)?;
    let target = CheckedPath::parse("target_path", &request.target_path)?;
    let (volume, _guard) = match driver.volume_exclusive(&request.volume_id) {
        // A volume that does not exist is published nowhere. An error would keep the pod from terminating.
        Err(DriverError::NotFound { .. }) => return Ok(NodeUnpublishVolumeResponse {}),
        result => result?,
    };
    let path = target.to_text();
    let published = driver.store.view()?.published_of(&volume.key)?;
    let others = published.iter().any(|published| published.path != path);
    match published.into_iter().find(|published| published.path == path) {
        Some(published) if volume.inline_id.is_some() && !others => {
            inline::unpublish(driver, &volume, &published)?;
        }
        Some(published) => undo_published(driver, &volume, &published)?,
        // A repeated call has failed and undone the publication; only the volume is left.
        None if volume.inline_id.is_some() && !others => inline::forget_unused(driver, &volume)?,
        None => {}
    }
    Ok(NodeUnpublishVolumeResponse {})
}
