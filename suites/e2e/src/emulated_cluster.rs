//! Emulates a cluster: kubelet and the CSI sidecars, one file for each, which call the sockets of a driver.
//!
//! The objects are in memory, the calls are those of the real components, in their order and with their fields, and
//! pods are processes of this machine. The differences are:
//!
//! - Failed calls are repeated as the real components do it, but not forever: once an RPC has failed for ten minutes, each
//!   time and in all tests, or with an answer after which the real components wait for minutes, the object says that it is
//!   given up, and why.
//! - Calls have the time limits of the harness instead of those of the sidecars.
//! - Possible effects of a rejected call are undone with a call, which kubelet would not make.
//! - For block volumes there is no loop device that keeps the published device busy, no global map and no link in the pod's
//!   directory: the driver sees none of them.
//! - Health is read periodically as in Kubernetes 1.37, and whenever a test needs it.
//! - A volume is published to one pod after the other, not concurrently.
//! - Of a node that is shut down, kubelet and the containers end. Its mounts stay until it is started again, as where only its network failed.
//! - If a Secret is missing or a class is wrong, no component waits for it: every read of an object reports it.
//!
//! A driver that mounts nothing, such as one that keeps volumes in memory, can have claims, snapshots, and pods
//! without commands: reading a pod with a script, or running a command in one, skips the test with the reason.

mod access_mode;
mod attacher;
mod clusters;
mod controllers;
mod failure;
mod group_snapshotter;
mod health;
mod health_monitor;
mod kubelet;
pub(crate) mod parameters;
mod provisioner;
mod queue;
mod resizer;
pub mod sandbox;
mod secrets;
mod shared;
mod snapshotter;
mod store;
mod topology;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use csi_driver_definitions::Objects as Installed;
use csi_harness::config::PathLayout;
use csi_harness::driver::Version as RunningVersion;
use csi_harness::prelude::{Capability, Cx, PathKind, Stop, Violation};
use csi_harness::resources::cleanup::Cleanup;
use csi_harness::resources::workload::play;
use csi_nemesis::versions;
use csi_proto::lock::Mutex;
use csi_proto::{Service, v1};
use csi_workload::checker::{Contents, Writer};
use csi_workload::{Workload, read_all};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tonic::{Code, async_trait};

use crate::cluster::{
    AttributesClass, Block, Capacity, Cluster, Done, DriverVersion, Event, Feature, GroupSnapshot,
    GroupSnapshotSpec, HealthCondition, HealthOf, MountCalls, Node, Output, Pairs, PersistentVolume, Pod,
    PodSpec, Pvc, PvcSpec, Snapshot, SnapshotClass, SnapshotSpec, StorageClass, VolumePhase, VolumeSource,
};
use crate::version::Version;
use crate::view::lacks;
use crate::volume_slots::{SlotPermit, VolumeSlots};
pub use clusters::EmulatedClusters;
use failure::Caller;
pub use failure::Streaks;
use kubelet::{Kubelet, attach_limit};
use queue::KUBELET;
use sandbox::Sandbox;
pub use shared::machine_has_selinux;
use shared::{KubeNode, Shared};
use store::{GroupObject, Objects, PodObject, PvcObject, SnapshotObject, VolumeObject};

/// The namespace of all objects.
const NAMESPACE: &str = "default";
/// Limits one wait for a change.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Limits the removal of all objects: a component that failed for a minute retries after two.
const CLOSE_LIMIT: Duration = Duration::from_secs(180);
/// Limits the wait for the tasks of a cluster to end.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Limits kubelet's attempts to register a driver.
const REGISTRATION_LIMIT: Duration = Duration::from_secs(300);

/// The reason for which SELinux contexts cannot be judged.
const NO_CONTEXTS: &str = "this machine has no SELinux, so the driver's mount calls have to be watched, which csi-sanity can only do if \
    --driver-command starts the driver";

/// The reason why the driver is not replaced.
const NO_UPGRADE: &str = "the driver is replaced only with --next-driver-command";

