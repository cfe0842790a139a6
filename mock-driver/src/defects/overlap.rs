//! Defects that show when calls overlap or are abandoned, or when a second client connects.

use std::time::Duration;

use csi_proto::ConnectionNumber;
use csi_proto::v1::volume_content_source::Type as SourceType;
use csi_proto::v1::{
    ControllerPublishVolumeRequest, CreateVolumeRequest, CreateVolumeResponse, NodeStageVolumeRequest,
    NodeUnstageVolumeRequest,
};
use tonic::{Code, Status};

use super::GIB;
use super::leave_behind;
use crate::call::Call;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{State, Volume};

/// The state that a driver with a race has read before a call was held, and that it uses when the call continues.
#[derive(Default)]
pub(crate) struct StaleRead {
    state: Option<State>,
    free_name: Option<String>,
    free_snapshot_name: Option<String>,
    volume: Option<Volume>,
    made: Option<u64>,
}

impl StaleRead {
    /// Reads the state that a defect of this RPC uses later; reads nothing without such a defect.
    pub(crate) fn take<R: Call>(driver: &MockDriver, request: &R) -> Self {
        match (R::METHOD, request.locks()) {
            ("CreateVolume", Some((_, name))) => Self::of_creation(driver, name),
            ("CreateSnapshot", Some((_, name))) if driver.has(Defect::CreateSnapshotRacesOnName) => {
                let is_free = driver.state().snapshots.named(name).is_none();
                Self { free_snapshot_name: is_free.then(|| name.to_owned()), ..Self::default() }
            }
            _ => Self::default(),
        }
    }

    fn of_creation(driver: &MockDriver, name: &str) -> Self {
        let has = |defect| driver.has(defect);
        let state = driver.state();
        let known = state.volumes.named(name);
        Self {
            state: has(Defect::CreateVolumeLosesUpdates).then(|| state.clone()),
            free_name: (has(Defect::CreateVolumeRacesOnName) && known.is_none()).then(|| name.to_owned()),
            free_snapshot_name: None,
            volume: known.filter(|_| has(Defect::CreateVolumeRevivesDeleted)).cloned(),
            made: has(Defect::CreateVolumeCountsOverlapsTwice).then(|| state.volumes.made()),
        }
    }

    /// Restores what was read, so that the change is based on stale state.
    pub(crate) fn restore(&self, state: &mut State) {
        if let Some(seen) = &self.state {
            *state = seen.clone();
        }
        if let Some(name) = &self.free_name {
            state.volumes.forget_name(name);
        }
        if let Some(name) = &self.free_snapshot_name {
            state.snapshots.forget_name(name);
        }
        if let Some(seen) = &self.volume
            && state.volumes.get(&seen.id).is_none()
        {
            state.volumes.insert_unfindable(seen.clone());
        }
    }

    /// Repeats a part of the change after it is done.
    pub(crate) fn repeat(&self, state: &mut State) {
        let overlapped = self.made.is_some_and(|made| state.volumes.made() > made + 1);
        if overlapped && let Some(youngest) = state.volumes.values().next_back() {
            let (zone, bytes) = (youngest.zone, youngest.capacity_bytes);
            state.take_storage(zone, bytes);
        }
    }
}

/// Crashes on a call from any connection but the first, with the defect that does so.
pub(crate) fn crash_on_second_connection(
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

/// A CreateVolume call. If it is dropped without an answer, its caller has abandoned it.
pub(super) struct Abandoned<'a> {
    driver: &'a MockDriver,
    capacity_bytes: i64,
    /// The name of a volume that is copied from a snapshot.
    copy: Option<&'a str>,
    answered: bool,
}

