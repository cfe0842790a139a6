//! The states of all objects of a driver, as far as its answers show them.

mod cross_object;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::answer::{Answer, GroupResponse, Listed, Response, SnapshotResponse, VolumeResponse};
use crate::call::{Call, GroupCall, List, SnapshotCall, VolumeCall};
use crate::call_context::{CallContext, DriverProfile, Time};
use crate::expectation::{Breach, Finding};
use crate::judge;
use crate::names::{Id, Name, Node};
use crate::object::Object;
use crate::state::{Group, HasId, Named, Snapshot, Volume};
use crate::state_set::{Impossible, Operation, StateSet};

/// The state that a driver keeps, as far as its answers show it.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) profile: Arc<DriverProfile>,
    pub(crate) volumes: BTreeMap<Name, StateSet<Volume>>,
    pub(crate) snapshots: BTreeMap<Name, StateSet<Snapshot>>,
    pub(crate) groups: BTreeMap<Name, StateSet<Group>>,
    /// Names of which nothing is known any more: a rule was broken, or too much is possible.
    lost: BTreeSet<Name>,
}

/// The times at which a call was sent, and answered or given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Sent.
    pub invoked: Time,
    /// Answered or given up.
    pub returned: Time,
}

/// The judgement on a call that was applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepResult {
    /// Recommendations that were not kept, and answers that are only tolerated.
    pub remarks: Vec<Breach>,
    /// The reason why the object is not judged any more.
    pub stop: Option<Impossible>,
}

impl StepResult {
    fn add(&mut self, other: StepResult) {
        self.remarks.extend(other.remarks);
        self.stop = self.stop.take().or(other.stop);
    }
}

impl From<Finding> for StepResult {
    fn from(finding: Finding) -> StepResult {
        match finding {
            Finding::Fits => StepResult::default(),
            Finding::UnusualInput(breach) => StepResult { remarks: vec![breach], stop: None },
            Finding::Wrong(breaches) => {
                let first = breaches.into_iter().next();
                StepResult {
                    remarks: Vec::new(),
                    stop: first.map(|breach| Impossible::Wrong(Box::new(breach))),
                }
            }
        }
    }
}

impl Model {
    /// A driver that keeps nothing yet of what the run may make.
    pub fn new(profile: DriverProfile) -> Model {
        Model {
            profile: Arc::new(profile),
            volumes: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            groups: BTreeMap::new(),
            lost: BTreeSet::new(),
        }
    }

    /// The capabilities and settings of the driver.
    pub fn profile(&self) -> &DriverProfile {
        &self.profile
    }

    /// The possible volumes under a name.
    pub fn volume(&self, name: Name) -> Vec<Volume> {
        states(&self.volumes, name)
    }

    /// The possible snapshots under a name.
    pub fn snapshot(&self, name: Name) -> Vec<Snapshot> {
        states(&self.snapshots, name)
    }

    /// The possible group snapshots under a name.
    pub fn group(&self, name: Name) -> Vec<Group> {
        states(&self.groups, name)
    }

    /// Returns true if the state under a name is unknown for good.
    pub fn is_lost(&self, name: Name) -> bool {
        self.lost.contains(&name)
    }

    /// The answers that are right, in each of the states that are possible.
    pub fn expected(&self, call: &Call, now: Time) -> Vec<String> {
        let span = Span { invoked: now, returned: Time::MAX };
        let expected = match call {
            Call::Volume(call) => expected(
                &self.volume(call.subject().name()),
                call,
                &self.context_of_volume(call, &Answer::Unknown, span),
            ),
            Call::Snapshot(call) => {
                let context = self.context_of_snapshot(call, &Answer::Unknown, span);
                expected(&self.snapshot(call.subject().name()), call, &context)
            }
            Call::Group(call) => {
                expected(&self.group(call.subject().name()), call, &self.context_of_group(call, span))
            }
            Call::List(list) => [judge::list(*list).to_string()].into(),
        };
        expected.into_iter().collect()
    }