/// Features that no emulated cluster has, with the reasons.
pub const NEVER_OFFERED: [(Feature, &str); 2] = [
    (Feature::SeLinux, "the emulated nodes do not enforce SELinux"),
    (Feature::Orchestrator, "it tests Kubernetes alone, which is emulated here"),
];

/// The settings of an emulated cluster.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Our own program, which serves the containers of a pod if it is started with [`sandbox::ARGUMENT`].
    pub program: PathBuf,
    /// The objects of the driver's installation: its CSIDriver, and Secrets. Without a CSIDriver, its values are
    /// inferred.
    pub objects: Arc<Installed>,
    /// `--default-fstype` of the provisioner.
    pub default_fs_type: String,
    /// `--extra-create-metadata` of provisioner and snapshotter.
    pub extra_create_metadata: bool,
    /// Annotations that every claim has.
    pub claim_annotations: Pairs,
    /// The version of Kubernetes whose components are played.
    pub version: Version,
    /// `seLinuxMount` of the CSIDriver if no manifest has one.
    pub se_linux_mount: bool,
    /// The failures that the tests of a run have seen from the driver.
    pub streaks: Arc<Streaks>,
}

impl Settings {
    /// Returns the default flags of the components.
    pub fn new(program: PathBuf) -> Settings {
        Settings {
            program,
            objects: Arc::default(),
            default_fs_type: String::new(),
            extra_create_metadata: false,
            claim_annotations: Pairs::new(),
            version: Version::default(),
            se_linux_mount: false,
            streaks: Arc::default(),
        }
    }
}

/// An emulated cluster for one test, whose components end with it.
#[derive(Debug)]
pub struct EmulatedCluster {
    shared: Arc<Shared>,
    /// The running kubelets by the numbers of their nodes.
    kubelets: Mutex<BTreeMap<usize, Running>>,
    components: Arc<Components>,
    /// The cluster's share of the machine, which is released with it.
    _permit: Option<SlotPermit>,
}

/// A running kubelet.
#[derive(Debug)]
struct Running {
    task: AbortHandle,
    /// It is closed once all tasks ended.
    over: mpsc::Receiver<Infallible>,
}

impl EmulatedCluster {
    /// Starts a cluster for a check, once there are resources for it. Each node of the driver becomes a node.
    ///
    /// # Errors
    /// Broken if paths are not those of kubelet, a node does not answer NodeGetInfo, or other checks use the machine for too
    /// long; skips if the driver's files are elsewhere.
    pub async fn open(cx: &Cx, settings: Settings, slots: &VolumeSlots) -> Result<EmulatedCluster, Stop> {
        let config = cx.config();
        if config.path_layout != PathLayout::Kubelet {
            return Err(Stop::broken(
                "the emulated cluster needs the paths of kubelet; use --path-layout kubelet",
            ));
        }
        if config.paths.any() {
            return Err(Stop::skip(
                "pods must see the driver's mounts, but commands create its paths elsewhere",
            ));
        }
        let nodes = nodes(cx, &settings.streaks).await?;
        // The remaining time is for the check itself.
        let permit = slots.share(nodes.iter().map(|node| &node.node), cx.remaining() / 2).await?;
        let (live, over) = mpsc::channel(1);
        let shared = Arc::new(Shared::new(cx.clone(), settings, nodes, live));
        let mut components = JoinSet::new();
        components.spawn(controllers::run(shared.clone()));
        components.spawn(provisioner::run(shared.clone()));
        components.spawn(attacher::run(shared.clone()));
        components.spawn(resizer::expand_all(shared.clone()));
        components.spawn(resizer::modify_all(shared.clone()));
        components.spawn(snapshotter::run(shared.clone()));
        components.spawn(group_snapshotter::run(shared.clone()));
        components.spawn(health_monitor::run(shared.clone()));
        let components = Arc::new(Components { tasks: Mutex::new(components), over: over.into() });
        cx.removes(components.clone());
        let local = EmulatedCluster { shared, kubelets: Mutex::default(), components, _permit: permit };
        (0..local.shared.nodes.len()).for_each(|node| local.start(node));
        Ok(local)
    }

