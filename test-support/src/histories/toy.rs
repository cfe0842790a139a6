//! A toy driver for histories: it does one call after another, and makes mistakes on request.

use std::collections::{BTreeMap, BTreeSet};

use csi_model::answer::{
    Answer, Found, GroupResponse, Listed, Response, SnapshotResponse, SourceReported, VolumeFacts,
    VolumeResponse,
};
use csi_model::call::{Call, CreateSpec, GroupCall, List, SnapshotCall, Usage, VolumeCall};
use csi_model::names::{Id, Name, Node, ObjectKind, Slot, Stamp, Target};
use tonic::Code;

use super::story::*;

/// Behaviours of real drivers, legal ones first and then mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trait {
    // Legal:
    /// A volume of a reused name gets its former id.
    IdsReturnWithNames,
    /// A volume that has snapshots is not deleted.
    SnapshotsBlockDeletion,
    /// A snapshot that has copies is not deleted.
    CopiesPinSnapshots,
    /// A volume is deleted although it is in use.
    VolumesInUseAreDeleted,
    /// A volume may be at two paths of a node.
    SecondPathsAllowed,
    /// A volume serves many nodes, even if one was requested.
    ForManyNodesByNature,
    /// Answers leave sizes out.
    SizesUnknown,
    /// Lists have small pages.
    SmallPages,
    /// A call that undoes another answers NOT_FOUND for an unknown object.
    UnknownIsNotFound,
    // Mistakes:
    /// A repeated CreateVolume makes a second volume.
    ForgetsNames,
    /// DeleteVolume answers OK and does nothing.
    DeletesNothing,
    /// ControllerPublishVolume succeeds for a deleted volume.
    AttachesWhatIsGone,
    /// Written data is lost.
    LosesWrites,
    /// A copy is empty.
    CopiesAreEmpty,
    /// ControllerUnpublishVolume detaches a volume from all nodes.
    DetachesEverywhere,
    /// The last entry of a list is missing.
    ListsWithoutTheLast,
    /// A repeated CreateVolume returns another context.
    ChangesContext,
    /// Snapshots of different volumes can share a name.
    SnapshotsOfAnyVolumeShareAName,
}

impl Trait {
    /// The behaviours that the specification allows.
    pub const LEGAL: [Trait; 9] = [
        Trait::IdsReturnWithNames,
        Trait::SnapshotsBlockDeletion,
        Trait::CopiesPinSnapshots,
        Trait::VolumesInUseAreDeleted,
        Trait::SecondPathsAllowed,
        Trait::ForManyNodesByNature,
        Trait::SizesUnknown,
        Trait::SmallPages,
        Trait::UnknownIsNotFound,
    ];
    /// The behaviours that the specification forbids.
    pub const MISTAKES: [Trait; 9] = [
        Trait::ForgetsNames,
        Trait::DeletesNothing,
        Trait::AttachesWhatIsGone,
        Trait::LosesWrites,
        Trait::CopiesAreEmpty,
        Trait::DetachesEverywhere,
        Trait::ListsWithoutTheLast,
        Trait::ChangesContext,
        Trait::SnapshotsOfAnyVolumeShareAName,
    ];
}

#[derive(Clone, Debug)]
struct Disk {
    id: Id,
    wanted: CreateSpec,
    bytes: i64,
    attached: BTreeMap<Node, bool>,
    staged: BTreeSet<Node>,
    published: BTreeMap<(Node, Target), bool>,
    content: BTreeMap<Slot, Stamp>,
}

#[derive(Clone, Debug)]
struct Cut {
    id: Id,
    volume: Id,
    content: BTreeMap<Slot, Stamp>,
}

#[derive(Clone, Debug)]
struct Set {
    id: Id,
    volumes: Vec<Id>,
    members: BTreeMap<Id, Cut>,
}

#[derive(Clone, Debug, Default)]
pub struct Toy {
    traits: BTreeSet<Trait>,
    disks: BTreeMap<Name, Disk>,
    cuts: BTreeMap<Name, Cut>,
    sets: BTreeMap<Name, Set>,
    ids: BTreeMap<Name, u16>,
    answers: u64,
}

type Reply = Result<Response, Code>;

fn nothing() -> Reply {
    Ok(Response::Volume(VolumeResponse::Nothing))
}

impl Toy {
    pub fn with(traits: impl IntoIterator<Item = Trait>) -> Toy {
        Toy { traits: traits.into_iter().collect(), ..Toy::default() }
    }

    fn is(&self, one: Trait) -> bool {
        self.traits.contains(&one)
    }

