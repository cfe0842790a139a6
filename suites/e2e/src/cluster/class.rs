use std::collections::BTreeMap;

/// String pairs: parameters, attributes, labels.
pub type Pairs = BTreeMap<String, String>;

/// A StorageClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageClass {
    /// Its name.
    pub name: String,
    /// The driver.
    pub provisioner: String,
    /// Parameters, also those with the prefix `csi.storage.k8s.io/`, which the driver does not see.
    pub parameters: Pairs,
    /// Mount options of its volumes.
    pub mount_options: Vec<String>,
    /// When volumes are made.
    pub binding: BindingMode,
    /// Whether claims may ask for more later.
    pub allow_expansion: bool,
    /// What becomes of volumes that are released.
    pub reclaim: ReclaimPolicy,
    /// Places that volumes may be in, as alternatives; empty: anywhere.
    pub allowed_topologies: Vec<Pairs>,
}

/// When a volume is made for a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BindingMode {
    /// As soon as there is the claim.
    #[default]
    Immediate,
    /// When a pod uses it, for the node of that.
    WaitForFirstConsumer,
}

/// What becomes of a volume, or of a snapshot, that nobody asks for any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReclaimPolicy {
    /// The driver deletes it.
    #[default]
    Delete,
    /// It stays.
    Retain,
}

/// A VolumeSnapshotClass or a VolumeGroupSnapshotClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotClass {
    /// Its name.
    pub name: String,
    /// The driver.
    pub driver: String,
    /// Parameters, also those with the prefix `csi.storage.k8s.io/`, which the driver does not see.
    pub parameters: Pairs,
    /// What becomes of snapshots that are deleted.
    pub deletion: ReclaimPolicy,
    /// Places from which its snapshots have to be usable, as alternatives; empty: wherever the driver likes.
    pub allowed_topologies: Vec<Pairs>,
}

/// A VolumeAttributesClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributesClass {
    /// Its name.
    pub name: String,
    /// The driver.
    pub driver: String,
    /// The mutable parameters.
    pub parameters: Pairs,
}
