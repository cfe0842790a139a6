//! GetCapacity.

use csi_proto::v1;
use tonic::Status;

use super::placement;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::validate;

pub(crate) async fn get_capacity(
    driver: &MockDriver,
    request: &v1::GetCapacityRequest,
) -> Result<v1::GetCapacityResponse, Status> {
    if driver.has(Defect::GetCapacityFails) {
        return Err(Status::internal("the backend does not tell"));
    }
    validate::map("parameters", &request.parameters)?;
    let possible = can_be_had(driver, request)?;
    let state = driver.state();
    let mut available: i64 = if possible {
        zones(driver, request)
            .map(|zone| placement::free_bytes(driver, &state, zone))
            .fold(0, i64::saturating_add)
    } else {
        0
    };
    if driver.has(Defect::GetCapacityNegative) {
        available = -1;
    }
    if driver.has(Defect::GetCapacityConstant) {
        available = driver.config.capacity_bytes;
    }
    let limited =
        possible && !driver.is(Quirk::NoSizeLimits) && !driver.has(Defect::GetCapacityHidesSizeLimits);
    let mut response = v1::GetCapacityResponse {
        available_capacity: available,
        maximum_volume_size: limited.then_some(driver.config.volume_size_bytes_max),
        minimum_volume_size: limited.then_some(driver.config.volume_size_bytes_min),
    };
    if driver.has(Defect::GetCapacityMaximumNegative) {
        response.maximum_volume_size = Some(-1);
    }
    if driver.has(Defect::GetCapacityMinimumNegative) {
        response.minimum_volume_size = Some(-1);
    }
    if driver.has(Defect::GetCapacityMinimumAboveMaximum) {
        response.minimum_volume_size = response.maximum_volume_size.map(|maximum| maximum + 1);
    }
    if driver.has(Defect::GetCapacityMaximumTooSmall) {
        response.maximum_volume_size = response.minimum_volume_size;
    }
    Ok(response)
}

/// Whether there can be any volume with these capabilities and parameters.
fn can_be_had(driver: &MockDriver, request: &v1::GetCapacityRequest) -> Result<bool, Status> {
    for capability in &request.volume_capabilities {
        let usage = validate::usage(capability)?;
        if driver.supports(&usage).is_err() && !driver.has(Defect::GetCapacityIgnoresCapabilities) {
            return Ok(false);
        }
    }
    let known = &driver.config.parameters;
    let ignored =
        driver.is(Quirk::UnknownParametersIgnored) || driver.has(Defect::GetCapacityIgnoresParameters);
    Ok(ignored || validate::known_parameters("parameters", &request.parameters, known).is_ok())
}

/// The zones that count.
fn zones(driver: &MockDriver, request: &v1::GetCapacityRequest) -> impl Iterator<Item = usize> {
    let ignored = driver.has(Defect::GetCapacityIgnoresTopology) || !driver.has_topology();
    let topology = request.accessible_topology.clone().filter(|_| !ignored);
    let zones = driver.zones.clone();
    (0..zones.len()).filter(move |zone| {
        topology.as_ref().is_none_or(|topology| placement::contains(&zones[*zone], &topology.segments))
    })
}
