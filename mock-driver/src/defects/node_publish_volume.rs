//! NodePublishVolume and NodeUnpublishVolume.

use std::io::Write as _;
use std::path::Path;

use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest,
    NodeUnpublishVolumeResponse, VolumeCapability,
};
use tonic::{Code, Status};

use super::side_effects::{after_rejected_node_publish, after_rejected_node_unpublish};
use super::volume::made_for;
use super::{check_lengths, forgive, host, is_incomplete, plain_capability, volume_not_found};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::node;
use crate::state::Publication;
use crate::validate::{self, invalid};

pub(crate) async fn node_publish_volume(
    driver: &MockDriver,
    original: &NodePublishVolumeRequest,
) -> Result<NodePublishVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    host::before_node_publish_volume(driver, original);
    print_context(driver, original);
    reject(driver, original)?;
    if (has(Defect::NodePublishAcceptsMissingPath) && original.target_path.is_empty())
        || (has(Defect::NodePublishAcceptsIncompleteCapability)
            && is_incomplete(original.volume_capability.as_ref()))
    {
        return Ok(NodePublishVolumeResponse {});
    }
    let mut request = original.clone();
    if has(Defect::NodeUnpublishForgetsLinks) {
        request.target_path = without_links(&original.target_path);
    }
    if has(Defect::NodePublishAcceptsMissingCapability) && request.volume_capability.is_none() {
        let capability = made_for(driver, &request.volume_id).unwrap_or_else(plain_capability);
        request.volume_capability = Some(capability);
    }
    if has(Defect::NodePublishAcceptsMissingStaging) && request.staging_target_path.is_empty() {
        request.staging_target_path = any_staging_path(driver, &request.volume_id);
    }
    let present = published(driver, original);
    match &present {
        Some(present) => repeat(driver, &mut request, present)?,
        None => reject_second_path(driver, &request)?,
    }
    let mut answer = node::node_publish_volume(driver, &request).await;
    if answer.is_err() {
        after_rejected_node_publish(driver, original);
    }
    if has(Defect::NodePublishUnknownVolumeOk) {
        forgive(&mut answer, Code::NotFound);
    }
    if answer.is_ok() {
        driver.forget_inherited(&original.target_path);
        host::after_node_publish_volume(driver, original);
    }
    if let Err(status) = &mut answer
        && has(Defect::NodePublishErrorsShowContext)
    {
        *status = Status::new(status.code(), format!("{} ({:?})", status.message(), original.volume_context));
    }
    if present.is_some() && answer.is_ok() && has(Defect::NodePublishForgetsReadonly) {
        forget_readonly(driver, original);
    }
    answer
}

/// Prints the context, as a driver does that ignores that it may be confidential.
fn print_context(driver: &MockDriver, original: &NodePublishVolumeRequest) {
    if driver.has(Defect::NodePublishPrintsContext) {
        // Standard error may be closed.
        _ = writeln!(std::io::stderr(), "publishing {}: {:?}", original.volume_id, original.volume_context);
    }
}

/// Resolves the symbolic links in the path to the target.
fn without_links(target_path: &str) -> String {
    let path = Path::new(target_path);
    let place = path.parent().and_then(|above| above.canonicalize().ok()).zip(path.file_name());
    place.map_or_else(
        || target_path.to_owned(),
        |(above, name)| above.join(name).to_string_lossy().into_owned(),
    )
}

fn reject(driver: &MockDriver, original: &NodePublishVolumeRequest) -> Result<(), Status> {
    let has = |defect| driver.has(defect);
    let capability = original.volume_capability.as_ref();
    if has(Defect::NodePublishPanicsWithoutCapability) {
        capability.expect("volume_capability is always there");
    }
    if has(Defect::NodePublishEmptyIdAsNotFound) && original.volume_id.is_empty() {
        return Err(volume_not_found(""));
    }
    let context_bytes: usize =
        original.volume_context.iter().map(|(key, value)| key.len() + value.len()).sum();
    if has(Defect::NodePublishCrashesOnLargeContext) && context_bytes > 4 << 10 {
        driver.crash("NodePublishVolume");
    }
    let limits = [Defect::NodePublishRefusesPathsOf128Bytes, Defect::NodePublishRefusesLongPaths];
    check_lengths(driver, &[&original.target_path, &original.staging_target_path], limits)?;
    if has(Defect::NodePublishMissingStagingAsInvalidArgument)
        && node::stages(driver)
        && original.staging_target_path.is_empty()
    {
        return Err(invalid("staging_target_path is missing"));
    }
    let mode = capability.and_then(|capability| capability.access_mode).map(|access| access.mode());
    let complete = !original.volume_id.is_empty() && !original.target_path.is_empty();
    if has(Defect::NodePublishRefusesSingleNodeWriter) && complete && mode == Some(Mode::SingleNodeWriter) {
        return Err(Status::failed_precondition("SINGLE_NODE_WRITER is not supported any more"));
    }
    Ok(())
}

