//! Undoing stagings and publications: asked for, after a failure, or after a crash.

use super::{block, is_ours, recorded_place};
use crate::driver::Driver;
use crate::error::{DriverError, Result};
use crate::mount;
use crate::paths::Place;
use crate::store::{Backend, Change, Published, Staged, Volume};

/// Logs that undoing has failed, where the caller is told what failed before. The next start tries again.
pub(super) fn report(undone: Result<()>) {
    if let Err(error) = undone {
        tracing::error!(%error, "what has failed could not be undone");
    }
}

/// Removes a staging and its record. What is gone already is no error.
pub(crate) fn undo_staged(driver: &Driver, volume: &Volume, staged: &Staged) -> Result<()> {
    if let Some(place) = recorded_place(&staged.path)? {
        if volume.backend != Backend::Block {
            unmount(driver, volume, &place)?;
        }
        if staged.made_path {
            place.remove()?;
        }
    }
    let others = driver.store.view()?.staged_of(&volume.key)?;
    if volume.backend == Backend::Block && others.iter().all(|other| other.path == staged.path) {
        block::detach(driver, volume)?;
    }
    Ok(driver.store.commit(vec![Change::DeleteStaged(staged.clone())])?)
}

/// Removes a publication and its record. What is gone already is no error.
pub(crate) fn undo_published(driver: &Driver, volume: &Volume, published: &Published) -> Result<()> {
    clear_published(driver, volume, published)?;
    Ok(driver.store.commit(vec![Change::DeletePublished(published.clone())])?)
}

/// Removes a publication, but not its record.
pub(super) fn clear_published(driver: &Driver, volume: &Volume, published: &Published) -> Result<()> {
    let Some(place) = recorded_place(&published.path)? else { return Ok(()) };
    let device = match volume.backend {
        Backend::Block if published.readonly => block::device_at(&place)?,
        _ => None,
    };
    unmount(driver, volume, &place)?;
    if let Some(device) = device {
        block::detach_readonly(&driver.layout.volume(&volume.key), &device)?;
    }
    if published.made_path { place.remove() } else { Ok(()) }
}

fn unmount(driver: &Driver, volume: &Volume, place: &Place) -> Result<()> {
    if mount::unmount(place, |occupant| is_ours(driver, volume, occupant))? {
        return Ok(());
    }
    let what = place.path().display().to_string();
    Err(DriverError::precondition(what, "something else is mounted there"))
}
