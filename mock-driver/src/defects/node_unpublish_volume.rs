//! NodeUnpublishVolume.

use csi_proto::v1::{NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse};
use tonic::{Code, Status};

use super::side_effects::after_rejected_node_unpublish;
use super::{check_lengths, host, recode};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::node;

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
    reject(driver, request)?;
    let mut answer = node::node_unpublish_volume(driver, request).await;
    if answer.is_err() {
        after_rejected_node_unpublish(driver, request);
    }
    if has(Defect::NodeUnpublishUnknownAsInternal) {
        recode(&mut answer, Code::NotFound, Code::Internal);
    }
    answer
}

fn reject(driver: &MockDriver, request: &NodeUnpublishVolumeRequest) -> Result<(), Status> {
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
