//! The state that all calls share, and the first steps that many of them have in common.

use std::path::Path;
use std::sync::Arc;

use rustix::thread::CapabilitySet;
use tokio::sync::Semaphore;

use crate::capacity::{Ledger, Limits};
use crate::config::{Config, ConfigError};
use crate::error::{DriverError, Result, Shown};
use crate::ids::STRING_BYTES_MAX;
use crate::kernel::has_capability;
use crate::layout::Layout;
use crate::locks::{Guard, Key, Locks};
use crate::mount;
use crate::paths::occupant_of;
use crate::quota::Quota;
use crate::store::{Attachment, Snapshot, Store, StoreError, View, Volume};

/// The largest map that a peer may send, in bytes of keys and values (GEN-SIZE-002).
const MAP_BYTES_MAX: usize = 4096;
/// The number of records that are read at a time.
const PAGE_LENGTH: usize = 1000;
/// The largest number of removals of data that run in the background after their call was answered. Further calls
/// remove the data before they answer.
const REMOVALS_MAX: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    State(#[from] DriverError),
}

/// The state that all calls on a node share.
#[derive(Clone, Debug)]
pub(crate) struct Driver {
    pub(crate) config: Config,
    pub(crate) layout: Arc<Layout>,
    pub(crate) store: Arc<Store>,
    pub(crate) locks: Locks,
    pub(crate) ledger: Ledger,
    /// Present if the file system can limit directories.
    pub(crate) quota: Option<Quota>,
    /// Permits for removals of data in the background.
    pub(crate) removals: Arc<Semaphore>,
    /// True if the process may mount and attach loop devices.
    pub(crate) privileged: bool,
    /// The file system type of the state directory, which directory volumes share.
    pub(crate) host_fs_type: String,
}

impl Driver {
    /// Opens the state. The remains of a crash are still there afterwards: [`crate::reconcile`] removes them.
    pub(crate) fn open(config: Config) -> std::result::Result<Driver, StartError> {
        Driver::open_with(config, Store::open)
    }

    /// Like [`Driver::open`], but with another way to open the store.
    pub(crate) fn open_with(
        config: Config,
        open_store: impl FnOnce(&Path, &[&Path]) -> std::result::Result<Store, StoreError>,
    ) -> std::result::Result<Driver, StartError> {
        config.check()?;
        let layout = Arc::new(Layout::open(&config.state_dir)?);
        let (volumes, snapshots) = (layout.volumes(), layout.snapshots());
        let store = open_store(&layout.state_file(), &[&volumes, &snapshots]).map_err(DriverError::from)?;
        let limits = Limits {
            pools: config.pools.clone(),
            overcommit: config.overcommit,
            attachments_max: u64::try_from(config.attach_limit).unwrap_or(0),
            data: volumes,
        };
        let host_fs_type = fs_type_of(layout.root())?;
        let driver = Driver {
            ledger: Ledger::new(limits),
            locks: Locks::default(),
            quota: Quota::of(layout.volumes_directory()),
            removals: Arc::new(Semaphore::new(REMOVALS_MAX)),
            privileged: has_capability(CapabilitySet::SYS_ADMIN),
            config,
            layout,
            store: Arc::new(store),
            host_fs_type,
        };
        driver.count_promises()?;
        Ok(driver)
    }

    /// Counts what existing volumes have been promised.
    fn count_promises(&self) -> Result<()> {
        self.each_volume(|volume| {
            self.ledger.count_volume(volume.pool.as_deref(), volume.capacity_bytes);
            volume.attachments.keys().for_each(|node| self.ledger.count_attachment(node));
            Ok(())
        })
    }

    /// Visits every volume, and stops at the first error.
    pub(crate) fn each_volume(&self, mut visit: impl FnMut(Volume) -> Result<()>) -> Result<()> {
        let mut after = String::new();
        loop {
            let page = self.store.view()?.volumes_after(&after, PAGE_LENGTH)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.key.to_string();
            page.into_iter().try_for_each(&mut visit)?;
        }
    }

    /// The driver as another node serves it. Both share everything but the node id.
    pub(crate) fn at_node(&self, node_id: String) -> Driver {
        Driver { config: Config { node_id, ..self.config.clone() }, ..self.clone() }
    }

    /// Fails if a feature is switched off.
    pub(crate) fn require(&self, enabled: bool, what: &'static str) -> Result<()> {
        if enabled { Ok(()) } else { Err(DriverError::Disabled { what }) }
    }

