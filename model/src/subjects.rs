//! The names and ids in a call, so that it can be moved to other objects.

use super::answer::{Answer, Response};
use super::call::{Call, GroupCall, SnapshotCall, Subject, SubjectMut, VolumeCall};
use super::names::{Id, Name, Node, Target};
use super::object::Object as _;
use super::state::{Group, Snapshot, Volume};

impl Answer<Response> {
    /// The id that it gives, of what a call makes.
    pub fn id_given(&self) -> Option<Id> {
        match self {
            Answer::Done(Response::Volume(response)) => Volume::id_given(&Answer::Done(response.clone())),
            Answer::Done(Response::Snapshot(response)) => Snapshot::id_given(&Answer::Done(response.clone())),
            Answer::Done(Response::Group(response)) => Group::id_given(&Answer::Done(response.clone())),
            _ => None,
        }
    }
}

impl Call {
    /// The name under which it makes something.
    pub fn makes(&self) -> Option<Name> {
        self.clone().made_mut().copied()
    }

    /// The ids of everything that it is about: its object, what it copies, what goes into a group.
    pub fn ids(&self) -> Vec<Id> {
        self.clone().ids_mut().into_iter().map(|id| *id).collect()
    }

    /// [`makes`](Call::makes), to be changed.
    pub fn made_mut(&mut self) -> Option<&mut Name> {
        match self.subject_mut()? {
            SubjectMut::Name(name) => Some(name),
            SubjectMut::Id(_) => None,
        }
    }

    /// [`ids`](Call::ids), to be changed. What goes by an id copies nothing.
    pub fn ids_mut(&mut self) -> Vec<&mut Id> {
        if let Call::Group(GroupCall::DeleteMember { group, member }) = self {
            return vec![group, member];
        }
        match self.subject() {
            Some(Subject::Name(_)) => self.sources_mut(),
            Some(Subject::Id(_)) | None => match self.subject_mut() {
                Some(SubjectMut::Id(id)) => vec![id],
                Some(SubjectMut::Name(_)) | None => Vec::new(),
            },
        }
    }

    /// [`sources`](Call::sources), to be changed.
    pub(crate) fn sources_mut(&mut self) -> Vec<&mut Id> {
        match self {
            Call::Volume(VolumeCall::CreateVolume { wanted, .. }) => wanted.source.iter_mut().collect(),
            Call::Snapshot(SnapshotCall::CreateSnapshot { volume, .. }) => vec![volume],
            Call::Group(GroupCall::CreateVolumeGroupSnapshot { volumes, .. }) => volumes.iter_mut().collect(),
            Call::Volume(_) | Call::Snapshot(_) | Call::Group(_) | Call::List(_) => Vec::new(),
        }
    }

    fn subject_mut(&mut self) -> Option<SubjectMut<'_>> {
        match self {
            Call::Volume(call) => Some(call.subject_mut()),
            Call::Snapshot(call) => Some(call.subject_mut()),
            Call::Group(call) => Some(call.subject_mut()),
            Call::List(_) => None,
        }
    }

    /// The node and the place on it where something is done, to be changed.
    pub fn place_mut(&mut self) -> (Option<&mut Node>, Option<&mut Target>) {
        match self {
            Call::Volume(call) => call.place_mut(),
            Call::Snapshot(call) => call.place_mut(),
            Call::Group(call) => call.place_mut(),
            Call::List(_) => (None, None),
        }
    }
}
