//! ValidateVolumeCapabilities.

use csi_proto::v1::validate_volume_capabilities_response::Confirmed;
use csi_proto::v1::{ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse};

use crate::capability::Capability;
use crate::driver::{Driver, required};
use crate::error::Result;
use crate::store::Volume;

pub(crate) fn validate_volume_capabilities(
    driver: &Driver,
    request: &ValidateVolumeCapabilitiesRequest,
) -> Result<ValidateVolumeCapabilitiesResponse> {
    required("volume_id", &request.volume_id)?;
    let capabilities = Capability::required_list(&request.volume_capabilities)?;
    let volume = driver.volume(&driver.store.view()?, &request.volume_id)?;
    match mismatch(driver, &volume, &capabilities, request) {
        Some(message) => Ok(ValidateVolumeCapabilitiesResponse { confirmed: None, message }),
        None => {
            let confirmed = Confirmed {
                volume_context: request.volume_context.clone(),
                volume_capabilities: request.volume_capabilities.clone(),
                parameters: request.parameters.clone(),
                mutable_parameters: request.mutable_parameters.clone(),
            };
            Ok(ValidateVolumeCapabilitiesResponse { confirmed: Some(confirmed), message: String::new() })
        }
    }
}

/// The difference between the volume and the description in the request. Empty maps are not compared, since the
/// caller has left them out.
fn mismatch(
    driver: &Driver,
    volume: &Volume,
    capabilities: &[Capability],
    request: &ValidateVolumeCapabilitiesRequest,
) -> Option<String> {
    let parameters = &request.parameters;
    let mutable = &request.mutable_parameters;
    if !parameters.is_empty() && *parameters != volume.parameters {
        return Some("the volume was made with other parameters".to_owned());
    }
    if mutable.iter().any(|(key, value)| volume.mutable_parameters.get(key) != Some(value)) {
        return Some("the volume has other mutable_parameters".to_owned());
    }
    let context = super::volume_context(volume);
    if request.volume_context.iter().any(|(key, value)| context.get(key).is_some_and(|ours| ours != value)) {
        return Some("the volume has another volume_context".to_owned());
    }
    capabilities.iter().find_map(|capability| capability.unfit_for(volume, &driver.host_fs_type))
}