    fn start(&self, node: usize) {
        let mut kubelets = self.kubelets.lock();
        let mut components = self.components.tasks.lock();
        let shared = self.shared.clone();
        kubelets.entry(node).or_insert_with(|| {
            let (live, over) = mpsc::channel(1);
            Running { task: components.spawn(Kubelet::run(shared, node, live)), over }
        });
    }

    fn look<T>(&self, look: impl FnOnce(&Objects) -> T) -> T {
        self.shared.store.look(look)
    }

    /// Reads the objects. If an error in the user's files stops the components, this reports it at once.
    fn see<T>(&self, look: impl FnOnce(&Objects) -> T) -> Done<T> {
        self.shared.settings_hold()?;
        Ok(self.look(look))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        self.shared.store.change(change)
    }

    /// Returns a pod that runs, and its process.
    fn running(&self, pod: &str) -> Done<(Pod, Arc<Sandbox>)> {
        let object = self.look(|objects| objects.pods.get(pod).cloned());
        let object = object.ok_or_else(|| Stop::broken(format!("pod {pod} is gone")))?;
        if let Some(why) = object.unmounted {
            return Err(Stop::skip(why));
        }
        let sandbox = self.shared.sandbox(&object.pod.uid);
        let sandbox = sandbox.ok_or_else(|| Stop::broken(format!("pod {pod} does not run")))?;
        Ok((object.pod, sandbox))
    }

    /// Returns the path on the node of the volume that a container has at a path.
    fn target(&self, pod: &str, container: &str, path: &str) -> Done<PathBuf> {
        let (pod, sandbox) = self.running(pod)?;
        let container = pod.spec.all_containers().find(|one| one.name == container);
        let target = container.and_then(|one| one.volume_at(path)).and_then(|volume| sandbox.source(volume));
        let why = || Stop::broken(format!("pod {} has no volume at {path}", pod.spec.name));
        target.map(Path::to_owned).ok_or_else(why)
    }

    /// Returns why nothing shows with which SELinux context the driver mounts, if so.
    fn shows_contexts(&self) -> Result<(), String> {
        let driver = self.shared.cx.target().driver();
        let is_watched = driver.is_some_and(|driver| driver.is_watched_for_mounts());
        match is_watched || machine_has_selinux() {
            true => Ok(()),
            false => Err(NO_CONTEXTS.to_owned()),
        }
    }

    fn node_number(&self, name: &str) -> Done<usize> {
        let number = self.shared.nodes.iter().position(|node| node.node.name == name);
        number.ok_or_else(|| Stop::broken(format!("there is no node {name}")))
    }
}

/// The tasks of a cluster. An interrupted test ends them before it undoes its objects: otherwise a call under way, or
/// its successor, could create something after the cleanup.
#[derive(Debug)]
struct Components {
    tasks: Mutex<JoinSet<()>>,
    /// It is closed once all tasks ended.
    over: tokio::sync::Mutex<mpsc::Receiver<Infallible>>,
}

#[async_trait]
impl Cleanup for Components {
    fn name(&self) -> String {
        "what kubelet and the sidecars do".to_owned()
    }

    async fn remove(&self) -> Result<(), String> {
        self.tasks.lock().abort_all();
        let mut over = self.over.lock().await;
        match tokio::time::timeout(END_LIMIT, over.recv()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("it is still running after {} s", END_LIMIT.as_secs())),
        }
    }
}

