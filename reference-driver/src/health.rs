//! What is wrong with volumes and with the storage: what the driver sees, and what files in the state directory tell it for
//! tests of callers, as they tell the Go driver.

use csi_proto::health::{HealthFiles, Side};
use csi_proto::v1::node_get_storage_health_response::StorageBackendHealth;
use csi_proto::v1::volume_health::VolumeHealthEntry;
use csi_proto::v1::{StorageHealthErrorType, VolumeCondition, VolumeHealth, VolumeHealthErrorType};
use rustix::fs::StatVfsMountFlags;

use crate::driver::Driver;
use crate::error::{DriverError, Result};
use crate::storage;
use crate::store::Volume;

/// A file system with less than this much room, and less than a twentieth of its size, counts as full.
const ROOM_BYTES_MIN: u64 = 1 << 20;

/// Something that is wrong with a volume.
#[derive(Debug)]
pub(crate) struct Trouble {
    status: VolumeHealthErrorType,
    reason: &'static str,
    message: String,
}

impl Trouble {
    /// The volume cannot be used.
    pub(crate) fn inaccessible(reason: &'static str, message: impl Into<String>) -> Trouble {
        Trouble { status: VolumeHealthErrorType::Inaccessible, reason, message: message.into() }
    }

    fn degraded(reason: &'static str, message: &str) -> Trouble {
        Trouble { status: VolumeHealthErrorType::Degraded, reason, message: message.to_owned() }
    }
}

/// The same for callers of 1.12.
pub(crate) fn condition(trouble: Option<&Trouble>) -> VolumeCondition {
    let message = trouble.map_or("the volume is well", |trouble| &trouble.message).to_owned();
    VolumeCondition { abnormal: trouble.is_some(), message }
}

/// What the controller sees: whether the data are there.
pub(crate) fn of_data(driver: &Driver, volume: &Volume) -> Option<Trouble> {
    let absent = storage::check_present(driver, volume).err()?;
    Some(Trouble::inaccessible("DataMissing", absent.to_string()))
}

/// What the node sees of a mounted file system.
pub(crate) fn of_file_system(space: &rustix::fs::StatVfs, readonly_expected: bool) -> Option<Trouble> {
    if space.f_flag.contains(StatVfsMountFlags::RDONLY) && !readonly_expected {
        return Some(Trouble::degraded("ReadOnlyFileSystem", "the file system has become read-only"));
    }
    let room_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    if space.f_bavail < space.f_blocks / 20 && room_bytes < ROOM_BYTES_MIN {
        return Some(Trouble::degraded("FileSystemFull", "the file system is full"));
    }
    None
}

/// All that is wrong with a volume on one side: what is seen, and what files tell.
pub(crate) fn of_volume(
    driver: &Driver,
    volume: &Volume,
    side: Side,
    seen: impl IntoIterator<Item = Trouble>,
) -> Result<VolumeHealth> {
    let told = files(driver).of_volume(volume.id(), side).map_err(DriverError::from)?;
    let mut health_statuses = told;
    for Trouble { status, reason, message } in seen {
        let entry = VolumeHealthEntry { status: status.into(), reason: reason.to_owned(), message };
        let is_known = |one: &VolumeHealthEntry| (one.status, &one.reason) == (entry.status, &entry.reason);
        if !health_statuses.iter().any(is_known) {
            health_statuses.push(entry);
        }
    }
    Ok(VolumeHealth { volume_id: volume.id().to_owned(), health_statuses })
}

/// What is wrong with the storage on this node.
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
