//! The data that all components of an emulated cluster share.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use csi_driver_definitions::{CsiDriver, VolumeLifecycleMode};
use csi_harness::prelude::{Capability, Cx, Reply, Stop};
use csi_harness::protocol::capability::Capabilities;
use csi_harness::text::encoding::{hex, uid};
use csi_proto::lock::Mutex;
use csi_proto::v1::{self, volume_capability};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::Settings;
use super::failure::{Caller, Failure};
use super::sandbox::Sandbox;
use super::store::Store;
use crate::cluster::{HealthOf, Node, PersistentVolume, VolumeMode};

/// The kernel has this file if SELinux is on.
const SELINUX: &str = "/sys/fs/selinux/enforce";

/// Returns whether this machine labels files.
pub fn machine_has_selinux() -> bool {
    Path::new(SELINUX).exists()
}

/// A volume that kubelet monitors.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) volume_id: String,
    /// The pairs of staging path and target path for NodeGetVolumeHealth.
    pub(super) asked: Vec<(String, String)>,
    /// The target path; empty before there is one.
    pub(super) target: String,
}

/// The data that all components of an emulated cluster share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) cx: Cx,
    pub(super) store: Arc<Store>,
    pub(super) settings: Settings,
    /// The CSIDriver of the driver's manifests, or inferred values.
    pub(super) csi_driver: CsiDriver,
    /// True if a manifest has the CSIDriver.
    pub(super) has_csi_driver: bool,
    pub(super) nodes: Vec<KubeNode>,
    /// The processes of pods by UID. They outlive kubelet.
    sandboxes: Mutex<BTreeMap<String, Arc<Sandbox>>>,
    /// The target paths that pods have had, by node and UID.
    targets: Mutex<BTreeMap<(usize, String), Vec<String>>>,
    /// The volumes of pods that kubelet tried to mount, by node, and by the names of pod and volume.
    watched: Mutex<BTreeMap<(usize, String, String), Watched>>,
    /// The scopes of effects that are undone together, by node and name.
    scopes: Mutex<BTreeMap<(usize, String), Cx>>,
    /// True if nodes label volumes although this machine does not.
    assumes_selinux: AtomicBool,
    /// The error in the user's files, if there is one.
    wrong: OnceLock<String>,
    /// All tasks of the cluster hold a clone. Nothing is sent: the channel closes when the last task ends.
    _live: mpsc::Sender<Infallible>,
}

