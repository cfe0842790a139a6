//! ControllerListVolumeHealth.

use std::collections::BTreeMap;

use csi_proto::health::Side;
use csi_proto::v1;
use tonic::Status;

use super::page;
use crate::driver::MockDriver;
use crate::health;
use crate::state::List;
use crate::validate;

pub(crate) async fn controller_list_volume_health(
    driver: &MockDriver,
    request: &v1::ControllerListVolumeHealthRequest,
) -> Result<v1::ControllerListVolumeHealthResponse, Status> {
    let max_entries = validate::not_negative("max_entries", request.max_entries)?;
    let state = driver.state();
    let mut unhealthy = BTreeMap::new();
    for volume in state.volumes.values() {
        let health = health::of_volume(driver, volume, Side::Controller)?;
        if !health.health_statuses.is_empty() {
            unhealthy.insert(volume.id.clone(), health);
        }
    }
    let token = &request.starting_token;
    let is_unhealthy = |volume: &crate::state::Volume| unhealthy.contains_key(&volume.id);
    let listed = page::page(driver, List::Health, &state.volumes, token, max_entries, is_unhealthy)?;
    let entries = listed.rows.iter().filter_map(|volume| unhealthy.get(&volume.id).cloned()).collect();
    Ok(v1::ControllerListVolumeHealthResponse { entries, next_token: listed.next_token })
}
