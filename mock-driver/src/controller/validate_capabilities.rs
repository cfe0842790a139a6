//! ValidateVolumeCapabilities.

use csi_proto::v1;
use csi_proto::v1::validate_volume_capabilities_response::Confirmed;
use tonic::Status;

use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{Usage, Volume};
use crate::validate;

pub(crate) async fn validate_volume_capabilities(
    driver: &MockDriver,
    request: &v1::ValidateVolumeCapabilitiesRequest,
) -> Result<v1::ValidateVolumeCapabilitiesResponse, Status> {
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    let usages = validate::usages(&request.volume_capabilities)?;
    for (field, map) in [
        ("volume_context", &request.volume_context),
        ("parameters", &request.parameters),
        ("mutable_parameters", &request.mutable_parameters),
    ] {
        validate::map(field, map)?;
    }
    let state = driver.state();
    let volume = state.volumes.get(&request.volume_id);
    let volume =
        volume.ok_or_else(|| Status::not_found(format!("volume {} does not exist", request.volume_id)))?;
    Ok(match objection(driver, volume, request, &usages) {
        None => confirmed(driver, request),
        Some(message) => v1::ValidateVolumeCapabilitiesResponse { confirmed: None, message },
    })
}

/// The difference between the volume and the description in the request.
fn objection(
    driver: &MockDriver,
    volume: &Volume,
    request: &v1::ValidateVolumeCapabilitiesRequest,
    usages: &[Usage],
) -> Option<String> {
    if let Some(why) = usages.iter().find_map(|usage| driver.supports(usage).err()) {
        return Some(why);
    }
    if !usages.iter().all(|usage| volume.covers(usage)) {
        return Some("the volume was not made for this volume_capability".to_owned());
    }
    if let Err(status) = super::publish_volume::check_context(driver, volume, &request.volume_context) {
        return Some(status.message().to_owned());
    }
    if !request.parameters.is_empty() && volume.name.is_some() && request.parameters != volume.parameters {
        return Some("the volume was made with other parameters".to_owned());
    }
    None
}

pub(crate) fn confirmed(
    driver: &MockDriver,
    request: &v1::ValidateVolumeCapabilitiesRequest,
) -> v1::ValidateVolumeCapabilitiesResponse {
    let mut confirmed = Confirmed {
        volume_context: request.volume_context.clone(),
        volume_capabilities: request.volume_capabilities.clone(),
        parameters: request.parameters.clone(),
        mutable_parameters: request.mutable_parameters.clone(),
    };
    if driver.is(Quirk::ConfirmedWithoutMaps) {
        confirmed = Confirmed { volume_capabilities: confirmed.volume_capabilities, ..Confirmed::default() };
    }
    v1::ValidateVolumeCapabilitiesResponse { confirmed: Some(confirmed), message: String::new() }
}
