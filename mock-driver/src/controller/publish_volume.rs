//! ControllerPublishVolume.

use csi_proto::v1;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_proto::v1::volume_capability::access_mode::Mode;
use tonic::Status;

use super::placement;
use crate::config::NodeConfig;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{Attachment, Map, State, Usage, Volume};
use crate::validate::{self, invalid};

pub(crate) fn controller_publish_volume(
    driver: &MockDriver,
    request: &v1::ControllerPublishVolumeRequest,
) -> Result<v1::ControllerPublishVolumeResponse, Status> {
    let usage = parse(driver, request)?;
    let mut state = driver.state();
    let Some(volume) = state.volumes.get(&request.volume_id) else {
        if driver.has(Defect::ControllerPublishUnknownVolumeOk) {
            return Ok(v1::ControllerPublishVolumeResponse::default());
        }
        return Err(not_found(driver, format!("volume {} does not exist", request.volume_id)));
    };
    let Some(node) = driver.node(&request.node_id) else {
        if driver.has(Defect::ControllerPublishUnknownNodeOk) {
            return Ok(v1::ControllerPublishVolumeResponse::default());
        }
        return Err(not_found(driver, format!("node {} does not exist", request.node_id)));
    };
    if driver.has(Defect::ControllerPublishForgetsOwnNode) && node.id == driver.this_node().id {
        return Err(Status::not_found(format!("node {} does not exist", node.id)));
    }
    check_context(driver, volume, &request.volume_context)?;
    let wanted = Attachment { usage, readonly: request.readonly };
    if let Some(present) = volume.attachments.get(&node.id) {
        repeated(driver, present, &wanted)?;
    } else {
        check_new(driver, &state, volume, node, &wanted)?;
        if let Some(volume) = state.volumes.get_mut(&request.volume_id)
            && !driver.has(Defect::ControllerPublishNotRecorded)
        {
            volume.attachments.insert(node.id.clone(), wanted);
        }
    }
    Ok(v1::ControllerPublishVolumeResponse { publish_context: publish_context(driver, request) })
}

fn parse(driver: &MockDriver, request: &v1::ControllerPublishVolumeRequest) -> Result<Usage, Status> {
    if driver.has(Defect::ControllerPublishPanicsWithoutCapability) {
        request.volume_capability.as_ref().expect("volume_capability is always there");
    }
    if !(request.volume_id.is_empty() && driver.has(Defect::ControllerPublishEmptyVolumeIdAsNotFound)) {
        driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    }
    if !(request.node_id.is_empty() && driver.has(Defect::ControllerPublishEmptyNodeIdAsNotFound)) {
        validate::required("node_id", &request.node_id)?;
    }
    validate::map("volume_context", &request.volume_context)?;
    let usage = match &request.volume_capability {
        None if driver.has(Defect::ControllerPublishAcceptsMissingCapability) => {
            Usage::new(crate::state::Access::Block, Mode::SingleNodeWriter)
        }
        capability => validate::required_usage(capability.as_ref())?,
    };
    if request.readonly && !driver.controller_can(ControllerType::PublishReadonly) {
        return Err(invalid("readonly is set, but PUBLISH_READONLY is not supported"));
    }
    Ok(usage)
}

fn not_found(driver: &MockDriver, message: String) -> Status {
    if driver.has(Defect::ControllerPublishNotFoundAsInternal) {
        return Status::internal(message);
    }
    Status::not_found(message)
}

/// The context has to be that of the volume; callers may add to it, but what the volume has must not differ.
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

/// The volume is on the node already.
fn repeated(driver: &MockDriver, present: &Attachment, wanted: &Attachment) -> Result<(), Status> {
    if driver.has(Defect::ControllerPublishRefusesRepeats) {
        return Err(Status::already_exists("the volume is published to this node"));
    }
    if driver.has(Defect::ControllerPublishRepeatAsFailedPrecondition) {
        return Err(Status::failed_precondition("the volume is attached"));
    }
    let same_readonly =
        present.readonly == wanted.readonly || driver.has(Defect::ControllerPublishIgnoresReadonlyConflict);
    let same_usage =
        present.usage == wanted.usage || driver.has(Defect::ControllerPublishIgnoresCapabilityConflict);
    if same_readonly && same_usage {
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
        check_other_nodes(driver, volume, wanted)?;
    }
    if !placement::reaches(driver, volume.zone, &node.topology) {
        return Err(Status::failed_precondition(format!(
            "the volume cannot be reached from node {}",
            node.id
        )));
    }
    let limit = driver.config.attach_limit.unwrap_or(driver.config.max_volumes_per_node);
    let attached = state.volumes.values().filter(|other| other.attachments.contains_key(&node.id));
    if limit > 0 && !driver.has(Defect::ControllerPublishIgnoresLimit) && attached.count() >= limit as usize {
        let message = format!("node {} holds {limit} volumes, which is its limit", node.id);
        return Err(match driver.has(Defect::ControllerPublishLimitAsInternal) {
            true => Status::internal(message),
            false => Status::resource_exhausted(message),
        });
    }
    Ok(())
}

/// What attachments to other nodes leave possible.
fn check_other_nodes(driver: &MockDriver, volume: &Volume, wanted: &Attachment) -> Result<(), Status> {
    for (holder, present) in &volume.attachments {
        let both_write = present.writes() && wanted.writes();
        let modes = [present.usage.mode(), wanted.usage.mode()];
        let one_writer = modes.contains(&Mode::MultiNodeSingleWriter);
        if wanted.usage.is_multi_node() && present.usage.is_multi_node() && !(both_write && one_writer) {
            if driver.has(Defect::ControllerPublishRefusesSecondNode) {
                return Err(Status::failed_precondition(format!("the volume is published to node {holder}")));
            }
            continue;
        }
        if driver.has(Defect::ControllerPublishOtherNodeNotNamed) {
            return Err(Status::failed_precondition("the volume is published elsewhere"));
        }
        return Err(Status::failed_precondition(format!("the volume is published to node {holder}")));
    }
    Ok(())
}

fn publish_context(driver: &MockDriver, request: &v1::ControllerPublishVolumeRequest) -> Map {
    if driver.is(Quirk::VolumeContextEmpty) {
        return Map::new();
    }
    let mut context = Map::from([
        ("device".to_owned(), format!("memory:{}", request.volume_id)),
        ("readonly".to_owned(), request.readonly.to_string()),
    ]);
    if driver.has(Defect::ControllerPublishContextChanges) {
        context.insert("attached-at".to_owned(), driver.another_number().to_string());
    }
    if driver.has(Defect::ControllerPublishContextTooLarge) {
        context.insert("history".to_owned(), "x".repeat(5 << 10));
    }
    if driver.has(Defect::ControllerPublishContextHoldsSecrets) {
        context.extend(request.secrets.clone());
    }
    context
}
