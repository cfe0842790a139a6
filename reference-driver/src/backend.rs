//! Back ends: the ways in which volumes are kept. Each is one file with a [`Backend`] in it, and a row in [`ALL`].

mod block;
mod directory;
mod file;
mod image;
mod mounted;
mod ownership;

use std::fmt;
use std::path::Path;

use csi_proto::v1::VolumeUsage;
use csi_proto::v1::volume_usage::Unit;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::capability::Capability;
use crate::controller::signed;
use crate::driver::Driver;
use crate::error::{DriverError, Result};
use crate::freeze::Frozen;
use crate::fs::FsType;
use crate::health::Trouble;
use crate::mount;
use crate::paths::{Occupant, PathEntry};
use crate::storage::NewData;
use crate::store::{Published, View, Volume};

/// All of them. Where several would do, the first one counts.
static ALL: [&dyn Backend; 3] = [&directory::Directory, &image::Image, &block::Block];

/// How volumes are made, copied, grown, and brought to paths. Calls hold the volume alone, or share what they only read.
pub(crate) trait Backend: fmt::Debug + Sync {
    /// The value of the `backend` parameter, and what records and messages say.
    fn name(&self) -> &'static str;

    /// Whether workloads get a device instead of a file system.
    fn is_block(&self) -> bool;

    /// Whether the data of a volume are one file, and not a tree. Data are only copied to such as have the same form.
    fn is_file(&self) -> bool;

    /// Whether volumes can be formatted with a file system of that type.
    fn formats(&self, _fs_type: &str) -> bool {
        false
    }

    /// Whether nothing is lost if a crash takes an empty volume away, as [`Backend::match_record`] makes it again.
    fn makes_empty_again(&self) -> bool {
        false
    }

    /// Whether a volume in use can be kept from being written while it is copied.
    fn can_freeze(&self) -> bool {
        false
    }

    /// Why no volume can be used like this, if none can.
    fn unfit(&self, capability: &Capability, host_fs_type: &str) -> Option<String>;

    /// Fails if no volume can be made on this host.
    fn check_host(&self, _driver: &Driver) -> Result<()> {
        Ok(())
    }

    /// The smallest volume, with a file system of that type if it has one.
    fn size_bytes_min(&self, fs_type: FsType) -> u64;

    /// What sizes are multiples of.
    fn unit_bytes(&self) -> u64;

    /// Makes the data of an empty volume.
    fn make(&self, driver: &Driver, volume: &Volume) -> Result<NewData>;

    /// Makes the data of a volume as a copy of those of a volume at rest or of a snapshot.
    fn copy(&self, driver: &Driver, source: &Path, volume: &Volume) -> Result<NewData>;

    /// Makes the data of a snapshot of a volume at rest.
    fn snapshot(&self, driver: &Driver, volume: &Volume, target: &Path) -> Result<NewData>;

    /// Brings the data of a volume to rest, so that they can be copied, for as long as the value lives.
    fn quiesce(&self, _driver: &Driver, _volume: &Volume) -> Result<Option<Frozen>> {
        Ok(None)
    }

    /// How much the data of a volume can hold now, whatever its record says.
    fn present_bytes(&self, driver: &Driver, volume: &Volume) -> Result<u64>;

    /// Lets the data of a volume be as large as that; never makes them smaller.
    fn grow(&self, driver: &Driver, volume: &Volume, capacity_bytes: u64) -> Result<()>;

    /// Takes [`Backend::grow`] back, unless somebody has seen the new size already.
    fn undo_growth(&self, driver: &Driver, volume: &Volume, before_bytes: u64) -> Result<()>;

    /// Shows those who use a volume how large it has become.
    fn show_growth(&self, _driver: &Driver, _volume: &Volume) -> Result<()> {
        Ok(())
    }

    /// Whether a volume that has been grown has a file system inside that has not.
    fn is_file_system_behind(&self, _volume: &Volume) -> bool {
        false
    }

    /// Grows the file system in a volume that is mounted somewhere.
    fn grow_mounted(&self, _driver: &Driver, _volume: &mut Volume) -> Result<()> {
        Ok(())
    }

    /// Brings the data of a volume and what its record says together after a crash.
    fn match_record(&self, driver: &Driver, volume: &Volume) -> Result<()>;

    /// Whether a volume still needs a loop device of its data after a crash.
    fn needs_device(&self, _driver: &Driver, view: &View, volume: &Volume, _device: &Path) -> Result<bool> {
        Ok(!view.staged_of(&volume.key)?.is_empty() || !view.published_of(&volume.key)?.is_empty())
    }

    /// Whether what is mounted somewhere is the volume, so that it may be unmounted.
    fn shows(&self, driver: &Driver, volume: &Volume, mount: &Occupant) -> bool;

    /// Whether the volume is mounted at a place.
    fn is_mounted(&self, driver: &Driver, volume: &Volume, at: &PathEntry) -> Result<bool> {
        Ok(at.occupant()?.is_some_and(|there| there.is_mount_root && self.shows(driver, volume, &there)))
    }

    /// Whether a place that no record names shows the volume, to which the CO has brought it from one that does.
    fn is_brought_to(&self, _driver: &Driver, _volume: &Volume, _at: &PathEntry) -> Result<bool> {
        Ok(false)
    }

    /// Whether a volume is staged at a place, as its record says.
    fn is_staged(&self, driver: &Driver, volume: &Volume, at: &PathEntry) -> Result<bool> {
        self.is_mounted(driver, volume, at)
    }

