//! ControllerPublishVolume, ControllerUnpublishVolume and ControllerGetNodeInfo.

use csi_proto::v1;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_proto::v1::volume_capability::access_mode::Mode;
use tonic::Status;

use super::placement;
use crate::config::NodeConfig;
use crate::defect::Defect;
use crate::defects::HIDDEN_LIMIT;
use crate::driver::MockDriver;
use crate::node;
use crate::quirk::Quirk;
use crate::state::{Attachment, Map, State, Usage, Volume};
use crate::validate::{self, invalid};

pub(crate) async fn controller_publish_volume(
    driver: &MockDriver,
    request: &v1::ControllerPublishVolumeRequest,
) -> Result<v1::ControllerPublishVolumeResponse, Status> {
    let wanted = Attachment { usage: parse(driver, request)?, readonly: request.readonly };
    let published = driver.change(request, |state| {
        let volume = state.volumes.get(&request.volume_id);
        let volume = volume
            .ok_or_else(|| Status::not_found(format!("volume {} does not exist", request.volume_id)))?;
        let node = driver.node(&request.node_id);
        let node =
            node.ok_or_else(|| Status::not_found(format!("node {} does not exist", request.node_id)))?;
        check_context(driver, volume, &request.volume_context)?;
        if let Some(present) = volume.attachments.get(&node.id) {
            return check_same(present, &wanted);
        }
        check_new(driver, state, volume, node, &wanted)?;
        if !driver.has(Defect::ControllerPublishNotRecorded) {
            state.attach(&request.volume_id, &node.id, wanted);
        }
        Ok(())
    });
    published.await?;
    Ok(v1::ControllerPublishVolumeResponse { publish_context: publish_context(driver, request) })
}

fn parse(driver: &MockDriver, request: &v1::ControllerPublishVolumeRequest) -> Result<Usage, Status> {
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    validate::required("node_id", &request.node_id)?;
    validate::map("volume_context", &request.volume_context)?;
    let usage = validate::required_usage(request.volume_capability.as_ref())?;
    if request.readonly && !driver.controller_can(ControllerType::PublishReadonly) {
        return Err(invalid("readonly is set, but PUBLISH_READONLY is not supported"));
    }
    Ok(usage)
}

/// Checks that the context is the volume's own. The caller may add keys, but values of the volume must not differ.
pub(crate) fn check_context(driver: &MockDriver, volume: &Volume, given: &Map) -> Result<(), Status> {
    if driver.is(Quirk::VolumeContextDemanded) && given.is_empty() && !volume.context.is_empty() {
        return Err(invalid("volume_context is missing"));
    }
    match volume.context.iter().find(|(key, value)| given.get(*key).is_some_and(|other| other != *value)) {
        Some((key, _)) => {
            Err(invalid(format!("volume_context has another value of `{key}` than the volume")))
        }
        None => Ok(()),
    }
}

/// Returns ALREADY_EXISTS if the volume is attached to the node in a different way.
fn check_same(present: &Attachment, wanted: &Attachment) -> Result<(), Status> {
    if present == wanted {
        return Ok(());
    }
    Err(Status::already_exists(
        "the volume is published to this node with another capability or readonly flag",
    ))
}

