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

use crate::capability::{controller_capability, group_capability, node_capability};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::identity::service;
use crate::{controller, group, identity, node};

pub(crate) async fn get_plugin_capabilities(
    driver: &MockDriver,
    request: &GetPluginCapabilitiesRequest,
) -> Result<GetPluginCapabilitiesResponse, Status> {
    let has = |defect| driver.has(defect);
    let mut response = identity::get_plugin_capabilities(driver, request).await?;
    let capabilities = &mut response.capabilities;
    if has(Defect::GetPluginCapabilitiesUnknownService) {
        capabilities.push(service(ServiceType::Unknown as i32));
    }
    if has(Defect::GetPluginCapabilitiesUnknownExpansion) {
        let unknown = VolumeExpansion { r#type: volume_expansion::Type::Unknown as i32 };
        capabilities.push(PluginCapability { r#type: Some(Type::VolumeExpansion(unknown)) });
    }
    if has(Defect::GetPluginCapabilitiesEmptyEntry) {
        capabilities.push(PluginCapability::default());
    }
    if has(Defect::GetPluginCapabilitiesHidesControllerService) {
        hide(capabilities, &service(ServiceType::ControllerService as i32));
    }
    if has(Defect::GetPluginCapabilitiesHidesSnapshotTopology) {
        hide(capabilities, &service(ServiceType::SnapshotAccessibilityConstraints as i32));
    }
    if has(Defect::GetPluginCapabilitiesHidesTopology) {
        hide(capabilities, &service(ServiceType::VolumeAccessibilityConstraints as i32));
    }
    if has(Defect::GetPluginCapabilitiesChanges) && driver.next_number() % 2 == 1 {
        capabilities.truncate(1);
    }
    Ok(response)
}

pub(crate) async fn controller_get_capabilities(
    driver: &MockDriver,
    request: &ControllerGetCapabilitiesRequest,
) -> Result<ControllerGetCapabilitiesResponse, Status> {
    let has = |defect| driver.has(defect);
    let mut response = controller::controller_get_capabilities(driver, request).await?;
    let capabilities = &mut response.capabilities;
    if has(Defect::ControllerGetCapabilitiesUnknownType) {
        capabilities.push(controller_capability(ControllerType::Unknown as i32));
    }
    if has(Defect::ControllerGetCapabilitiesEmptyEntry) {
        capabilities.push(ControllerServiceCapability::default());
    }
    if has(Defect::ControllerGetCapabilitiesHidesPublish) {
        hide(capabilities, &controller_capability(ControllerType::PublishUnpublishVolume as i32));
    }
    if has(Defect::ControllerGetCapabilitiesHidesExpand) || has(Defect::ExpandVolumeNotAdvertised) {
        hide(capabilities, &controller_capability(ControllerType::ExpandVolume as i32));
    }
    if has(Defect::ControllerGetCapabilitiesHidesGetVolumeHealth) {
        hide(capabilities, &controller_capability(ControllerType::GetVolumeHealth as i32));
    }
    if has(Defect::ControllerGetCapabilitiesHidesGetNodeInfo) {
        hide(capabilities, &controller_capability(ControllerType::GetNodeInfo as i32));
    }
    if has(Defect::ControllerGetCapabilitiesHidesGetSnapshot) {
        hide(capabilities, &controller_capability(ControllerType::GetSnapshot as i32));
    }
    Ok(response)
}

pub(crate) async fn group_controller_get_capabilities(
    driver: &MockDriver,
    request: &GroupControllerGetCapabilitiesRequest,
) -> Result<GroupControllerGetCapabilitiesResponse, Status> {
    let mut response = group::group_controller_get_capabilities(driver, request).await?;
    if driver.has(Defect::GroupControllerGetCapabilitiesUnknownType) {
        response.capabilities.push(group_capability(GroupType::Unknown as i32));
    }
    if driver.has(Defect::GroupControllerGetCapabilitiesEmptyEntry) {
        response.capabilities.push(GroupControllerServiceCapability::default());
    }
    Ok(response)
}

pub(crate) async fn node_get_capabilities(
    driver: &MockDriver,
    request: &NodeGetCapabilitiesRequest,
) -> Result<NodeGetCapabilitiesResponse, Status> {
    let has = |defect| driver.has(defect);
    let mut response = node::node_get_capabilities(driver, request).await?;
    let capabilities = &mut response.capabilities;
    if has(Defect::ExpandVolumeNotAdvertised) {
        hide(capabilities, &node_capability(NodeType::ExpandVolume as i32));
    }
    if has(Defect::NodeGetCapabilitiesUnknownType) {
        capabilities.push(node_capability(NodeType::Unknown as i32));
    }
    if has(Defect::NodeGetCapabilitiesEmptyEntry) {
        capabilities.push(NodeServiceCapability::default());
    }
    Ok(response)
}

fn hide<T: PartialEq>(capabilities: &mut Vec<T>, hidden: &T) {
    capabilities.retain(|capability| capability != hidden);
}
