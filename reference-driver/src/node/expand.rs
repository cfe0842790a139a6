//! NodeExpandVolume.

use csi_proto::v1::{NodeExpandVolumeRequest, NodeExpandVolumeResponse};

use super::stats;
use crate::capability::Capability;
use crate::capacity_range::Range;
use crate::controller::{expand, signed};
use crate::driver::{Driver, required};
use crate::error::{DriverError, Result};
use crate::ids::Shown;

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
    if let Some(reason) =
        capability.and_then(|capability| capability.unfit_for(&volume, &driver.host_fs_type))
    {
        return Err(DriverError::invalid("volume_capability", reason));
    }
    expand(driver, &mut volume, range, driver.config.max_volume_bytes_node)?;
    volume.backend().grow_mounted(driver, &mut volume)?;
    Ok(NodeExpandVolumeResponse { capacity_bytes: signed(volume.capacity_bytes) })
}
