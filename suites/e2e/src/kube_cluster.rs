//! A real cluster, which is used through its API server.
//!
//! Each test has a namespace of its own. What it makes outside of namespaces has the name of the namespace in front, and
//! the labels of the run, so that runs do not disturb each other, and `cleanup` finds what a run has left that was killed.
//! The objects are JSON throughout: kinds of snapshots have no types of their own, and manifests are compared as they are.

pub mod api;
mod claims;
pub mod cleanup;
mod close;
mod clusters;
mod commands;
pub mod connect;
pub mod definition;
pub mod discovery;
mod events;
mod evidence;
mod exec;
pub mod forward;
mod group_snapshots;
pub mod kind;
mod marks;
mod metadata;
mod names;
mod node;
mod pods;
mod shutdown;
pub mod sidecar;
mod sidecar_nudges;
mod snapshots;
mod volumes;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use csi_harness::prelude::{Capability, Stop, Violation};
use csi_harness::resources::cleanup::Cleanup;
use csi_harness::resources::workload::new_run;
use csi_proto::lock::Mutex;
use csi_workload::checker::{Contents, Writer};
use csi_workload::{Elsewhere, Workload, elsewhere, now_us};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tonic::async_trait;

use crate::cluster::Say;
use crate::cluster::{
    AttributesClass, Block, Capacity, Cluster, Done, DriverVersion, Event, Feature, GroupSnapshot,
    GroupSnapshotOrigin, GroupSnapshotSpec, HealthCondition, HealthOf, MountCalls, Node, Output, Pairs,
    PersistentVolume, Pod, PodSpec, Pvc, PvcSpec, Snapshot, SnapshotClass, SnapshotOrigin, SnapshotSpec,
    StorageClass,
};
use crate::volume_slots::SlotPermit;
use api::{Server, bytes, pairs, text, text_at};
use close::Removal;
pub use close::reason;
pub use clusters::KubeClusters;
pub use commands::{DriverCommands, NodeCommands};
use discovery::Discovered;
use kind::ApiKind;
use marks::Marks;
use names::Names;
pub use node::NodeAccess;
use node::Nodes;
use pods::PodDefaults;
use shutdown::NodesDown;
use sidecar_nudges::SidecarNudges;
use watch::Watches;

/// The author of our objects: the value of `app.kubernetes.io/managed-by`, and the field manager.
pub const MANAGER: &str = "csi-sanity";
/// The default image of pods, which Kubernetes' own tests use.
pub const DEFAULT_IMAGE: &str = "registry.k8s.io/e2e-test-images/busybox:1.29-4";
/// Limits the removal of a test's objects.
const CLOSE_LIMIT: Duration = Duration::from_secs(8 * 60);
/// The reason why health is not tested.
const NO_HEALTH: &str = "these tests do not read what a real cluster reports about health; they run without --cluster, and --with-sanity judges the RPCs";
/// The reason why changing limits are not tested.
const NO_READING: &str =
    "a real cluster does not show when kubelet has read a limit again; the test runs without --cluster";
/// The reason why no program of csi-sanity runs in a pod.
const NO_LOCAL_PODS: &str =
    "the image of pods in a real cluster has no SQLite; the test runs without --cluster";
/// The reason why files of nodes and kubelet are not used.
const NO_NODE_ACCESS: &str = "without --node-access, the tests do not touch files of nodes or kubelet";

/// The settings of tests in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub driver: String,
    pub image: String,
    /// The node of pods that name none.
    pub client_node: Option<String>,
    /// The annotations of every claim.
    pub claim_annotations: Pairs,
    /// The use of nodes; without it, the tests do not use files of nodes and kubelet.
    pub node_access: Option<NodeAccess>,
    /// The commands that replace the driver.
    pub driver_commands: DriverCommands,
    /// The commands that shut nodes down; without them, no node is shut down.
    pub node_commands: Option<NodeCommands>,
}

/// Limits the import of a snapshot without an object, which is necessary to delete it.
const IMPORT_LIMIT: Duration = Duration::from_secs(60);

/// Limits the time in which a pod reads what a workload has written.
const READ_LIMIT: Duration = Duration::from_secs(60);

