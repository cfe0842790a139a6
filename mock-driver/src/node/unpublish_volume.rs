//! NodeUnpublishVolume.

use csi_proto::v1;
use tonic::Status;

use super::{not_found, target};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;

pub(crate) async fn node_unpublish_volume(
    driver: &MockDriver,
    request: &v1::NodeUnpublishVolumeRequest,
) -> Result<v1::NodeUnpublishVolumeResponse, Status> {
    let done = Ok(v1::NodeUnpublishVolumeResponse {});
    if request.volume_id.is_empty() && driver.has(Defect::NodeUnpublishAcceptsEmptyId) {
        return done;
    }
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    if request.target_path.is_empty() && driver.has(Defect::NodeUnpublishAcceptsMissingPath) {
        return done;
    }
    let path = target::path("target_path", &request.target_path)?;
    target::length(
        driver,
        path,
        [Defect::NodeUnpublishRefusesPathsOf128Bytes, Defect::NodeUnpublishRefusesLongPaths],
    )?;
    let mut state = driver.state();
    let Some(volume) = state.volumes.get_mut(&request.volume_id) else {
        if driver.has(Defect::NodeUnpublishUnknownAsInternal) {
            return Err(Status::internal("the volume has no record"));
        }
        return if driver.is(Quirk::NodeUnpublishUnknownOk) || driver.is(Quirk::StatelessNode) {
            done
        } else {
            Err(not_found(&request.volume_id))
        };
    };
    let here = volume.on_mut(driver.this_node());
    let Some(publication) = here.published.get(path) else {
        if driver.has(Defect::NodeUnpublishRefusesRepeats) {
            return Err(Status::not_found("nothing is published there"));
        }
        return done;
    };
    if driver.has(Defect::NodeUnpublishFailsOnBlock) && publication.usage.is_block() {
        return Err(Status::internal("rmdir: not a directory"));
    }
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
    done
}
