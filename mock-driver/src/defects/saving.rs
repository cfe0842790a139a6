//! Defects in saving the state, which show after a restart.

use std::time::Duration;

use tonic::Status;

use crate::defect::Defect;
use crate::driver::{MockDriver, now_ms};

/// The delay between the reply to a change and saving it.
const LATE: Duration = Duration::from_secs(1);
/// The time for which the state file is incomplete.
const HALF_WRITTEN: Duration = Duration::from_millis(20);

/// The defects that change how the state is saved.
pub(crate) const SAVING: [Defect; 3] =
    [Defect::RestartForgetsLastWrite, Defect::RestartTakesTruncatedForEmpty, Defect::SavesAfterAnswer];

pub(crate) fn has_saving_defect(driver: &MockDriver) -> bool {
    SAVING.iter().any(|defect| driver.has(*defect))
}

/// Applies the defects that lose parts of objects at a restart.
pub(crate) fn lose_at_restart(driver: &MockDriver) {
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

/// Saves a change in the way of the defect.
pub(crate) async fn save_with_defect(driver: &MockDriver) -> Result<(), Status> {
    if driver.has(Defect::SavesAfterAnswer) {
        let shared = driver.shared();
        tokio::spawn(async move {
            tokio::time::sleep(LATE).await;
            // The call was already answered, so an error cannot be reported.
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
