//! GetCapacity.

use csi_proto::v1;
use tonic::Status;

use super::placement;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::Map;
use crate::validate;

pub(crate) async fn get_capacity(
    driver: &MockDriver,
    request: &v1::GetCapacityRequest,
) -> Result<v1::GetCapacityResponse, Status> {
    validate::map("parameters", &request.parameters)?;
    if !can_be_had(driver, request)? {
        return Ok(v1::GetCapacityResponse::default());
    }
    let state = driver.state();
    let free = zones(driver, request).map(|zone| placement::free_bytes(driver, &state, zone));
    let limited = !driver.is(Quirk::NoSizeLimits);
    Ok(v1::GetCapacityResponse {
        available_capacity: free.fold(0, i64::saturating_add),
        maximum_volume_size: limited.then_some(driver.config.volume_size_bytes_max),
        minimum_volume_size: limited.then_some(driver.config.volume_size_bytes_min),
    })
}

/// Returns whether a volume with these capabilities and parameters is possible.
fn can_be_had(driver: &MockDriver, request: &v1::GetCapacityRequest) -> Result<bool, Status> {
    for capability in &request.volume_capabilities {
        if driver.supports(&validate::usage(capability)?).is_err() {
            return Ok(false);
        }
    }
    let known = &driver.config.parameters;
    let ignored = driver.is(Quirk::UnknownParametersIgnored);
    Ok(ignored || validate::known_parameters("parameters", &request.parameters, known).is_ok())
}

/// The zones whose storage the request asks about.
fn zones(driver: &MockDriver, request: &v1::GetCapacityRequest) -> impl Iterator<Item = usize> {
    let topology = request.accessible_topology.as_ref().filter(|_| driver.has_topology());
    let counts =
        move |zone: &Map| topology.is_none_or(|topology| placement::contains(zone, &topology.segments));
    driver.zones.iter().enumerate().filter(move |(_, zone)| counts(zone)).map(|(index, _)| index)
}
