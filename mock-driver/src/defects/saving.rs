//! What goes wrong when the state is written, and shows after a restart.

use std::time::Duration;

use tonic::Status;

use crate::defect::Defect;
use crate::driver::{MockDriver, now_ms};

/// How long a change that was answered for is not written.
const LATE: Duration = Duration::from_secs(1);
/// How long the state is in a half-written file.
const HALF_WRITTEN: Duration = Duration::from_millis(20);

/// Defects with a way of saving of their own.
pub(crate) const SAVING: [Defect; 3] =
    [Defect::RestartForgetsLastWrite, Defect::RestartTakesTruncatedForEmpty, Defect::SavesAfterAnswer];

pub(crate) fn saves_otherwise(driver: &MockDriver) -> bool {
    SAVING.iter().any(|defect| driver.has(*defect))
}

/// What is lost of the objects when the driver starts again, as defects have it.
pub(crate) fn forget_at_restart(driver: &MockDriver) {
    const HOUR_MS: u64 = 3_600_000;
    let mut state = driver.state();
    for volume in state.volumes.values_mut() {
        if driver.has(Defect::RestartForgetsSizes) {
            volume.capacity_bytes = 0;
        }
        if driver.has(Defect::RestartForgetsSources) {
            volume.source = None;
        }
    }
    for snapshot in state.snapshots.values_mut() {
        if driver.has(Defect::RestartForgetsSnapshotSizes) {
            snapshot.size_bytes = 0;
        }
        if driver.has(Defect::RestartDatesSnapshotsAnew) {
            snapshot.created_ms = now_ms();
        }
        if driver.has(Defect::RestartShiftsCreationTimes) {
            snapshot.created_ms += HOUR_MS;
        }
    }
}

/// Saves as the defect does, after a change.
pub(crate) async fn save_otherwise(driver: &MockDriver) -> Result<(), Status> {
    if driver.has(Defect::SavesAfterAnswer) {
        let shared = driver.shared();
        tokio::spawn(async move {
            tokio::time::sleep(LATE).await;
            // The call was answered long ago, so there is nobody to tell.
            _ = shared.save(&shared.state());
        });
    }
    if driver.has(Defect::RestartTakesTruncatedForEmpty) {
        driver.store.truncate().map_err(|error| Status::internal(error.to_string()))?;
        tokio::time::sleep(HALF_WRITTEN).await;
        driver.save(&driver.state())?;
    }
    Ok(())
}
