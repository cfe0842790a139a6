//! What all components of one emulated cluster have in common.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use csi_driver_definitions::CsiDriver;
use csi_harness::prelude::{Capability, Cx, Reply, Stop};
use csi_harness::text::encoding::{hex, uid};
use csi_proto::lock::Mutex;
use csi_proto::v1::{self, volume_capability};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::failure::{Caller, Failure};
use super::kubelet::health::Watched;
use super::sandbox::Sandbox;
use super::store::Store;
use super::{Settings, csi_driver};
use crate::cluster::{HealthOf, Node, PersistentVolume, VolumeMode};

/// What all components of one emulated cluster have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) cx: Cx,
    pub(super) store: Arc<Store>,
    pub(super) settings: Settings,
    /// What the driver's manifests say, or what can be told without them.
    pub(super) csi_driver: CsiDriver,
    /// True if a manifest has it.
    pub(super) has_csi_driver: bool,
    pub(super) nodes: Vec<KubeNode>,
    /// The processes of pods, by the UIDs of those. They outlive kubelet.
    sandboxes: Mutex<BTreeMap<String, Arc<Sandbox>>>,
    /// Target paths that pods have had on nodes, by node and UID.
    targets: Mutex<BTreeMap<(usize, String), Vec<String>>>,
    /// Volumes that pods want and that were tried to be mounted, by node, and by the names of pod and volume.
    watched: Mutex<BTreeMap<(usize, String, String), Watched>>,
    /// What is to be undone together, by node and name.
    scopes: Mutex<BTreeMap<(usize, String), Cx>>,
    /// What is wrong with the user's files.
    wrong: OnceLock<String>,
    /// Whoever works for the cluster holds all of this. Nothing is sent here: it closes when the last one ends.
    _live: mpsc::Sender<Infallible>,
}

/// A Node with its CSINode.
#[derive(Debug)]
pub(super) struct KubeNode {
    pub(super) node: Node,
    /// node_id.
    pub(super) id: String,
}

impl Shared {
    pub(super) fn new(
        cx: Cx,
        settings: Settings,
        nodes: Vec<KubeNode>,
        live: mpsc::Sender<Infallible>,
    ) -> Shared {
        let given = settings.objects.csi_driver(&cx.target().info().name).cloned();
        Shared {
            has_csi_driver: given.is_some(),
            csi_driver: given.unwrap_or_else(|| csi_driver::of(cx.target().capabilities())),
            cx,
            store: Arc::default(),
            settings,
            nodes,
            sandboxes: Mutex::default(),
            targets: Mutex::default(),
            watched: Mutex::default(),
            scopes: Mutex::default(),
            wrong: OnceLock::new(),
            _live: live,
        }
    }

    /// Whether the driver advertised this when it was asked first: sidecars ask when they start.
    pub(super) fn has(&self, capability: Capability) -> bool {
        self.cx.target().capabilities().has(capability)
    }

    /// The response, or how the call failed.
    pub(super) fn heard<T: Clone>(&self, reply: &Reply<T>) -> Result<T, Failure> {
        self.settings.streaks.heard(reply)
    }

    /// Why a component does not go on after a failure, if that is so.
    pub(super) fn gives_up(&self, failure: &Failure, caller: Caller) -> Option<String> {
        self.settings.streaks.gives_up(failure, caller)
    }

    /// The name of the driver.
    pub(super) fn driver(&self) -> &str {
        &self.cx.target().info().name
    }

    /// A UID that no other object of any run has.
    pub(super) fn uid(&self) -> String {
        uid(&self.cx.unique_name())
    }

    /// The process of a pod.
    pub(super) fn sandbox(&self, pod_uid: &str) -> Option<Arc<Sandbox>> {
        self.sandboxes.lock().get(pod_uid).cloned()
    }

    /// Keeps the process of a pod.
    pub(super) fn keep(&self, pod_uid: &str, sandbox: Arc<Sandbox>) {
        let mut sandboxes = self.sandboxes.lock();
        sandboxes.insert(pod_uid.to_owned(), sandbox);
    }

