//! DeleteVolume.

use csi_proto::v1::{DeleteVolumeRequest, DeleteVolumeResponse};
use tonic::{Code, Status};

use super::{host, recode};
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;

pub(crate) async fn delete_volume(
    driver: &MockDriver,
    asked: &DeleteVolumeRequest,
) -> Result<DeleteVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    host::before_delete_volume(driver, asked);
    let mut request = asked.clone();
    misread(driver, &mut request);
    let id = &request.volume_id;
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
    let mut answer = controller::delete_volume(driver, &request).await;
    if has(Defect::DeleteVolumeInUseAsInternal) {
        recode(&mut answer, Code::FailedPrecondition, Code::Internal);
    }
    answer
}

/// Takes the id for another one.
fn misread(driver: &MockDriver, request: &mut DeleteVolumeRequest) {
    if driver.has(Defect::DeleteVolumeTrimsIds) {
        let id = request.volume_id.trim_matches(|c: char| c.is_whitespace() || c == '/');
        request.volume_id = id.to_owned();
    }
    if driver.has(Defect::DeleteVolumeMatchesBeginnings) {
        let state = driver.state();
        let mut ids = state.volumes.values().map(|volume| &volume.id);
        if let Some(id) = ids.find(|id| request.volume_id.starts_with(id.as_str())) {
            request.volume_id.clone_from(id);
        }
    }
}
