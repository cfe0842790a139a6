//! A Kubernetes cluster as the tests see it: objects that are made, looked at and deleted, commands in pods.
//!
//! Nothing here says whether the cluster is real. `emulated_cluster` plays one against the driver's sockets.
//! One value is one namespace: what is made through it is seen through it only, and [`Cluster::close`] removes all of it.

mod class;
mod health;
mod pod;
mod pvc;
mod secret;
mod snapshot;

use std::fmt;
use std::time::Duration;

use csi_harness::prelude::Capability;
use csi_harness::spec::verdict::Stop;
use futures_util::future::BoxFuture;
use tonic::async_trait;

pub use class::{AttributesClass, BindingMode, Pairs, ReclaimPolicy, SnapshotClass, StorageClass};
pub use health::{HealthCondition, HealthOf};
pub use pod::{
    Container, Ended, FsGroupPolicy, Output, Pod, PodPhase, PodSpec, PodVolume, SeLinuxChangePolicy,
    VolumeDevice, VolumeMount, VolumeSource,
};
pub use pvc::{AccessMode, DataSource, PersistentVolume, Pvc, PvcPhase, PvcSpec, VolumeMode, VolumePhase};
pub use secret::{SecretReference, SecretUse};
pub use snapshot::{
    Block, GroupSnapshot, GroupSnapshotOrigin, GroupSnapshotSpec, Snapshot, SnapshotOrigin, SnapshotSpec,
};

/// A result of the cluster. A refusal of the API, or a cluster that cannot be reached, is no fault of the driver: broken.
pub type Done<T = ()> = Result<T, Stop>;

/// One namespace of a cluster, with the objects outside of namespaces that a test needs.
///
/// `create_…` ends when the object is written, not when it is ready: a test waits for that with
/// [`changed`](Cluster::changed). `delete_…` ends when the deletion is asked for; the object is gone when looking at it
/// answers `None`. Deleting what is gone is no error.
#[async_trait]
pub trait Cluster: fmt::Debug + Send + Sync {
    /// The nodes that run pods and have the driver, in a stable order.
    async fn nodes(&self) -> Done<Vec<Node>>;

    /// Why this cluster cannot do something; `Ok` if it can.
    ///
    /// # Errors
    /// The reason, for the skip.
    fn offers(&self, feature: Feature) -> Result<(), String>;

    /// Whether the driver advertises something; `None` where nobody here can ask it.
    fn advertises(&self, capability: Capability) -> Option<bool>;

    /// Makes a StorageClass.
    async fn create_storage_class(&self, class: &StorageClass) -> Done;
    /// Deletes a StorageClass.
    async fn delete_storage_class(&self, name: &str) -> Done;
    /// Makes a VolumeSnapshotClass.
    async fn create_snapshot_class(&self, class: &SnapshotClass) -> Done;
    /// Makes a VolumeGroupSnapshotClass.
    async fn create_group_snapshot_class(&self, class: &SnapshotClass) -> Done;
    /// Makes a VolumeAttributesClass.
    async fn create_attributes_class(&self, class: &AttributesClass) -> Done;
    /// The finalizers of a VolumeAttributesClass, which keep it from going; `None` if there is none of this name.
    async fn attributes_class_finalizers(&self, name: &str) -> Done<Option<Vec<String>>>;
    /// Deletes a VolumeAttributesClass.
    async fn delete_attributes_class(&self, name: &str) -> Done;
    /// The capacity that is published for a class, an entry for each segment of the topology.
    async fn capacities(&self, storage_class: &str) -> Done<Vec<Capacity>>;

    /// Makes a PersistentVolumeClaim.
    async fn create_pvc(&self, spec: &PvcSpec) -> Done;
    /// Looks at a claim.
    async fn claim(&self, name: &str) -> Done<Option<Pvc>>;
    /// Asks for more bytes in a claim.
    async fn resize_pvc(&self, name: &str, request_bytes: i64) -> Done;
    /// Names another VolumeAttributesClass in a claim.
    async fn set_attributes_class(&self, claim: &str, class: &str) -> Done;
    /// Deletes a claim.
    async fn delete_pvc(&self, name: &str) -> Done;

