//! Back ends, which are the ways to store the data of a volume. Each is a file with an implementation of [`Backend`],
//! and a variant of [`BackendKind`].

mod block;
mod directory;
mod file;
mod image;
mod mounted;
mod ownership;

use std::path::Path;

use csi_proto::v1::VolumeUsage;
use csi_proto::v1::volume_usage::Unit;

use crate::capability::Capability;
use crate::capacity_range::signed;
use crate::driver::Driver;
use crate::error::{DriverError, Result, Shown};
use crate::fs::FsType;
use crate::health::Problem;
use crate::mount;
use crate::mount::Frozen;
use crate::paths::{Occupant, PathEntry};
use crate::storage::NewData;
use crate::store::{BackendKind, FsState, Published, View, Volume};

/// Creates, copies, grows, stages and publishes the data of volumes. The caller holds the lock of the volume,
/// exclusive for a call that changes it and shared for one that only reads.
///
/// Unless a back end says otherwise, the data of a volume are one file, which is mounted where the volume is used.
pub(crate) trait Backend: Sync {
    fn is_block(&self) -> bool {
        false
    }

    /// Returns whether the data of a volume are one file. Otherwise they are a directory tree, and data can only be
    /// copied between volumes of the same form.
    fn is_file(&self) -> bool {
        true
    }

    /// Returns whether volumes can be formatted with this file system type.
    fn formats(&self, _fs_type: &str) -> bool {
        false
    }

    /// Returns whether an empty volume may disappear in a crash, because [`Backend::match_record`] creates it again.
    fn recreates_empty(&self) -> bool {
        false
    }

    /// Returns whether writes to a volume in use can be blocked while it is copied.
    fn can_freeze(&self) -> bool {
        false
    }

    /// The reason why no volume of this back end can be used with the capability; `None` if they can.
    fn unfit(&self, capability: &Capability, host_fs_type: &str) -> Option<String>;

    /// Fails if this host cannot hold volumes of this back end.
    fn check_host(&self, driver: &Driver) -> Result<()> {
        file::check_host(driver)
    }

    /// The smallest size of a volume, given its file system type if it has a file system.
    fn size_bytes_min(&self, fs_type: FsType) -> u64;

    /// The unit of which all sizes are multiples.
    fn unit_bytes(&self) -> u64 {
        file::SECTOR_BYTES
    }

    fn make(&self, driver: &Driver, volume: &Volume) -> Result<NewData> {
        file::make(driver, volume)
    }

    /// Creates the data of a volume as a copy of `source`, which is a snapshot or a volume that nothing writes to.
    fn copy(&self, driver: &Driver, source: &Path, volume: &Volume) -> Result<NewData> {
        file::copy_to(driver, source, volume)
    }

    /// Creates the data of a snapshot of a volume that nothing writes to.
    fn snapshot(&self, driver: &Driver, volume: &Volume, target: &Path) -> Result<NewData> {
        file::copy_of(driver, volume, target)
    }

    /// Blocks writes to a volume for as long as the returned value lives, so that it can be copied.
    fn quiesce(&self, _driver: &Driver, _volume: &Volume) -> Result<Option<Frozen>> {
        Ok(None)
    }

    /// The present size of the data, which may differ from the record after a crash.
    fn present_bytes(&self, driver: &Driver, volume: &Volume) -> Result<u64> {
        file::present_bytes(driver, volume)
    }

    /// Grows the data to this size; never shrinks them.
    fn grow(&self, driver: &Driver, volume: &Volume, capacity_bytes: u64) -> Result<()> {
        file::grow(driver, volume, capacity_bytes)
    }

    /// Undoes [`Backend::grow`], unless the new size has become visible to a user of the volume.
    fn undo_growth(&self, driver: &Driver, volume: &Volume, before_bytes: u64) -> Result<()> {
        file::undo_growth(driver, volume, before_bytes)
    }

    /// Makes a new size visible where the volume is in use.
    fn show_growth(&self, driver: &Driver, volume: &Volume) -> Result<()> {
        file::show_growth(driver, volume)
    }

