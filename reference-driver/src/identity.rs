//! The Identity service.

use csi_proto::v1::plugin_capability::service::Type as Service;
use csi_proto::v1::plugin_capability::volume_expansion::Type as Expansion;
use csi_proto::v1::plugin_capability::{self, Type};
use csi_proto::v1::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    PluginCapability,
};

use crate::driver::Driver;
use crate::error::Result;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn get_plugin_info(driver: &Driver, _: &GetPluginInfoRequest) -> Result<GetPluginInfoResponse> {
    Ok(GetPluginInfoResponse {
        name: driver.config.name.clone(),
        vendor_version: VERSION.to_owned(),
        manifest: Default::default(),
    })
}

pub(crate) fn get_plugin_capabilities(
    driver: &Driver,
    _: &GetPluginCapabilitiesRequest,
) -> Result<GetPluginCapabilitiesResponse> {
    let config = &driver.config;
    let services = [
        (true, Service::ControllerService),
        (config.topology, Service::VolumeAccessibilityConstraints),
        (config.topology, Service::SnapshotAccessibilityConstraints),
        (true, Service::GroupControllerService),
        (config.snapshot_metadata, Service::SnapshotMetadataService),
    ];
    let expansion = (config.controller_expansion || config.node_expansion).then_some(Expansion::Online);
    let services = services
        .into_iter()
        .filter(|(offered, _)| *offered)
        .map(|(_, service)| Type::Service(plugin_capability::Service { r#type: service.into() }));
    let expansion = expansion.map(|expansion| {
        Type::VolumeExpansion(plugin_capability::VolumeExpansion { r#type: expansion.into() })
    });
    let capabilities =
        services.chain(expansion).map(|r#type| PluginCapability { r#type: Some(r#type) }).collect();
    Ok(GetPluginCapabilitiesResponse { capabilities })
}
