//! NodeUnstageVolume.

use csi_proto::v1::{NodeUnstageVolumeRequest, NodeUnstageVolumeResponse};
use tonic::{Code, Status};

use super::overlap::Unstaging;
use super::side_effects::check_attached;
use super::{check_lengths, host, recode};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::node;

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
    let unstaging = Unstaging::watch(driver, request);
    let mut answer = node::node_unstage_volume(driver, request).await;
    unstaging.answered();
    if has(Defect::NodeUnstageUnknownAsInternal) {
        recode(&mut answer, Code::NotFound, Code::Internal);
    }
    answer
}

/// Returns whether the volume is staged at the path. Also true for unknown volumes and empty paths, which the handler
/// judges.
fn is_staged(driver: &MockDriver, request: &NodeUnstageVolumeRequest) -> bool {
    let (state, path) = (driver.state(), &request.staging_target_path);
    let volume = state.volumes.get(&request.volume_id);
    path.is_empty() || volume.is_none_or(|volume| volume.on(driver.this_node()).staged.contains_key(path))
}
