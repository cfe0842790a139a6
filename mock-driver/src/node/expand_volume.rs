//! NodeExpandVolume.

use csi_proto::v1;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use tonic::Status;

use super::{find_volume, not_found};
use crate::controller::rounded;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::Volume;
use crate::validate::{self, Range, invalid};

pub(crate) async fn node_expand_volume(
    driver: &MockDriver,
    request: &v1::NodeExpandVolumeRequest,
) -> Result<v1::NodeExpandVolumeResponse, Status> {
    let path = &request.volume_path;
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    validate::required("volume_path", path)?;
    let range = validate::range(request.capacity_range.as_ref())?;
    let grown = driver.change(request, |state| {
        let volume = find_volume(driver, state, &request.volume_id, path);
        let volume = volume.ok_or_else(|| not_found(&request.volume_id))?;
        if !volume.on(driver.this_node()).has(path) && !driver.has(Defect::NodeExpandIgnoresPath) {
            return Err(Status::not_found(format!("volume {} is not at volume_path", volume.id)));
        }
        if let Some(capability) = &request.volume_capability {
            let usage = validate::usage(capability)?;
            driver.supports(&usage).map_err(invalid)?;
            if !volume.covers(&usage) {
                return Err(invalid("the volume was not made for this volume_capability"));
            }
        } else if volume.is_block() && driver.is(Quirk::NodeExpandTakesDevicesForMounts) {
            return Err(Status::internal("resize2fs: bad magic number in super-block"));
        }
        let grown = grown(driver, volume, range)?;
        let id = volume.id.clone();
        state.resize_volume(&id, grown);
        if let Some(volume) = state.volumes.get_mut(&id) {
            volume.on_mut(driver.this_node()).grown_bytes = grown;
        }
        Ok(grown)
    });
    let grown = grown.await?;
    let capacity_bytes = if driver.is(Quirk::NodeExpandUnknownSize) { 0 } else { grown };
    Ok(v1::NodeExpandVolumeResponse { capacity_bytes })
}

/// The size after the expansion. If the controller can expand, it has to come first; otherwise the node expands the
/// volume alone.
fn grown(driver: &MockDriver, volume: &Volume, range: Range) -> Result<i64, Status> {
    let present = volume.capacity_bytes;
    if range.contains(present) {
        return Ok(present);
    }
    if range.limit_bytes < present {
        return Err(Status::out_of_range(format!("the volume has {present} bytes, more than limit_bytes")));
    }
    // A caller that sees no Controller service cannot expand there first.
    let grows_alone =
        !driver.controller_can(ControllerType::ExpandVolume) || driver.is(Quirk::NoPluginCapabilities);
    let possible = if grows_alone { driver.config.volume_size_bytes_max } else { present };
    if range.required_bytes > possible && !driver.has(Defect::NodeExpandAcceptsAnySize) {
        return Err(Status::out_of_range(format!("the volume can have {possible} bytes at most")));
    }
    Ok(rounded(driver, range.required_bytes))
}
