//! The Node service, a file for each RPC or pair of RPCs.

mod block;
mod expand;
mod file_system;
mod info;
mod inline;
mod ownership;
mod publish;
mod stage;
mod stats;
mod undo;

use std::path::Path;

use crate::driver::Driver;
use crate::error::{DriverError, Result};
use crate::loopdev;
use crate::mount;
use crate::paths::{CheckedPath, Occupant, Place};
use crate::store::{Backend, Volume};

pub(crate) use expand::{grow_mounted, node_expand_volume};
pub(crate) use info::{node_get_capabilities, node_get_info};
pub(crate) use inline::forget_unused as forget_inline;
pub(crate) use publish::{node_publish_volume, node_unpublish_volume};
pub(crate) use stage::{node_stage_volume, node_unstage_volume};
pub(crate) use stats::node_get_volume_stats;
pub(crate) use undo::{undo_published, undo_staged};

/// Whether what is mounted somewhere is the volume, so that it may be unmounted.
fn is_ours(driver: &Driver, volume: &Volume, mount: &Occupant) -> bool {
    let data = driver.layout.volume(&volume.key);
    match volume.backend {
        Backend::Directory => mount::shows_directory(mount, &data),
        Backend::Image => mount::shows_image(mount, &data),
        Backend::Block => block::shows(mount, &data),
    }
}

/// Whether the volume is mounted at a place.
fn is_mounted(driver: &Driver, volume: &Volume, at: &Place) -> Result<bool> {
    Ok(at.occupant()?.is_some_and(|occupant| occupant.is_mount_root && is_ours(driver, volume, &occupant)))
}

/// Fails if something else is mounted at a place: taking the volume away again would stop before it.
fn require_free(driver: &Driver, volume: &Volume, at: &Place) -> Result<()> {
    match at.occupant()? {
        Some(occupant) if occupant.is_mount_root && !is_ours(driver, volume, &occupant) => {
            let what = at.path().display().to_string();
            Err(DriverError::precondition(what, "something else is mounted there"))
        }
        _ => Ok(()),
    }
}

/// The place a stored path names, if its parent still exists.
fn recorded_place(path: &str) -> Result<Option<Place>> {
    CheckedPath::parse("path", path)?.place()
}

/// Whether a device node belongs to the image.
fn is_device_of(occupant: &Occupant, image: &Path) -> bool {
    occupant.file_type == rustix::fs::FileType::BlockDevice
        && loopdev::node_of(occupant.device_number).is_some_and(|node| loopdev::was_backed_by(&node, image))
}
