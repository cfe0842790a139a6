//! The Node service. Each node has its own view of the volumes.

mod expand_volume;
mod publish_volume;
mod stage_volume;
mod stats;
mod target;

use csi_proto::v1;
use csi_proto::v1::node_service_capability::rpc::Type as NodeType;
use tonic::Status;

use crate::capability::node_capability;
use crate::config::NodeConfig;
use crate::controller::check_context;
use crate::driver::MockDriver;
use crate::health;
use crate::identity::FUTURE_TYPE;
use crate::quirk::Quirk;
use crate::state::{Map, State, Usage, Volume};
use crate::validate::{self, invalid};

pub(crate) use self::expand_volume::node_expand_volume;
pub(crate) use self::publish_volume::{node_publish_volume, node_unpublish_volume};
pub(crate) use self::stage_volume::{node_stage_volume, node_unstage_volume};
pub(crate) use self::stats::node_get_volume_stats;
pub(crate) use self::target::note_written;

/// Checks the contexts of staging and publishing.
fn check_contexts(
    driver: &MockDriver,
    volume: &Volume,
    volume_context: &Map,
    publish_context: &Map,
) -> Result<(), Status> {
    check_context(driver, volume, volume_context)?;
    let attached = driver
        .controller_can(csi_proto::v1::controller_service_capability::rpc::Type::PublishUnpublishVolume);
    if driver.is(Quirk::PublishContextDemanded) && attached && publish_context.is_empty() {
        return Err(invalid("publish_context is missing"));
    }
    Ok(())
}

/// Returns FAILED_PRECONDITION if the volume does not support the usage.
fn check_usage(driver: &MockDriver, volume: &Volume, usage: &Usage) -> Result<(), Status> {
    driver.supports(usage).map_err(Status::failed_precondition)?;
    match volume.covers(usage) {
        true => Ok(()),
        false => Err(Status::failed_precondition("the volume was not made for this volume_capability")),
    }
}

pub(crate) fn stages(driver: &MockDriver) -> bool {
    driver.node_can(NodeType::StageUnstageVolume)
}

fn check_maps(volume_context: &Map, publish_context: &Map) -> Result<(), Status> {
    validate::map("volume_context", volume_context)?;
    validate::map("publish_context", publish_context)
}

/// The volume with the id. A driver whose Node service has no state of its own finds the volume at the path instead.
fn find_volume<'a>(driver: &MockDriver, state: &'a State, id: &str, path: &str) -> Option<&'a Volume> {
    let there = |volume: &&Volume| volume.on(driver.this_node()).has(path);
    match state.volumes.get(id) {
        None if driver.is(Quirk::StatelessNode) => state.volumes.values().find(there),
        known => known,
    }
}

fn not_found(id: &str) -> Status {
    Status::not_found(format!("volume {id} does not exist"))
}

pub(crate) async fn node_get_capabilities(
    driver: &MockDriver,
    _: &v1::NodeGetCapabilitiesRequest,
) -> Result<v1::NodeGetCapabilitiesResponse, Status> {
    let mut capabilities = driver.capabilities.node();
    if driver.is(Quirk::FutureCapability) {
        capabilities.push(node_capability(FUTURE_TYPE));
    }
    Ok(v1::NodeGetCapabilitiesResponse { capabilities })
}

pub(crate) async fn node_get_info(
    driver: &MockDriver,
    request: &v1::NodeGetInfoRequest,
) -> Result<v1::NodeGetInfoResponse, Status> {
    let info = info(driver, driver.this_node());
    Ok(match request.controller_get_node_info && driver.node_can(NodeType::NodeInfoFromController) {
        true => v1::NodeGetInfoResponse { node_id: info.node_id, ..Default::default() },
        false => info,
    })
}

/// Returns the facts about one of the nodes.
pub(crate) fn info(driver: &MockDriver, node: &NodeConfig) -> v1::NodeGetInfoResponse {
    let has_topology = driver.has_topology() && !driver.is(Quirk::NodeTopologyLeftOut);
    v1::NodeGetInfoResponse {
        node_id: node.id.clone(),
        max_volumes_per_node: i64::from(driver.config.max_volumes_per_node),
        accessible_topology: has_topology.then(|| v1::Topology { segments: node.topology.clone() }),
    }
}

pub(crate) async fn node_get_volume_health(
    driver: &MockDriver,
    request: &v1::NodeGetVolumeHealthRequest,
) -> Result<v1::NodeGetVolumeHealthResponse, Status> {
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    let path = request.volume_publish_path.as_str();
    let paths = [("volume_publish_path", path), ("staging_target_path", &request.staging_target_path)];
    for (field, given) in paths.into_iter().filter(|(_, given)| !given.is_empty()) {
        target::path(field, given)?;
    }
    let state = driver.state();
    let volume = find_volume(driver, &state, &request.volume_id, path);
    let volume = volume.ok_or_else(|| not_found(&request.volume_id))?;
    let mut volume_health = health::on_this_node(driver, volume, path)?;
    volume_health.volume_id.clone_from(&request.volume_id);
    Ok(v1::NodeGetVolumeHealthResponse { volume_health: Some(volume_health) })
}

pub(crate) async fn node_get_storage_health(
    driver: &MockDriver,
    _: &v1::NodeGetStorageHealthRequest,
) -> Result<v1::NodeGetStorageHealthResponse, Status> {
    Ok(v1::NodeGetStorageHealthResponse { backend_health: health::of_storage(driver)? })
}