impl<'a> Abandoned<'a> {
    pub(super) fn watch(driver: &'a MockDriver, request: &'a CreateVolumeRequest) -> Self {
        let required_bytes = request.capacity_range.map(|range| range.required_bytes);
        let capacity_bytes = required_bytes.filter(|bytes| *bytes > 0).unwrap_or(GIB);
        let source = request.volume_content_source.as_ref().and_then(|source| source.r#type.as_ref());
        let is_of_snapshot = |source: &SourceType| match source {
            SourceType::Snapshot(source) => driver.state().snapshots.get(&source.snapshot_id).is_some(),
            SourceType::Volume(_) => false,
        };
        let copy = source.filter(|source| is_of_snapshot(source)).map(|_| request.name.as_str());
        Self { driver, capacity_bytes, copy, answered: false }
    }

    pub(super) fn answered(mut self, answer: &Result<CreateVolumeResponse, Status>) {
        self.answered = true;
        let is_not_found = answer.as_ref().is_err_and(|status| status.code() == Code::NotFound);
        if self.driver.has(Defect::CreateVolumeKeepsCopyOfDeleted)
            && let Some(name) = self.copy.filter(|_| is_not_found)
        {
            leave_behind(self.driver, &mut self.driver.state(), Some(name.to_owned()), self.capacity_bytes);
        }
    }
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        if self.driver.has(Defect::CreateVolumeDoublesAfterTimeout) {
            leave_behind(self.driver, &mut self.driver.state(), None, self.capacity_bytes);
        }
        if self.driver.has(Defect::CreateVolumeLeaksAfterTimeout) {
            self.driver.state().take_storage(0, self.capacity_bytes);
        }
    }
}

/// Crashes while a volume is being created, with the defect that does so.
pub(super) fn crash_if_creating(driver: &MockDriver) {
    let is_made = |object: &String| object.starts_with("volume named ");
    if driver.has(Defect::ListVolumesCrashesOnOverlap) && driver.busy.lock().keys().any(is_made) {
        driver.crash("ListVolumes");
    }
}

/// The delay of an abandoned call that starts late. It is longer than the next call takes.
const LATE_UNSTAGING: Duration = Duration::from_millis(10);

/// A call under way. If it is dropped without an answer, its caller has given it up, and this follows.
pub(super) struct IfGivenUp<F: FnMut()> {
    then: F,
    answered: bool,
}

impl<F: FnMut()> IfGivenUp<F> {
    pub(super) fn new(then: F) -> Self {
        Self { then, answered: false }
    }

    pub(super) fn answered(mut self) {
        self.answered = true;
    }
}

impl<F: FnMut()> Drop for IfGivenUp<F> {
    fn drop(&mut self) {
        if !self.answered {
            (self.then)();
        }
    }
}

/// Continues the attachment of a volume whose caller has given up.
pub(super) fn attaching_given_up(driver: &MockDriver, request: &ControllerPublishVolumeRequest) {
    if driver.has(Defect::ControllerPublishRepeatTooEarly) {
        driver.orphaned_attachings.lock().insert(request.volume_id.clone());
    }
}

/// Rejects to stage a volume that is still being attached, once.
pub(super) fn end_attaching(driver: &MockDriver, request: &NodeStageVolumeRequest) -> Result<(), Status> {
    match driver.orphaned_attachings.lock().remove(&request.volume_id) {
        true => Err(Status::internal("the device of the volume does not exist")),
        false => Ok(()),
    }
}

/// Continues the unstaging of a volume whose caller has given up.
pub(super) fn unstaging_given_up(driver: &MockDriver, request: &NodeUnstageVolumeRequest) {
    if driver.is(Quirk::GivenUpUnstagingLate) {
        unstage_late(driver, request);
    }
    if driver.has(Defect::NodeUnstageGoesOn) {
        driver.orphaned_unstagings.lock().insert(request.staging_target_path.clone());
    }
}

/// Unstages the volume a little later.
fn unstage_late(driver: &MockDriver, request: &NodeUnstageVolumeRequest) {
    let (shared, node, request) = (driver.shared(), driver.this_node().clone(), request.clone());
    tokio::spawn(async move {
        tokio::time::sleep(LATE_UNSTAGING).await;
        if let Some(volume) = shared.state().volumes.get_mut(&request.volume_id) {
            let here = volume.on_mut(&node);
            if here.published.is_empty() {
                here.staged.remove(&request.staging_target_path);
            }
        }
    });
}

/// Finishes an abandoned unstaging, now that the volume was staged again.
pub(super) fn end_unstaging(driver: &MockDriver, original: &NodeStageVolumeRequest) {
    let path = &original.staging_target_path;
    if driver.orphaned_unstagings.lock().remove(path)
        && let Some(volume) = driver.state().volumes.get_mut(&original.volume_id)
    {
        volume.on_mut(driver.this_node()).staged.remove(path);
    }
}