/// A Node with its CSINode.
#[derive(Debug)]
pub(super) struct KubeNode {
    pub(super) node: Node,
    /// The node_id.
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
            csi_driver: given
                .unwrap_or_else(|| inferred_csi_driver(cx.target().capabilities(), settings.se_linux_mount)),
            cx,
            store: Arc::default(),
            settings,
            nodes,
            sandboxes: Mutex::default(),
            targets: Mutex::default(),
            watched: Mutex::default(),
            scopes: Mutex::default(),
            assumes_selinux: AtomicBool::new(false),
            wrong: OnceLock::new(),
            _live: live,
        }
    }

    /// Makes nodes label volumes from now on.
    pub(super) fn assume_selinux(&self) {
        self.assumes_selinux.store(true, Ordering::SeqCst);
    }

    /// Returns whether nodes label volumes.
    pub(super) fn labels_volumes(&self) -> bool {
        self.assumes_selinux.load(Ordering::SeqCst) || machine_has_selinux()
    }

    /// Returns whether the driver advertised the capability when it was first asked: sidecars ask when they start.
    pub(super) fn has(&self, capability: Capability) -> bool {
        self.cx.target().capabilities().has(capability)
    }

    /// Returns the response or the failure.
    pub(super) fn heard<T: Clone>(&self, reply: &Reply<T>) -> Result<T, Failure> {
        self.settings.streaks.heard(reply)
    }

    /// Returns the reason if the component gives up after a failure.
    pub(super) fn gives_up(&self, failure: &Failure, caller: Caller) -> Option<String> {
        self.settings.streaks.gives_up(failure, caller)
    }

    pub(super) fn driver(&self) -> &str {
        &self.cx.target().info().name
    }

    /// Returns a UID that is unique across runs.
    pub(super) fn uid(&self) -> String {
        uid(&self.cx.unique_name())
    }

    pub(super) fn sandbox(&self, pod_uid: &str) -> Option<Arc<Sandbox>> {
        self.sandboxes.lock().get(pod_uid).cloned()
    }

    pub(super) fn keep(&self, pod_uid: &str, sandbox: Arc<Sandbox>) {
        let mut sandboxes = self.sandboxes.lock();
        sandboxes.insert(pod_uid.to_owned(), sandbox);
    }

    pub(super) async fn kill(&self, pod_uid: &str) {
        let sandbox = self.sandboxes.lock().remove(pod_uid);
        if let Some(sandbox) = sandbox {
            sandbox.stop().await;
        }
    }

    /// Returns the scope of a name on a node, whose effects are undone together, whichever kubelet made them.
    pub(super) fn scope(&self, node: usize, name: String) -> Cx {
        let mut scopes = self.scopes.lock();
        scopes.entry((node, name)).or_insert_with(|| self.cx.at_node(node).scope()).clone()
    }

    /// Records an error in the user's files, which stops the components. The first one counts.
    pub(super) fn is_wrong(&self, why: String) {
        let _ = self.wrong.set(why);
    }

    /// Checks that the user's files have no error.
    ///
    /// # Errors
    /// Broken, with the error.
    pub(super) fn settings_hold(&self) -> Result<(), Stop> {
        self.wrong.get().map_or(Ok(()), |why| Err(Stop::broken(why.clone())))
    }

    /// Records where a volume is published for a pod.
    pub(super) fn publishes(&self, node: usize, pod_uid: &str, target: &str) {
        let mut targets = self.targets.lock();
        let known = targets.entry((node, pod_uid.to_owned())).or_default();
        if !known.iter().any(|path| path == target) {
            known.push(target.to_owned());
        }
    }

    /// Starts to monitor a volume of a pod.
    pub(super) fn watch(&self, node: usize, pod: &str, volume: &str, watched: Watched) {
        self.watched.lock().insert((node, pod.to_owned(), volume.to_owned()), watched);
    }

    /// Ends the monitoring of a pod's volume.
    pub(super) fn unwatch(&self, node: usize, pod: &str, volume: &str) {
        self.watched.lock().remove(&(node, pod.to_owned(), volume.to_owned()));
    }

    /// Returns the monitored volumes of a node.
    pub(super) fn watched_on(&self, node: usize) -> Vec<(HealthOf, Watched)> {
        let watched = self.watched.lock();
        let here = watched.iter().filter(|((at, ..), _)| *at == node);
        let named = here.map(|((_, pod, volume), watched)| {
            (HealthOf::PodVolume(pod.clone(), volume.clone()), watched.clone())
        });
        named.collect()
    }

    /// Returns the UIDs of all pods for which volumes were ever published on a node: several clusters may share
    /// kubelet's directory.
    pub(super) fn pods_ever_on(&self, node: usize) -> Vec<String> {
        let targets = self.targets.lock();
        targets.keys().filter(|(at, _)| *at == node).map(|(_, uid)| uid.clone()).collect()
    }

    /// Returns the paths at which volumes were ever published for a pod on a node.
    pub(super) fn paths_of_pod(&self, node: usize, pod_uid: &str) -> Vec<String> {
        let targets = self.targets.lock();
        targets.get(&(node, pod_uid.to_owned())).cloned().unwrap_or_default()
    }
}

/// Returns a hash in the form of Kubernetes' names.
pub(super) fn hex_sha256(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// Returns the volume_capability of a volume.
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

/// The CSIDriver of a driver for which no manifest has one. Inline volumes are permitted, because only a request shows whether the driver
/// supports them, and SELinux contexts are as the definition promises.
fn inferred_csi_driver(capabilities: &Capabilities, se_linux_mount: bool) -> CsiDriver {
    CsiDriver {
        attach_required: capabilities.has(Capability::PublishUnpublishVolume),
        pod_info_on_mount: true,
        se_linux_mount,
        volume_lifecycle_modes: vec![VolumeLifecycleMode::Persistent, VolumeLifecycleMode::Ephemeral],
        ..CsiDriver::default()
    }
}
