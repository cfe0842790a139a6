//! ControllerGetVolume.

use csi_proto::v1::controller_get_volume_response::VolumeStatus;
use csi_proto::v1::{ControllerGetVolumeRequest, ControllerGetVolumeResponse};

use super::{published_node_ids, volume_message};
use crate::driver::Driver;
use crate::error::Result;
use crate::health;

pub(crate) fn controller_get_volume(
    driver: &Driver,
    request: &ControllerGetVolumeRequest,
) -> Result<ControllerGetVolumeResponse> {
    let volume = driver.volume(&driver.store.view()?, &request.volume_id)?;
    let status = VolumeStatus {
        published_node_ids: published_node_ids(driver, &volume),
        volume_condition: Some(health::condition(health::of_data(driver, &volume).as_ref())),
    };
    Ok(ControllerGetVolumeResponse { volume: Some(volume_message(driver, &volume)), status: Some(status) })
}
