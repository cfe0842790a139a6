//! A Kubernetes cluster as the tests see it: objects that are created, read and deleted, and commands in pods.
//!
//! Nothing here says whether the cluster is real. `emulated_cluster` plays one against the driver's sockets.
//! One value is one namespace: what is made through it is seen through it only, and [`Cluster::close`] removes all of it.

mod pod;
mod pvc;
mod snapshot;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use csi_harness::driver::MountCall;
use csi_harness::prelude::Capability;
use csi_harness::spec::verdict::Stop;
use csi_workload::Workload;
use csi_workload::checker::{Contents, Writer};
use futures_util::future::BoxFuture;
use tonic::async_trait;

pub use csi_driver_definitions::{
    AccessMode, AttributesClass, ReclaimPolicy, SnapshotClass, StorageClass, VolumeBindingMode,
};
pub use pod::{
    Container, Ended, FsGroupPolicy, Output, Pod, PodPhase, PodSpec, PodVolume, SeLinuxChangePolicy,
    VolumeDevice, VolumeMount, VolumeSource,
};
pub use pvc::{DataSource, PersistentVolume, Pvc, PvcPhase, PvcSpec, VolumeMode, VolumePhase};
pub use snapshot::{
    Block, GroupSnapshot, GroupSnapshotOrigin, GroupSnapshotSpec, Snapshot, SnapshotOrigin, SnapshotSpec,
};

/// Parameters, attributes or labels.
pub type Pairs = BTreeMap<String, String>;

/// A result of the cluster. An error of the API, or an unreachable cluster, is not the driver's fault, so it is
/// broken.
pub type Done<T = ()> = Result<T, Stop>;

/// Shows a line to the user.
pub type Say = fn(&str);

/// One namespace of a cluster, with the objects outside of namespaces that a test needs.
///
/// `create_…` ends when the object is written, not when it is ready: a test waits for that with
/// [`changed`](Cluster::changed). `delete_…` ends when the deletion is asked for; the object is gone when looking at it
/// answers `None`. Deleting what is gone is no error.
#[async_trait]
pub trait Cluster: fmt::Debug + Send + Sync {
    /// Returns the nodes that run pods and have the driver, in a stable order.
    async fn nodes(&self) -> Done<Vec<Node>>;

    /// Returns why this cluster lacks a feature, or `Ok` if it has it.
    ///
    /// # Errors
    /// Fails with the reason, which the test gives for its skip.
    fn offers(&self, feature: Feature) -> Result<(), String>;

    /// Returns whether the driver advertises a capability, or `None` if it cannot be asked from here.
    fn advertises(&self, capability: Capability) -> Option<bool>;

    /// Makes kubelet label volumes even if the nodes have no SELinux. In this case it returns the driver's mount calls, which have to
    /// be judged in place of mounts.
    fn assume_selinux(&self) -> Option<MountCalls>;

    async fn create_storage_class(&self, class: &StorageClass) -> Done;
    async fn delete_storage_class(&self, name: &str) -> Done;
    async fn create_snapshot_class(&self, class: &SnapshotClass) -> Done;
    async fn create_group_snapshot_class(&self, class: &SnapshotClass) -> Done;
    async fn create_attributes_class(&self, class: &AttributesClass) -> Done;
    /// Returns the finalizers of a VolumeAttributesClass, which delay its deletion, or `None` if there is no such
    /// class.
    async fn attributes_class_finalizers(&self, name: &str) -> Done<Option<Vec<String>>>;
    async fn delete_attributes_class(&self, name: &str) -> Done;
    /// Returns the published capacity for a class, with an entry for each topology segment.
    async fn capacities(&self, storage_class: &str) -> Done<Vec<Capacity>>;

    async fn create_pvc(&self, spec: &PvcSpec) -> Done;
    /// Reads a PersistentVolumeClaim.
    async fn claim(&self, name: &str) -> Done<Option<Pvc>>;
    /// Requests more bytes for a claim.
    async fn resize_pvc(&self, name: &str, request_bytes: i64) -> Done;
    /// Sets the VolumeAttributesClass of a claim.
    async fn set_attributes_class(&self, claim: &str, class: &str) -> Done;
    async fn delete_pvc(&self, name: &str) -> Done;

    /// Creates a PersistentVolume for an existing volume, bound to the claim that it names.
    async fn create_volume(&self, volume: &PersistentVolume) -> Done;
    async fn volume(&self, name: &str) -> Done<Option<PersistentVolume>>;
    async fn delete_volume(&self, name: &str) -> Done;
    /// Returns whether a PersistentVolume is attached to any node.
    async fn is_attached(&self, volume: &str) -> Done<bool>;

