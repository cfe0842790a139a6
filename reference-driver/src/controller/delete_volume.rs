//! DeleteVolume.

use csi_proto::v1::{DeleteVolumeRequest, DeleteVolumeResponse};

use crate::driver::{Driver, required};
use crate::error::{DriverError, Result};
use crate::ids::Shown;
use crate::locks::Key;
use crate::storage;
use crate::store::{Change, Volume};

pub(crate) fn delete_volume(driver: &Driver, request: &DeleteVolumeRequest) -> Result<DeleteVolumeResponse> {
    required("volume_id", &request.volume_id)?;
    let (volume, _guard) = match driver.volume_exclusive(&request.volume_id) {
        Err(DriverError::NotFound { .. }) => return Ok(DeleteVolumeResponse {}),
        result => result?,
    };
    let _name = driver.locks.exclusive(Key::VolumeName(volume.name.clone()))?;
    check_unused(driver, &volume)?;
    driver.store.commit(vec![Change::DeleteVolume(volume.clone())])?;
    storage::remove_volume(driver, &volume);
    driver.release(&volume);
    Ok(DeleteVolumeResponse {})
}

/// Fails if the volume is attached, staged or published (CTRL-DELETEVOL-011).
fn check_unused(driver: &Driver, volume: &Volume) -> Result<()> {
    let view = driver.store.view()?;
    let used = if !view.published_of(&volume.key)?.is_empty() {
        "it is published"
    } else if !view.staged_of(&volume.key)?.is_empty() {
        "it is staged"
    } else if driver.config.attach && !volume.attachments.is_empty() {
        "it is attached"
    } else {
        return Ok(());
    };
    Err(DriverError::precondition(format!("volume {}", Shown(volume.id())), used))
}
