//! A volume in use while the driver ends.

use csi_harness::prelude::*;

use crate::model::answer::Answer;
use crate::model::call::{Call, Size, VolumeCall, Wanted};
use crate::model::names::{Id, Name, Node, Slot, Stamp, Target};
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::record::Recorder;

/// Beyond the names that the load has.
const VOLUME: Id = Name::volume(100).id(0);
const NODE: Node = Node(0);
const TARGET: Target = Target(0);
/// What the workload has written.
const STAMP: Stamp = Stamp(7);
/// Times that a call is made while the driver says "not now".
const TRIES_MAX: u32 = 20;

pub(super) struct Used<'a> {
    probed: &'a ProbedDriver,
    recorder: &'a Recorder,
}

impl<'a> Used<'a> {
    /// Makes a volume and puts it to use. `None` if processes serve its mounts, which may end with the driver: then it is
    /// given back at once.
    pub(super) async fn begin(
        probed: &'a ProbedDriver,
        recorder: &'a Recorder,
    ) -> CheckResult<Option<Used<'a>>> {
        let used = Used { probed, recorder };
        used.forth().await?;
        if recorder.orchestrator().is_served_by_a_process(VOLUME, NODE, TARGET) {
            used.back().await?;
            return Ok(None);
        }
        Ok(Some(used))
    }

    async fn forth(&self) -> CheckResult {
        self.make_all(self.steps()).await?;
        if self.probed.has_workloads {
            let (volume, node, target, slot, stamp) = (VOLUME, NODE, TARGET, Slot(0), STAMP);
            self.make(VolumeCall::Write { volume, node, target, slot, stamp }.into()).await?;
        }
        Ok(())
    }

    /// Does what parts of an orchestrator do when they are back: everything again.
    pub(super) async fn again(&self) -> CheckResult {
        self.make_all(self.steps()).await?;
        if self.probed.has_workloads {
            let (volume, node, target) = (VOLUME, NODE, TARGET);
            self.make(VolumeCall::Read { volume, node, target }.into()).await?;
        }
        Ok(())
    }

    /// Gives the volume back.
    pub(super) async fn back(&self) -> CheckResult {
        self.make_all(self.steps_back()).await
    }

    async fn make_all(&self, calls: Vec<Call>) -> CheckResult {
        for call in calls {
            self.make(call).await?;
        }
        Ok(())
    }

    async fn make(&self, call: Call) -> CheckResult {
        for _ in 0..TRIES_MAX {
            match self.recorder.make(0, call.clone()).await?.map(|made| made.answer) {
                Some(answer @ (Answer::Refused(_) | Answer::Unknown)) if answer.leaves_open() => {
                    self.recorder.pause().await;
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn steps(&self) -> Vec<Call> {
        let (volume, node, target, usage, readonly) = (VOLUME, NODE, TARGET, self.probed.usage, false);
        let profile = &self.probed.profile;
        let wanted = Wanted::of(Size::at_least(profile.size_bytes), usage);
        let mut steps: Vec<Call> = vec![VolumeCall::CreateVolume { name: VOLUME.name, wanted }.into()];
        if profile.nodes == 0 {
            return steps;
        }
        if profile.has(Capability::PublishUnpublishVolume) {
            steps.push(VolumeCall::ControllerPublishVolume { volume, node, usage, readonly }.into());
        }
        if profile.has(Capability::StageUnstageVolume) {
            steps.push(VolumeCall::NodeStageVolume { volume, node, usage }.into());
        }
        steps.push(VolumeCall::NodePublishVolume { volume, node, target, usage, readonly }.into());
        steps
    }

    fn steps_back(&self) -> Vec<Call> {
        let (volume, node, target) = (VOLUME, NODE, TARGET);
        let profile = &self.probed.profile;
        let mut back: Vec<Call> = Vec::new();
        if profile.nodes > 0 {
            back.push(VolumeCall::NodeUnpublishVolume { volume, node, target }.into());
            if profile.has(Capability::StageUnstageVolume) {
                back.push(VolumeCall::NodeUnstageVolume { volume, node }.into());
            }
            if profile.has(Capability::PublishUnpublishVolume) {
                back.push(VolumeCall::ControllerUnpublishVolume { volume, node: Some(node) }.into());
            }
        }
        back.push(VolumeCall::DeleteVolume { volume }.into());
        back
    }
}
