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
    /// `volume_mount_group` is not looked at, though VOLUME_MOUNT_GROUP is advertised.
    IgnoresGroup = "hostpath/ignores-group";
    /// The group of `volume_mount_group` gets the directory, and not what is made in it.
    GroupOfDirectoryOnly = "hostpath/group-of-directory-only";
    /// The file system is ext4, whatever `fs_type` says.
    IgnoresFsType = "hostpath/ignores-fs-type";
    /// `mount_flags` are not looked at.
    IgnoresMountFlags = "hostpath/ignores-mount-flags";
    /// Volumes are mounted with noexec.
    ForbidsExecution = "hostpath/forbids-execution";
    /// `readonly` is not looked at.
    IgnoresReadonly = "hostpath/ignores-readonly";
    /// The second target of a volume shows an empty directory.
    HidesFromSecondPod = "hostpath/hides-from-second-pod";
    /// A target shows the volume that was published before.
    MixesUp = "hostpath/mixes-up";
    /// A volume that was staged before is empty.
    WipesAtRestage = "hostpath/wipes-at-restage";
    /// A repeated NodePublishVolume mounts the volume once more, and each NodeUnpublishVolume takes one mount away.
    StacksPublications = "hostpath/stacks-publications";
    /// A repeated NodeStageVolume mounts the volume once more, and each NodeUnstageVolume takes one mount away.
    StacksStagings = "hostpath/stacks-stagings";
    /// NodeUnpublishVolume does nothing at a path that the table of mounts has in another form.
    ForgetsUnusualPaths = "hostpath/forgets-unusual-paths";
    /// NodeUnpublishVolume does nothing.
    StaysPublished = "hostpath/stays-published";
    /// NodeExpandVolume does nothing.
    NodeExpandsNothing = "hostpath/node-expands-nothing";
    /// ControllerExpandVolume does nothing, and says that the node has nothing to do either.
    ControllerExpandsNothing = "hostpath/controller-expands-nothing";
    /// A volume made from a volume is empty.
    ClonesNothing = "hostpath/clones-nothing";
    /// A volume made from a snapshot is empty.
    RestoresNothing = "hostpath/restores-nothing";
    /// A volume made from a snapshot shows what its source holds at that time.
    RestoresLater = "hostpath/restores-later";
    /// A volume made from a snapshot or a volume has neither links nor files whose names begin with a dot.
    CopiesPlainFiles = "hostpath/copies-plain-files";
    /// A volume made from a snapshot or a volume cannot be staged while another one is, as where a copy cannot be distinguished from its
    /// source.
    RefusesCopiesBesideSource = "hostpath/refuses-copies-beside-source";
    /// A volume made larger from a snapshot has the size of the snapshot.
    RestoresNoLarger = "hostpath/restores-no-larger";
    /// The members of a group snapshot name each other's volumes as their sources.
    MixesUpMembers = "hostpath/mixes-up-members";
    /// NodeUnpublishVolume removes the last byte of each file in the volume.
    LosesLastByte = "hostpath/loses-last-byte";
    /// NodeUnpublishVolume cuts the files in the volume at 4 MiB.
    CutsFiles = "hostpath/cuts-files";
    /// ControllerModifyVolume does nothing.
    TakesAnyAttributes = "hostpath/takes-any-attributes";
    /// The free space is below zero.
    NegativeCapacity = "hostpath/negative-capacity";
    /// A volume is said to be in a segment that was not asked for.
    MadeElsewhere = "hostpath/made-elsewhere";
    /// `readonly` of ControllerPublishVolume is not looked at.
    AttachesForWriting = "hostpath/attaches-for-writing";
    /// The second member of a group snapshot holds what is written until it is restored.
    GroupsOverTime = "hostpath/groups-over-time";
    /// CreateVolumeGroupSnapshot takes the second member a moment after the first one.
    GroupsOneByOne = "hostpath/group-snapshot-one-by-one";
    /// Volumes that were asked for for writing are mounted for reading only when they are published once more.
    MountsForReadingOnly = "hostpath/mounts-for-reading-only";
    /// Only the first of `mount_flags` has an effect.
    TakesFirstFlagOnly = "hostpath/takes-first-flag-only";
    /// At the target of a device is a file.
    PublishesFilesForDevices = "hostpath/publishes-files-for-devices";
    /// NodeGetVolumeStats measures the file system that the driver's own directory is on.
    StatsOfTheHost = "hostpath/stats-of-the-host";
    /// NodeGetVolumeStats returns its first answer for ever.
    StatsRemembered = "hostpath/stats-remembered";
    /// A volume that is published for reading only at one target is made to refuse writes at all of them.
    ReadonlyForAll = "hostpath/readonly-for-all";
    /// A device that is published for reading only at one target is made to refuse writes at all of them, as by BLKROSET.
    ReadonlyDeviceForAll = "hostpath/readonly-device-for-all";
    /// A volume that was published for reading only refuses writes from then on.
    ReadonlyStays = "hostpath/readonly-stays";
    /// NodePublishVolume publishes the bare directory if the staging directory has lost its mount.
    PublishesBareStaging = "hostpath/publishes-bare-staging";
    /// At the second target of a volume, the mount fails, and NodePublishVolume answers OK with a bare directory there.
    PublishesBareTarget = "hostpath/publishes-bare-target";
    /// A volume that is published for reading only is mounted without the flags that were asked for.
    ReadonlyDropsFlags = "hostpath/readonly-drops-flags";
    /// NodeUnpublishVolume does nothing, and answers OK, where the volume is busy.
    TakesBusyForUnpublished = "hostpath/takes-busy-for-unpublished";
    /// NodeUnpublishVolume deletes what it finds at the target path, where the volume is busy.
    DeletesWhatIsBusy = "hostpath/deletes-what-is-busy";
    /// NodeGetVolumeStats returns twice the size.
    StatsDoubled = "hostpath/stats-doubled";
    /// DeleteVolume does nothing where a volume of the same name was deleted before.
    DeletesNameOnce = "hostpath/deletes-a-name-once";
    /// A volume that was staged before holds what was in it when it was first unpublished.
    RevertsAtRestage = "hostpath/reverts-at-restage";
    /// NodeUnpublishVolume restores the file that was written to last to its state when the volume was published, as a dropped cache does.
    DropsLastWrites = "hostpath/drops-last-writes";
    /// A volume that was staged before lacks the files whose names end in `-wal`, as where a driver takes them for leftovers.
    RemovesLogsAtRestage = "hostpath/removes-logs-at-restage";
    /// In the largest file of a volume that was staged before, some pairs of sectors have changed places.
    SwapsSectorsAtRestage = "hostpath/swaps-sectors-at-restage";
    /// A volume shows what was last in a copy of it, as where both share their data.
    CopiesWriteThrough = "hostpath/copies-write-through";
    /// A copy of a volume shows what is in the volume now, as where it is a link to it.
    CopiesFollowSource = "hostpath/copies-follow-source";
    /// The second volume made from a snapshot shows what is in the first one.
    RestoresShare = "hostpath/restores-share";
    /// An expanded volume is empty.
    ExpansionWipes = "hostpath/expansion-wipes";
    /// DeleteVolume empties the copies of the volume.
    DeletesCopies = "hostpath/deletes-copies-with-source";
    /// DeleteVolume for a copy empties its source.
    DeletesSource = "hostpath/deletes-source-with-copy";
    /// A copy lacks its last part, and the last half of its files.
    CopiesLoseEnd = "hostpath/copies-lose-end";
    /// The contents of a copy are shifted by 512 bytes.
    CopiesShifted = "hostpath/copies-shifted";
    /// A copy has wrong bytes in it.
    CopiesDamaged = "hostpath/copies-damaged";
    /// A CreateVolume that begins during another one hands out the volume of that one, as where both take the same free place.
    OverlappingVolumesShare = "hostpath/overlapping-volumes-share";
    /// CreateVolume of a volume that exists empties it.
    WipesAtRepeatedCreation = "hostpath/wipes-at-repeated-creation";
    /// A copy under the name of another volume is rejected, and that volume is empty.
    RejectedCopyWipesNamesake = "hostpath/rejected-copy-wipes-namesake";
    /// NodeStageVolume of a staged volume empties it.
    WipesAtRepeatedStaging = "hostpath/wipes-at-repeated-staging";
    /// A volume that is unpublished from its node by the controller is emptied.
    WipesAtDetach = "hostpath/wipes-at-detach";
    /// The last part of a volume, and the last half of its files, is lost when it is unpublished.
    LosesEnd = "hostpath/loses-end";
    /// A new volume holds what was in the one that was deleted last.
    HandsOutDeleted = "hostpath/hands-out-deleted-data";
    /// Nothing is done to publish a volume where a directory exists at the target path.
    TakesDirectoryForPublished = "hostpath/takes-directory-for-published";
    /// Nothing is done to publish a volume at a path where it was published before, since it was unpublished or not.
    RemembersPublished = "hostpath/remembers-published";
    /// NodeUnpublishVolume fails if nothing is mounted at the path.
    RefusesUnpublishWithoutMount = "hostpath/refuses-unpublish-without-mount";
    /// NodeUnstageVolume fails if nothing is mounted at the path.
    RefusesUnstageWithoutMount = "hostpath/refuses-unstage-without-mount";
    /// NodeUnpublishVolume unpublishes the volume at all of its targets.
    UnpublishesAllTargets = "hostpath/unpublishes-all-targets";
    /// NodeUnpublishVolume also takes away the mount at the staging path, although other pods have the volume.
    UnpublishDropsStaging = "hostpath/unpublish-drops-staging";
    /// The volume is looked for by the name in the target path, which is the name in CreateVolume only if the provisioner has made it.
    LooksForNameInPath = "hostpath/looks-for-name-in-path";
    /// A volume that is staged again shows another one that is published.
    MixesUpRestaged = "hostpath/mixes-up-restaged";
    /// DeleteVolume unmounts another volume.
    DeleteUnmountsOthers = "hostpath/delete-unmounts-others";
    /// Volumes are rounded down to whole MiB, and are said to have what was asked for.
    RoundsDown = "hostpath/rounds-down";
    /// Volumes with a limit are a MiB larger than it, and are said to have what was asked for.
    ExceedsLimit = "hostpath/exceeds-limit";
    /// A volume made from a snapshot is as large as the source of the snapshot is by then.
    RestoresGrown = "hostpath/restores-at-grown-size";
    /// A volume made from a snapshot has to be as large as the source of the snapshot is by then.
    RestoresDemandGrown = "hostpath/restores-demand-grown-size";
    /// A volume made from a snapshot holds the first snapshot of the same source.
    RestoresFirst = "hostpath/restores-first-snapshot";
    /// A volume made from a snapshot holds the last snapshot of the same source.
    RestoresNewest = "hostpath/restores-newest-snapshot";
    /// A snapshot of a copy is one of what it was copied from.
    SnapshotsSourceOfCopy = "hostpath/snapshots-source-of-copy";
    /// A volume made from a copy is made from what that was copied from.
    ClonesSourceOfCopy = "hostpath/clones-source-of-copy";
    /// A volume made from a snapshot is empty where the source of the snapshot was deleted.
    RestoresNothingOfDeleted = "hostpath/restores-nothing-of-deleted";
    /// A snapshot of a volume in use holds what was in it when it was staged, as where what was written is not flushed.
    SnapshotsMissUse = "hostpath/snapshots-miss-use";
    /// A volume made from a member of a group snapshot holds the first member.
    MembersHoldFirst = "hostpath/members-hold-first";
    /// DeleteSnapshot does nothing, so that a snapshot of the same name is the old one.
    KeepsDeletedSnapshots = "hostpath/keeps-deleted-snapshots";
    /// A copy that its caller gave up while it was made is handed out as it is.
    HandsOutHalfCopies = "hostpath/hands-out-half-copies";
    /// The room for a stream of SnapshotMetadata is never given back: every one after the first is refused.
    KeepsStreams = "hostpath/keeps-streams";
    /// NodeGetInfo takes the volumes that are attached off the limit.
    TakesOwnOffLimit = "hostpath/takes-own-off-limit";
    /// A node that is full is INTERNAL.
    FullIsInternal = "hostpath/full-is-internal";
    /// Tokens of service accounts are looked for in `volume_context` only.
    TokensOfContextOnly = "hostpath/tokens-of-context-only";
    /// Tokens of service accounts are looked for in secrets only, where kubelets up to 1.34 do not put them.
    TokensOfSecretsOnly = "hostpath/tokens-of-secrets-only";
    /// Keys of Kubernetes in `volume_context` are rejected, because CreateVolume has not returned them.
    RejectsKeysOfKubernetes = "hostpath/rejects-keys-of-kubernetes";
    /// Only the inline volume that was published last can be unpublished.
    RemembersLastInline = "hostpath/remembers-last-inline-volume";
    /// A driver that starts takes all mounts away.
    UnmountsAtStart = "hostpath/unmounts-at-start";
    /// NodeUnpublishVolume does nothing, and answers OK, where the volume was published before the driver started.
    ForgetsPublications = "hostpath/forgets-publications-at-start";
    /// NodeStageVolume and NodePublishVolume do nothing where the records say that it was done before, although the mount went with a reboot.
    TrustsRecords = "hostpath/trusts-its-records-after-reboot";
    /// CreateSnapshot makes all writes to its source fail.
    SnapshotBreaksWriter = "hostpath/snapshot-breaks-writer";
    /// CreateSnapshot leaves the file system of its source frozen for a while after it has returned.
    SnapshotFreezesWriter = "hostpath/snapshot-freezes-writer";
    /// CreateSnapshot leaves the file system of its source frozen for good.
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
    /// A volume that was expanded to a size is damaged when another one is expanded to it.
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
    /// A driver that starts makes all writes to the volumes fail that are in use.
    StartBreaksUsed = "hostpath/start-breaks-volumes-in-use";
    /// CreateSnapshot changes bytes of its source, as where the mapping of blocks is wrong from then on.
    SnapshotDamagesSource = "hostpath/snapshot-damages-source";
    /// A repeated CreateSnapshot freezes the file system before it notices that there is nothing to do.
    RepeatedSnapshotFreezes = "hostpath/repeated-snapshot-freezes-writer";
    /// A repeated CreateSnapshot takes the snapshot anew.
    RepeatedSnapshotCutsAnew = "hostpath/repeated-snapshot-cuts-anew";
    /// Two snapshots that are taken at the same time make writes to their source fail.
    OverlappingSnapshotsBreakWriter = "hostpath/overlapping-snapshots-break-writer";
    /// Two snapshots of one volume put a barrier before its writers, and the first one to end lifts that of the second one, which then holds
    /// writes of several moments.
    OverlappingSnapshotLiftsBarrier = "hostpath/overlapping-snapshot-lifts-barrier";
    /// One of two snapshots that are taken at the same time holds the other's volume.
    OverlappingSnapshotsMixUp = "hostpath/overlapping-snapshots-mix-up-volumes";
    /// CreateSnapshot during an expansion makes writes to the volume fail.
    SnapshotBesideExpansionBreaks = "hostpath/snapshot-beside-expansion-breaks-writer";
    /// CreateSnapshot leaves the file system frozen if its caller gives up.
    GivenUpSnapshotStaysFrozen = "hostpath/given-up-snapshot-stays-frozen";
    /// CreateSnapshot makes writes to the volume fail if its caller gives up.
    GivenUpSnapshotBreaks = "hostpath/given-up-snapshot-breaks-writer";
    /// The empty rest of a snapshot that its caller gave up is taken for the snapshot.
    GivenUpSnapshotIsTaken = "hostpath/given-up-snapshot-is-taken-for-whole";
    /// A snapshot that is taken while another one is deleted is empty.
    SnapshotBesideDeletionIsEmpty = "hostpath/snapshot-beside-deletion-is-empty";
    /// DeleteSnapshot puts its source back to what the snapshot holds, as where the two are merged the wrong way.
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
    /// A clone holds its source as it was when it was staged, as where what was written is not flushed.
    ClonesMissUse = "hostpath/clones-miss-use";
    /// A repeated CreateVolume with a source makes writes to the source fail.
    RepeatedCloneBreaks = "hostpath/repeated-clone-breaks-source";
    /// A clone that is made while a snapshot is taken leaves the file system of their source frozen.
    CloneBesideSnapshotFreezes = "hostpath/clone-beside-snapshot-freezes-source";
    /// A clone that is made while a snapshot is taken is empty.
    CloneBesideSnapshotIsEmpty = "hostpath/clone-beside-snapshot-is-empty";
    /// A clone that its caller gives up makes writes to its source fail.
    GivenUpCloneBreaks = "hostpath/given-up-clone-breaks-source";
    /// A copy that was not used yet is damaged when its source is deleted, as where both share blocks that are freed.
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
    /// The new part of an expanded volume is initialised in the background, over what a pod has written to it.
    NewPartInitialisedLate = "hostpath/new-part-is-initialised-late";
    /// Two volumes that are expanded to one size have blocks of their new parts in common.
    NewPartsCollide = "hostpath/new-parts-of-one-size-collide";
    /// The file system of an expanded volume is larger than its device.
    FileSystemLargerThanDevice = "hostpath/file-system-is-larger-than-device";
    /// NodeExpandVolume makes writes to the volume fail.
    NodeExpansionBreaks = "hostpath/node-expansion-breaks-writer";
    /// A repeated NodeExpandVolume leaves the file system frozen for a while.
    RepeatedNodeExpansionFreezes = "hostpath/repeated-node-expansion-freezes-writer";
    /// ControllerModifyVolume leaves the file system frozen for a while.
    ModificationFreezes = "hostpath/modification-freezes-writer";
    /// ControllerModifyVolume loses what was written, as where a volume is moved without it.
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
    /// A driver that starts empties the volumes that are in use.
    StartEmptiesUsed = "hostpath/start-empties-volumes-in-use";
    /// A driver that was killed while it took a snapshot makes all writes to the source fail when it starts.
    StartBreaksSnapshotSource = "hostpath/start-breaks-source-of-unfinished-snapshot";
    /// A driver that was killed while it took a snapshot leaves the file system of the source frozen.
    StartLeavesFrozen = "hostpath/start-leaves-source-frozen";
    /// A driver that was killed while it took a snapshot takes its empty rest for the snapshot.
    StartTakesHalfSnapshot = "hostpath/start-takes-half-a-snapshot-for-whole";
    /// A driver that was killed while it made a copy takes its empty rest for the copy.
    StartTakesHalfCopy = "hostpath/start-takes-half-a-copy-for-whole";
    /// CreateSnapshot freezes the file system of its source while it works, and nothing but its own process lifts that.
    StoppedSnapshotHoldsWriter = "hostpath/stopped-snapshot-holds-writer";
    /// CreateSnapshot makes all writes to its source fail if the driver stood still during the call.
    LateSnapshotBreaks = "hostpath/late-snapshot-breaks-writer";
    /// A snapshot is empty if the driver stood still during the call, as where a deadline takes its data back.
    LateSnapshotIsEmpty = "hostpath/late-snapshot-is-empty";
    /// A clone whose caller gave up while the driver stood still is pending for ever.
    LateCloneStaysPending = "hostpath/late-clone-stays-pending";
    /// A CreateSnapshot that fails leaves the file system of its source frozen for a while.
    FailedSnapshotStaysFrozen = "hostpath/failed-snapshot-stays-frozen";
    /// A CreateSnapshot that fails makes all writes to its source fail.
    FailedSnapshotBreaks = "hostpath/failed-snapshot-breaks-writer";
    /// The empty rest of a CreateSnapshot that failed is taken for the snapshot by the next one.
    FailedSnapshotIsTaken = "hostpath/failed-snapshot-is-taken-for-whole";
    /// A CreateVolume from a volume that fails makes all writes to that volume fail.
    FailedCloneBreaks = "hostpath/failed-clone-breaks-source";
    /// A ControllerExpandVolume that fails makes all writes to the volume fail.
    FailedExpansionBreaks = "hostpath/failed-expansion-breaks-writer";
    /// ControllerPublishVolume for another node makes writes on the node fail that has the volume.
    AttachElsewhereBreaks = "hostpath/attach-elsewhere-breaks-writer";
    /// ControllerUnpublishVolume for a node without the volume makes writes on the node fail that has it.
    DetachElsewhereBreaks = "hostpath/detach-elsewhere-breaks-writer";
    /// ControllerUnpublishVolume is pending for ever for a node that had the volume, once another node has it.
    LateDetachStaysPending = "hostpath/late-detach-stays-pending";
    /// ControllerUnpublishVolume for a node that had the volume empties it on the node that has it now.
    LateDetachWipes = "hostpath/late-detach-wipes";
    /// After a ControllerUnpublishVolume that its caller gave up, no other node gets the volume.
    GivenUpDetachKeepsVolume = "hostpath/given-up-detach-keeps-volume";
    /// ControllerUnpublishVolume for a node that has not unpublished the volume empties it.
    ForcedDetachEmpties = "hostpath/forced-detach-empties";
    /// ControllerUnpublishVolume for a node that has not unpublished the volume answers that it is pending, for ever.
    ForcedDetachStaysPending = "hostpath/forced-detach-stays-pending";
    /// ControllerUnpublishVolume for a node whose workload still writes damages the volume, as where a cache is dropped.
    ForcedDetachDamages = "hostpath/forced-detach-damages-what-is-written";
    /// ControllerUnpublishVolume for a node that has not unpublished the volume detaches it from all nodes.
    ForcedDetachDetachesAll = "hostpath/forced-detach-detaches-all-nodes";
    /// ControllerUnpublishVolume for a node that has not unpublished the volume makes writes of another node fail that has it as well.
    ForcedDetachBreaksOther = "hostpath/forced-detach-breaks-other-node";
    /// A volume for SINGLE_NODE_SINGLE_WRITER is kept to its node after ControllerUnpublishVolume if that has not unpublished it.
    SingleWriterOutlivesDetach = "hostpath/single-writer-outlives-detach";
    /// A ControllerUnpublishVolume that fails for a node which has not unpublished the volume is taken for done by the next one.
    FailedDetachIsDone = "hostpath/failed-detach-is-taken-for-done";
    /// A ControllerUnpublishVolume that fails for a node which has not unpublished the volume empties it.
    FailedDetachEmpties = "hostpath/failed-detach-empties";
    /// ControllerPublishVolume for a node that was rejected while another node had the volume stays rejected.
    RejectedAttachStays = "hostpath/rejected-attach-stays-rejected";
    /// ControllerPublishVolume for a node that was rejected while another node had the volume empties it.
    WaitingAttachEmpties = "hostpath/waiting-attach-empties";
    /// NodeUnpublishVolume on a node that the volume has left unmounts it at the targets of its new node.
    LateUnpublishUnmounts = "hostpath/late-unpublish-unmounts-elsewhere";
    /// NodeUnpublishVolume fails on a node from which the volume was detached.
    LateUnpublishNeedsAttachment = "hostpath/late-unpublish-needs-attachment";
    /// NodeUnstageVolume on a node that the volume has left makes all writes on its new node fail.
    LateUnstagingBreaks = "hostpath/late-unstaging-breaks-writer";
    /// NodeUnstageVolume on a node that the volume has left empties it.
    LateUnstagingEmpties = "hostpath/late-unstaging-empties";
    /// NodeUnstageVolume fails on a node from which the volume was detached.
    LateUnstagingNeedsAttachment = "hostpath/late-unstaging-needs-attachment";
    /// After the driver was killed during ControllerUnpublishVolume, that call is pending for ever.
    StartKeepsHalfDetach = "hostpath/start-keeps-half-a-detach";
    /// A driver that was killed during ControllerUnpublishVolume makes the volume anew when it is attached next.
    StartEmptiesHalfDetached = "hostpath/start-empties-half-detached-volume";
    /// After the driver was killed during ControllerPublishVolume, that call is pending for ever.
    StartKeepsHalfAttach = "hostpath/start-keeps-half-an-attach";
    /// A driver that was killed during ControllerPublishVolume makes the volume anew when it is attached next.
    StartEmptiesHalfAttached = "hostpath/start-empties-half-attached-volume";
    /// A driver that was killed during NodePublishVolume empties the volume when it is published next.
    StartEmptiesHalfPublished = "hostpath/start-empties-half-published-volume";
    /// After the driver was killed during NodeStageVolume, it rejects that call as one in progress.
    StartKeepsHalfStaging = "hostpath/start-keeps-half-a-staging";
    /// After the driver was killed during NodeUnstageVolume, it rejects that call as one in progress.
    StartKeepsHalfUnstaging = "hostpath/start-keeps-half-an-unstaging";
    /// A volume that was staged when its node was started again is formatted by the next NodeStageVolume.
    RebootFormatsAnew = "hostpath/reboot-formats-anew";
    /// NodeStageVolume fails for a volume that was staged when its node was started again.
    RebootRejectsStaging = "hostpath/reboot-rejects-staging";
    /// NodeStageVolume fails for a volume that was staged when its node was started again, until its old loop device is there.
    RebootNeedsOldDevice = "hostpath/reboot-needs-old-device";
    /// NodeStageVolume formats a volume that was staged when its node was started again, if its record below /run is gone.
    RebootNeedsRecord = "hostpath/reboot-needs-record-in-memory";
    /// The second node of a block volume for several writers gets an empty device.
    SecondNodeGetsEmptyDevice = "hostpath/second-node-gets-empty-device";
    /// No health of a volume is looked at: none ever has a problem.
    HealthMissesReadOnly = "hostpath/health-misses-read-only";
    /// The condition of a volume is abnormal once it was asked for twice, as where each question counts as an event.
    HealthReportsUse = "hostpath/health-reports-use-as-problem";
    /// NodeGetVolumeHealth makes all writes to the volume fail.
    HealthQuestionBreaks = "hostpath/health-question-breaks-writer";
    /// CreateSnapshot fails while the volume is written to, as where it is copied with tar. A driver may do this.
    SnapshotsNeedQuiet = "hostpath/snapshots-need-quiet-volume";
    /// The SELinux context in `mount_flags` is left out.
    DropsContext = "hostpath/drops-selinux-context";
    /// The SELinux context in `mount_flags` ends at its comma.
    SplitsContext = "hostpath/splits-selinux-context";
    /// The SELinux context in `mount_flags` gets quotes around those that it has.
    QuotesContext = "hostpath/quotes-selinux-context";
    /// `mount_flags` with an SELinux context are rejected.
    RejectsContext = "hostpath/rejects-selinux-context";
    /// `mount_flags` with an SELinux context are rejected for volumes that more than one pod may use, which have none up to Kubernetes 1.36.
    RejectsContextOfShared = "hostpath/rejects-selinux-context-of-shared-volumes";
    /// Every volume is mounted with the SELinux context of the first one, as where they share a superblock.
    SharesContext = "hostpath/shares-selinux-context";
    /// The next version lists only the volumes that it has made itself.
    UpgradeListsNewOnly = "hostpath/upgrade-lists-new-volumes-only";
    /// The next version has other ids for the volumes of the version before.
    UpgradeChangesIds = "hostpath/upgrade-changes-volume-ids";
    /// The next version does not find the snapshots of the version before.
    UpgradeLosesSnapshots = "hostpath/upgrade-loses-snapshots";
    /// The next version deletes all volumes at its first start that are not attached, since it has not made them.
    UpgradeDeletesUnknown = "hostpath/upgrade-deletes-unknown-volumes";
    /// The next version rounds the sizes of the volumes of the version before to whole GiB.
    UpgradeRoundsSizes = "hostpath/upgrade-rounds-sizes-anew";
    /// The next version does not start where the version before has stored something.
    UpgradeDoesNotStart = "hostpath/upgrade-does-not-start";
    /// The next version keeps names in another way, and makes a volume again that the version before has made.
    UpgradeForgetsNames = "hostpath/upgrade-forgets-names";
    /// The next version has another publish_context for the attachments of the version before.
    UpgradeRenamesAttachments = "hostpath/upgrade-renames-attachments";
    /// The next version has another volume_context for the volumes of the version before.
    UpgradeChangesContexts = "hostpath/upgrade-changes-contexts";
    /// NodeUnpublishVolume of the next version does nothing for what the version before has published.
    UpgradeForgetsPublications = "hostpath/upgrade-forgets-publications";
    /// NodeUnstageVolume of the next version does nothing for what the version before has staged.
    UpgradeForgetsStagings = "hostpath/upgrade-forgets-stagings";
    /// ControllerUnpublishVolume of the next version does nothing for what the version before has attached.
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
    /// The next version makes volumes of twice the size.
    UpgradeMakesLarger = "hostpath/upgrade-makes-larger-volumes";
    /// The next version does not advertise CLONE_VOLUME any more.
    UpgradeDropsClones = "hostpath/upgrade-drops-clones";
    /// If the next version is killed while it converts the state of the version before, it starts with an empty one.
    UpgradeLosesHalfMigrated = "hostpath/upgrade-migration-is-not-crash-safe";
    /// If the next version is killed while it starts, it never starts again, since it takes itself for another process.
    UpgradeStartsOnce = "hostpath/upgrade-starts-once";
    /// If the next version finds that the version before still runs, it deletes all volumes when it is started again.
    UpgradeDeletesBeside = "hostpath/upgrade-deletes-beside-old-version";
    /// A node plugin of the version before does not publish volumes that the controller of the next version has made.
    UpgradeNeedsNewNodes = "hostpath/upgrade-needs-new-nodes";
    /// A volume that the controller of the next version has made is empty when a node plugin of the version before publishes it.
    UpgradeEmptiesOnOldNodes = "hostpath/upgrade-empties-on-old-nodes";
    /// After a downgrade, the version before begins with an empty state, since it does not know the format of the next one.
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