/// Registers the driver like kubelet: NodeGetInfo on each node.
async fn nodes(cx: &Cx, streaks: &Streaks) -> Result<Vec<KubeNode>, Stop> {
    let mut nodes = Vec::new();
    if !cx.target().serves(Service::Node) {
        return Ok(nodes);
    }
    for index in 0..cx.target().nodes().len() {
        let info = registered(&cx.at_node(index), streaks).await?;
        let volume_limit = attach_limit::reported(&info);
        let topology = info.accessible_topology.map(|place| place.segments).unwrap_or_default();
        let name = format!("node-{}", index + 1);
        nodes.push(KubeNode { node: Node { name, topology, volume_limit }, id: info.node_id });
    }
    Ok(nodes)
}

/// Calls NodeGetInfo and repeats it on errors, as kubelet does when it registers a driver.
async fn registered(node: &Cx, streaks: &Streaks) -> Result<v1::NodeGetInfoResponse, Stop> {
    let until = Instant::now() + REGISTRATION_LIMIT.min(node.remaining() / 2);
    for tries in 1.. {
        let reply = node.call(v1::NodeGetInfoRequest::default()).once().await;
        let pause = KUBELET.pause(tries);
        let is_over = match streaks.heard(&reply) {
            Ok(_) => true,
            Err(failure) => {
                failure.code == Code::Unimplemented || streaks.gives_up(&failure, Caller::Kubelet).is_some()
            }
        };
        if is_over || Instant::now() + pause > until {
            return reply.setup("the id of the node");
        }
        tokio::time::sleep(pause).await;
    }
    Err(Stop::broken("kubelet could not register a driver"))
}

fn already(kind: &str, name: &str) -> Stop {
    Stop::broken(format!("there is a {kind} {name} already"))
}

fn gone(kind: &str, name: &str) -> Stop {
    Stop::broken(format!("there is no {kind} {name}"))
}

/// Adds a new object.
fn insert<T>(objects: &mut BTreeMap<String, T>, kind: &str, name: &str, object: T) -> Done {
    if objects.contains_key(name) {
        return Err(already(kind, name));
    }
    objects.insert(name.to_owned(), object);
    Ok(())
}

#[async_trait]
impl Cluster for EmulatedCluster {
    async fn nodes(&self) -> Done<Vec<Node>> {
        let now = |(index, node): (usize, &KubeNode)| Node {
            volume_limit: self.look(|objects| objects.volume_limit(index, &node.node)),
            ..node.node.clone()
        };
        Ok(self.shared.nodes.iter().enumerate().map(now).collect())
    }

    fn offers(&self, feature: Feature) -> Result<(), String> {
        if let Some((_, why)) = NEVER_OFFERED.iter().find(|(never, _)| *never == feature) {
            return Err((*why).to_owned());
        }
        let csi_driver = &self.shared.csi_driver;
        if feature == Feature::SeLinuxContexts {
            self.shows_contexts()?;
        }
        let version = self.shared.settings.version;
        if feature == Feature::SeLinuxEveryMode && !version.labels_every_access_mode() {
            return Err(format!(
                "kubelet {version} passes no SELinux context for such volumes: its gate SELinuxMount is off"
            ));
        }
        let missing = match feature {
            Feature::SeLinuxContexts if !csi_driver.se_linux_mount => Some("seLinuxMount"),
            Feature::LimitsReadAgain if csi_driver.node_allocatable_update_period_seconds.is_none() => {
                Some("nodeAllocatableUpdatePeriodSeconds")
            }
            Feature::ServiceAccountTokens if csi_driver.token_requests.is_empty() => Some("tokenRequests"),
            _ => None,
        };
        let config = self.shared.cx.config();
        match feature {
            Feature::DriverUpgrade if config.next_driver_command.is_none() => {
                return Err(NO_UPGRADE.to_owned());
            }
            Feature::DriverDowngrade if !config.downgrade => {
                return Err("the driver is replaced by the version before only with --downgrade".to_owned());
            }
            _ => {}
        }
        if let Some(field) = missing {
            return Err(format!("no --manifest has a CSIDriver object of the driver with {field}"));
        }
        match feature.capability() {
            Some(capability) if !self.shared.has(capability) => Err(lacks(capability)),
            _ => Ok(()),
        }
    }