/// A staging path of the volume; empty if it has none.
fn any_staging_path(driver: &MockDriver, volume_id: &str) -> String {
    let state = driver.state();
    let volume = state.volumes.get(volume_id);
    let path = volume.and_then(|volume| volume.on(driver.this_node()).staged.keys().next());
    path.cloned().unwrap_or_default()
}

/// The existing publication at the path.
fn published(driver: &MockDriver, original: &NodePublishVolumeRequest) -> Option<Publication> {
    let state = driver.state();
    let volume = state.volumes.get(&original.volume_id)?;
    volume.on(driver.this_node()).published.get(&original.target_path).cloned()
}

fn repeat(
    driver: &MockDriver,
    request: &mut NodePublishVolumeRequest,
    present: &Publication,
) -> Result<(), Status> {
    if driver.has(Defect::NodePublishRefusesRepeats) {
        return Err(Status::already_exists("the volume is published"));
    }
    if driver.has(Defect::RestartRefusesPublished) && driver.has_inherited(&request.target_path) {
        return Err(Status::internal("mount: already mounted"));
    }
    if driver.has(Defect::NodePublishIgnoresReadonlyConflict) {
        request.readonly = present.readonly;
    }
    Ok(())
}

fn reject_second_path(driver: &MockDriver, request: &NodePublishVolumeRequest) -> Result<(), Status> {
    let is_published = {
        let state = driver.state();
        let volume = state.volumes.get(&request.volume_id);
        volume.is_some_and(|volume| !volume.on(driver.this_node()).published.is_empty())
    };
    if !is_published || request.target_path.is_empty() {
        return Ok(());
    }
    let shares = request.volume_capability.as_ref().is_some_and(is_shared);
    if shares && driver.has(Defect::NodePublishRefusesSecondPath) {
        return Err(Status::failed_precondition("the volume is published at another path"));
    }
    if !shares && driver.has(Defect::NodePublishSecondPathAsInternal) {
        return Err(Status::internal("mount: device is busy"));
    }
    Ok(())
}

/// Returns whether a volume may be published at several paths.
fn is_shared(capability: &VolumeCapability) -> bool {
    validate::usage(capability)
        .is_ok_and(|usage| usage.is_multi_node() || usage.mode() == Mode::SingleNodeMultiWriter)
}

fn forget_readonly(driver: &MockDriver, original: &NodePublishVolumeRequest) {
    let mut state = driver.state();
    let Some(volume) = state.volumes.get_mut(&original.volume_id) else { return };
    if let Some(publication) = volume.on_mut(driver.this_node()).published.get_mut(&original.target_path) {
        publication.readonly = false;
    }
}

pub(crate) async fn node_unpublish_volume(
    driver: &MockDriver,
    request: &NodeUnpublishVolumeRequest,
) -> Result<NodeUnpublishVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    host::before_node_unpublish_volume(driver, request);
    if (has(Defect::NodeUnpublishAcceptsEmptyId) && request.volume_id.is_empty())
        || (has(Defect::NodeUnpublishAcceptsMissingPath) && request.target_path.is_empty())
    {
        return Ok(NodeUnpublishVolumeResponse {});
    }
    let limits = [Defect::NodeUnpublishRefusesPathsOf128Bytes, Defect::NodeUnpublishRefusesLongPaths];
    check_lengths(driver, &[&request.target_path], limits)?;
    reject_unpublish(driver, request)?;
    let answer = node::node_unpublish_volume(driver, request).await;
    if answer.is_err() {
        after_rejected_node_unpublish(driver, request);
    }
    answer
}

fn reject_unpublish(driver: &MockDriver, request: &NodeUnpublishVolumeRequest) -> Result<(), Status> {
    let (state, path) = (driver.state(), &request.target_path);
    let Some(volume) = state.volumes.get(&request.volume_id) else { return Ok(()) };
    match volume.on(driver.this_node()).published.get(path) {
        Some(publication)
            if publication.usage.is_block() && driver.has(Defect::NodeUnpublishFailsOnBlock) =>
        {
            Err(Status::internal("rmdir: not a directory"))
        }
        Some(_) if driver.has(Defect::RestartForgetsPublished) && driver.has_inherited(path) => {
            Err(Status::internal("the target path is not in the table of mounts"))
        }
        None if !path.is_empty() && driver.has(Defect::NodeUnpublishRefusesRepeats) => {
            Err(Status::not_found("nothing is published there"))
        }
        _ => Ok(()),
    }
}
