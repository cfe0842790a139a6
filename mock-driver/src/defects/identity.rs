//! GetPluginInfo and Probe.

use csi_proto::v1::{GetPluginInfoRequest, GetPluginInfoResponse, ProbeRequest, ProbeResponse};
use tonic::Status;

use super::{Change, apply};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::identity;

/// The number of failures of Probe after a start.
const FAILING_PROBES: u32 = 2;

pub(crate) async fn get_plugin_info(
    driver: &MockDriver,
    request: &GetPluginInfoRequest,
) -> Result<GetPluginInfoResponse, Status> {
    if driver.has(Defect::GetPluginInfoFails) {
        return Err(Status::internal("the backend is away"));
    }
    let mut response = identity::get_plugin_info(driver, request).await?;
    let changes: &[Change<GetPluginInfoResponse>] = &[
        (Defect::GetPluginInfoNameEmpty, |info| info.name.clear()),
        (Defect::GetPluginInfoNameWithSlash, |info| info.name.push_str("/mock")),
        (Defect::GetPluginInfoNameTooLong, |info| info.name = format!("{}.{}", "m".repeat(63), info.name)),
        (Defect::GetPluginInfoNameEndsInDash, |info| info.name.push('-')),
        (Defect::GetPluginInfoNameWithUnderscore, |info| info.name.insert_str(0, "mock_")),
        (Defect::GetPluginInfoNameWithoutHost, |info| info.name = "mock".to_owned()),
        (Defect::GetPluginInfoVersionEmpty, |info| info.vendor_version.clear()),
        (Defect::GetPluginInfoVersionTooLong, |info| info.vendor_version = "1".repeat(129)),
    ];
    apply(driver, &mut response, changes);
    if driver.has(Defect::GetPluginInfoNameChanges) {
        response.name = format!("m{}.{}", driver.next_number(), response.name);
    }
    if driver.has(Defect::GetPluginInfoManifestTooLarge) {
        response.manifest.insert("changes".to_owned(), "x".repeat(5 << 10));
    }
    Ok(response)
}

pub(crate) async fn probe(driver: &MockDriver, request: &ProbeRequest) -> Result<ProbeResponse, Status> {
    if driver.has(Defect::ProbeFails) {
        return Err(Status::failed_precondition("the backend is not configured"));
    }
    if driver.has(Defect::ProbeCrashes) {
        driver.crash("Probe");
    }
    if driver.has(Defect::ProbeFailsAfterStart) && driver.next_number() < FAILING_PROBES {
        return Err(Status::internal("the backend is not connected yet"));
    }
    let mut response = identity::probe(driver, request).await?;
    if driver.has(Defect::ProbeNeverReady) {
        response.ready = Some(false);
    }
    Ok(response)
}
