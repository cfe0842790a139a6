//! The test patterns of each suite under upstream's names: the ways to get a volume.
//!
//! Patterns that a definition file cannot select are left out: volumes written into the pod for a plugin of Kubernetes' own,
//! and PersistentVolumes that a test would have to know how to make.

use crate::cluster::{ReclaimPolicy, VolumeBindingMode, VolumeMode};

/// A way to get a volume, a snapshot, or both.
#[derive(Debug)]
pub struct Pattern {
    /// Upstream's name, such as `Dynamic PV (default fs)`.
    pub name: &'static str,
    /// The source of the volume.
    pub volume: VolumeType,
    /// The requested file system; empty leaves the choice to the driver.
    pub fs_type: &'static str,
    /// `volumeMode` of claims; `None` leaves it out, which means a file system.
    pub mode: Option<VolumeMode>,
    /// The source of snapshots.
    pub snapshot: Option<SnapshotType>,
    /// The fate of deleted snapshots.
    pub deletion: ReclaimPolicy,
    /// The time at which volumes are made; `None` keeps that of the class.
    pub binding: Option<VolumeBindingMode>,
    /// True if claims may grow.
    pub allow_expansion: bool,
    /// The labels of all its tests.
    pub tags: &'static [&'static str],
}

/// The source of a test's volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeType {
    /// A claim with a StorageClass.
    Dynamic,
    /// An inline CSI volume of the pod.
    Inline,
    /// An ephemeral claim of the pod.
    GenericEphemeral,
}

/// The source of a test's snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotType {
    /// The driver takes them.
    Dynamic,
    /// Objects are created for an existing snapshot.
    PreProvisioned,
    /// The driver takes them together.
    Group,
    /// Objects are created for an existing group snapshot.
    PreProvisionedGroup,
}

impl Pattern {
    /// Returns whether pods get a block device.
    pub fn is_block(&self) -> bool {
        self.mode == Some(VolumeMode::Block)
    }

    /// Returns the name as part of an id: lower case, words joined by `-`.
    pub fn slug(&self) -> String {
        slug(self.name)
    }
}

/// Returns a text as part of an id: lower case letters and digits, everything else becomes one `-`.
pub(crate) fn slug(text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_ascii_alphanumeric() {
            true => slug.push(c.to_ascii_lowercase()),
            false if !slug.ends_with('-') && !slug.is_empty() => slug.push('-'),
            false => {}
        }
    }
    slug.trim_end_matches('-').to_owned()
}

const PLAIN: Pattern = Pattern {
    name: "",
    volume: VolumeType::Dynamic,
    fs_type: "",
    mode: None,
    snapshot: None,
    deletion: ReclaimPolicy::Delete,
    binding: None,
    allow_expansion: false,
    tags: &[],
};
const SLOW: &[&str] = &["Slow"];
const WINDOWS: &[&str] = &["Feature:Windows"];

pub(crate) static DEFAULT_FS: Pattern =
    Pattern { name: "Dynamic PV (default fs)", snapshot: Some(SnapshotType::Dynamic), ..PLAIN };
pub(crate) static EXT3: Pattern = Pattern { name: "Dynamic PV (ext3)", fs_type: "ext3", ..PLAIN };
pub(crate) static EXT4: Pattern =
    Pattern { name: "Dynamic PV (ext4)", fs_type: "ext4", snapshot: Some(SnapshotType::Dynamic), ..PLAIN };
// Upstream permits growth, although the name does not say so.
pub(crate) static XFS: Pattern = Pattern {
    name: "Dynamic PV (xfs)",
    fs_type: "xfs",
    snapshot: Some(SnapshotType::Dynamic),
    allow_expansion: true,
    tags: SLOW,
    ..PLAIN
};
pub(crate) static NTFS: Pattern = Pattern {
    name: "Dynamic PV (ntfs)",
    fs_type: "ntfs",
    snapshot: Some(SnapshotType::Dynamic),
    tags: WINDOWS,
    ..PLAIN
};
pub(crate) static FS_MODE: Pattern =
    Pattern { name: "Dynamic PV (filesystem volmode)", mode: Some(VolumeMode::Filesystem), ..PLAIN };
pub(crate) static BLOCK: Pattern = Pattern {
    name: "Dynamic PV (block volmode)",
    mode: Some(VolumeMode::Block),
    snapshot: Some(SnapshotType::Dynamic),
    ..PLAIN
};
pub(crate) static DEFAULT_FS_EXPANDS: Pattern =
    Pattern { name: "Dynamic PV (default fs)(allowExpansion)", allow_expansion: true, ..PLAIN };
