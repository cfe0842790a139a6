//! Putting things right after a crash or a reboot, before calls are served.
//!
//! Records are the truth. What was only begun is undone; data without a record are removed; loop devices that nothing
//! needs are detached; file systems left frozen are thawed; quotas get the size of their record; empty directories that
//! had not reached the disk are made again. Only the size of an image is truer than its record if it is the larger one: it
//! may be in use up to its end, so the record follows. A failure at one object is logged and holds up no other.

use std::fs;
use std::path::{Path, PathBuf};

use crate::driver::Driver;
use crate::error::{IoContext, Result};
use crate::freeze;
use crate::ids::{ObjectId, ObjectKind};
use crate::loopdev::{self, LoopDevice};
use crate::node;
use crate::paths::PathEntry;
use crate::storage;
use crate::store::{Phase, Volume};

/// How many records are looked at in one view.
const PAGE_LENGTH: usize = 1000;

/// Enters into the ledger what existing volumes have been promised.
pub(crate) fn enter_promises(driver: &Driver) -> Result<()> {
    each_volume(driver, |volume| {
        driver.ledger.enter_volume(volume.pool.as_deref(), volume.capacity_bytes);
        volume.attachments.keys().for_each(|node| driver.ledger.enter_attachment(node));
        Ok(())
    })
}

/// Does all that is due at a start.
pub(crate) fn run(driver: &Driver) -> Result<()> {
    if driver.privileged {
        log("thaw", thaw_all(driver));
    }
    log("undo", undo_begun(driver));
    log("inline volumes", forget_unused_inline(driver));
    if driver.privileged {
        log("loop devices", tend_devices(driver));
    }
    log("orphans", remove_orphans(driver));
    match_records(driver)
}

fn log(what: &str, result: Result<()>) {
    if let Err(error) = result {
        tracing::error!(what, %error, "something could not be put right at the start");
    }
}

fn each_volume(driver: &Driver, mut visit: impl FnMut(Volume) -> Result<()>) -> Result<()> {
    let mut after = String::new();
    loop {
        let page = driver.store.view()?.volumes_after(&after, PAGE_LENGTH)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.key.to_string();
        page.into_iter().try_for_each(&mut visit)?;
    }
}

/// Thaws file systems that a killed driver had frozen; everything that touches them would hang.
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
    if volume.backend().is_mounted(driver, volume, &place)? && freeze::thaw_leftover(&place)? {
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
    each_volume(driver, |volume| {
        if volume.inline_id.is_some() && driver.store.view()?.published_of(&volume.key)?.is_empty() {
            log("an inline volume", node::forget_inline(driver, &volume));
        }
        Ok(())
    })
}

/// Detaches the loop devices of images that are not in use, and those made for read-only targets that are gone. The
/// others take over the size of their images, which they may have missed.
fn tend_devices(driver: &Driver) -> Result<()> {
    let view = driver.store.view()?;
    for (path, backing) in loopdev::attached()? {
        let Some(key) = key_of(&backing) else { continue };
        // It is looked at while it is open: otherwise it could go, and its node be another's device by the time it is detached.
        let Ok(device) = LoopDevice::open(&path) else { continue };
        let image = driver.layout.volume(&key);
        // A file without a name any more can only be told by where it was.
        if !device.has_behind_it(&image) && loopdev::backing_path(&path).as_ref() != Some(&image) {
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

/// The volume that a file belongs to by its name.
fn key_of(file: &Path) -> Option<ObjectId> {
    ObjectId::parse(ObjectKind::Volume, file.file_name()?.to_str()?).ok()
}

/// Brings the data of each volume and what its record says together.
fn match_records(driver: &Driver) -> Result<()> {
    let mut unlimited = 0usize;
    each_volume(driver, |volume| {
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

/// Removes data that no record names. Only names of our own making are touched.
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