    /// Stages a volume at a directory.
    fn stage(
        &self,
        driver: &Driver,
        volume: &mut Volume,
        capability: &Capability,
        at: &PathEntry,
    ) -> Result<()>;

    /// Takes back the staging at a place, if the place is still there. What is gone already is no error.
    fn unstage(&self, driver: &Driver, volume: &Volume, at: Option<&PathEntry>, is_last: bool) -> Result<()>;

    /// Whether a volume is published at a place, as its record says.
    fn is_published(&self, driver: &Driver, volume: &Volume, at: &PathEntry) -> Result<bool> {
        self.is_mounted(driver, volume, at)
    }

    /// Publishes a volume that is staged at a place at another one.
    fn publish(
        &self,
        driver: &Driver,
        volume: &Volume,
        wanted: &Published,
        staged: &PathEntry,
        at: &PathEntry,
    ) -> Result<()>;

    /// Publishes a volume that is staged nowhere.
    fn publish_inline(
        &self,
        _driver: &Driver,
        _volume: &mut Volume,
        _wanted: &Published,
        _at: &PathEntry,
    ) -> Result<()> {
        Err(DriverError::invalid(
            "volume_capability",
            format!("an inline volume cannot be a {}", self.name()),
        ))
    }

    /// Takes back a publication. What is gone already is no error.
    fn unpublish(
        &self,
        driver: &Driver,
        volume: &Volume,
        published: &Published,
        at: &PathEntry,
    ) -> Result<()>;

    /// How much of a volume is used, and what is wrong with it, as seen from a place where it is staged or published.
    fn usage(
        &self,
        driver: &Driver,
        volume: &Volume,
        at: &PathEntry,
        readonly: bool,
    ) -> Result<(Vec<VolumeUsage>, Option<Trouble>)>;
}

/// The back end of a volume, which records have by its name.
#[derive(Clone, Copy, Debug)]
pub struct BackendRef(&'static dyn Backend);

impl BackendRef {
    /// The one with that name.
    pub fn named(name: &str) -> Option<BackendRef> {
        all().find(|backend| backend.0.name() == name)
    }

    pub(crate) fn get(self) -> &'static dyn Backend {
        self.0
    }
}

impl PartialEq for BackendRef {
    fn eq(&self, other: &BackendRef) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Serialize for BackendRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl<'de> Deserialize<'de> for BackendRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<BackendRef, D::Error> {
        let name = String::deserialize(deserializer)?;
        BackendRef::named(&name).ok_or_else(|| D::Error::custom(format!("there is no back end {name:?}")))
    }
}

fn all() -> impl Iterator<Item = BackendRef> {
    ALL.into_iter().map(BackendRef)
}

/// The names of those that can be asked for; the others come with an access type.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.into_iter().filter(|backend| !backend.is_block()).map(Backend::name)
}

/// The back end for a volume without a source: that of the access type, the one asked for, one that formats where a
/// capability names a file system that this host does not have, and otherwise the default.
pub(crate) fn choose(driver: &Driver, asked: Option<BackendRef>, capabilities: &[Capability]) -> BackendRef {
    let formats_foreign = |backend: &BackendRef| {
        let mut named = capabilities.iter().map(Capability::fs_type);
        named.any(|fs_type| fs_type != driver.host_fs_type && backend.0.formats(fs_type))
    };
    let formatting = || all().find(|backend| driver.privileged && formats_foreign(backend));
    of_access(capabilities).or(asked).or_else(formatting).unwrap_or(driver.config.backend)
}

/// The back end for a copy: that of the access type, the one asked for, or that of the source. An error if the data of the
/// source have another form.
pub(crate) fn choose_for_copy(
    origin: BackendRef,
    asked: Option<BackendRef>,
    capabilities: &[Capability],
) -> Result<BackendRef> {
    let fits = |backend: &BackendRef| backend.0.is_file() == origin.0.is_file();
    match of_access(capabilities).or(asked) {
        Some(asked) if fits(&asked) => Ok(asked),
        Some(asked) => {
            let reason = format!("a {} volume cannot come from a {}", asked.0.name(), origin.0.name());
            Err(DriverError::invalid("volume_content_source", reason))
        }
        None if origin.0.is_block() => {
            Ok(all().find(|backend| !backend.0.is_block() && fits(backend)).unwrap_or(origin))
        }
        None => Ok(origin),
    }
}

/// The back end that an access type asks for.
fn of_access(capabilities: &[Capability]) -> Option<BackendRef> {
    let wants_block = capabilities.iter().any(Capability::is_block);
    all().find(|backend| wants_block && backend.0.is_block())
}

/// Why no volume can be used in all of these ways, if none can.
pub(crate) fn unfit(driver: &Driver, backend: BackendRef, capabilities: &[Capability]) -> Option<String> {
    capabilities.iter().find_map(|capability| backend.0.unfit(capability, &driver.host_fs_type))
}

/// Unmounts a volume from a place.
fn unmount(backend: &dyn Backend, driver: &Driver, volume: &Volume, at: &PathEntry) -> Result<()> {
    if mount::unmount(at, |there| backend.shows(driver, volume, there))? {
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
        for backend in all() {
            let text = serde_json::to_string(&backend).unwrap();
            assert_eq!(text, format!("{:?}", backend.0.name()));
            assert_eq!(serde_json::from_str::<BackendRef>(&text).unwrap(), backend);
        }
        assert!(serde_json::from_str::<BackendRef>(r#""tape""#).is_err());
        assert_eq!(names().collect::<Vec<_>>(), ["directory", "image"]);
    }
}