/// The places at which a snapshot or a group snapshot names its content: the one that it is bound to, or that it imports.
const CONTENT_NAMES: [(&str, ApiKind); 4] = [
    ("/status/boundVolumeSnapshotContentName", ApiKind::SnapshotContent),
    ("/spec/source/volumeSnapshotContentName", ApiKind::SnapshotContent),
    ("/status/boundVolumeGroupSnapshotContentName", ApiKind::GroupSnapshotContent),
    ("/spec/source/volumeGroupSnapshotContentName", ApiKind::GroupSnapshotContent),
];

/// The kind and name of an object.
type Object = (ApiKind, String);

/// One namespace of a real cluster.
#[derive(Debug)]
pub struct KubeCluster {
    found: Arc<Discovered>,
    settings: Settings,
    pod_defaults: PodDefaults,
    marks: Marks,
    names: Names,
    watches: Watches,
    /// The specifications of pods by name, because the API server adds much to them.
    pods: Mutex<BTreeMap<String, PodSpec>>,
    /// The contents that are deleted after their snapshot, by kind and name of the snapshot, which is gone when they
    /// are.
    going: Mutex<BTreeMap<Object, Vec<Object>>>,
    /// The snapshots that the driver retains without an object, in a form that can be imported again, by handle.
    kept: Mutex<BTreeMap<String, SnapshotSpec>>,
    sidecar_nudges: SidecarNudges,
    nodes: Nodes,
    nodes_down: NodesDown,
    say: Say,
    _permit: Option<SlotPermit>,
    /// Set once the account of the namespace may read its snapshots.
    granted: OnceCell<()>,
    /// Set once the namespace exists. It is created with the first object, because many tests skip before.
    opened: OnceCell<()>,
    /// True if the namespace may exist.
    is_begun: AtomicBool,
    is_closed: AtomicBool,
}