    fn advertises(&self, capability: Capability) -> Option<bool> {
        Some(self.shared.has(capability))
    }

    fn assume_selinux(&self) -> Option<MountCalls> {
        if machine_has_selinux() {
            return None;
        }
        self.shared.assume_selinux();
        let cx = self.shared.cx.clone();
        Some(Box::new(move || {
            cx.target().driver().and_then(|driver| driver.take_mount_calls()).unwrap_or_default()
        }))
    }

    async fn create_storage_class(&self, class: &StorageClass) -> Done {
        self.change(|objects| {
            insert(&mut objects.storage_classes, "StorageClass", &class.name, class.clone())
        })
    }

    async fn delete_storage_class(&self, name: &str) -> Done {
        self.change(|objects| objects.storage_classes.remove(name));
        Ok(())
    }

    async fn create_snapshot_class(&self, class: &SnapshotClass) -> Done {
        self.change(|objects| {
            insert(&mut objects.snapshot_classes, "VolumeSnapshotClass", &class.name, class.clone())
        })
    }

    async fn create_group_snapshot_class(&self, class: &SnapshotClass) -> Done {
        self.change(|objects| {
            insert(
                &mut objects.group_snapshot_classes,
                "VolumeGroupSnapshotClass",
                &class.name,
                class.clone(),
            )
        })
    }

    async fn create_attributes_class(&self, class: &AttributesClass) -> Done {
        self.change(|objects| {
            insert(&mut objects.attributes_classes, "VolumeAttributesClass", &class.name, class.clone())
        })
    }

    async fn attributes_class_finalizers(&self, name: &str) -> Done<Option<Vec<String>>> {
        Ok(self.look(|objects| objects.attributes_classes.get(name).map(|_| Vec::new())))
    }

    async fn delete_attributes_class(&self, name: &str) -> Done {
        self.change(|objects| objects.attributes_classes.remove(name));
        Ok(())
    }

    async fn capacities(&self, storage_class: &str) -> Done<Vec<Capacity>> {
        let class = self.look(|objects| objects.storage_classes.get(storage_class).cloned());
        let Some(class) = class.filter(|_| self.shared.has(Capability::GetCapacity)) else {
            return Ok(Vec::new());
        };
        let mut segments: Vec<Pairs> = match self.shared.has(Capability::VolumeAccessibilityConstraints) {
            true => self.shared.nodes.iter().map(|node| node.node.topology.clone()).collect(),
            false => vec![Pairs::new()],
        };
        segments.sort();
        segments.dedup();
        let mut capacities = Vec::new();
        for topology in segments {
            let accessible = v1::Topology { segments: topology.clone() };
            let request = v1::GetCapacityRequest {
                // Unlike CreateVolume, this call gets the reserved keys as well.
                parameters: class.parameters.clone(),
                accessible_topology: Some(accessible).filter(|place| !place.segments.is_empty()),
                ..Default::default()
            };
            let capacity = match self.shared.heard(&self.shared.cx.call(request).once().await) {
                Ok(capacity) => capacity,
                Err(failure) => {
                    self.shared.store.event(storage_class, "GetCapacityFailed", failure.to_string());
                    return Ok(Vec::new());
                }
            };
            capacities.push(Capacity { topology, available_bytes: Some(capacity.available_capacity) });
        }
        Ok(capacities)
    }

    async fn create_pvc(&self, spec: &PvcSpec) -> Done {
        let uid = self.shared.uid();
        self.change(|objects| {
            let older_classes = objects.attributes_classes.keys().cloned().collect();
            let object = PvcObject { older_classes, ..PvcObject::new(spec.clone(), uid) };
            insert(&mut objects.claims, "PersistentVolumeClaim", &spec.name, object)
        })
    }

    async fn claim(&self, name: &str) -> Done<Option<Pvc>> {
        self.see(|objects| objects.claims.get(name).map(|object| object.claim.clone()))
    }

