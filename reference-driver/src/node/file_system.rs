//! Mounting directories and images.

use std::path::Path;

use rustix::fs::StatVfsMountFlags;
use rustix::mount::MountFlags;

use super::{expand, is_ours, ownership};
use crate::capability::Capability;
use crate::driver::Driver;
use crate::error::{DriverError, IoContext, Result};
use crate::fs::{self, Content, FsType};
use crate::ids::Shown;
use crate::loopdev::LoopDevice;
use crate::mount::{self, MountOptions};
use crate::paths::Place;
use crate::storage;
use crate::store::{Backend, Change, FsState, Volume};

/// Mounts a volume at a place, formatting, checking and growing its file system where that is due.
pub(super) fn mount(
    driver: &Driver,
    volume: &mut Volume,
    capability: &Capability,
    readonly: bool,
    at: &Place,
) -> Result<()> {
    let mut options = MountOptions::parse(capability.flags());
    if readonly {
        options.flags |= MountFlags::RDONLY;
    }
    match volume.backend {
        Backend::Directory if !driver.privileged => return Ok(()),
        Backend::Directory => mount::bind(&driver.layout.volume(&volume.key), options.flags, at)?,
        _ => mount_image(driver, volume, capability, &options, at)?,
    }
    match capability.group() {
        Some(group) if !options.flags.contains(MountFlags::RDONLY) => ownership::give_to_group(at, group),
        _ => Ok(()),
    }
}

fn mount_image(
    driver: &Driver,
    volume: &mut Volume,
    capability: &Capability,
    options: &MountOptions,
    at: &Place,
) -> Result<()> {
    driver.require_privileges("mounting an image")?;
    let image = driver.layout.volume(&volume.key);
    let (device, fs_type) = match LoopDevice::of_image(&image)?.into_iter().next() {
        None => {
            let device = LoopDevice::attach(&image, false, true)?;
            let fs_type = prepare(driver, volume, capability, &image, device.path())?;
            (device, fs_type)
        }
        Some(device) => (device, mounted_type(driver, volume)?),
    };
    mount_checked(fs_type, &device, options, at)?;
    let grown = if options.flags.contains(MountFlags::RDONLY) { Ok(()) } else { grow(volume, &device, at) };
    if let Err(error) = grown {
        mount::unmount(at, |occupant| is_ours(driver, volume, occupant))?;
        return Err(error);
    }
    Ok(())
}

/// Mounts, and once more after a repair if the kernel finds the file system damaged.
fn mount_checked(fs_type: FsType, device: &LoopDevice, options: &MountOptions, at: &Place) -> Result<()> {
    /// `EUCLEAN`: the file system needs cleaning.
    const NEEDS_CLEANING: i32 = 117;
    match mount::mount_device(device.path(), fs_type, options, at) {
        Err(DriverError::Io { source, .. }) if source.raw_os_error() == Some(NEEDS_CLEANING) => {
            fs_type.repair(device.path())?;
            mount::mount_device(device.path(), fs_type, options, at)
        }
        Err(DriverError::Io { source, .. }) if source.kind() == std::io::ErrorKind::InvalidInput => {
            let reason = format!("{fs_type} does not mount with its mount_flags: {source}");
            Err(DriverError::precondition("the volume_capability", reason))
        }
        result => result,
    }
}

/// The file system of a volume that has a device already because it is mounted elsewhere. A device without a mount is
/// held by a helper program that a killed driver has left running; until it ends, the volume is busy.
fn mounted_type(driver: &Driver, volume: &Volume) -> Result<FsType> {
    match volume.fs {
        FsState::Formatted { fs_type, .. } if expand::mounted_place(driver, volume)?.is_some() => Ok(fs_type),
        _ => Err(DriverError::Busy { what: format!("the device of volume {}", Shown(volume.id())) }),
    }
}