fn check_new(
    driver: &MockDriver,
    state: &State,
    volume: &Volume,
    node: &NodeConfig,
    wanted: &Attachment,
) -> Result<(), Status> {
    if !driver.has(Defect::ControllerPublishAcceptsAnyCapability) {
        driver.supports(&wanted.usage).map_err(invalid)?;
        if !volume.covers(&wanted.usage) {
            return Err(invalid("the volume was not made for this volume_capability"));
        }
    }
    if !driver.has(Defect::ControllerPublishIgnoresAccessMode) {
        check_other_nodes(volume, wanted)?;
    }
    if !placement::reaches(driver, volume.zone, &node.topology) {
        let message = format!("the volume cannot be reached from node {}", node.id);
        return Err(Status::failed_precondition(message));
    }
    let limit = match driver.has(Defect::ControllerPublishHiddenLimit) {
        true => HIDDEN_LIMIT,
        false => driver.config.attach_limit.unwrap_or(driver.config.max_volumes_per_node),
    };
    let limit = limit.saturating_sub(u32::from(driver.has(Defect::ControllerPublishLimitComesEarly)));
    let is_late = limit > 0 && driver.has(Defect::ControllerPublishLimitComesLate);
    let limit = limit.saturating_add(u32::from(is_late));
    let is_full = limit > 0 && state.attached_to(&node.id).count() >= limit as usize;
    if is_full && !driver.has(Defect::ControllerPublishIgnoresLimit) {
        let message = format!("node {} holds {limit} volumes, which is its limit", node.id);
        return Err(Status::resource_exhausted(message));
    }
    Ok(())
}

/// Fails if an attachment to another node excludes the requested one.
fn check_other_nodes(volume: &Volume, wanted: &Attachment) -> Result<(), Status> {
    for (holder, present) in &volume.attachments {
        let both_write = present.writes() && wanted.writes();
        let one_writer = [present.usage.mode(), wanted.usage.mode()].contains(&Mode::MultiNodeSingleWriter);
        let shared = wanted.usage.is_multi_node() && present.usage.is_multi_node();
        if !shared || (both_write && one_writer) {
            return Err(Status::failed_precondition(format!("the volume is published to node {holder}")));
        }
    }
    Ok(())
}

fn publish_context(driver: &MockDriver, request: &v1::ControllerPublishVolumeRequest) -> Map {
    if driver.is(Quirk::VolumeContextEmpty) {
        return Map::new();
    }
    Map::from([
        ("device".to_owned(), format!("memory:{}", request.volume_id)),
        ("readonly".to_owned(), request.readonly.to_string()),
    ])
}

pub(crate) async fn controller_unpublish_volume(
    driver: &MockDriver,
    request: &v1::ControllerUnpublishVolumeRequest,
) -> Result<v1::ControllerUnpublishVolumeResponse, Status> {
    let v1::ControllerUnpublishVolumeRequest { volume_id, node_id, .. } = request;
    driver.check_id_format("volume_id", volume_id, "vol")?;
    let strict = driver.is(Quirk::ControllerUnpublishUnknownNotFound);
    let unpublished = driver.change(request, |state| {
        // A volume that does not exist is not attached, so nothing is left to do.
        let Some(volume) = state.volumes.get_mut(volume_id) else {
            return match strict {
                true => Err(Status::not_found(format!("volume {volume_id} does not exist"))),
                false => Ok(()),
            };
        };
        if node_id.is_empty() {
            volume.attachments.clear();
            return Ok(());
        }
        if strict && driver.node(node_id).is_none() {
            return Err(Status::not_found(format!("node {node_id} does not exist")));
        }
        if driver.has(Defect::ControllerUnpublishDetachesAllNodes) {
            volume.attachments.clear();
        }
        if !driver.has(Defect::ControllerUnpublishKeepsAttachment) {
            volume.attachments.remove(node_id);
        }
        Ok(())
    });
    unpublished.await?;
    Ok(v1::ControllerUnpublishVolumeResponse {})
}

pub(crate) async fn controller_get_node_info(
    driver: &MockDriver,
    request: &v1::ControllerGetNodeInfoRequest,
) -> Result<v1::ControllerGetNodeInfoResponse, Status> {
    let id = &request.node_id;
    validate::required("node_id", id)?;
    let node = driver.node(id).ok_or_else(|| Status::not_found(format!("node {id} does not exist")))?;
    let v1::NodeGetInfoResponse { max_volumes_per_node, accessible_topology, .. } = node::info(driver, node);
    let state = driver.state();
    let published_volume_ids = state.attached_to(id).map(|volume| volume.id.clone()).collect();
    Ok(v1::ControllerGetNodeInfoResponse { accessible_topology, max_volumes_per_node, published_volume_ids })
}
