//! ControllerGetCapabilities.

use csi_proto::v1;
use tonic::Status;

use crate::capability::controller_capability;
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
    Ok(v1::ControllerGetCapabilitiesResponse { capabilities })
}
