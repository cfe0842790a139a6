//! Facts that the judgement of one object needs from others.

use super::{Model, Span};
use crate::answer::{Answer, SnapshotResponse, VolumeResponse};
use crate::bytes::Bytes;
use crate::call::{GroupCall, SnapshotCall, VolumeCall};
use crate::call_context::{CallContext, Presence, Time};
use crate::names::{Id, ObjectKind, Slot};
use crate::object::Object;
use crate::state::{Group, HasId, Held, Named, Volume};
use crate::state_set::StateSet;

impl Model {
    fn context(&self, span: Span) -> CallContext {
        let pending = self.volumes.values().any(|one| one.pending().next().is_some())
            || self.snapshots.values().any(|one| one.pending().next().is_some())
            || self.groups.values().any(|one| one.pending().next().is_some());
        let unanswered = self.volumes.values().any(StateSet::has_unanswered)
            || self.snapshots.values().any(StateSet::has_unanswered)
            || self.groups.values().any(StateSet::has_unanswered);
        let context = CallContext::new(self.profile.clone(), span.invoked, span.returned);
        CallContext { pending_elsewhere: pending, unanswered_elsewhere: unanswered, ..context }
    }

    pub(super) fn context_of_volume(
        &self,
        call: &VolumeCall,
        answer: &Answer<VolumeResponse>,
        span: Span,
    ) -> CallContext {
        let mut context = self.context(span);
        match call {
            VolumeCall::CreateVolume { wanted, .. } => {
                if let Some(source) = wanted.source {
                    context.source = self.presence(source, span.invoked);
                    context.source_bytes = self.size_of(source).unwrap_or_default();
                    context.source_in_use = self.may_be_in_use(source);
                    context.source_came_again = self.came_again(source);
                    context.bytes.insert(source, self.bytes(source));
                }
                context.owner = self.owner(Volume::id_given(answer), span);
            }
            VolumeCall::DeleteVolume { volume } => context.dependants = self.dependants(*volume),
            _ => {}
        }
        context
    }

    pub(super) fn context_of_snapshot(
        &self,
        call: &SnapshotCall,
        answer: &Answer<SnapshotResponse>,
        span: Span,
    ) -> CallContext {
        let mut context = self.context(span);
        match call {
            SnapshotCall::CreateSnapshot { volume, .. } => {
                context.source = self.presence(*volume, span.invoked);
                context.bytes.insert(*volume, self.bytes(*volume));
                context.owner = self.owner(super::Snapshot::id_given(answer), span);
            }
            SnapshotCall::DeleteSnapshot { snapshot } => context.dependants = self.dependants(*snapshot),
            SnapshotCall::GetSnapshot { .. }
            | SnapshotCall::Listing { .. }
            | SnapshotCall::Copying { .. } => {}
        }
        context
    }

    pub(super) fn context_of_group(&self, call: &GroupCall, span: Span) -> CallContext {
        let mut context = self.context(span);
        match call {
            GroupCall::CreateVolumeGroupSnapshot { volumes, .. } => {
                let presences = volumes.iter().map(|volume| self.presence(*volume, span.invoked));
                context.source = presences.min().unwrap_or_default();
                context.bytes = volumes.iter().map(|volume| (*volume, self.bytes(*volume))).collect();
            }
            GroupCall::DeleteVolumeGroupSnapshot { group } => context.dependants = self.dependants(*group),
            GroupCall::DeleteMember { member, .. } => context.dependants = self.dependants(*member),
            GroupCall::GetVolumeGroupSnapshot { .. } | GroupCall::Copying { .. } => {}
        }
        context
    }

    /// States if an object exists that has the id given in an answer.
    fn owner(&self, given: Option<Id>, span: Span) -> Presence {
        given.map_or(Presence::No, |id| self.presence(id, span.invoked))
    }

    /// States if an object exists and can be copied.
    pub(crate) fn presence(&self, id: Id, now: Time) -> Presence {
        let name = id.name.owner();
        if self.is_lost(name) {
            return Presence::Maybe;
        }
        match id.name.kind {
            ObjectKind::Volume => presence(&self.volume(name), id, now, |_| true),
            ObjectKind::Snapshot => presence(&self.snapshot(name), id, now, |life| life.ready),
            ObjectKind::Group => presence(&self.group(name), id, now, |life| life.ready),
            ObjectKind::Member => member_presence(&self.group(name), id, now),
        }
    }