    /// Returns whether the volume has grown but the file system inside it has not.
    fn needs_fs_growth(&self, _volume: &Volume) -> bool {
        false
    }

    /// Grows the file system of a volume that is mounted.
    fn grow_mounted(&self, _driver: &Driver, _volume: &mut Volume) -> Result<()> {
        Ok(())
    }

    /// Repairs differences between data and record that a crash has left.
    fn match_record(&self, driver: &Driver, volume: &Volume) -> Result<()> {
        file::match_record(driver, volume)
    }

    /// Returns whether a volume still needs a loop device that is found at the start after a crash.
    fn needs_device(&self, _driver: &Driver, view: &View, volume: &Volume, _device: &Path) -> Result<bool> {
        Ok(!view.staged_of(&volume.key)?.is_empty() || !view.published_of(&volume.key)?.is_empty())
    }

    /// Returns whether a mount shows the volume, so that the driver may unmount it.
    fn shows(&self, driver: &Driver, volume: &Volume, mount: &Occupant) -> bool;

    fn is_mounted(&self, driver: &Driver, volume: &Volume, at: &PathEntry) -> Result<bool> {
        Ok(at.occupant()?.is_some_and(|there| there.is_mount_root && self.shows(driver, volume, &there)))
    }

    /// Returns whether the volume can be seen at a path without a record, because the CO has bound a published path
    /// there.
    fn is_bound_by_co(&self, _driver: &Driver, _volume: &Volume, _at: &PathEntry) -> Result<bool> {
        Ok(false)
    }

    /// Returns whether a volume whose record says that it is staged here really is.
    fn is_staged(&self, driver: &Driver, volume: &Volume, at: &PathEntry) -> Result<bool> {
        self.is_mounted(driver, volume, at)
    }

    fn stage(
        &self,
        driver: &Driver,
        volume: &mut Volume,
        capability: &Capability,
        at: &PathEntry,
    ) -> Result<()>;

    /// Undoes the staging. `at` is `None` if the parent directory of the path is gone. It is no error if nothing is
    /// staged there.
    fn unstage(
        &self,
        driver: &Driver,
        volume: &Volume,
        at: Option<&PathEntry>,
        _is_last: bool,
    ) -> Result<()> {
        at.map_or(Ok(()), |at| unmount(driver, volume, at))
    }

    /// Returns whether a volume whose record says that it is published here really is.
    fn is_published(&self, driver: &Driver, volume: &Volume, at: &PathEntry) -> Result<bool> {
        self.is_mounted(driver, volume, at)
    }

    /// Publishes a volume from its staging path to a target path.
    fn publish(
        &self,
        driver: &Driver,
        volume: &Volume,
        wanted: &Published,
        staged: &PathEntry,
        at: &PathEntry,
    ) -> Result<()>;

    /// Publishes an inline volume, which is never staged.
    fn publish_inline(
        &self,
        _driver: &Driver,
        volume: &mut Volume,
        _wanted: &Published,
        _at: &PathEntry,
    ) -> Result<()> {
        let reason = format!("an inline volume cannot be a {}", volume.backend.name());
        Err(DriverError::invalid("volume_capability", reason))
    }

    /// Undoes a publication. It is no error if nothing is published there.
    fn unpublish(
        &self,
        driver: &Driver,
        volume: &Volume,
        _published: &Published,
        at: &PathEntry,
    ) -> Result<()> {
        unmount(driver, volume, at)
    }

    /// The usage of a volume, and what is wrong with it, as seen from a path where it is staged or published.
    fn usage(
        &self,
        driver: &Driver,
        volume: &Volume,
        at: &PathEntry,
        readonly: bool,
    ) -> Result<(Vec<VolumeUsage>, Option<Problem>)>;
}

impl BackendKind {
    pub(crate) fn get(self) -> &'static dyn Backend {
        match self {
            BackendKind::Directory => &directory::Directory,
            BackendKind::Image => &image::Image,
            BackendKind::Block => &block::Block,
        }
    }
}

