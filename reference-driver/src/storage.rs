//! The data of volumes and snapshots on disk.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::copy;
use crate::driver::Driver;
use crate::error::{DriverError, IoContext, Result};
use crate::freeze::Frozen;
use crate::loopdev::LoopDevice;
use crate::paths::CheckedPath;
use crate::quota::Quota;
use crate::removal::remove_tree;
use crate::store::{Backend, FsState, Volume};

/// Data without a record yet: removed when dropped, unless kept.
#[derive(Debug)]
#[must_use]
pub(crate) struct NewData {
    path: Option<PathBuf>,
    project: Option<(Quota, u32)>,
}

impl NewData {
    fn at(path: PathBuf) -> NewData {
        NewData { path: Some(path), project: None }
    }

    /// The project that limits a directory.
    pub(crate) fn project(&self) -> Option<u32> {
        self.project.as_ref().map(|(_, project)| *project)
    }

    /// Keeps a directory within a size, where there are quotas.
    fn limit(&self, capacity_bytes: u64) -> Result<()> {
        match (&self.path, &self.project) {
            (Some(path), Some((quota, project))) => quota.limit(path, *project, capacity_bytes),
            _ => Ok(()),
        }
    }

    /// Leaves the data where they are.
    pub(crate) fn keep(mut self) {
        self.path = None;
    }
}

impl Drop for NewData {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            if let Some((quota, project)) = self.project.take() {
                quota.release(project);
            }
            remove(&path);
        }
    }
}

/// Removes data that no record names. What cannot be removed now is removed at the next start.
pub(crate) fn remove(path: &Path) {
    let result = match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => remove_tree(path),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    };
    if let Err(error) = result {
        tracing::error!(path = %path.display(), %error, "data could not be removed and stay until the next start");
    }
}

/// Removes the data of a volume whose record is gone.
pub(crate) fn remove_volume(driver: &Driver, volume: &Volume) {
    if let (Some(quota), Some(project)) = (&driver.quota, volume.project) {
        quota.release(project);
    }
    remove_later(driver, driver.layout.volume(&volume.key));
}

/// Removes data that no record names any more after the caller has its reply, since many files take long to remove. A
/// crash in between leaves them to the next start.
pub(crate) fn remove_later(driver: &Driver, path: PathBuf) {
    match (Arc::clone(&driver.removals).try_acquire_owned(), Handle::try_current()) {
        (Ok(slot), Ok(runtime)) => {
            runtime.spawn_blocking(move || {
                remove(&path);
                drop(slot);
            });
        }
        _ => remove(&path),
    }
}

/// Makes the data of an empty volume.
pub(crate) fn make_empty(driver: &Driver, volume: &Volume) -> Result<NewData> {
    let path = driver.layout.volume(&volume.key);
    if volume.backend.is_file() {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path).on("make", &path)?;
        let data = NewData::at(path.clone());
        file.set_len(volume.capacity_bytes).on("resize", &path)?;
        Ok(data)
    } else {
        let data = make_volume_directory(driver, path)?;
        data.limit(volume.capacity_bytes)?;
        Ok(data)
    }
}

/// Makes the directory of a volume, in a project of its own where there are quotas.
fn make_volume_directory(driver: &Driver, path: PathBuf) -> Result<NewData> {
    make_directory(&path)?;
    let mut data = NewData::at(path.clone());
    if let Some(quota) = &driver.quota {
        data.project = Some((quota.clone(), quota.claim(&path)?));
    }
    Ok(data)
}

fn make_directory(path: &Path) -> Result<()> {
    DirBuilder::new().mode(0o755).create(path).on("make", path)
}

