//! The Controller service.

mod capabilities;
mod capacity;
mod create_volume;
mod delete_volume;
mod expand;
mod get_volume;
mod list_volumes;
mod modify;
mod paging;
mod publish;
mod snapshots;
mod topology;
mod validate;
mod volume_health;

use csi_proto::v1;
use csi_proto::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};

use crate::driver::Driver;
use crate::store::{Source, Volume};

pub(crate) use capabilities::controller_get_capabilities;
pub(crate) use capacity::get_capacity;
pub(crate) use create_volume::{Parameters, create_volume};
pub(crate) use delete_volume::delete_volume;
pub(crate) use expand::{controller_expand_volume, expand};
pub(crate) use get_volume::controller_get_volume;
pub(crate) use list_volumes::list_volumes;
pub(crate) use modify::controller_modify_volume;
pub(crate) use publish::{controller_publish_volume, controller_unpublish_volume};
pub(crate) use snapshots::{
    create_snapshot, delete_snapshot, get_snapshot, list_snapshots, snapshot_message, take_snapshot,
    timestamp,
};
pub(crate) use topology::node_topology;
pub(crate) use validate::validate_volume_capabilities;
pub(crate) use volume_health::{controller_get_volume_health, controller_list_volume_health};

fn volume_message(driver: &Driver, volume: &Volume) -> v1::Volume {
    v1::Volume {
        capacity_bytes: signed(volume.capacity_bytes),
        volume_id: volume.id().to_owned(),
        volume_context: volume_context(volume),
        content_source: volume.source.as_ref().map(source_message),
        accessible_topology: node_topology(driver).into_iter().collect(),
    }
}

/// The volume_context that later calls pass back. It never changes (MSG-VOLUME-008).
fn volume_context(volume: &Volume) -> std::collections::BTreeMap<String, String> {
    let backend = ("backend".to_owned(), volume.backend().name().to_owned());
    let pool = volume.pool.iter().map(|pool| ("kind".to_owned(), pool.clone()));
    pool.chain([backend]).collect()
}

fn source_message(source: &Source) -> v1::VolumeContentSource {
    let r#type = match source {
        Source::Snapshot(id) => Type::Snapshot(SnapshotSource { snapshot_id: id.clone() }),
        Source::Volume(id) => Type::Volume(VolumeSource { volume_id: id.clone() }),
    };
    v1::VolumeContentSource { r#type: Some(r#type) }
}

fn published_node_ids(driver: &Driver, volume: &Volume) -> Vec<String> {
    if driver.config.attach { volume.attachments.keys().cloned().collect() } else { Vec::new() }
}

/// Converts a size for the protocol, which has signed numbers.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
