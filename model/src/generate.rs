//! Generation: the calls that an orchestrator may make now.
//!
//! An [`Op`] names only a kind of call and leaves open its object, so that it keeps a meaning when a shrinker removes
//! earlier calls. [`generate`] turns it into one of the calls that the state permits, always one call for one state.

mod sizes;

use csi_harness::protocol::capability::Capability;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::sample::select;

use super::call::{Call, CreateSpec, GroupCall, List, Size, SnapshotCall, Usage, VolumeCall};
use super::call_context::{CallContext, DriverProfile, Presence, Time};
use super::model::Model;
use super::names::{Id, Name, Node, ObjectKind, Slot, Stamp, Target};
use super::object::Object;
use super::state::{GroupLife, SnapshotLife, VolumeLife};
use super::state_set::StateSet;

/// Places in a volume that are written to.
pub const SLOTS: u8 = 4;

/// The weight of each set of parameters but the first, relative to sizes.
const OTHER_PARAMETERS_WEIGHT: usize = 4;

/// A kind of call to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// The kind of call.
    pub verb: Verb,
    /// The choice of an object and a way among those that are possible, modulo their number.
    pub pick: u32,
}

/// A sequence of such calls for a driver with these abilities. It shrinks to fewer calls, and to earlier objects.
pub fn ops(
    profile: &DriverProfile,
    verbs: &[Verb],
    steps_max: usize,
) -> impl Strategy<Value = Vec<Op>> + use<> {
    let verbs: Vec<Verb> = verbs.iter().copied().filter(|verb| verb.is_enabled(profile)).collect();
    let weighted: Vec<Verb> =
        verbs.iter().flat_map(|verb| std::iter::repeat_n(*verb, verb.weight())).collect();
    vec((select(weighted), any::<u32>()).prop_map(|(verb, pick)| Op { verb, pick }), 1..=steps_max.max(1))
}