    fn next_id(&mut self, name: Name) -> Id {
        let nth = self.ids.entry(name).or_default();
        let id = name.id(*nth);
        if !self.traits.contains(&Trait::IdsReturnWithNames) {
            *nth += 1;
        }
        id
    }

    /// Does a call and returns its answer.
    pub fn call(&mut self, call: &Call) -> Answer<Response> {
        self.answers += 1;
        let reply = match call {
            Call::Volume(call) => self.volume(call),
            Call::Snapshot(call) => self.snapshot(call),
            Call::Group(call) => self.group(call),
            Call::List(List::Volumes) => {
                let mut entries: BTreeMap<Id, VolumeResponse> =
                    self.disks.values().map(|disk| (disk.id, self.seen(disk))).collect();
                if self.is(Trait::ListsWithoutTheLast) {
                    entries.pop_last();
                }
                Ok(Response::Volumes(Listed { pages: self.pages(), entries }))
            }
            // No volume has a problem.
            Call::List(List::VolumeHealth) => {
                Ok(Response::Volumes(Listed { pages: self.pages(), entries: BTreeMap::new() }))
            }
            Call::List(List::Snapshots) => {
                let seen = |cut: &Cut| (cut.id, SnapshotResponse::Seen(snapshot_facts(cut.id, cut.volume)));
                Ok(Response::Snapshots(Listed {
                    pages: self.pages(),
                    entries: self.cuts.values().map(seen).collect(),
                }))
            }
        };
        reply.map_or_else(Answer::Refused, Answer::Done)
    }

    fn pages(&self) -> u32 {
        if self.is(Trait::SmallPages) { 2 } else { 1 }
    }

    fn facts(&self, disk: &Disk) -> VolumeFacts {
        let mut facts = facts(disk.id);
        facts.capacity_bytes = if self.is(Trait::SizesUnknown) { 0 } else { disk.bytes };
        facts.source = disk.wanted.source.map_or(SourceReported::LeftOut, SourceReported::Known);
        if self.is(Trait::ChangesContext) {
            facts.context = format!("{}", self.answers).into();
        }
        facts
    }

    fn seen(&self, disk: &Disk) -> VolumeResponse {
        VolumeResponse::Seen(self.facts(disk), Some(disk.attached.keys().copied().collect()))
    }

    fn disk(&mut self, id: Id) -> Result<&mut Disk, Code> {
        self.disks.values_mut().find(|disk| disk.id == id).ok_or(Code::NotFound)
    }

    /// Does a call that undoes another.
    fn undo(&mut self, id: Id, undo: impl FnOnce(&mut Disk)) -> Reply {
        let strict = self.is(Trait::UnknownIsNotFound);
        match self.disk(id) {
            Ok(disk) => undo(disk),
            Err(code) if strict => return Err(code),
            Err(_) => {}
        }
        nothing()
    }

    fn content(&self, source: Id) -> Result<BTreeMap<Slot, Stamp>, Code> {
        let cut = self.cuts.values().chain(self.sets.values().flat_map(|set| set.members.values()));
        let found = match source.name.kind {
            ObjectKind::Volume => {
                self.disks.values().find(|disk| disk.id == source).map(|disk| &disk.content)
            }
            _ => cut.into_iter().find(|cut| cut.id == source).map(|cut| &cut.content),
        };
        let found = found.cloned().ok_or(Code::NotFound)?;
        Ok(if self.is(Trait::CopiesAreEmpty) { BTreeMap::new() } else { found })
    }

    fn create(&mut self, name: Name, wanted: &CreateSpec) -> Reply {
        let conflict = |made: &CreateSpec, bytes: i64| {
            made.source != wanted.source
                || made.parameters != wanted.parameters
                || !wanted.size.contains(bytes)
        };
        if let Some(disk) = self.disks.get(&name).filter(|_| !self.is(Trait::ForgetsNames)) {
            if conflict(&disk.wanted, disk.bytes) {
                return Err(Code::AlreadyExists);
            }
            return Ok(Response::Volume(VolumeResponse::Made(self.facts(disk))));
        }
        let content = wanted.source.map_or_else(|| Ok(BTreeMap::new()), |source| self.content(source))?;
        let disk = Disk {
            id: self.next_id(name),
            wanted: wanted.clone(),
            bytes: wanted.size.required_bytes.max(1),
            attached: BTreeMap::new(),
            staged: BTreeSet::new(),
            published: BTreeMap::new(),
            content,
        };
        let made = Response::Volume(VolumeResponse::Made(self.facts(&disk)));
        self.disks.insert(name, disk);
        Ok(made)
    }

