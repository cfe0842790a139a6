//! What the driver can do wrong.

macro_rules! defects {
    ($($(#[doc = $doc:literal])+ $variant:ident = $id:literal;)+) => {
        /// What the driver does wrong, with OK for an answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Defect {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Defect {
            /// All there are.
            pub const ALL: &'static [Defect] = &[$(Defect::$variant,)+];

            /// Its name in tests and documents.
            pub fn id(self) -> &'static str {
                match self { $(Defect::$variant => $id,)+ }
            }

            /// What the driver does, as a sentence.
            pub fn description(self) -> &'static str {
                match self { $(Defect::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

defects! {
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
    /// A volume made from a snapshot or a volume cannot be staged while another one is, as where a copy cannot be told from its
    /// source.
    RefusesCopiesBesideSource = "hostpath/refuses-copies-beside-source";
    /// A volume made larger from a snapshot has the size of the snapshot.
    RestoresNoLarger = "hostpath/restores-no-larger";
    /// The members of a group snapshot are told to be of each other's volumes.
    MixesUpMembers = "hostpath/mixes-up-members";
    /// When a volume is unpublished, each of its files loses its last byte.
    LosesLastByte = "hostpath/loses-last-byte";
    /// When a volume is unpublished, its files are cut at 4 MiB.
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
    /// Volumes that were asked for for writing are mounted for reading only when they are published once more.
    MountsForReadingOnly = "hostpath/mounts-for-reading-only";
    /// Of `mount_flags` only the first is looked at.
    TakesFirstFlagOnly = "hostpath/takes-first-flag-only";
    /// NodeGetVolumeStats measures the file system that the driver's own directory is on.
    StatsOfTheHost = "hostpath/stats-of-the-host";
    /// NodeGetVolumeStats tells twice the size.
    StatsDoubled = "hostpath/stats-doubled";
    /// DeleteVolume does nothing where a volume of the same name was deleted before.
    DeletesNameOnce = "hostpath/deletes-a-name-once";
}