/// Declares what an orchestrator and its workloads do, each in one row: how often it is chosen beside others, what the driver has to
/// advertise, what has to be done before where it cannot be done yet, and the calls that can be made.
macro_rules! verbs {
    ($($verb:ident $weight:literal $(needs $($capability:ident)&+)? $(after $before:ident)? => $calls:expr;)*) => {
        /// Kinds of things that an orchestrator and its workloads do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Verb { $($verb,)* }

        impl Verb {
            /// All of them.
            pub const ALL: [Verb; [$(Verb::$verb),*].len()] = [$(Verb::$verb),*];

            /// The weight of the verb among all.
            fn weight(self) -> usize {
                match self { $(Verb::$verb => $weight,)* }
            }

            /// Returns true if the driver has the capabilities that it needs.
            pub fn is_enabled(self, profile: &DriverProfile) -> bool {
                match self { $(Verb::$verb => true $($(&& profile.has(Capability::$capability))+)?,)* }
            }

            /// The step that has to be done before, if it cannot be done yet.
            fn before(self) -> Option<Verb> {
                match self { $(Verb::$verb => None$(.or(Some(Verb::$before)))?,)* }
            }

            /// Everything that an orchestrator may do of one kind. It keeps to the order of the steps, and where it does not
            /// know how a call ended it does nothing but repeat it or call the opposite.
            fn calls(self, view: &View<'_>) -> Vec<Call> {
                let calls: fn(&View<'_>) -> Vec<Call> = match self { $(Verb::$verb => $calls,)* };
                calls(view)
            }
        }
    };
}

verbs! {
    CreateVolume 4 needs CreateDeleteVolume => create_volume;
    CopySnapshot 4 needs CreateDeleteVolume & CreateDeleteSnapshot after CreateSnapshot =>
        |view| copies(view, snapshot_ids(view));
    CopyVolume 3 needs CreateDeleteVolume & CloneVolume after CreateVolume => |view| copies(view, volume_ids(view));
    CopyMember 1 needs CreateDeleteVolume & CreateDeleteGetVolumeGroupSnapshot after CreateVolumeGroupSnapshot =>
        |view| copies(view, member_ids(view));
    DeleteVolume 1 needs CreateDeleteVolume after CreateVolume =>
        |view| each_volume(view, |volume, _| vec![VolumeCall::DeleteVolume { volume }]);
    GiveBack 6 after CreateVolume =>
        |view| each_volume(view, |volume, life| life.map_or_else(Vec::new, |life| give_back(view, volume, life)));
    ControllerPublishVolume 3 needs PublishUnpublishVolume after CreateVolume =>
        |view| each_volume(view, |volume, life| attach(view, volume, life));
    ControllerUnpublishVolume 1 needs PublishUnpublishVolume after CreateVolume =>
        |view| each_volume(view, |volume, life| detach(view, volume, life));
    ValidateVolumeCapabilities 1 after CreateVolume => |view| each_volume(view, |volume, _| {
        let usages = view.profile.usages.iter();
        usages.map(|usage| VolumeCall::ValidateVolumeCapabilities { volume, usage: *usage }).collect()
    });
    ControllerGetVolume 1 needs GetVolume after CreateVolume =>
        |view| each_volume(view, |volume, _| vec![VolumeCall::ControllerGetVolume { volume }]);
    ControllerExpandVolume 2 needs ExpandVolume after CreateVolume =>
        |view| each_volume(view, |volume, life| expand(view, volume, life));
    ControllerModifyVolume 1 needs ModifyVolume after CreateVolume =>
        |view| each_volume(view, |volume, life| modify(view, volume, life));
    NodeStageVolume 3 needs StageUnstageVolume after ControllerPublishVolume =>
        |view| each_volume(view, |volume, life| stage(view, volume, life));
    NodeUnstageVolume 1 needs StageUnstageVolume after CreateVolume =>
        |view| each_volume(view, |volume, life| unstage(view, volume, life));
    NodePublishVolume 6 after NodeStageVolume => |view| each_volume(view, |volume, life| publish(view, volume, life));
    NodeUnpublishVolume 1 after CreateVolume => |view| each_volume(view, |volume, _| {
        places(view).map(|(node, target)| VolumeCall::NodeUnpublishVolume { volume, node, target }).collect()
    });
    NodeExpandVolume 1 needs NodeExpandVolume after NodePublishVolume =>
        |view| at_publications(view, |volume, life, node, target| {
            // A volume whose size is unknown is expanded to the size that it was made with.
            let reported = (life.size_bytes > 0).then(|| Size::at_least(life.size_bytes));
            let size = reported.unwrap_or(life.wanted.size);
            Some(VolumeCall::NodeExpandVolume { volume, node, target, size })
        });
    NodeGetVolumeStats 1 needs GetVolumeStats after NodePublishVolume => |view| at_publications(
        view,
        |volume, _, node, target| Some(VolumeCall::NodeGetVolumeStats { volume, node, target }),
    );
    Write 8 after NodePublishVolume => |view| at_publications(view, |volume, life, node, target| {
        let (slot, stamp) = (Slot((view.nth % u32::from(SLOTS)) as u8), Stamp(view.nth));
        is_writable(life, node, target).then_some(VolumeCall::Write { volume, node, target, slot, stamp })
    });
    Read 10 after NodePublishVolume => |view| {
        at_publications(view, |volume, _, node, target| Some(VolumeCall::Read { volume, node, target }))
    };
    ListVolumes 1 needs ListVolumes => |_| vec![Call::List(List::Volumes)];
    CreateSnapshot 3 needs CreateDeleteSnapshot after CreateVolume => create_snapshot;
    DeleteSnapshot 2 needs CreateDeleteSnapshot after CreateSnapshot =>
        |view| each_snapshot(view, |snapshot| SnapshotCall::DeleteSnapshot { snapshot });
    GetSnapshot 1 needs GetSnapshot after CreateSnapshot =>
        |view| each_snapshot(view, |snapshot| SnapshotCall::GetSnapshot { snapshot });
    ListSnapshots 1 needs ListSnapshots => |_| vec![Call::List(List::Snapshots)];
    CreateVolumeGroupSnapshot 1 needs CreateDeleteGetVolumeGroupSnapshot after CreateVolume => create_group;
    DeleteVolumeGroupSnapshot 1 needs CreateDeleteGetVolumeGroupSnapshot after CreateVolumeGroupSnapshot =>
        |view| each_group(view, |group, _| vec![GroupCall::DeleteVolumeGroupSnapshot { group }]);
    GetVolumeGroupSnapshot 1 needs CreateDeleteGetVolumeGroupSnapshot after CreateVolumeGroupSnapshot =>
        |view| each_group(view, |group, _| vec![GroupCall::GetVolumeGroupSnapshot { group }]);
    DeleteMember 1 needs CreateDeleteGetVolumeGroupSnapshot & CreateDeleteSnapshot after CreateVolumeGroupSnapshot =>
        |view| each_group(view, |group, life| {
            // Without its last member, a group could not be named any more.
            let members = life.and_then(|life| life.members.as_ref()).filter(|members| members.len() > 1);
            let members = members.into_iter().flatten();
            members.map(|(member, _)| GroupCall::DeleteMember { group, member: *member }).collect()
        });
    ControllerGetVolumeHealth 1 needs GetVolumeHealth after CreateVolume =>
        |view| each_volume(view, |volume, _| vec![VolumeCall::ControllerGetVolumeHealth { volume }]);
    ControllerListVolumeHealth 1 needs ListVolumeHealth => |_| vec![Call::List(List::VolumeHealth)];
    NodeGetVolumeHealth 1 needs NodeGetVolumeHealth after NodePublishVolume => |view| at_publications(
        view,
        |volume, _, node, target| Some(VolumeCall::NodeGetVolumeHealth { volume, node, target }),
    );
}

/// The call that an [`Op`] stands for now, as the `nth` of a sequence: one that can be made, or else one that has to be
/// made before. Three times out of four it changes something; the others repeat, look, or ask for what cannot be.
pub fn generate(model: &Model, op: Op, nth: u32, now: Time) -> Option<Call> {
    let view = View { model, profile: model.profile(), nth, now };
    let names = u32::from(view.profile.names);
    let (one, pick) = divided(op.pick, names);
    let (other, pick) = divided(pick, names);
    let (quarter, pick) = divided(pick, 4);
    // The lower of two numbers: the first names get most of the calls, so that their objects come far in their lives.
    let name = one.min(other);
    let calls = on_the_way(&view, op.verb, |call| {
        call.subject().is_none_or(|subject| u32::from(subject.name().number) == name)
    });
    let calls = if calls.is_empty() { on_the_way(&view, op.verb, |_| true) } else { calls };
    let (mut changing, mut others): (Vec<Call>, Vec<Call>) =
        calls.into_iter().partition(|call| changes(model, call, now));
    let chosen =
        if others.is_empty() || (quarter < 3 && !changing.is_empty()) { &mut changing } else { &mut others };
    (!chosen.is_empty()).then(|| chosen.swap_remove(pick as usize % chosen.len()))
}

/// A choice among this many, and the rest for further choices.
fn divided(pick: u32, among: u32) -> (u32, u32) {
    let among = among.max(1);
    (pick % among, pick / among)
}

/// The calls of a kind that can be made with certain objects, or of the kind that has to be done with them before.
fn on_the_way(view: &View<'_>, verb: Verb, with: impl Fn(&Call) -> bool) -> Vec<Call> {
    let mut next = Some(verb);
    while let Some(verb) = next {
        let mut calls = if verb.is_enabled(view.profile) { verb.calls(view) } else { Vec::new() };
        calls.retain(&with);
        if !calls.is_empty() {
            return calls;
        }
        next = verb.before();
    }
    Vec::new()
}

/// Returns true if a call changes something if it is done.
fn changes(model: &Model, call: &Call, now: Time) -> bool {
    fn changes<O: Object>(possible: Option<&StateSet<O>>, call: &O::Call, context: &CallContext) -> bool {
        let before = possible.map_or_else(|| Some(O::default()), |possible| possible.certain().cloned());
        before.is_some_and(|before| {
            let mut after = before.clone();
            after.apply(call, None, context);
            before.judge(call, context).may_be_done() && after != before
        })
    }
    let context = CallContext::new(model.profile.clone(), now, now);
    match call {
        Call::Volume(call) => changes(model.volumes.get(&call.subject().name()), call, &context),
        Call::Snapshot(call) => changes(model.snapshots.get(&call.subject().name()), call, &context),
        Call::Group(call) => changes(model.groups.get(&call.subject().name()), call, &context),
        Call::List(_) => false,
    }
}

/// The state from which calls are chosen.
struct View<'a> {
    model: &'a Model,
    profile: &'a DriverProfile,
    nth: u32,
    now: Time,
}

