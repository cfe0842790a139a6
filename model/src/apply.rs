//! Applies a call: the state after it was done, with the facts of the answer. Facts that were not heard stay unknown.

use super::answer::{Found, GroupResponse, SnapshotFacts, SnapshotResponse, VolumeFacts, VolumeResponse};
use super::bytes::{Bytes, Write as Written};
use super::call::{CreateSpec, GroupCall, SnapshotCall, VolumeCall};
use super::call_context::CallContext;
use super::judge::is_in_use;
use super::names::Id;
use super::state::{
    Attachment, Confirmed, Group, GroupLife, Publication, Snapshot, SnapshotLife, Volume, VolumeLife,
};

/// A volume after a call was done.
pub(super) fn volume(
    volume: &mut Volume,
    call: &VolumeCall,
    response: Option<&VolumeResponse>,
    context: &CallContext,
) {
    use VolumeCall::*;
    match (call, call.subject().id()) {
        (CreateVolume { wanted, .. }, _) => {
            let life = volume.life.get_or_insert_with(|| made(wanted, context));
            if let Some(VolumeResponse::Made(facts)) = response {
                learn(life, facts);
            }
        }
        (DeleteVolume { .. }, Some(id)) => volume.delete(id, context.fades_until()),
        (_, Some(id)) => {
            // A write goes to whichever of two volumes of that id is mounted.
            let response = response.filter(|_| !volume.is_left_in_use(id));
            if let Some(life) = volume.find_mut(id) {
                change(life, call, response);
                see_empty(life, call, response, context);
            } else if let ControllerPublishVolume { node, .. } = *call {
                // The driver may remember what it has wrongly accepted when the id comes again.
                volume.places_left(id).attached.insert(node);
            }
            undo_what_is_left(volume, call);
        }
        (_, None) => {}
    }
}

/// Remembers the places that a workload found empty, where that was surely in this volume.
fn see_empty(
    life: &mut VolumeLife,
    call: &VolumeCall,
    response: Option<&VolumeResponse>,
    context: &CallContext,
) {
    let VolumeCall::Read { node, target, .. } = *call else { return };
    let Some(VolumeResponse::Read(found, _)) = response else { return };
    let is_sure =
        is_in_use(life, (node, target), context) && !life.is_elsewhere(node) && !life.is_torn(node, target);
    if is_sure {
        let empty = found.iter().filter(|(_, found)| **found == Found::Empty);
        life.seen_empty.extend(empty.map(|(slot, _)| *slot));
    }
}

/// A volume that was deleted while it was in use is no longer where a call undid that.
fn undo_what_is_left(volume: &mut Volume, call: &VolumeCall) {
    use VolumeCall::*;
    volume.leave(|id, places| match *call {
        ControllerUnpublishVolume { volume, node: Some(node) } if volume == id => {
            places.attached.remove(&node);
        }
        ControllerUnpublishVolume { volume, node: None } if volume == id => places.attached.clear(),
        NodeUnstageVolume { volume, node } if volume == id => {
            places.staged.remove(&node);
        }
        NodeUnpublishVolume { volume, node, target } if volume == id => {
            places.published.remove(&(node, target));
        }
        _ => {}
    });
}

fn made(wanted: &CreateSpec, context: &CallContext) -> VolumeLife {
    let copied = wanted.source.and_then(|source| context.bytes.get(&source));
    VolumeLife { bytes: copied.cloned().unwrap_or_default(), ..VolumeLife::new(wanted.clone()) }
}

/// Takes over the facts of the first answer about a volume.
fn learn(life: &mut VolumeLife, facts: &VolumeFacts) {
    life.id = life.id.or(facts.id);
    life.names_size |= facts.capacity_bytes != 0;
    // A size that the request rules out is reported, and not believed. Once a volume was expanded, CreateVolume may still give the
    // size that it was made with.
    if life.size_bytes == 0 && !life.changed && life.wanted.size.contains(facts.capacity_bytes) {
        life.size_bytes = facts.capacity_bytes;
        life.room_bytes = life.room_bytes.max(facts.capacity_bytes);
    }
    let (context, _) = life.reported.get_or_insert_with(|| (facts.context.clone(), facts.topology.clone()));
    life.context_varies |= *context != facts.context;
}