    fn delete(&mut self, volume: Id) -> Reply {
        if self.is(Trait::DeletesNothing) {
            return nothing();
        }
        let has_cuts = self.cuts.values().any(|cut| cut.volume == volume);
        if self.is(Trait::SnapshotsBlockDeletion) && has_cuts {
            return Err(Code::FailedPrecondition);
        }
        let deletable = self.is(Trait::VolumesInUseAreDeleted);
        if let Ok(disk) = self.disk(volume) {
            let in_use = !(disk.attached.is_empty() && disk.staged.is_empty() && disk.published.is_empty());
            if in_use && !deletable {
                return Err(Code::FailedPrecondition);
            }
            self.disks.remove(&volume.name);
        }
        nothing()
    }

    fn attach(&mut self, volume: Id, node: Node, usage: Usage, readonly: bool) -> Reply {
        let many = self.is(Trait::ForManyNodesByNature) || usage.is_for_many_nodes();
        let lenient = self.is(Trait::AttachesWhatIsGone);
        let disk = match self.disk(volume) {
            Ok(disk) => disk,
            Err(_) if lenient => return nothing(),
            Err(code) => return Err(code),
        };
        match disk.attached.get(&node) {
            Some(now) if *now != readonly => return Err(Code::AlreadyExists),
            None if !many && !disk.attached.is_empty() => return Err(Code::FailedPrecondition),
            _ => {}
        }
        disk.attached.insert(node, readonly);
        Ok(Response::Volume(VolumeResponse::Attached(format!("{node}").into())))
    }

    fn publish(&mut self, volume: Id, at: (Node, Target), usage: Usage, readonly: bool) -> Reply {
        let many = self.is(Trait::SecondPathsAllowed) || usage.is_for_many_workloads();
        let disk = self.disk(volume)?;
        match disk.published.get(&at) {
            Some(now) if *now != readonly => return Err(Code::AlreadyExists),
            None if !many && disk.published.keys().any(|(node, _)| *node == at.0) => {
                return Err(Code::FailedPrecondition);
            }
            _ => {}
        }
        disk.published.insert(at, readonly);
        nothing()
    }

    fn volume(&mut self, call: &VolumeCall) -> Reply {
        use VolumeCall::*;
        let said = |said| Ok(Response::Volume(said));
        match *call {
            CreateVolume { name, ref wanted } => self.create(name, wanted),
            DeleteVolume { volume } => self.delete(volume),
            ControllerPublishVolume { volume, node, usage, readonly } => {
                self.attach(volume, node, usage, readonly)
            }
            ControllerUnpublishVolume { volume, node } => {
                let everywhere = self.is(Trait::DetachesEverywhere);
                self.undo(volume, |disk| {
                    disk.attached.retain(|other, _| !everywhere && node.is_some_and(|node| node != *other));
                })
            }
            ValidateVolumeCapabilities { volume, usage } => {
                let by_nature = self.is(Trait::ForManyNodesByNature);
                let made = self.disk(volume)?.wanted.usage;
                said(VolumeResponse::Confirmed(usage == made || by_nature))
            }
            ControllerGetVolume { volume } => {
                let disk = self.disk(volume)?.clone();
                said(self.seen(&disk))
            }
            ControllerExpandVolume { volume, size } => {
                let disk = self.disk(volume)?;
                disk.bytes = disk.bytes.max(size.required_bytes);
                let bytes = disk.bytes;
                said(VolumeResponse::Grown(bytes, true))
            }
            ControllerModifyVolume { volume, .. } => self.disk(volume).and_then(|_| nothing()),
            NodeStageVolume { volume, node, .. } => {
                self.disk(volume)?.staged.insert(node);
                nothing()
            }
            NodeUnstageVolume { volume, node } => self.undo(volume, |disk| {
                disk.staged.remove(&node);
            }),
            NodePublishVolume { volume, node, target, usage, readonly } => {
                self.publish(volume, (node, target), usage, readonly)
            }
            NodeUnpublishVolume { volume, node, target } => {
                let loses = self.is(Trait::LosesWrites);
                self.undo(volume, |disk| {
                    disk.published.remove(&(node, target));
                    if loses {
                        disk.content.clear();
                    }
                })
            }
            NodeExpandVolume { volume, .. } => self.disk(volume).and_then(|_| nothing()),
            NodeGetVolumeStats { volume, node, target } => {
                self.disk(volume)?.published.get(&(node, target)).ok_or(Code::NotFound)?;
                nothing()
            }
            ControllerGetVolumeHealth { volume } => {
                let of = self.disk(volume)?.id;
                said(VolumeResponse::Health(Some(of)))
            }
            NodeGetVolumeHealth { volume, node, target } => {
                let disk = self.disk(volume)?;
                disk.published.get(&(node, target)).ok_or(Code::NotFound)?;
                said(VolumeResponse::Health(Some(disk.id)))
            }
            Write { volume, node, target, slot, stamp } => {
                let disk = self.disk(volume)?;
                if disk.published.get(&(node, target)) == Some(&true) {
                    return Err(Code::PermissionDenied);
                }
                disk.content.insert(slot, stamp);
                nothing()
            }
            Read { volume, .. } => {
                let content = &self.disk(volume)?.content;
                said(VolumeResponse::Read(
                    content.iter().map(|(slot, stamp)| (*slot, Found::Stamp(*stamp))).collect(),
                    None,
                ))
            }
            Unmount { .. } | Listing { .. } | HealthListing { .. } | Copying { .. } => nothing(),
        }
    }

