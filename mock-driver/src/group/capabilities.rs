//! GroupControllerGetCapabilities.

use csi_proto::v1;
use tonic::Status;

use crate::capability::group_capability;
use crate::driver::MockDriver;
use crate::identity::FUTURE_TYPE;
use crate::quirk::Quirk;

pub(crate) async fn group_controller_get_capabilities(
    driver: &MockDriver,
    _: &v1::GroupControllerGetCapabilitiesRequest,
) -> Result<v1::GroupControllerGetCapabilitiesResponse, Status> {
    let mut capabilities = driver.capabilities.group();
    if driver.is(Quirk::FutureCapability) {
        capabilities.push(group_capability(FUTURE_TYPE));
    }
    Ok(v1::GroupControllerGetCapabilitiesResponse { capabilities })
}
