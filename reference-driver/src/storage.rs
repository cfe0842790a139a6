//! The data of volumes and snapshots on disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::driver::Driver;
use crate::error::{DriverError, IoContext, Result};
use crate::quota::Quota;
use crate::removal::remove_tree;
use crate::store::{FsState, Volume};

/// Data that have no record yet. They are removed on drop, unless they are kept.
#[derive(Debug)]
#[must_use]
pub(crate) struct NewData {
    path: Option<PathBuf>,
    project: Option<(Quota, u32)>,
}

impl NewData {
    pub(crate) fn at(path: &Path) -> NewData {
        NewData { path: Some(path.to_owned()), project: None }
    }

    /// Gives a directory a project of its own.
    pub(crate) fn claim(mut self, quota: &Quota) -> Result<NewData> {
        if let Some(path) = &self.path {
            self.project = Some((quota.clone(), quota.claim(path)?));
        }
        Ok(self)
    }

    pub(crate) fn project(&self) -> Option<u32> {
        self.project.as_ref().map(|(_, project)| *project)
    }

    /// Sets the quota of a directory, where quotas are supported.
    pub(crate) fn limit(&self, capacity_bytes: u64) -> Result<()> {
        match (&self.path, &self.project) {
            (Some(path), Some((quota, project))) => quota.limit(path, *project, capacity_bytes),
            _ => Ok(()),
        }
    }

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

/// Removes data without a record. If that fails, the next start tries again.
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

/// Removes the data of a volume whose record was deleted.
pub(crate) fn remove_volume(driver: &Driver, volume: &Volume) {
    if let (Some(quota), Some(project)) = (&driver.quota, volume.project) {
        quota.release(project);
    }
    remove_later(driver, driver.layout.volume(&volume.key));
}

/// Removes data without a record in the background, because removing many files takes long. After a crash, the next
/// start removes the rest.
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

/// The file system state of a copy.
pub(crate) fn copied_fs(fs: FsState) -> FsState {
    match fs {
        FsState::Formatted { fs_type, size_bytes, .. } => {
            FsState::Formatted { fs_type, size_bytes, copied: true }
        }
        other => other,
    }
}

/// Data that have grown, while the record still has the old size. The growth is undone on drop, unless it is kept.
#[must_use]
pub(crate) struct Growth<'a> {
    driver: &'a Driver,
    volume: Volume,
    /// The former size; `None` if the growth is kept.
    before_bytes: Option<u64>,
}

impl Growth<'_> {
    pub(crate) fn keep(mut self) {
        self.before_bytes = None;
    }
}

impl Drop for Growth<'_> {
    fn drop(&mut self) {
        let Some(before_bytes) = self.before_bytes else { return };
        if let Err(error) = self.volume.backend().undo_growth(self.driver, &self.volume, before_bytes) {
            tracing::error!(volume = %self.volume.key, %error, "a volume stays larger than its record says");
        }
    }
}

/// Grows the data of a volume.
pub(crate) fn grow<'a>(driver: &'a Driver, volume: &Volume, capacity_bytes: u64) -> Result<Growth<'a>> {
    let before_bytes = volume.backend().present_bytes(driver, volume)?;
    let growth = Growth { driver, volume: volume.clone(), before_bytes: Some(before_bytes) };
    volume.backend().grow(driver, volume, capacity_bytes)?;
    Ok(growth)
}

pub(crate) fn check_present(driver: &Driver, volume: &Volume) -> Result<()> {
    let path = driver.layout.volume(&volume.key);
    match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_file() == volume.backend().is_file() => Ok(()),
        Ok(_) => {
            Err(DriverError::precondition(format!("volume {}", volume.key), "its data are of the wrong kind"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(DriverError::precondition(format!("volume {}", volume.key), "its data are missing"))
        }
        Err(error) => Err(error).on("look at", &path),
    }
}
