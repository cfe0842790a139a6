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
    let range = parse(driver, request)?;
    let mut state = driver.state();
    let Some(volume) = state.volumes.get(&request.volume_id) else {
        if driver.has(Defect::ControllerExpandUnknownOk) {
            return Ok(v1::ControllerExpandVolumeResponse::default());
        }
        return Err(Status::not_found(format!("volume {} does not exist", request.volume_id)));
    };
    if let Some(capability) = &request.volume_capability
        && !driver.has(Defect::ControllerExpandIgnoresCapability)
    {
        check_capability(driver, volume, capability)?;
    }
    let grown = grown(driver, &state, volume, range)?;
    let is_block = request.volume_capability.as_ref().map_or(volume.is_block(), |capability| {
        validate::usage(capability).is_ok_and(|usage| usage.is_block())
    });
    let old = volume.capacity_bytes;
    state.resize_volume(&request.volume_id, grown);
    let mut response = v1::ControllerExpandVolumeResponse {
        capacity_bytes: grown,
        node_expansion_required: driver.node_can(NodeType::ExpandVolume) && !is_block,
    };
    if driver.has(Defect::ControllerExpandAnswersOldSize) {
        response.capacity_bytes = old;
    }
    if driver.has(Defect::ControllerExpandAnswersZero) {
        response.capacity_bytes = 0;
    }
    if driver.has(Defect::ControllerExpandChangesNothing) {
        state.resize_volume(&request.volume_id, old);
    }
    if driver.has(Defect::ControllerExpandNodeExpansionNotRequired) {
        response.node_expansion_required = false;
    }
    if driver.has(Defect::ControllerExpandNodeExpansionAlwaysRequired) {
        response.node_expansion_required = true;
    }
    Ok(response)
}

fn parse(driver: &MockDriver, request: &v1::ControllerExpandVolumeRequest) -> Result<Range, Status> {
    if !(request.volume_id.is_empty() && driver.has(Defect::ControllerExpandEmptyIdAsNotFound)) {
        driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    }
    if driver.has(Defect::ControllerExpandPanicsWithoutRange) {
        request.capacity_range.expect("capacity_range is always there");
    }
    if driver.has(Defect::ControllerExpandDemandsCapability) && request.volume_capability.is_none() {
        return Err(invalid("volume_capability is missing"));
    }
    match request.capacity_range {
        None if driver.has(Defect::ControllerExpandAcceptsMissingRange) => Ok(Range::ANY),
        None => Err(invalid("capacity_range is missing")),
        Some(given)
            if driver.has(Defect::ControllerExpandAcceptsEmptyRange) && given == Default::default() =>
        {
            Ok(Range::ANY)
        }
        Some(given)
            if driver.has(Defect::ControllerExpandAcceptsNegativeSize)
                && given.required_bytes.min(given.limit_bytes) < 0 =>
        {
            Ok(Range::ANY)
        }
        Some(given)
            if driver.has(Defect::ControllerExpandAcceptsCrossedRange)
                && given.required_bytes > given.limit_bytes
                && given.limit_bytes > 0 =>
        {
            Ok(Range { required_bytes: given.required_bytes, ..Range::ANY })
        }
        Some(given) => validate::range(Some(&given)),
    }
}

/// The capability has to be one that the volume has.
fn check_capability(
    driver: &MockDriver,
    volume: &Volume,
    capability: &v1::VolumeCapability,
) -> Result<(), Status> {
    let usage = validate::usage(capability)?;
    driver.supports(&usage).map_err(invalid)?;
    match volume.covers(&usage) {
        true => Ok(()),
        false => Err(invalid("the volume was not made for this volume_capability")),
    }
}

/// The size after the expansion, which is the present one if that is enough.
fn grown(driver: &MockDriver, state: &State, volume: &Volume, range: Range) -> Result<i64, Status> {
    let present = volume.capacity_bytes;
    if range.limit_bytes < present {
        return Err(Status::out_of_range(format!("the volume has {present} bytes, more than limit_bytes")));
    }
    if range.required_bytes <= present {
        if driver.has(Defect::ControllerExpandRefusesRepeats) {
            return Err(Status::out_of_range("the volume is large enough"));
        }
        if driver.has(Defect::ControllerExpandShrinks) && range.required_bytes > 0 {
            return Ok(range.required_bytes);
        }
        return Ok(present);
    }
    let max = driver.config.volume_size_bytes_max;
    if range.required_bytes > max && !driver.has(Defect::ControllerExpandAcceptsAnySize) {
        let message = format!("no volume is larger than {max} bytes");
        return Err(match driver.has(Defect::ControllerExpandOutOfRangeAsInternal) {
            true => Status::internal(message),
            false => Status::out_of_range(message),
        });
    }
    check_use(driver, volume)?;
    let grown = rounded(driver, range.required_bytes);
    if driver.has(Defect::ControllerExpandExceedsLimit) {
        return Ok(grown.saturating_add(GIB));
    }
    if grown > range.limit_bytes {
        return Err(Status::out_of_range(format!(
            "the next possible size is {grown} bytes, more than the limit"
        )));
    }
    if grown - present > placement::free_bytes(driver, state, volume.zone) {
        return Err(Status::resource_exhausted(format!("no storage has {} bytes free", grown - present)));
    }
    Ok(grown)
}

/// Without ONLINE only a volume that no node uses can be expanded.
fn check_use(driver: &MockDriver, volume: &Volume) -> Result<(), Status> {
    if driver.is(Quirk::ExpandsOnlineOnly) && !volume.is_in_use_on_a_node() {
        return Err(Status::failed_precondition(
            "the volume is not in use, and can be expanded only when it is",
        ));
    }
    let online = driver.advertises(Capability::Expansion(ExpansionType::Online));
    if online && driver.has(Defect::ControllerExpandRefusesOnline) && volume.is_in_use_on_a_node() {
        return Err(Status::failed_precondition("the volume is in use"));
    }
    if online || !volume.is_in_use_on_a_node() || driver.has(Defect::ControllerExpandIgnoresUse) {
        return Ok(());
    }
    let message = "the volume is in use, and can be expanded only when it is not";
    Err(match driver.has(Defect::ControllerExpandInUseAsInternal) {
        true => Status::internal(message),
        false => Status::failed_precondition(message),
    })
}

/// The next size that can be had.
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