fn create_volume(view: &View<'_>) -> Vec<Call> {
    volumes(view, |name, there| match there {
        Some(life) => {
            other_wishes(view, life).map(|wanted| VolumeCall::CreateVolume { name, wanted }).collect()
        }
        None => new_wishes(view).map(|wanted| VolumeCall::CreateVolume { name, wanted }).collect(),
    })
}

fn names(view: &View<'_>, name: fn(u16) -> Name) -> impl Iterator<Item = Name> + use<> {
    (0..view.profile.names).map(name)
}

fn nodes(view: &View<'_>) -> impl Iterator<Item = Node> + use<> {
    (0..view.profile.nodes).map(Node)
}

fn places(view: &View<'_>) -> impl Iterator<Item = (Node, Target)> + use<> {
    let targets = view.profile.targets;
    nodes(view).flat_map(move |node| (0..targets).map(move |target| (node, Target(target))))
}

/// Calls about each name: what the state permits, or what shows how an earlier call ended.
fn volumes(view: &View<'_>, calls: impl Fn(Name, Option<&VolumeLife>) -> Vec<VolumeCall>) -> Vec<Call> {
    let of_name = |name: Name| match view.model.volumes.get(&name) {
        _ if view.model.is_lost(name) => Vec::new(),
        None => calls(name, None),
        Some(possible) => match possible.certain() {
            Some(volume) => calls(name, volume.life.as_ref()),
            None => possible
                .pending()
                .cloned()
                .flat_map(|call| opposite(&call).into_iter().chain([call]))
                .collect(),
        },
    };
    names(view, Name::volume).flat_map(of_name).map(Call::Volume).collect()
}

