//! Block volumes: a sparse file behind a loop device, whose node is bound to the target path.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use csi_proto::v1::VolumeUsage;
use csi_proto::v1::volume_usage::Unit;
use rustix::fs::FileType;
use rustix::mount::MountFlags;

use super::{Backend, file, unmount, used};
use crate::capability::Capability;
use crate::driver::Driver;
use crate::error::{DriverError, IoContext, Result, Shown};
use crate::fs::FsType;
use crate::health::Problem;
use crate::loopdev::{self, LoopDevice};
use crate::mount;
use crate::mount::Frozen;
use crate::paths::{Occupant, PathEntry};
use crate::store::{Published, View, Volume};

/// Staging attaches one writable device, which all targets share. A read-only target gets a device of its own.
#[derive(Debug)]
pub(super) struct Block;

impl Backend for Block {
    fn is_block(&self) -> bool {
        true
    }

    fn unfit(&self, capability: &Capability, _host_fs_type: &str) -> Option<String> {
        (!capability.is_block()).then(|| "a block volume cannot be mounted".to_owned())
    }

    fn size_bytes_min(&self, _fs_type: FsType) -> u64 {
        file::SECTOR_BYTES
    }

    /// Only flushes the caches of the devices, since nothing can keep a workload from writing to a device.
    fn quiesce(&self, driver: &Driver, volume: &Volume) -> Result<Option<Frozen>> {
        for device in LoopDevice::of_image(&driver.layout.volume(&volume.key))? {
            device.flush()?;
        }
        Ok(None)
    }

    fn needs_device(&self, driver: &Driver, view: &View, volume: &Volume, device: &Path) -> Result<bool> {
        let targets = view.published_of(&volume.key)?;
        let image = driver.layout.volume(&volume.key);
        Ok(!view.staged_of(&volume.key)?.is_empty() && !is_stray_readonly(device, &image, &targets)?)
    }

    fn shows(&self, driver: &Driver, volume: &Volume, mount: &Occupant) -> bool {
        let has_lost_its_file = || {
            let node = loopdev::node_of(mount.device_number);
            node.is_some_and(|node| loopdev::backing_path(&node).is_none())
        };
        mount.file_type == FileType::BlockDevice
            && (is_device_of(mount, &driver.layout.volume(&volume.key)) || has_lost_its_file())
    }

    /// Kubelet's global map directory contains such a bound device node.
    fn is_bound_by_co(&self, driver: &Driver, volume: &Volume, at: &PathEntry) -> Result<bool> {
        let image = driver.layout.volume(&volume.key);
        Ok(at.occupant()?.is_some_and(|there| is_device_of(&there, &image)))
    }

    fn is_staged(&self, driver: &Driver, volume: &Volume, _at: &PathEntry) -> Result<bool> {
        Ok(writable_device(driver, volume)?.is_some())
    }

    fn stage(&self, driver: &Driver, volume: &mut Volume, _: &Capability, _at: &PathEntry) -> Result<()> {
        driver.require_privileges("staging a block volume")?;
        if writable_device(driver, volume)?.is_none() {
            LoopDevice::attach(&driver.layout.volume(&volume.key), false, false)?;
        }
        Ok(())
    }

    fn unstage(
        &self,
        driver: &Driver,
        volume: &Volume,
        _at: Option<&PathEntry>,
        is_last: bool,
    ) -> Result<()> {
        if !is_last {
            return Ok(());
        }
        for device in LoopDevice::of_image(&driver.layout.volume(&volume.key))? {
            device.flush()?;
            device.detach()?;
        }
        Ok(())
    }