/// Applies a call to a volume that exists.
fn change(life: &mut VolumeLife, call: &VolumeCall, response: Option<&VolumeResponse>) {
    use VolumeCall::*;
    match *call {
        ControllerPublishVolume { node, usage, readonly, .. } => {
            let new = Attachment { usage, readonly, context: None };
            let attachment = life.attached.entry(node).or_insert(new);
            if let Some(VolumeResponse::Attached(publish_context)) = response {
                attachment.context.get_or_insert_with(|| publish_context.clone());
            }
        }
        ControllerUnpublishVolume { node: Some(node), .. } => {
            life.attached.remove(&node);
        }
        ControllerUnpublishVolume { node: None, .. } => life.attached.clear(),
        ValidateVolumeCapabilities { usage, .. } => {
            if let Some(VolumeResponse::Confirmed(yes)) = response {
                life.confirmed.insert(usage, Confirmed { yes: *yes, attached: life.attached_to() });
            }
        }
        ControllerExpandVolume { size, .. } => {
            let before_bytes = life.size_bytes;
            if life.size_bytes == 0 || !size.contains(life.size_bytes) {
                life.changed = true;
                life.size_bytes = 0;
            }
            if let Some(VolumeResponse::Grown(bytes, on_node)) = response {
                // A size that the request rules out is reported, but not believed: the volume may have the earlier
                // size, the requested one, or any other.
                let is_believed = *bytes >= before_bytes && size.may_grow_to(before_bytes, *bytes);
                life.size_bytes = if is_believed { *bytes } else { 0 };
                // Other calls show what the node still has to do, and a volume in use may grow when it is used again.
                if is_believed && !on_node && !life.is_in_use() && *bytes > life.room_bytes {
                    (life.room_bytes, life.was_expanded) = (*bytes, true);
                }
            }
        }
        ControllerModifyVolume { mutable_parameters, .. } => {
            life.changed |= mutable_parameters != life.mutable_parameters;
            life.mutable_parameters = mutable_parameters;
        }
        NodeStageVolume { node, usage, .. } => {
            life.staged.entry(node).or_insert(usage);
        }
        NodeUnstageVolume { node, .. } => {
            life.staged.remove(&node);
            life.torn.remove(&(node, None));
            // A target that is still published shows this staging of the volume, and the next one may be by another device.
            let left: Vec<_> = life.published_on(node).map(|(target, _)| (node, Some(target))).collect();
            life.torn.extend(left);
        }
        NodePublishVolume { node, target, usage, readonly, .. } => {
            let new = Publication { usage, readonly, is_doubtful: false };
            let there = life.published.entry((node, target)).or_insert(new);
            there.is_doubtful |= there.readonly != readonly && !usage.is_for_readers();
        }
        NodeUnpublishVolume { node, target, .. } => {
            life.published.remove(&(node, target));
            life.torn.remove(&(node, Some(target)));
        }
        Unmount { node, target, .. } => {
            let is_there = match target {
                Some(target) => life.published.contains_key(&(node, target)),
                None => life.staged.contains_key(&node),
            };
            if is_there {
                life.torn.insert((node, target));
            }
        }
        Write { volume, node, target, slot, stamp } => {
            life.written = true;
            // Other nodes may see late what this one writes.
            match response {
                Some(_) if !life.is_elsewhere(node) && !life.is_torn(node, target) => {
                    life.bytes.write(slot, Written { volume, stamp });
                }
                _ => life.bytes.blur(slot),
            }
        }
        // All other calls make or delete it, or only look.
        _ => {}
    }
}

/// A snapshot after a call was done.
pub(super) fn snapshot(
    snapshot: &mut Snapshot,
    call: &SnapshotCall,
    response: Option<&SnapshotResponse>,
    context: &CallContext,
) {
    use SnapshotCall::*;
    let life = match call {
        CreateSnapshot { volume, .. } => {
            let life = snapshot.life.get_or_insert_with(|| cut(*volume, context.bytes.get(volume)));
            // The answer about a snapshot of another volume contains no facts about this one.
            (life.volume == *volume).then_some(life)
        }
        DeleteSnapshot { snapshot: id } => {
            snapshot.delete(*id, context.fades_until());
            None
        }
        GetSnapshot { snapshot: id } | Listing { snapshot: id } | Copying { snapshot: id } => {
            snapshot.find_mut(*id)
        }
    };
    if let (Some(life), Some(SnapshotResponse::Seen(facts))) = (life, response) {
        learn_snapshot(life, facts);
    }
}

fn cut(volume: Id, bytes: Option<&Bytes>) -> SnapshotLife {
    let bytes = bytes.cloned().unwrap_or_default();
    SnapshotLife { id: None, volume, creation_time: None, size_bytes: 0, ready: false, topology: None, bytes }
}

fn learn_snapshot(life: &mut SnapshotLife, facts: &SnapshotFacts) {
    life.id = life.id.or(facts.id);
    life.creation_time = life.creation_time.or(facts.creation_time);
    life.ready |= facts.ready;
    if facts.ready || !facts.topology.is_empty() {
        life.topology.get_or_insert_with(|| facts.topology.clone());
    }
    // A negative size is reported, and not believed.
    if facts.ready && life.size_bytes == 0 {
        life.size_bytes = facts.size_bytes.max(0);
    }
}

/// A group snapshot after a call was done.
pub(super) fn group(
    group: &mut Group,
    call: &GroupCall,
    response: Option<&GroupResponse>,
    context: &CallContext,
) {
    use GroupCall::*;
    let life = match call {
        CreateVolumeGroupSnapshot { volumes, .. } => Some(group.life.get_or_insert_with(|| GroupLife {
            id: None,
            volumes: volumes.iter().copied().collect(),
            creation_time: None,
            ready: false,
            members: None,
            thinned: false,
            bytes: context.bytes.clone(),
        })),
        DeleteVolumeGroupSnapshot { group: id } => {
            group.delete(*id, context.fades_until());
            None
        }
        DeleteMember { group: id, member } => {
            let life = group.find_mut(*id);
            if let Some(life) = life {
                let known = life.members.as_mut().map(|members| members.remove(member).is_some());
                life.thinned |= known != Some(false);
            }
            None
        }
        GetVolumeGroupSnapshot { group: id } | Copying { group: id } => group.find_mut(*id),
    };
    if let (Some(life), Some(GroupResponse::Seen(facts))) = (life, response) {
        life.id = life.id.or(facts.id);
        life.creation_time = life.creation_time.or(facts.creation_time);
        life.ready |= facts.ready;
        let members = facts.members.iter().map(|(id, member)| (*id, member.source));
        life.members.get_or_insert_with(|| members.collect());
    }
}