pub(crate) static BLOCK_EXPANDS: Pattern = Pattern {
    name: "Dynamic PV (block volmode)(allowExpansion)",
    mode: Some(VolumeMode::Block),
    allow_expansion: true,
    ..PLAIN
};
pub(crate) static NTFS_EXPANDS: Pattern = Pattern {
    name: "Dynamic PV (ntfs)(allowExpansion)",
    fs_type: "ntfs",
    allow_expansion: true,
    tags: WINDOWS,
    ..PLAIN
};
pub(crate) static TOPOLOGY_IMMEDIATE: Pattern =
    Pattern { name: "Dynamic PV (immediate binding)", binding: Some(VolumeBindingMode::Immediate), ..PLAIN };
pub(crate) static TOPOLOGY_DELAYED: Pattern = Pattern {
    name: "Dynamic PV (delayed binding)",
    binding: Some(VolumeBindingMode::WaitForFirstConsumer),
    ..PLAIN
};
pub(crate) static INLINE: Pattern =
    Pattern { name: "CSI Ephemeral-volume (default fs)", volume: VolumeType::Inline, ..PLAIN };

const EPHEMERAL: Pattern = Pattern { volume: VolumeType::GenericEphemeral, allow_expansion: true, ..PLAIN };
pub(crate) static EPHEMERAL_PLAIN: Pattern =
    Pattern { name: "Generic Ephemeral-volume (default fs)", ..EPHEMERAL };
pub(crate) static EPHEMERAL_LATE: Pattern = Pattern {
    name: "Generic Ephemeral-volume (default fs) (late-binding)",
    binding: Some(VolumeBindingMode::WaitForFirstConsumer),
    ..EPHEMERAL
};
pub(crate) static EPHEMERAL_IMMEDIATE: Pattern = Pattern {
    name: "Generic Ephemeral-volume (default fs) (immediate-binding)",
    binding: Some(VolumeBindingMode::Immediate),
    ..EPHEMERAL
};
pub(crate) static EPHEMERAL_BLOCK: Pattern = Pattern {
    name: "Generic Ephemeral-volume (block volmode) (late-binding)",
    mode: Some(VolumeMode::Block),
    binding: Some(VolumeBindingMode::WaitForFirstConsumer),
    ..EPHEMERAL
};

const RETAINED: Pattern = Pattern { deletion: ReclaimPolicy::Retain, ..PLAIN };
pub(crate) static SNAPSHOT_DELETE: Pattern =
    Pattern { name: "Dynamic Snapshot (delete policy)", snapshot: Some(SnapshotType::Dynamic), ..PLAIN };
pub(crate) static SNAPSHOT_RETAIN: Pattern =
    Pattern { name: "Dynamic Snapshot (retain policy)", snapshot: Some(SnapshotType::Dynamic), ..RETAINED };
pub(crate) static EPHEMERAL_SNAPSHOT_DELETE: Pattern = Pattern {
    name: "Ephemeral Snapshot (delete policy)",
    volume: VolumeType::GenericEphemeral,
    snapshot: Some(SnapshotType::Dynamic),
    ..PLAIN
};
pub(crate) static EPHEMERAL_SNAPSHOT_RETAIN: Pattern = Pattern {
    name: "Ephemeral Snapshot (retain policy)",
    volume: VolumeType::GenericEphemeral,
    snapshot: Some(SnapshotType::Dynamic),
    ..RETAINED
};
pub(crate) static PREPROVISIONED_SNAPSHOT_DELETE: Pattern = Pattern {
    name: "Pre-provisioned Snapshot (delete policy)",
    snapshot: Some(SnapshotType::PreProvisioned),
    ..PLAIN
};
pub(crate) static PREPROVISIONED_SNAPSHOT_RETAIN: Pattern = Pattern {
    name: "Pre-provisioned Snapshot (retain policy)",
    snapshot: Some(SnapshotType::PreProvisioned),
    ..RETAINED
};
pub(crate) static SNAPSHOT_METADATA: Pattern = Pattern {
    name: "SnapshotMetadata",
    mode: Some(VolumeMode::Block),
    snapshot: Some(SnapshotType::Dynamic),
    ..PLAIN
};
// The names of these two begin with a blank.
pub(crate) static GROUP_DELETE: Pattern =
    Pattern { name: " (delete policy)", snapshot: Some(SnapshotType::Group), ..PLAIN };
pub(crate) static GROUP_RETAIN: Pattern =
    Pattern { name: " (retain policy)", snapshot: Some(SnapshotType::Group), ..RETAINED };
pub(crate) static PREPROVISIONED_GROUP_DELETE: Pattern = Pattern {
    name: "Pre-provisioned VolumeGroupSnapshot (delete policy)",
    snapshot: Some(SnapshotType::PreProvisionedGroup),
    ..PLAIN
};
pub(crate) static PREPROVISIONED_GROUP_RETAIN: Pattern = Pattern {
    name: "Pre-provisioned VolumeGroupSnapshot (retain policy)",
    snapshot: Some(SnapshotType::PreProvisionedGroup),
    ..RETAINED
};