    /// Applies a call that was made while no other was under way.
    pub fn take(&mut self, call: &Call, answer: &Answer<Response>, span: Span) -> StepResult {
        match call {
            Call::Volume(call) => self.take_volume(call, about_volume(answer), span),
            Call::Snapshot(call) => self.take_snapshot(call, about_snapshot(answer), span),
            Call::Group(call) => self.take_group(call, about_group(answer), span),
            Call::List(list) => match answer {
                Answer::Done(Response::Volumes(listed)) => self.take_volumes(*list, listed, span),
                Answer::Done(Response::Snapshots(listed)) => self.take_snapshots(listed, span),
                _ => judge::list(*list).of(list.method(), answer).beside(&self.profile.known).into(),
            },
        }
    }

    /// A node was rebooted: everything that was staged or published on it is gone.
    pub fn reboot(&mut self, node: Node) {
        let forget = |volume: &mut Volume| {
            if let Some(life) = &mut volume.life {
                life.staged.remove(&node);
                life.published.retain(|(on, _), _| *on != node);
                life.torn.retain(|(on, _)| *on != node);
            }
            volume.leave(|_, places| {
                places.staged.remove(&node);
                places.published.retain(|(on, _)| *on != node);
            });
        };
        self.volumes.values_mut().for_each(|volume| volume.apply_event(forget));
    }

    fn take_volume(&mut self, call: &VolumeCall, answer: Answer<VolumeResponse>, span: Span) -> StepResult {
        let context = self.context_of_volume(call, &answer, span);
        if let VolumeCall::Write { volume, slot, .. } = call {
            self.mark_copies_unknown(*volume, *slot);
        }
        let name = call.subject().name();
        self.take_object(|model| &mut model.volumes, name, Operation { call: call.clone(), answer, context })
    }

    fn take_snapshot(
        &mut self,
        call: &SnapshotCall,
        answer: Answer<SnapshotResponse>,
        span: Span,
    ) -> StepResult {
        let context = self.context_of_snapshot(call, &answer, span);
        let name = call.subject().name();
        self.take_object(
            |model| &mut model.snapshots,
            name,
            Operation { call: call.clone(), answer, context },
        )
    }

    fn take_group(&mut self, call: &GroupCall, answer: Answer<GroupResponse>, span: Span) -> StepResult {
        let context = self.context_of_group(call, span);
        let name = call.subject().name();
        self.take_object(|model| &mut model.groups, name, Operation { call: call.clone(), answer, context })
    }

    /// Applies a call to its object, unless the state of the object is unknown. If that state becomes unknown, objects that depend on it
    /// are not judged any more.
    fn take_object<O: Object>(
        &mut self,
        objects: fn(&mut Model) -> &mut BTreeMap<Name, StateSet<O>>,
        name: Name,
        step: Operation<O>,
    ) -> StepResult {
        if self.is_lost(name) {
            return StepResult::default();
        }
        // If the id belonged to another name before, later calls by that id may mean either object.
        let other = O::id_given(&step.answer).map(|id| id.name).filter(|other| *other != name);
        if other.is_some() {
            self.lost.insert(name);
        }
        let stop = match objects(self).entry(name).or_default().take(step) {
            Ok(remark) => return StepResult { remarks: remark.into_iter().collect(), stop: None },
            Err(stop) => stop,
        };
        [Some(name), other].into_iter().flatten().for_each(|name| self.lose(name));
        match stop {
            Impossible::Known(breach) => StepResult { remarks: vec![*breach], stop: None },
            stop => StepResult { remarks: Vec::new(), stop: Some(stop) },
        }
    }

