//! The life cycles of a load, and the callers that make them.

mod calls;

use std::sync::Arc;

use csi_harness::client::session::CallObserver;
use csi_harness::config::AccessType;
use csi_harness::prelude::*;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use csi_proto::Service;
use serde::Deserialize;

use crate::recorder::{CallerClock, Recorder};

/// The purpose of a life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cycle {
    /// A volume is created, attached, staged, published and looked at, and all of that is undone.
    Pod,
    /// A volume is created, looked at and deleted.
    Volume,
    /// A volume that stays is attached, staged and published, and that is undone.
    Attachment,
    /// The statistics of a published volume are read.
    Statistics,
    /// All volumes are listed.
    List,
    /// A snapshot of a volume that stays is created and deleted.
    Snapshot,
    /// A volume is created from a snapshot, and another one from a snapshot of that volume.
    Restore,
    /// A published volume of its own is expanded, and used with its new size.
    Expansion,
    /// A group snapshot of two volumes that stay is created and deleted.
    Group,
    /// The life cycle of a pod with a block volume.
    Block,
    /// A malformed call is rejected.
    Rejection,
}

impl Cycle {
    pub const ALL: [Cycle; 11] = {
        use Cycle::*;
        [Pod, Volume, Attachment, Statistics, List, Snapshot, Restore, Expansion, Group, Block, Rejection]
    };

    /// All of them, those that make the fewest calls first.
    pub(crate) const BY_CALLS: [Cycle; 11] = {
        use Cycle::*;
        [Rejection, List, Statistics, Volume, Snapshot, Group, Attachment, Pod, Block, Expansion, Restore]
    };

    /// Its name in a workload.
    pub fn name(self) -> &'static str {
        match self {
            Cycle::Pod => "pod",
            Cycle::Volume => "volume",
            Cycle::Attachment => "attachment",
            Cycle::Statistics => "statistics",
            Cycle::List => "list",
            Cycle::Snapshot => "snapshot",
            Cycle::Restore => "restore",
            Cycle::Expansion => "expansion",
            Cycle::Group => "group",
            Cycle::Block => "block",
            Cycle::Rejection => "rejection",
        }
    }

    /// Returns true if the driver has calls for it.
    pub(crate) fn is_offered(self, cx: &Cx) -> bool {
        let has = |capability| cx.target().capabilities().has(capability);
        let has_node = cx.target().serves(Service::Node);
        match self {
            Cycle::Pod | Cycle::Volume | Cycle::Rejection => true,
            Cycle::Attachment => has_node,
            Cycle::Statistics => has_node && has(Capability::GetVolumeStats),
            Cycle::List => has(Capability::ListVolumes),
            Cycle::Snapshot | Cycle::Restore => has(Capability::CreateDeleteSnapshot),
            Cycle::Expansion => {
                has_node && (has(Capability::ExpandVolume) || has(Capability::NodeExpandVolume))
            }
            Cycle::Group => has(Capability::CreateDeleteGetVolumeGroupSnapshot),
            Cycle::Block => has_node && cx.config().access_types.contains(&AccessType::Block),
        }
    }
}

/// A volume that the load holds.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) volume: TrackedVolume,
    /// The number of the last write to it.
    written: Option<u32>,
    /// True after an operation on it that did not end well: what else goes wrong with it proves nothing.
    pub(crate) is_doubtful: bool,
    /// The operation that did not end well.
    pub(crate) failed_at: Option<Operation>,
}

/// Someone who makes one life cycle after another.
#[derive(Debug)]
pub(crate) struct Caller {
    /// Its calls are measured, and what they make is undone with its scope.
    pub(crate) cx: Cx,
    /// Its calls without the measurement.
    unmeasured: Cx,
    clock: Arc<CallerClock>,
    pub(crate) rng: fastrand::Rng,
}

impl Caller {
    pub(crate) fn new(cx: &Cx, number: usize, recorder: &Arc<Recorder>) -> Caller {
        let clock = Arc::new(CallerClock::new(recorder.clone()));
        let unmeasured = cx.worker(number).scope();
        let observer: Arc<dyn CallObserver> = clock.clone();
        Caller { cx: unmeasured.observed_by(observer), unmeasured, clock, rng: cx.rng() }
    }

    /// Undoes what a life cycle has left. What cannot be undone stays in the ledger, and is out of the way of the next life cycle.
    async fn tidy(&mut self) {
        if self.unmeasured.undo_best_effort().await.is_some() {
            self.unmeasured = self.unmeasured.scope();
            let observer: Arc<dyn CallObserver> = self.clock.clone();
            self.cx = self.unmeasured.observed_by(observer);
        }
    }
}
