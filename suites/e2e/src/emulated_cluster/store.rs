//! Emulates the API server: objects by name, and a version of all of them that grows with each change.

use std::collections::{BTreeMap, BTreeSet};

use csi_proto::lock::Mutex;
use csi_proto::v1;
use tokio::sync::watch;

use super::failure::Failure;
use crate::cluster::{
    AttributesClass, Event, GroupSnapshot, HealthCondition, HealthOf, Node, Pairs, PersistentVolume, Pod,
    Pvc, Snapshot, SnapshotClass, StorageClass,
};

/// Limits the events of one object.
const EVENTS_MAX: usize = 200;

/// The objects, and the tasks that wait for changes.
#[derive(Debug)]
pub(super) struct Store {
    objects: Mutex<Objects>,
    version: watch::Sender<u64>,
}

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
    /// `node.status.volumesInUse`: the volumes that kubelet still uses.
    pub(super) in_use: BTreeSet<VolumeOnNode>,
    /// The numbers of the nodes with the taint `node.kubernetes.io/out-of-service`.
    pub(super) out_of_service: BTreeSet<usize>,
    /// The known health problems.
    pub(super) health: BTreeMap<HealthOf, Vec<HealthCondition>>,
    /// The volume limits of nodes, by number, if kubelet has read them again.
    pub(super) volume_limits: BTreeMap<usize, Option<u64>>,
    events: BTreeMap<String, Vec<Event>>,
}

/// A PersistentVolume on a node: its name, and the number of the node.
pub(super) type VolumeOnNode = (String, usize);

/// A claim, and the data that its annotations would contain.
#[derive(Debug, Default)]
pub(super) struct PvcObject {
    pub(super) claim: Pvc,
    pub(super) uid: String,
    pub(super) deleting: bool,
    /// The VolumeAttributesClasses that existed before the claim.
    pub(super) older_classes: BTreeSet<String>,
    /// The UID of the pod with which the claim is deleted.
    pub(super) owner: Option<String>,
    /// The node that the scheduler chose.
    pub(super) selected_node: Option<usize>,
    /// A CreateVolume request without a final answer, which is repeated unchanged.
    pub(super) in_flight: Option<v1::CreateVolumeRequest>,
    /// The size for which the controller's part of an expansion is done.
    pub(super) allocated_bytes: i64,
    /// True if the driver refused to expand the volume in use.
    pub(super) expands_idle: bool,
}

#[derive(Debug)]
pub(super) struct VolumeObject {
    pub(super) volume: PersistentVolume,
    pub(super) deleting: bool,
}

#[derive(Debug, Default)]
pub(super) struct Attachment {
    pub(super) volume_id: String,
    /// The publish_context, once the volume is attached.
    pub(super) attached: Option<Pairs>,
    pub(super) detaching: bool,
    /// `status.attachError`: the failure of the last attempt to attach it.
    pub(super) failed: Option<Failure>,
    pub(super) given_up: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct PodObject {
    pub(super) pod: Pod,
    pub(super) node: Option<usize>,
    pub(super) deleting: bool,
    /// True if kubelet gave up unmounting its volumes.
    pub(super) stuck: bool,
    /// The reason if the driver mounts nothing that containers could see.
    pub(super) unmounted: Option<String>,
}

#[derive(Debug)]
pub(super) struct SnapshotObject {
    pub(super) snapshot: Snapshot,
    pub(super) uid: String,
    pub(super) deleting: bool,
    /// The group snapshot of the member.
    pub(super) group: Option<String>,
    /// True if a call to create it had no final answer.
    pub(super) in_flight: bool,
}

#[derive(Debug)]
pub(super) struct GroupObject {
    pub(super) group: GroupSnapshot,
    pub(super) uid: String,
    pub(super) deleting: bool,
    /// The snapshot_ids of its members.
    pub(super) handles: Vec<String>,
    /// True if a call to create it had no final answer.
    pub(super) in_flight: bool,
}

impl Default for Store {
    fn default() -> Store {
        Store { objects: Mutex::default(), version: watch::Sender::new(0) }
    }
}

impl Store {
    /// Reads the objects.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Objects) -> T) -> T {
        look(&self.objects.lock())
    }

