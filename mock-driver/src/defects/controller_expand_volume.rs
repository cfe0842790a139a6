//! ControllerExpandVolume.

use csi_proto::v1::plugin_capability::volume_expansion::Type as ExpansionType;
use csi_proto::v1::{CapacityRange, ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use tonic::{Code, Status};

use super::side_effects::after_rejected_controller_expand;
use super::{GIB, forgive, volume_not_found};
use crate::capability::Capability;
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::state::Volume;
use crate::validate::{self, invalid};

const MIB: i64 = 1 << 20;

pub(crate) async fn controller_expand_volume(
    driver: &MockDriver,
    original: &ControllerExpandVolumeRequest,
) -> Result<ControllerExpandVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    let known = driver.state().volumes.get(&original.volume_id).cloned();
    reject(driver, original, known.as_ref())?;
    let mut request = original.clone();
    if has(Defect::ControllerExpandIgnoresCapability) {
        request.volume_capability = None;
    }
    alter_range(driver, &mut request, known.as_ref());
    let mut answer = controller::controller_expand_volume(driver, &request).await;
    if answer.is_err() {
        after_rejected_controller_expand(driver, original);
    }
    if has(Defect::ControllerExpandUnknownOk) {
        forgive(&mut answer, Code::NotFound);
    }
    let mut response = answer?;
    let required_bytes = original.capacity_range.map_or(0, |range| range.required_bytes);
    if has(Defect::ControllerExpandWaitsForExactSize) && required_bytes % MIB != 0 {
        return Err(Status::internal(format!("timed out waiting for {required_bytes} bytes")));
    }
    if let Some(known) = known.filter(|_| has(Defect::ControllerExpandAnswersOldSize)) {
        response.capacity_bytes = known.capacity_bytes;
    }
    if has(Defect::ControllerExpandAnswersZero) {
        response.capacity_bytes = 0;
    }
    if has(Defect::ControllerExpandNodeExpansionNotRequired) {
        response.node_expansion_required = false;
    }
    Ok(response)
}

fn reject(
    driver: &MockDriver,
    original: &ControllerExpandVolumeRequest,
    known: Option<&Volume>,
) -> Result<(), Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::ControllerExpandPanicsWithoutRange) && !original.volume_id.is_empty() {
        original.capacity_range.expect("capacity_range is always there");
    }
    if has(Defect::ControllerExpandOverflows) {
        let required_bytes = original.capacity_range.map_or(0, |range| range.required_bytes);
        required_bytes.checked_add(4095).expect("no volume is that large");
    }
    if has(Defect::ControllerExpandEmptyIdAsNotFound) && original.volume_id.is_empty() {
        return Err(volume_not_found(""));
    }
    if has(Defect::ControllerExpandDemandsCapability) && original.volume_capability.is_none() {
        return Err(invalid("volume_capability is missing"));
    }
    let (Some(known), Some(range)) = (known, original.capacity_range) else { return Ok(()) };
    let large_enough = range.required_bytes > 0 && range.required_bytes <= known.capacity_bytes;
    if has(Defect::ControllerExpandRefusesRepeats) && large_enough {
        return Err(Status::out_of_range("the volume is large enough"));
    }
    let online = driver.advertises(Capability::Expansion(ExpansionType::Online));
    let grows = range.required_bytes > known.capacity_bytes;
    if has(Defect::ControllerExpandRefusesOnline) && online && grows && known.is_in_use_on_a_node() {
        return Err(Status::failed_precondition("the volume is in use"));
    }
    Ok(())
}

/// Turns a range that should be rejected into a valid one, or a valid one into a wrong one.
fn alter_range(driver: &MockDriver, request: &mut ControllerExpandVolumeRequest, known: Option<&Volume>) {
    let has = |defect| driver.has(defect);
    let present = CapacityRange { required_bytes: 1, limit_bytes: 0 };
    let Some(CapacityRange { required_bytes, limit_bytes }) = request.capacity_range else {
        if has(Defect::ControllerExpandAcceptsMissingRange) {
            request.capacity_range = Some(present);
        }
        return;
    };
    let valid = validate::range(request.capacity_range.as_ref()).is_ok();
    let crossed = limit_bytes > 0 && required_bytes > limit_bytes;
    if (has(Defect::ControllerExpandAcceptsEmptyRange) && required_bytes == 0 && limit_bytes == 0)
        || (has(Defect::ControllerExpandAcceptsNegativeSize) && required_bytes.min(limit_bytes) < 0)
    {
        request.capacity_range = Some(present);
    }
    if has(Defect::ControllerExpandAcceptsCrossedRange) && crossed {
        request.capacity_range = Some(CapacityRange { required_bytes, limit_bytes: 0 });
    }
    let grows = known.is_some_and(|known| required_bytes > known.capacity_bytes)
        && required_bytes <= driver.config.volume_size_bytes_max;
    if has(Defect::ControllerExpandExceedsLimit) && grows && valid {
        let required_bytes = required_bytes.saturating_add(GIB);
        request.capacity_range = Some(CapacityRange { required_bytes, limit_bytes: 0 });
    }
}