/// The call that undoes another.
fn opposite(call: &VolumeCall) -> Option<VolumeCall> {
    use VolumeCall::*;
    match *call {
        ControllerPublishVolume { volume, node, .. } => {
            Some(ControllerUnpublishVolume { volume, node: Some(node) })
        }
        NodeStageVolume { volume, node, .. } => Some(NodeUnstageVolume { volume, node }),
        NodePublishVolume { volume, node, target, .. } => Some(NodeUnpublishVolume { volume, node, target }),
        _ => None,
    }
}

/// Calls about each volume that exists, and about each that was just deleted.
fn each_volume(view: &View<'_>, calls: impl Fn(Id, Option<&VolumeLife>) -> Vec<VolumeCall>) -> Vec<Call> {
    volumes(view, |name, there| match there {
        Some(life) => life.id.map_or_else(Vec::new, |id| calls(id, Some(life))),
        None => match view.model.volumes.get(&name).and_then(|one| one.certain()?.fading?.id) {
            Some(id) => calls(id, None),
            None => Vec::new(),
        },
    })
}

/// Calls at each place where a volume is published.
fn at_publications(
    view: &View<'_>,
    call: impl Fn(Id, &VolumeLife, Node, Target) -> Option<VolumeCall>,
) -> Vec<Call> {
    each_volume(view, |volume, there| {
        let Some(life) = there else { return Vec::new() };
        life.published.keys().filter_map(|(node, target)| call(volume, life, *node, *target)).collect()
    })
}

/// Volumes that may be made where there is none.
fn new_wishes(view: &View<'_>) -> impl Iterator<Item = CreateSpec> {
    let DriverProfile { usages, parameters, .. } = view.profile;
    let of_size = |size: Size| usages.iter().map(move |usage| CreateSpec::of(size, *usage));
    let sized: Vec<CreateSpec> = sizes::of_new_volumes(view).into_iter().flat_map(of_size).collect();
    let with = |parameters| {
        sized
            .iter()
            .take(OTHER_PARAMETERS_WEIGHT)
            .map(move |first| CreateSpec { parameters, ..first.clone() })
    };
    let others: Vec<CreateSpec> = (1..*parameters).flat_map(with).collect();
    sized.into_iter().chain(others)
}

/// The requests under a name that is taken: usually an equal one, or one that differs in one property.
fn other_wishes<'a>(view: &View<'_>, life: &'a VolumeLife) -> impl Iterator<Item = CreateSpec> + use<'a> {
    let made = &life.wanted;
    let sizes = sizes::of_made_volume(view, life).into_iter().map(|size| CreateSpec { size, ..made.clone() });
    let other_parameters = (1..view.profile.parameters)
        .map(|step| CreateSpec {
            parameters: (made.parameters + step) % view.profile.parameters,
            ..made.clone()
        })
        .next();
    let empty = made.source.map(|_| CreateSpec { source: None, ..made.clone() });
    let same = [made.clone(), made.clone(), made.clone()];
    same.into_iter().chain(sizes).chain(other_parameters).chain(empty)
}

