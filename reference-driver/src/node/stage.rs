//! NodeStageVolume and NodeUnstageVolume.

use csi_proto::v1::{
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnstageVolumeRequest, NodeUnstageVolumeResponse,
};

use super::{report, require_free, undo_staged};
use crate::backend;
use crate::capability::Capability;
use crate::driver::{Driver, checked_map, required};
use crate::error::{DriverError, Result, Shown};
use crate::paths::{CheckedPath, PathEntry};
use crate::storage;
use crate::store::{Change, Phase, Staged, Volume};

pub(crate) fn node_stage_volume(
    driver: &Driver,
    request: &NodeStageVolumeRequest,
) -> Result<NodeStageVolumeResponse> {
    required("volume_id", &request.volume_id)?;
    let path = CheckedPath::parse("staging_target_path", &request.staging_target_path)?;
    let capability = Capability::required(request.volume_capability.as_ref())?;
    checked_map("volume_context", &request.volume_context)?;
    checked_map("publish_context", &request.publish_context)?;
    let (mut volume, _guard) = driver.volume_exclusive(&request.volume_id)?;
    backend::check_fit(driver, &volume, &capability)?;
    driver.attachment(&volume)?;
    let place = path.existing_place(driver.layout.root())?;
    let present =
        driver.store.view()?.staged_of(&volume.key)?.into_iter().find(|staged| staged.path == path.to_text());
    match present {
        Some(staged) if staged.phase == Phase::Done => {
            check_same(&staged, &capability)?;
            if volume.backend().is_staged(driver, &volume, &place)? {
                return Ok(NodeStageVolumeResponse {});
            }
            stage(driver, &mut volume, staged, &place)?; // A reboot removed the mount.
        }
        Some(begun) => {
            undo_staged(driver, &volume, &begun)?;
            stage_anew(driver, &mut volume, &path, capability, &place)?;
        }
        None => stage_anew(driver, &mut volume, &path, capability, &place)?,
    }
    Ok(NodeStageVolumeResponse {})
}

/// Fails if the volume is staged there in a different way (NODE-STAGE-022).
fn check_same(staged: &Staged, capability: &Capability) -> Result<()> {
    if staged.capability == *capability {
        return Ok(());
    }
    let what = format!("the staging at {}", Shown(&staged.path));
    Err(DriverError::Exists { what, reason: "it has another volume_capability".to_owned() })
}

fn stage_anew(
    driver: &Driver,
    volume: &mut Volume,
    path: &CheckedPath,
    capability: Capability,
    place: &PathEntry,
) -> Result<()> {
    let made_path = place.occupant()?.is_none();
    let staged = Staged {
        volume: volume.key.clone(),
        path: path.to_text(),
        capability,
        made_path,
        phase: Phase::Begun,
    };
    stage(driver, volume, staged, place)
}

/// Stages a volume. The record is written first, so that the next start can undo the rest after a crash.
fn stage(driver: &Driver, volume: &mut Volume, mut staged: Staged, place: &PathEntry) -> Result<()> {
    storage::check_present(driver, volume)?;
    require_free(driver, volume, place)?;
    staged.phase = Phase::Begun;
    commit_begun(driver, volume, &staged)?;
    let brought = |_| volume.backend().stage(driver, volume, &staged.capability, place);
    let done = place.make_directory().and_then(brought);
    let done = done.and_then(|()| {
        staged.phase = Phase::Done;
        let changes = vec![Change::PutStaged(staged.clone()), Change::PutVolume(volume.clone())];
        Ok(driver.store.commit(changes)?)
    });
    if done.is_err() {
        report(undo_staged(driver, volume, &staged));
    }
    done
}

/// Records that a staging has begun. From then on the volume may contain data, so a directory that was not durable so
/// far is flushed.
fn commit_begun(driver: &Driver, volume: &mut Volume, staged: &Staged) -> Result<()> {
    let begun = Change::PutStaged(staged.clone());
    if !volume.untouched {
        return Ok(driver.store.commit(vec![begun])?);
    }
    let touched = Volume { untouched: false, ..volume.clone() };
    let changes = vec![begun, Change::PutVolume(touched.clone())];
    driver.store.commit_after_flush(driver.layout.volumes_directory(), changes)?;
    *volume = touched;
    Ok(())
}

pub(crate) fn node_unstage_volume(
    driver: &Driver,
    request: &NodeUnstageVolumeRequest,
) -> Result<NodeUnstageVolumeResponse> {
    required("volume_id", &request.volume_id)?;
    let path = CheckedPath::parse("staging_target_path", &request.staging_target_path)?;
    let (volume, _guard) = match driver.volume_exclusive(&request.volume_id) {
        // A volume that does not exist is staged nowhere. An error would keep the pod from terminating.
        Err(DriverError::NotFound { .. }) => return Ok(NodeUnstageVolumeResponse {}),
        result => result?,
    };
    let view = driver.store.view()?;
    let path = path.to_text();
    let Some(staged) = view.staged_of(&volume.key)?.into_iter().find(|staged| staged.path == path) else {
        return Ok(NodeUnstageVolumeResponse {});
    };
    let mut published = view.published_of(&volume.key)?.into_iter();
    if let Some(user) = published.find(|published| published.staging_path.as_ref() == Some(&path)) {
        let reason = format!("it is still published at {}", Shown(&user.path));
        return Err(DriverError::precondition(format!("volume {}", Shown(volume.id())), reason));
    }
    undo_staged(driver, &volume, &staged)?;
    Ok(NodeUnstageVolumeResponse {})
}
