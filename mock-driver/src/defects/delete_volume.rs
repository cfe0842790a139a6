//! DeleteVolume.

use csi_proto::v1::{DeleteVolumeRequest, DeleteVolumeResponse};
use tonic::{Code, Status};

use super::recode;
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;

pub(crate) async fn delete_volume(
    driver: &MockDriver,
    request: &DeleteVolumeRequest,
) -> Result<DeleteVolumeResponse, Status> {
    let (id, has) = (&request.volume_id, |defect| driver.has(defect));
    if has(Defect::DeleteVolumeAcceptsEmptyId) && id.is_empty() {
        return Ok(DeleteVolumeResponse {});
    }
    if has(Defect::DeleteVolumeCrashesOnPaths) && id.contains("..") {
        driver.crash("DeleteVolume");
    }
    let known = driver.state().volumes.get(id).is_some();
    if has(Defect::DeleteVolumeUnknownNotFound) && !known && !id.is_empty() {
        return Err(Status::not_found(format!("volume {id} does not exist")));
    }
    if has(Defect::DeleteVolumeUnknownInternal) && !known && !id.is_empty() {
        return Err(Status::internal("unlink: no such file or directory"));
    }
    if has(Defect::DeleteVolumeWithSnapshotsAsInternal)
        && !controller::snapshots_of(&driver.state(), id).is_empty()
    {
        return Err(Status::internal("dataset has children"));
    }
    let mut answer = controller::delete_volume(driver, request).await;
    if has(Defect::DeleteVolumeInUseAsInternal) {
        recode(&mut answer, Code::FailedPrecondition, Code::Internal);
    }
    answer
}