    async fn resize_pvc(&self, name: &str, request_bytes: i64) -> Done {
        self.change(|objects| {
            let Objects { claims, storage_classes, .. } = objects;
            let object = claims.get_mut(name).ok_or_else(|| gone("PersistentVolumeClaim", name))?;
            let class = storage_classes.get(&object.claim.spec.class);
            if !class.is_some_and(|class| class.allow_volume_expansion) {
                return Err(Stop::broken(format!("the class of claim {name} does not allow expansion")));
            }
            object.claim.spec.request_bytes = request_bytes;
            object.claim.given_up = None;
            Ok(())
        })
    }

    async fn set_attributes_class(&self, claim: &str, class: &str) -> Done {
        self.change(|objects| {
            let object = objects.claims.get_mut(claim).ok_or_else(|| gone("PersistentVolumeClaim", claim))?;
            if !object.older_classes.contains(class) {
                // The csi-resizer may not have the class in its cache yet, and then never reads it again.
                let why = format!("VolumeAttributesClass {class} has to exist before claim {claim}");
                return Err(Stop::broken(why));
            }
            object.claim.spec.attributes_class = Some(class.to_owned());
            object.claim.given_up = None;
            Ok(())
        })
    }

    async fn delete_pvc(&self, name: &str) -> Done {
        self.change(|objects| objects.claims.get_mut(name).map(|object| object.deleting = true));
        Ok(())
    }

    async fn create_volume(&self, volume: &PersistentVolume) -> Done {
        // The controllers set the phase.
        let volume = PersistentVolume { phase: VolumePhase::Available, ..volume.clone() };
        let object = VolumeObject { volume: volume.clone(), deleting: false };
        self.change(|objects| insert(&mut objects.volumes, "PersistentVolume", &volume.name, object))
    }

    async fn volume(&self, name: &str) -> Done<Option<PersistentVolume>> {
        self.see(|objects| objects.volumes.get(name).map(|object| object.volume.clone()))
    }

    async fn delete_volume(&self, name: &str) -> Done {
        self.change(|objects| objects.volumes.get_mut(name).map(|object| object.deleting = true));
        Ok(())
    }

    async fn is_attached(&self, volume: &str) -> Done<bool> {
        Ok(self.look(|objects| objects.attachments.keys().any(|(name, _)| name == volume)))
    }

    async fn create_pod(&self, spec: &PodSpec) -> Done {
        for volume in &spec.volumes {
            if let VolumeSource::Inline { driver, .. } = &volume.source
                && driver != self.shared.driver()
            {
                return Err(Stop::broken(format!("volume {} is for driver {driver}", volume.name)));
            }
        }
        let node = spec.bound_to.as_deref().map(|name| self.node_number(name)).transpose()?;
        let pod =
            Pod { spec: spec.clone(), uid: self.shared.uid(), node: spec.bound_to.clone(), ..Pod::default() };
        let object = PodObject { pod, node, deleting: false, stuck: false, unmounted: None };
        self.change(|objects| insert(&mut objects.pods, "Pod", &spec.name, object))
    }

    async fn pod(&self, name: &str) -> Done<Option<Pod>> {
        let Some(object) = self.see(|objects| objects.pods.get(name).cloned())? else { return Ok(None) };
        let has_script = object.pod.spec.all_containers().any(|container| container.script.is_some());
        match object.unmounted {
            Some(why) if has_script && !object.deleting => Err(Stop::skip(why)),
            _ => Ok(Some(object.pod)),
        }
    }

    async fn exec(&self, pod: &str, container: &str, script: &str, limit: Duration) -> Done<Output> {
        let (_, sandbox) = self.running(pod)?;
        let ended = sandbox.run(container, script, Some(limit)).await;
        ended.map_err(|why| Stop::broken(format!("a command in pod {pod}: {why}: {script}")))
    }

