//! The Node service.

mod inline;
mod publication;
mod publish;
mod stage;
mod stats;

use csi_proto::v1::node_service_capability::rpc::Type as Rpc;
use csi_proto::v1::node_service_capability::{self, Type};
use csi_proto::v1::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetCapabilitiesRequest,
    NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse, NodeServiceCapability,
};

use crate::capability::Capability;
use crate::capacity_range::{Range, signed};
use crate::controller::{expand, node_topology};
use crate::driver::{Driver, required};
use crate::error::{DriverError, Result, Shown};
use crate::ids::{ObjectId, ObjectKind};
use crate::paths::PathEntry;
use crate::store::{Change, Staged, Volume};

pub(crate) use inline::forget_unused as forget_inline;
pub(crate) use publication::undo_published;
pub(crate) use publish::{node_publish_volume, node_unpublish_volume};
pub(crate) use stage::{node_stage_volume, node_unstage_volume};
pub(crate) use stats::{node_get_storage_health, node_get_volume_health, node_get_volume_stats};

/// Fails if something else is mounted at the path. Undoing the call later would have to stop at such a mount.
fn require_free(driver: &Driver, volume: &Volume, at: &PathEntry) -> Result<()> {
    match at.occupant()? {
        Some(occupant) if occupant.is_mount_root && !volume.backend().shows(driver, volume, &occupant) => {
            let what = at.path().display().to_string();
            Err(DriverError::precondition(what, "something else is mounted there"))
        }
        _ => Ok(()),
    }
}

/// The largest reported number if the attach limit is to vary.
const VARYING_LIMIT_MAX: usize = 10;

pub(crate) fn node_get_capabilities(
    driver: &Driver,
    _: &NodeGetCapabilitiesRequest,
) -> Result<NodeGetCapabilitiesResponse> {
    let offered = [
        (true, Rpc::StageUnstageVolume),
        (true, Rpc::GetVolumeStats),
        (true, Rpc::VolumeCondition),
        (true, Rpc::GetVolumeHealth),
        (true, Rpc::GetStorageHealth),
        (driver.config.node_expansion, Rpc::ExpandVolume),
        (true, Rpc::SingleNodeMultiWriter),
        (driver.privileged && driver.config.mount_group, Rpc::VolumeMountGroup),
    ];
    let capabilities = offered.into_iter().filter(|(offered, _)| *offered).map(|(_, rpc)| {
        let rpc = node_service_capability::Rpc { r#type: rpc.into() };
        NodeServiceCapability { r#type: Some(Type::Rpc(rpc)) }
    });
    Ok(NodeGetCapabilitiesResponse { capabilities: capabilities.collect() })
}

pub(crate) fn node_get_info(driver: &Driver, _: &NodeGetInfoRequest) -> Result<NodeGetInfoResponse> {
    let config = &driver.config;
    let max_volumes_per_node = match config.attach_limit {
        0 => config.max_volumes_per_node,
        -1 => varying_limit()?,
        limit => limit,
    };
    Ok(NodeGetInfoResponse {
        node_id: config.node_id.clone(),
        max_volumes_per_node,
        accessible_topology: node_topology(driver),
    })
}

/// Returns a limit that differs from call to call, to test COs that have to notice changes.
fn varying_limit() -> Result<i64> {
    let random = ObjectId::generate(ObjectKind::Volume)?;
    let sum: usize = random.as_str().bytes().map(usize::from).sum();
    Ok(1 + i64::try_from(sum % VARYING_LIMIT_MAX).unwrap_or(0))
}

pub(crate) fn node_expand_volume(
    driver: &Driver,
    request: &NodeExpandVolumeRequest,
) -> Result<NodeExpandVolumeResponse> {
    driver.require(driver.config.node_expansion, "expansion by the node")?;
    required("volume_id", &request.volume_id)?;
    required("volume_path", &request.volume_path)?;
    let range = Range::parse(request.capacity_range.as_ref())?;
    let capability = request.volume_capability.as_ref().map(Capability::parse).transpose()?;
    let (mut volume, _guard) = driver.volume_exclusive(&request.volume_id)?;
    if stats::find_use(driver, &volume, &request.volume_path)?.is_none() {
        let path = Shown(&request.volume_path).to_string();
        return Err(DriverError::NotAtPath { id: Shown(volume.id()).to_string(), path });
    }
    if let Some(reason) = capability.and_then(|capability| volume.unfit(&capability, &driver.host_fs_type)) {
        return Err(DriverError::invalid("volume_capability", reason));
    }
    expand(driver, &mut volume, range, driver.config.max_volume_bytes_node)?;
    volume.backend().grow_mounted(driver, &mut volume)?;
    Ok(NodeExpandVolumeResponse { capacity_bytes: signed(volume.capacity_bytes) })
}

/// Logs that undoing has failed. The caller gets the original error instead, and the next start tries again.
fn report(undone: Result<()>) {
    if let Err(error) = undone {
        tracing::error!(%error, "what has failed could not be undone");
    }
}

/// Removes a staging and its record. It is no error if parts of it are already gone.
pub(crate) fn undo_staged(driver: &Driver, volume: &Volume, staged: &Staged) -> Result<()> {
    let place = PathEntry::recorded(&staged.path)?;
    let others = driver.store.view()?.staged_of(&volume.key)?;
    let is_last = others.iter().all(|other| other.path == staged.path);
    volume.backend().unstage(driver, volume, place.as_ref(), is_last)?;
    if let Some(place) = place.filter(|_| staged.made_path) {
        place.remove()?;
    }
    Ok(driver.store.commit(vec![Change::DeleteStaged(staged.clone())])?)
}
