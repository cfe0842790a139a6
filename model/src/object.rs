//! The functions that sets of possible states need from an object.

use std::fmt;
use std::hash::Hash;

use super::answer::{Answer, GroupResponse, SnapshotResponse, VolumeResponse};
use super::call::{GroupCall, SnapshotCall, VolumeCall};
use super::call_context::CallContext;
use super::conflicts::Footprint;
use super::expectation::{Expectation, Finding};
use super::names::Id;
use super::state::{Group, Snapshot, Volume};
use super::{apply, judge};

/// One certain state of an object that the driver keeps. It judges answers, and yields the next state.
pub trait Object: Clone + fmt::Debug + Default + Eq + Hash {
    /// The calls about it.
    type Call: Clone + fmt::Debug + PartialEq;
    /// The contents of successful answers.
    type Response: Clone + fmt::Debug + PartialEq;

    /// Judges: the answers that the driver may give.
    fn judge(&self, call: &Self::Call, context: &CallContext) -> Expectation;

    /// Judges what is said when the call is done.
    fn weigh(&self, call: &Self::Call, response: &Self::Response, context: &CallContext) -> Finding;

    /// Applies: the state once the call is done. `said` is `None` if the answer was not heard.
    fn apply(&mut self, call: &Self::Call, response: Option<&Self::Response>, context: &CallContext);

    /// Notes that the driver has rejected the call.
    fn note_rejected(&mut self, _call: &Self::Call) {}

    /// The states that this may be when such a call is made, this one among them.
    fn readings(&self, call: &Self::Call) -> Vec<Self>;

    /// Returns true if an OK to this call shows that an earlier one without an answer will not take effect any more:
    /// repeated work is resumed where it stood, and the opposite call undoes it.
    fn settles(call: &Self::Call, earlier: &Self::Call) -> bool;

    /// The parts of the object that the call changes and looks at.
    fn footprint(call: &Self::Call) -> Footprint;

    /// Returns true if the call changes nothing.
    fn only_looks(call: &Self::Call) -> bool {
        Self::footprint(call).only_looks()
    }

    /// Returns true if the order of two calls may make a difference: one of them changes what the other one changes or
    /// looks at.
    fn depends(one: &Self::Call, other: &Self::Call) -> bool {
        Self::footprint(one).depends(Self::footprint(other))
    }

    /// Its id, which is unknown as long as no answer has contained it; `None` if it does not exist.
    fn id(&self) -> Option<Option<Id>>;

    /// Returns true if it exists.
    fn is_there(&self) -> bool {
        self.id().is_some()
    }

    /// True if it exists and is known to have another id than this one.
    fn has_another_id(&self, id: Id) -> bool {
        self.id().flatten().is_some_and(|own| own != id)
    }

    /// The id that an answer gives, of what it makes or finds.
    fn id_given(answer: &Answer<Self::Response>) -> Option<Id>;

    /// The name of the call.
    fn method(call: &Self::Call) -> &'static str;
}

impl Object for Volume {
    type Call = VolumeCall;
    type Response = VolumeResponse;

    fn note_rejected(&mut self, call: &VolumeCall) {
        if let VolumeCall::ControllerExpandVolume { volume, .. } = call
            && let Some(life) = self.find_mut(*volume)
        {
            life.expansion_was_rejected = true;
        }
    }

    fn judge(&self, call: &VolumeCall, context: &CallContext) -> Expectation {
        judge::volume(self, call, context)
    }

    fn weigh(&self, call: &VolumeCall, response: &VolumeResponse, context: &CallContext) -> Finding {
        judge::volume_said(self, call, response, context)
    }

    fn apply(&mut self, call: &VolumeCall, response: Option<&VolumeResponse>, context: &CallContext) {
        apply::volume(self, call, response, context);
    }

    fn readings(&self, call: &VolumeCall) -> Vec<Volume> {
        call.subject().id().map_or_else(|| vec![self.clone()], |id| self.readings(id))
    }

