//! Behaviour that the specification permits although few drivers show it.

use crate::named::named;

macro_rules! quirks {
    ($($variant:ident, $id:literal, $description:literal, $permitted_by:literal;)*) => {
        named! {
            /// A legal but unusual behaviour. A checker that reports one as a violation is wrong.
            Quirk, "quirk";
            $($variant, $id, $description;)*
        }

        impl Quirk {
            /// The requirement that permits the behaviour.
            pub fn permitted_by(self) -> &'static str {
                match self { $(Quirk::$variant => $permitted_by,)* }
            }
        }
    };
}

quirks! {
    // The services of the endpoint.
    ControllerOnly, "controller-only", "only Identity and controller services, no Node service", "OPS-MODE-001";
    NodeOnly, "node-only", "only Identity and Node; volumes come from the configuration", "OPS-MODE-001";
    BlockOnly, "block-only", "volumes are block devices, mount access is rejected", "CTRL-CREATEVOL-021";
    MountOnly, "mount-only", "volumes are mounted, block access is rejected", "CTRL-CREATEVOL-021";
    NoStaging, "no-staging", "STAGE_UNSTAGE_VOLUME is not advertised", "GEN-LIFE-004";
    NoPluginCapabilities, "no-plugin-capabilities", "GetPluginCapabilities returns an empty list", "ID-PCAPS-003";
    ProbeReadyUnset, "probe-ready-unset", "Probe leaves ready unset", "ID-PROBE-009";
    FutureCapability, "future-capability", "capabilities of a later release are advertised too", "CTRL-VALIDATE-005";

    // Names, ids, parameters, contexts, secrets.
    IdsFromNames, "ids-from-names", "ids are derived from names, so a name that is used again has its former id", "CTRL-CREATEVOL-013";
    ForeignIdsRefused, "foreign-ids-refused", "ids in a format that is not the driver's are INVALID_ARGUMENT", "GEN-ERR-005";
    LongNamesAccepted, "long-names-accepted", "names longer than 128 bytes are accepted", "GEN-SIZE-005";
    EchoesRequests, "echoes-requests", "names, parameters and file system types of any length are accepted; they are returned as ids and in volume_context", "GEN-SIZE-005";
    ParametersDemanded, "parameters-demanded", "CreateVolume demands the parameter pool=mock", "GEN-ERR-004";
    UnknownParametersIgnored, "unknown-parameters-ignored", "unknown parameters are stored and otherwise ignored", "CTRL-CREATEVOL-023";
    SecretsDemanded, "secrets-demanded", "RPCs with secrets demand password=mock", "GEN-SECRET-003";
    VolumeContextDemanded, "volume-context-demanded", "calls with a volume_context field need the volume_context of the volume", "MSG-VOLUME-006";
    PublishContextDemanded, "publish-context-demanded", "node calls need the publish_context", "CTRL-PUBLISH-016";
    VolumeContextEmpty, "volume-context-empty", "volumes and attachments have no context", "MSG-VOLUME-006";

    // Sizes.
    SizeGranule, "size-granule", "sizes are rounded up to whole GiB", "CTRL-CREATEVOL-018";
    ExactSizesRefused, "exact-sizes-refused", "exact sizes that are not a multiple of 4 MiB are rejected", "MSG-CAPRANGE-002";
    MinimumSize, "minimum-size", "no volume is smaller than 1 GiB", "CTRL-CAPACITY-010";
    SmallSizesRefused, "small-sizes-refused", "a size below 1 GiB is OUT_OF_RANGE instead of being rounded up", "CTRL-CREATEVOL-047";
    CapacityUnknown, "capacity-unknown", "the size of volumes is reported as 0, and an expansion repeats the size that was requested", "MSG-VOLUME-001";
    ListedCapacityUnknown, "listed-capacity-unknown", "the size of volumes is reported as 0 in lists alone", "MSG-VOLUME-001";
    SnapshotSizeUnknown, "snapshot-size-unknown", "the size of snapshots is reported as 0", "MSG-SNAPSHOT-002";
    NoSizeLimits, "no-size-limits", "neither a minimum nor a maximum volume size is reported", "CTRL-CAPACITY-008";
    ExpandsOnlineOnly, "expands-online-only", "only a volume that is published on a node can be expanded; OFFLINE is not advertised", "ID-PCAPS-012";
    LargerCopiesRefused, "larger-copies-refused", "a copy cannot be larger than its source", "CTRL-CREATEVOL-008";
    NodeExpandUnknownSize, "node-expand-unknown-size", "NodeExpandVolume reports 0 bytes", "NODE-EXPAND-019";

    // Time.
    CreationTimesVague, "creation-times-vague", "the creation time of a snapshot has different fractions of a second in each reply", "MSG-SNAPSHOT-007";
    SnapshotsReadyAfterPolls, "snapshots-ready-after-polls", "a snapshot is ready after it was requested three times", "CTRL-CREATESNAP-009";
    SnapshotsReadyAfterTime, "snapshots-ready-after-time", "a snapshot is ready after half a second", "CTRL-CREATESNAP-009";
    BackgroundDeletion, "background-deletion", "a deleted volume is still listed, or reported as a busy source, three times", "CTRL-LISTVOL-003";
    ModificationsLimited, "modifications-limited", "a volume can be modified once, then RESOURCE_EXHAUSTED", "CTRL-MODIFYVOL-003";

    ThrottlesEveryFifthCall, "throttles-every-fifth-call", "every fifth call is UNAVAILABLE and does nothing", "GEN-ERR-003";
    SlowStart, "slow-start", "no call is answered for some time after a start; the default of --start-delay is twelve seconds", "GEN-TIMEOUT-001";
    SlowCalls, "slow-calls", "every call takes longer; the default of --call-delay is a tenth of a second", "GEN-TIMEOUT-001";

    // Lists.
    ListsLag, "lists-lag", "a new volume or snapshot appears in lists after some time; the default of --list-lag is five seconds", "CTRL-LISTVOL-003";
    CountingTokens, "counting-tokens", "a page token counts entries, so the next page skips an entry if another one was deleted in between", "CTRL-LISTVOL-003";
    StartAfterTokens, "start-after-tokens", "a page token is the id after which the page starts, so every string is valid", "CTRL-LISTVOL-022";
    SmallPages, "small-pages", "no page has more than two entries", "CTRL-LISTVOL-007";
    SurplusPublishedNodes, "surplus-published-nodes", "published_node_ids names a node that is not attached", "CTRL-LISTVOL-014";
    ContentSourceLeftOut, "content-source-left-out", "the reply has no content source", "MSG-VOLUME-013";
    ConfirmedWithoutMaps, "confirmed-without-maps", "confirmed has only capabilities", "CTRL-VALIDATE-011";

    // Topology.
    TopologyEverywhere, "topology-everywhere", "every volume is reachable from everywhere, with an empty accessible_topology", "MSG-VOLUME-015";
    NodeTopologyLeftOut, "node-topology-left-out", "neither the node nor the volumes have a topology", "NODE-INFO-014";

    // Unknown and dependent objects.
    ControllerUnpublishUnknownNotFound, "controller-unpublish-unknown-not-found", "ControllerUnpublishVolume of an unknown volume or node is NOT_FOUND", "CTRL-UNPUBLISH-015";
    NodeUnstageUnknownOk, "node-unstage-unknown-ok", "NodeUnstageVolume of an unknown volume is OK", "NODE-UNSTAGE-006";
    NodeUnpublishUnknownOk, "node-unpublish-unknown-ok", "NodeUnpublishVolume of an unknown volume is OK", "NODE-UNPUBLISH-006";
    StatelessNode, "stateless-node", "the Node service ignores volume_id: it measures, expands and unmounts what it finds at the path", "NODE-STATS-017";
    SnapshotsBlockDeletion, "snapshots-block-deletion", "a volume with snapshots cannot be deleted", "CTRL-DELETEVOL-007";
    CopiesPinSnapshots, "copies-pin-snapshots", "a snapshot cannot be deleted while volumes made from it exist", "CTRL-DELETESNAP-012";
    VolumeInUseDeletable, "volume-in-use-deletable", "a volume in use is detached and deleted", "CTRL-DELETEVOL-011";
    GroupMembersDeletable, "group-members-deletable", "a member of a group snapshot can be deleted alone", "CTRL-DELETESNAP-006";

    // Nodes and streams.
    GivenUpUnstagingLate, "given-up-unstaging-late", "a NodeUnstageVolume that its caller gives up before it begins is carried out up to 10 ms later", "GEN-TIMEOUT-003";
    UsageEmpty, "usage-empty", "NodeGetVolumeStats reports no usage if it reports the condition", "NODE-STATS-013";
    ReadOnlyAlways, "read-only-always", "every volume is published read-only, so that readonly makes no difference", "NODE-PUBLISH-004";
    OneNewWriterMode, "one-new-writer-mode", "of the newer single-node modes only SINGLE_NODE_SINGLE_WRITER is supported", "CTRL-CAPS-012";
    VariableLengthMetadata, "variable-length-metadata", "block metadata are ranges of different lengths", "META-FORMAT-005";
    EmptyMetadataMessages, "empty-metadata-messages", "streams of block metadata contain messages without tuples", "META-ALLOC-015";
    FewerMetadataThanAsked, "fewer-metadata-than-asked", "no message carries more than three tuples", "META-ALLOC-007";
    DeltasOfWholeVolumes, "deltas-of-whole-volumes", "GetMetadataDelta lists unchanged blocks as well", "META-DELTA-002";
    ChangeTrackingOff, "change-tracking-off", "GetMetadataDelta is FAILED_PRECONDITION", "META-DELTA-021";

    // Pools.
    NoDefaultPool, "no-default-pool", "only parameters name a pool, so GetCapacity without them is FAILED_PRECONDITION", "CTRL-CAPACITY-011";

    // Access types.
    NodeExpandTakesDevicesForMounts, "node-expand-takes-devices-for-mounts", "without volume_capability, NodeExpandVolume of a device looks for a file system on it and is INTERNAL", "NODE-EXPAND-018";

    // The process of the driver.
    HeapCollectedInWaves, "heap-collected-in-waves", "each call uses 64 KiB of memory, which are released together once they reach 24 MiB, as a garbage collector does", "OPS-MODE-009";
}
