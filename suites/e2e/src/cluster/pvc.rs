use std::collections::BTreeMap;

use super::{AccessMode, Pairs, ReclaimPolicy, SecretReference, SecretUse};

/// The description of a new PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PvcSpec {
    pub name: String,
    pub class: String,
    /// The access modes that the volume must have.
    pub access_modes: Vec<AccessMode>,
    pub mode: VolumeMode,
    /// The requested bytes.
    pub request_bytes: i64,
    /// The source of the volume's data.
    pub source: Option<DataSource>,
    pub attributes_class: Option<String>,
    /// The PersistentVolume to bind to, if it already exists.
    pub volume: Option<String>,
    /// The labels by which group snapshots select claims.
    pub labels: Pairs,
}

/// The form in which a pod sees a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumeMode {
    /// The pod sees a directory.
    #[default]
    Filesystem,
    /// The pod sees a block device.
    Block,
}

/// The source of a volume's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataSource {
    /// The name of a VolumeSnapshot.
    Snapshot(String),
    /// The name of another claim.
    Claim(String),
}

/// The current state of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pvc {
    /// The specification with its latest changes.
    pub spec: PvcSpec,
    pub phase: PvcPhase,
    /// The PersistentVolume of the claim.
    pub volume: Option<String>,
    /// The bytes that a pod can use; 0 before the claim is bound.
    pub capacity_bytes: i64,
    /// The current VolumeAttributesClass of the volume.
    pub attributes_class: Option<String>,
    /// The current conditions, such as `FileSystemResizePending` or `ModifyVolumeError`.
    pub conditions: Vec<String>,
    /// The reason why the emulated cluster gave up: it does not wait forever for a driver that rejects its calls.
    pub given_up: Option<String>,
}

/// The phase of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PvcPhase {
    /// The claim has no volume yet.
    #[default]
    Pending,
    /// The claim has a volume.
    Bound,
    /// The claim's volume was deleted.
    Lost,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentVolume {
    pub name: String,
    pub handle: String,
    /// The size of the volume.
    pub capacity_bytes: i64,
    pub access_modes: Vec<AccessMode>,
    /// The StorageClass of the volume.
    pub class: String,
    pub mode: VolumeMode,
    /// The requested file system; empty leaves the choice to the driver.
    pub fs_type: String,
    /// The volume_context, and the provisioner's additions.
    pub attributes: Pairs,
    pub mount_options: Vec<String>,
    /// The Secrets for the driver's calls about the volume.
    pub secrets: BTreeMap<SecretUse, SecretReference>,
    /// The fate of the volume after its claim is deleted.
    pub reclaim: ReclaimPolicy,
    /// The alternative topologies in which it can be used; empty means everywhere.
    pub topology: Vec<Pairs>,
    /// The volume's claim.
    pub claim: Option<String>,
    pub phase: VolumePhase,
    /// The reason why the emulated cluster gave up deleting it; see [`Pvc::given_up`].
    pub given_up: Option<String>,
}

/// The phase of a PersistentVolume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumePhase {
    /// No claim is bound to the volume.
    Available,
    /// A claim is bound to the volume.
    #[default]
    Bound,
    /// The volume's claim was deleted.
    Released,
}
