//! ControllerGetCapabilities.

use csi_proto::v1;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use tonic::Status;

use crate::capability::controller_capability;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::identity::FUTURE_TYPE;
use crate::quirk::Quirk;

pub(crate) async fn controller_get_capabilities(
    driver: &MockDriver,
    _: &v1::ControllerGetCapabilitiesRequest,
) -> Result<v1::ControllerGetCapabilitiesResponse, Status> {
    let mut capabilities = driver.capabilities.controller();
    if driver.is(Quirk::FutureCapability) {
        capabilities.push(controller_capability(FUTURE_TYPE));
    }
    if driver.has(Defect::ControllerGetCapabilitiesUnknownType) {
        capabilities.push(controller_capability(ControllerType::Unknown as i32));
    }
    if driver.has(Defect::ControllerGetCapabilitiesEmptyEntry) {
        capabilities.push(v1::ControllerServiceCapability::default());
    }
    if driver.has(Defect::ControllerGetCapabilitiesHidesPublish) {
        let hidden = controller_capability(ControllerType::PublishUnpublishVolume as i32);
        capabilities.retain(|capability| *capability != hidden);
    }
    if driver.has(Defect::ControllerGetCapabilitiesHidesExpand)
        || driver.has(Defect::ExpandVolumeNotAdvertised)
    {
        let hidden = controller_capability(ControllerType::ExpandVolume as i32);
        capabilities.retain(|capability| *capability != hidden);
    }
    if driver.has(Defect::ControllerGetCapabilitiesHidesGetSnapshot) {
        let hidden = controller_capability(ControllerType::GetSnapshot as i32);
        capabilities.retain(|capability| *capability != hidden);
    }
    Ok(v1::ControllerGetCapabilitiesResponse { capabilities })
}
