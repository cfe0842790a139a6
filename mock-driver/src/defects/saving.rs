//! Defects in saving the state, which show after a restart.

use std::time::Duration;

use tonic::Status;

use crate::defect::Defect;
use crate::driver::MockDriver;

/// The delay between the reply to a change and saving it.
const LATE: Duration = Duration::from_secs(1);
/// The time for which the state file is incomplete.
const HALF_WRITTEN: Duration = Duration::from_millis(20);

pub(crate) fn has_saving_defect(driver: &MockDriver) -> bool {
    driver.defects.iter().any(|defect| defect.changes_saving())
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