impl KubeCluster {
    fn new(
        found: Arc<Discovered>,
        settings: Settings,
        pod_defaults: PodDefaults,
        marks: Marks,
        namespace: &str,
        permit: Option<SlotPermit>,
        say: Say,
    ) -> KubeCluster {
        let watches = Watches::new(found.server.clone(), namespace);
        let names = Names::new(namespace);
        KubeCluster {
            found,
            settings,
            pod_defaults,
            marks,
            names,
            watches,
            say,
            _permit: permit,
            pods: Mutex::default(),
            going: Mutex::default(),
            kept: Mutex::default(),
            sidecar_nudges: SidecarNudges::default(),
            nodes: Nodes::default(),
            nodes_down: NodesDown::default(),
            granted: OnceCell::new(),
            opened: OnceCell::new(),
            is_begun: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Creates the namespace, unless it exists.
    async fn open(&self) -> Done {
        let make = async || {
            let manifest = self.marks.namespace(&self.names.namespace);
            self.is_begun.store(true, Ordering::SeqCst);
            let made = self.server().try_create(ApiKind::Namespace, None, manifest).await?;
            // A rejected object does not exist, or belongs to another. Without an answer this is unknown.
            self.is_begun.store(!matches!(&made, Err(why) if why.is_refusal()), Ordering::SeqCst);
            made.map(drop).map_err(|why| why.to("create", ApiKind::Namespace, &self.names.namespace))
        };
        self.opened.get_or_try_init(make).await.copied()
    }

    fn server(&self) -> &Server {
        &self.found.server
    }

    fn namespace(&self) -> Option<&str> {
        Some(&self.names.namespace)
    }

    async fn create(&self, kind: ApiKind, manifest: Value) -> Done {
        // A kind that the cluster lacks is no reason to create a namespace.
        self.server().api(kind, None)?;
        self.open().await?;
        self.server().create(kind, self.namespace(), manifest).await.map(drop)
    }

    /// Creates a class. It is outside of namespaces, so its name there is unique across tests and runs.
    async fn create_class(&self, kind: ApiKind, name: &str, class: &impl Serialize) -> Done {
        let mut manifest = json!(class);
        manifest["metadata"] = self.marks.metadata(&self.names.outside(name));
        self.create(kind, manifest).await
    }

    /// Reads an object, and watches its kind from now on.
    async fn look(&self, kind: ApiKind, name: &str) -> Done<Option<Value>> {
        self.watches.begin(kind);
        self.server().get(kind, self.namespace(), name).await
    }

    /// Reads the content that a snapshot or a group snapshot names, if it names one that exists.
    async fn look_at_content(&self, object: &Value) -> Done<Option<Value>> {
        let named = CONTENT_NAMES.iter().find_map(|(at, kind)| Some((*kind, text_at(object, at)?)));
        let Some((kind, name)) = named else { return Ok(None) };
        let content = self.look(kind, &name).await?;
        if let Some(content) = &content {
            self.sidecar_nudges.of(self.server(), kind, content).await;
        }
        Ok(content)
    }

    /// Reads the class of a snapshot from the cluster.
    async fn class(&self, kind: ApiKind, name: &str) -> Done<Value> {
        let class = self.server().get(kind, None, &self.names.outside(name)).await?;
        class.ok_or_else(|| Stop::broken(format!("there is no {} {name}", kind.facts().kind)))
    }

    /// Deletes a snapshot of either kind. Contents that would be retained are deleted after it, because the sidecar
    /// may otherwise miss their deletion.
    async fn delete_with(&self, kind: ApiKind, name: &str, retained: Vec<Object>) -> Done {
        let key = (kind, name.to_owned());
        self.going.lock().insert(key, retained);
        self.server().delete(kind, self.namespace(), name, None).await
    }

    /// Returns a content that still exists after its snapshot, and deletes it unless it is already being deleted.
    async fn rest_of(&self, kind: ApiKind, name: &str) -> Done<Option<Value>> {
        let key = (kind, name.to_owned());
        let going = self.going.lock().get(&key).cloned();
        let mut rest = None;
        for (content, one) in going.unwrap_or_default() {
            if let Some(object) = self.look(content, &one).await? {
                if text(&object, "/metadata/deletionTimestamp").is_empty() {
                    self.server().delete(content, None, &one, None).await?;
                }
                self.sidecar_nudges.of(self.server(), content, &object).await;
                rest = self.look(content, &one).await?.or(rest);
            }
        }
        Ok(rest)
    }

    /// Records that a snapshot has an object again.
    fn is_kept_no_more(&self, handle: &str) {
        self.kept.lock().remove(handle);
    }

    /// Imports a snapshot that the driver retains, so that it is deleted with its object, and waits until the import
    /// is done: before that, only the object would be deleted.
    async fn take_up(&self, handle: &str, spec: &SnapshotSpec) -> Done {
        let contents = self.server().list(ApiKind::SnapshotContent, None, "").await?;
        if contents.iter().any(|content| snapshots::handle(content).as_deref() == Some(handle)) {
            self.is_kept_no_more(handle);
            return Ok(());
        }
        self.create_snapshot(spec).await?;
        let until = Instant::now() + IMPORT_LIMIT;
        loop {
            let changed = self.watches.changed();
            let is_ready = self.snapshot(&spec.name).await?.is_some_and(|snapshot| snapshot.ready);
            if is_ready || Instant::now() >= until {
                return Ok(());
            }
            let _ = tokio::time::timeout_at(until, changed).await;
        }
    }

    async fn member_objects(&self, group: &str) -> Done<Vec<Value>> {
        let mut members = self.server().list(ApiKind::Snapshot, self.namespace(), "").await?;
        members.retain(|snapshot| group_snapshots::is_member(snapshot, group));
        Ok(members)
    }

    /// Removes everything, and returns the remaining objects.
    async fn remove_all(&self) -> Done<Vec<String>> {
        if !self.is_begun.load(Ordering::SeqCst) {
            return Ok(Vec::new());
        }
        // Without its node, a pod could not end.
        let started = self.start_all().await;
        let (server, namespace) = (self.server(), self.names.namespace.as_str());
        let until = Instant::now() + CLOSE_LIMIT;
        let kept = self.kept.lock().clone();
        let mut taken_up = Ok(());
        for (handle, spec) in &kept {
            taken_up = taken_up.and(self.take_up(handle, spec).await);
        }
        let (watches, sidecar_nudges) = (&self.watches, &self.sidecar_nudges);
        let removal =
            Removal { server, namespace, watches, sidecar_nudges, until, say: &|line| (self.say)(line) };
        let left = removal.run().await?;
        self.is_closed.store(left.is_empty() && taken_up.is_ok(), Ordering::SeqCst);
        started.and(taken_up).map(|()| left)
    }
}

impl Discovered {
    /// Returns whether the cluster has a feature for tests with these settings, or why not.
    pub(crate) fn offers(&self, settings: &Settings, feature: Feature) -> Result<(), String> {
        let has = |kind: ApiKind| if self.server.has(kind) { Ok(()) } else { Err(api::lacks(kind)) };
        match feature {
            Feature::NodeAccess => settings.node_access.as_ref().map(drop).ok_or(NO_NODE_ACCESS.to_owned()),
            Feature::Orchestrator => Ok(()),
            Feature::SnapshotMetadata => {
                self.metadata_service.as_ref().map(drop).ok_or_else(|| self.no_metadata(&settings.driver))
            }
            Feature::Snapshots => has(ApiKind::Snapshot),
            Feature::GroupSnapshots => has(ApiKind::GroupSnapshot),
            Feature::AttributesClasses => has(ApiKind::AttributesClass),
            Feature::SnapshotTopology => Err(
                "snapshot classes in a cluster are created without allowedTopologies; without --cluster they have them"
                    .to_owned(),
            ),
            Feature::VolumeStats | Feature::VolumeHealth | Feature::StorageHealth | Feature::ClaimHealth => {
                Err(NO_HEALTH.to_owned())
            }
            Feature::LimitsReadAgain => Err(NO_READING.to_owned()),
            Feature::LocalPods => Err(NO_LOCAL_PODS.to_owned()),
            Feature::DriverUpgrade => settings.driver_commands.command(DriverVersion::Next).map(drop),
            Feature::DriverDowngrade => settings.driver_commands.command(DriverVersion::Before).map(drop),
            Feature::NodeShutdown => shutdown::commands(settings.node_commands.as_ref()).map(drop),
            Feature::ServiceAccountTokens => {
                Err("kubelet passes them in every test if the CSIDriver asks for them".to_owned())
            }
            // Upstream's tests do not look at the gate either; their names have its labels.
            Feature::SeLinuxEveryMode => Ok(()),
            Feature::SeLinux | Feature::SeLinuxContexts => match self.nodes.iter().all(|node| node.enforces_selinux) {
                true => Ok(()),
                false => {
                    Err(format!("no label {} states that the nodes enforce SELinux", discovery::SELINUX_LABEL))
                }
            },
        }
    }
}

/// Snapshots whose content is to be retained leave it behind.
fn retained(content: Option<&Value>) -> Option<String> {
    let content = content.filter(|content| text(content, "/spec/deletionPolicy") == "Retain")?;
    Some(text(content, "/metadata/name").to_owned())
}

/// Describes a deleted snapshot whose content remains.
fn rest(content: &Value) -> Option<String> {
    Some(format!("its content {} still exists", text(content, "/metadata/name")))
}

#[async_trait]
impl Cleanup for KubeCluster {
    fn name(&self) -> String {
        format!("namespace {}", self.names.namespace)
    }

    async fn remove(&self) -> Result<(), String> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Ok(());
        }
        match self.remove_all().await {
            Ok(left) if left.is_empty() => Ok(()),
            Ok(left) => Err(close::sentence(&left)),
            Err(why) => Err(close::reason(why)),
        }
    }
}

