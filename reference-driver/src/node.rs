//! The Node service.

mod expand;
mod health;
mod info;
mod inline;
mod publish;
mod stage;
mod stats;
mod undo;

use crate::driver::Driver;
use crate::error::{DriverError, Result};
use crate::paths::PathEntry;
use crate::store::Volume;

pub(crate) use expand::node_expand_volume;
pub(crate) use health::{node_get_storage_health, node_get_volume_health};
pub(crate) use info::{node_get_capabilities, node_get_info};
pub(crate) use inline::forget_unused as forget_inline;
pub(crate) use publish::{node_publish_volume, node_unpublish_volume};
pub(crate) use stage::{node_stage_volume, node_unstage_volume};
pub(crate) use stats::node_get_volume_stats;
pub(crate) use undo::{undo_published, undo_staged};

/// Fails if something else is mounted at the path. Undoing the call later would have to stop at such a mount.
fn require_free(driver: &Driver, volume: &Volume, at: &PathEntry) -> Result<()> {
    match at.occupant()? {
        Some(occupant) if occupant.is_mount_root && !volume.backend().shows(driver, volume, &occupant) => {
            let what = at.path().display().to_string();
            Err(DriverError::precondition(what, "something else is mounted there"))
        }
        _ => Ok(()),
    }
}
