//! Raw block volumes: loop devices, bound to the target path.

use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::mount::MountFlags;

use super::is_device_of;
use crate::driver::Driver;
use crate::error::{DriverError, Result};
use crate::ids::Shown;
use crate::loopdev::{self, LoopDevice};
use crate::mount;
use crate::paths::{Occupant, Place};
use crate::store::Volume;

/// Whether a volume has its writable device.
pub(super) fn is_attached(driver: &Driver, volume: &Volume) -> Result<bool> {
    Ok(writable_device(driver, volume)?.is_some())
}

/// Gives a volume its writable device, unless it has one.
pub(super) fn attach(driver: &Driver, volume: &Volume) -> Result<()> {
    driver.require_privileges("staging a block volume")?;
    if !is_attached(driver, volume)? {
        LoopDevice::attach(&driver.layout.volume(&volume.key), false, false)?;
    }
    Ok(())
}

/// Takes all devices of a volume away.
pub(super) fn detach(driver: &Driver, volume: &Volume) -> Result<()> {
    for device in LoopDevice::of_image(&driver.layout.volume(&volume.key))? {
        device.flush()?;
        device.detach()?;
    }
    Ok(())
}

/// Makes a device appear at the target. A read-only target gets a device of its own that refuses writes, since the
/// mount flags of a device node do not concern what is done to the device.
pub(super) fn publish(driver: &Driver, volume: &Volume, readonly: bool, at: &Place) -> Result<()> {
    let image = driver.layout.volume(&volume.key);
    let not_staged =
        || DriverError::precondition(format!("volume {}", Shown(volume.id())), "it is not staged");
    let writable = writable_device(driver, volume)?.ok_or_else(not_staged)?;
    if !readonly {
        return mount::bind(writable.path(), MountFlags::empty(), at);
    }
    writable.flush()?;
    let device = LoopDevice::attach(&image, true, false)?;
    let bound = mount::bind(device.path(), MountFlags::empty(), at);
    if bound.is_err() {
        device.detach()?;
    }
    bound
}

/// The device that staging has made, but not one that was detached and only lasts until its last user closes it.
fn writable_device(driver: &Driver, volume: &Volume) -> Result<Option<LoopDevice>> {
    for device in LoopDevice::of_image(&driver.layout.volume(&volume.key))? {
        if !device.is_readonly()? && !device.goes_with_its_users()? {
            return Ok(Some(device));
        }
    }
    Ok(None)
}

/// The loop device that is bound to a target.
pub(super) fn device_at(place: &Place) -> Result<Option<PathBuf>> {
    Ok(place.occupant()?.and_then(|occupant| loopdev::node_of(occupant.device_number)))
}

/// Takes away a device that was made for one read-only target.
pub(super) fn detach_readonly(image: &Path, device: &Path) -> Result<()> {
    for candidate in LoopDevice::of_image(image)? {
        if candidate.path() == device && candidate.is_readonly()? {
            candidate.detach()?;
        }
    }
    Ok(())
}

/// Whether a device of the image, or one that has lost its file, is bound there.
pub(super) fn shows(bound: &Occupant, image: &Path) -> bool {
    let empty = || {
        let node = loopdev::node_of(bound.device_number);
        node.is_some_and(|node| loopdev::backing_path(&node).is_none())
    };
    bound.file_type == FileType::BlockDevice && (is_device_of(bound, image) || empty())
}