impl Volume {
    pub(crate) fn backend(&self) -> &'static dyn Backend {
        self.backend.get()
    }

    /// The reason why the volume cannot be used with this capability; `None` if it can.
    pub(crate) fn unfit(&self, capability: &Capability, host_fs_type: &str) -> Option<String> {
        self.backend().unfit(capability, host_fs_type).or_else(|| match self.fs {
            FsState::Formatted { fs_type, .. } => capability.other_fs_type(fs_type.name()),
            _ => match self.fs_types.first() {
                Some(made_for) if self.backend().formats(made_for) => capability.other_fs_type(made_for),
                _ => None,
            },
        })
    }
}

/// Fails if the volume cannot be used with the capability (NODE-STAGE-023, NODE-PUBLISH-041).
pub(crate) fn check_fit(driver: &Driver, volume: &Volume, capability: &Capability) -> Result<()> {
    match volume.unfit(capability, &driver.host_fs_type) {
        Some(reason) => Err(DriverError::precondition(format!("volume {}", Shown(volume.id())), reason)),
        None => Ok(()),
    }
}

/// Chooses the back end of a volume without a source. In this order: the back end of the access type, the one that
/// the parameters name, one that can format if a capability names a file system other than the host's, and the
/// default.
pub(crate) fn choose(
    driver: &Driver,
    asked: Option<BackendKind>,
    capabilities: &[Capability],
) -> BackendKind {
    let formats_foreign = |backend: &BackendKind| {
        let mut named = capabilities.iter().map(Capability::fs_type);
        named.any(|fs_type| fs_type != driver.host_fs_type && backend.get().formats(fs_type))
    };
    let formatting =
        || BackendKind::ALL.into_iter().find(|backend| driver.privileged && formats_foreign(backend));
    of_access(capabilities).or(asked).or_else(formatting).unwrap_or(driver.config.backend)
}

/// Chooses the back end of a copy. In this order: the back end of the access type, the one that the parameters name,
/// and the one of the source. It is an error if the data of the source have another form.
pub(crate) fn choose_for_copy(
    origin: BackendKind,
    asked: Option<BackendKind>,
    capabilities: &[Capability],
) -> Result<BackendKind> {
    let fits = |backend: &BackendKind| backend.get().is_file() == origin.get().is_file();
    match of_access(capabilities).or(asked) {
        Some(asked) if fits(&asked) => Ok(asked),
        Some(asked) => {
            let reason = format!("a {} volume cannot come from a {}", asked.name(), origin.name());
            Err(DriverError::invalid("volume_content_source", reason))
        }
        None if origin.get().is_block() => Ok(BackendKind::ALL
            .into_iter()
            .find(|backend| !backend.get().is_block() && fits(backend))
            .unwrap_or(origin)),
        None => Ok(origin),
    }
}

/// The back end that the access type requires, if it requires one.
fn of_access(capabilities: &[Capability]) -> Option<BackendKind> {
    let wants_block = capabilities.iter().any(Capability::is_block);
    BackendKind::ALL.into_iter().find(|backend| wants_block && backend.get().is_block())
}

/// The reason why volumes of a back end cannot be used with all of these capabilities; `None` if they can.
pub(crate) fn unfit(driver: &Driver, backend: BackendKind, capabilities: &[Capability]) -> Option<String> {
    capabilities.iter().find_map(|capability| backend.get().unfit(capability, &driver.host_fs_type))
}

fn unmount(driver: &Driver, volume: &Volume, at: &PathEntry) -> Result<()> {
    if mount::unmount(at, |there| volume.backend().shows(driver, volume, there))? {
        return Ok(());
    }
    let what = at.path().display().to_string();
    Err(DriverError::precondition(what, "something else is mounted there"))
}

fn used(total: u64, used: u64, available: u64, unit: Unit) -> VolumeUsage {
    VolumeUsage { available: signed(available), total: signed(total), used: signed(used), unit: unit.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_a_back_end_by_its_name() {
        for backend in BackendKind::ALL {
            let text = serde_json::to_string(&backend).unwrap();
            assert_eq!(text, format!("{:?}", backend.name()));
        }
        assert!(serde_json::from_str::<BackendKind>(r#""tape""#).is_err());
    }
}
