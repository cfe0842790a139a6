//! ValidateVolumeCapabilities.

use csi_proto::v1::validate_volume_capabilities_response::Confirmed;
use csi_proto::v1::{ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse};
use tonic::{Code, Status};

use super::volume::made_for;
use super::volume_not_found;
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::validate;

pub(crate) async fn validate_volume_capabilities(
    driver: &MockDriver,
    original: &ValidateVolumeCapabilitiesRequest,
) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::ValidateEmptyIdAsNotFound) && original.volume_id.is_empty() {
        return Err(volume_not_found(""));
    }
    let request = alter_request(driver, original);
    let mut answer = match request.volume_capabilities.is_empty() {
        true if !original.volume_capabilities.is_empty()
            || has(Defect::ValidateAcceptsMissingCapabilities) =>
        {
            Ok(controller::confirmed(driver, original))
        }
        _ => controller::validate_volume_capabilities(driver, &request).await,
    };
    let unknown = answer.as_ref().is_err_and(|status| status.code() == Code::NotFound);
    if has(Defect::ValidateUnknownVolumeOk) && unknown {
        answer = Ok(unconfirmed("the volume does not exist"));
    }
    if has(Defect::ValidateUnknownVolumeConfirmed) && unknown {
        answer = Ok(controller::confirmed(driver, original));
    }
    let mut response = answer?;
    match &mut response.confirmed {
        Some(_) if has(Defect::ValidateVerdictChanges) && driver.next_number() % 2 == 1 => {
            return Ok(unconfirmed("not this time"));
        }
        Some(_) if has(Defect::ValidateNeverConfirms) => return Ok(unconfirmed("not sure")),
        Some(confirmed) => corrupt_reply(driver, original, confirmed),
        None if has(Defect::ValidateConfirmsEverything) => {
            return Ok(controller::confirmed(driver, original));
        }
        None if has(Defect::ValidateUnsupportedAsInternal) => return Err(Status::internal(response.message)),
        None => {}
    }
    Ok(response)
}

/// Removes the capabilities that a defect does not check from the request.
fn alter_request(
    driver: &MockDriver,
    original: &ValidateVolumeCapabilitiesRequest,
) -> ValidateVolumeCapabilitiesRequest {
    let has = |defect| driver.has(defect);
    let mut request = original.clone();
    let capabilities = &mut request.volume_capabilities;
    if has(Defect::ValidateAcceptsMissingAccessType) {
        capabilities.retain(|capability| capability.access_type.is_some());
    }
    if has(Defect::ValidateAcceptsUnknownAccessMode) {
        capabilities.retain(|capability| capability.access_mode.is_some_and(|access| access.mode != 0));
    }
    if has(Defect::ValidateChecksFirstCapabilityOnly) {
        capabilities.truncate(1);
    }
    if has(Defect::ValidateIgnoresVolume) {
        let made_for = made_for(driver, &original.volume_id);
        for capability in capabilities {
            let supported = validate::usage(capability).is_ok_and(|usage| driver.supports(&usage).is_ok());
            if let Some(made_for) = made_for.clone().filter(|_| supported) {
                *capability = made_for;
            }
        }
    }
    request
}

fn unconfirmed(message: &str) -> ValidateVolumeCapabilitiesResponse {
    ValidateVolumeCapabilitiesResponse { confirmed: None, message: message.to_owned() }
}

fn corrupt_reply(
    driver: &MockDriver,
    original: &ValidateVolumeCapabilitiesRequest,
    confirmed: &mut Confirmed,
) {
    confirmed.volume_capabilities = original.volume_capabilities.clone();
    if driver.has(Defect::ValidateConfirmsWithoutCapabilities) {
        confirmed.volume_capabilities.clear();
    }
    if driver.has(Defect::ValidateConfirmsOtherCapabilities) {
        confirmed.volume_capabilities.iter_mut().for_each(|one| one.access_type = None);
    }
    if driver.has(Defect::ValidateConfirmsOtherContext) {
        confirmed.volume_context.insert("confirmed".to_owned(), "yes".to_owned());
    }
}
