//! ControllerGetVolumeHealth.

use csi_proto::v1::{
    ControllerGetVolumeHealthRequest, ControllerGetVolumeHealthResponse, VolumeHealth, VolumeHealthErrorType,
};
use tonic::Status;

use super::health::{corrupt_health, number_reasons};
use super::volume_not_found;
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::health::entry;

pub(crate) async fn controller_get_volume_health(
    driver: &MockDriver,
    original: &ControllerGetVolumeHealthRequest,
) -> Result<ControllerGetVolumeHealthResponse, Status> {
    let has = |defect| driver.has(defect);
    let id = &original.volume_id;
    if has(Defect::ControllerGetVolumeHealthEmptyIdAsNotFound) && id.is_empty() {
        return Err(volume_not_found(""));
    }
    let (known, used) = {
        let state = driver.state();
        let volume = state.volumes.get(id);
        (volume.is_some(), volume.is_some_and(|volume| volume.is_in_use_on_a_node()))
    };
    if has(Defect::ControllerGetVolumeHealthUnknownOk) && !known && !id.is_empty() {
        let well = VolumeHealth { volume_id: id.clone(), health_statuses: Vec::new() };
        return Ok(ControllerGetVolumeHealthResponse { volume_health: Some(well) });
    }
    if has(Defect::ControllerGetVolumeHealthRefusesUnpublished) && !used {
        return Err(volume_not_found(id));
    }
    let mut response = controller::controller_get_volume_health(driver, original).await?;
    if let Some(health) = &mut response.volume_health {
        corrupt_reply(driver, used, health);
    }
    if has(Defect::ControllerGetVolumeHealthAnswersLastAsked)
        && let Some(health) = response.volume_health.clone()
    {
        let last = driver.stale_health.lock().insert(String::new(), health);
        response.volume_health = last.or(response.volume_health);
    }
    if has(Defect::ControllerGetVolumeHealthWithoutHealth) {
        response.volume_health = None;
    }
    Ok(response)
}

fn corrupt_reply(driver: &MockDriver, used: bool, health: &mut VolumeHealth) {
    let has = |defect| driver.has(defect);
    corrupt_health(driver, health);
    let statuses = &mut health.health_statuses;
    if has(Defect::ControllerGetVolumeHealthInaccessibleWhenUsed) && used {
        statuses.push(entry(VolumeHealthErrorType::Inaccessible, "InUse", "the volume is in use"));
    }
    if has(Defect::ControllerGetVolumeHealthWarnsOfNew) && !used {
        statuses.push(entry(VolumeHealthErrorType::DataLoss, "NoReplica", "no replica has been made yet"));
    }
    if has(Defect::ControllerGetVolumeHealthChangesReasons) {
        number_reasons(driver, statuses);
    }
    if has(Defect::ControllerGetVolumeHealthForgets) && !statuses.is_empty() {
        let known = driver.stale_health.lock().insert(health.volume_id.clone(), VolumeHealth::default());
        if known.is_some() {
            statuses.clear();
        }
    }
    if has(Defect::ControllerGetVolumeHealthKeepsIll) {
        let mut stale_health = driver.stale_health.lock();
        let before = stale_health.get(&health.volume_id).map(|before| before.health_statuses.clone());
        match before {
            Some(before) if statuses.is_empty() => *statuses = before,
            _ if !statuses.is_empty() => drop(stale_health.insert(health.volume_id.clone(), health.clone())),
            _ => {}
        }
    }
    if has(Defect::ControllerGetVolumeHealthOtherId) {
        health.volume_id.push_str("-0");
    }
}
