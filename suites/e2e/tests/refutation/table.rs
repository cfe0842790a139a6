//! The table has the defects of drivers, and the test that has to find each of them.

use csi_faulty_driver::Defect;
use csi_mock_driver::{Capability, Defect as MockDefect};
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_suite_e2e::version::Version;

/// One of these drivers has the defect.
#[derive(Clone, Copy, Debug)]
pub(crate) enum On {
    /// The reference driver is installed in this way.
    Hostpath(Setup, Defect),
    /// The driver in memory lacks some capabilities. It serves for defects that show without pods that look at volumes.
    Mock(MockDefect, &'static [Capability]),
}

/// The reference driver is installed in one of these ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    Plain,
    /// The driver runs on a small node, with a CSIDriver that requests limits to be read again and tokens in secrets.
    SmallNode,
    /// The driver creates volumes when pods need them. A mistake that hurts a workload is a warning.
    InUse,
    /// The driver is a process of its own whose mount calls are watched, and its CSIDriver has seLinuxMount.
    Labelled,
    /// The driver is a process of its own, which is replaced by its next version and then by the version before.
    Upgraded,
    /// The driver has two nodes, which share all volumes.
    TwoNodes,
}

impl Setup {
    pub(crate) const ALL: [Setup; 6] =
        [Setup::Plain, Setup::SmallNode, Setup::InUse, Setup::Labelled, Setup::Upgraded, Setup::TwoNodes];
}

/// A row has a defect, and the test that finds it.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) on: On,
    /// The documentation describes the defect with these words.
    pub(crate) flaw: &'static str,
    /// This test finds the defect.
    pub(crate) test: &'static str,
    /// The words of the test contain this text.
    pub(crate) says: &'static str,
    /// If the defect depends on the version of Kubernetes, it is found in the first of these versions, and not in the second.
    pub(crate) versions: Option<(Version, Version)>,
}

impl Row {
    /// Returns true if the test only warns.
    pub(crate) fn is_warning(&self) -> bool {
        matches!(self.on, On::Hostpath(Setup::InUse, _))
    }

    /// Returns the name of the trial.
    pub(crate) fn label(&self) -> String {
        match self.on {
            On::Hostpath(_, defect) => format!("{defect:?}/{}", self.test),
            On::Mock(defect, _) => format!("{defect:?}/{}", self.test),
        }
    }
}

const fn row(defect: Defect, flaw: &'static str, test: &'static str, says: &'static str) -> Row {
    Row { on: On::Hostpath(Setup::Plain, defect), flaw, test, says, versions: None }
}

const fn installed(defect: Defect, flaw: &'static str, test: &'static str, says: &'static str) -> Row {
    Row { on: On::Hostpath(Setup::SmallNode, defect), flaw, test, says, versions: None }
}

const fn in_use(defect: Defect, flaw: &'static str, test: &'static str, says: &'static str) -> Row {
    Row { on: On::Hostpath(Setup::InUse, defect), flaw, test, says, versions: None }
}

const fn labelled(defect: Defect, flaw: &'static str, test: &'static str, says: &'static str) -> Row {
    Row { on: On::Hostpath(Setup::Labelled, defect), flaw, test, says, versions: None }
}

const fn upgraded(defect: Defect, flaw: &'static str, says: &'static str) -> Row {
    let test = "driver-upgrade/dynamic-pv-block-volmode:should-keep-volumes-snapshots-and-running-pods-when-the-driver-is-replaced-by-its-next-version";
    Row { on: On::Hostpath(Setup::Upgraded, defect), flaw, test, says, versions: None }
}

const fn two_nodes(defect: Defect, flaw: &'static str, says: &'static str) -> Row {
    let test = "non-graceful-node-shutdown/dynamic-pv-block-volmode:should-move-a-volume-with-its-data-to-another-node-when-its-node-is-shut-down-and-keep-them-when-that-node-returns";
    Row { on: On::Hostpath(Setup::TwoNodes, defect), flaw, test, says, versions: None }
}