    /// Changes the objects, and wakes the waiting tasks.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        let changed = change(&mut self.objects.lock());
        self.version.send_modify(|version| *version += 1);
        changed
    }

    /// Changes a claim, if it still exists.
    pub(super) fn change_claim(&self, name: &str, change: impl FnOnce(&mut PvcObject)) {
        self.change(|objects| objects.claims.get_mut(name).map(change));
    }

    /// Returns a receiver of changes from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Waits until `find` returns something.
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

    /// Adds a warning to an object's events.
    pub(super) fn event(&self, object: &str, reason: &str, message: impl Into<String>) {
        let event = Event { reason: reason.to_owned(), message: message.into(), is_warning: true };
        self.change(|objects| objects.add_event(object, event));
    }
}

impl Objects {
    /// Adds an event to an object.
    pub(super) fn add_event(&mut self, object: &str, event: Event) {
        let events = self.events.entry(object.to_owned()).or_default();
        if events.len() < EVENTS_MAX {
            events.push(event);
        }
    }

    /// Returns the events of an object.
    pub(super) fn events_of(&self, object: &str) -> &[Event] {
        self.events.get(object).map_or(&[], Vec::as_slice)
    }

    /// Returns the volume limit of a node as kubelet last read it.
    pub(super) fn volume_limit(&self, number: usize, registered: &Node) -> Option<u64> {
        self.volume_limits.get(&number).copied().unwrap_or(registered.volume_limit)
    }

    /// Returns the volume of a claim.
    pub(super) fn volume_of_claim(&self, claim: &str) -> Option<&PersistentVolume> {
        let volume = self.claims.get(claim)?.claim.volume.as_ref()?;
        Some(&self.volumes.get(volume)?.volume)
    }

    /// Returns the names of the claims that a pod uses, including its ephemeral ones.
    pub(super) fn claims_of(pod: &Pod) -> impl Iterator<Item = String> {
        pod.spec.volumes.iter().filter_map(|volume| volume.claim_in(&pod.spec.name))
    }

    /// Returns the pods that use a claim.
    pub(super) fn pods_with_claim(&self, claim: &str) -> impl Iterator<Item = &PodObject> {
        self.pods.values().filter(move |pod| Objects::claims_of(&pod.pod).any(|name| name == claim))
    }
}

impl crate::cluster::PodVolume {
    /// Returns the claim of the volume in the pod of this name.
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
    /// Requests the deletion of all objects of a test.
    pub(super) fn delete_all(&mut self) {
        self.pods.retain(|_, object| object.node.is_some());
        self.pods.values_mut().for_each(PodObject::delete);
        self.group_snapshots.values_mut().for_each(GroupObject::delete);
        self.snapshots.values_mut().for_each(SnapshotObject::delete);
        self.claims.values_mut().for_each(|object| object.deleting = true);
        self.volumes.values_mut().for_each(|object| object.deleting = true);
    }

    /// Returns whether no object with a counterpart in the driver exists.
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
            && self.group_snapshots.is_empty()
            && self.snapshots.is_empty()
            && self.claims.is_empty()
            && self.volumes.is_empty()
            && self.attachments.is_empty()
            && self.in_use.is_empty()
    }

    /// Returns why the deletion of an object was given up, if there is one.
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

    /// Describes the remaining objects with the last event of each.
    pub(super) fn rest(&self) -> Option<String> {
        let names = self.pods.keys().chain(self.group_snapshots.keys()).chain(self.snapshots.keys());
        let names = names.chain(self.claims.keys()).chain(self.volumes.keys());
        let described = |name: &String| {
            let event = self.events_of(name).last();
            event.map_or(name.clone(), |event| format!("{name} ({}: {})", event.reason, event.message))
        };
        let mut rest: Vec<String> = names.map(described).collect();
        rest.extend(
            self.attachments.keys().map(|(volume, node)| format!("{volume} attached to node {node}")),
        );
        (!rest.is_empty()).then(|| rest.join("; "))
    }
}

impl PodObject {
    /// Requests its deletion. The reason that prevented its start does not prevent this.
    pub(super) fn delete(&mut self) {
        if !std::mem::replace(&mut self.deleting, true) {
            self.pod.given_up = None;
        }
    }
}

impl SnapshotObject {
    /// Requests its deletion.
    pub(super) fn delete(&mut self) {
        if !std::mem::replace(&mut self.deleting, true) {
            self.snapshot.given_up = None;
        }
    }
}

impl GroupObject {
    /// Requests its deletion.
    pub(super) fn delete(&mut self) {
        if !std::mem::replace(&mut self.deleting, true) {
            self.group.given_up = None;
        }
    }
}
