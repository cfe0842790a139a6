//! Simulates concurrent workers on a toy driver, repeatably.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use csi_model::Span;
use csi_model::answer::{Answer, Response, SnapshotResponse, VolumeResponse};
use csi_model::call::{Call, CreateSpec, List, SnapshotCall, VolumeCall};
use csi_model::call_context::DriverProfile;
use csi_model::history::{Entry, History};
use csi_model::names::{Id, Name, Node, Target};
use tonic::Code;

use super::story::{self, *};
use super::toy::{Toy, Trait};

/// The parameters of a simulated history.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of the random numbers.
    pub seed: u64,
    /// The number of calls.
    pub calls: usize,
    /// The number of concurrent workers.
    pub workers: u16,
    /// The limit on volumes.
    pub volumes: u16,
    /// The percentage of calls that take effect and lose their answer; as many lose their answer without effect.
    pub lost_percent: u64,
    /// The percentage of calls that are rejected with ABORTED.
    pub aborted_percent: u64,
    /// The traits of the driver.
    pub traits: BTreeSet<Trait>,
    /// The race conditions of the driver.
    pub races: BTreeSet<Race>,
}

impl Plan {
    /// Makes a plan in which only the seed varies.
    pub fn new(seed: u64) -> Plan {
        Plan {
            seed,
            calls: 400,
            workers: 6,
            volumes: 4,
            lost_percent: 3,
            aborted_percent: 5,
            traits: BTreeSet::new(),
            races: BTreeSet::new(),
        }
    }
}

/// Mistakes that only concurrent calls show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Race {
    /// The driver checks only before the call waits whether a name is free.
    OnNames,
    /// A list shows the state at the time of the previous list.
    StaleLists,
    /// Attachments are read when the call begins, and written back when it ends.
    OnAttachments,
}

/// A random generator whose numbers depend only on the seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Makes a generator.
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below the end.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end.max(1)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len() as u64) as usize).copied()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask,
    Do,
    Answer,
}

struct Pending {
    call: Call,
    invoked: u64,
    /// The state of the driver when the call began.
    before: Option<Toy>,
    answer: Answer<Response>,
}

/// Simulates a history.
pub fn simulate(plan: &Plan) -> History {
    let mut dice = Dice::new(plan.seed);
    let mut toy = Toy::with(plan.traits.iter().copied());
    let mut ids: BTreeMap<Name, Vec<Id>> = BTreeMap::new();
    let mut pending: BTreeMap<u16, Pending> = BTreeMap::new();
    let mut entries = Vec::new();
    let mut listed = toy.clone();
    let mut queue: BinaryHeap<Reverse<(u64, Event, u16)>> = BinaryHeap::new();
    (0..plan.workers).for_each(|worker| queue.push(Reverse((u64::from(worker), Event::Ask, worker))));
    while let Some(Reverse((now, event, worker))) = queue.pop() {
        match event {
            Event::Ask if entries.len() + pending.len() < plan.calls => {
                let call = ask(&mut dice, plan, &ids);
                let races = !plan.races.is_empty();
                let mut before = races.then(|| toy.clone());
                if call == Call::List(List::Volumes) && races {
                    before = Some(std::mem::replace(&mut listed, toy.clone()));
                }
                pending.insert(worker, Pending { call, invoked: now, before, answer: Answer::Unknown });
                queue.push(Reverse((now + 1 + dice.below(1000), Event::Do, worker)));
            }
            Event::Ask => {}
            Event::Do => {
                if let Some(pending) = pending.get_mut(&worker) {
                    pending.answer = answer(&mut dice, plan, &mut toy, pending);
                }
                queue.push(Reverse((now + 1 + dice.below(1000), Event::Answer, worker)));
            }
            Event::Answer => {
                let Some(Pending { call, invoked, answer, .. }) = pending.remove(&worker) else { continue };
                if let Some(id) = id_given(&answer) {
                    let ids = ids.entry(id.name).or_default();
                    if !ids.contains(&id) {
                        ids.push(id);
                    }
                }
                let micros = Duration::from_micros;
                let span = Span { invoked: micros(invoked), returned: micros(now) };
                entries.push(Entry { worker, call, answer, span });
                queue.push(Reverse((now + 1 + dice.below(200), Event::Ask, worker)));
            }
        }
    }
    History { profile: DriverProfile { settle: Duration::from_micros(500), ..story::profile() }, entries }
}

