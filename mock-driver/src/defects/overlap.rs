//! What goes wrong when calls overlap or are given up, or when another caller connects.

use std::time::Duration;

use csi_proto::ConnectionNumber;
use csi_proto::v1::{CreateVolumeRequest, NodeStageVolumeRequest, NodeUnstageVolumeRequest};

use super::GIB;
use super::create_volume::leave_behind;
use crate::call::Call;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{State, Volume};

/// What a driver with a race saw before a call was held, and goes by when the call goes on.
#[derive(Default)]
pub(crate) struct Glance {
    state: Option<State>,
    free_name: Option<String>,
    volume: Option<Volume>,
    made: Option<u64>,
}

impl Glance {
    /// Looks around. Of drivers without such a defect, or RPCs without one, nothing is seen.
    pub(crate) fn take<R: Call>(driver: &MockDriver, request: &R) -> Self {
        match (R::METHOD, request.locks()) {
            ("CreateVolume", Some((_, name))) => Self::before_creation(driver, name),
            _ => Self::default(),
        }
    }

    fn before_creation(driver: &MockDriver, name: &str) -> Self {
        let has = |defect| driver.has(defect);
        let state = driver.state();
        let known = state.volumes.named(name);
        Self {
            state: has(Defect::CreateVolumeLosesUpdates).then(|| state.clone()),
            free_name: (has(Defect::CreateVolumeRacesOnName) && known.is_none()).then(|| name.to_owned()),
            volume: known.filter(|_| has(Defect::CreateVolumeRevivesDeleted)).cloned(),
            made: has(Defect::CreateVolumeCountsOverlapsTwice).then(|| state.volumes.made()),
        }
    }

    /// Has the change start from what was seen, and not from what is.
    pub(crate) fn impose(&self, state: &mut State) {
        if let Some(seen) = &self.state {
            *state = seen.clone();
        }
        if let Some(name) = &self.free_name {
            state.volumes.forget_name(name);
        }
        if let Some(seen) = &self.volume
            && state.volumes.get(&seen.id).is_none()
        {
            state.volumes.insert_unfindable(seen.clone());
        }
    }

    /// What is done again once the change is there.
    pub(crate) fn repeat(&self, state: &mut State) {
        let overlapped = self.made.is_some_and(|made| state.volumes.made() > made + 1);
        if overlapped && let Some(youngest) = state.volumes.values().next_back() {
            let (zone, bytes) = (youngest.zone, youngest.capacity_bytes);
            state.take_storage(zone, bytes);
        }
    }
}

/// Crashes when anybody connects after the first one, where that is the defect.
pub(crate) fn serve_first_connection(
    driver: &MockDriver,
    connection: Option<ConnectionNumber>,
    method: &str,
) {
    let Some(connection) = connection.filter(|_| driver.has(Defect::EndsWithFirstConnection)) else { return };
    let is_first = {
        let mut first = driver.first_connections.lock();
        *first.entry(driver.this_node().id.clone()).or_insert(connection) == connection
    };
    if !is_first {
        driver.crash(method);
    }
}

/// A call to CreateVolume that may be given up.
pub(super) struct GivenUp<'a> {
    driver: &'a MockDriver,
    capacity_bytes: i64,
    answered: bool,
}

impl<'a> GivenUp<'a> {
    pub(super) fn watch(driver: &'a MockDriver, request: &CreateVolumeRequest) -> Self {
        let required_bytes = request.capacity_range.map(|range| range.required_bytes);
        let capacity_bytes = required_bytes.filter(|bytes| *bytes > 0).unwrap_or(GIB);
        Self { driver, capacity_bytes, answered: false }
    }

    pub(super) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        if self.driver.has(Defect::CreateVolumeDoublesAfterTimeout) {
            leave_behind(&mut self.driver.state(), None, self.capacity_bytes);
        }
        if self.driver.has(Defect::CreateVolumeLeaksAfterTimeout) {
            self.driver.state().take_storage(0, self.capacity_bytes);
        }
    }
}

/// Crashes where a volume is being made, where that is the defect.
pub(super) fn list_beside_creation(driver: &MockDriver) {
    let is_made = |object: &String| object.starts_with("volume named ");
    if driver.has(Defect::ListVolumesCrashesOnOverlap) && driver.busy.lock().keys().any(is_made) {
        driver.crash("ListVolumes");
    }
}

/// How late a call that was given up begins, where threads decide that: longer than the one after it takes.
const BEGINS_AFTER: Duration = Duration::from_millis(10);

/// A call to NodeUnstageVolume that goes on when it is given up.
pub(super) struct Unstaging<'a> {
    driver: &'a MockDriver,
    request: &'a NodeUnstageVolumeRequest,
    answered: bool,
}

impl<'a> Unstaging<'a> {
    pub(super) fn watch(driver: &'a MockDriver, request: &'a NodeUnstageVolumeRequest) -> Self {
        Self { driver, request, answered: false }
    }

    pub(super) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Unstaging<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        if self.driver.is(Quirk::GivenUpUnstagingLate) {
            begin_late(self.driver, self.request);
        }
        if self.driver.has(Defect::NodeUnstageGoesOn) {
            self.driver.going_on.lock().insert(self.request.staging_target_path.clone());
        }
    }
}

/// Unstages, as soon as a thread comes to it; nobody is told.
fn begin_late(driver: &MockDriver, request: &NodeUnstageVolumeRequest) {
    let (shared, node, request) = (driver.shared(), driver.this_node().clone(), request.clone());
    tokio::spawn(async move {
        tokio::time::sleep(BEGINS_AFTER).await;
        if let Some(volume) = shared.state().volumes.get_mut(&request.volume_id) {
            let here = volume.on_mut(&node);
            if here.published.is_empty() {
                here.staged.remove(&request.staging_target_path);
            }
        }
    });
}

/// Ends an unstaging that goes on, now that the volume was staged again.
pub(super) fn end_unstaging(driver: &MockDriver, asked: &NodeStageVolumeRequest) {
    let path = &asked.staging_target_path;
    if driver.going_on.lock().remove(path)
        && let Some(volume) = driver.state().volumes.get_mut(&asked.volume_id)
    {
        volume.on_mut(driver.this_node()).staged.remove(path);
    }
}