#[async_trait]
impl Cluster for KubeCluster {
    async fn nodes(&self) -> Done<Vec<Node>> {
        Ok(self.found.nodes.iter().map(|node| node.node.clone()).collect())
    }

    fn offers(&self, feature: Feature) -> Result<(), String> {
        self.found.offers(&self.settings, feature)
    }

    fn advertises(&self, _capability: Capability) -> Option<bool> {
        None
    }

    fn assume_selinux(&self) -> Option<MountCalls> {
        None
    }

    async fn create_storage_class(&self, class: &StorageClass) -> Done {
        self.create_class(ApiKind::StorageClass, &class.name, class).await
    }

    async fn delete_storage_class(&self, name: &str) -> Done {
        self.server().delete(ApiKind::StorageClass, None, &self.names.outside(name), None).await
    }

    async fn create_snapshot_class(&self, class: &SnapshotClass) -> Done {
        self.create_class(ApiKind::SnapshotClass, &class.name, class).await
    }

    async fn create_group_snapshot_class(&self, class: &SnapshotClass) -> Done {
        self.create_class(ApiKind::GroupSnapshotClass, &class.name, class).await
    }

    async fn create_attributes_class(&self, class: &AttributesClass) -> Done {
        self.create_class(ApiKind::AttributesClass, &class.name, class).await
    }

