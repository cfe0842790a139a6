//! ControllerExpandVolume.

use csi_proto::v1;
use csi_proto::v1::node_service_capability::rpc::Type as NodeType;
use csi_proto::v1::plugin_capability::volume_expansion::Type as ExpansionType;
use tonic::Status;

use super::placement;
use crate::capability::Capability;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{State, Volume};
use crate::validate::{self, Range, invalid};

const GIB: i64 = 1 << 30;

pub(crate) async fn controller_expand_volume(
    driver: &MockDriver,
    request: &v1::ControllerExpandVolumeRequest,
) -> Result<v1::ControllerExpandVolumeResponse, Status> {
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    let range = request.capacity_range.ok_or_else(|| invalid("capacity_range is missing"))?;
    let range = validate::range(Some(&range))?;
    let expanded = driver.change(request, |state| {
        let volume = state.volumes.get(&request.volume_id);
        let volume = volume
            .ok_or_else(|| Status::not_found(format!("volume {} does not exist", request.volume_id)))?;
        let is_block = match &request.volume_capability {
            Some(capability) => check_capability(driver, volume, capability)?,
            None => volume.is_block(),
        };
        let capacity_bytes = grown(driver, state, volume, range)?;
        if !driver.has(Defect::ControllerExpandChangesNothing) {
            state.resize_volume(&request.volume_id, capacity_bytes);
        }
        let keeps_no_sizes = driver.is(Quirk::CapacityUnknown) && range.required_bytes > 0;
        Ok(v1::ControllerExpandVolumeResponse {
            capacity_bytes: if keeps_no_sizes { range.required_bytes } else { capacity_bytes },
            node_expansion_required: driver.node_can(NodeType::ExpandVolume) && !is_block,
        })
    });
    expanded.await
}

/// Checks that the volume supports the capability. Returns whether it is block access.
fn check_capability(
    driver: &MockDriver,
    volume: &Volume,
    capability: &v1::VolumeCapability,
) -> Result<bool, Status> {
    let usage = validate::usage(capability)?;
    driver.supports(&usage).map_err(invalid)?;
    match volume.covers(&usage) {
        true => Ok(usage.is_block()),
        false => Err(invalid("the volume was not made for this volume_capability")),
    }
}

/// The size after the expansion; the present size if it is sufficient.
fn grown(driver: &MockDriver, state: &State, volume: &Volume, range: Range) -> Result<i64, Status> {
    let present = volume.capacity_bytes;
    let Range { required_bytes, limit_bytes } = range;
    if limit_bytes < present {
        return Err(Status::out_of_range(format!("the volume has {present} bytes, more than limit_bytes")));
    }
    if required_bytes <= present {
        let shrinks = driver.has(Defect::ControllerExpandShrinks) && required_bytes > 0;
        return Ok(if shrinks { required_bytes } else { present });
    }
    let max = driver.config.volume_size_bytes_max;
    if required_bytes > max {
        return Err(Status::out_of_range(format!("no volume is larger than {max} bytes")));
    }
    if driver.is(Quirk::ExpandsOnlineOnly) && !volume.is_in_use_on_a_node() {
        let message = "the volume is not in use, and can be expanded only when it is";
        return Err(Status::failed_precondition(message));
    }
    let online = driver.advertises(Capability::Expansion(ExpansionType::Online));
    if !online && volume.is_in_use_on_a_node() && !driver.has(Defect::ControllerExpandIgnoresUse) {
        let message = "the volume is in use, and can be expanded only when it is not";
        return Err(Status::failed_precondition(message));
    }
    let grown = rounded(driver, required_bytes);
    if grown > limit_bytes {
        let message = format!("the next possible size is {grown} bytes, more than the limit");
        return Err(Status::out_of_range(message));
    }
    if grown - present > placement::free_bytes(driver, state, volume.zone) {
        return Err(Status::resource_exhausted(format!("no storage has {} bytes free", grown - present)));
    }
    Ok(grown)
}

/// The next size that the driver supports.
pub(crate) fn rounded(driver: &MockDriver, bytes: i64) -> i64 {
    let unit = if driver.is(Quirk::SizeGranule) {
        GIB
    } else if driver.is(Quirk::ExactSizesRefused) {
        4 << 20
    } else {
        1
    };
    bytes.checked_add(unit - 1).map_or(bytes, |sum| sum / unit * unit)
}
