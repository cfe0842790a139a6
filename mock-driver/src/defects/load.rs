//! Defects that show only with many volumes, many callers, or after many calls.

use std::time::Duration;

use csi_proto::v1::CreateVolumeResponse;
use tonic::Status;

use crate::defect::Defect;
use crate::driver::MockDriver;

/// The number of volumes at which a node is full, although it names no limit.
pub(crate) const HIDDEN_LIMIT: u32 = 200;
/// One in this many calls stalls.
const STALLS_EVERY: u32 = 100;
const STALL: Duration = Duration::from_secs(2);
/// The time after the start of the driver during which calls are fast. A time rather than a number of calls, so that a slow machine, which
/// makes fewer calls, does not hide the defect.
const FAST: Duration = Duration::from_secs(11);
const SLOWER: Duration = Duration::from_millis(250);
/// The part of the time of a list that each pair of volumes takes.
const OF_A_PAIR: Duration = Duration::from_micros(4);
/// Volumes that are made at the same time, the forgotten one included, and one in how many is forgotten then.
const FORGETS_BESIDE: usize = 4;
const FORGETS_EVERY: u32 = 3;
/// The time during which other volumes count as made at the same time.
const OVERLAP: Duration = Duration::from_millis(2);

/// The last digit of the ids of volumes that take long to stage, and the time that it takes.
const SLOW_ID: char = '0';
const SLOW_STAGING: Duration = Duration::from_millis(600);

/// Calls after which a driver with a counter that ends rejects each further one.
const NAMES_MAX: u32 = 5_000;
const PUBLICATIONS_MAX: u32 = 800;

/// Rejects calls of a driver that can only make so many of them.
pub(crate) fn end_of_calls(driver: &MockDriver, method: &str) -> Result<(), Status> {
    let (defect, max, what) = match method {
        "CreateVolume" => (Defect::CreateVolumeNamesRunOut, NAMES_MAX, "names"),
        "NodePublishVolume" => (Defect::NodePublishEnds, PUBLICATIONS_MAX, "publications"),
        _ => return Ok(()),
    };
    match driver.has(defect) && driver.next_number() >= max {
        true => Err(Status::internal(format!("the table of {what} is full"))),
        false => Ok(()),
    }
}

/// Waits as long as a driver with such a defect takes longer. `object` is the name or id of the object that the call changes.
pub(crate) async fn wait_under_load(driver: &MockDriver, method: &str, object: Option<&str>) {
    if let Some(object) = object
        && driver.has(Defect::OneLockForAllVolumes)
    {
        let _held = driver.one_lock.lock().await;
        if method == "NodeStageVolume" && object.ends_with(SLOW_ID) {
            tokio::time::sleep(SLOW_STAGING).await;
        }
        return;
    }
    let longer = match method {
        "CreateVolume" if driver.has(Defect::CreateVolumeStalls) => {
            let stalls = driver.next_number() % STALLS_EVERY == STALLS_EVERY - 1;
            if stalls { STALL } else { Duration::ZERO }
        }
        "NodePublishVolume" if driver.has(Defect::NodePublishSlowsDown) => {
            if driver.started.elapsed() < FAST { Duration::ZERO } else { SLOWER }
        }
        "ListVolumes" if driver.has(Defect::ListVolumesQuadratic) => {
            let volumes = u32::try_from(driver.state().volumes.len()).unwrap_or(u32::MAX);
            OF_A_PAIR.saturating_mul(volumes.saturating_mul(volumes))
        }
        _ => return,
    };
    tokio::time::sleep(longer).await;
}

/// Forgets a volume that was made beside others, now and then.
pub(crate) async fn forget_under_load(driver: &MockDriver, response: &CreateVolumeResponse) {
    if !driver.has(Defect::CreateVolumeForgetsUnderLoad) {
        return;
    }
    tokio::time::sleep(OVERLAP).await;
    let is_made = |object: &&String| object.starts_with("volume named ");
    let beside = driver.busy.lock().keys().filter(is_made).count();
    if beside >= FORGETS_BESIDE
        && driver.next_number() % FORGETS_EVERY == FORGETS_EVERY - 1
        && let Some(volume) = &response.volume
    {
        driver.state().volumes.remove(&volume.volume_id);
    }
}
