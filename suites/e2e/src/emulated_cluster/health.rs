//! Converts a driver's health answers into an object's status, and reports answers that no status can represent.

use csi_harness::prelude::{Cx, Stop};
use csi_proto::v1;
use v1::node_get_storage_health_response::StorageBackendHealth;
use v1::volume_health::VolumeHealthEntry;

use crate::cluster::{Done, HealthCondition};
use crate::scene::failed;

/// The API server's limits on the conditions of one volume, and on the bytes of their texts.
const CONDITIONS_MAX: usize = 16;
const REASON_BYTES_MAX: usize = 256;
const MESSAGE_BYTES_MAX: usize = 1024;

/// Returns the problems of the requested volume.
///
/// # Errors
/// A violation if the answer does not contain it, or no status can represent it.
pub(super) fn of_volume(
    rpc: &str,
    volume_id: &str,
    health: Option<&v1::VolumeHealth>,
) -> Done<Vec<HealthCondition>> {
    let Some(health) = health else {
        return Err(failed(format!("{rpc} does not report health"), "volume_health in the reply", "none"));
    };
    if health.volume_id != volume_id {
        let what = format!("{rpc} reports the health of another volume than requested");
        return Err(failed(what, volume_id, &health.volume_id));
    }
    of_entries(&health.health_statuses)
}

/// Returns the problems of a volume.
///
/// # Errors
/// A violation if no status can represent it.
pub(super) fn of_entries(entries: &[VolumeHealthEntry]) -> Done<Vec<HealthCondition>> {
    use v1::VolumeHealthErrorType as HealthType;
    let status = |entry: &VolumeHealthEntry| match HealthType::try_from(entry.status) {
        Ok(HealthType::UnknownVolumeHealthType) => Err(no_status()),
        Ok(HealthType::Degraded) => Ok(Some("Degraded")),
        Ok(HealthType::Inaccessible) => Ok(Some("Inaccessible")),
        Ok(HealthType::DataLoss) => Ok(Some("DataLoss")),
        Err(_) => Ok(None),
    };
    for (index, entry) in entries.iter().enumerate() {
        let is_same =
            |other: &VolumeHealthEntry| other.status == entry.status && other.reason == entry.reason;
        if entries[..index].iter().any(is_same) {
            return Err(twice(&entry.reason));
        }
    }
    conditions(entries.iter().map(|entry| (status(entry), &entry.reason, &entry.message)))
}

/// Returns the problems of a back end.
///
/// # Errors
/// A violation if no status can represent it.
pub(super) fn of_storage(entries: &[StorageBackendHealth]) -> Done<Vec<HealthCondition>> {
    use v1::StorageHealthErrorType as HealthType;
    let status = |entry: &StorageBackendHealth| match HealthType::try_from(entry.status) {
        Ok(HealthType::UnknownStorageHealthErrorType) => Err(no_status()),
        Ok(HealthType::StorageDegraded) => Ok(Some("StorageDegraded")),
        Ok(HealthType::StorageUnreachable) => Ok(Some("StorageUnreachable")),
        Err(_) => Ok(None),
    };
    for (index, entry) in entries.iter().enumerate() {
        let is_same = |other: &StorageBackendHealth| {
            (other.status, &other.reason, &other.volume_capability)
                == (entry.status, &entry.reason, &entry.volume_capability)
        };
        if entries[..index].iter().any(is_same) {
            return Err(twice(&entry.reason));
        }
    }
    conditions(entries.iter().map(|entry| (status(entry), &entry.reason, &entry.message)))
}

/// Entries without a status belong to a later version, and are dropped.
fn conditions<'a>(
    entries: impl Iterator<Item = (Done<Option<&'static str>>, &'a String, &'a String)>,
) -> Done<Vec<HealthCondition>> {
    let mut conditions = Vec::new();
    for (status, reason, message) in entries {
        let Some(status) = status? else { continue };
        fits("reason", reason, REASON_BYTES_MAX)?;
        fits("message", message, MESSAGE_BYTES_MAX)?;
        conditions.push(HealthCondition { status, reason: reason.clone(), message: message.clone() });
    }
    match conditions.len() {
        0..=CONDITIONS_MAX => Ok(conditions),
        many => Err(failed(
            "more problems are reported than Kubernetes can store",
            format!("at most {CONDITIONS_MAX} entries"),
            many,
        )),
    }
}

fn fits(field: &str, text: &str, bytes_max: usize) -> Done {
    match text.len() {
        bytes if bytes > bytes_max => Err(failed(
            format!("the {field} of a problem is longer than Kubernetes can store"),
            format!("at most {bytes_max} bytes"),
            format!("{bytes} bytes"),
        )),
        _ => Ok(()),
    }
}

fn no_status() -> Stop {
    failed("a problem is reported without saying what it is", "a status other than 0", "status 0")
}

/// The API server rejects the whole status.
fn twice(reason: &str) -> Stop {
    failed("one problem is reported twice", "each status and reason once", format!("reason {reason:?} twice"))
}

/// Reports an invalid answer of a periodic call as a remark.
pub(super) fn remark(cx: &Cx, ended: Done) {
    if let Err(Stop::Violation(violation)) = ended {
        cx.warn(*violation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(status: i32, reason: &str) -> VolumeHealthEntry {
        VolumeHealthEntry { status, reason: reason.to_owned(), ..Default::default() }
    }

    #[test]
    fn what_no_status_can_hold_is_found() {
        let well = v1::VolumeHealth { volume_id: "a".to_owned(), health_statuses: Vec::new() };
        assert_eq!(of_volume("Get", "a", Some(&well)).unwrap(), []);
        assert!(of_volume("Get", "b", Some(&well)).is_err());
        assert!(of_volume("Get", "a", None).is_err());
        assert!(of_entries(&[entry(0, "A")]).is_err());
        assert!(of_entries(&[entry(1, "A"), entry(1, "A")]).is_err());
        assert!(of_entries(&[entry(1, &"x".repeat(REASON_BYTES_MAX + 1))]).is_err());
        let many: Vec<_> = (0..=CONDITIONS_MAX).map(|number| entry(1, &format!("R{number}"))).collect();
        assert!(of_entries(&many).is_err());
        assert_eq!(of_entries(&many[1..]).unwrap().len(), CONDITIONS_MAX);
        let words: Vec<_> = of_entries(&[entry(2, "A"), entry(3, "A"), entry(99, "A")])
            .unwrap()
            .iter()
            .map(|one| one.status)
            .collect();
        assert_eq!(words, ["Inaccessible", "DataLoss"], "what is of a later version is dropped");
    }
}