/// Copies of things that exist, under names that are free, or that have such a copy already.
fn copies(view: &View<'_>, sources: Vec<Id>) -> Vec<Call> {
    let Some(usage) = view.profile.usages.first().copied() else { return Vec::new() };
    volumes(view, |name, there| {
        let of = |source: &Id| copy(view, *source, usage);
        match there {
            None => sources.iter().map(of).map(|wanted| VolumeCall::CreateVolume { name, wanted }).collect(),
            Some(life) if life.wanted.source.is_some() => {
                vec![VolumeCall::CreateVolume { name, wanted: life.wanted.clone() }]
            }
            Some(_) => Vec::new(),
        }
    })
}

/// The room of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopySize {
    /// The size of its source, or more.
    AsSource,
    /// Exactly the size of its source.
    Exactly,
    /// More than its source has.
    Larger,
}

impl Model {
    /// A copy of something, with the room that this has now.
    pub fn copy_of(&self, source: Id, room: CopySize) -> Option<CreateSpec> {
        let usage = self.profile().usages.first().copied()?;
        let own = self.size_of(source).filter(|bytes| *bytes > 0).unwrap_or(self.profile().size_bytes);
        let size = match room {
            CopySize::AsSource => Size::at_least(own),
            CopySize::Exactly => Size { required_bytes: own, limit_bytes: own },
            CopySize::Larger => Size::at_least(own.saturating_add(self.profile().larger_bytes)),
        };
        Some(CreateSpec { source: Some(source), ..CreateSpec::of(size, usage) })
    }

    /// The size of an object, if the driver has reported it.
    pub(super) fn size_of(&self, id: Id) -> Option<i64> {
        let of_volume = |id: Id| Some(certain(self.volumes.get(&id.name))?.life.as_ref()?.size_bytes);
        match id.name.kind {
            ObjectKind::Volume => of_volume(id),
            ObjectKind::Snapshot => {
                let life = certain(self.snapshots.get(&id.name))?.life.as_ref()?;
                if life.size_bytes > 0 { Some(life.size_bytes) } else { of_volume(life.volume) }
            }
            ObjectKind::Member | ObjectKind::Group => {
                let life = certain(self.groups.get(&id.name.owner()))?.life.as_ref()?;
                of_volume((*life.members.as_ref()?.get(&id)?)?)
            }
        }
    }
}

/// A copy as large as its source.
fn copy(view: &View<'_>, source: Id, usage: Usage) -> CreateSpec {
    let lives = view.model.volume(source.name).into_iter().filter_map(|volume| volume.life);
    let largest = lives.map(|life| life.size_bytes).max().unwrap_or_default();
    // Only the driver knows the size of a snapshot; nothing here is larger than this.
    let bytes = if largest > 0 { largest } else { view.profile.larger_bytes.max(view.profile.size_bytes) };
    CreateSpec { source: Some(source), ..CreateSpec::of(Size::at_least(bytes), usage) }
}

/// Things that exist without doubt and can be copied.
fn there(view: &View<'_>, ids: impl Iterator<Item = Id>) -> Vec<Id> {
    ids.filter(|id| view.model.presence(*id, view.now) == Presence::Yes).collect()
}

fn certain<O: Object>(possible: Option<&StateSet<O>>) -> Option<&O> {
    possible.and_then(StateSet::certain)
}

fn volume_ids(view: &View<'_>) -> Vec<Id> {
    let id = |name| certain(view.model.volumes.get(&name))?.life.as_ref()?.id;
    there(view, names(view, Name::volume).filter_map(id))
}

fn snapshot_ids(view: &View<'_>) -> Vec<Id> {
    let id = |name| certain(view.model.snapshots.get(&name))?.life.as_ref()?.id;
    there(view, names(view, Name::snapshot).filter_map(id))
}

fn member_ids(view: &View<'_>) -> Vec<Id> {
    let ids = |name| {
        let life = certain(view.model.groups.get(&name)).and_then(|group| group.life.as_ref());
        let members = life.and_then(|life| life.members.as_ref());
        members.into_iter().flat_map(|members| members.keys().copied()).collect::<Vec<_>>()
    };
    there(view, names(view, Name::group).flat_map(ids))
}

