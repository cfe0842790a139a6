//! The Identity service.

use csi_proto::v1::plugin_capability::{Service, Type};
use csi_proto::v1::{self};
use tonic::Status;

use crate::driver::MockDriver;
use crate::quirk::Quirk;

/// The number of a capability that no release defines yet.
pub(crate) const FUTURE_TYPE: i32 = 4242;

pub(crate) async fn get_plugin_info(
    driver: &MockDriver,
    _: &v1::GetPluginInfoRequest,
) -> Result<v1::GetPluginInfoResponse, Status> {
    Ok(v1::GetPluginInfoResponse {
        name: driver.config.driver_name.clone(),
        vendor_version: driver.config.vendor_version.clone(),
        manifest: [("backend".to_owned(), "memory".to_owned())].into(),
    })
}

pub(crate) async fn get_plugin_capabilities(
    driver: &MockDriver,
    _: &v1::GetPluginCapabilitiesRequest,
) -> Result<v1::GetPluginCapabilitiesResponse, Status> {
    if driver.is(Quirk::NoPluginCapabilities) {
        return Ok(v1::GetPluginCapabilitiesResponse::default());
    }
    let mut capabilities = driver.capabilities.plugin();
    if driver.is(Quirk::FutureCapability) {
        capabilities.push(service(FUTURE_TYPE));
    }
    Ok(v1::GetPluginCapabilitiesResponse { capabilities })
}

pub(crate) fn service(r#type: i32) -> v1::PluginCapability {
    v1::PluginCapability { r#type: Some(Type::Service(Service { r#type })) }
}

pub(crate) async fn probe(driver: &MockDriver, _: &v1::ProbeRequest) -> Result<v1::ProbeResponse, Status> {
    Ok(v1::ProbeResponse { ready: (!driver.is(Quirk::ProbeReadyUnset)).then_some(true) })
}
