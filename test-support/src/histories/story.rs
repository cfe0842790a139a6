//! Feeds the model with calls and answers that tests write by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use csi_harness::config::AccessType;
use csi_harness::prelude::Mode;
use csi_harness::protocol::capability::Capability;
use csi_model::answer::{
    Answer, GroupFacts, GroupResponse, Response, SnapshotFacts, SnapshotResponse, SourceReported,
    VolumeFacts, VolumeResponse,
};
use csi_model::call::{Call, CreateSpec, GroupCall, Size, SnapshotCall, Usage, VolumeCall};
use csi_model::call_context::DriverProfile;
use csi_model::names::{Id, Name, Node, Target};
use csi_model::state_set::Impossible;
use csi_model::{Model, Span, StepResult};
use tonic::Code;

pub const GIB: i64 = 1 << 30;
pub const WRITER: Usage = Usage { access: AccessType::Mount, mode: Mode::SingleNodeWriter };
pub const MANY: Usage = Usage { access: AccessType::Mount, mode: Mode::MultiNodeMultiWriter };
pub const N1: Node = Node(0);
pub const N2: Node = Node(1);
pub const T1: Target = Target(0);
pub const T2: Target = Target(1);

/// Returns the profile of a driver with every capability.
pub fn profile() -> DriverProfile {
    DriverProfile {
        capabilities: Capability::ALL.iter().copied().collect(),
        settle: Duration::from_secs(5),
        lists_lag: false,
        was_ended: false,
        usages: vec![WRITER, MANY],
        size_bytes: GIB,
        larger_bytes: 2 * GIB,
        names: 4,
        nodes: 2,
        targets: 2,
        parameters: 2,
        mutable_parameters: 2,
        known: Default::default(),
    }
}

/// Returns the first id of the volume with this number; numbers start at 1.
pub fn v(number: u16) -> Id {
    Name::volume(number - 1).id(0)
}

/// Returns the first id of a snapshot.
pub fn s(number: u16) -> Id {
    Name::snapshot(number - 1).id(0)
}

/// Returns the first id of a group snapshot.
pub fn g(number: u16) -> Id {
    Name::group(number - 1).id(0)
}

/// Returns the request of most tests: a GiB for one writer.
pub fn wanted() -> CreateSpec {
    CreateSpec::of(Size::at_least(GIB), WRITER)
}

pub fn create(volume: Id, wanted: CreateSpec) -> VolumeCall {
    VolumeCall::CreateVolume { name: volume.name, wanted }
}

pub fn delete(volume: Id) -> VolumeCall {
    VolumeCall::DeleteVolume { volume }
}

pub fn attach(volume: Id, node: Node) -> VolumeCall {
    VolumeCall::ControllerPublishVolume { volume, node, usage: WRITER, readonly: false }
}

pub fn detach(volume: Id, node: Node) -> VolumeCall {
    VolumeCall::ControllerUnpublishVolume { volume, node: Some(node) }
}

pub fn stage(volume: Id, node: Node) -> VolumeCall {
    VolumeCall::NodeStageVolume { volume, node, usage: WRITER }
}

pub fn unstage(volume: Id, node: Node) -> VolumeCall {
    VolumeCall::NodeUnstageVolume { volume, node }
}

pub fn publish(volume: Id, node: Node, target: Target) -> VolumeCall {
    VolumeCall::NodePublishVolume { volume, node, target, usage: WRITER, readonly: false }
}

pub fn unpublish(volume: Id, node: Node, target: Target) -> VolumeCall {
    VolumeCall::NodeUnpublishVolume { volume, node, target }
}

pub fn expand(volume: Id, bytes: i64) -> VolumeCall {
    VolumeCall::ControllerExpandVolume { volume, size: Size::at_least(bytes) }
}

pub fn look_up(volume: Id) -> VolumeCall {
    VolumeCall::ControllerGetVolume { volume }
}

pub fn cut(snapshot: Id, volume: Id) -> SnapshotCall {
    SnapshotCall::CreateSnapshot { name: snapshot.name, volume }
}

pub fn drop_snapshot(snapshot: Id) -> SnapshotCall {
    SnapshotCall::DeleteSnapshot { snapshot }
}

pub fn cut_group(group: Id, volumes: &[Id]) -> GroupCall {
    GroupCall::CreateVolumeGroupSnapshot { name: group.name, volumes: volumes.to_vec() }
}

/// Returns the correct facts of a volume of one GiB.
pub fn facts(id: Id) -> VolumeFacts {
    VolumeFacts {
        id: Some(id),
        capacity_bytes: GIB,
        context: "{\"pool\": \"a\"}".into(),
        topology: "{}".into(),
        source: SourceReported::LeftOut,
    }
}

/// Returns the correct facts of a snapshot.
pub fn snapshot_facts(snapshot: Id, volume: Id) -> SnapshotFacts {
    SnapshotFacts {
        id: Some(snapshot),
        source: Some(volume),
        creation_time: Some((1_700_000_000, 0)),
        size_bytes: GIB,
        ready: true,
        topology: Default::default(),
    }
}

