//! The life of a volume, with a snapshot, a group snapshot and copies, if the driver has them.

use csi_harness::prelude::*;
use csi_model::call::{Call, CreateSpec, GroupCall, Size, SnapshotCall, VolumeCall};
use csi_model::call_context::DriverProfile;
use csi_model::names::{Id, Name};

use crate::lifecycle::VolumeLifecycle;
use crate::orchestrator::probed_driver::ProbedDriver;

const VOLUME: Id = Name::volume(0).id(0);
const COPY: Name = Name::volume(1);
const OTHER: Name = Name::volume(2);
const SNAPSHOT: Name = Name::snapshot(0);
const GROUP: Name = Name::group(0);

/// Everything that happens to a volume, there and back.
#[derive(Debug)]
pub(super) struct Path<'a> {
    profile: &'a DriverProfile,
    lifecycle: VolumeLifecycle,
}

impl<'a> Path<'a> {
    pub(super) fn new(probed: &'a ProbedDriver) -> Path<'a> {
        let profile = &probed.profile;
        Path { profile, lifecycle: VolumeLifecycle::new(profile, probed.usage, VOLUME) }
    }

    fn has(&self, capability: Capability) -> bool {
        self.profile.has(capability)
    }

    fn has_node(&self) -> bool {
        self.profile.nodes > 0
    }

    /// The calls that use a volume, in their order.
    pub(super) fn forth(&self) -> Vec<Call> {
        let mut calls = self.lifecycle.setup();
        calls.insert(1, self.validate());
        if self.has_node() && self.has(Capability::GetVolumeStats) {
            let VolumeLifecycle { volume, node, target, .. } = self.lifecycle;
            calls.push(VolumeCall::NodeGetVolumeStats { volume, node, target }.into());
        }
        calls.extend(self.copies().into_iter().map(|(forth, _)| forth));
        calls.extend(self.lists());
        calls
    }

    /// The calls that make a volume which is attached for reading only, if the driver supports that.
    pub(super) fn readonly(&self) -> Vec<Call> {
        let mut calls = vec![self.create()];
        if self.has_node() && self.has(Capability::PublishReadonly) {
            let VolumeLifecycle { volume, node, .. } = self.lifecycle;
            let (usage, readonly) = (self.lifecycle.wanted.usage, true);
            calls.push(VolumeCall::ControllerPublishVolume { volume, node, usage, readonly }.into());
        }
        calls
    }

    /// The calls up to a volume that was published for writing, so that there is a file system on it, and the one that then
    /// publishes it for reading only. `None` without nodes.
    pub(super) fn published_readonly(&self) -> Option<(Vec<Call>, Call)> {
        if !self.has_node() {
            return None;
        }
        let VolumeLifecycle { volume, node, target, .. } = self.lifecycle;
        let usage = self.lifecycle.wanted.usage;
        let mut calls = self.lifecycle.setup();
        calls.push(VolumeCall::NodeUnpublishVolume { volume, node, target }.into());
        let readonly = true;
        Some((calls, VolumeCall::NodePublishVolume { volume, node, target, usage, readonly }.into()))
    }

    /// For each step to a workload: the calls before it, the step, the call that undoes it, and the calls after it and
    /// back.
    pub(super) fn steps_with_their_places(&self) -> Vec<(Vec<Call>, Call, Call, Vec<Call>)> {
        let (steps, setup) = (self.lifecycle.steps(), self.lifecycle.setup());
        let place = |at: usize| {
            let (call, undo) = steps[at].clone();
            let after = setup[at + 1..].iter().cloned().chain(self.lifecycle.teardown());
            (setup[..at].to_vec(), call, undo, after.collect())
        };
        (1..steps.len()).map(place).collect()
    }

    pub(super) fn back(&self) -> Vec<Call> {
        let copies = self.copies().into_iter().rev().map(|(_, back)| back);
        copies.chain(self.lifecycle.teardown()).collect()
    }

    pub(super) fn lists(&self) -> Vec<Call> {
        self.profile.lists().map(Call::List).collect()
    }

    fn create(&self) -> Call {
        VolumeCall::CreateVolume { name: VOLUME.name, wanted: self.lifecycle.wanted.clone() }.into()
    }

    fn validate(&self) -> Call {
        VolumeCall::ValidateVolumeCapabilities { volume: VOLUME, usage: self.lifecycle.wanted.usage }.into()
    }

    fn delete(&self) -> Call {
        VolumeCall::DeleteVolume { volume: VOLUME }.into()
    }

    /// The copies of the volume, each with the call that deletes it.
    fn copies(&self) -> Vec<(Call, Call)> {
        let copy_of = |source| CreateSpec { source: Some(source), ..self.lifecycle.wanted.clone() };
        let copy = |name: Name, source| -> (Call, Call) {
            (
                VolumeCall::CreateVolume { name, wanted: copy_of(source) }.into(),
                VolumeCall::DeleteVolume { volume: name.id(0) }.into(),
            )
        };
        let mut copies = Vec::new();
        if self.has(Capability::CreateDeleteSnapshot) {
            let snapshot = SNAPSHOT.id(0);
            copies.push((
                SnapshotCall::CreateSnapshot { name: SNAPSHOT, volume: VOLUME }.into(),
                SnapshotCall::DeleteSnapshot { snapshot }.into(),
            ));
            copies.push(copy(COPY, snapshot));
        }
        if self.has(Capability::CloneVolume) {
            copies.push(copy(OTHER, VOLUME));
        }
        if self.has(Capability::CreateDeleteGetVolumeGroupSnapshot) {
            let group = GROUP.id(0);
            copies.push((
                GroupCall::CreateVolumeGroupSnapshot { name: GROUP, volumes: vec![VOLUME] }.into(),
                GroupCall::DeleteVolumeGroupSnapshot { group }.into(),
            ));
        }
        copies
    }

    /// For each point of the way to a workload and back, and each call that an orchestrator may make there out of turn:
    /// the calls before, the call, and the calls after.
    pub(super) fn with_calls_out_of_turn(&self) -> Vec<(Vec<Call>, Call, Vec<Call>)> {
        // The steps behind the creation of the volume.
        let steps = self.lifecycle.steps().split_off(1);
        let forth = self.lifecycle.setup();
        let way: Vec<Call> = forth.iter().cloned().chain(self.lifecycle.teardown()).collect();
        let mut all = Vec::new();
        for at in 1..=way.len() {
            let (before, after) = way.split_at(at);
            // The number of steps done here: the first call makes the volume, the last one deletes it.
            let done = if at <= forth.len() { at - 1 } else { way.len() - 1 - at.min(way.len() - 1) };
            let is_there = at < way.len();
            let mut calls: Vec<Call> = vec![self.validate()];
            if is_there {
                calls.push(self.create());
                calls.extend(steps[..done].iter().map(|step| step.0.clone()));
            }
            // Steps that are not done, or no longer, are undone.
            calls.extend(steps[done..].iter().map(|step| step.1.clone()));
            calls.extend(self.lists());
            all.extend(calls.into_iter().map(|call| (before.to_vec(), call, after.to_vec())));
            // Further on, deletion could leave a node with what cannot be undone any more.
            let attached_only = done == 1 && self.has(Capability::PublishUnpublishVolume);
            if done == 0 {
                all.push((before.to_vec(), self.delete(), Vec::new()));
            } else if attached_only {
                all.push((before.to_vec(), self.delete(), after.to_vec()));
            }
        }
        all
    }

    /// A call that cannot be granted after this one.
    pub(super) fn contradicting(&self, call: &Call) -> Option<Call> {
        let larger = Size::at_least(self.profile.larger_bytes);
        match call {
            Call::Volume(VolumeCall::CreateVolume { name, wanted })
                if wanted.source.is_none() && self.profile.larger_bytes > self.profile.size_bytes =>
            {
                let wanted = CreateSpec { size: larger, ..wanted.clone() };
                Some(VolumeCall::CreateVolume { name: *name, wanted }.into())
            }
            Call::Volume(VolumeCall::CreateVolume { name, wanted }) if wanted.source.is_some() => {
                let wanted = CreateSpec { source: None, ..wanted.clone() };
                Some(VolumeCall::CreateVolume { name: *name, wanted }.into())
            }
            Call::Volume(VolumeCall::ControllerPublishVolume { volume, node, usage, readonly })
                if self.has(Capability::PublishReadonly) =>
            {
                let (volume, node, usage, readonly) = (*volume, *node, *usage, !readonly);
                Some(VolumeCall::ControllerPublishVolume { volume, node, usage, readonly }.into())
            }
            Call::Volume(VolumeCall::NodePublishVolume { volume, node, target, usage, readonly }) => {
                let (volume, node, target, usage, readonly) = (*volume, *node, *target, *usage, !readonly);
                Some(VolumeCall::NodePublishVolume { volume, node, target, usage, readonly }.into())
            }
            _ => None,
        }
    }
}
