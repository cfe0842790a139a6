//! NodeStageVolume and NodeUnstageVolume.

use csi_proto::v1::{
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnstageVolumeRequest, NodeUnstageVolumeResponse,
};
use tonic::{Code, Status};

use super::overlap::{IfGivenUp, end_attaching, end_unstaging, unstaging_given_up};
use super::side_effects::{after_rejected_node_stage, check_attached};
use super::{check_lengths, forgive, host, is_incomplete, volume_not_found};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::node;
use crate::state::{Usage, Volume};

/// The smallest size for a file system, with the defect that checks it.
const FILE_SYSTEM_BYTES_MIN: i64 = 4 << 20;

pub(crate) async fn node_stage_volume(
    driver: &MockDriver,
    original: &NodeStageVolumeRequest,
) -> Result<NodeStageVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    host::before_node_stage_volume(driver, original);
    let capability = original.volume_capability.as_ref();
    if has(Defect::NodeStagePanicsWithoutCapability) {
        capability.expect("volume_capability is always there");
    }
    if has(Defect::NodeStageEmptyIdAsNotFound) && original.volume_id.is_empty() {
        return Err(volume_not_found(""));
    }
    let limits = [Defect::NodeStageRefusesPathsOf128Bytes, Defect::NodeStageRefusesLongPaths];
    check_lengths(driver, &[&original.staging_target_path], limits)?;
    if (has(Defect::NodeStageAcceptsMissingPath) && original.staging_target_path.is_empty())
        || (has(Defect::NodeStageAcceptsMissingCapability) && capability.is_none())
        || (has(Defect::NodeStageAcceptsIncompleteCapability) && is_incomplete(capability))
    {
        return Ok(NodeStageVolumeResponse {});
    }
    if has(Defect::NodeStageFailsOnSmallVolumes) && is_too_small(driver, original) {
        return Err(Status::internal("mkfs: the device is too small for a file system"));
    }
    let mut request = original.clone();
    if let Some(present) = staged(driver, original) {
        if has(Defect::NodeStageRefusesRepeats) {
            return Err(Status::already_exists("the volume is staged"));
        }
        if has(Defect::RestartForgetsStaged) && driver.has_inherited(&original.staging_target_path) {
            return Err(Status::internal("mount: already mounted"));
        }
        if has(Defect::NodeStageIgnoresCapabilityConflict) {
            request.volume_capability = Some(present.to_proto());
        }
    }
    end_attaching(driver, original)?;
    let mut answer = node::node_stage_volume(driver, &request).await;
    match answer {
        Ok(_) => end_unstaging(driver, original),
        Err(_) => after_rejected_node_stage(driver, original),
    }
    if has(Defect::NodeStageUnknownVolumeOk) {
        forgive(&mut answer, Code::NotFound);
    }
    answer
}

/// The existing staging at the path.
fn staged(driver: &MockDriver, original: &NodeStageVolumeRequest) -> Option<Usage> {
    let state = driver.state();
    let volume = state.volumes.get(&original.volume_id)?;
    volume.on(driver.this_node()).staged.get(&original.staging_target_path).cloned()
}

/// Returns whether the volume is too small for a file system.
fn is_too_small(driver: &MockDriver, original: &NodeStageVolumeRequest) -> bool {
    let state = driver.state();
    let is_small = |volume: &Volume| volume.capacity_bytes < FILE_SYSTEM_BYTES_MIN && !volume.is_block();
    state.volumes.get(&original.volume_id).is_some_and(is_small)
}

pub(crate) async fn node_unstage_volume(
    driver: &MockDriver,
    request: &NodeUnstageVolumeRequest,
) -> Result<NodeUnstageVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    host::before_node_unstage_volume(driver, request);
    if (has(Defect::NodeUnstageAcceptsEmptyId) && request.volume_id.is_empty())
        || (has(Defect::NodeUnstageAcceptsMissingPath) && request.staging_target_path.is_empty())
    {
        return Ok(NodeUnstageVolumeResponse {});
    }
    let limits = [Defect::NodeUnstageRefusesPathsOf128Bytes, Defect::NodeUnstageRefusesLongPaths];
    check_lengths(driver, &[&request.staging_target_path], limits)?;
    if has(Defect::NodeUnstageRefusesRepeats) && !is_staged(driver, request) {
        return Err(Status::failed_precondition("the volume is not staged"));
    }
    if has(Defect::RestartRefusesUnstaging) && driver.has_inherited(&request.staging_target_path) {
        return Err(Status::internal("the staging path is not in the table of mounts"));
    }
    check_attached(driver, request)?;
    let unstaging = IfGivenUp::new(|| unstaging_given_up(driver, request));
    let answer = node::node_unstage_volume(driver, request).await;
    unstaging.answered();
    answer
}

/// Returns whether the volume is staged at the path. Also true for unknown volumes and empty paths, which the handler
/// judges.
fn is_staged(driver: &MockDriver, request: &NodeUnstageVolumeRequest) -> bool {
    let (state, path) = (driver.state(), &request.staging_target_path);
    let volume = state.volumes.get(&request.volume_id);
    path.is_empty() || volume.is_none_or(|volume| volume.on(driver.this_node()).staged.contains_key(path))
}
