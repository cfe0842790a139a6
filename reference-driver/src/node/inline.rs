//! Ephemeral inline volumes, which NodePublishVolume creates and NodeUnpublishVolume deletes.

use std::collections::BTreeMap;

use csi_proto::v1::NodePublishVolumeRequest;

use super::publication::{asks_for_readonly, clear_published, match_present, publish_recorded};
use super::report;
use crate::backend::{self, Backend};
use crate::capability::Capability;
use crate::config::parse_quantity;
use crate::controller::Parameters;
use crate::driver::Driver;
use crate::error::{DriverError, Result, Shown};
use crate::fs::FsType;
use crate::ids::{ObjectId, ObjectKind, STRING_BYTES_MAX};
use crate::locks::Key;
use crate::paths::{CheckedPath, PathEntry};
use crate::storage;
use crate::store::{Change, FsState, Phase, Published, Volume, may_be_committed};

/// The key with which a CO marks a volume as inline.
const EPHEMERAL_KEY: &str = "csi.storage.k8s.io/ephemeral";
/// The prefix of the CO's own keys; all other keys are attributes of the volume.
const CO_PREFIX: &str = "csi.storage.k8s.io/";

pub(super) fn is_inline(driver: &Driver, request: &NodePublishVolumeRequest) -> bool {
    match request.volume_context.get(EPHEMERAL_KEY).map(String::as_str) {
        Some(value) => value == "true",
        None => driver.config.always_ephemeral,
    }
}

/// Creates and publishes an inline volume, unless it is already published. If this fails, nothing is left.
pub(super) fn publish(
    driver: &Driver,
    request: &NodePublishVolumeRequest,
    target: &CheckedPath,
    capability: Capability,
) -> Result<()> {
    let id = request.volume_id.as_str();
    if id.len() > STRING_BYTES_MAX {
        return Err(DriverError::invalid("volume_id", "it is longer than 128 bytes"));
    }
    if capability.is_block() {
        return Err(DriverError::invalid("volume_capability", "an inline volume cannot be a block device"));
    }
    let _id = driver.locks.exclusive(Key::InlineVolume(id.to_owned()))?;
    let place = target.existing_place(driver.layout.root())?;
    let (found, made) = match driver.store.view()?.volume(id)? {
        Some(volume) if volume.inline_id.is_some() => (volume, false),
        Some(_) => {
            let what = format!("volume {}", Shown(id));
            return Err(DriverError::Exists { what, reason: "it is not an inline volume".to_owned() });
        }
        None => (make(driver, id, &request.volume_context, &capability)?, true),
    };
    let _guard = driver.locks.exclusive(Key::Object(found.key.clone()))?;
    // Another call may have removed the volume just before the lock was taken.
    let gone = || DriverError::Busy { what: format!("the inline volume {}", Shown(id)) };
    let mut volume = driver.store.view()?.volume_by_key(&found.key)?.ok_or_else(gone)?;
    let published = publish_made(driver, request, &mut volume, target, capability, &place);
    if published.is_err() && made {
        report(forget_unused(driver, &volume));
    }
    published
}

fn publish_made(
    driver: &Driver,
    request: &NodePublishVolumeRequest,
    volume: &mut Volume,
    target: &CheckedPath,
    capability: Capability,
    place: &PathEntry,
) -> Result<()> {
    backend::check_fit(driver, volume, &capability)?;
    let wanted = Published {
        volume: volume.key.clone(),
        path: target.to_text(),
        node: String::new(),
        staging_path: None,
        readonly: request.readonly || asks_for_readonly(&capability),
        capability,
        made_path: true,
        phase: Phase::Begun,
    };
    let present = match_present(driver, volume, &wanted)?;
    if present && volume.backend().is_published(driver, volume, place)? {
        return Ok(());
    }
    let mut mounted = volume.clone();
    publish_recorded(driver, volume, wanted, place, |wanted| {
        volume.backend().publish_inline(driver, &mut mounted, wanted, place)?;
        Ok(driver.store.commit(vec![Change::PutVolume(mounted.clone())])?)
    })
}

