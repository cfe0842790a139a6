use std::collections::BTreeMap;

/// Parameters, attributes or labels.
pub type Pairs = BTreeMap<String, String>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageClass {
    pub name: String,
    pub provisioner: String,
    /// The parameters, including those with the prefix `csi.storage.k8s.io/`, which are not passed to the driver.
    pub parameters: Pairs,
    pub mount_options: Vec<String>,
    pub binding: BindingMode,
    /// True if claims may grow.
    pub allow_expansion: bool,
    /// The fate of released volumes.
    pub reclaim: ReclaimPolicy,
    /// The alternative topologies for volumes; empty means any.
    pub allowed_topologies: Vec<Pairs>,
}

/// The time at which a volume is made for a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BindingMode {
    /// The volume is made as soon as the claim exists.
    #[default]
    Immediate,
    /// The volume is made when a pod uses the claim, for the pod's node.
    WaitForFirstConsumer,
}

/// The fate of an unclaimed volume or snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReclaimPolicy {
    #[default]
    Delete,
    Retain,
}

/// A VolumeSnapshotClass or a VolumeGroupSnapshotClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotClass {
    pub name: String,
    pub driver: String,
    /// The parameters, including those with the prefix `csi.storage.k8s.io/`, which are not passed to the driver.
    pub parameters: Pairs,
    /// The fate of deleted snapshots.
    pub deletion: ReclaimPolicy,
    /// The alternative topologies in which its snapshots must be usable; empty leaves this to the driver.
    pub allowed_topologies: Vec<Pairs>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributesClass {
    pub name: String,
    pub driver: String,
    pub parameters: Pairs,
}
