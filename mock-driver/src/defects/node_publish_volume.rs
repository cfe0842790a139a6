//! NodePublishVolume.

use std::io::Write as _;
use std::path::Path;

use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{NodePublishVolumeRequest, NodePublishVolumeResponse, VolumeCapability};
use tonic::{Code, Status};

use super::side_effects::after_rejected_node_publish;
use super::volume::made_for;
use super::{check_lengths, forgive, host, is_incomplete, plain_capability, recode, volume_not_found};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::node;
use crate::state::Publication;
use crate::validate::{self, invalid};

pub(crate) async fn node_publish_volume(
    driver: &MockDriver,
    asked: &NodePublishVolumeRequest,
) -> Result<NodePublishVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    host::before_node_publish_volume(driver, asked);
    print_context(driver, asked);
    reject(driver, asked)?;
    if (has(Defect::NodePublishAcceptsMissingPath) && asked.target_path.is_empty())
        || (has(Defect::NodePublishAcceptsIncompleteCapability)
            && is_incomplete(asked.volume_capability.as_ref()))
    {
        return Ok(NodePublishVolumeResponse {});
    }
    let mut request = asked.clone();
    if has(Defect::NodeUnpublishForgetsLinks) {
        request.target_path = without_links(&asked.target_path);
    }
    if has(Defect::NodePublishAcceptsMissingCapability) && request.volume_capability.is_none() {
        let capability = made_for(driver, &request.volume_id).unwrap_or_else(plain_capability);
        request.volume_capability = Some(capability);
    }
    if has(Defect::NodePublishAcceptsMissingStaging) && request.staging_target_path.is_empty() {
        request.staging_target_path = any_staging_path(driver, &request.volume_id);
    }
    let present = published(driver, asked);
    match &present {
        Some(present) => repeat(driver, &mut request, present)?,
        None => reject_second_path(driver, &request)?,
    }
    let mut answer = node::node_publish_volume(driver, &request).await;
    if answer.is_err() {
        after_rejected_node_publish(driver, asked);
    }
    if has(Defect::NodePublishUnknownVolumeOk) {
        forgive(&mut answer, Code::NotFound);
    }
    if has(Defect::NodePublishConflictAsInternal) {
        recode(&mut answer, Code::AlreadyExists, Code::Internal);
    }
    if answer.is_ok() {
        driver.forget_inherited(&asked.target_path);
        host::after_node_publish_volume(driver, asked);
    }
    if let Err(status) = &mut answer
        && has(Defect::NodePublishErrorsShowContext)
    {
        *status = Status::new(status.code(), format!("{} ({:?})", status.message(), asked.volume_context));
    }
    if present.is_some() && answer.is_ok() && has(Defect::NodePublishForgetsReadonly) {
        forget_readonly(driver, asked);
    }
    answer
}

/// Prints the context, as a driver does that ignores that it may be confidential.
fn print_context(driver: &MockDriver, asked: &NodePublishVolumeRequest) {
    if driver.has(Defect::NodePublishPrintsContext) {
        // Standard error may be closed.
        _ = writeln!(std::io::stderr(), "publishing {}: {:?}", asked.volume_id, asked.volume_context);
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

fn reject(driver: &MockDriver, asked: &NodePublishVolumeRequest) -> Result<(), Status> {
    let has = |defect| driver.has(defect);
    let capability = asked.volume_capability.as_ref();
    if has(Defect::NodePublishPanicsWithoutCapability) {
        capability.expect("volume_capability is always there");
    }
    if has(Defect::NodePublishEmptyIdAsNotFound) && asked.volume_id.is_empty() {
        return Err(volume_not_found(""));
    }
    let context_bytes: usize = asked.volume_context.iter().map(|(key, value)| key.len() + value.len()).sum();
    if has(Defect::NodePublishCrashesOnLargeContext) && context_bytes > 4 << 10 {
        driver.crash("NodePublishVolume");
    }
    let limits = [Defect::NodePublishRefusesPathsOf128Bytes, Defect::NodePublishRefusesLongPaths];
    check_lengths(driver, &[&asked.target_path, &asked.staging_target_path], limits)?;
    if has(Defect::NodePublishMissingStagingAsInvalidArgument)
        && node::stages(driver)
        && asked.staging_target_path.is_empty()
    {
        return Err(invalid("staging_target_path is missing"));
    }
    let mode = capability.and_then(|capability| capability.access_mode).map(|access| access.mode());
    let complete = !asked.volume_id.is_empty() && !asked.target_path.is_empty();
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
fn published(driver: &MockDriver, asked: &NodePublishVolumeRequest) -> Option<Publication> {
    let state = driver.state();
    let volume = state.volumes.get(&asked.volume_id)?;
    volume.on(driver.this_node()).published.get(&asked.target_path).cloned()
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

fn forget_readonly(driver: &MockDriver, asked: &NodePublishVolumeRequest) {
    let mut state = driver.state();
    let Some(volume) = state.volumes.get_mut(&asked.volume_id) else { return };
    if let Some(publication) = volume.on_mut(driver.this_node()).published.get_mut(&asked.target_path) {
        publication.readonly = false;
    }
}
