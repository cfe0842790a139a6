//! The API server: objects by name, and a version of all of them that grows with each change.

use std::collections::{BTreeMap, BTreeSet};

use csi_proto::lock::Mutex;
use csi_proto::v1;
use tokio::sync::watch;

use super::failure::{Caller, Failure, Verdict};
use crate::cluster::{
    AttributesClass, Event, GroupSnapshot, HealthCondition, HealthOf, Node, Pairs, PersistentVolume, Pod,
    Pvc, Snapshot, SnapshotClass, StorageClass,
};

/// Events kept of one object.
const EVENTS_MAX: usize = 200;

/// The objects, and who waits for them to change.
#[derive(Debug)]
pub(super) struct Store {
    objects: Mutex<Objects>,
    version: watch::Sender<u64>,
}

/// All objects, by their names.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) storage_classes: BTreeMap<String, StorageClass>,
    pub(super) snapshot_classes: BTreeMap<String, SnapshotClass>,
    pub(super) group_snapshot_classes: BTreeMap<String, SnapshotClass>,
    pub(super) attributes_classes: BTreeMap<String, AttributesClass>,
    pub(super) claims: BTreeMap<String, PvcObject>,
    pub(super) volumes: BTreeMap<String, VolumeObject>,
    pub(super) attachments: BTreeMap<VolumeOnNode, Attachment>,
    pub(super) pods: BTreeMap<String, PodObject>,
    pub(super) snapshots: BTreeMap<String, SnapshotObject>,
    pub(super) group_snapshots: BTreeMap<String, GroupObject>,
    /// `node.status.volumesInUse`: what kubelet has not let go of.
    pub(super) in_use: BTreeSet<VolumeOnNode>,
    /// What is known to be wrong.
    pub(super) health: BTreeMap<HealthOf, Vec<HealthCondition>>,
    /// How many volumes nodes take, by their numbers, where kubelet has read it again.
    pub(super) volume_limits: BTreeMap<usize, Option<u64>>,
    events: BTreeMap<String, Vec<Event>>,
}

/// A PersistentVolume on a node: its name, and the number of the node.
pub(super) type VolumeOnNode = (String, usize);

/// A claim, and what its annotations would tell.
#[derive(Debug)]
pub(super) struct PvcObject {
    pub(super) claim: Pvc,
    pub(super) uid: String,
    pub(super) deleting: bool,
    /// VolumeAttributesClasses that were there before it.
    pub(super) older_classes: BTreeSet<String>,
    /// The UID of the pod that it goes with.
    pub(super) owner: Option<String>,
    /// The node that the scheduler has chosen.
    pub(super) selected_node: Option<usize>,
    /// A CreateVolume without a final answer, to be sent again as it is.
    pub(super) in_flight: Option<v1::CreateVolumeRequest>,
    /// Bytes that the controller's part of an expansion was done for.
    pub(super) allocated_bytes: i64,
    /// Whether the driver has refused to expand the volume in use.
    pub(super) expands_idle: bool,
}

/// A PersistentVolume.
#[derive(Debug)]
pub(super) struct VolumeObject {
    pub(super) volume: PersistentVolume,
    pub(super) deleting: bool,
}

/// A VolumeAttachment.
#[derive(Debug, Default)]
pub(super) struct Attachment {
    pub(super) volume_id: String,
    /// publish_context, once it is attached.
    pub(super) attached: Option<Pairs>,
    pub(super) detaching: bool,
    /// `status.attachError`: how the latest try to attach it has failed.
    pub(super) failed: Option<Failure>,
    pub(super) given_up: Option<String>,
}

/// A pod.
#[derive(Clone, Debug)]
pub(super) struct PodObject {
    pub(super) pod: Pod,
    /// The number of its node.
    pub(super) node: Option<usize>,
    pub(super) deleting: bool,
    /// Whether unmounting its volumes is given up.
    pub(super) stuck: bool,
    /// The driver mounts nothing that its containers could see.
    pub(super) unmounted: Option<String>,
}

/// A VolumeSnapshot with its content.
#[derive(Debug)]
pub(super) struct SnapshotObject {
    pub(super) snapshot: Snapshot,
    pub(super) uid: String,
    pub(super) deleting: bool,
    /// The group snapshot that it is a member of.
    pub(super) group: Option<String>,
    pub(super) progress: SnapshotProgress,
}

/// How far a snapshot, or a group of them, has come.
#[derive(Debug, Default)]
pub(super) struct SnapshotProgress {
    /// Whether a call to make it has had no final answer.
    pub(super) in_flight: bool,
}

/// A VolumeGroupSnapshot with its content.
#[derive(Debug)]
pub(super) struct GroupObject {
    pub(super) group: GroupSnapshot,
    pub(super) uid: String,
    pub(super) deleting: bool,
    /// snapshot_ids of its members.
    pub(super) handles: Vec<String>,
    pub(super) progress: SnapshotProgress,
}

impl Default for Store {
    fn default() -> Store {
        Store { objects: Mutex::default(), version: watch::Sender::new(0) }
    }
}

