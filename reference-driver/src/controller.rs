//! The Controller service.

mod create_volume;
mod expand;
mod modify;
mod publish;
mod snapshots;
mod volumes;

use csi_proto::v1;
use csi_proto::v1::controller_service_capability::rpc::Type as Rpc;
use csi_proto::v1::controller_service_capability::{self, Type};
use csi_proto::v1::{
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse, ControllerServiceCapability,
    Topology, TopologyRequirement,
};

use crate::capacity_range::signed;
use crate::driver::Driver;
use crate::error::{DriverError, Result};
use crate::ids::{ObjectId, ObjectKind};
use crate::store::{Source, Volume};

pub(crate) use create_volume::{Parameters, create_volume};
pub(crate) use expand::{controller_expand_volume, expand};
pub(crate) use modify::controller_modify_volume;
pub(crate) use publish::{controller_publish_volume, controller_unpublish_volume};
pub(crate) use snapshots::{
    create_snapshot, delete_snapshot, get_snapshot, list_snapshots, snapshot_message, take_snapshot,
    timestamp,
};
pub(crate) use volumes::{
    controller_get_volume, controller_get_volume_health, controller_list_volume_health, delete_volume,
    get_capacity, list_volumes, validate_volume_capabilities,
};

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
    let backend = ("backend".to_owned(), volume.backend.name().to_owned());
    let pool = volume.pool.iter().map(|pool| ("kind".to_owned(), pool.clone()));
    pool.chain([backend]).collect()
}

fn source_message(source: &Source) -> v1::VolumeContentSource {
    match source {
        Source::Snapshot(id) => v1::VolumeContentSource::snapshot(id),
        Source::Volume(id) => v1::VolumeContentSource::volume(id),
    }
}

fn published_node_ids(driver: &Driver, volume: &Volume) -> Vec<String> {
    if driver.config.attach { volume.attachments.keys().cloned().collect() } else { Vec::new() }
}

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

/// The key of the only topology segment. A volume can only be reached from the node that stores it.
const NODE_KEY: &str = "topology.hostpath.csi/node";

/// The topology of this node, if topology is offered.
pub(crate) fn node_topology(driver: &Driver) -> Option<Topology> {
    let segment = (NODE_KEY.to_owned(), driver.config.node_id.clone());
    driver.config.topology.then(|| Topology { segments: [segment].into() })
}

/// Returns whether this node has all segments of a topology.
fn covers(driver: &Driver, topology: &Topology) -> bool {
    let ours = |(key, value): (&String, &String)| {
        key.eq_ignore_ascii_case(NODE_KEY) && *value == driver.config.node_id
    };
    !driver.config.topology || topology.segments.iter().all(ours)
}

/// Returns whether a volume on this node satisfies a requirement (MSG-TOPOREQ-003, -013).
fn is_reachable(driver: &Driver, requirement: Option<&TopologyRequirement>) -> Result<bool> {
    let Some(requirement) = requirement.filter(|_| driver.config.topology) else { return Ok(true) };
    if requirement.requisite.is_empty() && requirement.preferred.is_empty() {
        return Err(DriverError::invalid(
            "accessibility_requirements",
            "neither requisite nor preferred is set",
        ));
    }
    let requisite = &requirement.requisite;
    Ok(requisite.is_empty() || requisite.iter().any(|topology| covers(driver, topology)))
}

/// The largest number of entries in a page, which keeps replies far below the message limit of gRPC.
const ENTRIES_MAX: usize = 4000;

/// A page of a list. Its token names the last object of the previous page, so that objects that are created or deleted
/// between calls neither repeat others nor hide them.
#[derive(Debug)]
struct Page<'a> {
    /// The identifier after which the page starts; empty for the first page.
    after: &'a str,
    entries_max: usize,
}

impl<'a> Page<'a> {
    /// Checks the paging fields of a request (CTRL-LISTVOL-009, -022).
    fn read(kind: ObjectKind, max_entries: i32, starting_token: &'a str) -> Result<Page<'a>> {
        let asked = usize::try_from(max_entries);
        let asked = asked.map_err(|_| DriverError::invalid("max_entries", "it is negative"))?;
        if !starting_token.is_empty() {
            ObjectId::parse(kind, starting_token).map_err(|_| DriverError::Token)?;
        }
        let entries_max = if asked == 0 { ENTRIES_MAX } else { asked.min(ENTRIES_MAX) };
        Ok(Page { after: starting_token, entries_max })
    }

    /// One record more than fits into the page, which shows whether there is another page.
    fn fetch_count(&self) -> usize {
        self.entries_max + 1
    }

    /// Removes the surplus record, and returns the token of the next page.
    fn truncate<T>(&self, found: &mut Vec<T>, key: impl Fn(&T) -> &ObjectId) -> String {
        if found.len() <= self.entries_max {
            return String::new();
        }
        found.truncate(self.entries_max);
        found.last().map(|last| key(last).to_string()).unwrap_or_default()
    }
}
