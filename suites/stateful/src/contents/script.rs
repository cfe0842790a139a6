//! Builds a sequence step by step, as an orchestrator and its workloads would make it. Steps without their capability are left out.

use csi_harness::prelude::*;
use csi_model::call::{Call, CreateSpec, GroupCall, Size, SnapshotCall, Usage, VolumeCall};
use csi_model::call_context::DriverProfile;
use csi_model::generate::{CopySize, SLOTS};
use csi_model::names::{Id, Name, Node, Slot, Target};
use csi_ops::operation::Operation;

use super::undisturbed::{Changes, NO_CHANGES, Undisturbed};
use crate::how::CallMode;
use crate::lifecycle::VolumeLifecycle;
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::sequence::{PlannedStep, Step};

pub(super) const NODE: Node = Node(0);
/// The place at which a volume is published.
pub(super) const TARGET: Target = Target(0);
/// A second place at which a volume is published.
pub(super) const SECOND: Target = Target(1);
/// The places where workloads write: at the beginning, and at the end of the smallest devices.
const WRITTEN: [Slot; 2] = [Slot(0), Slot(SLOTS - 1)];

/// The driver and the volumes for which sequences are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScriptContext<'a> {
    pub(super) profile: &'a DriverProfile,
    pub(super) usage: Usage,
    pub(super) undisturbed: Undisturbed,
    /// The changes that the driver makes for a copy and before which it can be killed.
    pub(super) changes: &'a Changes,
}

impl<'a> ScriptContext<'a> {
    pub(super) fn new(probed: &'a ProbedDriver, undisturbed: Undisturbed) -> ScriptContext<'a> {
        let (profile, usage) = (&probed.profile, probed.usage);
        ScriptContext { profile, usage, undisturbed, changes: &NO_CHANGES }
    }

    pub(super) fn has(&self, capability: Capability) -> bool {
        self.profile.has(capability)
    }

    pub(super) fn script(&self) -> Script<'_> {
        Script { context: self, items: Vec::new() }
    }
}

/// The n-th volume that is made.
pub(super) fn v(number: u16) -> Id {
    Name::volume(number).id(0)
}

/// The n-th snapshot that is made.
pub(super) fn s(number: u16) -> Id {
    Name::snapshot(number).id(0)
}

/// A sequence that is being written down.
#[derive(Clone, Debug)]
pub(super) struct Script<'a> {
    context: &'a ScriptContext<'a>,
    items: Vec<PlannedStep>,
}

