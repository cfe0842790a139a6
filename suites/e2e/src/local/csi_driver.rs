//! The CSIDriver object: what a driver's manifests tell Kubernetes of it.

use csi_harness::capability::Capabilities;
use csi_harness::prelude::Capability;

/// A CSIDriver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiDriver {
    /// Whether volumes are attached before they are staged.
    pub attach_required: bool,
    /// Whether NodePublishVolume is told about the pod.
    pub pod_info_on_mount: bool,
    /// When kubelet hands volumes over to a pod's group.
    pub fs_group_policy: FsGroup,
    /// Whether pods can have inline volumes.
    pub ephemeral: bool,
}

/// `fsGroupPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FsGroup {
    /// If the volume has a file system type and one node or pod writes.
    #[default]
    ReadWriteOnceWithFsType,
    /// Always.
    File,
    /// Never.
    None,
}

impl CsiDriver {
    /// What can be told without manifests. Inline volumes show only when they are asked for, so they are let through.
    pub fn of(capabilities: &Capabilities) -> CsiDriver {
        CsiDriver {
            attach_required: capabilities.has(Capability::PublishUnpublishVolume),
            pod_info_on_mount: true,
            fs_group_policy: FsGroup::default(),
            ephemeral: true,
        }
    }
}