    pub(crate) fn volume(&self, view: &View, id: &str) -> Result<Volume> {
        required("volume_id", id)?;
        view.volume(id)?.ok_or_else(|| DriverError::not_found("volume", id))
    }

    /// Locks a volume exclusively and reads its record.
    pub(crate) fn volume_exclusive(&self, id: &str) -> Result<(Volume, Guard)> {
        self.volume_held(id, Locks::exclusive)
    }

    /// Like [`Driver::volume_exclusive`], but waits for the lock. For calls that copy the volume.
    pub(crate) fn volume_exclusive_waiting(&self, id: &str) -> Result<(Volume, Guard)> {
        self.volume_held(id, Locks::exclusive_waiting)
    }

    fn volume_held(&self, id: &str, hold: fn(&Locks, Key) -> Result<Guard>) -> Result<(Volume, Guard)> {
        let found = self.volume(&self.store.view()?, id)?;
        let guard = hold(&self.locks, Key::Object(found.key.clone()))?;
        let fresh = self.store.view()?.volume_by_key(&found.key)?;
        Ok((fresh.ok_or_else(|| DriverError::not_found("volume", id))?, guard))
    }

    pub(crate) fn snapshot(&self, view: &View, field: &'static str, id: &str) -> Result<Snapshot> {
        required(field, id)?;
        view.snapshot(id)?.ok_or_else(|| DriverError::not_found("snapshot", id))
    }

    /// Locks a snapshot against deletion and reads its record.
    pub(crate) fn snapshot_shared(&self, field: &'static str, id: &str) -> Result<(Snapshot, Guard)> {
        let found = self.snapshot(&self.store.view()?, field, id)?;
        let guard = self.locks.shared(Key::Object(found.key))?;
        Ok((self.snapshot(&self.store.view()?, field, id)?, guard))
    }

    pub(crate) fn is_in_use(&self, view: &View, volume: &Volume) -> Result<bool> {
        Ok(!view.staged_of(&volume.key)?.is_empty() || !view.published_of(&volume.key)?.is_empty())
    }

    /// The attachment of the volume to this node; an error if attaching is required and missing.
    pub(crate) fn attachment<'a>(&self, volume: &'a Volume) -> Result<Option<&'a Attachment>> {
        if !self.config.attach {
            return Ok(None); // Attachments from a time when attaching was switched on do not count.
        }
        let attachment = volume.attachments.get(&self.config.node_id);
        if attachment.is_none() {
            return Err(DriverError::precondition(
                format!("volume {}", Shown(volume.id())),
                "it is not attached",
            ));
        }
        Ok(attachment)
    }

    /// Gives back the storage and attachment slots of a deleted volume.
    pub(crate) fn release(&self, volume: &Volume) {
        self.ledger.release_volume(volume.pool.as_deref(), volume.capacity_bytes);
        volume.attachments.keys().for_each(|node| self.ledger.release_attachment(node));
    }

    /// Fails without CAP_SYS_ADMIN.
    pub(crate) fn require_privileges(&self, what: &'static str) -> Result<()> {
        if self.privileged { Ok(()) } else { Err(DriverError::Unprivileged { what }) }
    }
}

pub(crate) fn required(field: &'static str, value: &str) -> Result<()> {
    if value.is_empty() { Err(DriverError::Missing { field }) } else { Ok(()) }
}

/// Checks a name that the CO has chosen: up to 128 bytes of any Unicode without control characters.
pub(crate) fn checked_name(name: &str) -> Result<&str> {
    required("name", name)?;
    if name.len() > STRING_BYTES_MAX {
        return Err(DriverError::invalid("name", "it is longer than 128 bytes"));
    }
    let banned = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    if name.chars().any(banned) {
        return Err(DriverError::invalid("name", "it holds control characters"));
    }
    Ok(name)
}

pub(crate) fn checked_map<'a>(
    field: &'static str,
    map: &'a std::collections::BTreeMap<String, String>,
) -> Result<&'a std::collections::BTreeMap<String, String>> {
    let bytes: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MAP_BYTES_MAX {
        return Err(DriverError::invalid(field, "it is larger than 4 KiB"));
    }
    Ok(map)
}

/// The type of the file system that contains a path.
fn fs_type_of(path: &Path) -> Result<String> {
    let mount_id = occupant_of(path)?.map(|occupant| occupant.mount_id);
    let entry = mount::mounts()?.into_iter().find(|entry| Some(entry.mount_id) == mount_id);
    Ok(entry.map(|entry| entry.fs_type).unwrap_or_default())
}
