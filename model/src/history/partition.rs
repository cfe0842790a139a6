//! Splits a history by objects: for each object the calls about it, and the evidence from other calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_harness::protocol::effect::is_not_now;
use csi_harness::spec::requirements::req;
use csi_proto::code_name;
use tonic::Code;

use crate::answer::{Answer, GroupResponse, Listed, Response, SnapshotResponse, VolumeResponse, leaves_open};
use crate::call::{Call, GroupCall, SnapshotCall, VolumeCall};
use crate::call_context::{CallContext, DriverProfile, Presence, Time};
use crate::expectation::Breach;
use crate::names::{Id, Name, ObjectKind};
use crate::object::Object;
use crate::state::{Group, Snapshot, Volume};
use crate::state_set::Operation;

use super::{Entry, History};

/// The part of a call that is about one object.
#[derive(Clone, Debug)]
pub struct Part<O: Object> {
    /// The part of the call that is about the object.
    pub step: Operation<O>,
    /// The place of the call in the history.
    pub entry: usize,
}

/// A history by objects.
#[derive(Debug)]
pub struct Parts {
    pub volumes: BTreeMap<Name, Vec<Part<Volume>>>,
    pub snapshots: BTreeMap<Name, Vec<Part<Snapshot>>>,
    /// Group snapshots.
    pub groups: BTreeMap<Name, Vec<Part<Group>>>,
    /// Objects that share an id with another.
    pub(super) shared: Vec<Shared>,
    /// Remarks on single calls.
    pub(super) remarks: Vec<(Name, Breach)>,
}

/// An object that got an id which another one of its kind got as well.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) name: Name,
    /// The violation, if both have it at one time.
    pub(super) breach: Option<Breach>,
    pub(super) calls: Vec<usize>,
}

impl Parts {
    /// Splits a history.
    pub fn of(history: &History) -> Parts {
        let mut taker = Partitioner::new(history);
        for (place, entry) in history.entries.iter().enumerate() {
            taker.take(history, place, entry);
        }
        taker.take_out_shared(history);
        taker.parts
    }
}

/// Collects the parts of a history.
struct Partitioner {
    profile: Arc<DriverProfile>,
    /// The number of times that an object of this name may have been made.
    makings: BTreeMap<Name, usize>,
    /// The times at which an id may have stood for an object.
    lives: BTreeMap<Id, Life>,
    parts: Parts,
}

/// The time during which an object had an id.
#[derive(Clone, Copy, Debug)]
struct Life {
    /// The earliest possible beginning.
    since: Time,
    /// The last answer that contained the id.
    last_seen: Time,
    /// The latest possible end.
    gone: Time,
}

impl Partitioner {
    fn new(history: &History) -> Partitioner {
        let mut makings = BTreeMap::new();
        let mut lives: BTreeMap<Id, Life> = BTreeMap::new();
        for entry in &history.entries {
            if let Some(name) = entry.call.makes()
                && (matches!(entry.answer, Answer::Done(_)) || entry.answer.leaves_open())
            {
                *makings.entry(name).or_default() += 1;
            }
            if let Some(id) = entry.answer.id_given() {
                let span = entry.span;
                let life = lives.entry(id).or_insert(Life {
                    since: span.invoked,
                    last_seen: span.returned,
                    gone: Time::MAX,
                });
                life.since = life.since.min(span.invoked);
                life.last_seen = life.last_seen.max(span.returned);
            }
        }
        for entry in &history.entries {
            if let (Some(id), Answer::Done(_)) = (deleted(&entry.call), &entry.answer)
                && let Some(life) = lives.get_mut(&id)
                && life.last_seen < entry.span.invoked
            {
                life.gone = life.gone.min(entry.span.returned);
            }
        }
        let parts = Parts {
            volumes: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            groups: BTreeMap::new(),
            shared: Vec::new(),
            remarks: Vec::new(),
        };
        Partitioner { profile: Arc::new(history.profile.clone()), makings, lives, parts }
    }

    /// Returns true if a call names something that was deleted before. Then it would be rejected without other calls, too, and checks of
    /// single calls judge the code.
    fn is_about_the_deleted(&self, entry: &Entry) -> bool {
        let is_gone = |id| self.lives.get(&id).is_some_and(|life| life.gone <= entry.span.invoked);
        entry.call.ids().into_iter().any(is_gone)
    }