    /// A read-only target gets a device that rejects writes, since the mount flags of a bound device node do not
    /// restrict writes to the device.
    fn publish(
        &self,
        driver: &Driver,
        volume: &Volume,
        wanted: &Published,
        _staged: &PathEntry,
        at: &PathEntry,
    ) -> Result<()> {
        at.make_file()?;
        let not_staged =
            || DriverError::precondition(format!("volume {}", Shown(volume.id())), "it is not staged");
        let writable = writable_device(driver, volume)?.ok_or_else(not_staged)?;
        if !wanted.readonly {
            return mount::bind(writable.path(), MountFlags::empty(), at);
        }
        writable.flush()?;
        let device = LoopDevice::attach(&driver.layout.volume(&volume.key), true, false)?;
        let bound = mount::bind(device.path(), MountFlags::empty(), at);
        if bound.is_err() {
            device.detach()?;
        }
        bound
    }

    fn unpublish(
        &self,
        driver: &Driver,
        volume: &Volume,
        published: &Published,
        at: &PathEntry,
    ) -> Result<()> {
        let own_device = if published.readonly { device_at(at)? } else { None };
        unmount(driver, volume, at)?;
        own_device.map_or(Ok(()), |device| detach_readonly(&driver.layout.volume(&volume.key), &device))
    }

    fn usage(
        &self,
        driver: &Driver,
        volume: &Volume,
        at: &PathEntry,
        _readonly: bool,
    ) -> Result<(Vec<VolumeUsage>, Option<Problem>)> {
        let total = volume.capacity_bytes;
        let image = driver.layout.volume(&volume.key);
        let allocated = allocated_bytes(&image)?.min(total);
        // Nothing is mounted at a staging path, so it is still a plain directory.
        let is_there =
            |there: &Occupant| there.file_type == FileType::Directory || is_device_of(there, &image);
        let problem = if writable_device(driver, volume)?.is_none() {
            Some(Problem::inaccessible("DeviceGone", "the device of the volume is gone"))
        } else if !at.occupant()?.as_ref().is_some_and(is_there) {
            Some(Problem::inaccessible("MountGone", "the mount of the volume is gone"))
        } else {
            None
        };
        Ok((vec![used(total, allocated, total - allocated, Unit::Bytes)], problem))
    }
}

/// The device that staging attached. Devices that are detached as soon as their last user closes them do not count.
fn writable_device(driver: &Driver, volume: &Volume) -> Result<Option<LoopDevice>> {
    for device in LoopDevice::of_image(&driver.layout.volume(&volume.key))? {
        if !device.is_readonly()? && !device.is_autoclear()? {
            return Ok(Some(device));
        }
    }
    Ok(None)
}

fn device_at(at: &PathEntry) -> Result<Option<PathBuf>> {
    Ok(at.occupant()?.and_then(|occupant| loopdev::node_of(occupant.device_number)))
}

/// Returns whether a device node is a loop device of the image.
fn is_device_of(occupant: &Occupant, image: &Path) -> bool {
    occupant.file_type == FileType::BlockDevice
        && loopdev::node_of(occupant.device_number).is_some_and(|node| loopdev::was_backed_by(&node, image))
}

/// Detaches the device of a read-only target.
fn detach_readonly(image: &Path, device: &Path) -> Result<()> {
    for candidate in LoopDevice::of_image(image)? {
        if candidate.path() == device && candidate.is_readonly()? {
            candidate.detach()?;
        }
    }
    Ok(())
}

/// Returns whether this is a read-only device that belongs to no target, as a crash may leave it.
fn is_stray_readonly(device: &Path, image: &Path, targets: &[Published]) -> Result<bool> {
    let mut of_image = LoopDevice::of_image(image)?.into_iter();
    let Some(found) = of_image.find(|candidate| candidate.path() == device) else { return Ok(false) };
    if !found.is_readonly()? {
        return Ok(false);
    }
    for target in targets {
        let shown = PathEntry::recorded(&target.path)?.map(|place| device_at(&place)).transpose()?.flatten();
        if shown.as_deref() == Some(device) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The storage that the image really uses, holes excluded.
fn allocated_bytes(image: &Path) -> Result<u64> {
    Ok(File::open(image).and_then(|file| file.metadata()).on("look at", image)?.blocks() * 512)
}