    async fn create_pod(&self, spec: &PodSpec) -> Done;
    async fn pod(&self, name: &str) -> Done<Option<Pod>>;
    /// Runs a shell script in a running container and waits for its end.
    ///
    /// # Errors
    /// Broken if the script cannot be run, or takes longer than the limit. Another exit code than 0 is no error.
    async fn exec(&self, pod: &str, container: &str, script: &str, limit: Duration) -> Done<Output>;
    /// Starts to write to the volume at a path of a running container, beside what the test does there.
    ///
    /// # Errors
    /// Broken if there can be no workload; skip if the driver mounts nothing.
    async fn start_workload(&self, pod: &str, container: &str, path: &str) -> Done<Workload>;
    /// Reads the places of a writer from a volume at a path of a running container: from its own, or from a copy of it.
    async fn read_workload(&self, pod: &str, container: &str, path: &str, writer: &Writer) -> Done<Contents>;
    /// Replaces the driver by another version of it, beside the pods that run.
    ///
    /// # Errors
    /// Broken if it cannot be replaced; skip if the user has given no command for that.
    async fn replace_driver(&self, version: DriverVersion) -> Done;
    /// Returns the path on this machine of the volume at a path of a running container.
    ///
    /// # Errors
    /// Skip if the volume is on another machine, or the driver mounts nothing.
    async fn local_path(&self, pod: &str, container: &str, path: &str) -> Done<PathBuf>;
    /// Deletes a pod gracefully, or immediately and without waiting for the node.
    async fn delete_pod(&self, name: &str, force: bool) -> Done;

    /// Creates a VolumeSnapshot from a claim or from an existing snapshot.
    async fn create_snapshot(&self, spec: &SnapshotSpec) -> Done;
    /// Reads a VolumeSnapshot and its content.
    async fn snapshot(&self, name: &str) -> Done<Option<Snapshot>>;
    /// Deletes a VolumeSnapshot, and its content even if that is to be retained.
    async fn delete_snapshot(&self, name: &str) -> Done;
    /// Returns the blocks of a VolumeSnapshot that hold data, or that differ from an earlier one of this volume, in
    /// ascending order. The sidecar of the SnapshotMetadata service streams them to clients.
    async fn snapshot_blocks(&self, snapshot: &str, earlier: Option<&str>) -> Done<Vec<Block>>;
    async fn create_group_snapshot(&self, spec: &GroupSnapshotSpec) -> Done;
    /// Reads a VolumeGroupSnapshot and its content.
    async fn group_snapshot(&self, name: &str) -> Done<Option<GroupSnapshot>>;
    async fn delete_group_snapshot(&self, name: &str) -> Done;

    /// Makes kubelet and the health monitor read the driver's health now, which they otherwise do periodically, and
    /// waits for them.
    ///
    /// # Errors
    /// A violation if no status can represent an answer.
    async fn look_after_health(&self) -> Done;
    /// Returns the health in the status of an object, or `None` before it is first reported.
    async fn health(&self, of: &HealthOf) -> Done<Option<Vec<HealthCondition>>>;

    /// Makes kubelet read the volume limits of the nodes again, and waits for it: [`Cluster::nodes`] returns them
    /// afterwards.
    ///
    /// # Errors
    /// A violation if a node has another identity than before.
    async fn read_limits_again(&self) -> Done;

    /// Returns the events of an object, the oldest first, such as those of a failed mount.
    async fn events(&self, object: &str) -> Done<Vec<Event>>;

    /// Returns what a node has for the volumes of the pod with this UID: target paths, device maps, and mounts below
    /// its directory. It is empty once kubelet has removed all of them.
    async fn paths_of_pod(&self, node: &str, uid: &str) -> Done<Vec<String>>;
    /// Stops kubelet on a node; pods continue to run.
    async fn stop_kubelet(&self, node: &str) -> Done;
    /// Starts kubelet on a node again. It only knows its directories and the API.
    async fn start_kubelet(&self, node: &str) -> Done;

    /// Shuts a node down as a power failure does. The cluster knows then that the node is out of service: it deletes the pods and detaches
    /// the volumes of the node without waiting for it.
    ///
    /// # Errors
    /// Broken if it cannot be shut down; skip if the user has given no command for that.
    async fn shut_node_down(&self, node: &str) -> Done;
    /// Starts a node again that was shut down, and waits until it runs pods.
    async fn start_node(&self, node: &str) -> Done;

    /// Ends when something may have changed since this call, or after a few seconds of waiting. A caller that calls
    /// it before it reads an object, and waits afterwards, misses no later change.
    fn changed(&self) -> BoxFuture<'static, ()>;

    /// Returns the evidence of a failed test, line by line: events and the current objects. It is empty if the calls
    /// to the driver suffice.
    async fn evidence(&self) -> Vec<String>;

    /// Deletes all remaining objects of this namespace, pods first, and waits until they are gone.
    ///
    /// # Errors
    /// A violation if the driver prevents the deletion of volumes or mounts.
    async fn close(&self) -> Done;
}