    /// Ends the process of a pod.
    pub(super) async fn kill(&self, pod_uid: &str) {
        let sandbox = self.sandboxes.lock().remove(pod_uid);
        if let Some(sandbox) = sandbox {
            sandbox.stop().await;
        }
    }

    /// What is made under one name on a node is undone together, whichever kubelet has made it.
    pub(super) fn scope(&self, node: usize, name: String) -> Cx {
        let mut scopes = self.scopes.lock();
        scopes.entry((node, name)).or_insert_with(|| self.cx.at_node(node).scope()).clone()
    }

    /// Notes that the components cannot go on, as the user's files are wrong. The first reason counts.
    pub(super) fn is_wrong(&self, why: String) {
        let _ = self.wrong.set(why);
    }

    /// Whether the components can go on with the user's files.
    ///
    /// # Errors
    /// Broken, with what is wrong.
    pub(super) fn settings_hold(&self) -> Result<(), Stop> {
        self.wrong.get().map_or(Ok(()), |why| Err(Stop::broken(why.clone())))
    }

    /// Notes where a volume is published for a pod.
    pub(super) fn publishes(&self, node: usize, pod_uid: &str, target: &str) {
        let mut targets = self.targets.lock();
        let known = targets.entry((node, pod_uid.to_owned())).or_default();
        if !known.iter().any(|path| path == target) {
            known.push(target.to_owned());
        }
    }

    /// From now on kubelet looks after a volume of a pod.
    pub(super) fn watch(&self, node: usize, pod: &str, volume: &str, watched: Watched) {
        self.watched.lock().insert((node, pod.to_owned(), volume.to_owned()), watched);
    }

    /// Nobody wants a volume of a pod any more.
    pub(super) fn unwatch(&self, node: usize, pod: &str, volume: &str) {
        self.watched.lock().remove(&(node, pod.to_owned(), volume.to_owned()));
    }

    /// What kubelet looks after on a node.
    pub(super) fn watched_on(&self, node: usize) -> Vec<(HealthOf, Watched)> {
        let watched = self.watched.lock();
        let here = watched.iter().filter(|((at, ..), _)| *at == node);
        let named = here.map(|((_, pod, volume), watched)| {
            (HealthOf::PodVolume(pod.clone(), volume.clone()), watched.clone())
        });
        named.collect()
    }

    /// UIDs of the pods that volumes were ever published for on a node: several clusters may share the directory of kubelet.
    pub(super) fn pods_ever_on(&self, node: usize) -> Vec<String> {
        let targets = self.targets.lock();
        targets.keys().filter(|(at, _)| *at == node).map(|(_, uid)| uid.clone()).collect()
    }

    /// Where volumes were ever published for a pod on a node.
    pub(super) fn paths_of_pod(&self, node: usize, pod_uid: &str) -> Vec<String> {
        let targets = self.targets.lock();
        targets.get(&(node, pod_uid.to_owned())).cloned().unwrap_or_default()
    }
}

/// A hash as Kubernetes writes it into names.
pub(super) fn hex_sha256(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// A capability for a volume.
pub(super) fn capability(
    volume: &PersistentVolume,
    mode: csi_harness::prelude::Mode,
    group: Option<u32>,
) -> v1::VolumeCapability {
    use volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
    let access_type = match volume.mode {
        VolumeMode::Block => AccessType::Block(BlockVolume {}),
        VolumeMode::Filesystem => AccessType::Mount(MountVolume {
            fs_type: volume.fs_type.clone(),
            mount_flags: volume.mount_options.clone(),
            volume_mount_group: group.map(|group| group.to_string()).unwrap_or_default(),
        }),
    };
    v1::VolumeCapability {
        access_type: Some(access_type),
        access_mode: Some(AccessMode { mode: mode.into() }),
    }
}
