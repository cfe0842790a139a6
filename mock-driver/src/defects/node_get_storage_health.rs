//! NodeGetStorageHealth.

use csi_proto::v1::{NodeGetStorageHealthRequest, NodeGetStorageHealthResponse};
use tonic::Status;

use super::health::corrupt_storage;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::node;

pub(crate) async fn node_get_storage_health(
    driver: &MockDriver,
    asked: &NodeGetStorageHealthRequest,
) -> Result<NodeGetStorageHealthResponse, Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::NodeGetStorageHealthNeedsAVolume) {
        let state = driver.state();
        if !state.volumes.values().any(|volume| volume.is_staged_or_published()) {
            return Err(Status::failed_precondition("no volume is in use"));
        }
    }
    let mut response = node::node_get_storage_health(driver, asked).await?;
    corrupt_storage(driver, &mut response.backend_health);
    if has(Defect::NodeGetStorageHealthNeverIll) {
        response.backend_health.clear();
    }
    Ok(response)
}
