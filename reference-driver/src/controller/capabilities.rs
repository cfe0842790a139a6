//! ControllerGetCapabilities.

use csi_proto::v1::controller_service_capability::rpc::Type as Rpc;
use csi_proto::v1::controller_service_capability::{self, Type};
use csi_proto::v1::{
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse, ControllerServiceCapability,
};

use crate::driver::Driver;
use crate::error::Result;

pub(crate) fn controller_get_capabilities(
    driver: &Driver,
    _: &ControllerGetCapabilitiesRequest,
) -> Result<ControllerGetCapabilitiesResponse> {
    let config = &driver.config;
    let offered = [
        (true, Rpc::CreateDeleteVolume),
        (config.attach, Rpc::PublishUnpublishVolume),
        (config.attach, Rpc::PublishReadonly),
        (config.attach, Rpc::ListVolumesPublishedNodes),
        (true, Rpc::ListVolumes),
        (true, Rpc::GetVolume),
        (true, Rpc::VolumeCondition),
        (true, Rpc::GetVolumeHealth),
        (true, Rpc::ListVolumeHealth),
        (true, Rpc::GetCapacity),
        (true, Rpc::CreateDeleteSnapshot),
        (config.list_snapshots, Rpc::ListSnapshots),
        (true, Rpc::GetSnapshot),
        (true, Rpc::CloneVolume),
        (config.controller_expansion, Rpc::ExpandVolume),
        (config.modify, Rpc::ModifyVolume),
        (true, Rpc::SingleNodeMultiWriter),
    ];
    let capabilities = offered.into_iter().filter(|(offered, _)| *offered).map(|(_, rpc)| {
        let rpc = controller_service_capability::Rpc { r#type: rpc.into() };
        ControllerServiceCapability { r#type: Some(Type::Rpc(rpc)) }
    });
    Ok(ControllerGetCapabilitiesResponse { capabilities: capabilities.collect() })
}
