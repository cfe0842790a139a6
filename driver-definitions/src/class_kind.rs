//! The kinds of classes, and the keys of their manifests.

/// The kinds of classes that a definition can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassKind {
    /// StorageClass.
    Storage,
    /// VolumeSnapshotClass.
    Snapshot,
    /// VolumeGroupSnapshotClass.
    GroupSnapshot,
    /// VolumeAttributesClass.
    Attributes,
}

impl ClassKind {
    /// Returns the `kind` in the manifests.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ClassKind::Storage => "StorageClass",
            ClassKind::Snapshot => "VolumeSnapshotClass",
            ClassKind::GroupSnapshot => "VolumeGroupSnapshotClass",
            ClassKind::Attributes => "VolumeAttributesClass",
        }
    }

    /// Returns the part of the manifests' `apiVersion` before the slash.
    pub(crate) fn group(self) -> &'static str {
        match self {
            ClassKind::Storage | ClassKind::Attributes => "storage.k8s.io",
            ClassKind::Snapshot => "snapshot.storage.k8s.io",
            ClassKind::GroupSnapshot => "groupsnapshot.storage.k8s.io",
        }
    }

    /// Returns the permitted keys of a manifest.
    pub(crate) fn keys(self) -> &'static [&'static str] {
        match self {
            ClassKind::Storage => &[
                "apiVersion",
                "kind",
                "metadata",
                "provisioner",
                "parameters",
                "mountOptions",
                "volumeBindingMode",
                "allowVolumeExpansion",
                "reclaimPolicy",
                "allowedTopologies",
            ],
            ClassKind::Snapshot | ClassKind::GroupSnapshot => {
                &["apiVersion", "kind", "metadata", "driver", "parameters", "deletionPolicy"]
            }
            ClassKind::Attributes => &["apiVersion", "kind", "metadata", "driverName", "parameters"],
        }
    }
}