    /// Makes a PersistentVolume for a volume that exists, bound to the claim that it names.
    async fn create_volume(&self, volume: &PersistentVolume) -> Done;
    /// Looks at a PersistentVolume.
    async fn volume(&self, name: &str) -> Done<Option<PersistentVolume>>;
    /// Deletes a PersistentVolume.
    async fn delete_volume(&self, name: &str) -> Done;
    /// Whether a PersistentVolume is attached to any node.
    async fn is_attached(&self, volume: &str) -> Done<bool>;

    /// Makes a pod.
    async fn create_pod(&self, spec: &PodSpec) -> Done;
    /// Looks at a pod.
    async fn pod(&self, name: &str) -> Done<Option<Pod>>;
    /// Runs a shell script in a running container and waits for it.
    ///
    /// # Errors
    /// Broken if it cannot be run, or takes longer than the limit. An exit code that is not 0 is no error.
    async fn exec(&self, pod: &str, container: &str, script: &str, limit: Duration) -> Done<Output>;
    /// Deletes a pod: gracefully, or at once without waiting for the node.
    async fn delete_pod(&self, name: &str, force: bool) -> Done;

    /// Makes a VolumeSnapshot, from a claim or from a snapshot that exists.
    async fn create_snapshot(&self, spec: &SnapshotSpec) -> Done;
    /// Looks at a VolumeSnapshot and the content bound to it.
    async fn snapshot(&self, name: &str) -> Done<Option<Snapshot>>;
    /// Deletes a VolumeSnapshot, with its content if that is to be kept too.
    async fn delete_snapshot(&self, name: &str) -> Done;
    /// The blocks of a VolumeSnapshot that hold data, or that are other than in an earlier one of the same volume, in rising
    /// order: what the sidecar of the SnapshotMetadata service streams to a client.
    async fn snapshot_blocks(&self, snapshot: &str, earlier: Option<&str>) -> Done<Vec<Block>>;
    /// Makes a VolumeGroupSnapshot.
    async fn create_group_snapshot(&self, spec: &GroupSnapshotSpec) -> Done;
    /// Looks at a VolumeGroupSnapshot and the content bound to it.
    async fn group_snapshot(&self, name: &str) -> Done<Option<GroupSnapshot>>;
    /// Deletes a VolumeGroupSnapshot.
    async fn delete_group_snapshot(&self, name: &str) -> Done;

    /// Has kubelet and the health monitor ask the driver now what they else ask now and then, and waits for it.
    ///
    /// # Errors
    /// A violation if an answer is one that no status can hold.
    async fn look_after_health(&self) -> Done;
    /// What the status of something says of its health; `None` as long as nobody has found out.
    async fn health(&self, of: &HealthOf) -> Done<Option<Vec<HealthCondition>>>;

    /// Has kubelet read again now how many volumes each node takes, and waits for it: [`Cluster::nodes`] tells it afterwards.
    ///
    /// # Errors
    /// A violation if a node is another one than it was.
    async fn read_limits_again(&self) -> Done;

    /// What was reported of an object, the oldest first: messages of events, such as those of a failed mount.
    async fn events(&self, object: &str) -> Done<Vec<Event>>;

    /// What a node has of the volumes of the pod with this UID: target paths, device maps, mounts below its directory. Empty
    /// once kubelet has taken the pod off all of them.
    async fn paths_of_pod(&self, node: &str, uid: &str) -> Done<Vec<String>>;
    /// Stops kubelet on a node; pods go on running.
    async fn stop_kubelet(&self, node: &str) -> Done;
    /// Starts kubelet on a node again: it knows nothing but what lies in its directories and what the API says.
    async fn start_kubelet(&self, node: &str) -> Done;

    /// Ends when something may have changed since it was asked for, or a few seconds after the wait for it has begun. Whoever asks
    /// before a look, and waits behind it, misses nothing that came after the look.
    fn changed(&self) -> BoxFuture<'static, ()>;

    /// What there is to see when a test has failed, line by line: what was reported, and the objects as they are. Empty where
    /// the calls to the driver say it all.
    async fn evidence(&self) -> Vec<String>;

