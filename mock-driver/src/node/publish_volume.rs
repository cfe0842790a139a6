//! NodePublishVolume and NodeUnpublishVolume.

use csi_proto::v1;
use csi_proto::v1::volume_capability::access_mode::Mode;
use tonic::Status;

use super::{check_contexts, check_maps, check_usage, not_found, stages, target};
use crate::config::StaticVolume;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{Publication, Usage, Volume};
use crate::validate;

pub(crate) async fn node_publish_volume(
    driver: &MockDriver,
    request: &v1::NodePublishVolumeRequest,
) -> Result<v1::NodePublishVolumeResponse, Status> {
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    let path = target::path("target_path", &request.target_path)?;
    let usage = validate::required_usage(request.volume_capability.as_ref())?;
    check_maps(&request.volume_context, &request.publish_context)?;
    let published = driver.change(request, |state| {
        let volume = state.volumes.get_mut(&request.volume_id);
        let volume = volume.ok_or_else(|| not_found(&request.volume_id))?;
        check_contexts(driver, volume, &request.volume_context, &request.publish_context)?;
        check_readonly(driver, request)?;
        check_staged(driver, volume, &request.staging_target_path)?;
        if let Some(present) = volume.on(driver.this_node()).published.get(path) {
            return check_same(driver, present, &usage, request.readonly);
        }
        let staged = volume.on(driver.this_node()).staged.get(&request.staging_target_path);
        let as_staged = driver.has(Defect::NodeStageAcceptsAnyCapability) && staged == Some(&usage);
        if !as_staged && !driver.has(Defect::NodePublishAcceptsAnyCapability) {
            check_usage(driver, volume, &usage)?;
        }
        check_other_paths(driver, volume, &usage)?;
        let readonly = request.readonly || driver.is(Quirk::ReadOnlyAlways);
        let made = match driver.has(Defect::NodePublishMakesNothing) {
            true => None,
            false => target::make(driver, path, &usage.access, readonly)?,
        };
        let publication = Publication { usage, readonly: request.readonly, made };
        volume.on_mut(driver.this_node()).published.insert(path.to_owned(), publication);
        Ok(())
    });
    published.await?;
    Ok(v1::NodePublishVolumeResponse {})
}

/// Returns INVALID_ARGUMENT if a read-only volume is published for writing.
fn check_readonly(driver: &MockDriver, request: &v1::NodePublishVolumeRequest) -> Result<(), Status> {
    let is_it = |volume: &&StaticVolume| volume.id == request.volume_id;
    match driver.config.volumes.iter().find(is_it) {
        Some(volume) if volume.readonly && !request.readonly => {
            Err(validate::invalid("the volume can be published with readonly only"))
        }
        _ => Ok(()),
    }
}

/// Returns FAILED_PRECONDITION unless the volume is staged at the given path.
fn check_staged(driver: &MockDriver, volume: &Volume, path: &str) -> Result<(), Status> {
    if !stages(driver) {
        return Ok(());
    }
    if path.is_empty() {
        return Err(Status::failed_precondition("staging_target_path is missing"));
    }
    match volume.on(driver.this_node()).staged.contains_key(path) {
        true => Ok(()),
        false => Err(Status::failed_precondition("the volume is not staged at staging_target_path")),
    }
}

/// Returns ALREADY_EXISTS if the volume is published here in a different way.
fn check_same(
    driver: &MockDriver,
    present: &Publication,
    usage: &Usage,
    readonly: bool,
) -> Result<(), Status> {
    let same_readonly = present.readonly == readonly || driver.is(Quirk::ReadOnlyAlways);
    if present.usage == *usage && same_readonly {
        return Ok(());
    }
    let message = "the volume is published here with another volume_capability or readonly flag";
    Err(Status::already_exists(message))
}

/// Fails if the access mode forbids a second target path on this node.
fn check_other_paths(driver: &MockDriver, volume: &Volume, usage: &Usage) -> Result<(), Status> {
    let shares = usage.is_multi_node() || usage.mode() == Mode::SingleNodeMultiWriter;
    let alone = volume.on(driver.this_node()).published.is_empty();
    if alone || shares || driver.has(Defect::NodePublishIgnoresAccessMode) {
        return Ok(());
    }
    Err(Status::failed_precondition(format!(
        "the volume is published at another path, which access mode {} rules out",
        usage.mode().as_str_name()
    )))
}

pub(crate) async fn node_unpublish_volume(
    driver: &MockDriver,
    request: &v1::NodeUnpublishVolumeRequest,
) -> Result<v1::NodeUnpublishVolumeResponse, Status> {
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    let path = target::path("target_path", &request.target_path)?;
    let unpublished = driver.change(request, |state| {
        let Some(volume) = state.volumes.get_mut(&request.volume_id) else {
            return match driver.is(Quirk::NodeUnpublishUnknownOk) || driver.is(Quirk::StatelessNode) {
                true => Ok(()),
                false => Err(not_found(&request.volume_id)),
            };
        };
        target::note_written(volume);
        let here = volume.on_mut(driver.this_node());
        let Some(publication) = here.published.get(path) else { return Ok(()) };
        if let Some(made) = publication.made
            && !driver.has(Defect::NodeUnpublishLeavesTarget)
        {
            target::remove(path, made)?;
        }
        if !driver.has(Defect::NodeUnpublishKeepsPublication) {
            here.published.remove(path);
        }
        if driver.has(Defect::NodeUnpublishUnstages) {
            here.staged.clear();
        }
        Ok(())
    });
    unpublished.await?;
    Ok(v1::NodeUnpublishVolumeResponse {})
}