fn attach(view: &View<'_>, volume: Id, there: Option<&VolumeLife>) -> Vec<VolumeCall> {
    let mut calls = Vec::new();
    for node in nodes(view) {
        let (usage, readonly) = match there.map(|life| (life, life.attached.get(&node))) {
            Some((_, Some(now))) => (now.usage, now.readonly),
            Some((life, None)) => (life.wanted.usage, false),
            None => match view.profile.usages.first() {
                Some(usage) => (*usage, false),
                None => continue,
            },
        };
        // A volume that is attached for reading only permits few calls.
        let times = if there.is_some_and(|life| !life.attached.contains_key(&node)) { 5 } else { 1 };
        let call = VolumeCall::ControllerPublishVolume { volume, node, usage, readonly };
        calls.extend(std::iter::repeat_n(call, times));
        if view.profile.has(Capability::PublishReadonly) && there.is_some() {
            calls.push(VolumeCall::ControllerPublishVolume { volume, node, usage, readonly: !readonly });
        }
    }
    calls
}

fn detach(view: &View<'_>, volume: Id, there: Option<&VolumeLife>) -> Vec<VolumeCall> {
    let is_used = |node: Node| {
        there.is_some_and(|life| life.staged.contains_key(&node) || life.published_on(node).next().is_some())
    };
    let one = nodes(view).filter(|node| !is_used(*node)).map(Some);
    let all = nodes(view).all(|node| !is_used(node)).then_some(None);
    one.chain(all).map(|node| VolumeCall::ControllerUnpublishVolume { volume, node }).collect()
}

fn expand(view: &View<'_>, volume: Id, there: Option<&VolumeLife>) -> Vec<VolumeCall> {
    let sizes = sizes::of_expansion(view, there).into_iter();
    sizes.map(|size| VolumeCall::ControllerExpandVolume { volume, size }).collect()
}

fn modify(view: &View<'_>, volume: Id, there: Option<&VolumeLife>) -> Vec<VolumeCall> {
    let sets = if there.is_some() {
        view.profile.mutable_parameters
    } else {
        view.profile.mutable_parameters.min(1)
    };
    (0..sets)
        .map(|mutable_parameters| VolumeCall::ControllerModifyVolume { volume, mutable_parameters })
        .collect()
}

/// The next steps for a volume that is not needed any more.
fn give_back(view: &View<'_>, volume: Id, life: &VolumeLife) -> Vec<VolumeCall> {
    let published = life.published.keys().map(|(node, target)| VolumeCall::NodeUnpublishVolume {
        volume,
        node: *node,
        target: *target,
    });
    let is_free = |node: &Node| life.published_on(*node).next().is_none();
    let staged = life
        .staged
        .keys()
        .copied()
        .filter(is_free)
        .map(|node| VolumeCall::NodeUnstageVolume { volume, node });
    let is_free = |node: &Node| is_free(node) && !life.staged.contains_key(node);
    let attached = life.attached.keys().copied().filter(is_free);
    let attached = attached.map(|node| VolumeCall::ControllerUnpublishVolume { volume, node: Some(node) });
    let steps: Vec<VolumeCall> = published.chain(staged).chain(attached).collect();
    match steps.is_empty() && view.profile.has(Capability::CreateDeleteVolume) {
        true => vec![VolumeCall::DeleteVolume { volume }],
        false => steps,
    }
}

/// Returns true if the volume is on the node as far as the controller is concerned.
fn is_attached(view: &View<'_>, life: &VolumeLife, node: Node) -> bool {
    !view.profile.has(Capability::PublishUnpublishVolume) || life.attached.contains_key(&node)
}

fn stage(view: &View<'_>, volume: Id, there: Option<&VolumeLife>) -> Vec<VolumeCall> {
    let Some(life) = there else { return Vec::new() };
    let nodes = nodes(view).filter(|node| is_attached(view, life, *node));
    let usage = |node: Node| life.staged.get(&node).copied().unwrap_or(life.wanted.usage);
    nodes.map(|node| VolumeCall::NodeStageVolume { volume, node, usage: usage(node) }).collect()
}

fn unstage(view: &View<'_>, volume: Id, there: Option<&VolumeLife>) -> Vec<VolumeCall> {
    let is_published = |node: Node| there.is_some_and(|life| life.published_on(node).next().is_some());
    let nodes = nodes(view).filter(|node| !is_published(*node));
    nodes.map(|node| VolumeCall::NodeUnstageVolume { volume, node }).collect()
}