    /// Deletes everything that was made here and is there still, pods first, and waits until it is gone.
    ///
    /// # Errors
    /// A violation if the driver keeps something from going: volumes, mounts.
    async fn close(&self) -> Done;
}

/// What not every cluster has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// Paths of a node can be looked at; kubelet can be stopped and started.
    NodeAccess,
    /// Nodes that enforce SELinux.
    SeLinux,
    /// A test that is about the API server, the scheduler, controllers or kubelet alone.
    Orchestrator,
    /// Snapshots: their controller and their kinds.
    Snapshots,
    /// The sidecar of the SnapshotMetadata service.
    SnapshotMetadata,
    /// Snapshots that can be used from some places only.
    SnapshotTopology,
    /// Group snapshots.
    GroupSnapshots,
    /// VolumeAttributesClasses.
    AttributesClasses,
    /// Statistics of volumes in use.
    VolumeStats,
    /// The health of volumes in use, as their nodes see it.
    VolumeHealth,
    /// The health of a driver's back end, as nodes see it.
    StorageHealth,
    /// The health of volumes, as the controller of the driver sees it.
    ClaimHealth,
    /// Numbers of volumes that nodes take and that kubelet reads again.
    LimitsReadAgain,
    /// Tokens of service accounts that the driver asks for.
    ServiceAccountTokens,
}

impl Feature {
    /// All of them.
    pub const ALL: &[Feature] = &[
        Feature::NodeAccess,
        Feature::SeLinux,
        Feature::Orchestrator,
        Feature::Snapshots,
        Feature::SnapshotMetadata,
        Feature::SnapshotTopology,
        Feature::GroupSnapshots,
        Feature::AttributesClasses,
        Feature::VolumeStats,
        Feature::VolumeHealth,
        Feature::StorageHealth,
        Feature::ClaimHealth,
        Feature::LimitsReadAgain,
        Feature::ServiceAccountTokens,
    ];

    /// What a driver has to advertise for it.
    pub(crate) fn capability(self) -> Option<Capability> {
        match self {
            Feature::GroupSnapshots => Some(Capability::CreateDeleteGetVolumeGroupSnapshot),
            Feature::SnapshotMetadata => Some(Capability::SnapshotMetadataService),
            Feature::SnapshotTopology => Some(Capability::SnapshotAccessibilityConstraints),
            Feature::VolumeStats => Some(Capability::GetVolumeStats),
            Feature::VolumeHealth => Some(Capability::NodeGetVolumeHealth),
            Feature::StorageHealth => Some(Capability::GetStorageHealth),
            Feature::ClaimHealth => Some(Capability::GetVolumeHealth),
            Feature::NodeAccess
            | Feature::SeLinux
            | Feature::Orchestrator
            | Feature::Snapshots
            | Feature::AttributesClasses
            | Feature::LimitsReadAgain
            | Feature::ServiceAccountTokens => None,
        }
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its place in the topology of the driver: labels by key.
    pub topology: Pairs,
    /// How many volumes of the driver it takes, where the driver says so.
    pub volume_limit: Option<u64>,
}

/// A CSIStorageCapacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The segment of the topology that it is for.
    pub topology: Pairs,
    /// Bytes that are free, where the driver says so.
    pub available_bytes: Option<i64>,
}

/// Something reported of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// A word for the kind, such as `FailedMount` or `ProvisioningFailed`.
    pub reason: String,
    /// What happened.
    pub message: String,
    /// Whether something has gone wrong.
    pub is_warning: bool,
}

impl Event {
    /// Which of an object's events, given in the order of time, says most of why it is not as it should be: the last warning, and
    /// where nothing has gone wrong yet, the last of all, such as what is waited for.
    pub fn most_telling(events: &[Event]) -> Option<&Event> {
        events.iter().rfind(|event| event.is_warning && !event.holds_nothing_back()).or(events.last())
    }

    /// Whether pods start all the same: in a cluster without a DNS service, each of them has this warning.
    fn holds_nothing_back(&self) -> bool {
        self.reason == "MissingClusterDNS"
    }
}