/// Makes sure that an image holds a sound file system, and says which.
fn prepare(
    driver: &Driver,
    volume: &mut Volume,
    capability: &Capability,
    image: &Path,
    device: &Path,
) -> Result<FsType> {
    match volume.fs {
        FsState::Formatted { fs_type, size_bytes, copied } => {
            fs_type.check(device)?;
            if copied {
                fs_type.make_unique(device)?;
            }
            let grown = size_bytes < volume.capacity_bytes && fs_type.grow_unmounted(device)?;
            let size_bytes = if grown { volume.capacity_bytes } else { size_bytes };
            volume.fs = FsState::Formatted { fs_type, size_bytes, copied: false };
            Ok(fs_type)
        }
        FsState::Formatting { fs_type } => {
            storage::blank_image(image)?;
            format(driver, volume, wanted_type(driver, volume, capability).unwrap_or(fs_type), device)
        }
        FsState::Unknown => match fs::probe(image)? {
            Content::Blank => {
                let fs_type = wanted_type(driver, volume, capability);
                let fs_type = fs_type.unwrap_or(driver.config.fs_type);
                format(driver, volume, fs_type, device)
            }
            Content::Fs(fs_type) => adopt(volume, fs_type, capability, device),
            Content::Data => {
                let what = format!("volume {}", Shown(volume.id()));
                Err(DriverError::precondition(
                    what,
                    "it holds data that are no known file system, and is not formatted",
                ))
            }
        },
    }
}

/// Takes over a file system that came with the data, as from a snapshot of a block volume.
fn adopt(volume: &mut Volume, fs_type: FsType, capability: &Capability, device: &Path) -> Result<FsType> {
    if !capability.fs_type().is_empty() && capability.fs_type() != fs_type.name() {
        let reason = format!("it holds {fs_type}, not {}", capability.fs_type());
        return Err(DriverError::precondition(format!("volume {}", Shown(volume.id())), reason));
    }
    fs_type.check(device)?;
    fs_type.make_unique(device)?;
    let grown = fs_type.grow_unmounted(device)?;
    let size_bytes = if grown { volume.capacity_bytes } else { 0 };
    volume.fs = FsState::Formatted { fs_type, size_bytes, copied: false };
    Ok(fs_type)
}

/// The type that the call names, or the one the volume was made for.
fn wanted_type(driver: &Driver, volume: &Volume, capability: &Capability) -> Option<FsType> {
    let made_for = volume.fs_types.first().map(String::as_str);
    FsType::parse(capability.fs_type())
        .or_else(|| made_for.and_then(FsType::parse))
        .or(Some(driver.config.fs_type))
}

/// Formats a blank image. That it is being formatted is written down first: what a crash leaves is thrown away.
fn format(driver: &Driver, volume: &mut Volume, fs_type: FsType, device: &Path) -> Result<FsType> {
    if volume.capacity_bytes < fs_type.size_bytes_min() {
        let reason = format!("{fs_type} needs at least {} bytes", fs_type.size_bytes_min());
        return Err(DriverError::precondition(format!("volume {}", Shown(volume.id())), reason));
    }
    volume.fs = FsState::Formatting { fs_type };
    driver.store.commit(vec![Change::PutVolume(volume.clone())])?;
    fs_type.format(device)?;
    let size_bytes = volume.capacity_bytes;
    volume.fs = FsState::Formatted { fs_type, size_bytes, copied: false };
    Ok(fs_type)
}

/// Grows a mounted file system to the size of the volume.
pub(super) fn grow(volume: &mut Volume, device: &LoopDevice, at: &Place) -> Result<()> {
    let FsState::Formatted { fs_type, size_bytes, copied } = volume.fs else { return Ok(()) };
    if size_bytes >= volume.capacity_bytes {
        return Ok(());
    }
    let mounted = at.hold()?;
    let flags = mounted.statvfs().on("look at the file system at", at.path())?.f_flag;
    if flags.contains(StatVfsMountFlags::RDONLY) {
        let reason = "its file system is mounted read-only, and grows at its next staging for writing";
        return Err(DriverError::precondition(format!("volume {}", Shown(volume.id())), reason));
    }
    if device.size_bytes()? < volume.capacity_bytes {
        device.refresh_size()?;
    }
    fs_type.grow_mounted(device.path(), &mounted.path_for_others())?;
    volume.fs = FsState::Formatted { fs_type, size_bytes: volume.capacity_bytes, copied };
    Ok(())
}
