//! GetPluginCapabilities, ControllerGetCapabilities, GroupControllerGetCapabilities and NodeGetCapabilities.

use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_proto::v1::group_controller_service_capability::rpc::Type as GroupType;
use csi_proto::v1::node_service_capability::rpc::Type as NodeType;
use csi_proto::v1::plugin_capability::service::Type as ServiceType;
use csi_proto::v1::plugin_capability::{Type, VolumeExpansion, volume_expansion};
use csi_proto::v1::{
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse, ControllerServiceCapability,
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GroupControllerGetCapabilitiesRequest,
    GroupControllerGetCapabilitiesResponse, GroupControllerServiceCapability, NodeGetCapabilitiesRequest,
    NodeGetCapabilitiesResponse, NodeServiceCapability, PluginCapability,
};
use tonic::Status;

use super::add;
use crate::capability::{controller_capability, group_capability, node_capability};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::identity::service;
use crate::{controller, group, identity, node};

pub(crate) async fn get_plugin_capabilities(
    driver: &MockDriver,
    request: &GetPluginCapabilitiesRequest,
) -> Result<GetPluginCapabilitiesResponse, Status> {
    let mut response = identity::get_plugin_capabilities(driver, request).await?;
    let capabilities = &mut response.capabilities;
    let expansion = VolumeExpansion { r#type: volume_expansion::Type::Unknown as i32 };
    let expansion = PluginCapability { r#type: Some(Type::VolumeExpansion(expansion)) };
    let added = [
        (Defect::GetPluginCapabilitiesUnknownService, service(ServiceType::Unknown as i32)),
        (Defect::GetPluginCapabilitiesUnknownExpansion, expansion),
        (Defect::GetPluginCapabilitiesEmptyEntry, PluginCapability::default()),
    ];
    add(driver, capabilities, added);
    let hidden = [
        (Defect::GetPluginCapabilitiesHidesControllerService, ServiceType::ControllerService),
        (Defect::GetPluginCapabilitiesHidesSnapshotTopology, ServiceType::SnapshotAccessibilityConstraints),
        (Defect::GetPluginCapabilitiesHidesTopology, ServiceType::VolumeAccessibilityConstraints),
    ];
    hide(driver, capabilities, hidden.map(|(defect, hidden)| (defect, service(hidden as i32))));
    if driver.has(Defect::GetPluginCapabilitiesChanges) && driver.next_number() % 2 == 1 {
        capabilities.truncate(1);
    }
    Ok(response)
}

pub(crate) async fn controller_get_capabilities(
    driver: &MockDriver,
    request: &ControllerGetCapabilitiesRequest,
) -> Result<ControllerGetCapabilitiesResponse, Status> {
    let mut response = controller::controller_get_capabilities(driver, request).await?;
    let capabilities = &mut response.capabilities;
    let unknown = controller_capability(ControllerType::Unknown as i32);
    let added = [
        (Defect::ControllerGetCapabilitiesUnknownType, unknown),
        (Defect::ControllerGetCapabilitiesEmptyEntry, ControllerServiceCapability::default()),
    ];
    add(driver, capabilities, added);
    let hidden = [
        (Defect::ControllerGetCapabilitiesHidesPublish, ControllerType::PublishUnpublishVolume),
        (Defect::ControllerGetCapabilitiesHidesExpand, ControllerType::ExpandVolume),
        (Defect::ExpandVolumeNotAdvertised, ControllerType::ExpandVolume),
        (Defect::ControllerGetCapabilitiesHidesGetVolumeHealth, ControllerType::GetVolumeHealth),
        (Defect::ControllerGetCapabilitiesHidesGetNodeInfo, ControllerType::GetNodeInfo),
        (Defect::ControllerGetCapabilitiesHidesGetSnapshot, ControllerType::GetSnapshot),
    ];
    hide(driver, capabilities, hidden.map(|(defect, hidden)| (defect, controller_capability(hidden as i32))));
    Ok(response)
}

pub(crate) async fn group_controller_get_capabilities(
    driver: &MockDriver,
    request: &GroupControllerGetCapabilitiesRequest,
) -> Result<GroupControllerGetCapabilitiesResponse, Status> {
    let mut response = group::group_controller_get_capabilities(driver, request).await?;
    let unknown = group_capability(GroupType::Unknown as i32);
    let added = [
        (Defect::GroupControllerGetCapabilitiesUnknownType, unknown),
        (Defect::GroupControllerGetCapabilitiesEmptyEntry, GroupControllerServiceCapability::default()),
    ];
    add(driver, &mut response.capabilities, added);
    Ok(response)
}

pub(crate) async fn node_get_capabilities(
    driver: &MockDriver,
    request: &NodeGetCapabilitiesRequest,
) -> Result<NodeGetCapabilitiesResponse, Status> {
    let mut response = node::node_get_capabilities(driver, request).await?;
    let capabilities = &mut response.capabilities;
    let expand = node_capability(NodeType::ExpandVolume as i32);
    hide(driver, capabilities, [(Defect::ExpandVolumeNotAdvertised, expand)]);
    let added = [
        (Defect::NodeGetCapabilitiesUnknownType, node_capability(NodeType::Unknown as i32)),
        (Defect::NodeGetCapabilitiesEmptyEntry, NodeServiceCapability::default()),
    ];
    add(driver, capabilities, added);
    Ok(response)
}

/// Removes each capability whose defect is switched on.
fn hide<T: PartialEq, const N: usize>(
    driver: &MockDriver,
    capabilities: &mut Vec<T>,
    hidden: [(Defect, T); N],
) {
    capabilities.retain(|one| !hidden.iter().any(|(defect, hidden)| one == hidden && driver.has(*defect)));
}
