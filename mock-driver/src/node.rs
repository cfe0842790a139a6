//! The Node service. Each node has its own view of the volumes.

mod expand_volume;
mod health;
mod info;
mod publish_volume;
mod stage_volume;
mod stats;
mod target;
mod unpublish_volume;
mod unstage_volume;

use csi_proto::v1::node_service_capability::rpc::Type as NodeType;
use tonic::Status;

pub(crate) use self::expand_volume::node_expand_volume;
pub(crate) use self::health::{node_get_storage_health, node_get_volume_health};
pub(crate) use self::info::{node_get_capabilities, node_get_info};
pub(crate) use self::publish_volume::node_publish_volume;
pub(crate) use self::stage_volume::node_stage_volume;
pub(crate) use self::stats::node_get_volume_stats;
pub(crate) use self::target::note_written;
pub(crate) use self::unpublish_volume::node_unpublish_volume;
pub(crate) use self::unstage_volume::node_unstage_volume;

use crate::controller::check_context;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{Map, State, Usage, Volume};
use crate::validate::{self, invalid};

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