    async fn attributes_class_finalizers(&self, name: &str) -> Done<Option<Vec<String>>> {
        let class = self.server().get(ApiKind::AttributesClass, None, &self.names.outside(name)).await?;
        Ok(class.map(|class| api::strings(&class, "/metadata/finalizers")))
    }

    async fn delete_attributes_class(&self, name: &str) -> Done {
        self.server().delete(ApiKind::AttributesClass, None, &self.names.outside(name), None).await
    }

    async fn capacities(&self, storage_class: &str) -> Done<Vec<Capacity>> {
        self.watches.begin(ApiKind::Capacity);
        let class = self.names.outside(storage_class);
        let mut found = self.server().list(ApiKind::Capacity, None, "").await?;
        found.retain(|object| text(object, "/storageClassName") == class);
        let capacity = |object: &Value| Capacity {
            topology: pairs(object, "/nodeTopology/matchLabels"),
            available_bytes: object.get("capacity").map(|_| bytes(object, "/capacity")),
        };
        Ok(found.iter().map(capacity).collect())
    }

    async fn create_pvc(&self, spec: &PvcSpec) -> Done {
        let manifest = claims::manifest(&self.names, spec, &self.settings.claim_annotations);
        self.create(ApiKind::Claim, manifest).await
    }

    async fn claim(&self, name: &str) -> Done<Option<Pvc>> {
        let object = self.look(ApiKind::Claim, name).await?;
        Ok(object.map(|object| claims::read(&self.names, &object)))
    }

    async fn resize_pvc(&self, name: &str, request_bytes: i64) -> Done {
        let requests = json!({ "requests": { "storage": request_bytes.to_string() } });
        let patch = json!({ "spec": { "resources": requests } });
        self.server().patch(ApiKind::Claim, self.namespace(), name, patch).await
    }

    async fn set_attributes_class(&self, claim: &str, class: &str) -> Done {
        let patch = json!({ "spec": { "volumeAttributesClassName": self.names.outside(class) } });
        self.server().patch(ApiKind::Claim, self.namespace(), claim, patch).await
    }

    async fn delete_pvc(&self, name: &str) -> Done {
        self.server().delete(ApiKind::Claim, self.namespace(), name, None).await
    }

    async fn create_volume(&self, volume: &PersistentVolume) -> Done {
        let metadata = self.marks.metadata(&self.names.by_hand(&volume.name));
        let manifest = volumes::manifest(&self.names, metadata, &self.settings.driver, volume);
        self.create(ApiKind::Volume, manifest).await
    }

    async fn volume(&self, name: &str) -> Done<Option<PersistentVolume>> {
        let object = self.look(ApiKind::Volume, &self.names.of_volume(name)).await?;
        Ok(object.map(|object| volumes::read(&self.names, &object)))
    }

    async fn delete_volume(&self, name: &str) -> Done {
        self.server().delete(ApiKind::Volume, None, &self.names.of_volume(name), None).await
    }

    async fn is_attached(&self, volume: &str) -> Done<bool> {
        self.watches.begin(ApiKind::Attachment);
        let volume = self.names.of_volume(volume);
        let attachments = self.server().list(ApiKind::Attachment, None, "").await?;
        Ok(attachments.iter().any(|one| text(one, "/spec/source/persistentVolumeName") == volume))
    }

    async fn create_pod(&self, spec: &PodSpec) -> Done {
        let manifest = pods::manifest(&self.names, &self.pod_defaults, spec);
        self.pods.lock().insert(spec.name.clone(), spec.clone());
        self.create(ApiKind::Pod, manifest).await
    }

    async fn pod(&self, name: &str) -> Done<Option<Pod>> {
        let object = self.look(ApiKind::Pod, name).await?;
        let spec = self.pods.lock().get(name).cloned();
        Ok(object.map(|object| pods::read(spec.unwrap_or_default(), &object)))
    }

    async fn exec(&self, pod: &str, container: &str, script: &str, limit: Duration) -> Done<Output> {
        exec::run(self.server(), &self.names.namespace, [pod, container], script, &[], limit).await
    }

