//! Emulates the controllers of Kubernetes, which make no CSI calls: binding and release, claims of pods, attachments,
//! and the scheduler, which has its own file. Each advances the objects by one step at a time.

mod scheduler;

use std::sync::Arc;

use super::shared::Shared;
use super::store::{Attachment, Objects, PvcObject, VolumeOnNode};
use crate::cluster::{
    AccessMode, Event, PersistentVolume, PodPhase, PvcPhase, ReclaimPolicy, VolumePhase, VolumeSource,
};

/// Runs all controllers whenever something changes.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut changes = shared.store.subscribe();
    loop {
        changes.borrow_and_update();
        while shared.store.look(|objects| next_step(&shared, objects)).is_some_and(|step| {
            shared.store.change(|objects| take(&shared, objects, step));
            true
        }) {}
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// A step of a controller.
#[derive(Debug)]
pub(super) enum ControllerStep {
    /// The claim of a pod does not exist yet.
    MakeClaim { pod: String, volume: usize },
    /// The pod of a claim was deleted.
    DeleteClaim(String),
    /// A claim names an existing volume.
    Bind { claim: String, volume: String },
    /// A deleted claim is no longer used.
    RemoveClaim(String),
    /// A deleted volume is no longer needed, or is to be retained by the driver.
    RemoveVolume(String),
    /// A pod of the node waits for the volume.
    Attach(VolumeOnNode),
    /// No pod on the node needs the volume any more.
    Detach(VolumeOnNode),
    /// A claim waits for the choice of a node.
    SelectNode { claim: String, node: usize },
    /// A pod can run on the node.
    Schedule { pod: String, node: usize },
    /// A pod cannot be scheduled, which has to be reported.
    AddEvent { pod: String, why: String },
}

fn next_step(shared: &Shared, objects: &Objects) -> Option<ControllerStep> {
    claims(objects)
        .or_else(|| volumes(objects))
        .or_else(|| attachments(shared, objects))
        .or_else(|| objects.pods.keys().find_map(|pod| scheduler::schedule(shared, objects, pod)))
}

fn claims(objects: &Objects) -> Option<ControllerStep> {
    for (name, object) in &objects.pods {
        for (index, volume) in object.pod.spec.volumes.iter().enumerate() {
            if let VolumeSource::Ephemeral(_) = &volume.source
                && !object.deleting
                && volume.claim_in(name).is_some_and(|claim| !objects.claims.contains_key(&claim))
            {
                return Some(ControllerStep::MakeClaim { pod: name.clone(), volume: index });
            }
        }
    }
    for (name, object) in &objects.claims {
        let lives = |uid: &String| objects.pods.values().any(|pod| pod.pod.uid == *uid);
        if object.owner.as_ref().is_some_and(|uid| !lives(uid)) && !object.deleting {
            return Some(ControllerStep::DeleteClaim(name.clone()));
        }
        if object.deleting && object.in_flight.is_none() && !is_used(objects, name) {
            return Some(ControllerStep::RemoveClaim(name.clone()));
        }
        let volume = object.claim.spec.volume.as_ref().filter(|_| object.claim.phase == PvcPhase::Pending);
        if let Some(volume) = volume.and_then(|name| objects.volumes.get(name)).map(|object| &object.volume)
            && volume.phase == VolumePhase::Available
            && volume.claim.as_ref().is_none_or(|claim| claim == name)
        {
            return Some(ControllerStep::Bind { claim: name.clone(), volume: volume.name.clone() });
        }
    }
    None
}

/// Returns whether a claim is still used.
fn is_used(objects: &Objects, claim: &str) -> bool {
    use crate::cluster::{DataSource, SnapshotOrigin};
    let by_pod = objects.pods_with_claim(claim).any(|pod| pod.node.is_some());
    let by_snapshot = objects.snapshots.values().any(|object| {
        object.in_flight
            && matches!(&object.snapshot.spec.origin, SnapshotOrigin::Claim(name) if name == claim)
    });
    let by_copy = objects.claims.values().any(|object| {
        object.in_flight.is_some()
            && matches!(&object.claim.spec.source, Some(DataSource::Claim(name)) if name == claim)
    });
    by_pod || by_snapshot || by_copy
}

fn volumes(objects: &Objects) -> Option<ControllerStep> {
    let gone = objects.volumes.iter().find(|(name, object)| {
        let free = match object.volume.phase {
            VolumePhase::Available => true,
            VolumePhase::Released => object.volume.reclaim == ReclaimPolicy::Retain,
            VolumePhase::Bound => false,
        };
        object.deleting && free && !objects.attachments.keys().any(|(volume, _)| volume == *name)
    });
    gone.map(|(name, _)| ControllerStep::RemoveVolume(name.clone()))
}

/// Returns the volumes that pods need on nodes, by their claims.
fn places_wanted(objects: &Objects) -> Vec<VolumeOnNode> {
    let mut places = Vec::new();
    for object in objects.pods.values() {
        let Some(node) = object.node else { continue };
        let ended = matches!(object.pod.phase, PodPhase::Succeeded | PodPhase::Failed);
        if object.deleting || ended {
            continue;
        }
        for claim in Objects::claims_of(&object.pod) {
            if let Some(volume) = objects.volume_of_claim(&claim) {
                places.push((volume.name.clone(), node));
            }
        }
    }
    places
}

fn attachments(shared: &Shared, objects: &Objects) -> Option<ControllerStep> {
    if !shared.csi_driver.attach_required {
        return None;
    }
    let wanted = places_wanted(objects);
    for place in &wanted {
        let elsewhere =
            objects.attachments.keys().any(|(volume, node)| *volume == place.0 && *node != place.1);
        let shares = |volume: &PersistentVolume| {
            let many =
                |mode: &AccessMode| matches!(mode, AccessMode::ReadWriteMany | AccessMode::ReadOnlyMany);
            volume.access_modes.iter().any(many)
        };
        let object = objects.volumes.get(&place.0)?;
        if !objects.attachments.contains_key(place)
            && !object.deleting
            && (!elsewhere || shares(&object.volume))
        {
            return Some(ControllerStep::Attach(place.clone()));
        }
    }
    // Several PersistentVolumes may refer to one volume, which stays attached while one of them is used.
    let handle = |place: &VolumeOnNode| objects.volumes.get(&place.0).map(|object| &object.volume.handle);
    let is_needed = |place: &VolumeOnNode| {
        let is_same = |other: &VolumeOnNode| {
            other == place
                || (other.1 == place.1 && handle(place).is_some() && handle(other) == handle(place))
        };
        let is_lost = |(_, node): &VolumeOnNode| objects.out_of_service.contains(node);
        wanted.iter().chain(objects.in_use.iter().filter(|place| !is_lost(place))).any(is_same)
    };
    let idle =
        objects.attachments.iter().find(|(place, attachment)| !attachment.detaching && !is_needed(place));
    idle.map(|(place, _)| ControllerStep::Detach(place.clone()))
}

fn take(shared: &Shared, objects: &mut Objects, step: ControllerStep) {
    match step {
        ControllerStep::MakeClaim { pod, volume } => {
            let Some(object) = objects.pods.get(&pod) else { return };
            let Some(volume) = object.pod.spec.volumes.get(volume) else { return };
            if let (VolumeSource::Ephemeral(spec), Some(name)) = (&volume.source, volume.claim_in(&pod)) {
                let spec = crate::cluster::PvcSpec { name: name.clone(), ..(**spec).clone() };
                let owner = Some(object.pod.uid.clone());
                objects.claims.insert(name, PvcObject { owner, ..PvcObject::new(spec, shared.uid()) });
            }
        }
        ControllerStep::DeleteClaim(name) => {
            if let Some(object) = objects.claims.get_mut(&name) {
                object.deleting = true;
            }
        }
        ControllerStep::Bind { claim, volume } => {
            let Some(object) = objects.volumes.get_mut(&volume) else { return };
            object.volume.phase = VolumePhase::Bound;
            object.volume.claim = Some(claim.clone());
            if let Some(bound) = objects.claims.get_mut(&claim) {
                bound.claim.phase = PvcPhase::Bound;
                bound.claim.capacity_bytes = object.volume.capacity_bytes;
                bound.claim.volume = Some(volume);
            }
        }
        ControllerStep::RemoveClaim(name) => {
            let volume = objects.claims.remove(&name).and_then(|object| object.claim.volume);
            if let Some(object) = volume.and_then(|volume| objects.volumes.get_mut(&volume)) {
                object.volume.phase = VolumePhase::Released;
            }
        }
        ControllerStep::RemoveVolume(name) => {
            objects.volumes.remove(&name);
        }
        ControllerStep::Attach(place) => {
            let volume_id = objects.volumes.get(&place.0).map(|object| object.volume.handle.clone());
            let volume_id = volume_id.unwrap_or_default();
            objects.attachments.insert(place, Attachment { volume_id, ..Attachment::default() });
        }
        ControllerStep::Detach(place) => {
            if let Some(attachment) = objects.attachments.get_mut(&place) {
                *attachment = Attachment {
                    volume_id: attachment.volume_id.clone(),
                    attached: attachment.attached.take(),
                    detaching: true,
                    ..Attachment::default()
                };
            }
        }
        ControllerStep::SelectNode { claim, node } => {
            if let Some(object) = objects.claims.get_mut(&claim) {
                object.selected_node = Some(node);
            }
        }
        ControllerStep::Schedule { pod, node } => {
            let name = shared.nodes[node].node.name.clone();
            if let Some(object) = objects.pods.get_mut(&pod) {
                object.node = Some(node);
                object.pod.node = Some(name);
                object.pod.waiting = None;
            }
        }
        ControllerStep::AddEvent { pod, why } => {
            objects.add_event(
                &pod,
                Event { reason: "FailedScheduling".to_owned(), message: why.clone(), is_warning: true },
            );
            if let Some(object) = objects.pods.get_mut(&pod) {
                object.pod.waiting = Some(why);
            }
        }
    }
}

impl PvcObject {
    /// Makes a new claim.
    pub(super) fn new(spec: crate::cluster::PvcSpec, uid: String) -> PvcObject {
        let claim = crate::cluster::Pvc { spec, ..Default::default() };
        PvcObject { claim, uid, ..PvcObject::default() }
    }
}
