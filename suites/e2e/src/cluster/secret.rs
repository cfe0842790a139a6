/// The calls for which a driver gets a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretUse {
    /// CreateVolume and DeleteVolume.
    Provisioner,
    /// ControllerPublishVolume and ControllerUnpublishVolume.
    ControllerPublish,
    /// NodeStageVolume.
    NodeStage,
    /// NodePublishVolume.
    NodePublish,
    /// ControllerExpandVolume.
    ControllerExpand,
    /// NodeExpandVolume.
    NodeExpand,
    /// ControllerModifyVolume.
    ControllerModify,
    /// CreateSnapshot, DeleteSnapshot, and the calls of the SnapshotMetadata service.
    Snapshotter,
    /// ListSnapshots.
    SnapshotterList,
    /// CreateVolumeGroupSnapshot and DeleteVolumeGroupSnapshot.
    GroupSnapshotter,
    /// GetVolumeGroupSnapshot.
    GroupSnapshotterGet,
}

/// The name and namespace of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretReference {
    pub namespace: String,
    pub name: String,
}
