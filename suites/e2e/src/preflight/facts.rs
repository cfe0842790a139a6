//! The known facts about a deployment.

use std::collections::{BTreeMap, BTreeSet};

use csi_driver_definitions::CsiDriver;
use csi_harness::protocol::capability::Capability;

use crate::kube_cluster::discovery::DriverNode;

/// A fact, or why it is unknown.
pub type Known<T> = Result<T, String>;

/// A deployment as the API server shows it.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The driver's CSIDriver object, if there is one.
    pub csi_driver: Known<Option<CsiDriver>>,
    /// Names of all CSIDriver objects.
    pub csi_drivers: Known<Vec<String>>,
    /// The nodes for pods.
    pub nodes: Known<Nodes>,
    /// The optional kinds of objects that the cluster has.
    pub kinds: Known<BTreeSet<&'static str>>,
    /// The classes that the definition takes from the cluster or from files, by kind.
    pub classes: BTreeMap<&'static str, Known<Option<Class>>>,
    /// The sidecar containers of all drivers.
    pub sidecars: Known<Vec<Sidecar>>,
    /// The leases with which sidecars elect leaders.
    pub leases: Known<Vec<Lease>>,
    /// True if the driver has a SnapshotMetadataService.
    pub metadata_service: Known<bool>,
    /// The rights that our own account lacks.
    pub refused: Known<Vec<Right>>,
    /// The rights that the accounts of the driver's sidecars lack.
    pub sidecars_refused: Known<Vec<Refusal>>,
    /// The driver itself, if its socket is reachable.
    pub plugin: Option<Plugin>,
}

/// A driver as its socket shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugin {
    /// The name in GetPluginInfo.
    pub name: String,
    /// The advertised capabilities.
    pub capabilities: BTreeSet<Capability>,
}

/// Nodes that are ready and open for pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// The nodes on which kubelet knows the driver.
    pub with: Vec<DriverNode>,
    /// The names of the other nodes.
    pub without: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// The origin of the class, such as `the StorageClass "gold"`.
    pub place: String,
    /// The driver of the class.
    pub driver: String,
    /// True if volumes of a StorageClass may grow.
    pub expands: Option<bool>,
}

/// The role of a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It makes volumes for claims.
    Provisioner,
    /// It attaches volumes to nodes.
    Attacher,
    /// It expands and modifies volumes.
    Resizer,
    /// It takes snapshots.
    Snapshotter,
    /// It registers the driver with kubelet.
    Registrar,
    /// It binds snapshots to their contents, for all drivers.
    SnapshotController,
}

impl Role {
    pub const ALL: [Role; 6] = [
        Role::Provisioner,
        Role::Attacher,
        Role::Resizer,
        Role::Snapshotter,
        Role::Registrar,
        Role::SnapshotController,
    ];

    /// Returns the name of its image.
    pub fn name(self) -> &'static str {
        match self {
            Role::Provisioner => "csi-provisioner",
            Role::Attacher => "csi-attacher",
            Role::Resizer => "csi-resizer",
            Role::Snapshotter => "csi-snapshotter",
            Role::Registrar => "csi-node-driver-registrar",
            Role::SnapshotController => "snapshot-controller",
        }
    }
}

/// The version of a sidecar: major, minor and patch. A tag without a patch may stand for any of them, and counts as the last one.
pub type SidecarVersion = (u32, u32, u32);

/// A sidecar container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    pub role: Role,
    /// The namespace and name of its pod.
    pub pod: String,
    /// The namespace and name of its service account, as in `system:serviceaccount:…`.
    pub account: String,
    /// True if its pod names the driver, or is in a namespace with one that does.
    pub is_drivers: bool,
    /// The reason why it does not run, if it does not.
    pub trouble: Option<String>,
    /// The socket that it calls: the pod's volume and the path in it, if known.
    pub socket: Option<String>,
    /// Its version, if its image has such a tag.
    pub version: Option<SidecarVersion>,
    /// The features that its `--feature-gates` switch on or off.
    pub gates: BTreeMap<String, bool>,
    /// True if it has `--enable-capacity`.
    pub publishes_capacity: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The name without its namespace.
    pub name: String,
    /// The seconds between its last renewal and the last one of any lease in the cluster.
    pub behind_s: i64,
    /// The validity of a renewal in seconds.
    pub duration_s: i64,
}

/// A right of an account: `verb resource.group`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource, with its subresource behind a slash.
    pub resource: String,
    /// The verb, such as `list`.
    pub verb: String,
}

/// A right that the account of a sidecar lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    pub account: String,
    /// The role of the sidecar.
    pub role: Role,
    /// The missing right.
    pub right: Right,
}