    async fn start_workload(&self, pod: &str, container: &str, path: &str) -> Done<Workload> {
        let (run, asked_us) = (new_run(), now_us());
        let arguments = elsewhere::write_arguments(path, run);
        let namespace = &self.names.namespace;
        let (input, output, connection) =
            exec::start(self.server(), namespace, [pod, container], elsewhere::WRITE, &arguments).await?;
        let process = Elsewhere { input, output, connection, asked_us };
        let started = Workload::elsewhere(process, run, &format!("{pod}:{path}")).await;
        started.map_err(|error| Stop::broken(error.to_string()))
    }

    async fn read_workload(&self, pod: &str, container: &str, path: &str, writer: &Writer) -> Done<Contents> {
        let arguments = elsewhere::read_arguments(path, writer);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (namespace, at) = (&self.names.namespace, [pod, container]);
        let read = exec::run(self.server(), namespace, at, elsewhere::READ, &arguments, READ_LIMIT).await?;
        match read.code {
            0 => Ok(elsewhere::contents(&read.stdout, writer)),
            _ => Err(Stop::broken(format!("failed to read {path} in pod {pod}: {}", read.stderr.trim_end()))),
        }
    }

    async fn replace_driver(&self, version: DriverVersion) -> Done {
        self.settings.driver_commands.replace(version).await
    }

    async fn local_path(&self, _: &str, _: &str, _: &str) -> Done<PathBuf> {
        Err(Stop::skip(NO_LOCAL_PODS))
    }

    async fn delete_pod(&self, name: &str, force: bool) -> Done {
        self.server().delete(ApiKind::Pod, self.namespace(), name, force.then_some(0)).await
    }

    async fn create_snapshot(&self, spec: &SnapshotSpec) -> Done {
        let mut content = String::new();
        if let SnapshotOrigin::Handle(handle) = &spec.origin {
            let class = self.class(ApiKind::SnapshotClass, &spec.class).await?;
            content = self.names.outside(&spec.name);
            let metadata = self.marks.metadata(&content);
            let manifest = snapshots::content(&self.names, metadata, &class, spec, handle);
            self.create(ApiKind::SnapshotContent, manifest).await?;
        }
        self.create(ApiKind::Snapshot, snapshots::manifest(&self.names, spec, &content)).await?;
        if let SnapshotOrigin::Handle(handle) = &spec.origin {
            self.is_kept_no_more(handle);
        }
        Ok(())
    }

    async fn snapshot(&self, name: &str) -> Done<Option<Snapshot>> {
        match self.look(ApiKind::Snapshot, name).await? {
            Some(object) => {
                let content = self.look_at_content(&object).await?;
                Ok(Some(snapshots::read(&self.names, &object, content.as_ref())))
            }
            None => {
                let content = self.rest_of(ApiKind::Snapshot, name).await?;
                Ok(content.map(|content| {
                    let snapshot = snapshots::read(&self.names, &Value::Null, Some(&content));
                    Snapshot { error: rest(&content), ..snapshot }
                }))
            }
        }
    }

    async fn delete_snapshot(&self, name: &str) -> Done {
        let Some(object) = self.look(ApiKind::Snapshot, name).await? else { return Ok(()) };
        let content = self.look_at_content(&object).await?;
        let retained = retained(content.as_ref()).map(|content| (ApiKind::SnapshotContent, content));
        if let Some(handle) = content.as_ref().and_then(snapshots::handle).filter(|_| retained.is_some()) {
            let spec = snapshots::read(&self.names, &object, content.as_ref()).spec;
            let spec = SnapshotSpec { origin: SnapshotOrigin::Handle(handle.clone()), ..spec };
            self.kept.lock().insert(handle, spec);
        }
        self.delete_with(ApiKind::Snapshot, name, retained.into_iter().collect()).await
    }

    async fn snapshot_blocks(&self, snapshot: &str, earlier: Option<&str>) -> Done<Vec<Block>> {
        self.blocks(snapshot, earlier).await
    }