    /// Makes the state under a name unknown for good, and that of everything made from it.
    fn lose(&mut self, name: Name) {
        if !self.lost.insert(name) {
            return;
        }
        let is_source = |id: &Id| id.name.owner() == name;
        let volumes = made_from(&self.volumes, |life| life.wanted.source.iter().any(is_source));
        let snapshots = made_from(&self.snapshots, |life| is_source(&life.volume));
        let groups = made_from(&self.groups, |life| life.volumes.iter().any(is_source));
        for name in [volumes, snapshots, groups].concat() {
            self.lose(name);
        }
    }

    /// A list says something of every volume.
    fn take_volumes(&mut self, list: List, listed: &Listed<VolumeResponse>, span: Span) -> StepResult {
        let mut taken = StepResult::default();
        for volume in asked_about(&self.volumes, listed) {
            let response = listed.entries.get(&volume).cloned();
            let response = response.unwrap_or(VolumeResponse::Unlisted { pages: listed.pages });
            taken.add(self.take_volume(&list.of_volume(volume), Answer::Done(response), span));
        }
        taken
    }

    /// A list says something of every snapshot.
    fn take_snapshots(&mut self, listed: &Listed<SnapshotResponse>, span: Span) -> StepResult {
        let mut taken = StepResult::default();
        for snapshot in asked_about(&self.snapshots, listed) {
            let response = listed.entries.get(&snapshot).cloned();
            let response = response.unwrap_or(SnapshotResponse::Unlisted { pages: listed.pages });
            taken.add(self.take_snapshot(&SnapshotCall::Listing { snapshot }, Answer::Done(response), span));
        }
        taken
    }
}

fn states<O: Object>(objects: &BTreeMap<Name, StateSet<O>>, name: Name) -> Vec<O> {
    objects.get(&name).map_or_else(|| vec![O::default()], StateSet::states)
}

/// The names under which there may be something of this kind.
fn made_from<T: Clone>(objects: &BTreeMap<Name, StateSet<Named<T>>>, is_it: impl Fn(&T) -> bool) -> Vec<Name>
where
    Named<T>: Object,
{
    let is_made = |possible: &StateSet<Named<T>>| {
        possible.states().iter().any(|state| state.life.as_ref().is_some_and(&is_it))
    };
    objects.iter().filter(|(_, possible)| is_made(possible)).map(|(name, _)| *name).collect()
}

fn expected<O: Object>(states: &[O], call: &O::Call, context: &CallContext) -> BTreeSet<String> {
    states.iter().map(|state| state.judge(call, context).to_string()).collect()
}

/// The ids of which a list has to say something: those that are in it, and those that may exist.
fn asked_about<T: HasId + Clone, S>(
    objects: &BTreeMap<Name, StateSet<Named<T>>>,
    listed: &Listed<S>,
) -> BTreeSet<Id>
where
    Named<T>: Object,
{
    let there = objects.values().flat_map(StateSet::states).filter_map(|named| named.life?.id());
    there.chain(listed.entries.keys().copied()).collect()
}

fn about_volume(answer: &Answer<Response>) -> Answer<VolumeResponse> {
    answer.as_ref().map(|response| match response {
        Response::Volume(response) => response.clone(),
        Response::Snapshot(_) | Response::Group(_) | Response::Volumes(_) | Response::Snapshots(_) => {
            VolumeResponse::Nothing
        }
    })
}

fn about_snapshot(answer: &Answer<Response>) -> Answer<SnapshotResponse> {
    answer.as_ref().map(|response| match response {
        Response::Snapshot(response) => response.clone(),
        Response::Volume(_) | Response::Group(_) | Response::Volumes(_) | Response::Snapshots(_) => {
            SnapshotResponse::Nothing
        }
    })
}

fn about_group(answer: &Answer<Response>) -> Answer<GroupResponse> {
    answer.as_ref().map(|response| match response {
        Response::Group(response) => response.clone(),
        Response::Volume(_) | Response::Snapshot(_) | Response::Volumes(_) | Response::Snapshots(_) => {
            GroupResponse::Nothing
        }
    })
}
