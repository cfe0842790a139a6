use std::collections::BTreeMap;
use std::fmt;

use super::{Pairs, ReclaimPolicy, SecretReference, SecretUse};

/// A PersistentVolumeClaim to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PvcSpec {
    /// Its name.
    pub name: String,
    /// The StorageClass.
    pub class: String,
    /// Access modes that the volume has to have.
    pub access_modes: Vec<AccessMode>,
    /// File system or block device.
    pub mode: VolumeMode,
    /// Bytes asked for.
    pub request_bytes: i64,
    /// What the volume is to begin as a copy of.
    pub source: Option<DataSource>,
    /// The VolumeAttributesClass.
    pub attributes_class: Option<String>,
    /// The PersistentVolume to bind to, where it is made already.
    pub volume: Option<String>,
    /// Labels, by which groups are selected.
    pub labels: Pairs,
}

/// Access modes, as Kubernetes has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessMode {
    /// One node reads and writes.
    ReadWriteOnce,
    /// Many nodes read.
    ReadOnlyMany,
    /// Many nodes read and write.
    ReadWriteMany,
    /// One pod reads and writes.
    ReadWriteOncePod,
}

impl fmt::Display for AccessMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// How a pod sees a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumeMode {
    /// As a directory.
    #[default]
    Filesystem,
    /// As a block device.
    Block,
}

/// What a volume begins as a copy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataSource {
    /// A VolumeSnapshot, by its name.
    Snapshot(String),
    /// Another claim, by its name.
    Claim(String),
}

/// A PersistentVolumeClaim as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pvc {
    /// What was asked for, with the latest changes.
    pub spec: PvcSpec,
    /// Whether it has a volume.
    pub phase: PvcPhase,
    /// The PersistentVolume that it is bound to.
    pub volume: Option<String>,
    /// Bytes that a pod can use; 0 before it is bound.
    pub capacity_bytes: i64,
    /// The VolumeAttributesClass that the volume has by now.
    pub attributes_class: Option<String>,
    /// Conditions that hold, such as `FileSystemResizePending` or `ModifyVolumeError`.
    pub conditions: Vec<String>,
    /// Why nobody tries to go on with it: a cluster that is emulated does not wait for ever for a driver that says no.
    pub given_up: Option<String>,
}

/// The life of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PvcPhase {
    /// It has no volume yet.
    Pending,
    /// It has one.
    Bound,
    /// Its volume is gone.
    Lost,
}

/// A PersistentVolume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistentVolume {
    /// Its name.
    pub name: String,
    /// volume_id.
    pub handle: String,
    /// Bytes that it has.
    pub capacity_bytes: i64,
    /// Access modes that it has.
    pub access_modes: Vec<AccessMode>,
    /// The StorageClass that it was made by.
    pub class: String,
    /// File system or block device.
    pub mode: VolumeMode,
    /// The file system asked for; empty: the driver chooses.
    pub fs_type: String,
    /// volume_context, and what the provisioner adds to it.
    pub attributes: Pairs,
    /// Mount options.
    pub mount_options: Vec<String>,
    /// Secrets that the driver is given with calls about it.
    pub secrets: BTreeMap<SecretUse, SecretReference>,
    /// What becomes of it when its claim is gone.
    pub reclaim: ReclaimPolicy,
    /// Places that it can be used from, as alternatives; empty: anywhere.
    pub topology: Vec<Pairs>,
    /// The claim that it is bound to.
    pub claim: Option<String>,
    /// Where in its life it is.
    pub phase: VolumePhase,
    /// Why nobody tries to delete it any more; see [`Pvc::given_up`].
    pub given_up: Option<String>,
}

impl PersistentVolume {
    /// One that nothing else is known of.
    pub fn named(name: &str) -> PersistentVolume {
        PersistentVolume {
            name: name.to_owned(),
            handle: String::new(),
            capacity_bytes: 0,
            access_modes: Vec::new(),
            class: String::new(),
            mode: VolumeMode::Filesystem,
            fs_type: String::new(),
            attributes: Pairs::new(),
            mount_options: Vec::new(),
            secrets: BTreeMap::new(),
            reclaim: ReclaimPolicy::Delete,
            topology: Vec::new(),
            claim: None,
            phase: VolumePhase::Bound,
            given_up: None,
        }
    }
}

/// The life of a PersistentVolume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumePhase {
    /// No claim has it.
    Available,
    /// A claim has it.
    Bound,
    /// Its claim is gone.
    Released,
}
