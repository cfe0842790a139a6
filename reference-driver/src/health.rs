//! The health of volumes and of the storage. The driver reports what it observes. To test callers, files in the state
//! directory can add to that, as with the Go driver.

use csi_proto::health::{HealthFiles, Side};
use csi_proto::v1::node_get_storage_health_response::StorageBackendHealth;
use csi_proto::v1::volume_health::VolumeHealthEntry;
use csi_proto::v1::{StorageHealthErrorType, VolumeCondition, VolumeHealth, VolumeHealthErrorType};
use rustix::fs::StatVfsMountFlags;

use crate::driver::Driver;
use crate::error::{DriverError, Result};
use crate::storage;
use crate::store::Volume;

/// A file system counts as full if less than this and less than a twentieth of its size is free.
const ROOM_BYTES_MIN: u64 = 1 << 20;

/// A problem of a volume.
#[derive(Debug)]
pub(crate) struct Problem {
    status: VolumeHealthErrorType,
    reason: &'static str,
    message: String,
}

impl Problem {
    pub(crate) fn inaccessible(reason: &'static str, message: impl Into<String>) -> Problem {
        Problem { status: VolumeHealthErrorType::Inaccessible, reason, message: message.into() }
    }

    fn degraded(reason: &'static str, message: &str) -> Problem {
        Problem { status: VolumeHealthErrorType::Degraded, reason, message: message.to_owned() }
    }
}

/// Converts a problem to the VolumeCondition of CSI 1.12.
pub(crate) fn condition(problem: Option<&Problem>) -> VolumeCondition {
    let message = problem.map_or("the volume is well", |problem| &problem.message).to_owned();
    VolumeCondition { abnormal: problem.is_some(), message }
}

/// The problems that the controller can see, which is that the data are missing.
pub(crate) fn of_data(driver: &Driver, volume: &Volume) -> Option<Problem> {
    let absent = storage::check_present(driver, volume).err()?;
    Some(Problem::inaccessible("DataMissing", absent.to_string()))
}

/// The problems that the node can see at a mounted file system.
pub(crate) fn of_file_system(space: &rustix::fs::StatVfs, readonly_expected: bool) -> Option<Problem> {
    if space.f_flag.contains(StatVfsMountFlags::RDONLY) && !readonly_expected {
        return Some(read_only());
    }
    let room_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    if space.f_bavail < space.f_blocks / 20 && room_bytes < ROOM_BYTES_MIN {
        return Some(Problem::degraded("FileSystemFull", "the file system is full"));
    }
    None
}

/// A file system that accepts no more writes.
pub(crate) fn read_only() -> Problem {
    Problem::degraded("ReadOnlyFileSystem", "the file system has become read-only")
}

/// The health of a volume: the observed problems, and those from files.
pub(crate) fn of_volume(
    driver: &Driver,
    volume: &Volume,
    side: Side,
    seen: impl IntoIterator<Item = Problem>,
) -> Result<VolumeHealth> {
    let mut health_statuses = files(driver).of_volume(volume.id(), side).map_err(DriverError::from)?;
    for Problem { status, reason, message } in seen {
        let entry = VolumeHealthEntry { status: status.into(), reason: reason.to_owned(), message };
        let is_known = |one: &VolumeHealthEntry| (one.status, &one.reason) == (entry.status, &entry.reason);
        if !health_statuses.iter().any(is_known) {
            health_statuses.push(entry);
        }
    }
    Ok(VolumeHealth { volume_id: volume.id().to_owned(), health_statuses })
}

/// The problems of the storage on this node.
pub(crate) fn of_storage(driver: &Driver) -> Result<Vec<StorageBackendHealth>> {
    let mut health = files(driver).of_storage().map_err(DriverError::from)?;
    let root = driver.layout.root();
    let seen = match rustix::fs::statvfs(root) {
        Err(errno) => {
            let message = format!("failed to look at {}: {errno}", root.display());
            Some((StorageHealthErrorType::StorageUnreachable, "StateDirectoryGone", message))
        }
        Ok(space) if space.f_flag.contains(StatVfsMountFlags::RDONLY) => {
            let message = format!("{} has become read-only", root.display());
            Some((StorageHealthErrorType::StorageDegraded, "StateDirectoryReadOnly", message))
        }
        Ok(_) => None,
    };
    health.extend(seen.map(|(status, reason, message)| StorageBackendHealth {
        status: status.into(),
        reason: reason.to_owned(),
        message,
        volume_capability: None,
    }));
    Ok(health)
}

fn files(driver: &Driver) -> HealthFiles {
    HealthFiles::new(driver.layout.root())
}
