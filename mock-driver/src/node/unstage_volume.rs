//! NodeUnstageVolume.

use csi_proto::v1;
use tonic::Status;

use super::{not_found, target};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;

pub(crate) async fn node_unstage_volume(
    driver: &MockDriver,
    request: &v1::NodeUnstageVolumeRequest,
) -> Result<v1::NodeUnstageVolumeResponse, Status> {
    let done = Ok(v1::NodeUnstageVolumeResponse {});
    if request.volume_id.is_empty() && driver.has(Defect::NodeUnstageAcceptsEmptyId) {
        return done;
    }
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    if request.staging_target_path.is_empty() && driver.has(Defect::NodeUnstageAcceptsMissingPath) {
        return done;
    }
    let path = target::path("staging_target_path", &request.staging_target_path)?;
    target::length(
        driver,
        path,
        [Defect::NodeUnstageRefusesPathsOf128Bytes, Defect::NodeUnstageRefusesLongPaths],
    )?;
    let mut state = driver.state();
    let Some(volume) = state.volumes.get_mut(&request.volume_id) else {
        if driver.has(Defect::NodeUnstageUnknownAsInternal) {
            return Err(Status::internal("the volume has no record"));
        }
        return if driver.is(Quirk::NodeUnstageUnknownOk) || driver.is(Quirk::StatelessNode) {
            done
        } else {
            Err(not_found(&request.volume_id))
        };
    };
    let here = volume.on_mut(driver.this_node());
    if !here.staged.contains_key(path) {
        if driver.has(Defect::NodeUnstageRefusesRepeats) {
            return Err(Status::failed_precondition("the volume is not staged"));
        }
        return done;
    }
    if !here.published.is_empty() && !driver.has(Defect::NodeUnstageIgnoresPublished) {
        return Err(Status::failed_precondition("the volume is still published on this node"));
    }
    if !driver.has(Defect::NodeUnstageKeepsStaging) {
        here.staged.remove(path);
    }
    done
}
