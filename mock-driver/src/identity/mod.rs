//! The Identity service.

use csi_proto::v1::plugin_capability::{Service, Type, VolumeExpansion};
use csi_proto::v1::{self, plugin_capability};
use tonic::Status;

use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;

/// Type number of a capability that no release defines yet.
pub(crate) const FUTURE_TYPE: i32 = 4242;

pub(crate) async fn get_plugin_info(
    driver: &MockDriver,
    _: &v1::GetPluginInfoRequest,
) -> Result<v1::GetPluginInfoResponse, Status> {
    if driver.has(Defect::GetPluginInfoFails) {
        return Err(Status::internal("the backend is away"));
    }
    let mut response = v1::GetPluginInfoResponse {
        name: driver.config.driver_name.clone(),
        vendor_version: driver.config.vendor_version.clone(),
        manifest: [("backend".to_owned(), "memory".to_owned())].into(),
    };
    if driver.has(Defect::GetPluginInfoNameEmpty) {
        response.name.clear();
    }
    if driver.has(Defect::GetPluginInfoNameWithSlash) {
        response.name = format!("{}/mock", response.name);
    }
    if driver.has(Defect::GetPluginInfoNameTooLong) {
        response.name = format!("{}.{}", "m".repeat(63), response.name);
    }
    if driver.has(Defect::GetPluginInfoNameEndsInDash) {
        response.name.push('-');
    }
    if driver.has(Defect::GetPluginInfoNameWithUnderscore) {
        response.name = format!("mock_{}", response.name);
    }
    if driver.has(Defect::GetPluginInfoNameWithoutHost) {
        response.name = "mock".to_owned();
    }
    if driver.has(Defect::GetPluginInfoNameChanges) {
        response.name = format!("m{}.{}", driver.another_number(), response.name);
    }
    if driver.has(Defect::GetPluginInfoVersionEmpty) {
        response.vendor_version.clear();
    }
    if driver.has(Defect::GetPluginInfoVersionTooLong) {
        response.vendor_version = "1".repeat(129);
    }
    if driver.has(Defect::GetPluginInfoManifestTooLarge) {
        response.manifest.insert("changes".to_owned(), "x".repeat(5 << 10));
    }
    Ok(response)
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
    if driver.has(Defect::GetPluginCapabilitiesUnknownService) {
        capabilities.push(service(plugin_capability::service::Type::Unknown as i32));
    }
    if driver.has(Defect::GetPluginCapabilitiesUnknownExpansion) {
        let unknown = VolumeExpansion { r#type: plugin_capability::volume_expansion::Type::Unknown as i32 };
        capabilities.push(v1::PluginCapability { r#type: Some(Type::VolumeExpansion(unknown)) });
    }
    if driver.has(Defect::GetPluginCapabilitiesEmptyEntry) {
        capabilities.push(v1::PluginCapability::default());
    }
    if driver.has(Defect::GetPluginCapabilitiesHidesControllerService) {
        let hidden = service(plugin_capability::service::Type::ControllerService as i32);
        capabilities.retain(|capability| *capability != hidden);
    }
    if driver.has(Defect::GetPluginCapabilitiesHidesTopology) {
        let hidden = service(plugin_capability::service::Type::VolumeAccessibilityConstraints as i32);
        capabilities.retain(|capability| *capability != hidden);
    }
    if driver.has(Defect::GetPluginCapabilitiesChanges) && driver.another_number() % 2 == 1 {
        capabilities.truncate(1);
    }
    Ok(v1::GetPluginCapabilitiesResponse { capabilities })
}

fn service(r#type: i32) -> v1::PluginCapability {
    v1::PluginCapability { r#type: Some(Type::Service(Service { r#type })) }
}

pub(crate) async fn probe(driver: &MockDriver, _: &v1::ProbeRequest) -> Result<v1::ProbeResponse, Status> {
    if driver.has(Defect::ProbeFails) {
        return Err(Status::failed_precondition("the backend is not configured"));
    }
    if driver.has(Defect::ProbeCrashes) {
        driver.crash("Probe");
    }
    let ready = !driver.has(Defect::ProbeNeverReady);
    Ok(v1::ProbeResponse { ready: (!driver.is(Quirk::ProbeReadyUnset)).then_some(ready) })
}