/// Returns the correct facts of a group snapshot.
pub fn group_facts(group: Id, volumes: &[Id]) -> GroupFacts {
    let member = |(nth, volume): (u16, &Id)| {
        let id = group.name.members().id(nth);
        (id, snapshot_facts(id, *volume))
    };
    GroupFacts {
        id: Some(group),
        creation_time: Some((1_700_000_000, 0)),
        ready: true,
        members: (0..).zip(volumes).map(member).collect::<BTreeMap<_, _>>(),
    }
}

/// Returns an OK without contents.
pub fn ok() -> Answer<Response> {
    Answer::Done(Response::Volume(VolumeResponse::Nothing))
}

/// Returns the OK of a call that made a volume.
pub fn made(facts: VolumeFacts) -> Answer<Response> {
    Answer::Done(Response::Volume(VolumeResponse::Made(facts)))
}

/// Returns the OK of a call that read a volume.
pub fn seen(facts: VolumeFacts) -> Answer<Response> {
    Answer::Done(Response::Volume(VolumeResponse::Seen(facts, Some([N1, N2].into()))))
}

/// Returns the OK of another call about a volume.
pub fn said(said: VolumeResponse) -> Answer<Response> {
    Answer::Done(Response::Volume(said))
}

/// Returns the OK of a call that made a snapshot.
pub fn cut_ok(facts: SnapshotFacts) -> Answer<Response> {
    Answer::Done(Response::Snapshot(SnapshotResponse::Seen(facts)))
}

/// Returns the OK of a call that made a group snapshot.
pub fn group_ok(facts: GroupFacts) -> Answer<Response> {
    Answer::Done(Response::Group(GroupResponse::Seen(facts)))
}

/// Returns an error.
pub fn no(code: Code) -> Answer<Response> {
    Answer::Refused(code)
}

/// A model that observes one call after another, a millisecond apart.
#[derive(Clone, Debug)]
pub struct Story {
    /// The model's view of the driver's state.
    pub model: Model,
    now: Duration,
}

impl Default for Story {
    fn default() -> Story {
        Story::new()
    }
}

impl Story {
    /// Starts with a driver that has every capability.
    pub fn new() -> Story {
        Story::with(profile())
    }

    /// Starts with a driver of this profile.
    pub fn with(profile: DriverProfile) -> Story {
        Story { model: Model::new(profile), now: Duration::ZERO }
    }

    /// Starts with a driver that lacks capabilities.
    pub fn without(capabilities: &[Capability]) -> Story {
        let mut profile = profile();
        profile.capabilities.retain(|capability| !capabilities.contains(capability));
        Story::with(profile)
    }

    /// Starts with a driver that has made a volume.
    pub fn of_a_volume() -> Story {
        let mut story = Story::new();
        story.right(create(v(1), wanted()), made(facts(v(1))));
        story
    }

    /// Waits longer than a deletion may take.
    pub fn wait(&mut self) {
        self.now += Duration::from_secs(6);
    }

    /// Gives the model a call and its answer.
    pub fn take(&mut self, call: impl Into<Call>, answer: Answer<Response>) -> StepResult {
        let invoked = self.now;
        self.now += Duration::from_millis(1);
        self.model.take(&call.into(), &answer, Span { invoked, returned: self.now })
    }

    /// Gives the model a call, and asserts that the model accepts the answer.
    #[track_caller]
    pub fn right(&mut self, call: impl Into<Call>, answer: Answer<Response>) {
        let call = call.into();
        let taken = self.take(call.clone(), answer.clone());
        assert_eq!(taken, StepResult::default(), "{call}: {answer}");
    }

    /// Gives the model calls that are answered with an empty OK.
    #[track_caller]
    pub fn done<const N: usize>(&mut self, calls: [VolumeCall; N]) {
        calls.into_iter().for_each(|call| self.right(call, ok()));
    }

    /// Asserts the model's judgement of each of these answers to the next call: `fits`, or the broken requirement,
    /// with `odd` in front if it is only a remark.
    #[track_caller]
    pub fn judges<const N: usize>(&self, call: impl Into<Call>, answers: [(Answer<Response>, &str); N]) {
        let call = call.into();
        for (answer, expected) in answers {
            let taken = self.clone().take(call.clone(), answer.clone());
            let found = match (&taken.stop, taken.remarks.first()) {
                (Some(Impossible::Wrong(breach)), _) => breach.rule.id.to_owned(),
                (Some(Impossible::Known(breach)), _) => format!("known: {}", breach.rule.id),
                (Some(Impossible::TooMany(bound)), _) => bound.to_string(),
                (None, Some(remark)) => format!("odd {}", remark.rule.id),
                (None, None) => "fits".to_owned(),
            };
            assert_eq!(found, expected, "{call}: {answer:?}: {taken:?}");
        }
    }
}
