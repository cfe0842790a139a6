//! ControllerListVolumeHealth and ControllerGetVolumeHealth.

use csi_proto::health::Side;
use csi_proto::v1::{
    ControllerGetVolumeHealthRequest, ControllerGetVolumeHealthResponse, ControllerListVolumeHealthRequest,
    ControllerListVolumeHealthResponse, VolumeHealth,
};

use super::paging::Page;
use crate::driver::Driver;
use crate::error::Result;
use crate::health;
use crate::ids::ObjectKind;
use crate::store::Volume;

/// The number of records that are read at a time. Most volumes are healthy and appear on no page, so this does not
/// depend on the page size.
const FETCHED: usize = 1000;

pub(crate) fn controller_list_volume_health(
    driver: &Driver,
    request: &ControllerListVolumeHealthRequest,
) -> Result<ControllerListVolumeHealthResponse> {
    let page = Page::read(ObjectKind::Volume, request.max_entries, &request.starting_token)?;
    let view = driver.store.view()?;
    let mut unhealthy = Vec::new();
    let mut after = page.after.to_owned();
    while unhealthy.len() < page.fetch_count() {
        let volumes = view.volumes_after(&after, FETCHED)?;
        let Some(last) = volumes.last() else { break };
        after = last.key.to_string();
        for volume in volumes {
            let health = of_volume(driver, &volume)?;
            if !health.health_statuses.is_empty() {
                unhealthy.push((volume, health));
            }
        }
    }
    let next_token = page.truncate(&mut unhealthy, |(volume, _)| &volume.key);
    let entries = unhealthy.into_iter().map(|(_, health)| health).collect();
    Ok(ControllerListVolumeHealthResponse { entries, next_token })
}

pub(crate) fn controller_get_volume_health(
    driver: &Driver,
    request: &ControllerGetVolumeHealthRequest,
) -> Result<ControllerGetVolumeHealthResponse> {
    let volume = driver.volume(&driver.store.view()?, &request.volume_id)?;
    Ok(ControllerGetVolumeHealthResponse { volume_health: Some(of_volume(driver, &volume)?) })
}

fn of_volume(driver: &Driver, volume: &Volume) -> Result<VolumeHealth> {
    health::of_volume(driver, volume, Side::Controller, health::of_data(driver, volume))
}
