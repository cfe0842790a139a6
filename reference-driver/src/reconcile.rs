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
use crate::mount;
use crate::node;
use crate::paths::CheckedPath;
use crate::storage;
use crate::store::{Backend, Change, Phase, Published, View, Volume};

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
        log("a frozen file system", thaw(driver, &key, &path));
    }
    Ok(())
}

fn thaw(driver: &Driver, key: &ObjectId, path: &str) -> Result<()> {
    let image = driver.layout.volume(key);
    let Some(place) = CheckedPath::parse("path", path)?.place()? else { return Ok(()) };
    let shown = place.occupant()?.is_some_and(|o| o.is_mount_root && mount::shows_image(&o, &image));
    if shown && freeze::thaw_leftover(&place)? {
        tracing::info!(volume = %key, "thawed");
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
    for (device, backing) in loopdev::attached()? {
        let Some(key) = key_of(&backing) else { continue };
        let image = driver.layout.volume(&key);
        // A file without a name any more can only be told by where it was.
        if !loopdev::is_backed_by(&device, &image) && backing != image {
            continue;
        }
        let needed = match view.volume_by_key(&key)? {
            None => false,
            Some(volume) => is_needed(&view, &volume, &device, &image).unwrap_or_else(|error| {
                log("a loop device", Err(error));
                true
            }),
        };
        if needed {
            log("a loop device", LoopDevice::open(&device).and_then(|device| device.refresh_size()));
        } else {
            tracing::info!(device = %device.display(), "detached a loop device that nothing needs");
            log("a loop device", LoopDevice::open(&device).and_then(LoopDevice::detach));
        }
    }
    Ok(())
}

/// The volume that a file belongs to by its name.
fn key_of(file: &Path) -> Option<ObjectId> {
    ObjectId::parse(ObjectKind::Volume, file.file_name()?.to_str()?).ok()
}

fn is_needed(view: &View, volume: &Volume, device: &Path, image: &Path) -> Result<bool> {
    let (staged, published) = (view.staged_of(&volume.key)?, view.published_of(&volume.key)?);
    Ok(match volume.backend {
        Backend::Block => !staged.is_empty() && !is_stray_readonly(device, image, &published)?,
        Backend::Image | Backend::Directory => !staged.is_empty() || !published.is_empty(),
    })
}

/// Whether a device refuses writes and no target shows it.
fn is_stray_readonly(device: &Path, image: &Path, targets: &[Published]) -> Result<bool> {
    let mut of_image = LoopDevice::of_image(image)?.into_iter();
    let Some(found) = of_image.find(|candidate| candidate.path() == device) else { return Ok(false) };
    if !found.is_readonly()? {
        return Ok(false);
    }
    for target in targets {
        let place = CheckedPath::parse("path", &target.path)?.place()?;
        let occupant = place.map(|place| place.occupant()).transpose()?.flatten();
        if occupant.and_then(|occupant| loopdev::node_of(occupant.device_number)).as_deref() == Some(device) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Brings the data of each volume and what its record says together. An expansion that was not committed leaves an image
/// larger than its record or a limit too high; a directory made again has no limit.
fn match_records(driver: &Driver) -> Result<()> {
    let mut unlimited = 0usize;
    each_volume(driver, |volume| {
        if volume.backend.is_file() {
            log("an image", match_image(driver, volume.clone()));
        }
        log("an empty volume", storage::restore_untouched(driver, &volume));
        log("a quota", storage::set_limit(driver, &volume, volume.capacity_bytes));
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

/// Makes an image as large as its record says, or the record say how large the image is. Nothing is ever cut off.
fn match_image(driver: &Driver, mut volume: Volume) -> Result<()> {
    let path = driver.layout.volume(&volume.key);
    let Ok(metadata) = fs::symlink_metadata(&path) else {
        tracing::error!(volume = %volume.key, "the data of a volume are missing");
        return Ok(());
    };
    let (present, recorded) = (metadata.len(), volume.capacity_bytes);
    if present < recorded {
        let image = fs::OpenOptions::new().write(true).open(&path).on("open", &path)?;
        image.set_len(recorded).on("resize", &path)?;
        if driver.privileged {
            storage::refresh_devices(driver, &volume)?;
        }
    } else if present > recorded {
        tracing::info!(volume = %volume.key, recorded, present, "an expansion that was begun is recorded");
        volume.capacity_bytes = present;
        driver.store.commit(vec![Change::PutVolume(volume.clone())])?;
        driver.ledger.enter_volume(volume.pool.as_deref(), present - recorded);
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