fn answer(dice: &mut Dice, plan: &Plan, toy: &mut Toy, pending: &Pending) -> Answer<Response> {
    let chance = dice.below(100);
    if chance < plan.lost_percent {
        toy.call(&pending.call);
        return Answer::Unknown;
    }
    if chance < 2 * plan.lost_percent {
        return Answer::Unknown;
    }
    if chance < 2 * plan.lost_percent + plan.aborted_percent {
        return Answer::Refused(Code::Aborted);
    }
    match (&pending.call, &pending.before) {
        (Call::List(List::Volumes), Some(before)) if plan.races.contains(&Race::StaleLists) => {
            before.clone().call(&pending.call)
        }
        (Call::Volume(VolumeCall::CreateVolume { name, .. }), Some(before))
            if plan.races.contains(&Race::OnNames) =>
        {
            if !before.has(*name) {
                toy.forget(*name);
            }
            toy.call(&pending.call)
        }
        (
            Call::Volume(
                VolumeCall::ControllerPublishVolume { volume, .. }
                | VolumeCall::ControllerUnpublishVolume { volume, .. },
            ),
            Some(before),
        ) if plan.races.contains(&Race::OnAttachments) => {
            toy.attach_as_in(before, *volume);
            toy.call(&pending.call)
        }
        _ => toy.call(&pending.call),
    }
}

/// Chooses a call on the ids that the workers know.
fn ask(dice: &mut Dice, plan: &Plan, ids: &BTreeMap<Name, Vec<Id>>) -> Call {
    let name = Name::volume(dice.below(u64::from(plan.volumes)) as u16);
    let snapshot = Name::snapshot(dice.below(u64::from(plan.volumes)) as u16);
    // It is mostly the newest id, and sometimes one that may be deleted.
    let mut newest = |name: &Name| {
        let ids = ids.get(name)?;
        if dice.below(8) == 0 { dice.pick(ids) } else { ids.last().copied() }
    };
    let (volume, cut) = (newest(&name), newest(&snapshot));
    let create = || VolumeCall::CreateVolume { name, wanted: wanted() };
    let Some(volume) = volume else { return create().into() };
    let (node, target) = (Node(dice.below(2) as u8), Target(0));
    match dice.below(24) {
        0..=3 => create().into(),
        4..=5 => delete(volume).into(),
        6..=8 => attach(volume, node).into(),
        9..=11 => detach(volume, node).into(),
        12 => stage(volume, node).into(),
        13 => unstage(volume, node).into(),
        14 => publish(volume, node, target).into(),
        15 => unpublish(volume, node, target).into(),
        16 => expand(volume, 2 * GIB).into(),
        17 => look_up(volume).into(),
        18 => Call::List(List::Volumes),
        19..=20 => SnapshotCall::CreateSnapshot { name: snapshot, volume }.into(),
        21 => cut.map_or(Call::List(List::Snapshots), |snapshot| drop_snapshot(snapshot).into()),
        22 => {
            cut.map_or(Call::List(List::Snapshots), |snapshot| SnapshotCall::GetSnapshot { snapshot }.into())
        }
        _ => match cut {
            Some(cut) => {
                VolumeCall::CreateVolume { name, wanted: CreateSpec { source: Some(cut), ..wanted() } }.into()
            }
            None => create().into(),
        },
    }
}

fn id_given(answer: &Answer<Response>) -> Option<Id> {
    match answer {
        Answer::Done(Response::Volume(VolumeResponse::Made(facts))) => facts.id,
        Answer::Done(Response::Snapshot(SnapshotResponse::Seen(facts))) => facts.id,
        _ => None,
    }
}
