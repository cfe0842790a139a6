//! Whether a volume is well.

use csi_proto::v1::VolumeCondition;

use crate::driver::Driver;
use crate::storage;
use crate::store::Volume;

/// Below this share of free space a file system counts as full.
const FREE_SHARE_MIN: u64 = 1000;

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
    if space.f_blocks > 0 && space.f_bavail < space.f_blocks / FREE_SHARE_MIN {
        return abnormal("the file system is full");
    }
    normal()
}