    async fn create_group_snapshot(&self, spec: &GroupSnapshotSpec) -> Done {
        let GroupSnapshotOrigin::Handles { group, snapshots } = &spec.origin else {
            let manifest = group_snapshots::manifest(&self.names, spec, "");
            return self.create(ApiKind::GroupSnapshot, manifest).await;
        };
        let class = self.class(ApiKind::GroupSnapshotClass, &spec.class).await?;
        let content = self.names.outside(&spec.name);
        let metadata = self.marks.metadata(&content);
        let manifest = group_snapshots::content(&self.names, metadata, &class, spec, group, snapshots);
        self.create(ApiKind::GroupSnapshotContent, manifest).await?;
        let manifest = group_snapshots::manifest(&self.names, spec, &content);
        let owner = self.server().create(ApiKind::GroupSnapshot, self.namespace(), manifest).await?;
        // No controller creates objects for existing snapshots: the importer of a group has to.
        for (number, handle) in snapshots.iter().enumerate() {
            let name = format!("{}-member-{number}", spec.name);
            let content = self.names.outside(&name);
            let metadata = self.marks.metadata(&content);
            let manifest = snapshots::content_without_class(&self.names, metadata, &class, &name, handle);
            self.create(ApiKind::SnapshotContent, manifest).await?;
            let manifest = group_snapshots::member(&self.names, &owner, &name, &content);
            self.create(ApiKind::Snapshot, manifest).await?;
        }
        Ok(())
    }

    async fn group_snapshot(&self, name: &str) -> Done<Option<GroupSnapshot>> {
        self.watches.begin(ApiKind::Snapshot);
        match self.look(ApiKind::GroupSnapshot, name).await? {
            Some(object) => {
                let content = self.look_at_content(&object).await?;
                let members = self.member_objects(name).await?;
                Ok(Some(group_snapshots::read(&self.names, &object, content.as_ref(), &members)))
            }
            None => {
                let content = self.rest_of(ApiKind::GroupSnapshot, name).await?;
                Ok(content.map(|content| {
                    let group = group_snapshots::read(&self.names, &Value::Null, Some(&content), &[]);
                    GroupSnapshot { error: rest(&content), ..group }
                }))
            }
        }
    }

    async fn delete_group_snapshot(&self, name: &str) -> Done {
        let Some(object) = self.look(ApiKind::GroupSnapshot, name).await? else { return Ok(()) };
        let content = self.look_at_content(&object).await?;
        let own = retained(content.as_ref()).map(|content| (ApiKind::GroupSnapshotContent, content));
        let mut going: Vec<Object> = own.into_iter().collect();
        // The members are deleted with their group; their contents would be retained as the group's is.
        for member in self.member_objects(name).await? {
            let content = self.look_at_content(&member).await?;
            going.extend(retained(content.as_ref()).map(|content| (ApiKind::SnapshotContent, content)));
        }
        self.delete_with(ApiKind::GroupSnapshot, name, going).await
    }

    async fn events(&self, object: &str) -> Done<Vec<Event>> {
        let found = events::of(self.server(), self.namespace(), object).await?;
        let outside = self.names.of_volume(object);
        if !found.is_empty() || !self.names.is_volume(object) {
            return Ok(found);
        }
        events::of(self.server(), None, &outside).await
    }

    async fn paths_of_pod(&self, node: &str, uid: &str) -> Done<Vec<String>> {
        self.paths_on_node(node, uid).await
    }

    async fn stop_kubelet(&self, node: &str) -> Done {
        self.stop_kubelet_on(node).await
    }

    async fn start_kubelet(&self, node: &str) -> Done {
        self.start_kubelet_on(node).await
    }

    async fn shut_node_down(&self, node: &str) -> Done {
        self.shut_down(node).await
    }

    async fn start_node(&self, node: &str) -> Done {
        self.start_up(node).await
    }

    fn changed(&self) -> BoxFuture<'static, ()> {
        self.watches.changed()
    }

    async fn read_limits_again(&self) -> Done {
        Err(Stop::skip(NO_READING))
    }

    async fn look_after_health(&self) -> Done {
        Err(Stop::skip(NO_HEALTH))
    }

    async fn health(&self, _of: &HealthOf) -> Done<Option<Vec<HealthCondition>>> {
        Err(Stop::skip(NO_HEALTH))
    }

    async fn evidence(&self) -> Vec<String> {
        evidence::lines(self.server(), &self.names.namespace).await
    }

    async fn close(&self) -> Done {
        let left = self.remove_all().await?;
        if left.is_empty() {
            return Ok(());
        }
        Err(Violation::new("what a test created cannot be removed")
            .expected("pods, snapshots, claims and their volumes can be deleted, in this order")
            .actual(close::sentence(&left))
            .transcript(self.evidence().await)
            .into())
    }
}
