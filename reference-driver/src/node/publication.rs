//! The record of a publication, which is written before the volume appears at its target path, so that the next start
//! can undo the rest after a crash.

use rustix::mount::MountFlags;

use super::{report, require_free};
use crate::capability::Capability;
use crate::driver::Driver;
use crate::error::{DriverError, Result, Shown};
use crate::mount::MountOptions;
use crate::paths::PathEntry;
use crate::store::{Change, Phase, Published, Volume};

/// Returns whether a capability forbids writing, so that the `readonly` field makes no difference.
pub(super) fn asks_for_readonly(capability: &Capability) -> bool {
    capability.mode.is_reader_only()
        || MountOptions::parse(capability.flags()).flags.contains(MountFlags::RDONLY)
}

/// Compares the request with existing publications. Returns true if the volume is already published in the same way
/// at the same path, and fails if the two cannot coexist (NODE-PUBLISH-009 to -016, -040).
pub(super) fn match_present(driver: &Driver, volume: &Volume, wanted: &Published) -> Result<bool> {
    let present = driver.store.view()?.published_of(&volume.key)?;
    if let Some(same_path) = present.iter().find(|published| published.path == wanted.path) {
        return match same_path.phase {
            Phase::Done => check_same(same_path, wanted).map(|()| true),
            Phase::Begun => undo_published(driver, volume, same_path).map(|()| false),
        };
    }
    // A node that was lost has not unpublished what it had. Once the volume is detached from it, that does not count.
    let has_lost_volume = |published: &&Published| {
        let node = &published.node;
        driver.config.attach && !node.is_empty() && !volume.attachments.contains_key(node)
    };
    let present: Vec<&Published> = present.iter().filter(|published| !has_lost_volume(published)).collect();
    let Some(other) = present.first() else { return Ok(false) };
    let shared = |capability: &Capability| capability.mode.allows_many_targets();
    if shared(&wanted.capability) && present.iter().all(|published| shared(&published.capability)) {
        return Ok(false);
    }
    let reason =
        format!("it is published at {} and its access mode allows no second target", Shown(&other.path));
    Err(DriverError::precondition(format!("volume {}", Shown(volume.id())), reason))
}

fn check_same(present: &Published, wanted: &Published) -> Result<()> {
    let reason = if present.readonly != wanted.readonly {
        "it has the other value of readonly"
    } else if present.capability != wanted.capability {
        "it has another volume_capability"
    } else if present.staging_path != wanted.staging_path {
        "it comes from another staging_target_path"
    } else {
        return Ok(());
    };
    let what = format!("the publication at {}", Shown(&wanted.path));
    Err(DriverError::Exists { what, reason: reason.to_owned() })
}

/// Publishes a volume by calling `bring`. The record is written first, so that the next start can undo the rest after
/// a crash.
pub(super) fn publish_recorded(
    driver: &Driver,
    volume: &Volume,
    mut wanted: Published,
    place: &PathEntry,
    bring: impl FnOnce(&Published) -> Result<()>,
) -> Result<()> {
    require_free(driver, volume, place)?;
    wanted.made_path = match recorded(driver, &wanted)? {
        Some(before) => before.made_path, // A reboot removed the mount, but not the directory or file for it.
        None => place.occupant()?.is_none(),
    };
    driver.store.commit(vec![Change::PutPublished(wanted.clone())])?;
    let done = bring(&wanted).and_then(|()| {
        wanted.phase = Phase::Done;
        Ok(driver.store.commit(vec![Change::PutPublished(wanted.clone())])?)
    });
    if done.is_err() {
        report(undo_published(driver, volume, &wanted));
    }
    done
}

fn recorded(driver: &Driver, wanted: &Published) -> Result<Option<Published>> {
    let mut present = driver.store.view()?.published_of(&wanted.volume)?.into_iter();
    Ok(present.find(|published| published.path == wanted.path))
}

/// Removes a publication and its record. It is no error if parts of it are already gone.
pub(crate) fn undo_published(driver: &Driver, volume: &Volume, published: &Published) -> Result<()> {
    clear_published(driver, volume, published)?;
    Ok(driver.store.commit(vec![Change::DeletePublished(published.clone())])?)
}

/// Removes a publication, but not its record.
pub(super) fn clear_published(driver: &Driver, volume: &Volume, published: &Published) -> Result<()> {
    let Some(place) = PathEntry::recorded(&published.path)? else { return Ok(()) };
    volume.backend().unpublish(driver, volume, published, &place)?;
    if published.made_path { place.remove() } else { Ok(()) }
}
