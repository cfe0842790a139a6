//! Directory volumes: a bind-mounted directory, limited to its size by a project quota where the file system supports
//! them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use csi_proto::v1::VolumeUsage;

use super::{Backend, mounted};
use crate::capability::{Access, Capability};
use crate::copy;
use crate::driver::Driver;
use crate::error::{IoContext, Result, Shown};
use crate::fs::FsType;
use crate::health::Problem;
use crate::mount::{self, MountOptions};
use crate::paths::{Occupant, PathEntry};
use crate::storage::NewData;
use crate::store::{Published, Volume};

/// Directory volumes share the file system of the host. Without privileges the driver cannot mount, so a target is a
/// symbolic link to the directory.
#[derive(Debug)]
pub(super) struct Directory;

impl Backend for Directory {
    fn is_file(&self) -> bool {
        false
    }

    fn recreates_empty(&self) -> bool {
        true
    }

    fn unfit(&self, capability: &Capability, host_fs_type: &str) -> Option<String> {
        let Access::Mount { flags, .. } = &capability.access else { return Some(mounted::no_device()) };
        capability.other_fs_type(host_fs_type).or_else(|| {
            let data = MountOptions::parse(flags).data;
            let refused = || format!("a directory cannot be mounted with the options {}", Shown(&data));
            (!data.is_empty()).then(refused)
        })
    }

    fn check_host(&self, _driver: &Driver) -> Result<()> {
        Ok(())
    }

    fn size_bytes_min(&self, _fs_type: FsType) -> u64 {
        1
    }

    fn unit_bytes(&self) -> u64 {
        1
    }

    fn make(&self, driver: &Driver, volume: &Volume) -> Result<NewData> {
        let data = make_in_project(driver, &driver.layout.volume(&volume.key))?;
        data.limit(volume.capacity_bytes)?;
        Ok(data)
    }

    /// The limit is set last, because the source may hold more than its own limit allows.
    fn copy(&self, driver: &Driver, source: &Path, volume: &Volume) -> Result<NewData> {
        let target = driver.layout.volume(&volume.key);
        let data = make_in_project(driver, &target)?;
        copy::copy_tree(source, &target)?;
        data.limit(volume.capacity_bytes)?;
        Ok(data)
    }

    fn snapshot(&self, driver: &Driver, volume: &Volume, target: &Path) -> Result<NewData> {
        make_directory(target)?;
        let data = NewData::at(target);
        copy::copy_tree(&driver.layout.volume(&volume.key), target)?;
        Ok(data)
    }

    fn present_bytes(&self, _driver: &Driver, volume: &Volume) -> Result<u64> {
        Ok(volume.capacity_bytes)
    }

    fn grow(&self, driver: &Driver, volume: &Volume, capacity_bytes: u64) -> Result<()> {
        set_limit(driver, volume, capacity_bytes)
    }

    fn undo_growth(&self, driver: &Driver, volume: &Volume, before_bytes: u64) -> Result<()> {
        set_limit(driver, volume, before_bytes)
    }

    fn show_growth(&self, _driver: &Driver, _volume: &Volume) -> Result<()> {
        Ok(())
    }

    /// Sets the limit again even if the directory could not be created. An expansion that was not committed has left
    /// the limit too high, and a new directory has none.
    fn match_record(&self, driver: &Driver, volume: &Volume) -> Result<()> {
        let restored = restore_untouched(driver, volume);
        set_limit(driver, volume, volume.capacity_bytes)?;
        restored
    }

    fn shows(&self, driver: &Driver, volume: &Volume, mount: &Occupant) -> bool {
        mount::shows_directory(mount, &driver.layout.volume(&volume.key))
    }

    fn is_staged(&self, driver: &Driver, volume: &Volume, at: &PathEntry) -> Result<bool> {
        Ok(!driver.privileged || self.is_mounted(driver, volume, at)?)
    }

    fn stage(
        &self,
        driver: &Driver,
        volume: &mut Volume,
        capability: &Capability,
        at: &PathEntry,
    ) -> Result<()> {
        if !driver.privileged {
            return Ok(());
        }
        let flags = MountOptions::parse(capability.flags()).flags;
        mount::bind(&driver.layout.volume(&volume.key), flags, at)?;
        mounted::give_to_group(capability, at)
    }

    fn is_published(&self, driver: &Driver, volume: &Volume, at: &PathEntry) -> Result<bool> {
        if driver.privileged { self.is_mounted(driver, volume, at) } else { Ok(at.occupant()?.is_some()) }
    }

    fn publish(
        &self,
        driver: &Driver,
        volume: &Volume,
        wanted: &Published,
        staged: &PathEntry,
        at: &PathEntry,
    ) -> Result<()> {
        if driver.privileged {
            mounted::publish(wanted, staged, at)
        } else {
            link(driver, volume, wanted, at)
        }
    }

    fn publish_inline(
        &self,
        driver: &Driver,
        volume: &mut Volume,
        wanted: &Published,
        at: &PathEntry,
    ) -> Result<()> {
        if driver.privileged {
            mounted::publish_inline(driver, volume, wanted, at)
        } else {
            link(driver, volume, wanted, at)
        }
    }

    fn usage(
        &self,
        driver: &Driver,
        volume: &Volume,
        at: &PathEntry,
        readonly: bool,
    ) -> Result<(Vec<VolumeUsage>, Option<Problem>)> {
        if driver.privileged {
            return mounted::usage(driver, volume, at, readonly);
        }
        let space =
            rustix::fs::statvfs(driver.layout.volume(&volume.key)).on("get the usage of", at.path())?;
        Ok(mounted::usage_of(&space, readonly))
    }
}

/// Creates the directory of a volume and, where quotas are supported, gives it a project of its own.
fn make_in_project(driver: &Driver, path: &Path) -> Result<NewData> {
    make_directory(path)?;
    let data = NewData::at(path);
    match &driver.quota {
        Some(quota) => data.claim(quota),
        None => Ok(data),
    }
}

fn make_directory(path: &Path) -> Result<()> {
    DirBuilder::new().mode(0o755).create(path).on("make", path)
}

/// Creates the directory of a volume again if a crash removed it before it was durable. Only volumes without data are
/// affected, as data can only be written after staging.
fn restore_untouched(driver: &Driver, volume: &Volume) -> Result<()> {
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

/// Sets the quota of a directory, where quotas are supported.
fn set_limit(driver: &Driver, volume: &Volume, capacity_bytes: u64) -> Result<()> {
    match (&driver.quota, volume.project) {
        (Some(quota), Some(project)) => {
            quota.limit(&driver.layout.volume(&volume.key), project, capacity_bytes)
        }
        _ => Ok(()),
    }
}

/// Publishes without mounting, by a symbolic link, which cannot be read-only.
fn link(driver: &Driver, volume: &Volume, wanted: &Published, at: &PathEntry) -> Result<()> {
    if wanted.readonly {
        driver.require_privileges("publishing a volume read-only")?;
    }
    at.make_link(&driver.layout.volume(&volume.key))
}