    fn take(&mut self, history: &History, place: usize, entry: &Entry) {
        let context = CallContext {
            owner: Presence::No,
            ..CallContext::new(self.profile.clone(), entry.span.invoked, entry.span.returned)
        };
        if let (Some(subject), Answer::Refused(code)) = (entry.call.subject(), &entry.answer)
            && leaves_open(*code)
            && !is_not_now(entry.call.method(), *code)
            && is_beside_another(history, place)
            && !self.is_about_the_deleted(entry)
        {
            self.parts.remarks.push((subject.name(), says_nothing(&entry.call, *code)));
        }
        match (&entry.call, &entry.answer) {
            (Call::Volume(call), answer) => {
                let answer = definite(answer).map(|response| match response {
                    Response::Volume(response) => response.clone(),
                    _ => VolumeResponse::Nothing,
                });
                self.volume(place, call.clone(), answer, context.clone());
                if let VolumeCall::CreateVolume { name, wanted } = call
                    && let Some(source) = wanted.source
                {
                    self.look_at_source(place, *name, source, &entry.answer, &context);
                }
            }
            (Call::Snapshot(call), answer) => {
                let answer = definite(answer).map(|response| match response {
                    Response::Snapshot(response) => response.clone(),
                    _ => SnapshotResponse::Nothing,
                });
                self.snapshot(place, call.clone(), answer, context.clone());
                if let SnapshotCall::CreateSnapshot { name, volume } = call {
                    self.look_at_source(place, *name, *volume, &entry.answer, &context);
                }
            }
            (Call::Group(call), answer) => {
                let answer = definite(answer).map(|response| match response {
                    Response::Group(response) => response.clone(),
                    _ => GroupResponse::Nothing,
                });
                let step = Operation { call: call.clone(), answer, context: context.clone() };
                self.parts.groups.entry(call.subject().name()).or_default().push(Part { step, entry: place });
                if let (GroupCall::CreateVolumeGroupSnapshot { name, volumes }, Answer::Done(_)) =
                    (call, &entry.answer)
                {
                    for volume in volumes {
                        self.look_at_source(place, *name, *volume, &entry.answer, &context);
                    }
                }
            }
            (Call::List(list), Answer::Done(Response::Volumes(listed))) => {
                let is_evident = |id: &Id| list.is_complete() || listed.entries.contains_key(id);
                for volume in
                    self.asked_about(ObjectKind::Volume, entry, listed).into_iter().filter(is_evident)
                {
                    let unlisted = VolumeResponse::Unlisted { pages: listed.pages };
                    let response = listed.entries.get(&volume).cloned().unwrap_or(unlisted);
                    self.volume(place, list.of_volume(volume), Answer::Done(response), context.clone());
                }
            }
            (Call::List(_), Answer::Done(Response::Snapshots(listed))) => {
                for snapshot in self.asked_about(ObjectKind::Snapshot, entry, listed) {
                    let unlisted = SnapshotResponse::Unlisted { pages: listed.pages };
                    let response = listed.entries.get(&snapshot).cloned().unwrap_or(unlisted);
                    self.snapshot(
                        place,
                        SnapshotCall::Listing { snapshot },
                        Answer::Done(response),
                        context.clone(),
                    );
                }
            }
            (Call::List(_), _) => {}
        }
    }

    fn volume(
        &mut self,
        entry: usize,
        call: VolumeCall,
        answer: Answer<VolumeResponse>,
        context: CallContext,
    ) {
        let name = call.subject().name();
        let step = Operation { call, answer, context };
        self.parts.volumes.entry(name).or_default().push(Part { step, entry });
    }

    fn snapshot(
        &mut self,
        entry: usize,
        call: SnapshotCall,
        answer: Answer<SnapshotResponse>,
        context: CallContext,
    ) {
        let name = call.subject().name();
        let step = Operation { call, answer, context };
        self.parts.snapshots.entry(name).or_default().push(Part { step, entry });
    }

    /// Records what a copy shows of its source: that it existed, or was not found. An answer that may only repeat an earlier one proves
    /// nothing about the source.
    fn look_at_source(
        &mut self,
        entry: usize,
        copy: Name,
        source: Id,
        answer: &Answer<Response>,
        context: &CallContext,
    ) {
        let is_the_only_making = self.makings.get(&copy) == Some(&1);
        let found = match answer {
            Answer::Done(_) if is_the_only_making => Answer::Done(()),
            Answer::Refused(Code::NotFound) => Answer::Refused(Code::NotFound),
            _ => return,
        };
        match source.name.kind {
            ObjectKind::Volume => {
                let answer = found.map(|()| VolumeResponse::Nothing);
                self.volume(entry, VolumeCall::Copying { volume: source }, answer, context.clone());
            }
            ObjectKind::Snapshot => {
                let answer = found.map(|()| SnapshotResponse::Nothing);
                self.snapshot(entry, SnapshotCall::Copying { snapshot: source }, answer, context.clone());
            }
            ObjectKind::Group => {}
            ObjectKind::Member => {
                let answer = found.map(|()| GroupResponse::Nothing);
                let group = source.name.owner();
                // The id of a member does not show which group of this name it belongs to.
                let ids = self.lives.keys().filter(|id| id.name == group).copied().collect::<Vec<_>>();
                if let [only] = ids[..] {
                    let step = Operation {
                        call: GroupCall::Copying { group: only },
                        answer,
                        context: context.clone(),
                    };
                    self.parts.groups.entry(group).or_default().push(Part { step, entry });
                }
            }
        }
    }

