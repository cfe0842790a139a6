//! Repairs the state after a crash or a reboot, before calls are served.
//!
//! The records are right. Unfinished operations are undone; data without a record are removed; loop devices that
//! nothing needs are detached; file systems that were left frozen are thawed; quotas are set to the sizes in the
//! records; empty directories that were not durable are created again. There is one exception: if an image is larger
//! than its record says, the record is changed, because the image may be in use up to its end. A failure with one
//! object is logged and does not stop the repair of others.

use std::fs;
use std::path::{Path, PathBuf};

use crate::driver::Driver;
use crate::error::{IoContext, Result};
use crate::ids::{ObjectId, ObjectKind};
use crate::loopdev::{self, LoopDevice};
use crate::mount;
use crate::node;
use crate::paths::PathEntry;
use crate::storage;
use crate::store::{Phase, Volume};

/// Runs all repairs.
pub(crate) fn run(driver: &Driver) -> Result<()> {
    if driver.privileged {
        log("thaw", thaw_all(driver));
    }
    log("undo", undo_begun(driver));
    log("inline volumes", forget_unused_inline(driver));
    if driver.privileged {
        log("loop devices", repair_loop_devices(driver));
    }
    log("orphans", remove_orphans(driver));
    match_records(driver)
}

fn log(what: &str, result: Result<()>) {
    if let Err(error) = result {
        tracing::error!(what, %error, "something could not be put right at the start");
    }
}

/// Thaws file systems that a killed driver had frozen. Every access to them would hang.
fn thaw_all(driver: &Driver) -> Result<()> {
    let view = driver.store.view()?;
    let staged = view.all_staged()?.into_iter().map(|staged| (staged.volume, staged.path));
    let published = view.all_published()?.into_iter().map(|published| (published.volume, published.path));
    for (key, path) in staged.chain(published) {
        if let Some(volume) = view.volume_by_key(&key)?.filter(|volume| volume.backend().can_freeze()) {
            log("a frozen file system", thaw(driver, &volume, &path));
        }
    }
    Ok(())
}

fn thaw(driver: &Driver, volume: &Volume, path: &str) -> Result<()> {
    let Some(place) = PathEntry::recorded(path)? else { return Ok(()) };
    if volume.backend().is_mounted(driver, volume, &place)? && mount::thaw_leftover(&place)? {
        tracing::info!(volume = %volume.key, "thawed");
    }
    Ok(())
}

fn undo_begun(driver: &Driver) -> Result<()> {
    let view = driver.store.view()?;
    for published in view.all_published()?.into_iter().filter(|published| published.phase == Phase::Begun) {
        if let Some(volume) = view.volume_by_key(&published.volume)? {
            log("a publication", node::undo_published(driver, &volume, &published));
        }
    }
    for staged in view.all_staged()?.into_iter().filter(|staged| staged.phase == Phase::Begun) {
        if let Some(volume) = view.volume_by_key(&staged.volume)? {
            log("a staging", node::undo_staged(driver, &volume, &staged));
        }
    }
    Ok(())
}

fn forget_unused_inline(driver: &Driver) -> Result<()> {
    driver.each_volume(|volume| {
        if volume.inline_id.is_some() && driver.store.view()?.published_of(&volume.key)?.is_empty() {
            log("an inline volume", node::forget_inline(driver, &volume));
        }
        Ok(())
    })
}

/// Detaches the loop devices of unused images and of read-only targets that are gone. The other devices are made to
/// show the size of their image, which may have grown just before the crash.
fn repair_loop_devices(driver: &Driver) -> Result<()> {
    let view = driver.store.view()?;
    for (path, backing) in loopdev::attached()? {
        let Some(key) = key_of(&backing) else { continue };
        // The device is inspected while it is open. Otherwise it could be detached and reused by another program in
        // between.
        let Ok(device) = LoopDevice::open(&path) else { continue };
        let image = driver.layout.volume(&key);
        // An image that was deleted can only be recognised by its former path.
        if !device.is_attached_to(&image) && loopdev::backing_path(&path).as_ref() != Some(&image) {
            continue;
        }
        let needed = match view.volume_by_key(&key)? {
            None => false,
            Some(volume) => {
                volume.backend().needs_device(driver, &view, &volume, &path).unwrap_or_else(|error| {
                    log("a loop device", Err(error));
                    true
                })
            }
        };
        if needed {
            log("a loop device", device.refresh_size());
        } else {
            tracing::info!(device = %path.display(), "detached a loop device that nothing needs");
            log("a loop device", device.detach());
        }
    }
    Ok(())
}

/// The volume key in the name of a file.
fn key_of(file: &Path) -> Option<ObjectId> {
    ObjectId::parse(ObjectKind::Volume, file.file_name()?.to_str()?).ok()
}

/// Repairs the data of each volume according to its record.
fn match_records(driver: &Driver) -> Result<()> {
    let mut unlimited = 0usize;
    driver.each_volume(|volume| {
        log("the data of a volume", volume.backend().match_record(driver, &volume));
        unlimited += usize::from(volume.project.is_some() && driver.quota.is_none());
        Ok(())
    })?;
    if unlimited > 0 {
        tracing::warn!(
            volumes = unlimited,
            "the file system no longer enforces quotas: mount it with prjquota"
        );
    }
    Ok(())
}

/// Removes data without a record. Only files and directories with names of the driver's own form are touched.
fn remove_orphans(driver: &Driver) -> Result<()> {
    let view = driver.store.view()?;
    for (directory, kind) in
        [(driver.layout.volumes(), ObjectKind::Volume), (driver.layout.snapshots(), ObjectKind::Snapshot)]
    {
        let mut orphans: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(&directory).on("list", &directory)? {
            let name = entry.on("list", &directory)?.file_name();
            let Some(key) = name.to_str().and_then(|name| ObjectId::parse(kind, name).ok()) else { continue };
            let known = match kind {
                ObjectKind::Volume => view.volume_by_key(&key)?.is_some(),
                _ => view.snapshot(key.as_str())?.is_some(),
            };
            if !known {
                orphans.push(directory.join(name));
            }
        }
        for orphan in orphans {
            tracing::info!(path = %orphan.display(), "removed data without a record");
            if let Some(quota) = &driver.quota {
                quota.release_orphan(&orphan);
            }
            storage::remove(&orphan);
        }
    }
    Ok(())
}