impl Store {
    /// Looks at the objects.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Objects) -> T) -> T {
        look(&self.objects.lock())
    }

    /// Changes the objects, and tells those who wait.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        let changed = change(&mut self.objects.lock());
        self.version.send_modify(|version| *version += 1);
        changed
    }

    /// Hears of changes from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Waits until a look finds something.
    pub(super) async fn until<T>(&self, mut find: impl FnMut(&Objects) -> Option<T>) -> T {
        let mut changes = self.subscribe();
        loop {
            changes.borrow_and_update();
            if let Some(found) = self.look(&mut find) {
                return found;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Reports what has gone wrong with an object.
    pub(super) fn event(&self, object: &str, reason: &str, message: impl Into<String>) {
        let event = Event { reason: reason.to_owned(), message: message.into(), is_warning: true };
        self.change(|objects| objects.tell(object, event));
    }
}

impl Objects {
    /// Reports something of an object.
    pub(super) fn tell(&mut self, object: &str, event: Event) {
        let events = self.events.entry(object.to_owned()).or_default();
        if events.len() < EVENTS_MAX {
            events.push(event);
        }
    }

    /// What was reported of an object.
    pub(super) fn events_of(&self, object: &str) -> &[Event] {
        self.events.get(object).map_or(&[], Vec::as_slice)
    }

    /// How many volumes a node takes, as kubelet has read it last.
    pub(super) fn volume_limit(&self, number: usize, registered: &Node) -> Option<u64> {
        self.volume_limits.get(&number).copied().unwrap_or(registered.volume_limit)
    }

    /// The volume that a claim is bound to.
    pub(super) fn volume_of_claim(&self, claim: &str) -> Option<&PersistentVolume> {
        let volume = self.claims.get(claim)?.claim.volume.as_ref()?;
        Some(&self.volumes.get(volume)?.volume)
    }

    /// The names of the claims that a pod uses, those that live as long as it included.
    pub(super) fn claims_of(pod: &Pod) -> impl Iterator<Item = String> {
        pod.spec.volumes.iter().filter_map(|volume| volume.claim_in(&pod.spec.name))
    }

    /// Pods that use a claim.
    pub(super) fn pods_with_claim(&self, claim: &str) -> impl Iterator<Item = &PodObject> {
        self.pods.values().filter(move |pod| Objects::claims_of(&pod.pod).any(|name| name == claim))
    }
}

impl crate::cluster::PodVolume {
    /// The claim behind it in the pod of this name.
    pub(super) fn claim_in(&self, pod: &str) -> Option<String> {
        use crate::cluster::VolumeSource::{self, EmptyDir, Ephemeral, Inline};
        match &self.source {
            VolumeSource::Claim { name, .. } => Some(name.clone()),
            Ephemeral(_) => Some(format!("{pod}-{}", self.name)),
            Inline { .. } | EmptyDir => None,
        }
    }
}

impl Objects {
    /// Asks for the deletion of everything that a test has made.
    pub(super) fn delete_all(&mut self) {
        self.pods.retain(|_, object| object.node.is_some());
        self.pods.values_mut().for_each(PodObject::delete);
        self.group_snapshots.values_mut().for_each(GroupObject::delete);
        self.snapshots.values_mut().for_each(SnapshotObject::delete);
        self.claims.values_mut().for_each(|object| object.deleting = true);
        self.volumes.values_mut().for_each(|object| object.deleting = true);
    }

    /// Whether nothing is there that a driver knows of.
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
            && self.group_snapshots.is_empty()
            && self.snapshots.is_empty()
            && self.claims.is_empty()
            && self.volumes.is_empty()
            && self.attachments.is_empty()
            && self.in_use.is_empty()
    }

    /// Why something that is deleted does not go: its deletion is given up.
    pub(super) fn stuck(&self) -> Option<String> {
        let pods = self.pods.values().filter(|pod| pod.stuck).find_map(|pod| pod.pod.given_up.clone());
        let detaching = self.attachments.values().filter(|attachment| attachment.detaching);
        let snapshots = self.snapshots.values().filter(|object| object.deleting);
        let groups = self.group_snapshots.values().filter(|object| object.deleting);
        pods.or_else(|| detaching.clone().find_map(|attachment| attachment.given_up.clone()))
            .or_else(|| self.volumes.values().find_map(|object| object.volume.given_up.clone()))
            .or_else(|| snapshots.clone().find_map(|object| object.snapshot.given_up.clone()))
            .or_else(|| groups.clone().find_map(|object| object.group.given_up.clone()))
    }

    /// What is there, with the latest event of each.
    pub(super) fn rest(&self) -> Option<String> {
        let names = self.pods.keys().chain(self.group_snapshots.keys()).chain(self.snapshots.keys());
        let names = names.chain(self.claims.keys()).chain(self.volumes.keys());
        let told = |name: &String| {
            let event = self.events_of(name).last();
            event.map_or(name.clone(), |event| format!("{name} ({}: {})", event.reason, event.message))
        };
        let mut rest: Vec<String> = names.map(told).collect();
        rest.extend(
            self.attachments.keys().map(|(volume, node)| format!("{volume} attached to node {node}")),
        );
        (!rest.is_empty()).then(|| rest.join("; "))
    }
}

impl PodObject {
    /// Asks for its deletion. What kept it from starting does not keep it from going.
    pub(super) fn delete(&mut self) {
        if !std::mem::replace(&mut self.deleting, true) {
            self.pod.given_up = None;
        }
    }
}

impl SnapshotProgress {
    /// Notes a failure.
    pub(super) fn fails(&mut self, failure: &Failure) {
        self.in_flight &= Caller::Snapshotter.judges(failure.code) == Verdict::Uncertain;
    }
}

impl SnapshotObject {
    /// Asks for its deletion.
    pub(super) fn delete(&mut self) {
        if !std::mem::replace(&mut self.deleting, true) {
            self.snapshot.given_up = None;
        }
    }
}

impl GroupObject {
    /// Asks for its deletion.
    pub(super) fn delete(&mut self) {
        if !std::mem::replace(&mut self.deleting, true) {
            self.group.given_up = None;
        }
    }
}