/// Makes the directory of a volume that nobody could write to yet, if a crash took it away before it was durable.
pub(crate) fn restore_untouched(driver: &Driver, volume: &Volume) -> Result<()> {
    let path = driver.layout.volume(&volume.key);
    match fs::symlink_metadata(&path) {
        Err(error) if volume.untouched && error.kind() == io::ErrorKind::NotFound => {
            tracing::info!(path = %path.display(), "made an empty volume again");
            make_directory(&path)?;
            match (&driver.quota, volume.project) {
                (Some(quota), Some(project)) => quota.assign(&path, project),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Makes the data of a volume as a copy of others. The limit comes last, as the source may be above its own.
pub(crate) fn make_volume_copy(driver: &Driver, source: &Path, volume: &Volume) -> Result<NewData> {
    let target = driver.layout.volume(&volume.key);
    if volume.backend.is_file() {
        return make_image_copy(driver, source, target, volume.capacity_bytes);
    }
    let data = make_volume_directory(driver, target.clone())?;
    copy::copy_tree(source, &target)?;
    data.limit(volume.capacity_bytes)?;
    Ok(data)
}

/// Makes the data of a snapshot of a volume.
pub(crate) fn make_snapshot(driver: &Driver, volume: &Volume, target: PathBuf) -> Result<NewData> {
    let source = driver.layout.volume(&volume.key);
    if volume.backend.is_file() {
        return make_image_copy(driver, &source, target, volume.capacity_bytes);
    }
    make_directory(&target)?;
    let data = NewData::at(target.clone());
    copy::copy_tree(&source, &target)?;
    Ok(data)
}

fn make_image_copy(driver: &Driver, source: &Path, target: PathBuf, size_bytes: u64) -> Result<NewData> {
    let data = NewData::at(target.clone());
    copy::copy_image(source, &target, size_bytes, &driver.ledger)?;
    Ok(data)
}

/// Keeps a directory within a size, where there are quotas.
pub(crate) fn set_limit(driver: &Driver, volume: &Volume, capacity_bytes: u64) -> Result<()> {
    match (&driver.quota, volume.project) {
        (Some(quota), Some(project)) => {
            quota.limit(&driver.layout.volume(&volume.key), project, capacity_bytes)
        }
        _ => Ok(()),
    }
}

/// The state of a file system that has been copied.
pub(crate) fn copied_fs(fs: FsState) -> FsState {
    match fs {
        FsState::Formatted { fs_type, size_bytes, .. } => {
            FsState::Formatted { fs_type, size_bytes, copied: true }
        }
        other => other,
    }
}

/// Brings the data of a volume to rest, so that they can be copied. A mounted image takes no writes until the value is
/// dropped; the device of a block volume is written out, since nothing can keep a workload from writing to it.
pub(crate) fn quiesce(driver: &Driver, volume: &Volume) -> Result<Option<Frozen>> {
    let image = driver.layout.volume(&volume.key);
    match volume.backend {
        Backend::Directory => Ok(None),
        Backend::Block => {
            for device in LoopDevice::of_image(&image)? {
                device.flush()?;
            }
            Ok(None)
        }
        Backend::Image => {
            let view = driver.store.view()?;
            let staged = view.staged_of(&volume.key)?.into_iter().map(|staged| staged.path);
            let published = view.published_of(&volume.key)?.into_iter().map(|published| published.path);
            for path in staged.chain(published) {
                if let Some(frozen) = freeze_at(&path, &image)? {
                    return Ok(Some(frozen));
                }
            }
            Ok(None)
        }
    }
}

fn freeze_at(path: &str, image: &Path) -> Result<Option<Frozen>> {
    let Some(place) = CheckedPath::parse("path", path)?.place()? else { return Ok(None) };
    match place.occupant()? {
        Some(occupant) if occupant.is_mount_root && crate::mount::shows_image(&occupant, image) => {
            Frozen::freeze(&place).map(Some)
        }
        _ => Ok(None),
    }
}

/// The data of a volume that are larger than its record says: made as they were when dropped, unless kept.
#[must_use]
pub(crate) struct Growth<'a> {
    driver: &'a Driver,
    volume: Volume,
    /// How large they were, unless they stay.
    before_bytes: Option<u64>,
}

impl Growth<'_> {
    /// Leaves the data as they are now.
    pub(crate) fn keep(mut self) {
        self.before_bytes = None;
    }

    fn undo(&self, before_bytes: u64) -> Result<()> {
        if !self.volume.backend.is_file() {
            return set_limit(self.driver, &self.volume, before_bytes);
        }
        let path = self.driver.layout.volume(&self.volume.key);
        // Behind its old end nobody has written, unless a device has shown what is there.
        for device in LoopDevice::of_image(&path)? {
            if device.size_bytes()? > before_bytes {
                return Ok(());
            }
        }
        let file = OpenOptions::new().write(true).open(&path).on("open", &path)?;
        file.set_len(before_bytes).on("resize", &path)
    }
}

impl Drop for Growth<'_> {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.before_bytes.map(|before_bytes| self.undo(before_bytes)) {
            tracing::error!(volume = %self.volume.key, %error, "a volume stays larger than its record says");
        }
    }
}

/// Makes the image of a volume larger, or lets its directory hold more.
pub(crate) fn grow<'a>(driver: &'a Driver, volume: &Volume, capacity_bytes: u64) -> Result<Growth<'a>> {
    let mut growth = Growth { driver, volume: volume.clone(), before_bytes: None };
    if !volume.backend.is_file() {
        growth.before_bytes = Some(volume.capacity_bytes);
        set_limit(driver, volume, capacity_bytes)?;
        return Ok(growth);
    }
    let path = driver.layout.volume(&volume.key);
    let file = OpenOptions::new().write(true).open(&path).on("open", &path)?;
    let before_bytes = file.metadata().on("look at", &path)?.len();
    if before_bytes < capacity_bytes {
        growth.before_bytes = Some(before_bytes);
        file.set_len(capacity_bytes).on("resize", &path)?;
        file.sync_all().on("flush", &path)?;
    }
    Ok(growth)
}

/// Makes the loop devices of a volume take over the size of its image.
pub(crate) fn refresh_devices(driver: &Driver, volume: &Volume) -> Result<()> {
    for device in LoopDevice::of_image(&driver.layout.volume(&volume.key))? {
        device.refresh_size()?;
    }
    Ok(())
}

/// Throws away what a broken-off formatting left in an image, which keeps its size: a device shows it already.
pub(crate) fn blank_image(path: &Path) -> Result<()> {
    let file = OpenOptions::new().write(true).open(path).on("open", path)?;
    let size_bytes = file.metadata().on("look at", path)?.len();
    file.set_len(0).and_then(|()| file.set_len(size_bytes)).on("blank", path)
}

/// How many bytes of storage an image takes.
pub(crate) fn allocated_bytes(path: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(File::open(path).and_then(|file| file.metadata()).on("look at", path)?.blocks() * 512)
}

/// Fails if the data of a volume are not there.
pub(crate) fn check_present(driver: &Driver, volume: &Volume) -> Result<()> {
    let path = driver.layout.volume(&volume.key);
    match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_file() == volume.backend.is_file() => Ok(()),
        Ok(_) => {
            Err(DriverError::precondition(format!("volume {}", volume.key), "its data are of the wrong kind"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(DriverError::precondition(format!("volume {}", volume.key), "its data are missing"))
        }
        Err(error) => Err(error).on("look at", &path),
    }
}
