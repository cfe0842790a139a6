//! The defects of the faulty driver.

macro_rules! defects {
    ($name:ident; $($(#[doc = $doc:literal])+ $variant:ident = $id:literal;)+) => {
        /// A defect. Its documentation is also its description.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The id in tests and documents.
            pub fn id(self) -> &'static str {
                match self { $($name::$variant => $id,)+ }
            }

            /// The description, as a sentence.
            pub fn description(self) -> &'static str {
                match self { $($name::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

pub(crate) use defects;

defects! {
    Defect;
    /// `volume_mount_group` is ignored, although VOLUME_MOUNT_GROUP is advertised.
    IgnoresGroup = "hostpath/ignores-group";
    /// The directory gets the group of `volume_mount_group`, but new files in it do not.
    GroupOfDirectoryOnly = "hostpath/group-of-directory-only";
    /// The file system is ext4, whatever `fs_type` says.
    IgnoresFsType = "hostpath/ignores-fs-type";
    /// `mount_flags` are ignored.
    IgnoresMountFlags = "hostpath/ignores-mount-flags";
    /// Volumes are mounted with noexec.
    ForbidsExecution = "hostpath/forbids-execution";
    /// `readonly` is ignored.
    IgnoresReadonly = "hostpath/ignores-readonly";
    /// The second target of a volume shows an empty directory.
    HidesFromSecondPod = "hostpath/hides-from-second-pod";
    /// A target path shows the volume that was published before this one.
    MixesUp = "hostpath/mixes-up";
    /// A volume that was staged before is empty.
    WipesAtRestage = "hostpath/wipes-at-restage";
    /// A volume that is staged with another `fs_type` than before is empty.
    FormatsOtherFsType = "hostpath/formats-other-fs-type";
    /// A repeated NodePublishVolume mounts the volume once more, and each NodeUnpublishVolume removes one mount.
    StacksPublications = "hostpath/stacks-publications";
    /// A repeated NodeStageVolume mounts the volume once more, and each NodeUnstageVolume removes one mount.
    StacksStagings = "hostpath/stacks-stagings";
    /// NodeUnpublishVolume does nothing at a path that is written in another form in the mount table.
    ForgetsUnusualPaths = "hostpath/forgets-unusual-paths";
    /// NodeUnpublishVolume does nothing.
    StaysPublished = "hostpath/stays-published";
    /// NodeExpandVolume does nothing.
    NodeExpandsNothing = "hostpath/node-expands-nothing";
    /// ControllerExpandVolume does nothing, and reports that no node expansion is required.
    ControllerExpandsNothing = "hostpath/controller-expands-nothing";
    /// A volume made from a volume is empty.
    ClonesNothing = "hostpath/clones-nothing";
    /// A volume made from a snapshot is empty.
    RestoresNothing = "hostpath/restores-nothing";
    /// A volume made from a snapshot has the contents that the source has at the time of the restore.
    RestoresLater = "hostpath/restores-later";
    /// A volume made from a snapshot or a volume has no links and no files whose names begin with a dot.
    CopiesPlainFiles = "hostpath/copies-plain-files";
    /// A volume made from a snapshot or a volume cannot be staged while another volume is, as if a copy could not be distinguished from its
    /// source.
    RefusesCopiesBesideSource = "hostpath/refuses-copies-beside-source";
    /// A larger volume made from a snapshot has only the size of the snapshot.
    RestoresNoLarger = "hostpath/restores-no-larger";
    /// The members of a group snapshot have each other's volumes as their sources.
    MixesUpMembers = "hostpath/mixes-up-members";
    /// NodeUnpublishVolume removes the last byte of each file in the volume.
    LosesLastByte = "hostpath/loses-last-byte";
    /// NodeUnpublishVolume cuts the files in the volume at 4 MiB.
    CutsFiles = "hostpath/cuts-files";
    /// ControllerModifyVolume does nothing.
    TakesAnyAttributes = "hostpath/takes-any-attributes";
    /// available_capacity is negative.
    NegativeCapacity = "hostpath/negative-capacity";
    /// A volume is reported to be in a topology segment that was not requested.
    MadeElsewhere = "hostpath/made-elsewhere";
    /// `readonly` of ControllerPublishVolume is ignored.
    AttachesForWriting = "hostpath/attaches-for-writing";
    /// The second member of a group snapshot also holds what was written until it is restored.
    GroupsOverTime = "hostpath/groups-over-time";
    /// CreateVolumeGroupSnapshot takes the second member a moment after the first one.
    GroupsOneByOne = "hostpath/group-snapshot-one-by-one";
    /// Volumes that were requested for writing are mounted read-only when they are published again.
    MountsForReadingOnly = "hostpath/mounts-for-reading-only";
    /// Only the first of the `mount_flags` has an effect.
    TakesFirstFlagOnly = "hostpath/takes-first-flag-only";
    /// The target path of a block volume is a file.
    PublishesFilesForDevices = "hostpath/publishes-files-for-devices";
    /// NodeGetVolumeStats measures the file system of the driver's own directory.
    StatsOfTheHost = "hostpath/stats-of-the-host";
    /// NodeGetVolumeStats returns its first reply forever.
    StatsRemembered = "hostpath/stats-remembered";
    /// A volume that is published read-only at one target refuses writes at all targets.
    ReadonlyForAll = "hostpath/readonly-for-all";
    /// A device that is published read-only at one target refuses writes at all targets, as after BLKROSET.
    ReadonlyDeviceForAll = "hostpath/readonly-device-for-all";
    /// A volume that was published read-only refuses writes from then on.
    ReadonlyStays = "hostpath/readonly-stays";
    /// NodePublishVolume publishes the bare directory if the staging directory has lost its mount.
    PublishesBareStaging = "hostpath/publishes-bare-staging";
    /// At the second target of a volume the mount fails, and NodePublishVolume returns OK with a bare directory there.
    PublishesBareTarget = "hostpath/publishes-bare-target";
    /// A volume that is published read-only is mounted without the requested mount flags.
    ReadonlyDropsFlags = "hostpath/readonly-drops-flags";
    /// If the volume is busy, NodeUnpublishVolume does nothing and returns OK.
    TakesBusyForUnpublished = "hostpath/takes-busy-for-unpublished";
    /// If the volume is busy, NodeUnpublishVolume deletes the files that it finds at the target path.
    DeletesWhatIsBusy = "hostpath/deletes-what-is-busy";
    /// NodeGetVolumeStats returns twice the size.
    StatsDoubled = "hostpath/stats-doubled";
    /// DeleteVolume does nothing if a volume of the same name was deleted before.
    DeletesNameOnce = "hostpath/deletes-a-name-once";
    /// A volume that is staged again has the contents that it had when it was first unpublished.
    RevertsAtRestage = "hostpath/reverts-at-restage";
    /// NodeUnpublishVolume restores the last written file to its state when the volume was published, as if a cache was dropped.
    DropsLastWrites = "hostpath/drops-last-writes";
    /// A volume that is staged again lacks the files whose names end in `-wal`, as if the driver took them for leftovers.
    RemovesLogsAtRestage = "hostpath/removes-logs-at-restage";
    /// In the largest file of a volume that is staged again, some pairs of sectors are exchanged.
    SwapsSectorsAtRestage = "hostpath/swaps-sectors-at-restage";
    /// A volume shows the last contents of its copy, as if both shared their data.
    CopiesWriteThrough = "hostpath/copies-write-through";
    /// A copy of a volume shows the present contents of the volume, as if it were a link.
    CopiesFollowSource = "hostpath/copies-follow-source";
    /// The second volume made from a snapshot shows the contents of the first one.
    RestoresShare = "hostpath/restores-share";
    /// An expanded volume is empty.
    ExpansionWipes = "hostpath/expansion-wipes";
    /// DeleteVolume empties the copies of the volume.
    DeletesCopies = "hostpath/deletes-copies-with-source";
    /// DeleteVolume of a copy empties its source.
    DeletesSource = "hostpath/deletes-source-with-copy";
    /// A copy lacks its last part and the second half of its files.
    CopiesLoseEnd = "hostpath/copies-lose-end";
    /// The contents of a copy are shifted by 512 bytes.
    CopiesShifted = "hostpath/copies-shifted";
    /// A copy contains wrong bytes.
    CopiesDamaged = "hostpath/copies-damaged";
    /// A CreateVolume that begins during another one returns the volume of that one, as if both took the same free space.
    OverlappingVolumesShare = "hostpath/overlapping-volumes-share";
    /// A repeated CreateVolume empties the existing volume.
    WipesAtRepeatedCreation = "hostpath/wipes-at-repeated-creation";
    /// A copy under the name of another volume is rejected, and the other volume is emptied.
    RejectedCopyWipesNamesake = "hostpath/rejected-copy-wipes-namesake";
    /// A repeated NodeStageVolume empties the volume.
    WipesAtRepeatedStaging = "hostpath/wipes-at-repeated-staging";
    /// ControllerUnpublishVolume empties the volume.
    WipesAtDetach = "hostpath/wipes-at-detach";
    /// The last part of a volume and the second half of its files are lost when it is unpublished.
    LosesEnd = "hostpath/loses-end";
    /// A new volume holds the contents of the volume that was deleted last.
    HandsOutDeleted = "hostpath/hands-out-deleted-data";
    /// NodePublishVolume does nothing if a directory exists at the target path.
    TakesDirectoryForPublished = "hostpath/takes-directory-for-published";
    /// NodePublishVolume does nothing at a path where the volume was published before, even if it was unpublished since.
    RemembersPublished = "hostpath/remembers-published";
    /// NodeUnpublishVolume fails if nothing is mounted at the path.
    RefusesUnpublishWithoutMount = "hostpath/refuses-unpublish-without-mount";
    /// NodeUnstageVolume fails if nothing is mounted at the path.
    RefusesUnstageWithoutMount = "hostpath/refuses-unstage-without-mount";
    /// NodeUnpublishVolume unpublishes the volume at all of its targets.
    UnpublishesAllTargets = "hostpath/unpublishes-all-targets";
    /// NodeUnpublishVolume also removes the mount at the staging path, although other pods use the volume.
    UnpublishDropsStaging = "hostpath/unpublish-drops-staging";
    /// The volume is identified by the name in the target path, which is the name in CreateVolume only if the provisioner has created the
    /// volume.
    LooksForNameInPath = "hostpath/looks-for-name-in-path";
    /// A volume that is staged again shows another published volume.
    MixesUpRestaged = "hostpath/mixes-up-restaged";
    /// DeleteVolume unmounts another volume.
    DeleteUnmountsOthers = "hostpath/delete-unmounts-others";
    /// Volumes are rounded down to whole MiB, but the requested size is reported.
    RoundsDown = "hostpath/rounds-down";
    /// Volumes with a limit are one MiB larger than it, but the requested size is reported.
    ExceedsLimit = "hostpath/exceeds-limit";
    /// A volume made from a snapshot is as large as the source of the snapshot is at that time.
    RestoresGrown = "hostpath/restores-at-grown-size";
    /// A volume made from a snapshot has to be as large as the source of the snapshot is at that time.
    RestoresDemandGrown = "hostpath/restores-demand-grown-size";
    /// A volume made from a snapshot has the contents of the first snapshot of the source.
    RestoresFirst = "hostpath/restores-first-snapshot";
    /// A volume made from a snapshot has the contents of the newest snapshot of the source.
    RestoresNewest = "hostpath/restores-newest-snapshot";
    /// A snapshot of a copy is a snapshot of the source of the copy.
    SnapshotsSourceOfCopy = "hostpath/snapshots-source-of-copy";
    /// A volume made from a copy is made from the source of the copy.
    ClonesSourceOfCopy = "hostpath/clones-source-of-copy";
    /// A volume made from a snapshot is empty if the source of the snapshot was deleted.
    RestoresNothingOfDeleted = "hostpath/restores-nothing-of-deleted";
    /// A snapshot of a volume in use has the contents that the volume had when it was staged, as if writes were not flushed.
    SnapshotsMissUse = "hostpath/snapshots-miss-use";
    /// A volume made from a member of a group snapshot has the contents of the first member.
    MembersHoldFirst = "hostpath/members-hold-first";
    /// DeleteSnapshot does nothing, so a new snapshot of the same name is the old one.
    KeepsDeletedSnapshots = "hostpath/keeps-deleted-snapshots";
    /// A copy whose caller gave up while it was made is returned incomplete.
    HandsOutHalfCopies = "hostpath/hands-out-half-copies";
    /// The space for a SnapshotMetadata stream is never released, and every stream after the first is rejected.
    KeepsStreams = "hostpath/keeps-streams";
    /// NodeGetInfo subtracts the attached volumes from the limit.
    TakesOwnOffLimit = "hostpath/takes-own-off-limit";
    /// ControllerPublishVolume to a full node is INTERNAL.
    FullIsInternal = "hostpath/full-is-internal";
    /// Service account tokens are looked up in `volume_context` only.
    TokensOfContextOnly = "hostpath/tokens-of-context-only";
    /// Service account tokens are looked up in secrets only, but kubelets up to 1.34 do not put them there.
    TokensOfSecretsOnly = "hostpath/tokens-of-secrets-only";
    /// Keys that Kubernetes adds to `volume_context` are rejected, because CreateVolume did not return them.
    RejectsKeysOfKubernetes = "hostpath/rejects-keys-of-kubernetes";
    /// Only the inline volume that was published last can be unpublished.
    RemembersLastInline = "hostpath/remembers-last-inline-volume";
    /// The driver unmounts everything when it starts.
    UnmountsAtStart = "hostpath/unmounts-at-start";
    /// NodeUnpublishVolume does nothing and returns OK if the volume was published before the driver started.
    ForgetsPublications = "hostpath/forgets-publications-at-start";
    /// NodeStageVolume and NodePublishVolume do nothing if the records say that they were done before, although a reboot has removed the
    /// mount.
    TrustsRecords = "hostpath/trusts-its-records-after-reboot";
    /// CreateSnapshot makes all writes to its source fail.
    SnapshotBreaksWriter = "hostpath/snapshot-breaks-writer";
    /// CreateSnapshot leaves the file system of its source frozen for a while after it has returned.
    SnapshotFreezesWriter = "hostpath/snapshot-freezes-writer";
    /// CreateSnapshot leaves the file system of its source frozen forever.
    SnapshotLeavesFrozen = "hostpath/snapshot-leaves-source-frozen";
    /// One of two snapshots that are taken at the same time leaves the file system of its source frozen.
    OverlappingSnapshotsStayFrozen = "hostpath/overlapping-snapshots-stay-frozen";
    /// DeleteSnapshot makes all writes to the source of the snapshot fail.
    DeletedSnapshotBreaksSource = "hostpath/delete-snapshot-breaks-source";
    /// CreateVolumeGroupSnapshot leaves the file system of the second volume frozen.
    GroupStaysFrozen = "hostpath/group-snapshot-stays-frozen";
    /// A clone makes all writes to its source fail.
    CloneBreaksSource = "hostpath/clone-breaks-source";
    /// A copy is empty if its snapshot is deleted before the copy is used.
    CopiesNeedSnapshot = "hostpath/copies-need-their-snapshot";
    /// A volume that was expanded to a size is damaged when another volume is expanded to the same size.
    ExpansionsCollide = "hostpath/expansions-to-one-size-collide";
    /// A copy is empty if it is expanded before it is used.
    ExpansionEmptiesFreshCopy = "hostpath/expansion-of-a-fresh-copy-empties-it";
    /// ControllerModifyVolume makes all writes to the volume fail.
    ModificationBreaksWriter = "hostpath/modification-breaks-writer";
    /// NodeGetVolumeStats makes all writes to the volume fail.
    StatisticsBreakWriter = "hostpath/statistics-break-writer";
    /// NodeUnpublishVolume makes all writes at the other targets of the volume fail.
    SecondTargetBreaksFirst = "hostpath/second-target-breaks-first";
    /// NodeUnstageVolume makes all writes to other volumes fail.
    UnstagingBreaksOthers = "hostpath/unstaging-breaks-others";
    /// When the driver starts, it makes all writes to volumes in use fail.
    StartBreaksUsed = "hostpath/start-breaks-volumes-in-use";
    /// CreateSnapshot changes bytes of its source, as if the block mapping were wrong from then on.
    SnapshotDamagesSource = "hostpath/snapshot-damages-source";
    /// A repeated CreateSnapshot freezes the file system before it detects that the snapshot exists.
    RepeatedSnapshotFreezes = "hostpath/repeated-snapshot-freezes-writer";
    /// A repeated CreateSnapshot takes a new snapshot.
    RepeatedSnapshotCutsAnew = "hostpath/repeated-snapshot-cuts-anew";
    /// Two snapshots that are taken at the same time make writes to their source fail.
    OverlappingSnapshotsBreakWriter = "hostpath/overlapping-snapshots-break-writer";
    /// Two snapshots of one volume block its writers, and the first to end also lifts the barrier of the second, which then holds writes of
    /// several moments.
    OverlappingSnapshotLiftsBarrier = "hostpath/overlapping-snapshot-lifts-barrier";
    /// One of two snapshots that are taken at the same time has the contents of the other one's volume.
    OverlappingSnapshotsMixUp = "hostpath/overlapping-snapshots-mix-up-volumes";
    /// CreateSnapshot during an expansion makes writes to the volume fail.
    SnapshotBesideExpansionBreaks = "hostpath/snapshot-beside-expansion-breaks-writer";
    /// CreateSnapshot leaves the file system frozen if its caller gives up.
    GivenUpSnapshotStaysFrozen = "hostpath/given-up-snapshot-stays-frozen";
    /// CreateSnapshot makes writes to the volume fail if its caller gives up.
    GivenUpSnapshotBreaks = "hostpath/given-up-snapshot-breaks-writer";
    /// An incomplete, empty snapshot whose caller gave up is treated as complete.
    GivenUpSnapshotIsTaken = "hostpath/given-up-snapshot-is-taken-for-whole";
    /// A snapshot that is taken while another one is deleted is empty.
    SnapshotBesideDeletionIsEmpty = "hostpath/snapshot-beside-deletion-is-empty";
    /// DeleteSnapshot reverts its source to the snapshot, as if the two were merged in the wrong direction.
    DeletedSnapshotReverts = "hostpath/delete-snapshot-reverts-source";
    /// DeleteSnapshot leaves the file system of the source frozen if its caller gives up.
    GivenUpDeletionFreezes = "hostpath/given-up-snapshot-deletion-stays-frozen";
    /// A repeated DeleteSnapshot makes writes to the source fail.
    RepeatedDeletionBreaks = "hostpath/repeated-snapshot-deletion-breaks-source";
    /// DeleteSnapshot makes writes to the source fail while the source is cloned.
    DeletionBesideCloneBreaks = "hostpath/snapshot-deletion-beside-clone-breaks-source";
    /// CreateVolumeGroupSnapshot makes writes to the first volume fail.
    GroupBreaksFirst = "hostpath/group-snapshot-breaks-first-volume";
    /// A clone leaves the file system of its source frozen for a while.
    CloneFreezesSource = "hostpath/clone-freezes-source";
    /// A clone has the contents that its source had when it was staged, as if writes were not flushed.
    ClonesMissUse = "hostpath/clones-miss-use";
    /// A repeated CreateVolume with a source makes writes to the source fail.
    RepeatedCloneBreaks = "hostpath/repeated-clone-breaks-source";
    /// A clone that is made while a snapshot is taken leaves the file system of their source frozen.
    CloneBesideSnapshotFreezes = "hostpath/clone-beside-snapshot-freezes-source";
    /// A clone that is made while a snapshot is taken is empty.
    CloneBesideSnapshotIsEmpty = "hostpath/clone-beside-snapshot-is-empty";
    /// A clone whose caller gives up makes writes to its source fail.
    GivenUpCloneBreaks = "hostpath/given-up-clone-breaks-source";
    /// A copy that was not used yet is damaged when its source is deleted, as if shared blocks were freed.
    ClonesDamagedWithSource = "hostpath/clones-damaged-with-their-source";
    /// CreateVolume from a snapshot makes writes to the source of the snapshot fail.
    RestoreBreaksSource = "hostpath/restore-breaks-source";
    /// ControllerExpandVolume leaves the file system frozen for a while.
    ExpansionFreezes = "hostpath/expansion-freezes-writer";
    /// ControllerExpandVolume changes bytes of the old part of the volume.
    ExpansionDamages = "hostpath/expansion-damages-old-part";
    /// A repeated ControllerExpandVolume makes writes to the volume fail.
    RepeatedExpansionBreaks = "hostpath/repeated-expansion-breaks-writer";
    /// ControllerExpandVolume makes writes to the volume fail if its caller gives up.
    GivenUpExpansionBreaks = "hostpath/given-up-expansion-breaks-writer";
    /// ControllerExpandVolume during a clone changes bytes of the volume.
    ExpansionBesideCloneDamages = "hostpath/expansion-beside-clone-damages-source";
    /// ControllerExpandVolume of a copy makes writes to its source fail.
    ExpansionOfCopyBreaksSource = "hostpath/expansion-of-a-copy-breaks-source";
    /// The new part of an expanded volume is initialised in the background, which overwrites data of a pod.
    NewPartInitialisedLate = "hostpath/new-part-is-initialised-late";
    /// Two volumes that are expanded to the same size share blocks in their new parts.
    NewPartsCollide = "hostpath/new-parts-of-one-size-collide";
    /// The file system of an expanded volume is larger than its device.
    FileSystemLargerThanDevice = "hostpath/file-system-is-larger-than-device";
    /// NodeExpandVolume makes writes to the volume fail.
    NodeExpansionBreaks = "hostpath/node-expansion-breaks-writer";
    /// A repeated NodeExpandVolume leaves the file system frozen for a while.
    RepeatedNodeExpansionFreezes = "hostpath/repeated-node-expansion-freezes-writer";
    /// ControllerModifyVolume leaves the file system frozen for a while.
    ModificationFreezes = "hostpath/modification-freezes-writer";
    /// ControllerModifyVolume loses written data, as if the volume were moved without them.
    ModificationLosesWrites = "hostpath/modification-loses-writes";
    /// NodeGetVolumeStats leaves the file system frozen for a while.
    StatisticsFreeze = "hostpath/statistics-freeze-writer";
    /// A repeated NodeStageVolume makes writes to the volume fail.
    RepeatedStagingBreaks = "hostpath/repeated-staging-breaks-writer";
    /// A repeated NodePublishVolume empties the volume.
    RepeatedPublicationEmpties = "hostpath/repeated-publication-empties-volume";
    /// NodePublishVolume at a second target empties the volume.
    SecondTargetEmpties = "hostpath/second-target-empties-volume";
    /// NodePublishVolume at a second target leaves the file system frozen for a while.
    SecondTargetFreezes = "hostpath/second-target-freezes-first";
    /// NodeStageVolume makes all writes to other volumes fail.
    StagingBreaksOthers = "hostpath/staging-breaks-others";
    /// NodeUnstageVolume leaves the file systems of other volumes frozen for a while.
    UnstagingFreezesOthers = "hostpath/unstaging-freezes-others";
    /// When the driver starts, it empties the volumes in use.
    StartEmptiesUsed = "hostpath/start-empties-volumes-in-use";
    /// When the driver starts, it unmounts the volumes in use at their targets. Open files still work.
    StartUnmountsUsed = "hostpath/start-unmounts-volumes-in-use";
    /// A driver that was killed during a snapshot makes all writes to the source fail when it starts.
    StartBreaksSnapshotSource = "hostpath/start-breaks-source-of-unfinished-snapshot";
    /// A driver that was killed during a snapshot leaves the file system of the source frozen.
    StartLeavesFrozen = "hostpath/start-leaves-source-frozen";
    /// A driver that was killed during a snapshot treats the incomplete, empty snapshot as complete.
    StartTakesHalfSnapshot = "hostpath/start-takes-half-a-snapshot-for-whole";
    /// A driver that was killed while it made a copy treats the incomplete, empty copy as complete.
    StartTakesHalfCopy = "hostpath/start-takes-half-a-copy-for-whole";
    /// CreateSnapshot freezes the file system of its source while it works, and only the driver's own process can thaw it.
    StoppedSnapshotHoldsWriter = "hostpath/stopped-snapshot-holds-writer";
    /// CreateSnapshot makes all writes to its source fail if the driver was stopped during the call.
    LateSnapshotBreaks = "hostpath/late-snapshot-breaks-writer";
    /// A snapshot is empty if the driver was stopped during the call, as if a deadline removed its data.
    LateSnapshotIsEmpty = "hostpath/late-snapshot-is-empty";
    /// A clone whose caller gave up while the driver was stopped is pending forever.
    LateCloneStaysPending = "hostpath/late-clone-stays-pending";
    /// A failed CreateSnapshot leaves the file system of its source frozen for a while.
    FailedSnapshotStaysFrozen = "hostpath/failed-snapshot-stays-frozen";
    /// A failed CreateSnapshot makes all writes to its source fail.
    FailedSnapshotBreaks = "hostpath/failed-snapshot-breaks-writer";
    /// The incomplete, empty snapshot of a failed CreateSnapshot is treated as complete by the next call.
    FailedSnapshotIsTaken = "hostpath/failed-snapshot-is-taken-for-whole";
    /// A failed CreateVolume from a volume makes all writes to the source fail.
    FailedCloneBreaks = "hostpath/failed-clone-breaks-source";
    /// A failed ControllerExpandVolume makes all writes to the volume fail.
    FailedExpansionBreaks = "hostpath/failed-expansion-breaks-writer";
    /// ControllerPublishVolume for another node makes writes fail on the node that has the volume.
    AttachElsewhereBreaks = "hostpath/attach-elsewhere-breaks-writer";
    /// ControllerUnpublishVolume for a node without the volume makes writes fail on the node that has it.
    DetachElsewhereBreaks = "hostpath/detach-elsewhere-breaks-writer";
    /// ControllerUnpublishVolume for the former node of a volume is pending forever once another node has the volume.
    LateDetachStaysPending = "hostpath/late-detach-stays-pending";
    /// ControllerUnpublishVolume for the former node of a volume empties it on its present node.
    LateDetachWipes = "hostpath/late-detach-wipes";
    /// After a ControllerUnpublishVolume whose caller gave up, no other node gets the volume.
    GivenUpDetachKeepsVolume = "hostpath/given-up-detach-keeps-volume";
    /// ControllerUnpublishVolume for a node that has not unpublished the volume empties it.
    ForcedDetachEmpties = "hostpath/forced-detach-empties";
    /// ControllerUnpublishVolume for a node that has not unpublished the volume is pending forever.
    ForcedDetachStaysPending = "hostpath/forced-detach-stays-pending";
    /// ControllerUnpublishVolume for a node whose workload still writes damages the volume, as if a cache was dropped.
    ForcedDetachDamages = "hostpath/forced-detach-damages-what-is-written";
    /// ControllerUnpublishVolume for a node that has not unpublished the volume detaches it from all nodes.
    ForcedDetachDetachesAll = "hostpath/forced-detach-detaches-all-nodes";
    /// ControllerUnpublishVolume for a node that has not unpublished the volume makes writes of another node with the volume fail.
    ForcedDetachBreaksOther = "hostpath/forced-detach-breaks-other-node";
    /// A SINGLE_NODE_SINGLE_WRITER volume remains bound to its node after ControllerUnpublishVolume if the node has not unpublished it.
    SingleWriterOutlivesDetach = "hostpath/single-writer-outlives-detach";
    /// After a failed ControllerUnpublishVolume for a node that has not unpublished the volume, the next call treats it as done.
    FailedDetachIsDone = "hostpath/failed-detach-is-taken-for-done";
    /// A failed ControllerUnpublishVolume for a node that has not unpublished the volume empties it.
    FailedDetachEmpties = "hostpath/failed-detach-empties";
    /// A ControllerPublishVolume that was rejected while another node had the volume is always rejected afterwards.
    RejectedAttachStays = "hostpath/rejected-attach-stays-rejected";
    /// A ControllerPublishVolume that is rejected while another node has the volume empties it.
    WaitingAttachEmpties = "hostpath/waiting-attach-empties";
    /// NodeUnpublishVolume on the former node of a volume unmounts it at the targets of its new node.
    LateUnpublishUnmounts = "hostpath/late-unpublish-unmounts-elsewhere";
    /// NodeUnpublishVolume fails on a node from which the volume was detached.
    LateUnpublishNeedsAttachment = "hostpath/late-unpublish-needs-attachment";
    /// NodeUnstageVolume on the former node of a volume makes all writes on its new node fail.
    LateUnstagingBreaks = "hostpath/late-unstaging-breaks-writer";
    /// NodeUnstageVolume on the former node of a volume empties it.
    LateUnstagingEmpties = "hostpath/late-unstaging-empties";
    /// NodeUnstageVolume fails on a node from which the volume was detached.
    LateUnstagingNeedsAttachment = "hostpath/late-unstaging-needs-attachment";
    /// After the driver was killed during ControllerUnpublishVolume, the call is pending forever.
    StartKeepsHalfDetach = "hostpath/start-keeps-half-a-detach";
    /// A driver that was killed during ControllerUnpublishVolume empties the volume when it is attached next.
    StartEmptiesHalfDetached = "hostpath/start-empties-half-detached-volume";
    /// After the driver was killed during ControllerPublishVolume, the call is pending forever.
    StartKeepsHalfAttach = "hostpath/start-keeps-half-an-attach";
    /// A driver that was killed during ControllerPublishVolume empties the volume when it is attached next.
    StartEmptiesHalfAttached = "hostpath/start-empties-half-attached-volume";
    /// A driver that was killed during NodePublishVolume empties the volume when it is published next.
    StartEmptiesHalfPublished = "hostpath/start-empties-half-published-volume";
    /// After the driver was killed during NodeStageVolume, the call is rejected as pending.
    StartKeepsHalfStaging = "hostpath/start-keeps-half-a-staging";
    /// After the driver was killed during NodeUnstageVolume, the call is rejected as pending.
    StartKeepsHalfUnstaging = "hostpath/start-keeps-half-an-unstaging";
    /// A volume that was staged when its node rebooted is formatted by the next NodeStageVolume.
    RebootFormatsAnew = "hostpath/reboot-formats-anew";
    /// NodeStageVolume fails for a volume that was staged when its node rebooted.
    RebootRejectsStaging = "hostpath/reboot-rejects-staging";
    /// NodeStageVolume fails for a volume that was staged when its node rebooted, until its old loop device exists.
    RebootNeedsOldDevice = "hostpath/reboot-needs-old-device";
    /// NodeStageVolume formats a volume that was staged when its node rebooted, if its record below /run is gone.
    RebootNeedsRecord = "hostpath/reboot-needs-record-in-memory";
    /// The second node of a multi-writer block volume gets an empty device.
    SecondNodeGetsEmptyDevice = "hostpath/second-node-gets-empty-device";
    /// The driver does not examine the health of volumes, and never reports a problem.
    HealthMissesReadOnly = "hostpath/health-misses-read-only";
    /// The condition of a volume is abnormal after it was requested twice, as if each request counted as an event.
    HealthReportsUse = "hostpath/health-reports-use-as-problem";
    /// NodeGetVolumeHealth makes all writes to the volume fail.
    HealthQuestionBreaks = "hostpath/health-question-breaks-writer";
    /// CreateSnapshot fails while the volume is written to, for example because it is copied with tar. A driver may do this.
    SnapshotsNeedQuiet = "hostpath/snapshots-need-quiet-volume";
    /// The SELinux context in `mount_flags` is left out.
    DropsContext = "hostpath/drops-selinux-context";
    /// The SELinux context in `mount_flags` is cut off at its comma.
    SplitsContext = "hostpath/splits-selinux-context";
    /// The SELinux context in `mount_flags`, which has quotes, gets additional quotes.
    QuotesContext = "hostpath/quotes-selinux-context";
    /// `mount_flags` with an SELinux context are rejected.
    RejectsContext = "hostpath/rejects-selinux-context";
    /// `mount_flags` with an SELinux context are rejected for volumes that several pods may use, which have no context up to Kubernetes 1.36.
    RejectsContextOfShared = "hostpath/rejects-selinux-context-of-shared-volumes";
    /// Every volume is mounted with the SELinux context of the first one, as if all shared a superblock.
    SharesContext = "hostpath/shares-selinux-context";
    /// The next version lists only volumes that it has created itself.
    UpgradeListsNewOnly = "hostpath/upgrade-lists-new-volumes-only";
    /// The next version has other ids for the volumes of the version before.
    UpgradeChangesIds = "hostpath/upgrade-changes-volume-ids";
    /// The next version does not find the snapshots of the version before.
    UpgradeLosesSnapshots = "hostpath/upgrade-loses-snapshots";
    /// At its first start, the next version deletes all volumes that are not attached, because it did not create them.
    UpgradeDeletesUnknown = "hostpath/upgrade-deletes-unknown-volumes";
    /// The next version rounds the sizes of the volumes of the version before to whole GiB.
    UpgradeRoundsSizes = "hostpath/upgrade-rounds-sizes-anew";
    /// The next version does not start if the version before has stored anything.
    UpgradeDoesNotStart = "hostpath/upgrade-does-not-start";
    /// The next version stores names in another way, and creates a second volume for a name of the version before.
    UpgradeForgetsNames = "hostpath/upgrade-forgets-names";
    /// The next version has another publish_context for the attachments of the version before.
    UpgradeRenamesAttachments = "hostpath/upgrade-renames-attachments";
    /// The next version has another volume_context for the volumes of the version before.
    UpgradeChangesContexts = "hostpath/upgrade-changes-contexts";
    /// NodeUnpublishVolume of the next version does nothing for volumes that the version before has published.
    UpgradeForgetsPublications = "hostpath/upgrade-forgets-publications";
    /// NodeUnstageVolume of the next version does nothing for volumes that the version before has staged.
    UpgradeForgetsStagings = "hostpath/upgrade-forgets-stagings";
    /// ControllerUnpublishVolume of the next version does nothing for volumes that the version before has attached.
    UpgradeKeepsAttachments = "hostpath/upgrade-keeps-old-attachments";
    /// DeleteVolume of the next version does nothing for volumes of the version before.
    UpgradeDeletesNothingOld = "hostpath/upgrade-deletes-nothing-old";
    /// A volume of the version before is empty when the next version publishes it.
    UpgradeEmptiesVolumes = "hostpath/upgrade-empties-old-volumes";
    /// A snapshot of the version before is empty when the next version restores it.
    UpgradeEmptiesSnapshots = "hostpath/upgrade-empties-old-snapshots";
    /// The next version does not expand volumes of the version before.
    UpgradeExpandsNothingOld = "hostpath/upgrade-does-not-expand-old";
    /// A snapshot that the next version takes of a volume of the version before is empty.
    UpgradeSnapshotsEmpty = "hostpath/upgrade-snapshots-of-old-are-empty";
    /// At its start, the next version mounts the volumes in use again, over the mounts of the version before.
    UpgradeMountsAgain = "hostpath/upgrade-mounts-again";
    /// At its start, the next version unmounts the volumes in use.
    UpgradeUnmountsUsed = "hostpath/upgrade-unmounts-used";
    /// At its start, the next version makes all writes to the volumes in use fail.
    UpgradeBreaksUsed = "hostpath/upgrade-breaks-volumes-in-use";
    /// The nodes of the next version have another topology key.
    UpgradeHasNewTopology = "hostpath/upgrade-has-new-topology-key";
    /// The next version creates volumes of twice the size.
    UpgradeMakesLarger = "hostpath/upgrade-makes-larger-volumes";
    /// The next version no longer advertises CLONE_VOLUME.
    UpgradeDropsClones = "hostpath/upgrade-drops-clones";
    /// If the next version is killed while it converts the state of the version before, it starts with an empty state.
    UpgradeLosesHalfMigrated = "hostpath/upgrade-migration-is-not-crash-safe";
    /// If the next version is killed while it starts, it never starts again, because it mistakes its own record for another process.
    UpgradeStartsOnce = "hostpath/upgrade-starts-once";
    /// If the version before still runs when the next version starts, the next version deletes all volumes at its following start.
    UpgradeDeletesBeside = "hostpath/upgrade-deletes-beside-old-version";
    /// A node plugin of the version before does not publish volumes that the controller of the next version has created.
    UpgradeNeedsNewNodes = "hostpath/upgrade-needs-new-nodes";
    /// A volume that the controller of the next version has created is empty when a node plugin of the version before publishes it.
    UpgradeEmptiesOnOldNodes = "hostpath/upgrade-empties-on-old-nodes";
    /// After a downgrade, the version before starts with an empty state, because it does not know the format of the next version.
    DowngradeStartsEmpty = "hostpath/downgrade-starts-empty";
    /// After a downgrade, the version before deletes the volumes of the next one.
    DowngradeLosesNew = "hostpath/downgrade-loses-new-volumes";
    /// After a downgrade, the version before makes all writes to the volumes in use fail when it starts.
    DowngradeBreaksUsed = "hostpath/downgrade-breaks-volumes-in-use";
    /// After a downgrade, the version before mounts the volumes in use again when it starts, over the mounts of the next version.
    DowngradeMountsAgain = "hostpath/downgrade-mounts-again";
    /// After a downgrade, a volume of the next version is empty when the version before publishes it.
    DowngradeEmptiesNew = "hostpath/downgrade-empties-new-volumes";
    /// After a downgrade, DeleteVolume does nothing for volumes of the next version.
    DowngradeDeletesNothingNew = "hostpath/downgrade-deletes-nothing-new";
    /// Each NodeUnpublishVolume leaves a mount in the directory of the driver.
    LeavesMounts = "hostpath/leaves-mounts";
    /// Each NodeStageVolume leaves a loop device.
    LeavesLoopDevices = "hostpath/leaves-loop-devices";
}
