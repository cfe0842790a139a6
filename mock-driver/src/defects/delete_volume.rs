//! DeleteVolume.

use csi_proto::v1::{DeleteVolumeRequest, DeleteVolumeResponse, VolumeHealth, VolumeHealthErrorType};
use tonic::Status;

use super::{host, is_all_dots};
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::health::entry;

pub(crate) async fn delete_volume(
    driver: &MockDriver,
    original: &DeleteVolumeRequest,
) -> Result<DeleteVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    host::before_delete_volume(driver, original);
    let mut request = original.clone();
    alter_request(driver, &mut request);
    let id = &request.volume_id;
    if has(Defect::DeleteVolumeAcceptsEmptyId) && id.is_empty() {
        return Ok(DeleteVolumeResponse {});
    }
    if has(Defect::DeleteVolumeCrashesOnPaths) && id.contains("..") {
        driver.crash("DeleteVolume");
    }
    let known = driver.state().volumes.get(id).is_some();
    if has(Defect::ControllerListVolumeHealthKeepsDeleted) && known {
        let gone = entry(VolumeHealthErrorType::Inaccessible, "VolumeNotFound", "");
        let gone = VolumeHealth { volume_id: id.clone(), health_statuses: vec![gone] };
        driver.stale_health.lock().insert(id.clone(), gone);
    }
    if has(Defect::DeleteVolumeUnknownNotFound) && !known && !id.is_empty() {
        return Err(Status::not_found(format!("volume {id} does not exist")));
    }
    if has(Defect::DeleteVolumeUnknownInternal) && !known && !id.is_empty() {
        return Err(Status::internal("unlink: no such file or directory"));
    }
    let name = driver.state().volumes.get(id).and_then(|volume| volume.name.clone()).unwrap_or_default();
    if has(Defect::DeleteVolumeRefusesOddNames) && name.contains([';', '|', '&', '$', '`']) {
        return Err(Status::internal("destroy: invalid name"));
    }
    if has(Defect::DeleteVolumeWithSnapshotsAsInternal)
        && !controller::snapshots_of(&driver.state(), id).is_empty()
    {
        return Err(Status::internal("dataset has children"));
    }
    if has(Defect::DeleteVolumeTakesDotsForAll) && is_all_dots(id) {
        for volume_id in ids_of_volumes(driver) {
            let one = DeleteVolumeRequest { volume_id, ..request.clone() };
            controller::delete_volume(driver, &one).await?;
        }
    }
    let place = driver.state().volumes.get(id).map(|volume| (volume.zone, volume.capacity_bytes));
    if has(Defect::DeleteVolumeTakesSnapshotIds) {
        driver.state().snapshots.remove(&request.volume_id);
    }
    let answer = controller::delete_volume(driver, &request).await;
    if let Some((zone, bytes)) = place.filter(|_| answer.is_ok() && has(Defect::DeleteVolumeKeepsStorage)) {
        driver.state().take_storage(zone, bytes);
    }
    answer
}

fn ids_of_volumes(driver: &MockDriver) -> Vec<String> {
    driver.state().volumes.values().map(|volume| volume.id.clone()).collect()
}

/// Changes the id to a different one.
fn alter_request(driver: &MockDriver, request: &mut DeleteVolumeRequest) {
    if driver.has(Defect::DeleteVolumeTrimsIds) {
        let id = request.volume_id.trim_matches(|c: char| c.is_whitespace() || c == '/');
        request.volume_id = id.to_owned();
    }
    let original = request.volume_id.clone();
    let mut take_for = |is_meant: &dyn Fn(&str) -> bool| {
        let state = driver.state();
        if let Some(found) = state.volumes.values().find(|volume| is_meant(&volume.id)) {
            request.volume_id.clone_from(&found.id);
        }
    };
    if driver.has(Defect::DeleteVolumeMatchesBeginnings) {
        take_for(&|id| original.starts_with(id));
    }
    if driver.has(Defect::DeleteVolumeCompletesIds) {
        take_for(&|id| id.starts_with(&original));
    }
    if driver.has(Defect::DeleteVolumeIgnoresLastLetters) {
        take_for(&|id| all_but_last(id) == all_but_last(&original));
    }
}

fn all_but_last(id: &str) -> &str {
    id.char_indices().next_back().map_or(id, |(last, _)| &id[..last])
}