impl Script<'_> {
    pub(super) fn done(self) -> Vec<PlannedStep> {
        self.items
    }

    pub(super) fn call(mut self, call: impl Into<Call>) -> Self {
        self.items.push(call.into().into());
        self
    }

    pub(super) fn how(mut self, call: impl Into<Call>, how: impl Into<CallMode>) -> Self {
        self.items.push(PlannedStep::Step(Step { call: call.into(), how: how.into() }));
        self
    }

    fn call_if(self, capability: Capability, call: impl Into<Call>) -> Self {
        if self.context.has(capability) { self.call(call) } else { self }
    }

    /// Makes a volume of the usual size.
    pub(super) fn volume(self, volume: Id) -> Self {
        let size = Size::at_least(self.context.profile.size_bytes);
        self.volume_of(volume, size)
    }

    pub(super) fn volume_of(self, volume: Id, size: Size) -> Self {
        let wanted = CreateSpec::of(size, self.context.usage);
        self.call(VolumeCall::CreateVolume { name: volume.name, wanted })
    }

    /// A volume with something in it, which is left published.
    pub(super) fn written(self, volume: Id) -> Self {
        self.volume(volume).used(volume).writes(volume)
    }

    /// A copy, with the room that its source has by then.
    pub(super) fn copy(self, volume: Id, source: Id) -> Self {
        self.copy_with(volume, source, CopySize::AsSource, CallMode::Once)
    }

    pub(super) fn copy_with(mut self, volume: Id, source: Id, room: CopySize, how: CallMode) -> Self {
        self.items.push(PlannedStep::Copy(volume.name, source, room, how));
        self
    }

    /// A copy that its caller does not wait for, and asks for again.
    pub(super) fn copy_twice(self, volume: Id, source: Id, given_up: impl Into<CallMode>) -> Self {
        let given_up = self.copy_with(volume, source, CopySize::AsSource, given_up.into());
        given_up.copy_with(volume, source, CopySize::AsSource, CallMode::Retried)
    }

    pub(super) fn snapshot(self, snapshot: Id, volume: Id) -> Self {
        self.call(SnapshotCall::CreateSnapshot { name: snapshot.name, volume })
    }

    pub(super) fn group(self, group: Id, volumes: &[Id]) -> Self {
        self.call(GroupCall::CreateVolumeGroupSnapshot { name: group.name, volumes: volumes.to_vec() })
    }

    pub(super) fn deleted(self, volume: Id) -> Self {
        self.call(VolumeCall::DeleteVolume { volume })
    }

    pub(super) fn snapshot_deleted(self, snapshot: Id) -> Self {
        self.call(SnapshotCall::DeleteSnapshot { snapshot })
    }

    pub(super) fn attached(self, volume: Id) -> Self {
        self.step(volume, TARGET, Operation::ControllerPublishVolume)
    }

    pub(super) fn staged(self, volume: Id) -> Self {
        self.step(volume, TARGET, Operation::NodeStageVolume)
    }

    pub(super) fn published(self, volume: Id, target: Target) -> Self {
        self.step(volume, target, Operation::NodePublishVolume)
    }

    pub(super) fn unpublished(self, volume: Id, target: Target) -> Self {
        self.step(volume, target, Operation::NodeUnpublishVolume)
    }

    pub(super) fn unstaged(self, volume: Id) -> Self {
        self.step(volume, TARGET, Operation::NodeUnstageVolume)
    }

    pub(super) fn detached(self, volume: Id) -> Self {
        self.step(volume, TARGET, Operation::ControllerUnpublishVolume)
    }

    /// Makes a step of the volume's lifecycle, if the driver has it.
    fn step(self, volume: Id, target: Target, operation: Operation) -> Self {
        let mut lifecycle = VolumeLifecycle::new(self.context.profile, self.context.usage, volume);
        lifecycle.target = target;
        match lifecycle.call(operation) {
            Some(call) => self.call(call),
            None => self,
        }
    }

    /// Makes all steps until a workload has the volume.
    pub(super) fn used(self, volume: Id) -> Self {
        self.attached(volume).staged(volume).published(volume, TARGET)
    }

    /// Undoes all steps once the workload does not need the volume any more.
    pub(super) fn unused(self, volume: Id) -> Self {
        self.unpublished(volume, TARGET).unstaged(volume).detached(volume)
    }

    /// Unmounts a volume behind the driver's back.
    pub(super) fn unmounted(self, volume: Id, target: Option<Target>) -> Self {
        self.call(VolumeCall::Unmount { volume, node: NODE, target })
    }

    pub(super) fn writes(self, volume: Id) -> Self {
        self.writes_at(volume, TARGET)
    }

    pub(super) fn writes_at(mut self, volume: Id, target: Target) -> Self {
        self.items.extend(WRITTEN.map(|slot| PlannedStep::Write(volume, target, slot)));
        self
    }

    /// Writes at the beginning alone, so that the places behind it stay empty.
    pub(super) fn writes_first(mut self, volume: Id) -> Self {
        self.items.push(PlannedStep::Write(volume, TARGET, WRITTEN[0]));
        self
    }

    pub(super) fn reads(self, volume: Id) -> Self {
        self.reads_at(volume, TARGET)
    }

    pub(super) fn reads_at(self, volume: Id, target: Target) -> Self {
        self.call(VolumeCall::Read { volume, node: NODE, target })
    }

    /// Gives a volume to a workload that looks at it, and takes it away.
    pub(super) fn looked_at(self, volume: Id) -> Self {
        self.used(volume).reads(volume).unused(volume)
    }

    pub(super) fn expanded(self, volume: Id, bytes: i64) -> Self {
        let size = Size::at_least(bytes);
        self.call_if(Capability::ExpandVolume, VolumeCall::ControllerExpandVolume { volume, size })
    }
}