    async fn start_workload(&self, pod: &str, container: &str, path: &str) -> Done<Workload> {
        let target = self.target(pod, container, path)?;
        let started = Workload::start_beside_data(&target, &format!("{pod}:{path}")).await;
        started.map_err(|error| Stop::broken(error.to_string()))
    }

    async fn read_workload(&self, pod: &str, container: &str, path: &str, writer: &Writer) -> Done<Contents> {
        let (target, layout) = (self.target(pod, container, path)?, writer.layout);
        let read = play(move || read_all(&target, &layout)).await?;
        read.map_err(|error| Stop::broken(format!("failed to read {path} of pod {pod}: {error}")))
    }

    async fn replace_driver(&self, version: DriverVersion) -> Done {
        let driver = versions::with_next_version(&self.shared.cx)?;
        let by = match version {
            DriverVersion::Next if driver.version() == RunningVersion::Next => {
                return Err(Stop::skip(
                    "an earlier test has replaced the driver by its next version, and --downgrade is not given",
                ));
            }
            DriverVersion::Next => RunningVersion::Next,
            DriverVersion::Before => RunningVersion::Present,
        };
        versions::replace(&self.shared.cx, by).await.map(drop)
    }

    async fn local_path(&self, pod: &str, container: &str, path: &str) -> Done<PathBuf> {
        self.target(pod, container, path)
    }

    async fn delete_pod(&self, name: &str, force: bool) -> Done {
        self.change(|objects| {
            let Some(object) = objects.pods.get_mut(name) else { return };
            object.delete();
            if force || object.node.is_none() {
                objects.pods.remove(name);
            }
        });
        Ok(())
    }

    async fn create_snapshot(&self, spec: &SnapshotSpec) -> Done {
        let uid = self.shared.uid();
        self.change(|objects| {
            let class = objects.snapshot_classes.get(&spec.class);
            let deletion = class.ok_or_else(|| gone("VolumeSnapshotClass", &spec.class))?.deletion_policy;
            let snapshot = Snapshot {
                spec: spec.clone(),
                ready: false,
                handle: None,
                restore_size_bytes: 0,
                topology: Vec::new(),
                deletion,
                error: None,
                given_up: None,
            };
            let object = SnapshotObject { snapshot, uid, deleting: false, group: None, in_flight: false };
            insert(&mut objects.snapshots, "VolumeSnapshot", &spec.name, object)
        })
    }

    async fn snapshot(&self, name: &str) -> Done<Option<Snapshot>> {
        self.see(|objects| objects.snapshots.get(name).map(|object| object.snapshot.clone()))
    }

    async fn delete_snapshot(&self, name: &str) -> Done {
        self.change(|objects| objects.snapshots.get_mut(name).map(SnapshotObject::delete));
        Ok(())
    }

    async fn snapshot_blocks(&self, snapshot: &str, earlier: Option<&str>) -> Done<Vec<Block>> {
        snapshotter::blocks(&self.shared, snapshot, earlier).await
    }

    async fn create_group_snapshot(&self, spec: &GroupSnapshotSpec) -> Done {
        let uid = self.shared.uid();
        self.change(|objects| {
            let class = objects.group_snapshot_classes.get(&spec.class);
            let deletion =
                class.ok_or_else(|| gone("VolumeGroupSnapshotClass", &spec.class))?.deletion_policy;
            let group = GroupSnapshot {
                spec: spec.clone(),
                ready: false,
                handle: None,
                members: Vec::new(),
                deletion,
                error: None,
                given_up: None,
            };
            let object = GroupObject { group, uid, deleting: false, handles: Vec::new(), in_flight: false };
            insert(&mut objects.group_snapshots, "VolumeGroupSnapshot", &spec.name, object)
        })
    }

    async fn group_snapshot(&self, name: &str) -> Done<Option<GroupSnapshot>> {
        self.see(|objects| objects.group_snapshots.get(name).map(|object| object.group.clone()))
    }

    async fn delete_group_snapshot(&self, name: &str) -> Done {
        self.change(|objects| objects.group_snapshots.get_mut(name).map(GroupObject::delete));
        Ok(())
    }

