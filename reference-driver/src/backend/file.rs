//! Code shared by the back ends that store a volume in one sparse file behind loop devices.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::copy;
use crate::driver::Driver;
use crate::error::{IoContext, Result};
use crate::loopdev::LoopDevice;
use crate::storage::NewData;
use crate::store::{Change, Volume};

/// The size unit of loop devices.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Fails if the driver may not attach loop devices.
pub(super) fn check_host(driver: &Driver) -> Result<()> {
    driver.require_privileges("a volume in an image")
}

pub(super) fn make(driver: &Driver, volume: &Volume) -> Result<NewData> {
    let path = driver.layout.volume(&volume.key);
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&path).on("make", &path)?;
    let data = NewData::at(&path);
    file.set_len(volume.capacity_bytes).on("resize", &path)?;
    Ok(data)
}

pub(super) fn copy(driver: &Driver, source: &Path, target: &Path, size_bytes: u64) -> Result<NewData> {
    let data = NewData::at(target);
    copy::copy_image(source, target, size_bytes, &driver.ledger)?;
    Ok(data)
}

pub(super) fn copy_to(driver: &Driver, source: &Path, volume: &Volume) -> Result<NewData> {
    copy(driver, source, &driver.layout.volume(&volume.key), volume.capacity_bytes)
}

pub(super) fn copy_of(driver: &Driver, volume: &Volume, target: &Path) -> Result<NewData> {
    copy(driver, &driver.layout.volume(&volume.key), target, volume.capacity_bytes)
}

pub(super) fn present_bytes(driver: &Driver, volume: &Volume) -> Result<u64> {
    let path = driver.layout.volume(&volume.key);
    Ok(fs::metadata(&path).on("look at", &path)?.len())
}

pub(super) fn grow(driver: &Driver, volume: &Volume, capacity_bytes: u64) -> Result<()> {
    if present_bytes(driver, volume)? >= capacity_bytes {
        return Ok(());
    }
    let path = driver.layout.volume(&volume.key);
    let file = open(&path)?;
    file.set_len(capacity_bytes).on("resize", &path)?;
    file.sync_all().on("flush", &path)
}

/// Truncates the file to its old size, unless a loop device already shows the new one: then a workload may have
/// written beyond the old end.
pub(super) fn undo_growth(driver: &Driver, volume: &Volume, before_bytes: u64) -> Result<()> {
    let path = driver.layout.volume(&volume.key);
    for device in LoopDevice::of_image(&path)? {
        if device.size_bytes()? > before_bytes {
            return Ok(());
        }
    }
    open(&path)?.set_len(before_bytes).on("resize", &path)
}

/// Makes the loop devices of a volume show the present size of its file.
pub(super) fn show_growth(driver: &Driver, volume: &Volume) -> Result<()> {
    for device in LoopDevice::of_image(&driver.layout.volume(&volume.key))? {
        device.refresh_size()?;
    }
    Ok(())
}

/// Makes the sizes of file and record agree. A file that is too small is extended. A file that is larger comes from
/// an expansion that was not committed; it may be in use up to its end, so the record is changed and nothing is
/// truncated.
pub(super) fn match_record(driver: &Driver, volume: &Volume) -> Result<()> {
    let path = driver.layout.volume(&volume.key);
    let Ok(metadata) = fs::symlink_metadata(&path) else {
        tracing::error!(volume = %volume.key, "the data of a volume are missing");
        return Ok(());
    };
    let (present, recorded) = (metadata.len(), volume.capacity_bytes);
    if present < recorded {
        open(&path)?.set_len(recorded).on("resize", &path)?;
        if driver.privileged {
            show_growth(driver, volume)?;
        }
    } else if present > recorded {
        tracing::info!(volume = %volume.key, recorded, present, "an expansion that was begun is recorded");
        let larger = Volume { capacity_bytes: present, ..volume.clone() };
        driver.store.commit(vec![Change::PutVolume(larger)])?;
        driver.ledger.count_volume(volume.pool.as_deref(), present - recorded);
    }
    Ok(())
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new().write(true).open(path).on("open", path)
}
