//! Undoes stagings and publications: for an RPC, after a failure, or after a crash.

use crate::driver::Driver;
use crate::error::Result;
use crate::paths::PathEntry;
use crate::store::{Change, Published, Staged, Volume};

/// Logs that undoing has failed. The caller gets the original error instead, and the next start tries again.
pub(super) fn report(undone: Result<()>) {
    if let Err(error) = undone {
        tracing::error!(%error, "what has failed could not be undone");
    }
}

/// Removes a staging and its record. It is no error if parts of it are already gone.
pub(crate) fn undo_staged(driver: &Driver, volume: &Volume, staged: &Staged) -> Result<()> {
    let place = PathEntry::recorded(&staged.path)?;
    let others = driver.store.view()?.staged_of(&volume.key)?;
    let is_last = others.iter().all(|other| other.path == staged.path);
    volume.backend().unstage(driver, volume, place.as_ref(), is_last)?;
    if let Some(place) = place.filter(|_| staged.made_path) {
        place.remove()?;
    }
    Ok(driver.store.commit(vec![Change::DeleteStaged(staged.clone())])?)
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