    async fn look_after_health(&self) -> Done {
        for node in 0..self.shared.nodes.len() {
            kubelet::health::round(&self.shared, node).await?;
        }
        health_monitor::round(&self.shared).await
    }

    async fn read_limits_again(&self) -> Done {
        for node in 0..self.shared.nodes.len() {
            attach_limit::read_again(&self.shared, node).await?;
        }
        Ok(())
    }

    async fn health(&self, of: &HealthOf) -> Done<Option<Vec<HealthCondition>>> {
        Ok(self.look(|objects| objects.health.get(of).cloned()))
    }

    async fn events(&self, object: &str) -> Done<Vec<Event>> {
        Ok(self.look(|objects| objects.events_of(object).to_vec()))
    }

    async fn paths_of_pod(&self, node: &str, uid: &str) -> Done<Vec<String>> {
        let node = self.node_number(node)?;
        let cx = self.shared.cx.at_node(node);
        let mut there = Vec::new();
        for path in self.shared.paths_of_pod(node, uid) {
            if cx.path_kind(&path).await? != PathKind::NotFound {
                there.push(path);
            }
        }
        Ok(there)
    }

    async fn stop_kubelet(&self, node: &str) -> Done {
        let node = self.node_number(node)?;
        let kubelet = self.kubelets.lock().remove(&node);
        let Some(mut kubelet) = kubelet else { return Ok(()) };
        kubelet.task.abort();
        match tokio::time::timeout(END_LIMIT, kubelet.over.recv()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Stop::broken(format!("kubelet still runs after {} s", END_LIMIT.as_secs()))),
        }
    }

    async fn start_kubelet(&self, node: &str) -> Done {
        let node = self.node_number(node)?;
        self.change(|objects| {
            let here = objects.pods.values_mut().filter(|object| object.node == Some(node));
            here.for_each(|object| object.pod.mounted = false);
        });
        self.start(node);
        Ok(())
    }

    async fn shut_node_down(&self, node: &str) -> Done {
        self.stop_kubelet(node).await?;
        let node = self.node_number(node)?;
        for uid in self.shared.pods_ever_on(node) {
            self.shared.kill(&uid).await;
        }
        self.change(|objects| {
            objects.out_of_service.insert(node);
            objects.pods.retain(|_, object| object.node != Some(node));
        });
        Ok(())
    }

    async fn start_node(&self, node: &str) -> Done {
        let number = self.node_number(node)?;
        if self.change(|objects| objects.out_of_service.remove(&number)) {
            self.start_kubelet(node).await?;
        }
        Ok(())
    }

    fn changed(&self) -> BoxFuture<'static, ()> {
        let mut changes = self.shared.store.subscribe();
        Box::pin(async move {
            let _ = tokio::time::timeout(LOOK_AGAIN, changes.changed()).await;
        })
    }

    async fn evidence(&self) -> Vec<String> {
        Vec::new()
    }

    async fn close(&self) -> Done {
        let down = self.look(|objects| objects.out_of_service.clone());
        for node in down {
            self.start_node(&self.shared.nodes[node].node.name).await?;
        }
        self.change(Objects::delete_all);
        // The rest of the time is for the ledger, which reports everything that it cannot undo.
        let limit = CLOSE_LIMIT.min(self.shared.cx.remaining() / 2);
        let gone = self.shared.store.until(|objects| {
            let stuck = objects.stuck();
            (objects.is_empty() || stuck.is_some()).then_some(stuck)
        });
        let stuck = match tokio::time::timeout(limit, gone).await {
            Ok(stuck) => stuck,
            Err(_) => self.look(Objects::rest),
        };
        match stuck {
            None => Ok(()),
            Some(why) => Err(Violation::new("what a test created cannot be removed")
                .expected("pods, snapshots, claims and their volumes can be deleted, in this order")
                .actual(why)
                .into()),
        }
    }
}