    fn settles(call: &VolumeCall, earlier: &VolumeCall) -> bool {
        use VolumeCall::*;
        match (call, earlier) {
            (CreateVolume { .. }, CreateVolume { .. }) => true,
            // A volume that is gone stays gone; a new one may appear under its name.
            (DeleteVolume { volume }, earlier) => earlier.subject().id() == Some(*volume),
            (
                ControllerPublishVolume { volume, node, .. }
                | ControllerUnpublishVolume { volume, node: Some(node) },
                ControllerPublishVolume { volume: of, node: on, .. }
                | ControllerUnpublishVolume { volume: of, node: Some(on) },
            ) => (volume, node) == (of, on),
            (
                ControllerUnpublishVolume { volume, node: None },
                ControllerPublishVolume { volume: of, .. } | ControllerUnpublishVolume { volume: of, .. },
            ) => volume == of,
            (
                NodeStageVolume { volume, node, .. } | NodeUnstageVolume { volume, node },
                NodeStageVolume { volume: of, node: on, .. } | NodeUnstageVolume { volume: of, node: on },
            ) => (volume, node) == (of, on),
            (
                NodePublishVolume { volume, node, target, .. } | NodeUnpublishVolume { volume, node, target },
                NodePublishVolume { volume: of, node: on, target: at, .. }
                | NodeUnpublishVolume { volume: of, node: on, target: at },
            ) => (volume, node, target) == (of, on, at),
            (
                ControllerExpandVolume { volume, size },
                ControllerExpandVolume { volume: of, size: earlier },
            ) => volume == of && size.required_bytes >= earlier.required_bytes,
            (
                ControllerModifyVolume { volume, mutable_parameters },
                ControllerModifyVolume { volume: of, mutable_parameters: earlier },
            ) => (volume, mutable_parameters) == (of, earlier),
            (Write { volume, slot, .. }, Write { volume: of, slot: at, .. }) => (volume, slot) == (of, at),
            _ => false,
        }
    }

    fn footprint(call: &VolumeCall) -> Footprint {
        call.footprint()
    }

    fn id(&self) -> Option<Option<Id>> {
        self.life.as_ref().map(|life| life.id)
    }

    fn id_given(answer: &Answer<VolumeResponse>) -> Option<Id> {
        match answer {
            Answer::Done(VolumeResponse::Made(facts)) => facts.id,
            _ => None,
        }
    }

    fn method(call: &VolumeCall) -> &'static str {
        call.method()
    }
}

impl Object for Snapshot {
    type Call = SnapshotCall;
    type Response = SnapshotResponse;

    fn judge(&self, call: &SnapshotCall, context: &CallContext) -> Expectation {
        judge::snapshot(self, call, context)
    }

    fn weigh(&self, call: &SnapshotCall, response: &SnapshotResponse, context: &CallContext) -> Finding {
        judge::snapshot_said(self, call, response, context)
    }

    fn apply(&mut self, call: &SnapshotCall, response: Option<&SnapshotResponse>, context: &CallContext) {
        apply::snapshot(self, call, response, context);
    }

    fn readings(&self, call: &SnapshotCall) -> Vec<Snapshot> {
        call.subject().id().map_or_else(|| vec![self.clone()], |id| self.readings(id))
    }

    fn settles(call: &SnapshotCall, earlier: &SnapshotCall) -> bool {
        use SnapshotCall::*;
        match (call, earlier) {
            (CreateSnapshot { .. }, CreateSnapshot { .. }) => true,
            (DeleteSnapshot { snapshot }, earlier) => earlier.subject().id() == Some(*snapshot),
            _ => false,
        }
    }

    fn footprint(call: &SnapshotCall) -> Footprint {
        call.footprint()
    }

    fn id(&self) -> Option<Option<Id>> {
        self.life.as_ref().map(|life| life.id)
    }

    fn id_given(answer: &Answer<SnapshotResponse>) -> Option<Id> {
        match answer {
            Answer::Done(SnapshotResponse::Seen(facts)) => facts.id,
            _ => None,
        }
    }

    fn method(call: &SnapshotCall) -> &'static str {
        call.method()
    }
}

impl Object for Group {
    type Call = GroupCall;
    type Response = GroupResponse;

    fn judge(&self, call: &GroupCall, context: &CallContext) -> Expectation {
        judge::group(self, call, context)
    }

    fn weigh(&self, call: &GroupCall, response: &GroupResponse, context: &CallContext) -> Finding {
        judge::group_said(self, call, response, context)
    }

    fn apply(&mut self, call: &GroupCall, response: Option<&GroupResponse>, context: &CallContext) {
        apply::group(self, call, response, context);
    }

    fn readings(&self, call: &GroupCall) -> Vec<Group> {
        call.subject().id().map_or_else(|| vec![self.clone()], |id| self.readings(id))
    }

    fn settles(call: &GroupCall, earlier: &GroupCall) -> bool {
        use GroupCall::*;
        match (call, earlier) {
            (CreateVolumeGroupSnapshot { .. }, CreateVolumeGroupSnapshot { .. }) => true,
            (DeleteVolumeGroupSnapshot { group }, earlier) => earlier.subject().id() == Some(*group),
            _ => false,
        }
    }

    fn footprint(call: &GroupCall) -> Footprint {
        call.footprint()
    }

    fn id(&self) -> Option<Option<Id>> {
        self.life.as_ref().map(|life| life.id)
    }

    fn id_given(answer: &Answer<GroupResponse>) -> Option<Id> {
        match answer {
            Answer::Done(GroupResponse::Seen(facts)) => facts.id,
            _ => None,
        }
    }

    fn method(call: &GroupCall) -> &'static str {
        call.method()
    }
}