    /// Returns true if a volume or a snapshot has the id of one that was deleted.
    fn came_again(&self, id: Id) -> bool {
        fn is_again<T>(states: &[Named<T>], id: Id) -> bool {
            let was = |state: &Named<T>| state.fading.is_some_and(|fading| fading.id == Some(id));
            states.iter().any(|state| state.life.is_some() && was(state))
        }
        match id.name.kind {
            ObjectKind::Volume => is_again(&self.volume(id.name), id),
            ObjectKind::Snapshot => is_again(&self.snapshot(id.name), id),
            ObjectKind::Group | ObjectKind::Member => false,
        }
    }

    /// Returns true if some node may use a volume.
    fn may_be_in_use(&self, id: Id) -> bool {
        let used =
            |volume: Volume| volume.is_left_in_use(id) || volume.life.is_some_and(|life| life.is_in_use());
        self.is_lost(id.name)
            || (id.name.kind == ObjectKind::Volume && self.volume(id.name).into_iter().any(used))
    }

    /// States if there are snapshots of a volume, or volumes made from it, or from a snapshot or a group.
    fn dependants(&self, id: Id) -> Presence {
        let is_it = |source: Id| {
            source == id || (source.name.kind == ObjectKind::Member && source.name.owner() == id.name)
        };
        let volumes =
            self.volumes.values().flat_map(|one| one.states()).filter_map(|one| one.life?.wanted.source);
        let snapshots =
            self.snapshots.values().flat_map(|one| one.states()).filter_map(|one| Some(one.life?.volume));
        let groups =
            self.groups.values().flat_map(|one| one.states()).filter_map(|one| Some(one.life?.volumes));
        let is_source = volumes.chain(snapshots).chain(groups.flatten()).any(is_it);
        if is_source || !self.lost.is_empty() { Presence::Maybe } else { Presence::No }
    }

    /// The content of an object, as far as all its possible states agree.
    fn bytes(&self, id: Id) -> Bytes {
        let name = id.name.owner();
        if self.is_lost(name) {
            return Bytes::default();
        }
        let known: Vec<Bytes> = match id.name.kind {
            ObjectKind::Volume => {
                self.volume(name).into_iter().filter_map(|one| Some(one.life?.bytes)).collect()
            }
            ObjectKind::Snapshot => {
                self.snapshot(name).into_iter().filter_map(|one| Some(one.life?.bytes)).collect()
            }
            ObjectKind::Group => Vec::new(),
            ObjectKind::Member => self.group(name).iter().filter_map(|one| member_bytes(one, id)).collect(),
        };
        known.into_iter().reduce(|one, other| one.common(&other)).unwrap_or_default()
    }

    /// Marks a place as unknown in copies that may be under way: they may or may not contain the write.
    pub(super) fn mark_copies_unknown(&mut self, volume: Id, slot: Slot) {
        let blur = |context: &mut CallContext| {
            if let Some(bytes) = context.bytes.get_mut(&volume) {
                bytes.blur(slot);
            }
        };
        self.volumes.values_mut().for_each(|one| one.touch_pending(blur));
        self.snapshots.values_mut().for_each(|one| one.touch_pending(blur));
        self.groups.values_mut().for_each(|one| one.touch_pending(blur));
    }
}

fn presence<T: HasId>(states: &[Named<T>], id: Id, now: Time, is_ready: impl Fn(&T) -> bool) -> Presence {
    let of = |state: &Named<T>| match state.find(id, now) {
        Held::Here(life) if is_ready(life) => Presence::Yes,
        // An object whose id was never returned may be the one with this id.
        Held::Gone if state.life.as_ref().is_none_or(|life| life.id().is_some()) => Presence::No,
        Held::Here(_) | Held::Fading | Held::Gone => Presence::Maybe,
    };
    all_agree(states.iter().map(of))
}

/// Members stay and go with their group, but for those deleted alone.
fn member_presence(states: &[Group], member: Id, now: Time) -> Presence {
    let of = |group: &Group| match &group.life {
        None if group.is_fading(now) => Presence::Maybe,
        None => Presence::No,
        Some(life) => match life.members.as_ref().map(|members| members.contains_key(&member)) {
            Some(true) if life.ready && !life.thinned => Presence::Yes,
            Some(_) | None => Presence::Maybe,
        },
    };
    all_agree(states.iter().map(of))
}

fn all_agree(mut presences: impl Iterator<Item = Presence>) -> Presence {
    let first = presences.next().unwrap_or_default();
    if presences.all(|presence| presence == first) { first } else { Presence::Maybe }
}

fn member_bytes(group: &Group, member: Id) -> Option<Bytes> {
    let life = group.life.as_ref()?;
    let volume = (*life.members.as_ref()?.get(&member)?)?;
    life.bytes.get(&volume).cloned()
}
