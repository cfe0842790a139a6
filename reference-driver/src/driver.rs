//! What all calls share, and the steps that many of them begin with.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::capability::Capability;
use crate::capacity::{Ledger, Limits};
use crate::config::{Config, ConfigError};
use crate::error::{DriverError, Result};
use crate::ids::{STRING_BYTES_MAX, Shown};
use crate::layout::Layout;
use crate::locks::{Guard, Key, Locks};
use crate::paths::occupant_of;
use crate::privilege::{CAP_SYS_ADMIN, has_capability};
use crate::quota::Quota;
use crate::store::{Attachment, Snapshot, Store, StoreError, View, Volume};
use crate::{mount, reconcile};

/// The largest map that a peer may send, in bytes of keys and values (GEN-SIZE-002).
const MAP_BYTES_MAX: usize = 4096;
/// How many removals of data go on after their calls have been answered; further calls remove before they answer.
const REMOVALS_MAX: usize = 16;

/// The driver could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] DriverError),
}

/// What all calls on a node share.
#[derive(Clone, Debug)]
pub(crate) struct Driver {
    pub(crate) config: Config,
    pub(crate) layout: Arc<Layout>,
    pub(crate) store: Arc<Store>,
    pub(crate) locks: Locks,
    pub(crate) ledger: Ledger,
    /// What keeps directories within their sizes, where the file system can.
    pub(crate) quota: Option<Quota>,
    /// How many more removals of data may go on after the reply.
    pub(crate) removals: Arc<Semaphore>,
    /// Whether mounts and loop devices can be had.
    pub(crate) privileged: bool,
    /// The file system type of the state directory, which is that of directory volumes.
    pub(crate) host_fs_type: String,
}

impl Driver {
    /// Opens the state. What a crash left behind is still there: see [`reconcile`].
    pub(crate) fn open(config: Config) -> std::result::Result<Driver, StartError> {
        Driver::open_with(config, Store::open)
    }

    /// As [`Driver::open`], with the state opened in some other way.
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
            privileged: has_capability(CAP_SYS_ADMIN),
            config,
            layout,
            store: Arc::new(store),
            host_fs_type,
        };
        reconcile::enter_promises(&driver)?;
        Ok(driver)
    }

    /// The same driver on another node, with which it shares everything else.
    pub(crate) fn at_node(&self, node_id: String) -> Driver {
        Driver { config: Config { node_id, ..self.config.clone() }, ..self.clone() }
    }

    /// Fails if a call is switched off.
    pub(crate) fn require(&self, enabled: bool, what: &'static str) -> Result<()> {
        if enabled { Ok(()) } else { Err(DriverError::Disabled { what }) }
    }

    /// The volume with that identifier.
    pub(crate) fn volume(&self, view: &View, id: &str) -> Result<Volume> {
        required("volume_id", id)?;
        view.volume(id)?.ok_or_else(|| DriverError::not_found("volume", id))
    }

    /// The volume with that identifier, held alone.
    pub(crate) fn volume_alone(&self, id: &str) -> Result<(Volume, Guard)> {
        self.volume_held(id, Locks::exclusive)
    }

    /// The same for a copy of the volume, which waits for its turn.
    pub(crate) fn volume_in_turn(&self, id: &str) -> Result<(Volume, Guard)> {
        self.volume_held(id, Locks::in_turn)
    }

    fn volume_held(&self, id: &str, hold: fn(&Locks, Key) -> Result<Guard>) -> Result<(Volume, Guard)> {
        let found = self.volume(&self.store.view()?, id)?;
        let guard = hold(&self.locks, Key::Object(found.key.clone()))?;
        let fresh = self.store.view()?.volume_by_key(&found.key)?;
        Ok((fresh.ok_or_else(|| DriverError::not_found("volume", id))?, guard))
    }

    /// The snapshot with that identifier.
    pub(crate) fn snapshot(&self, view: &View, field: &'static str, id: &str) -> Result<Snapshot> {
        required(field, id)?;
        view.snapshot(id)?.ok_or_else(|| DriverError::not_found("snapshot", id))
    }

    /// The snapshot with that identifier, which cannot be deleted meanwhile.
    pub(crate) fn snapshot_shared(&self, field: &'static str, id: &str) -> Result<(Snapshot, Guard)> {
        let found = self.snapshot(&self.store.view()?, field, id)?;
        let guard = self.locks.shared(Key::Object(found.key))?;
        Ok((self.snapshot(&self.store.view()?, field, id)?, guard))
    }

    /// Whether a volume is staged or published.
    pub(crate) fn is_in_use(&self, view: &View, volume: &Volume) -> Result<bool> {
        Ok(!view.staged_of(&volume.key)?.is_empty() || !view.published_of(&volume.key)?.is_empty())
    }

    /// How the volume is attached to this node; an error if it has to be and is not.
    pub(crate) fn attachment<'a>(&self, volume: &'a Volume) -> Result<Option<&'a Attachment>> {
        if !self.config.attach {
            return Ok(None); // What was attached before attaching was switched off no longer counts.
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

    /// Fails if the volume cannot be used like that (NODE-STAGE-023, NODE-PUBLISH-041).
    pub(crate) fn check_fit(&self, volume: &Volume, capability: &Capability) -> Result<()> {
        match capability.unfit_for(volume, &self.host_fs_type) {
            Some(reason) => Err(DriverError::precondition(format!("volume {}", Shown(volume.id())), reason)),
            None => Ok(()),
        }
    }

    /// Takes back all that a volume was promised, which is deleted now.
    pub(crate) fn release(&self, volume: &Volume) {
        self.ledger.release_volume(volume.pool.as_deref(), volume.capacity_bytes);
        volume.attachments.keys().for_each(|node| self.ledger.release_attachment(node));
    }

    /// Fails without CAP_SYS_ADMIN.
    pub(crate) fn require_privileges(&self, what: &'static str) -> Result<()> {
        if self.privileged { Ok(()) } else { Err(DriverError::Unprivileged { what }) }
    }
}

/// Fails if a mandatory field is empty.
pub(crate) fn required(field: &'static str, value: &str) -> Result<()> {
    if value.is_empty() { Err(DriverError::Missing { field }) } else { Ok(()) }
}

/// Checks a name that a CO suggests: any Unicode but control characters, up to 128 bytes.
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

/// Checks the size of a map.
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

/// The type of the file system that holds a path.
fn fs_type_of(path: &Path) -> Result<String> {
    let mount_id = occupant_of(path)?.map(|occupant| occupant.mount_id);
    let entry = mount::mounts()?.into_iter().find(|entry| Some(entry.mount_id) == mount_id);
    Ok(entry.map(|entry| entry.fs_type).unwrap_or_default())
}