/// Returns a row whose defect is found in one version of Kubernetes, and not in another one.
const fn in_version(row: Row, version: Version, not_in: Version) -> Row {
    Row { versions: Some((version, not_in)), ..row }
}

const fn mock(defect: MockDefect, flaw: &'static str, test: &'static str, says: &'static str) -> Row {
    Row { on: On::Mock(defect, &[]), flaw, test, says, versions: None }
}

/// These are all rows of the table.
pub(crate) static ROWS: &[Row] = &[
    row(
        Defect::IgnoresGroup,
        "advertises VOLUME_MOUNT_GROUP and ignores `volume_mount_group`",
        "fsgroupchangepolicy/dynamic-pv-default-fs:always-linuxonly-pod-created-with-an-initial-fsgroup-new-pod-fsgroup-applied-to-volume-contents",
        "belongs to another group",
    ),
    row(
        Defect::IgnoresFsType,
        "ignores `fs_type`",
        "volumes/dynamic-pv-xfs:should-store-data",
        "another file system than requested",
    ),
    row(
        Defect::IgnoresMountFlags,
        "ignores `mount_flags`",
        "provisioning/dynamic-pv-default-fs:should-provision-storage-with-mount-options",
        "a mount option of the class is not one of the mount",
    ),
    row(
        Defect::ForbidsExecution,
        "mounts volumes with noexec",
        "volumes/dynamic-pv-default-fs:should-allow-exec-of-files-on-the-volume",
        "list.sh",
    ),
    row(
        Defect::IgnoresReadonly,
        "ignores `readonly`",
        "multivolume/dynamic-pv-ext4:should-concurrently-access-the-single-read-only-volume-from-pods-on-the-same-node",
        "read-only",
    ),
    row(
        Defect::HidesFromSecondPod,
        "shows an empty directory at the second target of a volume",
        "multivolume/dynamic-pv-ext4:should-concurrently-access-the-single-volume-from-pods-on-the-same-node",
        "index.html",
    ),
    row(
        Defect::MixesUp,
        "publishes one file system twice where a pod has two",
        "multivolume/dynamic-pv-ext4:should-access-to-two-volumes-with-the-same-volume-mode-and-retain-data-across-pod-recreation-on-the-same-node",
        "other data than was written",
    ),
    row(
        Defect::MixesUp,
        "publishes one device twice where a pod has two",
        "multivolume/dynamic-pv-block-volmode:should-access-to-two-volumes-with-the-same-volume-mode-and-retain-data-across-pod-recreation-on-the-same-node",
        "other data than was written",
    ),
    row(
        Defect::MixesUp,
        "gives the inline volume of one pod to another pod as well",
        "ephemeral/csi-ephemeral-volume-default-fs:should-support-two-pods-which-have-the-same-volume-definition",
        "find the same data",
    ),
    row(
        Defect::RemembersLastInline,
        "forgets where an inline volume is when it publishes another one",
        "ephemeral/csi-ephemeral-volume-default-fs:should-support-two-pods-which-have-the-same-volume-definition",
        "the target path is not that of the volume",
    ),
    row(
        Defect::WipesAtRestage,
        "loses the files of a volume when it is staged again",
        "volumes/dynamic-pv-default-fs:should-store-data",
        "index.html",
    ),
    row(
        Defect::WipesAtRestage,
        "wipes a device when it is staged again",
        "volumes/dynamic-pv-block-volmode:should-store-data",
        "other data than was written",
    ),
    row(
        Defect::LosesLastByte,
        "takes the last byte of each file when a volume is unpublished",
        "volumes/dynamic-pv-ext4:should-store-data",
        "other data than was written",
    ),
    row(
        Defect::CutsFiles,
        "cuts files at 4 MiB when a volume is unpublished",
        "volumes/dynamic-pv-default-fs:should-store-data",
        "other data than was written",
    ),
    row(
        Defect::CutsFiles,
        "cuts files at 4 MiB when a volume with another in its pod is unpublished",
        "multivolume/dynamic-pv-ext4:should-access-to-two-volumes-with-the-same-volume-mode-and-retain-data-across-pod-recreation-on-the-same-node",
        "other data than was written",
    ),
    row(
        Defect::StaysPublished,
        "leaves a volume mounted for a pod that was deleted by force while kubelet was down",
        "subpath/dynamic-pv-default-fs:should-unmount-if-pod-is-force-deleted-while-kubelet-is-down",
        "nothing is left of pod",
    ),
    row(
        Defect::NodeExpandsNothing,
        "answers NodeExpandVolume without growing the file system",
        "volume-expand/dynamic-pv-xfs:should-resize-volume-when-pvc-is-edited-while-pod-is-using-it",
        "its pod does not see it",
    ),
    row(
        Defect::ControllerExpandsNothing,
        "answers ControllerExpandVolume without growing the device",
        "volume-expand/dynamic-pv-block-volmode-allowexpansion:should-resize-volume-when-pvc-is-edited-while-pod-is-using-it",
        "its pod does not see it",
    ),
    row(
        Defect::ControllerExpandsNothing,
        "answers ControllerExpandVolume, without growing anything, that the node has nothing to do",
        "volume-expand/dynamic-pv-default-fs-allowexpansion:verify-if-offline-pvc-expansion-works",
        "its pod does not see it",
    ),
    row(
        Defect::ClonesNothing,
        "makes an empty volume of a volume",
        "provisioning/dynamic-pv-default-fs:should-provision-storage-with-pvc-data-source",
        "index.html",
    ),
    row(
        Defect::RestoresNothing,
        "makes an empty volume of a snapshot",
        "provisioning/dynamic-pv-block-volmode:should-provision-storage-with-snapshot-data-source",
        "other data than was written",
    ),
    row(
        Defect::RestoresLater,
        "restores what was written after the snapshot",
        "snapshottable/dynamic-snapshot-delete-policy:should-check-snapshot-fields-check-restore-correctly-works-after-modifying-source-data-check-deletion-persistent",
        "other data than was written",
    ),
    row(
        Defect::RestoresNoLarger,
        "restores no more bytes than the snapshot has",
        "provisioning/dynamic-pv-default-fs:should-provision-correct-filesystem-size-when-restoring-snapshot-to-larger-size-pvc",
        "has not grown",
    ),
    row(
        Defect::MixesUpMembers,
        "mixes up the members of a group snapshot",
        "volumegroupsnapshottable/delete-policy:should-create-snapshots-for-statefulset-volumes-and-verify-data-consistency-after-restore",
        "other data than was written",
    ),
    row(
        Defect::TakesAnyAttributes,
        "answers ControllerModifyVolume without looking at the parameters",
        "volume-modify/dynamic-pv-default-fs:should-recover-from-invalid-target-vac-by-updating-pvc-to-new-valid-vac",
        "the driver rejects the attributes",
    ),
    row(
        Defect::DropsLastWrites,
        "drops what was written last when a volume is unpublished, although it was made durable",
        "sqlite/dynamic-pv-default-fs:should-keep-every-acknowledged-transaction-of-a-database-that-is-killed-with-its-pod",
        "a volume loses what a database has committed",
    ),
    row(
        Defect::RevertsAtRestage,
        "puts back an earlier copy of a volume that is staged again",
        "sqlite/dynamic-pv-default-fs:should-keep-every-acknowledged-transaction-of-a-database-that-is-killed-with-its-pod",
        "a volume loses what a database has committed",
    ),
    row(
        Defect::RemovesLogsAtRestage,
        "removes files that it takes for leftovers when a volume is staged again",
        "sqlite/dynamic-pv-default-fs:should-keep-every-acknowledged-transaction-of-a-database-that-is-killed-with-its-pod",
        "a volume loses what a database has committed",
    ),
    row(
        Defect::SwapsSectorsAtRestage,
        "swaps sectors in a file of a volume that is staged again",
        "sqlite/dynamic-pv-default-fs:should-keep-every-acknowledged-transaction-of-a-database-that-is-killed-with-its-pod",
        "a volume loses what a database has committed",
    ),
    row(
        Defect::StaysPublished,
        "leaves the volume of a completed pod mounted",
        "completed-pods/dynamic-pv-default-fs:should-unmount-the-volume-of-a-completed-pod-and-mount-it-for-the-next-pod-on-the-node",
        "nothing is left of pod",
    ),
    row(
        Defect::UnpublishDropsStaging,
        "takes the mount at the staging path away with that of the first pod that has completed",
        "completed-pods/dynamic-pv-default-fs:should-keep-a-volume-mounted-beside-a-completed-pod-and-mount-it-for-another-pod",
        "pod-",
    ),
    row(
        Defect::OverlappingVolumesShare,
        "hands out one volume for two claims that come while it creates a volume",
        "claims-at-a-rate/dynamic-pv-default-fs:should-give-each-claim-a-volume-of-its-own-and-keep-its-data-when-its-pod-is-rescheduled",
        "two objects have the same volume handle",
    ),
    Row {
        on: On::Mock(MockDefect::CreateVolumeReusesIds, &[]),
        flaw: "gives all volumes one `volume_id`",
        test: "claims-at-a-rate/dynamic-pv-default-fs:should-give-each-claim-a-volume-of-its-own-and-keep-its-data-when-its-pod-is-rescheduled",
        says: "two objects have the same volume handle",
        versions: None,
    },
    row(
        Defect::StagingBreaksOthers,
        "lets writes to other volumes fail when a volume is staged",
        "claims-at-a-rate/dynamic-pv-default-fs:should-give-each-claim-a-volume-of-its-own-and-keep-its-data-when-its-pod-is-rescheduled",
        "a command failed in a pod",
    ),
    row(
        Defect::LooksForNameInPath,
        "looks for a volume by the name of its PersistentVolume, which is in the target path",
        "provisioning/dynamic-pv-default-fs:should-mount-multiple-pv-pointing-to-the-same-storage-on-the-same-node",
        "there is no volume",
    ),
    row(
        Defect::RefusesUnpublishWithoutMount,
        "fails NodeUnpublishVolume if an administrator has already unmounted the target path",
        "openshift-csi-extended-pod-delete-after-umount/dynamic-pv-default-fs:should-delete-pod-after-volume-directory-was-umounted-on-the-node",
        "not mounted",
    ),
    row(
        Defect::NegativeCapacity,
        "answers GetCapacity with less than nothing",
        "capacity/dynamic-pv-default-fs:provides-storage-capacity-information",
        "below zero",
    ),
    row(
        Defect::MadeElsewhere,
        "makes a volume in a segment that was not asked for",
        "topology/dynamic-pv-immediate-binding:should-provision-a-volume-and-schedule-a-pod-with-allowedtopologies",
        "had volume node affinity conflict",
    ),
    row(
        Defect::KeepsStreams,
        "serves one stream of SnapshotMetadata, and never gives back its room",
        "snapshot-metadata-stress/snapshotmetadata:should-stress-getmetadatadelta-with-concurrent-pods",
        "the blocks that differ between two snapshots can be listed",
    ),
    row(
        Defect::KeepsStreams,
        "serves one stream of SnapshotMetadata, and never gives back its room",
        "snapshot-metadata-stress/snapshotmetadata:should-stress-getallocatedmetadata-with-concurrent-pods",
        "the blocks of a snapshot that hold data can be listed",
    ),
    mock(
        MockDefect::NodeGetVolumeHealthOtherId,
        "answers NodeGetVolumeHealth for another volume, which kubelet takes for healthy",
        "volume-health/dynamic-pv-filesystem-volmode:return-normal-volume-health",
        "health of another volume",
    ),
    mock(
        MockDefect::NodeGetVolumeHealthWithoutHealth,
        "answers NodeGetVolumeHealth without `volume_health`, which kubelet takes for healthy",
        "volume-health/dynamic-pv-block-volmode:return-normal-volume-health",
        "does not report health",
    ),
    mock(
        MockDefect::VolumeHealthEntryTwice,
        "reports the health of a volume twice, so that its pod can have no status and is never gone",
        "volume-health/dynamic-pv-filesystem-volmode:return-abnormal-volume-health",
        "reported twice",
    ),
    mock(
        MockDefect::NodeGetVolumeHealthInaccessibleWhenUsed,
        "reports a volume that works as inaccessible",
        "volume-health/dynamic-pv-filesystem-volmode:return-normal-volume-health",
        "shown as unhealthy in its pod",
    ),
    mock(
        MockDefect::NodeGetVolumeHealthRefusesStagingPath,
        "rejects NodeGetVolumeHealth with a staging path, as kubelet always has one",
        "volume-health/dynamic-pv-block-volmode:return-normal-volume-health",
        "cannot be read",
    ),
    mock(
        MockDefect::NodeGetVolumeHealthNeverIll,
        "never reports that a volume is ill",
        "volume-health/dynamic-pv-block-volmode:return-abnormal-volume-health",
        "is shown as healthy",
    ),
    mock(
        MockDefect::NodeGetStorageHealthNeverIll,
        "never reports that its back end is ill",
        "volume-health/dynamic-pv-filesystem-volmode:should-mark-csinode-unhealthy-and-then-healthy",
        "is shown as healthy",
    ),
    Row {
        // With a list, no component calls the RPC for one volume while it has a problem.
        on: On::Mock(
            MockDefect::ControllerGetVolumeHealthKeepsIll,
            &[Capability::Controller(ControllerType::ListVolumeHealth)],
        ),
        flaw: "goes on telling that a volume is ill that is well again",
        test: "volume-health/dynamic-pv-filesystem-volmode:should-mark-the-claim-unhealthy-and-then-healthy",
        says: "what is healthy again",
        versions: None,
    },
    mock(
        MockDefect::ControllerListVolumeHealthInverted,
        "lists the volumes that are well, and leaves out those that are ill",
        "volume-health/dynamic-pv-filesystem-volmode:should-show-nothing-in-the-claim-of-a-healthy-volume",
        "shown as unhealthy in its claim",
    ),
    mock(
        MockDefect::SnapshotTopologyElsewhere,
        "says that a snapshot can be used from another place than it can",
        "snapshot-topology/dynamic-pv-immediate-binding:should-restore-a-snapshot-wherever-its-topology-says-that-it-can-be-used",
        "from where its class asks for",
    ),
    mock(
        MockDefect::CreateSnapshotIgnoresTopology,
        "takes snapshots where their volumes are, wherever they are asked for",
        "snapshot-topology/dynamic-pv-immediate-binding:should-take-a-snapshot-that-can-be-used-in-another-segment-or-refuse-it",
        "from where its class asks for",
    ),
    mock(
        MockDefect::CreateSnapshotEchoesTopology,
        "says that a snapshot can be used from where it was asked for, wherever it is",
        "snapshot-topology/dynamic-pv-immediate-binding:should-take-a-snapshot-that-can-be-used-in-another-segment-or-refuse-it",
        "is bound",
    ),
    installed(
        Defect::TakesOwnOffLimit,
        "takes the volumes that a node has off `max_volumes_per_node`, as the scheduler does",
        "mutablecsinodeallocatablecount/dynamic-pv-filesystem-volmode:should-not-take-its-own-volumes-off-the-csinode-allocatable-count",
        "the limit shrinks",
    ),
    installed(
        Defect::FullIsInternal,
        "answers INTERNAL when a node is full",
        "mutablecsinodeallocatablecount/dynamic-pv-filesystem-volmode:should-fail-a-pod-with-volumeattachmentlimitexceeded-on-a-node-that-is-full",
        "a pod fails on a full node",
    ),
    installed(
        Defect::TokensOfContextOnly,
        "looks for tokens of service accounts in `volume_context`, where its CSIDriver asks for them in secrets",
        "csiserviceaccounttoken/dynamic-pv-filesystem-volmode:token-should-be-plumbed-down-when-csiserviceaccounttokenenabled-true",
        "serviceAccount.tokens is not in volume_context",
    ),
    in_version(
        installed(
            Defect::TokensOfSecretsOnly,
            "looks for tokens of service accounts in secrets only, where kubelet 1.34 does not put them",
            "csiserviceaccounttoken/dynamic-pv-filesystem-volmode:token-should-be-plumbed-down-when-csiserviceaccounttokenenabled-true",
            "serviceAccount.tokens is not in secrets",
        ),
        Version::V1_34,
        Version::V1_35,
    ),
    in_version(
        installed(
            Defect::RejectsKeysOfKubernetes,
            "rejects keys in `volume_context` that CreateVolume has not returned, among which kubelet 1.34 puts tokens",
            "csiserviceaccounttoken/dynamic-pv-filesystem-volmode:token-should-be-plumbed-down-when-csiserviceaccounttokenenabled-true",
            "is an unknown key of volume_context",
        ),
        Version::V1_34,
        Version::V1_37,
    ),
    in_version(
        labelled(
            Defect::RejectsContextOfShared,
            "rejects the SELinux context of volumes that are not ReadWriteOncePod, which kubelet 1.37 passes",
            "selinuxmount/dynamic-pv-default-fs:pod-with-rwo-volume-and-mount-policy-should-mount-volumes-with-selinux-mount-option",
            "does not take the SELinux context",
        ),
        Version::V1_37,
        Version::V1_36,
    ),
    in_use(
        Defect::GroupStaysFrozen,
        "leaves a volume frozen for a while after a group snapshot",
        "volumegroupsnapshottable/delete-policy:should-create-snapshots-for-statefulset-volumes-and-verify-data-consistency-after-restore",
        "held up during CreateVolumeGroupSnapshot",
    ),
    in_use(
        Defect::GroupsOverTime,
        "restores a member of a group snapshot as its volume is by then",
        "volumegroupsnapshottable/delete-policy:should-create-snapshots-for-statefulset-volumes-and-verify-data-consistency-after-restore",
        "holds data written after the call had returned",
    ),
    in_use(
        Defect::GroupsOneByOne,
        "takes the second member of a group snapshot a moment after the first one",
        "volumegroupsnapshottable/delete-policy:should-create-snapshots-for-statefulset-volumes-and-verify-data-consistency-after-restore",
        "members of a group snapshot are of different moments",
    ),
    in_use(
        Defect::GroupBreaksFirst,
        "lets writes to the first volume of a group snapshot fail",
        "volumegroupsnapshottable/delete-policy:should-create-snapshots-for-statefulset-volumes-and-verify-data-consistency-after-restore",
        // The next write fails with EIO or with EROFS, so that this text names neither.
        "during or after CreateVolumeGroupSnapshot",
    ),
    in_use(
        Defect::SnapshotFreezesWriter,
        "leaves a volume frozen for a while after a snapshot",
        "snapshottable-stress/dynamic-snapshot-delete-policy:should-support-snapshotting-of-many-volumes-repeatedly",
        "held up during CreateSnapshot",
    ),
    in_use(
        Defect::DeletedSnapshotBreaksSource,
        "lets writes to a volume fail when a snapshot of it is deleted",
        "snapshottable-stress/dynamic-snapshot-delete-policy:should-support-snapshotting-of-many-volumes-repeatedly",
        "during or after DeleteSnapshot",
    ),
    in_use(
        Defect::ExpansionFreezes,
        "leaves a volume frozen for a while when it is expanded",
        "volume-expand/dynamic-pv-xfs:should-resize-volume-when-pvc-is-edited-while-pod-is-using-it",
        "held up during ControllerExpandVolume",
    ),
    in_use(
        Defect::ModificationFreezes,
        "leaves a volume frozen for a while when it is modified",
        "volume-modify/dynamic-pv-default-fs:should-modify-volume-with-no-vac",
        "held up during ControllerModifyVolume",
    ),
    in_use(
        Defect::SecondTargetFreezes,
        "leaves a volume frozen for a while when a second pod uses it",
        "multivolume/dynamic-pv-ext4:should-concurrently-access-the-single-volume-from-pods-on-the-same-node",
        "held up during the use of the volume by a second pod",
    ),
    in_use(
        Defect::CloneFreezesSource,
        "leaves a volume frozen for a while when it is cloned",
        "multivolume/dynamic-pv-ext4:should-concurrently-access-the-volume-and-its-clone-from-pods-on-the-same-node-linuxonly",
        "held up during the start of a pod",
    ),
    in_use(
        Defect::ClonesMissUse,
        "clones a volume in use without what its pod wrote last",
        "multivolume/dynamic-pv-ext4:should-concurrently-access-the-volume-and-its-clone-from-pods-on-the-same-node-linuxonly",
        "lacks data that were durable",
    ),
    in_use(
        Defect::UnstagingFreezesOthers,
        "leaves other volumes frozen for a while when a volume is unstaged",
        "multivolume/dynamic-pv-ext4:should-concurrently-access-the-volume-and-its-clone-from-pods-on-the-same-node-linuxonly",
        "held up during the end of a pod",
    ),
    labelled(
        Defect::DropsContext,
        "leaves out the SELinux context in `mount_flags`",
        "selinuxmount/dynamic-pv-default-fs:pod-with-rwop-volume-and-the-default-policy-should-mount-volumes-with-selinux-mount-option",
        "leaves out the SELinux context",
    ),
    labelled(
        Defect::SplitsContext,
        "splits the SELinux context in `mount_flags` at its comma",
        "selinuxmount/dynamic-pv-default-fs:pod-with-rwo-volume-and-mount-policy-should-mount-volumes-with-selinux-mount-option",
        "another SELinux context",
    ),
    labelled(
        Defect::QuotesContext,
        "quotes the SELinux context in `mount_flags` once more",
        "selinuxmount/dynamic-pv-default-fs:pod-with-rwo-volume-and-mount-policy-should-mount-volumes-with-selinux-mount-option",
        "another SELinux context",
    ),
    labelled(
        Defect::RejectsContext,
        "rejects the SELinux context in `mount_flags`",
        "selinuxmount/dynamic-pv-default-fs:pod-with-rwop-volume-and-the-default-policy-should-mount-volumes-with-selinux-mount-option",
        "does not take the SELinux context",
    ),
    labelled(
        Defect::SharesContext,
        "mounts the volume of the second pod with the SELinux context of the first one",
        "selinuxmountdifferent/dynamic-pv-default-fs:pods-with-different-levels-should-each-mount-their-volume-with-their-own-selinux-mount-option",
        "another SELinux context",
    ),
    upgraded(
        Defect::UpgradeEmptiesVolumes,
        "its next version empties the volumes of the version before",
        "other data",
    ),
    upgraded(
        Defect::UpgradeEmptiesSnapshots,
        "its next version empties the snapshots of the version before",
        "other data",
    ),
    upgraded(
        Defect::DowngradeEmptiesNew,
        "empties the volumes of its next version when that is taken back",
        "other data",
    ),
    upgraded(
        Defect::UpgradeDoesNotStart,
        "its next version does not start with what the version before has stored",
        "does not answer when it is started after the other one",
    ),
    two_nodes(
        Defect::ForcedDetachEmpties,
        "empties a volume when it is detached from a node that was shut down",
        "other data than was written",
    ),
    two_nodes(
        Defect::ForcedDetachStaysPending,
        "does not detach a volume from a node that was shut down",
        "pod",
    ),
    two_nodes(
        Defect::LateUnstagingEmpties,
        "empties a volume when the node that was shut down gives it back",
        "other data than was written",
    ),
    two_nodes(
        Defect::LateUnpublishNeedsAttachment,
        "does not unpublish a volume on the node that was shut down, since it is no longer attached there",
        "nothing is left of pod",
    ),
];
