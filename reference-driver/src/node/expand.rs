//! NodeExpandVolume.

use csi_proto::v1::{NodeExpandVolumeRequest, NodeExpandVolumeResponse};

use super::{file_system, is_mounted, recorded_place, stats};
use crate::capability::Capability;
use crate::capacity_range::Range;
use crate::controller::{expand, signed};
use crate::driver::{Driver, required};
use crate::error::{DriverError, Result};
use crate::ids::Shown;
use crate::loopdev::LoopDevice;
use crate::paths::Place;
use crate::store::{Backend, Change, Volume};

pub(crate) fn node_expand_volume(
    driver: &Driver,
    request: &NodeExpandVolumeRequest,
) -> Result<NodeExpandVolumeResponse> {
    driver.require(driver.config.node_expansion, "expansion by the node")?;
    required("volume_id", &request.volume_id)?;
    required("volume_path", &request.volume_path)?;
    let range = Range::parse(request.capacity_range.as_ref())?;
    let capability = request.volume_capability.as_ref().map(Capability::parse).transpose()?;
    let (mut volume, _guard) = driver.volume_alone(&request.volume_id)?;
    if stats::find_use(driver, &volume, &request.volume_path)?.is_none() {
        let path = Shown(&request.volume_path).to_string();
        return Err(DriverError::NotAtPath { id: Shown(volume.id()).to_string(), path });
    }
    if let Some(reason) =
        capability.and_then(|capability| capability.unfit_for(&volume, &driver.host_fs_type))
    {
        return Err(DriverError::invalid("volume_capability", reason));
    }
    expand(driver, &mut volume, range, driver.config.max_volume_bytes_node)?;
    grow_mounted(driver, &mut volume)?;
    Ok(NodeExpandVolumeResponse { capacity_bytes: signed(volume.capacity_bytes) })
}

/// Grows the file system of an image that is mounted somewhere to the size of the volume.
pub(crate) fn grow_mounted(driver: &Driver, volume: &mut Volume) -> Result<()> {
    if volume.backend != Backend::Image {
        return Ok(());
    }
    let Some(place) = mounted_place(driver, volume)? else { return Ok(()) };
    let before = volume.fs;
    if let Some(device) = LoopDevice::of_image(&driver.layout.volume(&volume.key))?.into_iter().next() {
        file_system::grow(volume, &device, &place)?;
    }
    if volume.fs != before {
        driver.store.commit(vec![Change::PutVolume(volume.clone())])?;
    }
    Ok(())
}

/// A place at which the volume is mounted, the staging path rather than a target, which may be read-only.
pub(super) fn mounted_place(driver: &Driver, volume: &Volume) -> Result<Option<Place>> {
    let view = driver.store.view()?;
    let staged = view.staged_of(&volume.key)?.into_iter().map(|staged| staged.path);
    let published = view.published_of(&volume.key)?.into_iter().map(|published| published.path);
    for path in staged.chain(published) {
        if let Some(place) = recorded_place(&path)?
            && is_mounted(driver, volume, &place)?
        {
            return Ok(Some(place));
        }
    }
    Ok(None)
}
