//! Makes a failing sequence as short and as plain as it can be and still fail: no call can go, not even two at once, and
//! none can ask for less.
//!
//! The tried calls depend only on the sequence and on the failures so far.

mod simplify;
mod turn;

use std::collections::{BTreeMap, BTreeSet};

use crate::sequence::{ExecutedStep, Step};

use csi_model::call::Call;
use csi_model::call_context::DriverProfile;
use csi_model::names::{Id, Name, ObjectKind};
use turn::Turn;

/// Longest sequence of which each two calls are left out together.
const PAIRS_LENGTH_MAX: usize = 12;

/// Offers ever simpler sequences, each made from the simplest one so far that is known to fail.
#[derive(Clone, Debug)]
pub(crate) struct Shrinker<'a> {
    profile: &'a DriverProfile,
    /// The last call is the one at which it fails.
    smallest: Vec<ExecutedStep>,
    pass: Pass,
    /// True if the passes have helped since they were begun.
    helped: bool,
}

/// The candidate that is tried next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// Only the calls about the object of the last one.
    Related,
    /// All calls except this many from that place on.
    Part {
        size: usize,
        at: usize,
    },
    /// All but these two calls.
    Pair {
        one: usize,
        other: usize,
    },
    /// The call there, asking for less.
    Plainer {
        at: usize,
        way: usize,
    },
    /// The calls with the first names, nodes and places.
    Renamed,
    Done,
}