fn publish(view: &View<'_>, volume: Id, there: Option<&VolumeLife>) -> Vec<VolumeCall> {
    let Some(life) = there else { return Vec::new() };
    let is_staged =
        |node: Node| !view.profile.has(Capability::StageUnstageVolume) || life.staged.contains_key(&node);
    let here = places(view).filter(|(node, _)| is_attached(view, life, *node) && is_staged(*node));
    here.flat_map(|(node, target)| {
        let before = life.published.get(&(node, target));
        let usage = before.map_or(life.wanted.usage, |before| before.usage);
        let call = |readonly| VolumeCall::NodePublishVolume { volume, node, target, usage, readonly };
        let same = before.is_some_and(|before| before.readonly);
        // A volume that was never formatted cannot be published read-only.
        let other = (life.written || before.is_some()).then(|| call(!same));
        [call(same)].into_iter().chain(other)
    })
    .collect()
}

fn is_writable(life: &VolumeLife, node: Node, target: Target) -> bool {
    let for_writing = |readonly: bool, usage: Usage| !readonly && !usage.is_for_readers();
    life.published.get(&(node, target)).is_some_and(|there| for_writing(there.readonly, there.usage))
        && life.attached.get(&node).is_none_or(|there| for_writing(there.readonly, there.usage))
}

/// Calls about each name of snapshots, or what shows how an earlier call ended.
fn snapshots(view: &View<'_>, calls: impl Fn(Name, Option<&SnapshotLife>) -> Vec<SnapshotCall>) -> Vec<Call> {
    let of_name = |name: Name| match view.model.snapshots.get(&name) {
        _ if view.model.is_lost(name) => Vec::new(),
        None => calls(name, None),
        Some(possible) => match possible.certain() {
            Some(snapshot) => calls(name, snapshot.life.as_ref()),
            None => possible.pending().cloned().collect(),
        },
    };
    names(view, Name::snapshot).flat_map(of_name).map(Call::Snapshot).collect()
}

fn create_snapshot(view: &View<'_>) -> Vec<Call> {
    let volumes = volume_ids(view);
    snapshots(view, |name, there| {
        let repeated = there.map(|life| life.volume);
        let sources = repeated.into_iter().chain(volumes.iter().copied());
        sources.map(|volume| SnapshotCall::CreateSnapshot { name, volume }).collect()
    })
}

fn each_snapshot(view: &View<'_>, call: impl Fn(Id) -> SnapshotCall) -> Vec<Call> {
    snapshots(view, |name, there| {
        let fading = || certain(view.model.snapshots.get(&name))?.fading?.id;
        there.map_or_else(fading, |life| life.id).into_iter().map(&call).collect()
    })
}

/// Calls about each name of group snapshots, or what shows how an earlier call ended.
fn groups(view: &View<'_>, calls: impl Fn(Name, Option<&GroupLife>) -> Vec<GroupCall>) -> Vec<Call> {
    let of_name = |name: Name| match view.model.groups.get(&name) {
        _ if view.model.is_lost(name) => Vec::new(),
        None => calls(name, None),
        Some(possible) => match possible.certain() {
            Some(group) => calls(name, group.life.as_ref()),
            None => possible.pending().cloned().collect(),
        },
    };
    names(view, Name::group).flat_map(of_name).map(Call::Group).collect()
}

fn create_group(view: &View<'_>) -> Vec<Call> {
    let volumes = volume_ids(view);
    groups(view, |name, there| {
        // The specification does not say what a group is that has lost a member, so it is not requested again.
        if there.is_some_and(|life| life.thinned) {
            return Vec::new();
        }
        let repeated = there.map(|life| life.volumes.iter().copied().collect::<Vec<_>>());
        let sets = [volumes.iter().copied().take(2).collect::<Vec<_>>(), volumes.clone()];
        let sets = repeated.into_iter().chain(sets).filter(|set| !set.is_empty());
        sets.map(|volumes| GroupCall::CreateVolumeGroupSnapshot { name, volumes }).collect()
    })
}

fn each_group(view: &View<'_>, calls: impl Fn(Id, Option<&GroupLife>) -> Vec<GroupCall>) -> Vec<Call> {
    groups(view, |name, there| {
        let fading = || certain(view.model.groups.get(&name))?.fading?.id;
        match there.map_or_else(fading, |life| life.id) {
            Some(id) => calls(id, there),
            None => Vec::new(),
        }
    })
}
