//! ControllerExpandVolume.

use csi_proto::v1::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};

use super::create_volume::largest_allowed;
use crate::capability::Capability;
use crate::capacity_range::{Range, signed};
use crate::driver::{Driver, required};
use crate::error::{DriverError, Result};
use crate::storage;
use crate::store::{Change, Volume, may_be_committed};

pub(crate) fn controller_expand_volume(
    driver: &Driver,
    request: &ControllerExpandVolumeRequest,
) -> Result<ControllerExpandVolumeResponse> {
    driver.require(driver.config.controller_expansion, "expansion by the controller")?;
    required("volume_id", &request.volume_id)?;
    let range = Range::required(request.capacity_range.as_ref())?;
    let capability = request.volume_capability.as_ref().map(Capability::parse).transpose()?;
    let (mut volume, _guard) = driver.volume_exclusive(&request.volume_id)?;
    if let Some(reason) = capability.and_then(|capability| volume.unfit(&capability, &driver.host_fs_type)) {
        return Err(DriverError::invalid("volume_capability", reason));
    }
    expand(driver, &mut volume, range, driver.config.max_volume_bytes)?;
    let mut behind = volume.backend().needs_fs_growth(&volume);
    if behind && !driver.config.node_expansion {
        // NodeExpandVolume is not offered, so a mounted file system grows here. One that is not mounted grows when it
        // is staged next.
        volume.backend().grow_mounted(driver, &mut volume)?;
        behind = false;
    }
    Ok(ControllerExpandVolumeResponse {
        capacity_bytes: signed(volume.capacity_bytes),
        node_expansion_required: behind,
    })
}

/// Grows a volume to the requested size, but not its file system, which the node grows. The new size is made visible
/// even if nothing grew, because an earlier call may have been interrupted before it did so.
pub(crate) fn expand(driver: &Driver, volume: &mut Volume, range: Range, max_bytes: u64) -> Result<()> {
    let present = volume.capacity_bytes;
    if range.is_below(present) {
        return Err(DriverError::out_of_range(format!("the volume has {present} bytes and cannot shrink")));
    }
    if range.required_bytes() > present {
        grow(driver, volume, range, max_bytes)?;
    }
    volume.backend().show_growth(driver, volume)
}

fn grow(driver: &Driver, volume: &mut Volume, range: Range, max_bytes: u64) -> Result<()> {
    let present = volume.capacity_bytes;
    let wanted = range.choose(largest_allowed(driver, volume, max_bytes))?;
    storage::check_present(driver, volume)?;
    let room = driver.ledger.reserve_growth(volume.pool.as_deref(), wanted - present)?;
    let larger = Volume { capacity_bytes: wanted, ..volume.clone() };
    let growth = storage::grow(driver, volume, wanted)?;
    let committed = driver.store.commit(vec![Change::PutVolume(larger.clone())]);
    if may_be_committed(&committed) {
        growth.keep();
        room.keep();
    }
    committed?;
    *volume = larger;
    Ok(())
}