/// Creates the volume that the attributes describe.
fn make(
    driver: &Driver,
    id: &str,
    context: &BTreeMap<String, String>,
    capability: &Capability,
) -> Result<Volume> {
    let attributes: BTreeMap<String, String> = context
        .iter()
        .filter(|(key, _)| !key.starts_with(CO_PREFIX))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let parameters = Parameters::read(|key| attributes.get(key), &driver.config)?;
    let backend = backend::choose(driver, parameters.backend(), std::slice::from_ref(capability));
    let volume = Volume {
        key: ObjectId::generate(ObjectKind::Volume)?,
        inline_id: Some(id.to_owned()),
        name: String::new(),
        backend,
        capacity_bytes: size_of(driver, &attributes, backend.get(), capability)?,
        pool: None,
        project: None,
        fs: FsState::Unknown,
        parameters: BTreeMap::new(),
        first_mutable_parameters: BTreeMap::new(),
        mutable_parameters: BTreeMap::new(),
        fs_types: [capability.fs_type().to_owned()].into_iter().filter(|name| !name.is_empty()).collect(),
        source: None,
        attachments: BTreeMap::new(),
        untouched: false,
    };
    backend::check_fit(driver, &volume, capability)?;
    let room = driver.ledger.reserve_volume(parameters.pool(), volume.capacity_bytes)?;
    let data = volume.backend().make(driver, &volume)?;
    let volume = Volume { pool: room.pool(), project: data.project(), ..volume };
    let record = Change::PutVolume(volume.clone());
    let committed = driver.store.commit_after_flush(driver.layout.volumes_directory(), vec![record]);
    if may_be_committed(&committed) {
        data.keep();
        room.keep();
    }
    committed?;
    Ok(volume)
}

/// The size from the attribute `size`, raised to the minimum of the back end.
fn size_of(
    driver: &Driver,
    attributes: &BTreeMap<String, String>,
    backend: &dyn Backend,
    capability: &Capability,
) -> Result<u64> {
    let asked = match attributes.get("size") {
        None => driver.config.default_volume_bytes,
        Some(text) => parse_quantity(text).filter(|bytes| *bytes > 0).ok_or_else(|| {
            DriverError::invalid("volume_context", format!("size {} is not a quantity", Shown(text)))
        })?,
    };
    let fs_type = FsType::parse(capability.fs_type()).unwrap_or(driver.config.fs_type);
    let bytes = asked.max(backend.size_bytes_min(fs_type)).checked_next_multiple_of(backend.unit_bytes());
    bytes.filter(|bytes| *bytes <= driver.config.max_volume_bytes).ok_or_else(|| {
        DriverError::out_of_range(format!("the largest volume has {} bytes", driver.config.max_volume_bytes))
    })
}

/// Removes the last publication of an inline volume, and then the volume.
pub(super) fn unpublish(driver: &Driver, volume: &Volume, published: &Published) -> Result<()> {
    clear_published(driver, volume, published)?;
    forget(driver, volume, vec![Change::DeletePublished(published.clone())])
}

/// Deletes an inline volume unless it is published. If a publication could not be undone, the volume stays because
/// its data may still be mounted; NodeUnpublishVolume or the next start tries again.
pub(crate) fn forget_unused(driver: &Driver, volume: &Volume) -> Result<()> {
    if !driver.store.view()?.published_of(&volume.key)?.is_empty() {
        return Ok(());
    }
    forget(driver, volume, Vec::new())
}

fn forget(driver: &Driver, volume: &Volume, mut changes: Vec<Change>) -> Result<()> {
    changes.push(Change::DeleteVolume(volume.clone()));
    driver.store.commit(changes)?;
    storage::remove_volume(driver, volume);
    driver.release(volume);
    Ok(())
}
