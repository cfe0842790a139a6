//! NodeGetStorageHealth, and the health messages of all RPCs.

use csi_proto::v1::node_get_storage_health_response::StorageBackendHealth;
use csi_proto::v1::volume_health::VolumeHealthEntry;
use csi_proto::v1::{
    NodeGetStorageHealthRequest, NodeGetStorageHealthResponse, StorageHealthErrorType, VolumeHealth,
    VolumeHealthErrorType,
};
use tonic::Status;

use super::add;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::health::entry;
use crate::node;

/// A length that no text of the protocol may have.
const LONG: usize = 129;

pub(super) fn corrupt_health(driver: &MockDriver, health: &mut VolumeHealth) {
    let has = |defect| driver.has(defect);
    let degraded = |reason: &str, message: &str| entry(VolumeHealthErrorType::Degraded, reason, message);
    let statuses = &mut health.health_statuses;
    let added = [
        (Defect::VolumeHealthStatusUnknown, entry(VolumeHealthErrorType::UnknownVolumeHealthType, "Odd", "")),
        (Defect::VolumeHealthReasonEmpty, degraded("", "something is wrong")),
        (Defect::VolumeHealthReasonInWords, degraded("the volume is slow", "")),
        (Defect::VolumeHealthReasonTooLong, degraded(&"Slow".repeat(LONG), "")),
        (Defect::VolumeHealthMessageTooLong, degraded("Slow", &"slow ".repeat(LONG))),
    ];
    add(driver, statuses, added);
    if has(Defect::VolumeHealthFloods) {
        statuses
            .extend((0..17u8).map(|number| degraded(&format!("Replica{}", char::from(b'A' + number)), "")));
    }
    if has(Defect::VolumeHealthEntryTwice) {
        if statuses.is_empty() {
            statuses.push(degraded("Slow", "the first replica is slow"));
        }
        statuses.extend_from_within(..);
    }
    if has(Defect::VolumeHealthIdMissing) {
        health.volume_id.clear();
    }
}

/// Appends a different number to each reason in every reply.
pub(super) fn number_reasons(driver: &MockDriver, statuses: &mut [VolumeHealthEntry]) {
    for status in statuses {
        status.reason.push_str(&driver.next_number().to_string());
    }
}

pub(super) fn corrupt_storage(driver: &MockDriver, reported: &mut Vec<StorageBackendHealth>) {
    use StorageHealthErrorType::{StorageDegraded, StorageUnreachable, UnknownStorageHealthErrorType};
    let storage = |status: StorageHealthErrorType, reason: &str| StorageBackendHealth {
        status: status as i32,
        reason: reason.to_owned(),
        ..Default::default()
    };
    let added = [
        (Defect::StorageHealthStatusUnknown, storage(UnknownStorageHealthErrorType, "Odd")),
        (Defect::StorageHealthReasonEmpty, storage(StorageDegraded, "")),
        (Defect::StorageHealthReasonInWords, storage(StorageDegraded, "one path is down")),
        (Defect::StorageHealthReasonTooLong, storage(StorageDegraded, &"Slow".repeat(LONG))),
        (Defect::StorageHealthEntryTwice, storage(StorageDegraded, "PathDown")),
        (Defect::StorageHealthEntryTwice, storage(StorageDegraded, "PathDown")),
        (Defect::NodeGetStorageHealthUnreachable, storage(StorageUnreachable, "NoPath")),
    ];
    add(driver, reported, added);
}

pub(crate) async fn node_get_storage_health(
    driver: &MockDriver,
    original: &NodeGetStorageHealthRequest,
) -> Result<NodeGetStorageHealthResponse, Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::NodeGetStorageHealthNeedsAVolume) {
        let state = driver.state();
        if !state.volumes.values().any(|volume| volume.is_staged_or_published()) {
            return Err(Status::failed_precondition("no volume is in use"));
        }
    }
    let mut response = node::node_get_storage_health(driver, original).await?;
    corrupt_storage(driver, &mut response.backend_health);
    if has(Defect::NodeGetStorageHealthNeverIll) {
        response.backend_health.clear();
    }
    Ok(response)
}