/// Declares the enum from a table: the features, each with the capability that a driver needs for it, if there is one.
macro_rules! features {
    ($($(#[doc = $doc:literal])* $feature:ident $(needs $capability:ident)?;)+) => {
        /// A feature that some clusters lack.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Feature {
            $($(#[doc = $doc])* $feature,)+
        }

        impl Feature {
            pub const ALL: &[Feature] = &[$(Feature::$feature,)+];

            /// Returns the capability that a driver needs for the feature.
            pub(crate) fn capability(self) -> Option<Capability> {
                match self {
                    $($(Feature::$feature => Some(Capability::$capability),)?)+
                    _ => None,
                }
            }
        }
    };
}

features! {
    /// The paths of a node can be read, and kubelet can be stopped and started.
    NodeAccess;
    /// Nodes that enforce SELinux.
    SeLinux;
    /// Volumes that are mounted with SELinux contexts, which can be seen.
    SeLinuxContexts;
    /// SELinux contexts for volumes of every access mode, as with the gate SELinuxMount.
    SeLinuxEveryMode;
    /// Tests of the API server, the scheduler, controllers or kubelet alone.
    Orchestrator;
    /// Snapshots, with their controller and their kinds.
    Snapshots;
    /// The sidecar of the SnapshotMetadata service.
    SnapshotMetadata needs SnapshotMetadataService;
    /// Snapshots that can only be used in some topologies.
    SnapshotTopology needs SnapshotAccessibilityConstraints;
    GroupSnapshots needs CreateDeleteGetVolumeGroupSnapshot;
    /// VolumeAttributesClasses.
    AttributesClasses;
    /// Statistics of volumes in use.
    VolumeStats needs GetVolumeStats;
    /// The health of volumes in use, as their nodes see it.
    VolumeHealth needs NodeGetVolumeHealth;
    /// The health of a driver's back end, as nodes see it.
    StorageHealth needs GetStorageHealth;
    /// The health of volumes, as the driver's controller sees it.
    ClaimHealth needs GetVolumeHealth;
    /// Volume limits of nodes that kubelet reads again.
    LimitsReadAgain;
    /// Tokens of service accounts that the driver requests.
    ServiceAccountTokens;
    /// Pods that are processes of this machine, whose volumes other programs of csi-sanity can use.
    LocalPods;
    /// A command that replaces the driver by its next version.
    DriverUpgrade;
    /// A command that replaces the driver by the version before.
    DriverDowngrade;
    /// Nodes that can be shut down and started again.
    NodeShutdown;
}

/// A version of the driver, seen from the one that runs when the tests begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverVersion {
    Next,
    Before,
}

/// Takes the driver's mount calls since the last time.
pub type MountCalls = Box<dyn Fn() -> Vec<MountCall> + Send + Sync>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// The node's topology in the driver: labels by key.
    pub topology: Pairs,
    /// The limit on the driver's volumes, if the driver reports one.
    pub volume_limit: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The topology segment of the capacity.
    pub topology: Pairs,
    /// The free bytes, if the driver reports them.
    pub available_bytes: Option<i64>,
}

/// The object whose status reports health.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthOf {
    /// A volume of a pod, by the names of both, as its node sees it: `status.volumeHealth` of the pod.
    PodVolume(String, String),
    /// The volume of a claim, as the driver's controller sees it: `status.healthStatus`.
    Claim(String),
    /// The back end of the driver, as a node sees it: `status.storageHealth` of its CSINode.
    Node(String),
}

/// A health problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCondition {
    /// The status, such as `Degraded` or `StorageUnreachable`.
    pub status: &'static str,
    /// The reason for programs.
    pub reason: String,
    /// The reason for people.
    pub message: String,
}

/// The calls for which a driver gets a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretUse {
    /// CreateVolume and DeleteVolume.
    Provisioner,
    /// ControllerPublishVolume and ControllerUnpublishVolume.
    ControllerPublish,
    /// NodeStageVolume.
    NodeStage,
    /// NodePublishVolume.
    NodePublish,
    /// ControllerExpandVolume.
    ControllerExpand,
    /// NodeExpandVolume.
    NodeExpand,
    /// ControllerModifyVolume.
    ControllerModify,
    /// CreateSnapshot, DeleteSnapshot, and the calls of the SnapshotMetadata service.
    Snapshotter,
    /// ListSnapshots.
    SnapshotterList,
    /// CreateVolumeGroupSnapshot and DeleteVolumeGroupSnapshot.
    GroupSnapshotter,
    /// GetVolumeGroupSnapshot.
    GroupSnapshotterGet,
}

/// The name and namespace of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretReference {
    pub namespace: String,
    pub name: String,
}

/// An event of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The kind of the event, such as `FailedMount` or `ProvisioningFailed`.
    pub reason: String,
    pub message: String,
    /// True if the event reports a problem.
    pub is_warning: bool,
}

impl Event {
    /// Returns the event that explains best why an object is not as expected, from its events in the order of time:
    /// the last warning, or without one, the last event, which may name what it waits for.
    pub fn most_explaining(events: &[Event]) -> Option<&Event> {
        events.iter().rfind(|event| event.is_warning && !event.holds_nothing_back()).or(events.last())
    }

    /// Returns whether pods start despite the event: in a cluster without DNS service every pod has this warning.
    fn holds_nothing_back(&self) -> bool {
        self.reason == "MissingClusterDNS"
    }
}
