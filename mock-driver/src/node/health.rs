//! NodeGetVolumeHealth and NodeGetStorageHealth.

use csi_proto::v1;
use tonic::Status;

use super::{find_volume, not_found, target};
use crate::driver::MockDriver;
use crate::health;

pub(crate) async fn node_get_volume_health(
    driver: &MockDriver,
    request: &v1::NodeGetVolumeHealthRequest,
) -> Result<v1::NodeGetVolumeHealthResponse, Status> {
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    let path = request.volume_publish_path.as_str();
    let paths = [("volume_publish_path", path), ("staging_target_path", &request.staging_target_path)];
    for (field, given) in paths.into_iter().filter(|(_, given)| !given.is_empty()) {
        target::path(field, given)?;
    }
    let state = driver.state();
    let volume = find_volume(driver, &state, &request.volume_id, path);
    let volume = volume.ok_or_else(|| not_found(&request.volume_id))?;
    let mut volume_health = health::on_this_node(driver, volume, path)?;
    volume_health.volume_id.clone_from(&request.volume_id);
    Ok(v1::NodeGetVolumeHealthResponse { volume_health: Some(volume_health) })
}

pub(crate) async fn node_get_storage_health(
    driver: &MockDriver,
    _: &v1::NodeGetStorageHealthRequest,
) -> Result<v1::NodeGetStorageHealthResponse, Status> {
    Ok(v1::NodeGetStorageHealthResponse { backend_health: health::of_storage(driver)? })
}
