/// What a driver is given a Secret for.
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

/// The name of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name in that.
    pub name: String,
}
