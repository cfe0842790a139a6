//! What a call speaks of, so that it can be said of something else.

use super::Object as _;
use super::answer::{Answer, Said};
use super::call::{Call, GroupCall, SnapshotCall, VolumeCall};
use super::names::{Id, Name, Node, Target};
use super::state::{Group, Snapshot, Volume};

impl Answer<Said> {
    /// The id that it gives, of what a call makes.
    pub(crate) fn id_given(&self) -> Option<Id> {
        match self {
            Answer::Done(Said::Volume(said)) => Volume::id_given(&Answer::Done(said.clone())),
            Answer::Done(Said::Snapshot(said)) => Snapshot::id_given(&Answer::Done(said.clone())),
            Answer::Done(Said::Group(said)) => Group::id_given(&Answer::Done(said.clone())),
            _ => None,
        }
    }
}

impl Call {
    /// The name under which it makes something.
    pub(crate) fn makes(&self) -> Option<Name> {
        self.clone().made_mut().copied()
    }

    /// The ids of everything that it is about: its object, what it copies, what goes into a group.
    pub(crate) fn ids(&self) -> Vec<Id> {
        self.clone().ids_mut().into_iter().map(|id| *id).collect()
    }

    /// [`makes`](Call::makes), to be changed.
    pub(crate) fn made_mut(&mut self) -> Option<&mut Name> {
        match self {
            Call::Volume(VolumeCall::CreateVolume { name, .. })
            | Call::Snapshot(SnapshotCall::CreateSnapshot { name, .. })
            | Call::Group(GroupCall::CreateVolumeGroupSnapshot { name, .. }) => Some(name),
            _ => None,
        }
    }

    /// [`ids`](Call::ids), to be changed.
    pub(crate) fn ids_mut(&mut self) -> Vec<&mut Id> {
        match self {
            Call::Volume(call) => volume_ids(call),
            Call::Snapshot(
                SnapshotCall::CreateSnapshot { volume: id, .. }
                | SnapshotCall::DeleteSnapshot { snapshot: id }
                | SnapshotCall::GetSnapshot { snapshot: id }
                | SnapshotCall::Listing { snapshot: id }
                | SnapshotCall::Copying { snapshot: id },
            )
            | Call::Group(
                GroupCall::DeleteVolumeGroupSnapshot { group: id }
                | GroupCall::GetVolumeGroupSnapshot { group: id }
                | GroupCall::Copying { group: id },
            ) => vec![id],
            Call::Group(GroupCall::CreateVolumeGroupSnapshot { volumes, .. }) => volumes.iter_mut().collect(),
            Call::Group(GroupCall::DeleteMember { group, member }) => vec![group, member],
            Call::ListVolumes | Call::ListSnapshots => Vec::new(),
        }
    }

    /// The node and the place on it where something is done, to be changed.
    pub(crate) fn place_mut(&mut self) -> (Option<&mut Node>, Option<&mut Target>) {
        use VolumeCall::*;
        match self {
            Call::Volume(
                NodePublishVolume { node, target, .. }
                | NodeUnpublishVolume { node, target, .. }
                | NodeExpandVolume { node, target, .. }
                | NodeGetVolumeStats { node, target, .. }
                | Write { node, target, .. }
                | Read { node, target, .. },
            ) => (Some(node), Some(target)),
            Call::Volume(
                ControllerPublishVolume { node, .. }
                | ControllerUnpublishVolume { node: Some(node), .. }
                | NodeStageVolume { node, .. }
                | NodeUnstageVolume { node, .. },
            ) => (Some(node), None),
            _ => (None, None),
        }
    }
}

fn volume_ids(call: &mut VolumeCall) -> Vec<&mut Id> {
    use VolumeCall::*;
    match call {
        CreateVolume { wanted, .. } => wanted.source.iter_mut().collect(),
        DeleteVolume { volume }
        | ControllerPublishVolume { volume, .. }
        | ControllerUnpublishVolume { volume, .. }
        | ValidateVolumeCapabilities { volume, .. }
        | ControllerGetVolume { volume }
        | ControllerExpandVolume { volume, .. }
        | ControllerModifyVolume { volume, .. }
        | NodeStageVolume { volume, .. }
        | NodeUnstageVolume { volume, .. }
        | NodePublishVolume { volume, .. }
        | NodeUnpublishVolume { volume, .. }
        | NodeExpandVolume { volume, .. }
        | NodeGetVolumeStats { volume, .. }
        | Write { volume, .. }
        | Read { volume, .. }
        | Listing { volume }
        | Copying { volume } => vec![volume],
    }
}