    fn snapshot(&mut self, call: &SnapshotCall) -> Reply {
        let seen =
            |cut: &Cut| Ok(Response::Snapshot(SnapshotResponse::Seen(snapshot_facts(cut.id, cut.volume))));
        match *call {
            SnapshotCall::CreateSnapshot { name, volume } => {
                if let Some(cut) = self.cuts.get(&name) {
                    let shared = self.is(Trait::SnapshotsOfAnyVolumeShareAName);
                    return if cut.volume == volume || shared { seen(cut) } else { Err(Code::AlreadyExists) };
                }
                let content = self.content(volume)?;
                let cut = Cut { id: self.next_id(name), volume, content };
                self.cuts.insert(name, cut.clone());
                seen(&cut)
            }
            SnapshotCall::DeleteSnapshot { snapshot } => {
                let pinned = self.disks.values().any(|disk| disk.wanted.source == Some(snapshot));
                if self.is(Trait::CopiesPinSnapshots) && pinned {
                    return Err(Code::FailedPrecondition);
                }
                self.cuts.retain(|_, cut| cut.id != snapshot);
                nothing()
            }
            SnapshotCall::GetSnapshot { snapshot } => {
                seen(self.cuts.values().find(|cut| cut.id == snapshot).ok_or(Code::NotFound)?)
            }
            SnapshotCall::Listing { .. } | SnapshotCall::Copying { .. } => nothing(),
        }
    }

    fn group(&mut self, call: &GroupCall) -> Reply {
        let seen = |set: &Set| {
            let mut facts = group_facts(set.id, &[]);
            facts.members =
                set.members.iter().map(|(id, cut)| (*id, snapshot_facts(*id, cut.volume))).collect();
            Ok(Response::Group(GroupResponse::Seen(facts)))
        };
        match call {
            GroupCall::CreateVolumeGroupSnapshot { name, volumes } => {
                if let Some(set) = self.sets.get(name) {
                    return if set.volumes == *volumes { seen(set) } else { Err(Code::AlreadyExists) };
                }
                let contents: Result<Vec<_>, Code> =
                    volumes.iter().map(|volume| self.content(*volume)).collect();
                let mut members = BTreeMap::new();
                for (volume, content) in volumes.iter().zip(contents?) {
                    let id = self.next_id(name.members());
                    members.insert(id, Cut { id, volume: *volume, content });
                    // The members of a reused name need new ids.
                    self.ids.entry(name.members()).and_modify(|nth| *nth = id.nth + 1);
                }
                let set = Set { id: self.next_id(*name), volumes: volumes.clone(), members };
                self.sets.insert(*name, set.clone());
                seen(&set)
            }
            GroupCall::DeleteVolumeGroupSnapshot { group } => {
                self.sets.retain(|_, set| set.id != *group);
                nothing()
            }
            GroupCall::GetVolumeGroupSnapshot { group } => {
                seen(self.sets.values().find(|set| set.id == *group).ok_or(Code::NotFound)?)
            }
            GroupCall::DeleteMember { group, member } => {
                let there =
                    self.sets.values().any(|set| set.id == *group && set.members.contains_key(member));
                if there { Err(Code::InvalidArgument) } else { nothing() }
            }
            GroupCall::Copying { .. } => nothing(),
        }
    }
}

/// The effects of race conditions.
impl Toy {
    /// Returns whether a volume has the name.
    pub fn has(&self, name: Name) -> bool {
        self.disks.contains_key(&name)
    }

    /// Forgets the volume of a name.
    pub fn forget(&mut self, name: Name) {
        self.disks.remove(&name);
    }

    /// Restores the attachments of a volume from an earlier state.
    pub fn attach_as_in(&mut self, before: &Toy, volume: Id) {
        if let Some(was) = before.disks.get(&volume.name)
            && let Ok(is) = self.disk(volume)
        {
            is.attached.clone_from(&was.attached);
        }
    }
}
