//! NodePublishVolume and NodeUnpublishVolume.

use csi_proto::v1::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest,
    NodeUnpublishVolumeResponse,
};
use rustix::mount::MountFlags;

use super::{inline, report, require_free, undo_published};
use crate::capability::Capability;
use crate::driver::{Driver, checked_map, required};
use crate::error::{DriverError, Result};
use crate::ids::Shown;
use crate::mount::MountOptions;
use crate::paths::{CheckedPath, PathEntry};
use crate::store::{Change, Phase, Published, Volume};

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
    driver.check_fit(&volume, &capability)?;
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
    publish(driver, &volume, wanted, &place, |wanted| {
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

/// Returns whether a capability forbids writing, so that the `readonly` field makes no difference.
pub(super) fn asks_for_readonly(capability: &Capability) -> bool {
    capability.mode.is_reader_only()
        || MountOptions::parse(capability.flags()).flags.contains(MountFlags::RDONLY)
}

/// Compares the request with existing publications. Returns true if the volume is already published in the same way
/// at the same path, and fails if the two cannot coexist (NODE-PUBLISH-009 to -016, -040).
pub(super) fn match_present(driver: &Driver, volume: &Volume, wanted: &Published) -> Result<bool> {
    let present = driver.store.view()?.published_of(&volume.key)?;
    if let Some(same_path) = present.iter().find(|published| published.path == wanted.path) {
        return match same_path.phase {
            Phase::Done => check_same(same_path, wanted).map(|()| true),
            Phase::Begun => undo_published(driver, volume, same_path).map(|()| false),
        };
    }
    // A node that was lost has not unpublished what it had. Once the volume is detached from it, that does not count.
    let has_lost_volume = |published: &&Published| {
        let node = &published.node;
        driver.config.attach && !node.is_empty() && !volume.attachments.contains_key(node)
    };
    let present: Vec<&Published> = present.iter().filter(|published| !has_lost_volume(published)).collect();
    let Some(other) = present.first() else { return Ok(false) };
    let shared = |capability: &Capability| capability.mode.allows_many_targets();
    if shared(&wanted.capability) && present.iter().all(|published| shared(&published.capability)) {
        return Ok(false);
    }
    let reason =
        format!("it is published at {} and its access mode allows no second target", Shown(&other.path));
    Err(DriverError::precondition(format!("volume {}", Shown(volume.id())), reason))
}

fn check_same(present: &Published, wanted: &Published) -> Result<()> {
    let reason = if present.readonly != wanted.readonly {
        "it has the other value of readonly"
    } else if present.capability != wanted.capability {
        "it has another volume_capability"
    } else if present.staging_path != wanted.staging_path {
        "it comes from another staging_target_path"
    } else {
        return Ok(());
    };
    let what = format!("the publication at {}", Shown(&wanted.path));
    Err(DriverError::Exists { what, reason: reason.to_owned() })
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

/// Publishes a volume by calling `bring`. The record is written first, so that the next start can undo the rest after
/// a crash.
pub(super) fn publish(
    driver: &Driver,
    volume: &Volume,
    mut wanted: Published,
    place: &PathEntry,
    bring: impl FnOnce(&Published) -> Result<()>,
) -> Result<()> {
    require_free(driver, volume, place)?;
    wanted.made_path = match recorded(driver, &wanted)? {
        Some(before) => before.made_path, // A reboot removed the mount, but not the directory or file for it.
        None => place.occupant()?.is_none(),
    };
    driver.store.commit(vec![Change::PutPublished(wanted.clone())])?;
    let done = bring(&wanted).and_then(|()| {
        wanted.phase = Phase::Done;
        Ok(driver.store.commit(vec![Change::PutPublished(wanted.clone())])?)
    });
    if done.is_err() {
        report(undo_published(driver, volume, &wanted));
    }
    done
}

fn recorded(driver: &Driver, wanted: &Published) -> Result<Option<Published>> {
    let mut present = driver.store.view()?.published_of(&wanted.volume)?.into_iter();
    Ok(present.find(|published| published.path == wanted.path))
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