    /// The ids of which a list says something: those that are in it, and those that may have been there meanwhile.
    fn asked_about<S>(&self, kind: ObjectKind, list: &Entry, listed: &Listed<S>) -> Vec<Id> {
        let may_be_there = |life: &Life| life.since <= list.span.returned && list.span.invoked <= life.gone;
        let lives = self.lives.iter().filter(|(id, life)| id.name.kind == kind && may_be_there(life));
        let mut ids: Vec<Id> = lives.map(|(id, _)| *id).chain(listed.entries.keys().copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Removes objects that got the id of another one.
    fn take_out_shared(&mut self, history: &History) {
        for (place, entry) in history.entries.iter().enumerate() {
            let (Some(name), Some(id)) = (entry.call.makes(), entry.answer.id_given()) else { continue };
            if id.name == name {
                continue;
            }
            let is_first = |(_, other): &(usize, &Entry)| {
                other.call.makes() == Some(id.name) && other.answer.id_given() == Some(id)
            };
            let first = history.entries.iter().enumerate().find(is_first).map(|(place, _)| place);
            let may_be_deleted = history
                .entries
                .iter()
                .any(|other| deleted(&other.call) == Some(id) && other.span.invoked <= entry.span.returned);
            let breach = (first.is_some() && !may_be_deleted).then(|| same_id(id, name));
            let calls = first.into_iter().chain([place]).collect();
            self.parts.shared.push(Shared { name, breach, calls });
            for name in [name, id.name] {
                self.parts.volumes.remove(&name);
                self.parts.snapshots.remove(&name);
                self.parts.groups.remove(&name);
            }
        }
    }
}

/// Returns true if another call was under way at the same time. A call without an answer may still have been.
fn is_beside_another(history: &History, place: usize) -> bool {
    let span = history.entries[place].span;
    let overlaps = |other: &Entry| {
        let is_over = other.answer != Answer::Unknown && other.span.returned <= span.invoked;
        !is_over && other.span.invoked < span.returned
    };
    history.entries.iter().enumerate().any(|(at, other)| at != place && overlaps(other))
}

fn same_id(id: Id, name: Name) -> Breach {
    let (rule, message) = match id.name.kind {
        ObjectKind::Volume => {
            (&req::MSG_VOLUME_003, "two volumes that exist at the same time have the same id")
        }
        ObjectKind::Snapshot | ObjectKind::Group | ObjectKind::Member => {
            (&req::MSG_SNAPSHOT_003, "two snapshots that exist at the same time have the same id")
        }
    };
    Breach {
        rule,
        message: message.to_owned(),
        expected: format!("an id of its own for {name}"),
        actual: format!("the id of {id}"),
        code: None,
        leaves_doubt: true,
        damage: None,
    }
}

fn says_nothing(call: &Call, code: Code) -> Breach {
    Breach {
        rule: &req::GEN_CONC_003,
        message: format!("{} is rejected while other calls are under way", call.method()),
        expected: "OK, or ABORTED for a pending call, or the code for what another call has changed, such as NOT_FOUND".to_owned(),
        actual: code_name(code).to_owned(),
        code: Some(code),
        leaves_doubt: false,
        damage: None,
    }
}

/// While other calls are under way, a code that leaves it open what was done says no more than no answer.
fn definite(answer: &Answer<Response>) -> Answer<&Response> {
    if answer.leaves_open() { Answer::Unknown } else { answer.as_ref() }
}

/// The id of what a call deletes.
fn deleted(call: &Call) -> Option<Id> {
    match call {
        Call::Volume(VolumeCall::DeleteVolume { volume }) => Some(*volume),
        Call::Snapshot(SnapshotCall::DeleteSnapshot { snapshot }) => Some(*snapshot),
        Call::Group(GroupCall::DeleteVolumeGroupSnapshot { group }) => Some(*group),
        _ => None,
    }
}
