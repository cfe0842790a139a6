//! Image volumes: a sparse file that contains a file system and is mounted through a loop device.

use std::fs::OpenOptions;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use csi_proto::v1::VolumeUsage;
use rustix::fs::StatVfsMountFlags;
use rustix::mount::MountFlags;

use super::{Backend, mounted};
use crate::capability::{Access, Capability};
use crate::driver::Driver;
use crate::error::{DriverError, IoContext, Result, Shown};
use crate::fs::{self, Content, FsType};
use crate::health::Problem;
use crate::loopdev::LoopDevice;
use crate::mount::Frozen;
use crate::mount::{self, MountOptions};
use crate::paths::{Occupant, PathEntry};
use crate::store::{Change, FsState, Published, Volume};

/// The longest wait for a device that is no longer mounted to disappear, and the pause between looks.
const LAST_USER_LIMIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// The kernel detaches the device with its last mount, so a device exists exactly while the volume is mounted.
#[derive(Debug)]
pub(super) struct Image;

impl Backend for Image {
    fn formats(&self, fs_type: &str) -> bool {
        FsType::parse(fs_type).is_some()
    }

    fn can_freeze(&self) -> bool {
        true
    }

    fn unfit(&self, capability: &Capability, _host_fs_type: &str) -> Option<String> {
        let Access::Mount { fs_type, .. } = &capability.access else { return Some(mounted::no_device()) };
        let known = fs_type.is_empty() || self.formats(fs_type);
        (!known).then(|| format!("fs_type {} is not one of ext3, ext4, xfs, btrfs", Shown(fs_type)))
    }

    fn size_bytes_min(&self, fs_type: FsType) -> u64 {
        fs_type.size_bytes_min()
    }

    /// Freezes the file system of a mounted image until the returned value is dropped.
    fn quiesce(&self, driver: &Driver, volume: &Volume) -> Result<Option<Frozen>> {
        mounted_place(driver, volume)?.map(|place| Frozen::freeze(&place)).transpose()
    }

    /// A file system that does not exist yet counts as too small. It will be created at the full size, but nothing
    /// has recorded that yet.
    fn needs_fs_growth(&self, volume: &Volume) -> bool {
        match volume.fs {
            FsState::Formatted { size_bytes, .. } => size_bytes < volume.capacity_bytes,
            FsState::Unknown | FsState::Formatting { .. } => true,
        }
    }

    fn grow_mounted(&self, driver: &Driver, volume: &mut Volume) -> Result<()> {
        let Some(place) = mounted_place(driver, volume)? else { return Ok(()) };
        let before = volume.fs;
        if let Some(device) = LoopDevice::of_image(&driver.layout.volume(&volume.key))?.into_iter().next() {
            grow(volume, &device, &place)?;
        }
        if volume.fs != before {
            driver.store.commit(vec![Change::PutVolume(volume.clone())])?;
        }
        Ok(())
    }

    fn shows(&self, driver: &Driver, volume: &Volume, mount: &Occupant) -> bool {
        mount::shows_image(mount, &driver.layout.volume(&volume.key))
    }

    fn stage(
        &self,
        driver: &Driver,
        volume: &mut Volume,
        capability: &Capability,
        at: &PathEntry,
    ) -> Result<()> {
        mount_image(driver, volume, capability, &MountOptions::parse(capability.flags()), at)?;
        mounted::give_to_group(capability, at)
    }

    fn publish(
        &self,
        _driver: &Driver,
        _volume: &Volume,
        wanted: &Published,
        staged: &PathEntry,
        at: &PathEntry,
    ) -> Result<()> {
        mounted::publish(wanted, staged, at)
    }

    fn publish_inline(
        &self,
        driver: &Driver,
        volume: &mut Volume,
        wanted: &Published,
        at: &PathEntry,
    ) -> Result<()> {
        mounted::publish_inline(driver, volume, wanted, at)
    }

    fn usage(
        &self,
        driver: &Driver,
        volume: &Volume,
        at: &PathEntry,
        readonly: bool,
    ) -> Result<(Vec<VolumeUsage>, Option<Problem>)> {
        mounted::usage(driver, volume, at, readonly)
    }
}

