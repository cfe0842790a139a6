//! ValidateVolumeCapabilities.

use csi_proto::v1;
use csi_proto::v1::validate_volume_capabilities_response::Confirmed;
use tonic::Status;

use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{Usage, Volume};
use crate::validate;

pub(crate) async fn validate_volume_capabilities(
    driver: &MockDriver,
    request: &v1::ValidateVolumeCapabilitiesRequest,
) -> Result<v1::ValidateVolumeCapabilitiesResponse, Status> {
    if !(request.volume_id.is_empty() && driver.has(Defect::ValidateEmptyIdAsNotFound)) {
        driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    }
    let usages = match driver.has(Defect::ValidateAcceptsMissingCapabilities) {
        true if request.volume_capabilities.is_empty() => Vec::new(),
        _ => usages(driver, request)?,
    };
    for (field, map) in [
        ("volume_context", &request.volume_context),
        ("parameters", &request.parameters),
        ("mutable_parameters", &request.mutable_parameters),
    ] {
        validate::map(field, map)?;
    }
    let state = driver.state();
    let Some(volume) = state.volumes.get(&request.volume_id) else {
        if driver.has(Defect::ValidateUnknownVolumeOk) {
            return Ok(unconfirmed("the volume does not exist".to_owned()));
        }
        if driver.has(Defect::ValidateUnknownVolumeConfirmed) {
            return Ok(confirmed(driver, request));
        }
        return Err(Status::not_found(format!("volume {} does not exist", request.volume_id)));
    };
    match objection(driver, volume, request, &usages) {
        None if driver.has(Defect::ValidateVerdictChanges) && driver.another_number() % 2 == 1 => {
            Ok(unconfirmed("not this time".to_owned()))
        }
        None if driver.has(Defect::ValidateNeverConfirms) => Ok(unconfirmed("not sure".to_owned())),
        None => Ok(confirmed(driver, request)),
        Some(_) if driver.has(Defect::ValidateConfirmsEverything) => Ok(confirmed(driver, request)),
        Some(why) if driver.has(Defect::ValidateUnsupportedAsInternal) => Err(Status::internal(why)),
        Some(why) => Ok(unconfirmed(why)),
    }
}

fn usages(
    driver: &MockDriver,
    request: &v1::ValidateVolumeCapabilitiesRequest,
) -> Result<Vec<Usage>, Status> {
    let mut capabilities = request.volume_capabilities.clone();
    if driver.has(Defect::ValidateAcceptsMissingAccessType) {
        capabilities.retain(|capability| capability.access_type.is_some());
        if capabilities.is_empty() {
            return Ok(Vec::new());
        }
    }
    if driver.has(Defect::ValidateAcceptsUnknownAccessMode) {
        capabilities.retain(|capability| capability.access_mode.is_some_and(|access| access.mode != 0));
        if capabilities.is_empty() {
            return Ok(Vec::new());
        }
    }
    validate::usages(&capabilities)
}

/// Why the volume is not what the request describes.
fn objection(
    driver: &MockDriver,
    volume: &Volume,
    request: &v1::ValidateVolumeCapabilitiesRequest,
    usages: &[Usage],
) -> Option<String> {
    let checked = if driver.has(Defect::ValidateChecksFirstCapabilityOnly) { 1 } else { usages.len() };
    for usage in usages.iter().take(checked) {
        if let Err(why) = driver.supports(usage) {
            return Some(why);
        }
        if !volume.covers(usage) && !driver.has(Defect::ValidateIgnoresVolume) {
            return Some("the volume was not made for this volume_capability".to_owned());
        }
    }
    if let Err(status) = super::publish_volume::check_context(driver, volume, &request.volume_context) {
        return Some(status.message().to_owned());
    }
    if !request.parameters.is_empty() && volume.name.is_some() && request.parameters != volume.parameters {
        return Some("the volume was made with other parameters".to_owned());
    }
    None
}

fn unconfirmed(message: String) -> v1::ValidateVolumeCapabilitiesResponse {
    v1::ValidateVolumeCapabilitiesResponse { confirmed: None, message }
}

fn confirmed(
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
    if driver.has(Defect::ValidateConfirmsWithoutCapabilities) {
        confirmed.volume_capabilities.clear();
    }
    if driver.has(Defect::ValidateConfirmsOtherCapabilities) {
        confirmed.volume_capabilities.iter_mut().for_each(|one| one.access_type = None);
    }
    if driver.has(Defect::ValidateConfirmsOtherContext) {
        confirmed.volume_context.insert("confirmed".to_owned(), "yes".to_owned());
    }
    v1::ValidateVolumeCapabilitiesResponse { confirmed: Some(confirmed), message: String::new() }
}