impl<'a> Shrinker<'a> {
    /// Begins with the calls of a sequence that fails at the last one.
    pub(crate) fn new(failing: Vec<ExecutedStep>, profile: &'a DriverProfile) -> Shrinker<'a> {
        let smallest = turn::marked(failing, profile);
        Shrinker { profile, smallest, pass: Pass::Related, helped: false }
    }

    /// The simplest sequence that is known to fail.
    pub(crate) fn into_smallest(self) -> Vec<Step> {
        self.smallest.into_iter().map(|link| link.doing).collect()
    }

    /// The next sequence to try, if there is one.
    pub(crate) fn candidate(&mut self) -> Option<Vec<Step>> {
        while self.pass != Pass::Done {
            match self.proposal() {
                Some(doings) if !self.is_smallest(&doings) => return Some(doings),
                _ => self.pass = self.next(),
            }
        }
        None
    }

    /// Takes the result of the candidate: the calls that were made, if it fails as well.
    pub(crate) fn take_result(&mut self, fails: Option<Vec<ExecutedStep>>) {
        match fails {
            // A candidate of equal length has to be simpler, or shrinking would not end.
            Some(made) if self.is_smaller(&made) => {
                self.smallest = turn::marked(made, self.profile);
                self.helped = true;
                if self.pass == Pass::Related || self.pass == Pass::Renamed {
                    self.pass = self.next();
                }
            }
            _ => self.pass = self.next(),
        }
    }

    fn is_smallest(&self, doings: &[Step]) -> bool {
        self.smallest.iter().map(|link| &link.doing).eq(doings)
    }

    fn is_smaller(&self, made: &[ExecutedStep]) -> bool {
        made.len() < self.smallest.len()
            || (made.len() == self.smallest.len()
                && matches!(self.pass, Pass::Plainer { .. } | Pass::Renamed))
    }

    /// The sequence of the present pass, if there is one.
    fn proposal(&self) -> Option<Vec<Step>> {
        let last = self.smallest.len().checked_sub(1)?;
        let without = |left_out: &dyn Fn(usize) -> bool| {
            self.arranged(
                self.smallest.iter().enumerate().filter(|(at, _)| !left_out(*at)).map(|(_, one)| one),
            )
        };
        match self.pass {
            Pass::Related => {
                let names = self.related()?;
                self.arranged(self.smallest.iter().filter(|link| is_about(&link.doing.call, &names)))
            }
            Pass::Part { size, at } if at < last => {
                without(&|here| (at..at + size).contains(&here) && here < last)
            }
            Pass::Pair { one, other } if other < last => without(&|here| here == one || here == other),
            Pass::Plainer { at, way } => {
                let mut doings = self.clone().into_smallest();
                let doing = doings.get_mut(at)?;
                *doing = simplify::ways(doing, self.profile).into_iter().nth(way)?;
                Some(doings)
            }
            Pass::Renamed => Some(simplify::renamed(self.clone().into_smallest())),
            Pass::Part { .. } | Pass::Pair { .. } | Pass::Done => None,
        }
    }

    /// The next pass after one that does not help.
    fn next(&mut self) -> Pass {
        let last = self.smallest.len().saturating_sub(1);
        match self.pass {
            Pass::Related => Pass::Part { size: last.div_ceil(2).max(1), at: 0 },
            Pass::Part { size, at } if at + size < last => Pass::Part { size, at: at + size },
            Pass::Part { size, .. } if size > 1 => Pass::Part { size: size / 2, at: 0 },
            Pass::Part { .. } if self.smallest.len() <= PAIRS_LENGTH_MAX => Pass::Pair { one: 0, other: 1 },
            Pass::Pair { one, other } if other + 1 < last => Pass::Pair { one, other: other + 1 },
            Pass::Pair { one, .. } if one + 2 < last => Pass::Pair { one: one + 1, other: one + 2 },
            Pass::Part { .. } | Pass::Pair { .. } => Pass::Plainer { at: 0, way: 0 },
            Pass::Plainer { at, way } => {
                let ways =
                    self.smallest.get(at).map_or(0, |link| simplify::ways(&link.doing, self.profile).len());
                if way + 1 < ways {
                    Pass::Plainer { at, way: way + 1 }
                } else if at < last {
                    Pass::Plainer { at: at + 1, way: 0 }
                } else if std::mem::take(&mut self.helped) {
                    Pass::Part { size: 1, at: 0 }
                } else {
                    Pass::Renamed
                }
            }
            Pass::Renamed | Pass::Done => Pass::Done,
        }
    }

    /// The names that the last call is about, and those of what these were made from. `None` if it is about all.
    fn related(&self) -> Option<BTreeSet<Name>> {
        let last = &self.smallest.last()?.doing.call;
        last.subject()?;
        let calls: Vec<&Call> = self.smallest.iter().map(|link| &link.doing.call).collect();
        Some(related(names_of(last), &calls))
    }

    /// These calls, with the numbers that ids have when only these are made, and without those that speak of what was never
    /// made, or come before what has to come first. `None` if the last one would be among them.
    fn arranged<'m>(&self, kept: impl Iterator<Item = &'m ExecutedStep>) -> Option<Vec<Step>> {
        let (mut turn, mut numbers, mut doings) = (Turn::new(self.profile), Numbers::default(), Vec::new());
        let last = self.smallest.last()?;
        let mut has_last = false;
        for link in kept {
            let mut doing = link.doing.clone();
            let is_known = doing.call.ids_mut().into_iter().all(|id| numbers.renumber(id));
            if !is_known || (turn.is_early(&doing.call) && !link.is_early) {
                continue;
            }
            turn.take(&doing.call);
            numbers.given(link.gives);
            doings.push(doing);
            has_last |= std::ptr::eq(link, last);
        }
        has_last.then_some(doings)
    }
}

/// Renumbers the ids of a sequence after calls were dropped: `now` has the new id for each old one.
#[derive(Debug, Default)]
struct Numbers {
    now: BTreeMap<Id, Id>,
    given: BTreeMap<Name, u16>,
}

impl Numbers {
    fn given(&mut self, id: Option<Id>) {
        if let Some(id) = id
            && !self.now.contains_key(&id)
        {
            let nth = self.given.entry(id.name).or_default();
            self.now.insert(id, id.name.id(*nth));
            *nth += 1;
        }
    }

    /// Gives an id its number. Returns false if no object has it. Only its group knows the ids of members.
    fn renumber(&self, id: &mut Id) -> bool {
        match self.now.get(id) {
            Some(now) => *id = *now,
            None => return id.name.kind == ObjectKind::Member,
        }
        true
    }
}

