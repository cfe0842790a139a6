//! A volume in use while the driver ends.

use csi_harness::prelude::*;
use csi_model::call::{Call, SnapshotCall, VolumeCall};
use csi_model::names::{Id, Name, Slot, Stamp};

use crate::lifecycle::VolumeLifecycle;
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::record::Recorder;

/// Beyond the names that the load has.
const VOLUME: Id = Name::volume(100).id(0);
const SNAPSHOT: Name = Name::snapshot(100);
/// The stamp of the workload's write.
const STAMP: Stamp = Stamp(7);

pub(super) struct VolumeInUse<'a> {
    probed: &'a ProbedDriver,
    recorder: &'a Recorder,
    lifecycle: VolumeLifecycle,
}

impl<'a> VolumeInUse<'a> {
    /// Makes a volume and puts it to use. `None` if processes serve its mounts, which may end with the driver: then it is
    /// given back at once.
    pub(super) async fn begin(
        probed: &'a ProbedDriver,
        recorder: &'a Recorder,
    ) -> CheckResult<Option<VolumeInUse<'a>>> {
        let lifecycle = VolumeLifecycle::new(&probed.profile, probed.usage, VOLUME);
        let used = VolumeInUse { probed, recorder, lifecycle };
        used.forth().await?;
        if recorder.orchestrator().is_served_by_a_process(VOLUME, used.lifecycle.node, used.lifecycle.target)
        {
            used.back().await?;
            return Ok(None);
        }
        Ok(Some(used))
    }

    async fn forth(&self) -> CheckResult {
        self.make_all(self.lifecycle.setup()).await?;
        if self.probed.has_workloads {
            let VolumeLifecycle { volume, node, target, .. } = self.lifecycle;
            let (slot, stamp) = (Slot(0), STAMP);
            self.make(VolumeCall::Write { volume, node, target, slot, stamp }.into()).await?;
        }
        self.take_snapshot().await
    }

    /// Takes a snapshot, or asks again for the one that was taken.
    async fn take_snapshot(&self) -> CheckResult {
        if !self.probed.profile.has(Capability::CreateDeleteSnapshot) {
            return Ok(());
        }
        self.make(SnapshotCall::CreateSnapshot { name: SNAPSHOT, volume: VOLUME }.into()).await
    }

    /// Does what parts of an orchestrator do when they are back: everything again.
    pub(super) async fn again(&self) -> CheckResult {
        self.make_all(self.lifecycle.setup()).await?;
        if self.probed.has_workloads {
            let VolumeLifecycle { volume, node, target, .. } = self.lifecycle;
            self.make(VolumeCall::Read { volume, node, target }.into()).await?;
        }
        // Every run asks again, whatever the load has asked for: a driver that does not keep a part of its answer shows that each time.
        self.take_snapshot().await
    }

    /// Deletes the snapshot, and gives the volume back.
    pub(super) async fn back(&self) -> CheckResult {
        for snapshot in self.recorder.orchestrator().ids(SNAPSHOT) {
            self.make(SnapshotCall::DeleteSnapshot { snapshot }.into()).await?;
        }
        self.make_all(self.lifecycle.teardown()).await
    }

    async fn make_all(&self, calls: Vec<Call>) -> CheckResult {
        for call in calls {
            self.make(call).await?;
        }
        Ok(())
    }

    /// Makes a call. Whether it has to succeed, the model judges afterwards.
    async fn make(&self, call: Call) -> CheckResult {
        self.recorder.make_until_definite(0, call, None).await.map(drop)
    }
}
