//! What is known of a deployment.

use std::collections::{BTreeMap, BTreeSet};

use csi_harness::protocol::capability::Capability;

/// What is known, or why it is not.
pub type Known<T> = Result<T, String>;

/// A deployment as the API server shows it.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The driver's CSIDriver object, if there is one.
    pub csi_driver: Known<Option<CsiDriverFacts>>,
    /// Names of all CSIDriver objects.
    pub csi_drivers: Known<Vec<String>>,
    /// Nodes that take pods.
    pub nodes: Known<Nodes>,
    /// Kinds of objects that the cluster has, of those that not every one has.
    pub kinds: Known<BTreeSet<&'static str>>,
    /// Classes that the definition takes from the cluster or from files, by kind.
    pub classes: BTreeMap<&'static str, Known<Option<Class>>>,
    /// Containers that are sidecars, of whatever driver.
    pub sidecars: Known<Vec<Sidecar>>,
    /// What sidecars elect a leader by.
    pub leases: Known<Vec<Lease>>,
    /// Whether there is a SnapshotMetadataService of the driver.
    pub metadata_service: Known<bool>,
    /// What our own account may not do.
    pub refused: Known<Vec<Right>>,
    /// What the accounts of the driver's sidecars may not do.
    pub sidecars_refused: Known<Vec<Refusal>>,
    /// The driver itself, where its socket is at hand.
    pub plugin: Option<Plugin>,
}

/// A driver as its socket shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugin {
    /// The name in GetPluginInfo.
    pub name: String,
    /// What it advertises.
    pub capabilities: BTreeSet<Capability>,
}

/// What a CSIDriver object says; what is left out has the value that the API server gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiDriverFacts {
    /// `attachRequired`.
    pub attach_required: bool,
    /// `fsGroupPolicy`.
    pub fs_group_policy: String,
    /// `storageCapacity`.
    pub storage_capacity: bool,
    /// `seLinuxMount`.
    pub se_linux_mount: bool,
    /// `volumeLifecycleModes`.
    pub lifecycle_modes: Vec<String>,
}

/// Nodes that are ready and open for pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// Those on which kubelet knows the driver.
    pub with: Vec<Registered>,
    /// Names of the others.
    pub without: Vec<String>,
}

/// A node on which kubelet knows the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// Its name.
    pub name: String,
    /// Topology keys that the driver has registered with.
    pub topology_keys: Vec<String>,
    /// Those of them that the node has a label for.
    pub labels: Vec<String>,
    /// How many volumes it takes, if the driver says so.
    pub volume_limit: Option<u64>,
}

/// A class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Where it is from, such as `the StorageClass "gold"`.
    pub place: String,
    /// Which driver it is for.
    pub driver: String,
    /// Whether its volumes may grow, of a StorageClass.
    pub expands: Option<bool>,
}

/// What a sidecar does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Makes volumes for claims.
    Provisioner,
    /// Attaches them to nodes.
    Attacher,
    /// Makes them grow and changes them.
    Resizer,
    /// Takes snapshots.
    Snapshotter,
    /// Tells kubelet of the driver.
    Registrar,
    /// Binds snapshots to their contents, for all drivers.
    SnapshotController,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 6] = [
        Role::Provisioner,
        Role::Attacher,
        Role::Resizer,
        Role::Snapshotter,
        Role::Registrar,
        Role::SnapshotController,
    ];

    /// The name that its image has.
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

/// A container that is a sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    /// What it does.
    pub role: Role,
    /// Namespace and name of its pod.
    pub pod: String,
    /// Namespace and name of its service account, as `system:serviceaccount:…` has them.
    pub account: String,
    /// Whether its pod names the driver, or is in a namespace with one that does.
    pub is_drivers: bool,
    /// Why it does not run, if it does not.
    pub trouble: Option<String>,
    /// The socket that it calls: the pod's volume and the path in it, if that can be told.
    pub socket: Option<String>,
    /// The first two numbers of its version, if its image has such a tag.
    pub version: Option<(u32, u32)>,
    /// Features that its `--feature-gates` turn on or off.
    pub gates: BTreeMap<String, bool>,
    /// Whether it has `--enable-capacity`.
    pub publishes_capacity: bool,
}

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its name, whatever its namespace.
    pub name: String,
    /// Seconds between its last renewal and the last one of any lease in the cluster.
    pub behind_s: i64,
    /// For how long a renewal holds.
    pub duration_s: i64,
}

/// Something that an account can do: `verb resource.group`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The group of the API; empty for the core.
    pub group: String,
    /// The resource, with the part behind a slash if it is one.
    pub resource: String,
    /// Such as `list`.
    pub verb: String,
}

/// Something that the account of a sidecar may not do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// The account.
    pub account: String,
    /// Which sidecar.
    pub role: Role,
    /// What it may not do.
    pub right: Right,
}