/// These names, and those of what the things under them were made from.
pub(crate) fn related(mut names: BTreeSet<Name>, calls: &[&Call]) -> BTreeSet<Name> {
    loop {
        let makes_it = |call: &&&Call| call.makes().is_some_and(|name| names.contains(&name));
        let more: BTreeSet<Name> = calls.iter().filter(makes_it).flat_map(|call| names_of(call)).collect();
        if more.is_subset(&names) {
            return names;
        }
        names.extend(more);
    }
}

/// The names of everything that a call is about.
fn names_of(call: &Call) -> BTreeSet<Name> {
    call.ids().into_iter().map(|id| id.name.owner()).chain(call.makes()).collect()
}

pub(crate) fn is_about(call: &Call, names: &BTreeSet<Name>) -> bool {
    call.subject().is_some_and(|subject| names.contains(&subject.name()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use csi_harness::config::AccessType;
    use csi_harness::prelude::Mode;
    use csi_harness::protocol::capability::Capability;

    use super::*;
    use crate::how::CallMode;
    use csi_model::call::{CreateSpec, List, Size, SnapshotCall, Usage, VolumeCall};
    use csi_model::names::{Node, Target};

    const USAGE: Usage = Usage { access: AccessType::Mount, mode: Mode::SingleNodeWriter };
    const SIZE: i64 = 1 << 30;
    const TRIES_MAX: usize = 200;

    fn profile() -> DriverProfile {
        DriverProfile {
            capabilities: Capability::ALL.iter().copied().collect(),
            settle: Duration::ZERO,
            lists_lag: false,
            was_ended: false,
            usages: vec![USAGE],
            size_bytes: SIZE,
            larger_bytes: 2 * SIZE,
            names: 4,
            nodes: 2,
            targets: 2,
            parameters: 1,
            mutable_parameters: 0,
            known: Default::default(),
        }
    }

    fn create(number: u16) -> Call {
        sized(number, Size::at_least(SIZE))
    }

    fn sized(number: u16, size: Size) -> Call {
        VolumeCall::CreateVolume { name: Name::volume(number), wanted: CreateSpec::of(size, USAGE) }.into()
    }

    fn delete(volume: Id) -> Call {
        VolumeCall::DeleteVolume { volume }.into()
    }

    fn expand(volume: Id, bytes: i64) -> Call {
        VolumeCall::ControllerExpandVolume { volume, size: Size::at_least(bytes) }.into()
    }

    /// A pod on the second node, and back.
    fn pod(volume: Id) -> Vec<Call> {
        let (node, target, usage, readonly) = (Node(1), Target(1), USAGE, false);
        let calls = [
            VolumeCall::ControllerPublishVolume { volume, node, usage, readonly },
            VolumeCall::NodeStageVolume { volume, node, usage },
            VolumeCall::NodePublishVolume { volume, node, target, usage, readonly },
            VolumeCall::NodeUnpublishVolume { volume, node, target },
            VolumeCall::NodeUnstageVolume { volume, node },
            VolumeCall::ControllerUnpublishVolume { volume, node: Some(node) },
        ];
        calls.into_iter().map(Call::from).collect()
    }

    /// The calls with the ids that a right driver gives: a name that is free gives a new id.
    fn made(doings: Vec<Step>) -> Vec<ExecutedStep> {
        let mut there: BTreeMap<Name, Id> = BTreeMap::new();
        let mut given: BTreeMap<Name, u16> = BTreeMap::new();
        let mut links = Vec::new();
        for doing in doings {
            let known = |id: &Id| given.get(&id.name).is_some_and(|given| id.nth < *given);
            if !doing.call.ids().iter().all(known) {
                continue;
            }
            let gives = doing.call.makes().map(|name| {
                *there.entry(name).or_insert_with(|| {
                    let nth = given.entry(name).or_default();
                    *nth += 1;
                    name.id(*nth - 1)
                })
            });
            if let Call::Volume(VolumeCall::DeleteVolume { volume }) = doing.call {
                there.retain(|_, id| *id != volume);
            }
            links.push(ExecutedStep { doing, gives, is_early: false, changes: Vec::new() });
        }
        links
    }

    /// Shrinks calls that fail if the last one does after those before it, and writes the result as one line.
    fn shrunk(calls: Vec<Call>, fails: impl Fn(&[Call]) -> bool) -> String {
        let profile = profile();
        let mut shrinker = Shrinker::new(made(calls.into_iter().map(Step::once).collect()), &profile);
        let mut tries = 0;
        while let Some(doings) = shrinker.candidate() {
            let links = made(doings);
            let calls: Vec<Call> = links.iter().map(|link| link.doing.call.clone()).collect();
            shrinker.take_result(
                (0..calls.len()).find(|last| fails(&calls[..=*last])).map(|last| links[..=last].to_vec()),
            );
            tries += 1;
        }
        assert!(tries <= TRIES_MAX, "{tries}");
        let left: Vec<String> = shrinker.into_smallest().iter().map(|doing| doing.call.to_string()).collect();
        left.join(", ")
    }

    fn expands_what_is_deleted(calls: &[Call]) -> bool {
        let Some(Call::Volume(VolumeCall::ControllerExpandVolume { volume, .. })) = calls.last() else {
            return false;
        };
        calls.contains(&delete(*volume))
    }

    #[test]
    fn what_is_needed_is_left_under_the_first_names() {
        let second = Name::volume(2).id(1);
        let other = Name::volume(0).id(0);
        let calls = [
            vec![create(0), create(2)],
            pod(other),
            vec![delete(Name::volume(2).id(0)), sized(2, Size { required_bytes: 5, limit_bytes: 7 })],
            pod(second),
            vec![
                Call::List(List::Volumes),
                delete(other),
                delete(second),
                create(3),
                expand(second, 3 * SIZE),
            ],
        ];
        assert_eq!(
            shrunk(calls.concat(), expands_what_is_deleted),
            "CreateVolume v1 1Gi, DeleteVolume v1, ControllerExpandVolume v1 to 2Gi"
        );
    }

    #[test]
    fn what_can_only_go_together_goes() {
        let volume = Name::volume(0).id(0);
        let snapshot = Name::snapshot(0).id(0);
        let cut = SnapshotCall::CreateSnapshot { name: snapshot.name, volume };
        let calls = vec![
            create(0),
            Call::Snapshot(cut),
            expand(volume, 2 * SIZE),
            Call::Snapshot(SnapshotCall::DeleteSnapshot { snapshot }),
            delete(volume),
        ];
        let has = |calls: &[Call], method: &str| calls.iter().any(|call| call.method() == method);
        let fails = |calls: &[Call]| {
            calls.last() == Some(&delete(volume))
                && has(calls, "CreateSnapshot") == has(calls, "ControllerExpandVolume")
        };
        assert_eq!(shrunk(calls, fails), "CreateVolume v1 1Gi, DeleteVolume v1");
    }

    #[test]
    fn nothing_is_asked_for_out_of_turn() {
        let volume = Name::volume(0).id(0);
        let calls = [vec![create(0)], pod(volume)[..4].to_vec()].concat();
        let last = calls.last().cloned();
        let is_unpublish =
            |call: Option<&Call>| call.is_some_and(|call| call.method() == "NodeUnpublishVolume");
        assert!(is_unpublish(last.as_ref()));
        let publishes = |calls: &[Call]| {
            is_unpublish(calls.last()) && calls.iter().any(|call| call.method() == "NodePublishVolume")
        };
        let left = shrunk(calls, publishes);
        assert_eq!(
            left.split(", ").count(),
            5,
            "publishing comes after staging, and that after attaching: {left}"
        );
        assert!(left.ends_with("NodeUnpublishVolume v1 on node 1 at target 1"), "{left}");
    }

    #[test]
    fn one_call_stays_one() {
        assert_eq!(shrunk(vec![create(0)], |calls| !calls.is_empty()), "CreateVolume v1 1Gi");
        let profile = profile();
        let insisting = Step { call: create(0), how: CallMode::Retried };
        let mut shrinker = Shrinker::new(made(vec![insisting]), &profile);
        let plainer = shrinker.candidate();
        assert_eq!(plainer, Some(vec![Step::once(create(0))]));
        shrinker.take_result(plainer.map(made));
        assert_eq!(shrinker.candidate(), None);
    }
}