/// A path where the volume is mounted. The staging path is preferred, because a target may be read-only.
fn mounted_place(driver: &Driver, volume: &Volume) -> Result<Option<PathEntry>> {
    let view = driver.store.view()?;
    let staged = view.staged_of(&volume.key)?.into_iter().map(|staged| staged.path);
    let published = view.published_of(&volume.key)?.into_iter().map(|published| published.path);
    for path in staged.chain(published) {
        if let Some(place) = PathEntry::recorded(&path)?
            && Image.is_mounted(driver, volume, &place)?
        {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// Mounts an image, after formatting, checking or growing its file system where necessary.
fn mount_image(
    driver: &Driver,
    volume: &mut Volume,
    capability: &Capability,
    options: &MountOptions,
    at: &PathEntry,
) -> Result<()> {
    driver.require_privileges("mounting an image")?;
    let image = driver.layout.volume(&volume.key);
    let (device, fs_type) = match mounted_device(driver, volume, &image)? {
        None => {
            let device = LoopDevice::attach(&image, false, true)?;
            let fs_type = prepare(driver, volume, capability, &image, device.path())?;
            (device, fs_type)
        }
        Some(found) => found,
    };
    mount_checked(fs_type, &device, options, at)?;
    let grown = if options.flags.contains(MountFlags::RDONLY) { Ok(()) } else { grow(volume, &device, at) };
    if let Err(error) = grown {
        mount::unmount(at, |occupant| Image.shows(driver, volume, occupant))?;
        return Err(error);
    }
    Ok(())
}

/// Mounts a device. If the kernel finds the file system damaged, repairs it and tries once more.
fn mount_checked(fs_type: FsType, device: &LoopDevice, options: &MountOptions, at: &PathEntry) -> Result<()> {
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

/// The device and file system type of a volume that is already mounted somewhere. Waits a moment for a device that is
/// not mounted to disappear: a command may have it open that was started before the unmount, or by a driver that was
/// killed.
fn mounted_device(driver: &Driver, volume: &Volume, image: &Path) -> Result<Option<(LoopDevice, FsType)>> {
    let deadline = Instant::now() + LAST_USER_LIMIT;
    loop {
        let Some(device) = LoopDevice::of_image(image)?.into_iter().next() else { return Ok(None) };
        match volume.fs {
            FsState::Formatted { fs_type, .. } if mounted_place(driver, volume)?.is_some() => {
                return Ok(Some((device, fs_type)));
            }
            _ if Instant::now() < deadline => {}
            _ => {
                return Err(DriverError::Busy {
                    what: format!("the device of volume {}", Shown(volume.id())),
                });
            }
        }
        drop(device);
        thread::sleep(PAUSE);
    }
}

/// Makes sure that an image contains an intact file system, and returns its type.
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
            blank(image)?;
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

/// Records a file system that came with copied data, for example from a snapshot of a block volume.
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

/// The file system type that the call names, or the one that the volume was created for.
fn wanted_type(driver: &Driver, volume: &Volume, capability: &Capability) -> Option<FsType> {
    let made_for = volume.fs_types.first().map(String::as_str);
    FsType::parse(capability.fs_type())
        .or_else(|| made_for.and_then(FsType::parse))
        .or(Some(driver.config.fs_type))
}

/// Formats a blank image. The record says beforehand that formatting has begun, so that the next start knows that the
/// content is worthless if the driver is killed in between.
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

fn grow(volume: &mut Volume, device: &LoopDevice, at: &PathEntry) -> Result<()> {
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
    fs_type.grow_mounted(device.path(), &mounted.path_for_children())?;
    volume.fs = FsState::Formatted { fs_type, size_bytes: volume.capacity_bytes, copied };
    Ok(())
}

/// Erases the remains of an interrupted formatting. The size stays, because a loop device already shows it.
fn blank(image: &Path) -> Result<()> {
    let file = OpenOptions::new().write(true).open(image).on("open", image)?;
    let size_bytes = file.metadata().on("look at", image)?.len();
    file.set_len(0).and_then(|()| file.set_len(size_bytes)).on("blank", image)
}
