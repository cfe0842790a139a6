//! Whether a volume is well.

use csi_proto::v1::VolumeCondition;

use crate::driver::Driver;
use crate::storage;
use crate::store::Volume;

/// A file system with less than this much room, and less than a twentieth of its size, counts as full.
const ROOM_BYTES_MIN: u64 = 1 << 20;

/// A volume that is well.
pub(crate) fn normal() -> VolumeCondition {
    VolumeCondition { abnormal: false, message: "the volume is well".to_owned() }
}

/// A volume that is not.
pub(crate) fn abnormal(message: impl Into<String>) -> VolumeCondition {
    VolumeCondition { abnormal: true, message: message.into() }
}

/// What the controller sees: whether the data are there.
pub(crate) fn of_data(driver: &Driver, volume: &Volume) -> VolumeCondition {
    match storage::check_present(driver, volume) {
        Ok(()) => normal(),
        Err(error) => abnormal(error.to_string()),
    }
}

/// What the node sees of a mounted file system.
pub(crate) fn of_file_system(space: &rustix::fs::StatVfs, readonly_expected: bool) -> VolumeCondition {
    if space.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) && !readonly_expected {
        return abnormal("the file system has become read-only");
    }
    let room_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    if space.f_bavail < space.f_blocks / 20 && room_bytes < ROOM_BYTES_MIN {
        return abnormal("the file system is full");
    }
    normal()
}
