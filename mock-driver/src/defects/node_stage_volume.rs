//! NodeStageVolume.

use csi_proto::v1::{NodeStageVolumeRequest, NodeStageVolumeResponse};
use tonic::{Code, Status};

use super::overlap::end_unstaging;
use super::side_effects::after_rejected_node_stage;
use super::{check_lengths, forgive, host, is_incomplete, recode, volume_not_found};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::node;
use crate::state::{Usage, Volume};

/// The smallest size for a file system, with the defect that checks it.
const FILE_SYSTEM_BYTES_MIN: i64 = 4 << 20;

pub(crate) async fn node_stage_volume(
    driver: &MockDriver,
    asked: &NodeStageVolumeRequest,
) -> Result<NodeStageVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    host::before_node_stage_volume(driver, asked);
    let capability = asked.volume_capability.as_ref();
    if has(Defect::NodeStagePanicsWithoutCapability) {
        capability.expect("volume_capability is always there");
    }
    if has(Defect::NodeStageEmptyIdAsNotFound) && asked.volume_id.is_empty() {
        return Err(volume_not_found(""));
    }
    let limits = [Defect::NodeStageRefusesPathsOf128Bytes, Defect::NodeStageRefusesLongPaths];
    check_lengths(driver, &[&asked.staging_target_path], limits)?;
    if (has(Defect::NodeStageAcceptsMissingPath) && asked.staging_target_path.is_empty())
        || (has(Defect::NodeStageAcceptsMissingCapability) && capability.is_none())
        || (has(Defect::NodeStageAcceptsIncompleteCapability) && is_incomplete(capability))
    {
        return Ok(NodeStageVolumeResponse {});
    }
    if has(Defect::NodeStageFailsOnSmallVolumes) && is_too_small(driver, asked) {
        return Err(Status::internal("mkfs: the device is too small for a file system"));
    }
    let mut request = asked.clone();
    if let Some(present) = staged(driver, asked) {
        if has(Defect::NodeStageRefusesRepeats) {
            return Err(Status::already_exists("the volume is staged"));
        }
        if has(Defect::RestartForgetsStaged) && driver.has_inherited(&asked.staging_target_path) {
            return Err(Status::internal("mount: already mounted"));
        }
        if has(Defect::NodeStageIgnoresCapabilityConflict) {
            request.volume_capability = Some(present.to_proto());
        }
    }
    let mut answer = node::node_stage_volume(driver, &request).await;
    match answer {
        Ok(_) => end_unstaging(driver, asked),
        Err(_) => after_rejected_node_stage(driver, asked),
    }
    if has(Defect::NodeStageUnknownVolumeOk) {
        forgive(&mut answer, Code::NotFound);
    }
    if has(Defect::NodeStageConflictAsInternal) {
        recode(&mut answer, Code::AlreadyExists, Code::Internal);
    }
    answer
}

/// The existing staging at the path.
fn staged(driver: &MockDriver, asked: &NodeStageVolumeRequest) -> Option<Usage> {
    let state = driver.state();
    let volume = state.volumes.get(&asked.volume_id)?;
    volume.on(driver.this_node()).staged.get(&asked.staging_target_path).cloned()
}

/// Returns whether the volume is too small for a file system.
fn is_too_small(driver: &MockDriver, asked: &NodeStageVolumeRequest) -> bool {
    let state = driver.state();
    let is_small = |volume: &Volume| volume.capacity_bytes < FILE_SYSTEM_BYTES_MIN && !volume.is_block();
    state.volumes.get(&asked.volume_id).is_some_and(is_small)
}
