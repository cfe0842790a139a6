//! GetCapacity.

use csi_proto::v1::{GetCapacityRequest, GetCapacityResponse};
use tonic::Status;

use super::drop_unknown;
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::validate;

pub(crate) async fn get_capacity(
    driver: &MockDriver,
    asked: &GetCapacityRequest,
) -> Result<GetCapacityResponse, Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::GetCapacityFails) {
        return Err(Status::internal("the backend does not tell"));
    }
    let mut request = asked.clone();
    if has(Defect::GetCapacityIgnoresCapabilities) {
        request.volume_capabilities.retain(|capability| validate::usage(capability).is_err());
    }
    if has(Defect::GetCapacityIgnoresParameters) {
        drop_unknown(&mut request.parameters, &driver.config.parameters);
    }
    if has(Defect::GetCapacityIgnoresTopology) {
        request.accessible_topology = None;
    }
    let mut response = controller::get_capacity(driver, &request).await?;
    corrupt_reply(driver, &mut response);
    Ok(response)
}

fn corrupt_reply(driver: &MockDriver, response: &mut GetCapacityResponse) {
    let has = |defect| driver.has(defect);
    if has(Defect::GetCapacityNegative) {
        response.available_capacity = -1;
    }
    if has(Defect::GetCapacityConstant) {
        response.available_capacity = driver.config.capacity_bytes;
    }
    if has(Defect::GetCapacityHidesSizeLimits) {
        response.maximum_volume_size = None;
        response.minimum_volume_size = None;
    }
    if has(Defect::GetCapacityMaximumNegative) {
        response.maximum_volume_size = Some(-1);
    }
    if has(Defect::GetCapacityMinimumNegative) {
        response.minimum_volume_size = Some(-1);
    }
    if has(Defect::GetCapacityMinimumAboveMaximum) {
        response.minimum_volume_size = response.maximum_volume_size.map(|maximum| maximum + 1);
    }
    if has(Defect::GetCapacityMaximumTooSmall) {
        response.maximum_volume_size = response.minimum_volume_size;
    }
}
