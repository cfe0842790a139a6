//! Violations of the specification that can be switched on, each at one place in the code.

use crate::hold::{HoldPoint, HoldStage};
use crate::named::named;
use crate::option_value::RpcName;

// Each defect has a line here, in the group of its RPC, and one place where it acts: in `defects/` if it changes
// requests or replies, and in the handler if it changes the effect on the state.
named! {
    /// A named violation of the specification.
    Defect, "defect";
    // All RPCs.
    ExpandVolumeNotAdvertised, "expand-volume-not-advertised", "neither the controller nor the node advertises EXPAND_VOLUME although ONLINE or OFFLINE expansion is advertised";
    InvalidArgumentAsInternal, "invalid-argument-as-internal", "calls that should fail with INVALID_ARGUMENT fail with INTERNAL";
    InvalidArgumentAsOk, "invalid-argument-as-ok", "calls that should fail with INVALID_ARGUMENT return OK with an empty reply and do nothing";
    InvalidArgumentAsUnknown, "invalid-argument-as-unknown", "calls that should fail with INVALID_ARGUMENT fail with UNKNOWN";
    LockCoversAllObjects, "lock-covers-all-objects", "while an operation on one object runs, operations on all other objects are rejected";
    LockNeverReleasedAfterError, "lock-never-released-after-error", "after an error the object stays busy forever";
    NotFoundAsInternal, "not-found-as-internal", "calls that should fail with NOT_FOUND fail with INTERNAL";
    NodeNotFoundAsInvalidArgument, "node-not-found-as-invalid-argument", "calls to the Node service that should fail with NOT_FOUND fail with INVALID_ARGUMENT";
    PrintsSecrets, "prints-secrets", "the secrets of each request are printed";
    MountFlagsInErrors, "mount-flags-in-errors", "errors quote the mount_flags of the request";
    EndsOfSecretsInErrors, "ends-of-secrets-in-errors", "error messages show the last 12 bytes of the secrets of the request";
    SecretsInErrors, "secrets-in-errors", "error messages show the secrets of the request";
    StatusCodeNotCanonical, "status-code-not-canonical", "errors have the code 42, which gRPC does not define";
    StatusDetailsSet, "status-details-set", "errors carry status details";
    StatusMessageEmpty, "status-message-empty", "errors carry no text";
    UnsupportedAsInternal, "unsupported-as-internal", "RPCs that are not supported answer INTERNAL";

    // Calls that overlap, are abandoned by their caller, or are interrupted by the end of the driver.
    ControllerPublishForgetsReadonly, "controller-publish-forgets-readonly", "a repeated request makes a readonly attachment writable";
    ControllerPublishRepeatTooEarly, "controller-publish-repeat-too-early", "if a caller gives up ControllerPublishVolume and repeats it, OK is answered before the volume can be staged";
    CreateVolumeCountsOverlapsTwice, "create-volume-counts-overlaps-twice", "the storage of a volume counts twice if another one was made at the same time";
    CreateVolumeDoublesAfterTimeout, "create-volume-doubles-after-timeout", "a call that its caller gives up leaves a volume without a name, and the repeated call creates another one";
    CreateVolumeKeepsCopyOfDeleted, "create-volume-keeps-copy-of-deleted", "if the snapshot is deleted while it is copied, the call returns NOT_FOUND but creates the volume";
    CreateVolumeLeaksAfterTimeout, "create-volume-leaks-after-timeout", "a call that its caller gives up uses storage for a volume without a name that is not listed";
    CreateVolumeLosesUpdates, "create-volume-loses-updates", "changes that other calls make while a volume is created are lost";
    CreateVolumeRevivesDeleted, "create-volume-revives-deleted", "if a volume is deleted while its CreateVolume is repeated, it stays in the list forever";
    EndsWithFirstConnection, "ends-with-first-connection", "the driver serves only its first connection";
    KeepsNothing, "keeps-nothing", "the driver keeps everything in memory and forgets it when it ends";
    ListVolumesCrashesOnOverlap, "list-volumes-crashes-on-overlap", "the driver ends if volumes are listed while one is created";
    LockKeptAfterCancel, "lock-kept-after-cancel", "a call that its caller gives up keeps its object busy forever";
    LockOwnedByConnection, "lock-owned-by-connection", "if a caller gives up a call or its connection breaks, the object stays busy for all other connections";
    NodeUnstageGoesOn, "node-unstage-goes-on", "NodeUnstageVolume continues after its caller has given up, and removes a newer staging";
    NodePublishForgetsReadonly, "node-publish-forgets-readonly", "a repeated request makes a readonly publication writable";
    ProbeFailsAfterStart, "probe-fails-after-start", "the first Probe calls after a start fail with INTERNAL";
    RestartForgetsLastWrite, "restart-forgets-last-write", "after a restart the last change is lost, although it was answered with OK";
    RestartForgetsNames, "restart-forgets-names", "after a restart the names of volumes are forgotten, so repeated requests create new volumes";
    RestartForgetsPublished, "restart-forgets-published", "a volume that was published before a restart cannot be unpublished after it";
    RestartForgetsStaged, "restart-forgets-staged", "a volume that was staged before a restart cannot be staged again after it";
    RestartRefusesPublished, "restart-refuses-published", "a volume that was published before a restart cannot be published there again after it";
    RestartRefusesUnstaging, "restart-refuses-unstaging", "a volume that was staged before a restart cannot be unstaged after it";
    RestartTakesTruncatedForEmpty, "restart-takes-truncated-for-empty", "the state file is overwritten in place, and a driver that was killed while writing it starts with an empty state";
    SavesAfterAnswer, "saves-after-answer", "a change is answered with OK some time before it is saved";
    SecondStartDeletesVolumes, "second-start-deletes-volumes", "a driver that is started while another one runs treats its volumes as leftovers and deletes them";

    RestartChangesNodeId, "restart-changes-node-id", "after a restart the node has another id";
    RestartDatesSnapshotsAnew, "restart-dates-snapshots-anew", "after a restart the creation time of snapshots is the start time of the driver";
    RestartForgetsNodeTopology, "restart-forgets-node-topology", "after a restart NodeGetInfo has no topology";
    RestartForgetsSizes, "restart-forgets-sizes", "after a restart all volumes have a size of 0";
    RestartForgetsSnapshotSizes, "restart-forgets-snapshot-sizes", "after a restart all snapshots have a size of 0";
    RestartForgetsSources, "restart-forgets-sources", "after a restart the content sources of volumes are forgotten";
    RestartShiftsCreationTimes, "restart-shifts-creation-times", "after a restart the creation times of snapshots are an hour later";

    // Effects of rejected calls, and of calls in an unusual order.
    ControllerExpandRefusalBlocks, "controller-expand-refusal-blocks", "after a rejected expansion the volume stays busy forever";
    ControllerExpandRefusalGrows, "controller-expand-refusal-grows", "a rejected expansion is recorded as done";
    ControllerModifyRefusalBlocks, "controller-modify-refusal-blocks", "after a rejected modification the volume stays busy forever";
    ControllerPublishRefusalAttaches, "controller-publish-refusal-attaches", "a rejected ControllerPublishVolume attaches the volume";
    ControllerPublishRefusalDetachesOthers, "controller-publish-refusal-detaches-others", "when the attachment of a volume is rejected, all others are detached";
    CreateGroupSnapshotRefusalTakesName, "create-group-snapshot-refusal-takes-name", "the name of a rejected group snapshot stays busy forever";
    CreateSnapshotRefusalMakesSnapshot, "create-snapshot-refusal-makes-snapshot", "a rejected CreateSnapshot creates a snapshot without a name";
    CreateSnapshotRefusalTakesName, "create-snapshot-refusal-takes-name", "the name of a rejected snapshot stays busy forever";
    CreateVolumeRefusalKeepsVolume, "create-volume-refusal-keeps-volume", "a rejected CreateVolume creates the volume under its name";
    CreateVolumeRefusalMakesVolume, "create-volume-refusal-makes-volume", "a rejected CreateVolume creates a volume without a name";
    CreateVolumeRefusalTakesName, "create-volume-refusal-takes-name", "the name of a rejected volume stays busy forever";
    DeleteVolumeRefusalBlocks, "delete-volume-refusal-blocks", "after a rejected deletion the volume stays busy forever";
    ListSnapshotsFailsBehindDeleted, "list-snapshots-fails-behind-deleted", "a token fails with INTERNAL after all snapshots on its page were deleted";
    ListVolumesFailsBehindDeleted, "list-volumes-fails-behind-deleted", "a token fails with INTERNAL after all volumes on its page were deleted";
    NodeExpandRefusalBlocks, "node-expand-refusal-blocks", "after a rejected expansion the volume stays busy on the node forever";
    NodePublishRefusalPublishes, "node-publish-refusal-publishes", "a rejected publication is recorded as done";
    NodePublishRefusalUnpublishesOthers, "node-publish-refusal-unpublishes-others", "when a publication is rejected, the other volumes of the node are forgotten";
    NodeStageRefusalStages, "node-stage-refusal-stages", "a rejected staging is recorded as done";
    NodeStageRefusalUnstagesOthers, "node-stage-refusal-unstages-others", "when a staging is rejected, the other volumes of the node are recorded as unstaged";
    NodeUnpublishRefusalUnpublishes, "node-unpublish-refusal-unpublishes", "a rejected NodeUnpublishVolume forgets all target paths of the volume";
    NodeUnstageNeedsAttachment, "node-unstage-needs-attachment", "a volume that was detached before it was unstaged can never be unstaged";
    NodeUnstageRefusalBlocks, "node-unstage-refusal-blocks", "after a rejected unstaging the volume stays busy on the node forever";

    // Resources that calls do not release.
    ConnectionKeepsFile, "connection-keeps-file", "each connection leaves a file open";
    ControllerExpandLeavesFile, "controller-expand-leaves-file", "each expansion leaves a file next to the driver's state";
    ControllerPublishKeepsSocket, "controller-publish-keeps-socket", "each volume that is attached leaves a socket open";
    ControllerPublishRefusalKeepsSocket, "controller-publish-refusal-keeps-socket", "each ControllerPublishVolume that is rejected leaves a socket open";
    CreateGroupSnapshotKeepsMemory, "create-group-snapshot-keeps-memory", "each group snapshot uses memory that is not released";
    CreateSnapshotKeepsThread, "create-snapshot-keeps-thread", "some snapshots leave a thread";
    CreateSnapshotRefusalKeepsThread, "create-snapshot-refusal-keeps-thread", "some rejected CreateSnapshot calls leave a thread";
    CreateVolumeFromVolumeLeavesFile, "create-volume-from-volume-leaves-file", "each clone leaves a file next to the driver's state";
    CreateVolumeFromSourceKeepsFile, "create-volume-from-source-keeps-file", "each copy leaves a file open";
    CreateVolumeGivenUpKeepsFile, "create-volume-given-up-keeps-file", "each CreateVolume that its caller gives up leaves a file open";
    CreateVolumeKeepsRejectedNames, "create-volume-keeps-rejected-names", "for each name of a rejected CreateVolume, a file stays open forever";
    CreateVolumeKeepsMemory, "create-volume-keeps-memory", "each volume uses memory that is not released";
    CreateVolumeRefusedCopyLeavesFile, "create-volume-refused-copy-leaves-file", "each rejected copy leaves a file next to the driver's state";
    CreateVolumeRefusalKeepsMemory, "create-volume-refusal-keeps-memory", "each rejected CreateVolume uses memory that is not released";
    DeleteVolumeKeepsFile, "delete-volume-keeps-file", "each volume that is deleted leaves a file open";
    ListVolumesKeepsMemory, "list-volumes-keeps-memory", "each ListVolumes uses memory that is not released";
    NodePublishKeepsMemory, "node-publish-keeps-memory", "each published volume uses memory that is not released";
    NodePublishRefusalKeepsFile, "node-publish-refusal-keeps-file", "each NodePublishVolume that is rejected leaves a file open";
    NodeStageKeepsChild, "node-stage-keeps-child", "some volumes that are staged leave a child process";
    NodeStageRefusalLeavesZombie, "node-stage-refusal-leaves-zombie", "some rejected NodeStageVolume calls leave a child process that has ended and was not waited for";
    NodeUnpublishLeavesZombie, "node-unpublish-leaves-zombie", "some NodeUnpublishVolume calls leave a child process that has ended and was not waited for";

    // Behaviour under load, with many volumes or after many calls.
    ControllerPublishHiddenLimit, "controller-publish-hidden-limit", "a node can have only 200 volumes, but NodeGetInfo reports no limit";
    CreateVolumeForgetsUnderLoad, "create-volume-forgets-under-load", "some volumes are forgotten if three others are created at the same time";
    CreateVolumeNamesRunOut, "create-volume-names-run-out", "once the driver has seen 5,000 names, each CreateVolume fails";
    CreateVolumeStalls, "create-volume-stalls", "every hundredth CreateVolume takes two seconds";
    ListVolumesQuadratic, "list-volumes-quadratic", "the time of ListVolumes grows with the square of the number of volumes";
    NodePublishEnds, "node-publish-ends", "after 800 calls, every NodePublishVolume fails";
    NodePublishSlowsDown, "node-publish-slows-down", "once the driver has run for eleven seconds, each NodePublishVolume takes a quarter of a second longer";
    OneLockForAllVolumes, "one-lock-for-all-volumes", "some volumes take long to stage, and calls for all other volumes wait during that time";
    RejectionsKeepMemory, "rejections-keep-memory", "each rejected call uses 1 KiB of memory that is not released";

    // GetPluginInfo.
    GetPluginInfoUnimplemented, "get-plugin-info-unimplemented", "GetPluginInfo answers UNIMPLEMENTED although it is mandatory or advertised";
    GetPluginInfoFails, "get-plugin-info-fails", "GetPluginInfo answers INTERNAL";
    GetPluginInfoManifestTooLarge, "get-plugin-info-manifest-too-large", "the manifest takes up more than 4 KiB";
    GetPluginInfoNameChanges, "get-plugin-info-name-changes", "the name differs from call to call";
    GetPluginInfoNameEmpty, "get-plugin-info-name-empty", "the name is missing";
    GetPluginInfoNameEndsInDash, "get-plugin-info-name-ends-in-dash", "the name ends in a dash";
    GetPluginInfoNameTooLong, "get-plugin-info-name-too-long", "the name has more than 63 characters";
    GetPluginInfoNameWithSlash, "get-plugin-info-name-with-slash", "the name contains a slash";
    GetPluginInfoNameWithUnderscore, "get-plugin-info-name-with-underscore", "the name contains an underscore";
    GetPluginInfoNameWithoutHost, "get-plugin-info-name-without-host", "the name is a single word without a host name";
    GetPluginInfoVersionEmpty, "get-plugin-info-version-empty", "vendor_version is missing";
    GetPluginInfoVersionTooLong, "get-plugin-info-version-too-long", "vendor_version has 129 bytes";

    // GetPluginCapabilities.
    GetPluginCapabilitiesUnimplemented, "get-plugin-capabilities-unimplemented", "GetPluginCapabilities answers UNIMPLEMENTED although it is mandatory or advertised";
    GetPluginCapabilitiesChanges, "get-plugin-capabilities-changes", "the list differs from call to call";
    GetPluginCapabilitiesEmptyEntry, "get-plugin-capabilities-empty-entry", "an entry sets no branch of the oneof";
    GetPluginCapabilitiesHidesControllerService, "get-plugin-capabilities-hides-controller-service", "CONTROLLER_SERVICE is left out although the service exists";
    GetPluginCapabilitiesHidesSnapshotTopology, "get-plugin-capabilities-hides-snapshot-topology", "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS is not advertised although snapshots have a topology";
    GetPluginCapabilitiesHidesTopology, "get-plugin-capabilities-hides-topology", "VOLUME_ACCESSIBILITY_CONSTRAINTS is left out although topologies are returned";
    GetPluginCapabilitiesUnknownExpansion, "get-plugin-capabilities-unknown-expansion", "an entry has the expansion type UNKNOWN";
    GetPluginCapabilitiesUnknownService, "get-plugin-capabilities-unknown-service", "an entry has the service type UNKNOWN";

    // Probe.
    ProbeUnimplemented, "probe-unimplemented", "Probe answers UNIMPLEMENTED although it is mandatory or advertised";
    ProbeCrashes, "probe-crashes", "Probe ends the driver";
    ProbeFails, "probe-fails", "Probe answers FAILED_PRECONDITION although all is well";
    ProbeHangs, "probe-hangs", "Probe never answers";
    ProbeNeverReady, "probe-never-ready", "ready is false forever";

    // CreateVolume.
    CreateVolumeUnimplemented, "create-volume-unimplemented", "CreateVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    CreateVolumeAcceptsAnySize, "create-volume-accepts-any-size", "sizes above the maximum are granted";
    CreateVolumeAcceptsCrossedRange, "create-volume-accepts-crossed-range", "required_bytes above limit_bytes is accepted";
    CreateVolumeAcceptsEmptyName, "create-volume-accepts-empty-name", "a missing name is accepted";
    CreateVolumeAcceptsEmptyRange, "create-volume-accepts-empty-range", "a capacity_range with both bounds zero is accepted";
    CreateVolumeAcceptsEmptySnapshotId, "create-volume-accepts-empty-snapshot-id", "a snapshot source without an id is ignored";
    CreateVolumeAcceptsEmptySource, "create-volume-accepts-empty-source", "a content source without a branch is ignored";
    CreateVolumeAcceptsEmptySourceVolumeId, "create-volume-accepts-empty-source-volume-id", "a volume source without an id is ignored";
    CreateVolumeAcceptsEmptyTopologyRequirement, "create-volume-accepts-empty-topology-requirement", "accessibility_requirements with two empty lists are accepted";
    CreateVolumeAcceptsMissingAccessMode, "create-volume-accepts-missing-access-mode", "a capability without access_mode is accepted";
    CreateVolumeAcceptsMissingAccessType, "create-volume-accepts-missing-access-type", "a capability without block and mount is accepted";
    CreateVolumeAcceptsMissingCapabilities, "create-volume-accepts-missing-capabilities", "missing volume_capabilities are accepted";
    CreateVolumeAcceptsNegativeSize, "create-volume-accepts-negative-size", "negative sizes are accepted";
    CreateVolumeAcceptsUnknownAccessMode, "create-volume-accepts-unknown-access-mode", "the access mode UNKNOWN is accepted";
    CreateVolumeAcceptsUnsupportedCapability, "create-volume-accepts-unsupported-capability", "capabilities that are not supported are accepted";
    CreateVolumeAdoptsIds, "create-volume-adopts-ids", "a name that equals the id of a volume returns that volume";
    CreateVolumeAdoptsSnapshots, "create-volume-adopts-snapshots", "a name that equals the name of a snapshot returns that snapshot as a volume";
    CreateVolumeAnswersWithoutVolume, "create-volume-answers-without-volume", "the reply has no volume";
    CreateVolumeChecksFirstCapabilityOnly, "create-volume-checks-first-capability-only", "an unsupported capability is accepted if a supported one comes before it";
    CreateVolumeConflictAsInternal, "create-volume-conflict-as-internal", "an incompatible repeat is INTERNAL";
    CreateVolumeConflictAsInvalidArgument, "create-volume-conflict-as-invalid-argument", "an incompatible repeat is INVALID_ARGUMENT";
    CreateVolumeContextHoldsSecrets, "create-volume-context-holds-secrets", "volume_context holds the secrets of the request";
    CreateVolumeContextTooLarge, "create-volume-context-too-large", "volume_context takes up more than 4 KiB";
    CreateVolumeFailsAfterQuotes, "create-volume-fails-after-quotes", "after a name with a quotation mark every request fails with UNKNOWN until the driver is restarted";
    CreateVolumeFailsLate, "create-volume-fails-late", "an unknown file system is detected only after the volume was created: the reply is INTERNAL, and the volume stays";
    CreateVolumeFailsAfterWork, "create-volume-fails-after-work", "the first reply is INTERNAL although the volume was created";
    CreateVolumeCrashesAfterWork, "create-volume-crashes-after-work", "the driver ends after it has created the volume and before it answers";
    CreateVolumeCrashesOnLongNames, "create-volume-crashes-on-long-names", "a name of more than 128 bytes ends the driver";
    CreateVolumeDemandsFsType, "create-volume-demands-fs-type", "mount access without fs_type is rejected";
    CreateVolumeDropsUnsupportedSources, "create-volume-drops-unsupported-sources", "a source of a kind that is not supported is ignored, and the volume is empty";
    CreateVolumeDemandsRange, "create-volume-demands-range", "a missing capacity_range is rejected";
    CreateVolumeEchoesRequisite, "create-volume-echoes-requisite", "volumes are in the first zone, but the reply names the required topology";
    CreateVolumeEmptyId, "create-volume-empty-id", "the first reply has no volume_id";
    CreateVolumeExceedsLimit, "create-volume-exceeds-limit", "sizes are rounded up beyond limit_bytes";
    CreateVolumeFoldsCase, "create-volume-folds-case", "names that differ only in case are treated as one";
    CreateVolumeFollowsSubdir, "create-volume-follows-subdir", "the parameter subDir is used as a path, wherever it leads";
    CreateVolumeForgetsNames, "create-volume-forgets-names", "a repeated request makes another volume";
    CreateVolumeHalvesSize, "create-volume-halves-size", "volumes have half the requested size";
    CreateVolumeIdTooLong, "create-volume-id-too-long", "volume_id has more than 128 bytes";
    CreateVolumeIgnoresCapabilityConflict, "create-volume-ignores-capability-conflict", "a repeat with another capability is OK";
    CreateVolumeIgnoresMissingSource, "create-volume-ignores-missing-source", "a source that does not exist gives an empty volume";
    CreateVolumeIgnoresMutableParameterConflict, "create-volume-ignores-mutable-parameter-conflict", "a repeat with other mutable parameters is OK";
    CreateVolumeIgnoresParameterConflict, "create-volume-ignores-parameter-conflict", "a repeat with other parameters is OK";
    CreateVolumeIgnoresPreferred, "create-volume-ignores-preferred", "preferred topologies are ignored";
    CreateVolumeIgnoresRequisite, "create-volume-ignores-requisite", "volumes are always in the last zone, whatever is required";
    CreateVolumeIgnoresSeveralRequisites, "create-volume-ignores-several-requisites", "volumes are in the last zone if several zones are required";
    CreateVolumeIgnoresSizeConflict, "create-volume-ignores-size-conflict", "a repeat with a range that the volume does not satisfy is OK";
    CreateVolumeIgnoresSourceConflict, "create-volume-ignores-source-conflict", "a repeat with another content source is OK";
    CreateVolumeIgnoresTopologyConflict, "create-volume-ignores-topology-conflict", "a repeat that requires another topology is OK";
    CreateVolumeIgnoresTopologyOfCopies, "create-volume-ignores-topology-of-copies", "accessibility_requirements of copies are ignored";
    CreateVolumeIgnoresUnknownMutableParameters, "create-volume-ignores-unknown-mutable-parameters", "unknown mutable parameters are accepted";
    CreateVolumeInfeasibleTopologyAsInternal, "create-volume-infeasible-topology-as-internal", "a requirement that no zone meets is INTERNAL";
    CreateVolumeInternalOnNegativeSize, "create-volume-internal-on-negative-size", "negative sizes are INTERNAL";
    CreateVolumeInternalOnPathNames, "create-volume-internal-on-path-names", "names with a slash are INTERNAL";
    CreateVolumeInternalOnRepeats, "create-volume-internal-on-repeats", "a repeated request is INTERNAL";
    CreateVolumeKeepsFirstCapability, "create-volume-keeps-first-capability", "a volume made for several capabilities can be used with the first one only";
    CreateVolumeKeepsParametersInPart, "create-volume-keeps-parameters-in-part", "unknown parameters are accepted, and a repeat with more than 1 KiB of parameters is ALREADY_EXISTS";
    CreateVolumeLeavesSnapshotOfSource, "create-volume-leaves-snapshot-of-source", "a clone is made through a snapshot of its source, which stays";
    CreateVolumeLeaksOnError, "create-volume-leaks-on-error", "a failed request leaves a volume behind";
    CreateVolumeMakesDirectoryOfName, "create-volume-makes-directory-of-name", "a directory is created with the name as its path, wherever it leads";
    CreateVolumeMissingSourceAsInternal, "create-volume-missing-source-as-internal", "a source that does not exist is INTERNAL";
    CreateVolumeNamesOtherSource, "create-volume-names-other-source", "the content source in the reply is not the requested one";
    CreateVolumeNegativeCapacity, "create-volume-negative-capacity", "capacity_bytes is negative";
    CreateVolumeOutOfRangeAsInternal, "create-volume-out-of-range-as-internal", "a size that is not allowed is INTERNAL";
    CreateVolumeOutOfRangeAsInvalidArgument, "create-volume-out-of-range-as-invalid-argument", "a size that is not allowed is INVALID_ARGUMENT";
    CreateVolumeOvercommits, "create-volume-overcommits", "volumes are created even if there is not enough storage";
    CreateVolumePanicsWithoutRange, "create-volume-panics-without-range", "a request without capacity_range causes a panic";
    CreateVolumeParametersBeatMutableOnes, "create-volume-parameters-beat-mutable-ones", "parameters take precedence over mutable_parameters";
    CreateVolumeRacesOnName, "create-volume-races-on-name", "two requests for one name at the same time make two volumes";
    CreateVolumeRefusesCompatibleSize, "create-volume-refuses-compatible-size", "a repeat with another range that the volume satisfies is ALREADY_EXISTS";
    CreateVolumeRefusesGroupMembers, "create-volume-refuses-group-members", "no volume can be made from a member of a group snapshot";
    CreateVolumeRefusesLimitRepeats, "create-volume-refuses-limit-repeats", "a repeat that gives limit_bytes alone is ALREADY_EXISTS";
    CreateVolumeRefusesLongNames, "create-volume-refuses-long-names", "names of 64 to 128 bytes are rejected";
    CreateVolumeRefusesMutableParameters, "create-volume-refuses-mutable-parameters", "mutable_parameters are rejected although volumes can be modified";
    CreateVolumeRefusesRepeatedCopies, "create-volume-refuses-repeated-copies", "a repeated request for a copy is ALREADY_EXISTS";
    CreateVolumeRefusesRepeats, "create-volume-refuses-repeats", "a repeated request is ALREADY_EXISTS";
    CreateVolumeRefusesLargeSecrets, "create-volume-refuses-large-secrets", "more than 1 KiB of secrets are rejected";
    CreateVolumeRefusesSources, "create-volume-refuses-sources", "no volume can be made from a snapshot or volume although the capability is advertised";
    CreateVolumeRefusesSurplusSecrets, "create-volume-refuses-surplus-secrets", "secrets with a key that CreateVolume does not use are rejected";
    CreateVolumeRefusesSnapshots, "create-volume-refuses-snapshots", "a content source of type snapshot is UNIMPLEMENTED";
    CreateVolumeRefusesUnicodeNames, "create-volume-refuses-unicode-names", "names beyond ASCII are rejected";
    CreateVolumeRepeatChangesContext, "create-volume-repeat-changes-context", "a repeated request is answered with another volume_context";
    CreateVolumeRepeatChangesId, "create-volume-repeat-changes-id", "a repeated request is answered with another volume_id";
    CreateVolumeRepeatDropsCapacity, "create-volume-repeat-drops-capacity", "a repeated request is answered without capacity_bytes";
    CreateVolumeRepeatDropsContext, "create-volume-repeat-drops-context", "a repeated request is answered without volume_context";
    CreateVolumeRepeatDropsSource, "create-volume-repeat-drops-source", "a repeated request for a copy is answered without content_source";
    CreateVolumeRepeatDropsTopology, "create-volume-repeat-drops-topology", "a repeated request is answered without accessible_topology";
    CreateVolumeRepeatIgnoresLimit, "create-volume-repeat-ignores-limit", "a repeat with limit_bytes below the size of the volume is OK";
    CreateVolumeRepeatTakesContextFromRequest, "create-volume-repeat-takes-context-from-request", "a repeat with other parameters is OK, and its volume_context is made from those parameters";
    CreateVolumeResolvesNames, "create-volume-resolves-names", "volumes whose names resolve to one path, such as `a` and `x/../a`, share one directory";
    CreateVolumeRestoresElsewhere, "create-volume-restores-elsewhere", "a volume made from a snapshot is where the snapshot cannot be used, unless a topology is required";
    CreateVolumeReusesIds, "create-volume-reuses-ids", "all volumes get one volume_id";
    CreateVolumeReversesPreferred, "create-volume-reverses-preferred", "preferred topologies are tried from last to first";
    CreateVolumeRoundsDown, "create-volume-rounds-down", "sizes are rounded down to whole GiB";
    CreateVolumeRunsNames, "create-volume-runs-names", "names are executed by a shell, without their slashes";
    CreateVolumeRunsParameters, "create-volume-runs-parameters", "parameters are executed by a shell";
    CreateVolumeShrinksSource, "create-volume-shrinks-source", "a limit below the size of the source truncates the copy";
    CreateVolumeSourceDataLost, "create-volume-source-data-lost", "copies do not hold the data of their source";
    CopiesFollowLinks, "copies-follow-links", "in a copy of a volume, links to files of the host are replaced with those files";
    CreateVolumeTrimsNames, "create-volume-trims-names", "names that differ only in leading or trailing spaces are treated as one";
    CreateVolumeTruncatesNames, "create-volume-truncates-names", "names with the same first 48 characters are treated as one";
    CreateVolumeTruncatesToSource, "create-volume-truncates-to-source", "a copy is never larger than its source, whatever size was requested";

    // The Volume message, whichever RPC returns it.
    ConditionAbnormal, "condition-abnormal", "the condition of every volume is abnormal";
    ConditionMessageEmpty, "condition-message-empty", "the message of a volume condition is empty";
    NewWriterModesUnbacked, "new-writer-modes-unbacked", "the newer single-node modes are rejected although SINGLE_NODE_MULTI_WRITER is advertised";
    SingleNodeWriterRefused, "single-node-writer-refused", "SINGLE_NODE_WRITER is rejected where the newer single-node modes are supported";
    VolumeTopologyEmptyEntry, "volume-topology-empty-entry", "an entry of accessible_topology has no segments";
    VolumeTopologyKeyInvalid, "volume-topology-key-invalid", "a topology key of a volume has two slashes";
    VolumeTopologyKeyPrefixDiffers, "volume-topology-key-prefix-differs", "topology keys of a volume have different prefixes";
    VolumeTopologyKeyPrefixUpperCase, "volume-topology-key-prefix-upper-case", "topology keys of a volume have an upper-case prefix";
    VolumeTopologyKeysDifferInCase, "volume-topology-keys-differ-in-case", "two topology keys of a volume differ only in case";
    VolumeTopologyMissing, "volume-topology-missing", "accessible_topology is empty although the volume cannot be reached from everywhere";
    VolumeTopologyOfReplicas, "volume-topology-of-replicas", "volumes are reported to be in two zones that the driver chooses, whatever is required";
    VolumeTopologyTwice, "volume-topology-twice", "accessible_topology names the zone of a volume twice";
    VolumeTopologyValueEmpty, "volume-topology-value-empty", "topology values of a volume are empty";
    VolumeTopologyValueTooLong, "volume-topology-value-too-long", "topology values of a volume have 64 characters";
    VolumeTopologyWithoutCapability, "volume-topology-without-capability", "accessible_topology is set without VOLUME_ACCESSIBILITY_CONSTRAINTS";

    // DeleteVolume.
    DeleteVolumeUnimplemented, "delete-volume-unimplemented", "DeleteVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    DeleteVolumeAcceptsEmptyId, "delete-volume-accepts-empty-id", "a missing volume_id is accepted";
    DeleteVolumeCompletesIds, "delete-volume-completes-ids", "the beginning of an id is enough to delete a volume";
    DeleteVolumeCrashesOnPaths, "delete-volume-crashes-on-paths", "a volume_id with `..` ends the driver";
    DeleteVolumeDeletesInUse, "delete-volume-deletes-in-use", "a volume in use on this node is deleted";
    DeleteVolumeDeletesSnapshots, "delete-volume-deletes-snapshots", "the snapshots of a volume are deleted with it";
    DeleteVolumeDemandsNoSnapshots, "delete-volume-demands-no-snapshots", "a volume with snapshots cannot be deleted";
    DeleteVolumeFollowsEndsOfIds, "delete-volume-follows-ends-of-ids", "the part of volume_id after its first slash is used as a directory path, and the directory is removed, wherever it is";
    DeleteVolumeFollowsPaths, "delete-volume-follows-paths", "volume_id is used as a path, and what it leads to is removed, wherever it is";
    DeleteVolumeIgnoresLastLetters, "delete-volume-ignores-last-letters", "ids that differ only in their last letter are treated as one";
    DeleteVolumeInUseAsInternal, "delete-volume-in-use-as-internal", "a volume in use is INTERNAL";
    DeleteVolumeKeepsName, "delete-volume-keeps-name", "the name of a deleted volume stays in use";
    DeleteVolumeKeepsStorage, "delete-volume-keeps-storage", "the storage of a deleted volume stays in use";
    DeleteVolumeKeepsVolume, "delete-volume-keeps-volume", "OK is answered but the volume stays";
    DeleteVolumeMatchesBeginnings, "delete-volume-matches-beginnings", "an id that begins with the id of a volume deletes that volume";
    DeleteVolumeRefusesOddNames, "delete-volume-refuses-odd-names", "a volume with a name that is not one word for a shell cannot be deleted";
    DeleteVolumeRunsIds, "delete-volume-runs-ids", "volume_id is executed by a shell";
    DeleteVolumeTakesDotsForAll, "delete-volume-takes-dots-for-all", "a dot or a slash as volume_id is used as the path of the directory of all volumes, which is removed";
    DeleteVolumeTakesSnapshotIds, "delete-volume-takes-snapshot-ids", "the id of a snapshot as volume_id deletes that snapshot";
    DeleteVolumeTrimsIds, "delete-volume-trims-ids", "an id with spaces or slashes around it deletes the volume";
    DeleteVolumeUnknownInternal, "delete-volume-unknown-internal", "a volume that does not exist is INTERNAL";
    DeleteVolumeUnknownNotFound, "delete-volume-unknown-not-found", "a volume that does not exist is NOT_FOUND";
    DeleteVolumeWithSnapshotsAsInternal, "delete-volume-with-snapshots-as-internal", "a volume with snapshots is INTERNAL";

    // ControllerPublishVolume.
    ControllerPublishVolumeUnimplemented, "controller-publish-volume-unimplemented", "ControllerPublishVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    ControllerPublishAcceptsAnyCapability, "controller-publish-accepts-any-capability", "capabilities that the volume does not have are accepted";
    ControllerPublishAcceptsMissingCapability, "controller-publish-accepts-missing-capability", "a missing volume_capability is accepted";
    ControllerPublishContextChanges, "controller-publish-context-changes", "publish_context differs from call to call";
    ControllerPublishContextHoldsSecrets, "controller-publish-context-holds-secrets", "publish_context holds the secrets of the request";
    ControllerPublishContextTooLarge, "controller-publish-context-too-large", "publish_context takes up more than 4 KiB";
    ControllerPublishEmptyNodeIdAsNotFound, "controller-publish-empty-node-id-as-not-found", "a missing node_id is NOT_FOUND";
    ControllerPublishEmptyVolumeIdAsNotFound, "controller-publish-empty-volume-id-as-not-found", "a missing volume_id is NOT_FOUND";
    ControllerPublishForgetsOwnNode, "controller-publish-forgets-own-node", "the controller does not know the node that NodeGetInfo names";
    ControllerPublishIgnoresAccessMode, "controller-publish-ignores-access-mode", "a single-node volume can be published to two nodes";
    ControllerPublishIgnoresLimit, "controller-publish-ignores-limit", "more volumes are published to a node than its limit permits";
    ControllerPublishIgnoresReadonlyConflict, "controller-publish-ignores-readonly-conflict", "a repeat with another readonly flag is OK";
    ControllerPublishLimitAsInternal, "controller-publish-limit-as-internal", "a node at its limit is INTERNAL";
    ControllerPublishLimitComesEarly, "controller-publish-limit-comes-early", "a node accepts one volume less than its limit";
    ControllerPublishLimitComesLate, "controller-publish-limit-comes-late", "a node accepts one volume more than its limit";
    ControllerPublishNotFoundAsInternal, "controller-publish-not-found-as-internal", "an unknown volume or node is INTERNAL";
    ControllerPublishNotRecorded, "controller-publish-not-recorded", "OK is answered but nothing is attached";
    ControllerPublishOtherNodeNotNamed, "controller-publish-other-node-not-named", "the message does not name the node that holds the volume";
    ControllerPublishOwnNodeOnly, "controller-publish-own-node-only", "volumes can be published only to the node at whose endpoint the controller is called";
    ControllerPublishPanicsWithoutCapability, "controller-publish-panics-without-capability", "a request without volume_capability causes a panic";
    ControllerPublishRefusesRepeats, "controller-publish-refuses-repeats", "a repeated request is ALREADY_EXISTS";
    ControllerPublishRefusesSecondNode, "controller-publish-refuses-second-node", "a multi-node volume cannot be published to a second node";
    ControllerPublishRepeatAsFailedPrecondition, "controller-publish-repeat-as-failed-precondition", "a repeated request is FAILED_PRECONDITION";
    ControllerPublishUnknownNodeOk, "controller-publish-unknown-node-ok", "an unknown node is OK";
    ControllerPublishUnknownVolumeOk, "controller-publish-unknown-volume-ok", "an unknown volume is OK";

    // ControllerUnpublishVolume.
    ControllerUnpublishVolumeUnimplemented, "controller-unpublish-volume-unimplemented", "ControllerUnpublishVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    ControllerUnpublishAcceptsEmptyId, "controller-unpublish-accepts-empty-id", "a missing volume_id is accepted";
    ControllerUnpublishDemandsNode, "controller-unpublish-demands-node", "a missing node_id is rejected instead of meaning all nodes";
    ControllerUnpublishDetachesAllNodes, "controller-unpublish-detaches-all-nodes", "the volume is detached from all nodes instead of one";
    ControllerUnpublishIgnoresMissingNode, "controller-unpublish-ignores-missing-node", "a missing node_id detaches nothing";
    ControllerUnpublishKeepsAttachment, "controller-unpublish-keeps-attachment", "OK is answered but the volume stays attached";
    ControllerUnpublishOwnNodeOnly, "controller-unpublish-own-node-only", "volumes can be unpublished only from the node at whose endpoint the controller is called";
    ControllerUnpublishRefusesRepeats, "controller-unpublish-refuses-repeats", "a volume that is not attached is FAILED_PRECONDITION";
    ControllerUnpublishRepeatAsNotFound, "controller-unpublish-repeat-as-not-found", "a volume that is not attached is NOT_FOUND";
    ControllerUnpublishUnknownAsInternal, "controller-unpublish-unknown-as-internal", "an unknown volume is INTERNAL";

    // ValidateVolumeCapabilities.
    ValidateVolumeCapabilitiesUnimplemented, "validate-volume-capabilities-unimplemented", "ValidateVolumeCapabilities answers UNIMPLEMENTED although it is mandatory or advertised";
    ValidateAcceptsMissingAccessType, "validate-accepts-missing-access-type", "a capability without block and mount is accepted";
    ValidateAcceptsMissingCapabilities, "validate-accepts-missing-capabilities", "missing volume_capabilities are accepted";
    ValidateAcceptsUnknownAccessMode, "validate-accepts-unknown-access-mode", "the access mode UNKNOWN is accepted";
    ValidateChecksFirstCapabilityOnly, "validate-checks-first-capability-only", "only the first capability is checked";
    ValidateConfirmsEverything, "validate-confirms-everything", "unsupported capabilities are confirmed";
    ValidateVerdictChanges, "validate-verdict-changes", "only every second validation confirms";
    ValidateConfirmsOtherCapabilities, "validate-confirms-other-capabilities", "confirmed has other capabilities than the request";
    ValidateConfirmsOtherContext, "validate-confirms-other-context", "confirmed has another volume_context than the request";
    ValidateConfirmsWithoutCapabilities, "validate-confirms-without-capabilities", "confirmed lists no capabilities";
    ValidateEmptyIdAsNotFound, "validate-empty-id-as-not-found", "a missing volume_id is NOT_FOUND";
    ValidateIgnoresVolume, "validate-ignores-volume", "capabilities of the driver that the volume lacks are confirmed";
    ValidateNeverConfirms, "validate-never-confirms", "supported capabilities are not confirmed";
    ValidateUnknownVolumeConfirmed, "validate-unknown-volume-confirmed", "an unknown volume is confirmed";
    ValidateUnknownVolumeOk, "validate-unknown-volume-ok", "an unknown volume is OK without confirmation";
    ValidateUnsupportedAsInternal, "validate-unsupported-as-internal", "unsupported capabilities are INTERNAL";

    // ListVolumes.
    ListVolumesUnimplemented, "list-volumes-unimplemented", "ListVolumes answers UNIMPLEMENTED although it is mandatory or advertised";
    ListVolumesAcceptsAnyToken, "list-volumes-accepts-any-token", "an invalid token returns the first page";
    ListVolumesAcceptsNegativeMax, "list-volumes-accepts-negative-max", "a negative max_entries means no limit";
    ListVolumesDropsContext, "list-volumes-drops-context", "entries lack volume_context";
    ListVolumesEmpty, "list-volumes-empty", "no volume is ever listed";
    ListVolumesEntryWithoutVolume, "list-volumes-entry-without-volume", "entries have no volume";
    ListVolumesEntryWithoutVolumeId, "list-volumes-entry-without-volume-id", "volumes in entries have no volume_id";
    ListVolumesFailsOnUnusualNames, "list-volumes-fails-on-unusual-names", "the list is INTERNAL while a volume's name is not plain ASCII";
    ListVolumesFailsWhileEmpty, "list-volumes-fails-while-empty", "the list is INTERNAL while CreateVolume has made none of the volumes that exist";
    ListVolumesIgnoresMaxEntries, "list-volumes-ignores-max-entries", "max_entries is ignored";
    ListVolumesIgnoresToken, "list-volumes-ignores-token", "every page is the first page";
    ListVolumesInvalidTokenAsInvalidArgument, "list-volumes-invalid-token-as-invalid-argument", "an invalid token is INVALID_ARGUMENT";
    ListVolumesKeepsFewListings, "list-volumes-keeps-few-listings", "a token is INTERNAL after a hundred other calls";
    ListVolumesLacksNewest, "list-volumes-lacks-newest", "the newest volume is not listed until another one is created";
    ListVolumesNeverSetsNextToken, "list-volumes-never-sets-next-token", "next_token is never set";
    ListVolumesOmitsCondition, "list-volumes-omits-condition", "volume_condition is missing";
    ListVolumesOmitsCopies, "list-volumes-omits-copies", "volumes made from a source are not listed";
    ListVolumesOmitsPublishedNodes, "list-volumes-omits-published-nodes", "published_node_ids is empty";
    ListVolumesOmitsStatus, "list-volumes-omits-status", "entries have no status";
    ListVolumesOneEntryTooMany, "list-volumes-one-entry-too-many", "pages have one entry more than max_entries";
    ListVolumesOpensTokens, "list-volumes-opens-tokens", "starting_token is used as a path, wherever it leads";
    ListVolumesPagesOverlap, "list-volumes-pages-overlap", "each page after the first begins with the last entry of the page before";
    ListVolumesPanicsOnNegativeMax, "list-volumes-panics-on-negative-max", "a negative max_entries causes a panic";
    ListVolumesPanicsOnNumericToken, "list-volumes-panics-on-numeric-token", "a numeric token causes a panic";
    ListVolumesRepeatsFirstEntry, "list-volumes-repeats-first-entry", "each page after the first lists its first entry twice";
    ListVolumesSkipsLastOfPage, "list-volumes-skips-last-of-page", "the last entry of each page is lost, except on the last page";
    ListVolumesStaleCapacity, "list-volumes-stale-capacity", "entries have half the capacity";
    ListVolumesTokenOnLastPage, "list-volumes-token-on-last-page", "the last page has a next_token";
    ListVolumesZeroMaxMeansOne, "list-volumes-zero-max-means-one", "max_entries of 0 returns a single entry";

    // GetCapacity.
    GetCapacityUnimplemented, "get-capacity-unimplemented", "GetCapacity answers UNIMPLEMENTED although it is mandatory or advertised";
    GetCapacityConstant, "get-capacity-constant", "available_capacity is the size of the whole storage, whatever is in use or requested";
    GetCapacityFails, "get-capacity-fails", "GetCapacity answers INTERNAL";
    GetCapacityHidesSizeLimits, "get-capacity-hides-size-limits", "the minimum and maximum volume size are not reported";
    GetCapacityIgnoresCapabilities, "get-capacity-ignores-capabilities", "the capacity is reported for unsupported capabilities";
    GetCapacityIgnoresParameters, "get-capacity-ignores-parameters", "the capacity is reported for unknown parameters";
    GetCapacityIgnoresTopology, "get-capacity-ignores-topology", "the capacity is reported for all topologies";
    GetCapacityMaximumNegative, "get-capacity-maximum-negative", "maximum_volume_size is negative";
    GetCapacityMaximumTooSmall, "get-capacity-maximum-too-small", "maximum_volume_size is smaller than the largest volume that can be created";
    GetCapacityMinimumAboveMaximum, "get-capacity-minimum-above-maximum", "minimum_volume_size exceeds maximum_volume_size";
    GetCapacityMinimumNegative, "get-capacity-minimum-negative", "minimum_volume_size is negative";
    GetCapacityNegative, "get-capacity-negative", "available_capacity is negative";

    // ControllerGetCapabilities.
    ControllerGetCapabilitiesUnimplemented, "controller-get-capabilities-unimplemented", "ControllerGetCapabilities answers UNIMPLEMENTED although it is mandatory or advertised";
    ControllerGetCapabilitiesEmptyEntry, "controller-get-capabilities-empty-entry", "an entry sets no branch of the oneof";
    ControllerGetCapabilitiesHidesExpand, "controller-get-capabilities-hides-expand", "EXPAND_VOLUME is left out although OFFLINE expansion is advertised";
    ControllerGetCapabilitiesHidesGetNodeInfo, "controller-get-capabilities-hides-get-node-info", "GET_NODE_INFO is not advertised although NODE_INFO_FROM_CONTROLLER is";
    ControllerGetCapabilitiesHidesGetSnapshot, "controller-get-capabilities-hides-get-snapshot", "GET_SNAPSHOT is left out although groups of snapshots are offered";
    ControllerGetCapabilitiesHidesGetVolumeHealth, "controller-get-capabilities-hides-get-volume-health", "GET_VOLUME_HEALTH is not advertised although LIST_VOLUME_HEALTH is";
    ControllerGetCapabilitiesHidesPublish, "controller-get-capabilities-hides-publish", "PUBLISH_UNPUBLISH_VOLUME is left out although LIST_VOLUMES_PUBLISHED_NODES is advertised";
    ControllerGetCapabilitiesUnknownType, "controller-get-capabilities-unknown-type", "an entry has the type UNKNOWN";

    // CreateSnapshot.
    CreateSnapshotTruncatesNames, "create-snapshot-truncates-names", "names with the same first 48 characters are treated as one";
    CreateSnapshotUnimplemented, "create-snapshot-unimplemented", "CreateSnapshot answers UNIMPLEMENTED although it is mandatory or advertised";
    CreateSnapshotAcceptsEmptyName, "create-snapshot-accepts-empty-name", "a missing name is accepted";
    CreateSnapshotAcceptsEmptyTopology, "create-snapshot-accepts-empty-topology", "accessibility_requirements without a topology are accepted";
    CreateSnapshotAnswersWithoutSnapshot, "create-snapshot-answers-without-snapshot", "the reply has no snapshot";
    CreateSnapshotConflictAsInternal, "create-snapshot-conflict-as-internal", "a repeat with another source is INTERNAL";
    CreateSnapshotEchoesTopology, "create-snapshot-echoes-topology", "the reply names the requested topology, wherever the snapshot is";
    CreateSnapshotEmptySourceAsNotFound, "create-snapshot-empty-source-as-not-found", "a missing source_volume_id is NOT_FOUND";
    CreateSnapshotForgetsNames, "create-snapshot-forgets-names", "a repeated request makes another snapshot";
    CreateSnapshotIgnoresMissingSource, "create-snapshot-ignores-missing-source", "a source that does not exist is accepted";
    CreateSnapshotIgnoresSourceConflict, "create-snapshot-ignores-source-conflict", "a repeat with another source is OK";
    CreateSnapshotIgnoresTopology, "create-snapshot-ignores-topology", "accessibility_requirements are ignored";
    CreateSnapshotPanicsOnUnknownVolume, "create-snapshot-panics-on-unknown-volume", "a volume that does not exist causes a panic";
    CreateSnapshotRacesOnName, "create-snapshot-races-on-name", "two requests for one name at the same time make two snapshots";
    CreateSnapshotRefusesLongNames, "create-snapshot-refuses-long-names", "names of 64 to 128 bytes are rejected";
    CreateSnapshotRefusesRepeats, "create-snapshot-refuses-repeats", "a repeated request is ALREADY_EXISTS";
    CreateSnapshotRefusesUnicodeNames, "create-snapshot-refuses-unicode-names", "names beyond ASCII are rejected";
    CreateSnapshotRepeatChangesId, "create-snapshot-repeat-changes-id", "a repeated request is answered with another snapshot_id";
    CreateSnapshotRepeatChangesTime, "create-snapshot-repeat-changes-time", "a repeated request is answered with another creation_time";
    CreateSnapshotRepeatDropsSize, "create-snapshot-repeat-drops-size", "a repeated request is answered without size_bytes";
    CreateSnapshotRepeatNotReady, "create-snapshot-repeat-not-ready", "ready_to_use is false in the answer to a repeated call";
    CreateSnapshotRepeatOmitsTopology, "create-snapshot-repeat-omits-topology", "a repeated request is answered without accessible_topology";
    CreateSnapshotTimeIsNow, "create-snapshot-time-is-now", "creation_time is the second in which CreateSnapshot answers, also for a repeated call";
    CreateSnapshotUnknownSourceAsInternal, "create-snapshot-unknown-source-as-internal", "a source that does not exist is INTERNAL";
    CreateSnapshotUnknownTopologyAsInternal, "create-snapshot-unknown-topology-as-internal", "a topology from which no snapshot can be used is INTERNAL";

    // The Snapshot message, whichever RPC returns it.
    SnapshotFrom1970, "snapshot-from-1970", "creation_time is present, but always zero";
    SnapshotGroupIdMissing, "snapshot-group-id-missing", "members of a group have no group_snapshot_id";
    SnapshotIdFromSource, "snapshot-id-from-source", "snapshot_id is made from the id of the source, so all snapshots of a volume share it";
    SnapshotNeverReady, "snapshot-never-ready", "ready_to_use is false forever";
    SnapshotSizeNegative, "snapshot-size-negative", "size_bytes is negative";
    SnapshotTopologyElsewhere, "snapshot-topology-elsewhere", "the reported topology of a snapshot is not the one from which it can be used";
    SnapshotTopologyEmptyEntry, "snapshot-topology-empty-entry", "accessible_topology of a snapshot has an entry without segments";
    SnapshotTopologyKeyInvalid, "snapshot-topology-key-invalid", "a topology key of a snapshot has two slashes";
    SnapshotWithoutCreationTime, "snapshot-without-creation-time", "creation_time is missing";
    SnapshotWithoutId, "snapshot-without-id", "snapshot_id is missing";
    SnapshotWithoutSource, "snapshot-without-source", "source_volume_id is missing";

    // DeleteSnapshot.
    DeleteSnapshotUnimplemented, "delete-snapshot-unimplemented", "DeleteSnapshot answers UNIMPLEMENTED although it is mandatory or advertised";
    DeleteSnapshotAcceptsEmptyId, "delete-snapshot-accepts-empty-id", "a missing snapshot_id is accepted";
    DeleteSnapshotCompletesIds, "delete-snapshot-completes-ids", "the beginning of an id is enough to delete a snapshot";
    DeleteSnapshotDeletesVolume, "delete-snapshot-deletes-volume", "the source volume is deleted with the snapshot";
    DeleteSnapshotFollowsPaths, "delete-snapshot-follows-paths", "snapshot_id plus a file extension is used as a path, and the file there is removed, wherever it is";
    DeleteSnapshotGroupMemberAsInternal, "delete-snapshot-group-member-as-internal", "a member of a group is INTERNAL";
    DeleteSnapshotInUseAsInternal, "delete-snapshot-in-use-as-internal", "a snapshot that volumes were made from is INTERNAL";
    DeleteSnapshotKeepsSnapshot, "delete-snapshot-keeps-snapshot", "OK is answered but the snapshot stays";
    DeleteSnapshotMatchesBeginnings, "delete-snapshot-matches-beginnings", "an id that begins with the id of a snapshot deletes that snapshot";
    DeleteSnapshotTakesAllForMembers, "delete-snapshot-takes-all-for-members", "a snapshot without a group is INVALID_ARGUMENT, as if it belonged to a group";
    DeleteSnapshotTakesDotsForAll, "delete-snapshot-takes-dots-for-all", "a dot or a slash as snapshot_id is used as the path of the directory of all snapshots, which is removed";
    DeleteSnapshotTakesVolumeIds, "delete-snapshot-takes-volume-ids", "the id of a volume as snapshot_id deletes that volume";
    DeleteSnapshotUnknownNotFound, "delete-snapshot-unknown-not-found", "a snapshot that does not exist is NOT_FOUND";

    // ListSnapshots.
    ListSnapshotsUnimplemented, "list-snapshots-unimplemented", "ListSnapshots answers UNIMPLEMENTED although it is mandatory or advertised";
    ListSnapshotsAcceptsAnyToken, "list-snapshots-accepts-any-token", "an invalid token returns the first page";
    ListSnapshotsAcceptsNegativeMax, "list-snapshots-accepts-negative-max", "a negative max_entries means no limit";
    ListSnapshotsCutsLettersOfTokens, "list-snapshots-cuts-letters-of-tokens", "a token with a two-byte character in its middle causes a panic";
    ListSnapshotsHalvesSize, "list-snapshots-halves-size", "size_bytes in entries is half the real value";
    ListSnapshotsDropsSize, "list-snapshots-drops-size", "entries lack size_bytes";
    ListSnapshotsEntryWithoutSnapshot, "list-snapshots-entry-without-snapshot", "entries have no snapshot";
    ListSnapshotsFailsAfterPathNames, "list-snapshots-fails-after-path-names", "once a snapshot with a slash in its name was deleted, every list fails with UNKNOWN until the driver is restarted";
    ListSnapshotsFailsOnUnusualNames, "list-snapshots-fails-on-unusual-names", "the list is INTERNAL while a snapshot's name is not plain ASCII";
    ListSnapshotsFailsWhileEmpty, "list-snapshots-fails-while-empty", "the list is INTERNAL while there is no snapshot";
    ListSnapshotsFindsVolumes, "list-snapshots-finds-volumes", "the id of a volume as snapshot_id returns that volume as a snapshot";
    ListSnapshotsForgetsTokens, "list-snapshots-forgets-tokens", "every next_token is ABORTED";
    ListSnapshotsHidesUnready, "list-snapshots-hides-unready", "snapshots are not listed until they are ready";
    ListSnapshotsIgnoresIdFilter, "list-snapshots-ignores-id-filter", "the filter by snapshot_id is ignored";
    ListSnapshotsIgnoresMaxEntries, "list-snapshots-ignores-max-entries", "max_entries is ignored";
    ListSnapshotsIgnoresSourceFilter, "list-snapshots-ignores-source-filter", "the filter by source_volume_id is ignored";
    ListSnapshotsIgnoresToken, "list-snapshots-ignores-token", "every page is the first page";
    ListSnapshotsInternalOnOtherTokens, "list-snapshots-internal-on-other-tokens", "a token of ListVolumes is INTERNAL";
    ListSnapshotsInvalidTokenAsInvalidArgument, "list-snapshots-invalid-token-as-invalid-argument", "an invalid token is INVALID_ARGUMENT";
    ListSnapshotsJoinsFilters, "list-snapshots-joins-filters", "two filters return the snapshots that match either of them";
    ListSnapshotsLacksNewest, "list-snapshots-lacks-newest", "the newest snapshot is not listed until another one is created";
    ListSnapshotsNeverSetsNextToken, "list-snapshots-never-sets-next-token", "next_token is never set";
    ListSnapshotsOmitsGroupMembers, "list-snapshots-omits-group-members", "members of group snapshots are not listed";
    ListSnapshotsOmitsTopology, "list-snapshots-omits-topology", "accessible_topology is missing";
    ListSnapshotsOnePerSource, "list-snapshots-one-per-source", "the filter by source_volume_id returns one snapshot at most";
    ListSnapshotsPagesOverlap, "list-snapshots-pages-overlap", "each page after the first begins with the last entry of the page before";
    ListSnapshotsPanicsOnNegativeMax, "list-snapshots-panics-on-negative-max", "a negative max_entries causes a panic if there is a snapshot to list";
    ListSnapshotsPanicsOnNumericToken, "list-snapshots-panics-on-numeric-token", "a numeric token causes a panic if there is a snapshot to list";
    ListSnapshotsSkipsLastOfPage, "list-snapshots-skips-last-of-page", "the last entry of each page is lost, except on the last page";
    ListSnapshotsStaleReady, "list-snapshots-stale-ready", "ready_to_use in the list is false forever";
    ListSnapshotsTokenOnLastPage, "list-snapshots-token-on-last-page", "the last page has a next_token";
    ListSnapshotsUnknownFilterNotFound, "list-snapshots-unknown-filter-not-found", "a filter without a matching snapshot is NOT_FOUND";

    // GetSnapshot.
    GetSnapshotUnimplemented, "get-snapshot-unimplemented", "GetSnapshot answers UNIMPLEMENTED although it is mandatory or advertised";
    GetSnapshotEmptyIdAsNotFound, "get-snapshot-empty-id-as-not-found", "a missing snapshot_id is NOT_FOUND";
    GetSnapshotHidesUnready, "get-snapshot-hides-unready", "a snapshot that is not ready is NOT_FOUND";
    GetSnapshotOmitsTopology, "get-snapshot-omits-topology", "accessible_topology is missing";
    GetSnapshotOtherId, "get-snapshot-other-id", "the returned snapshot_id is not the requested one";
    GetSnapshotUnknownOk, "get-snapshot-unknown-ok", "an unknown snapshot is OK";
    GetSnapshotWithoutSnapshot, "get-snapshot-without-snapshot", "the reply has no snapshot";

    // ControllerExpandVolume.
    ControllerExpandVolumeUnimplemented, "controller-expand-volume-unimplemented", "ControllerExpandVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    ControllerExpandAcceptsCrossedRange, "controller-expand-accepts-crossed-range", "required_bytes above limit_bytes is accepted";
    ControllerExpandAcceptsEmptyRange, "controller-expand-accepts-empty-range", "a capacity_range with both bounds zero is accepted";
    ControllerExpandAcceptsMissingRange, "controller-expand-accepts-missing-range", "a missing capacity_range is accepted";
    ControllerExpandAcceptsNegativeSize, "controller-expand-accepts-negative-size", "negative sizes are accepted";
    ControllerExpandAnswersOldSize, "controller-expand-answers-old-size", "the reply has the size before the expansion";
    ControllerExpandAnswersZero, "controller-expand-answers-zero", "the reply has no size";
    ControllerExpandChangesNothing, "controller-expand-changes-nothing", "OK is answered but the volume keeps its size";
    ControllerExpandDemandsCapability, "controller-expand-demands-capability", "a missing volume_capability is rejected";
    ControllerExpandEmptyIdAsNotFound, "controller-expand-empty-id-as-not-found", "a missing volume_id is NOT_FOUND";
    ControllerExpandExceedsLimit, "controller-expand-exceeds-limit", "the volume grows beyond limit_bytes";
    ControllerExpandIgnoresCapability, "controller-expand-ignores-capability", "a volume_capability that the volume lacks is accepted";
    ControllerExpandIgnoresUse, "controller-expand-ignores-use", "a volume in use is expanded without ONLINE";
    ControllerExpandInUseAsInternal, "controller-expand-in-use-as-internal", "a volume in use without ONLINE is INTERNAL";
    ControllerExpandNodeExpansionNotRequired, "controller-expand-node-expansion-not-required", "node_expansion_required is false although the node has to expand the file system";
    ControllerExpandOutOfRangeAsInternal, "controller-expand-out-of-range-as-internal", "a size that is not allowed is INTERNAL";
    ControllerExpandOverflows, "controller-expand-overflows", "a size at the end of its integer type causes a panic";
    ControllerExpandPanicsWithoutRange, "controller-expand-panics-without-range", "a request without capacity_range causes a panic";
    ControllerExpandRefusesOnline, "controller-expand-refuses-online", "a volume in use is rejected although ONLINE is advertised";
    ControllerExpandRefusesRepeats, "controller-expand-refuses-repeats", "a volume that is large enough is OUT_OF_RANGE";
    ControllerExpandShrinks, "controller-expand-shrinks", "a smaller size shrinks the volume";
    ControllerExpandWaitsForExactSize, "controller-expand-waits-for-exact-size", "a size that is not a multiple of 1 MiB is INTERNAL, although the volume has grown";
    ControllerExpandUnknownOk, "controller-expand-unknown-ok", "an unknown volume is OK";

    // ControllerGetVolume.
    ControllerGetVolumeUnimplemented, "controller-get-volume-unimplemented", "ControllerGetVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    ControllerGetVolumeDropsContext, "controller-get-volume-drops-context", "volume_context is missing";
    ControllerGetVolumeEmptyIdAsNotFound, "controller-get-volume-empty-id-as-not-found", "a missing volume_id is NOT_FOUND";
    ControllerGetVolumeOmitsCondition, "controller-get-volume-omits-condition", "volume_condition is missing";
    ControllerGetVolumeOmitsPublishedNodes, "controller-get-volume-omits-published-nodes", "published_node_ids is empty";
    ControllerGetVolumeOmitsStatus, "controller-get-volume-omits-status", "the reply has no status";
    ControllerGetVolumeOtherId, "controller-get-volume-other-id", "the returned volume_id is not the requested one";
    ControllerGetVolumeStaleCapacity, "controller-get-volume-stale-capacity", "half the capacity is reported";
    ControllerGetVolumeUnknownOk, "controller-get-volume-unknown-ok", "an unknown volume is OK";
    ControllerGetVolumeWithoutVolume, "controller-get-volume-without-volume", "the reply has no volume";

    // ControllerModifyVolume.
    ControllerModifyVolumeUnimplemented, "controller-modify-volume-unimplemented", "ControllerModifyVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    ControllerModifyAcceptsMissingParameters, "controller-modify-accepts-missing-parameters", "missing mutable_parameters are accepted";
    ControllerModifyAcceptsUnknownKeys, "controller-modify-accepts-unknown-keys", "unknown mutable parameters are accepted";
    ControllerModifyAppliesBeforeChecking, "controller-modify-applies-before-checking", "a rejected modification still changes the volume";
    ControllerModifyChangesContext, "controller-modify-changes-context", "a modification changes volume_context";
    ControllerModifyChangesNothing, "controller-modify-changes-nothing", "OK is answered but nothing is modified";
    ControllerModifyChangesRefusedVolume, "controller-modify-changes-refused-volume", "rejected parameters are stored in volume_context";
    ControllerModifyEmptyIdAsNotFound, "controller-modify-empty-id-as-not-found", "a missing volume_id is NOT_FOUND";
    ControllerModifyForgetsOtherKeys, "controller-modify-forgets-other-keys", "parameters that a modification does not name lose their values";
    ControllerModifyRefusesRepeats, "controller-modify-refuses-repeats", "a repeated modification is FAILED_PRECONDITION";
    ControllerModifyRefusesUpdates, "controller-modify-refuses-updates", "a second, different modification is ALREADY_EXISTS";
    ControllerModifyUnknownOk, "controller-modify-unknown-ok", "an unknown volume is OK";

    // ControllerListVolumeHealth.
    ControllerListVolumeHealthUnimplemented, "controller-list-volume-health-unimplemented", "ControllerListVolumeHealth answers UNIMPLEMENTED although it is mandatory or advertised";
    ControllerListVolumeHealthAcceptsAnyToken, "controller-list-volume-health-accepts-any-token", "a token that the driver never returned gives the first page";
    ControllerListVolumeHealthAcceptsNegativeMax, "controller-list-volume-health-accepts-negative-max", "a negative max_entries means no limit";
    ControllerListVolumeHealthIgnoresMaxEntries, "controller-list-volume-health-ignores-max-entries", "the whole list is returned, whatever max_entries says";
    ControllerListVolumeHealthInvalidTokenAsInternal, "controller-list-volume-health-invalid-token-as-internal", "an invalid starting_token is INTERNAL";
    ControllerListVolumeHealthInverted, "controller-list-volume-health-inverted", "healthy volumes are listed as degraded, and unhealthy ones are left out";
    ControllerListVolumeHealthKeepsDeleted, "controller-list-volume-health-keeps-deleted", "deleted volumes are still listed, as inaccessible";
    ControllerListVolumeHealthListsHealthy, "controller-list-volume-health-lists-healthy", "healthy volumes are listed as well";
    ControllerListVolumeHealthLosesPageEnds, "controller-list-volume-health-loses-page-ends", "healthy volumes are listed as well, and one entry is left out after each page";
    ControllerListVolumeHealthNeverSetsNextToken, "controller-list-volume-health-never-sets-next-token", "only the first page can be read";
    ControllerListVolumeHealthOtherReasons, "controller-list-volume-health-other-reasons", "the reasons differ from those of ControllerGetVolumeHealth";
    ControllerListVolumeHealthRefusesItsTokens, "controller-list-volume-health-refuses-its-tokens", "a next_token is ABORTED when it is sent back";
    ControllerListVolumeHealthTokenOnLastPage, "controller-list-volume-health-token-on-last-page", "the last page has a next_token";
    ControllerListVolumeHealthTwoEntries, "controller-list-volume-health-two-entries", "each volume is listed twice, as if its other problems did not exist";

    // ControllerGetNodeInfo.
    ControllerGetNodeInfoUnimplemented, "controller-get-node-info-unimplemented", "ControllerGetNodeInfo answers UNIMPLEMENTED although it is mandatory or advertised";
    ControllerGetNodeInfoChanges, "controller-get-node-info-changes", "accessible_topology has other values in each reply";
    ControllerGetNodeInfoKeepsUnpublished, "controller-get-node-info-keeps-unpublished", "published_volume_ids contains volumes that are no longer published";
    ControllerGetNodeInfoLimitNegative, "controller-get-node-info-limit-negative", "max_volumes_per_node is negative";
    ControllerGetNodeInfoOtherKeys, "controller-get-node-info-other-keys", "accessible_topology has other keys than NodeGetInfo returns";
    ControllerGetNodeInfoUnknownNodeOk, "controller-get-node-info-unknown-node-ok", "an unknown node is OK";

    // ControllerGetVolumeHealth.
    ControllerGetVolumeHealthUnimplemented, "controller-get-volume-health-unimplemented", "ControllerGetVolumeHealth answers UNIMPLEMENTED although it is mandatory or advertised";
    ControllerGetVolumeHealthAnswersLastAsked, "controller-get-volume-health-answers-last-asked", "the reply describes the volume of the previous request";
    ControllerGetVolumeHealthChangesReasons, "controller-get-volume-health-changes-reasons", "each reason contains a number that increases";
    ControllerGetVolumeHealthEmptyIdAsNotFound, "controller-get-volume-health-empty-id-as-not-found", "a missing volume_id is NOT_FOUND";
    ControllerGetVolumeHealthForgets, "controller-get-volume-health-forgets", "each problem of a volume is reported only once";
    ControllerGetVolumeHealthInaccessibleWhenUsed, "controller-get-volume-health-inaccessible-when-used", "a volume that is published on a node is reported as inaccessible";
    ControllerGetVolumeHealthKeepsIll, "controller-get-volume-health-keeps-ill", "a former problem of a volume is reported forever";
    ControllerGetVolumeHealthOtherId, "controller-get-volume-health-other-id", "the returned volume_id is not the requested one";
    ControllerGetVolumeHealthRefusesUnpublished, "controller-get-volume-health-refuses-unpublished", "a volume that is not published is NOT_FOUND";
    ControllerGetVolumeHealthUnknownOk, "controller-get-volume-health-unknown-ok", "an unknown volume is OK and has no problem";
    ControllerGetVolumeHealthWarnsOfNew, "controller-get-volume-health-warns-of-new", "a volume that was never used is reported as degraded";
    ControllerGetVolumeHealthWithoutHealth, "controller-get-volume-health-without-health", "the reply has no volume_health";

    // GroupControllerGetCapabilities.
    GroupControllerGetCapabilitiesUnimplemented, "group-controller-get-capabilities-unimplemented", "GroupControllerGetCapabilities answers UNIMPLEMENTED although it is mandatory or advertised";
    GroupControllerGetCapabilitiesEmptyEntry, "group-controller-get-capabilities-empty-entry", "an entry sets no branch of the oneof";
    GroupControllerGetCapabilitiesUnknownType, "group-controller-get-capabilities-unknown-type", "an entry has the type UNKNOWN";

    // CreateVolumeGroupSnapshot.
    CreateVolumeGroupSnapshotUnimplemented, "create-volume-group-snapshot-unimplemented", "CreateVolumeGroupSnapshot answers UNIMPLEMENTED although it is mandatory or advertised";
    CreateGroupSnapshotAcceptsEmptyName, "create-group-snapshot-accepts-empty-name", "a missing name is accepted";
    CreateGroupSnapshotAcceptsMissingSources, "create-group-snapshot-accepts-missing-sources", "missing source_volume_ids are accepted";
    CreateGroupSnapshotAnswersWithoutGroup, "create-group-snapshot-answers-without-group", "the reply has no group snapshot";
    CreateGroupSnapshotDropsLastSource, "create-group-snapshot-drops-last-source", "the last source has no snapshot in the group";
    CreateGroupSnapshotForgetsNames, "create-group-snapshot-forgets-names", "a repeated request makes another group snapshot";
    CreateGroupSnapshotIgnoresMissingSource, "create-group-snapshot-ignores-missing-source", "sources that do not exist are accepted";
    CreateGroupSnapshotIgnoresSourceConflict, "create-group-snapshot-ignores-source-conflict", "a repeat with other sources is OK";
    CreateGroupSnapshotLeaksMembers, "create-group-snapshot-leaks-members", "a failed request leaves snapshots behind";
    CreateGroupSnapshotMissingSourceAsInternal, "create-group-snapshot-missing-source-as-internal", "a source that does not exist is INTERNAL";
    CreateGroupSnapshotOrderMatters, "create-group-snapshot-order-matters", "CreateVolumeGroupSnapshot treats the same sources in another order as different ones";
    CreateGroupSnapshotRefusesRepeats, "create-group-snapshot-refuses-repeats", "a repeated request is ALREADY_EXISTS";
    CreateGroupSnapshotRefusesUnicodeNames, "create-group-snapshot-refuses-unicode-names", "names beyond ASCII are rejected";
    CreateGroupSnapshotRepeatDropsMembers, "create-group-snapshot-repeat-drops-members", "a repeated request is answered with one member only";
    CreateGroupSnapshotTimeIsNow, "create-group-snapshot-time-is-now", "creation_time is the moment in which CreateVolumeGroupSnapshot answers, also for a repeated call";

    // The VolumeGroupSnapshot message, whichever RPC returns it.
    GroupSnapshotAcceptsMissingMembers, "group-snapshot-accepts-missing-members", "missing snapshot_ids are accepted";
    GroupSnapshotFrom1970, "group-snapshot-from-1970", "creation_time is present, but always zero";
    GroupSnapshotIgnoresMemberMismatch, "group-snapshot-ignores-member-mismatch", "snapshot_ids of another group are accepted";
    GroupSnapshotMemberMismatchAsInternal, "group-snapshot-member-mismatch-as-internal", "snapshot_ids of another group are INTERNAL";
    GroupSnapshotMembersClaimReady, "group-snapshot-members-claim-ready", "members are reported as ready, but cannot be used yet";
    GroupSnapshotMembersOfOtherGroup, "group-snapshot-members-of-other-group", "members have another group_snapshot_id";
    GroupSnapshotMembersWithoutGroup, "group-snapshot-members-without-group", "members have no group_snapshot_id";
    GroupSnapshotNeverReady, "group-snapshot-never-ready", "ready_to_use of the group is false forever";
    GroupSnapshotReadyTooEarly, "group-snapshot-ready-too-early", "the group is ready although a member is not";
    GroupSnapshotWithoutCreationTime, "group-snapshot-without-creation-time", "creation_time is missing";
    GroupSnapshotWithoutId, "group-snapshot-without-id", "group_snapshot_id is missing";
    GroupSnapshotWithoutMembers, "group-snapshot-without-members", "the group lists no members";

    // DeleteVolumeGroupSnapshot.
    DeleteVolumeGroupSnapshotUnimplemented, "delete-volume-group-snapshot-unimplemented", "DeleteVolumeGroupSnapshot answers UNIMPLEMENTED although it is mandatory or advertised";
    DeleteGroupSnapshotAcceptsEmptyId, "delete-group-snapshot-accepts-empty-id", "a missing group_snapshot_id is accepted";
    DeleteGroupSnapshotInUseAsInternal, "delete-group-snapshot-in-use-as-internal", "a group snapshot with a member that volumes were made from is INTERNAL";
    DeleteGroupSnapshotKeepsGroup, "delete-group-snapshot-keeps-group", "OK is answered but the group stays";
    DeleteGroupSnapshotKeepsMembers, "delete-group-snapshot-keeps-members", "the group goes but its members stay";
    DeleteGroupSnapshotUnknownNotFound, "delete-group-snapshot-unknown-not-found", "a group snapshot that does not exist is NOT_FOUND";

    // GetVolumeGroupSnapshot.
    GetVolumeGroupSnapshotUnimplemented, "get-volume-group-snapshot-unimplemented", "GetVolumeGroupSnapshot answers UNIMPLEMENTED although it is mandatory or advertised";
    GetGroupSnapshotEmptyIdAsNotFound, "get-group-snapshot-empty-id-as-not-found", "a missing group_snapshot_id is NOT_FOUND";
    GetGroupSnapshotOmitsMember, "get-group-snapshot-omits-member", "the last member is left out";
    GetGroupSnapshotOtherId, "get-group-snapshot-other-id", "the returned group_snapshot_id is not the requested one";
    GetGroupSnapshotUnknownOk, "get-group-snapshot-unknown-ok", "an unknown group snapshot is OK";
    GetGroupSnapshotWithoutGroup, "get-group-snapshot-without-group", "the reply has no group snapshot";

    // GetMetadataAllocated.
    GetMetadataAllocatedUnimplemented, "get-metadata-allocated-unimplemented", "GetMetadataAllocated answers UNIMPLEMENTED although it is mandatory or advertised";
    GetMetadataAllocatedAcceptsEmptyId, "get-metadata-allocated-accepts-empty-id", "a missing snapshot_id results in an empty stream";
    GetMetadataAllocatedEmptyIdAsNotFound, "get-metadata-allocated-empty-id-as-not-found", "a missing snapshot_id is NOT_FOUND";
    GetMetadataAllocatedMissesWrites, "get-metadata-allocated-misses-writes", "blocks that were written to a device before the snapshot are left out";
    GetMetadataAllocatedUnknownOk, "get-metadata-allocated-unknown-ok", "an unknown snapshot results in an empty stream";

    // GetMetadataDelta.
    GetMetadataDeltaUnimplemented, "get-metadata-delta-unimplemented", "GetMetadataDelta answers UNIMPLEMENTED although it is mandatory or advertised";
    GetMetadataDeltaAcceptsEmptyBaseId, "get-metadata-delta-accepts-empty-base-id", "a missing base_snapshot_id results in an empty stream";
    GetMetadataDeltaAcceptsEmptyTargetId, "get-metadata-delta-accepts-empty-target-id", "a missing target_snapshot_id results in an empty stream";
    GetMetadataDeltaAnswersNothing, "get-metadata-delta-answers-nothing", "the delta lists no changed blocks";
    GetMetadataDeltaEmptyIdAsNotFound, "get-metadata-delta-empty-id-as-not-found", "missing snapshot ids are NOT_FOUND";
    GetMetadataDeltaMissesFirstBlock, "get-metadata-delta-misses-first-block", "a change at the very beginning of the volume is left out";
    GetMetadataDeltaMixesVolumes, "get-metadata-delta-mixes-volumes", "snapshots of different volumes are compared";
    GetMetadataDeltaUnknownOk, "get-metadata-delta-unknown-ok", "an unknown snapshot results in an empty stream";
    GetMetadataDeltaUntrackedAsInternal, "get-metadata-delta-untracked-as-internal", "changed blocks are not tracked, and each call is INTERNAL";

    // Block metadata of both kinds.
    GetMetadataAcceptsAnyOffset, "get-metadata-accepts-any-offset", "offsets outside the volume are accepted";
    GetMetadataBreaksOff, "get-metadata-breaks-off", "the stream ends with INTERNAL after the first message";
    GetMetadataCapacityChanges, "get-metadata-capacity-changes", "volume_capacity_bytes changes within a stream";
    GetMetadataCapacityZero, "get-metadata-capacity-zero", "volume_capacity_bytes is 0";
    GetMetadataEmptyRanges, "get-metadata-empty-ranges", "size_bytes is 0";
    GetMetadataEndsEarly, "get-metadata-ends-early", "the stream ends with OK after the first message";
    GetMetadataIgnoresMaxResults, "get-metadata-ignores-max-results", "max_results is ignored";
    GetMetadataIgnoresOffset, "get-metadata-ignores-offset", "starting_offset is ignored";
    GetMetadataLastBlockShort, "get-metadata-last-block-short", "the last block of the volume is shorter than the others in the FIXED_LENGTH style";
    GetMetadataMessagesOverlap, "get-metadata-messages-overlap", "each message begins with the last range of the message before";
    GetMetadataOffsetAsInternal, "get-metadata-offset-as-internal", "offsets outside the volume are INTERNAL";
    GetMetadataOffsetAtEnd, "get-metadata-offset-at-end", "a range begins where the volume ends";
    GetMetadataOverlaps, "get-metadata-overlaps", "two ranges overlap";
    GetMetadataResumeSkipsBlock, "get-metadata-resume-skips-block", "a stream that resumes skips the block at starting_offset";
    GetMetadataSizesVary, "get-metadata-sizes-vary", "sizes vary in the FIXED_LENGTH style";
    GetMetadataStuckAfterCut, "get-metadata-stuck-after-cut", "a snapshot stays busy forever after a caller has cancelled a stream";
    GetMetadataTypeChanges, "get-metadata-type-changes", "block_metadata_type changes within a stream";
    GetMetadataTypeUnknown, "get-metadata-type-unknown", "block_metadata_type is UNKNOWN";
    GetMetadataUnordered, "get-metadata-unordered", "ranges are in descending order";

    // NodeStageVolume.
    NodeStageVolumeUnimplemented, "node-stage-volume-unimplemented", "NodeStageVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeStageAcceptsAnyCapability, "node-stage-accepts-any-capability", "capabilities that the volume does not have are accepted";
    NodeStageAcceptsIncompleteCapability, "node-stage-accepts-incomplete-capability", "NodeStageVolume accepts a capability without access type or mode";
    NodeStageAcceptsMissingCapability, "node-stage-accepts-missing-capability", "a missing volume_capability is accepted";
    NodeStageAcceptsMissingPath, "node-stage-accepts-missing-path", "a missing staging_target_path is accepted";
    NodeStageConflictAsInternal, "node-stage-conflict-as-internal", "a repeat with another capability is INTERNAL";
    NodeStageEmptyIdAsNotFound, "node-stage-empty-id-as-not-found", "a missing volume_id is NOT_FOUND";
    NodeStageFollowsContext, "node-stage-follows-context", "subDir in volume_context is used as a path, wherever it leads";
    NodeStageFailsOnSmallVolumes, "node-stage-fails-on-small-volumes", "volumes of less than 4 MiB are created, but cannot be formatted";
    NodeStageIgnoresCapabilityConflict, "node-stage-ignores-capability-conflict", "a repeat with another capability is OK";
    NodeStageNotRecorded, "node-stage-not-recorded", "OK is answered but nothing is staged";
    NodeStagePanicsWithoutCapability, "node-stage-panics-without-capability", "a request without volume_capability causes a panic";
    NodeStageRefusesLongPaths, "node-stage-refuses-long-paths", "paths of more than 128 bytes are rejected";
    NodeStageRefusesPathsOf128Bytes, "node-stage-refuses-paths-of-128-bytes", "NodeStageVolume takes staging_target_path of up to 127 bytes only";
    NodeStageRefusesRepeats, "node-stage-refuses-repeats", "a repeated request is ALREADY_EXISTS";
    NodeStageUnknownVolumeOk, "node-stage-unknown-volume-ok", "an unknown volume is OK";

    // NodeUnstageVolume.
    NodeUnstageVolumeUnimplemented, "node-unstage-volume-unimplemented", "NodeUnstageVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeUnstageAcceptsEmptyId, "node-unstage-accepts-empty-id", "a missing volume_id is accepted";
    NodeUnstageAcceptsMissingPath, "node-unstage-accepts-missing-path", "a missing staging_target_path is accepted";
    NodeUnstageKeepsStaging, "node-unstage-keeps-staging", "OK is answered but the volume stays staged";
    NodeUnstageRefusesLongPaths, "node-unstage-refuses-long-paths", "NodeUnstageVolume takes staging_target_path of up to 128 bytes only";
    NodeUnstageRefusesPathsOf128Bytes, "node-unstage-refuses-paths-of-128-bytes", "NodeUnstageVolume takes staging_target_path of up to 127 bytes only";
    NodeUnstageRefusesRepeats, "node-unstage-refuses-repeats", "a volume that is not staged is FAILED_PRECONDITION";
    NodeUnstageRemovesEverything, "node-unstage-removes-everything", "staging_target_path is removed with everything in it, whatever it is";
    NodeUnstageUnknownAsInternal, "node-unstage-unknown-as-internal", "an unknown volume is INTERNAL";

    // NodePublishVolume.
    NodePublishVolumeUnimplemented, "node-publish-volume-unimplemented", "NodePublishVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    NodePublishAcceptsAnyCapability, "node-publish-accepts-any-capability", "capabilities that the volume does not have are accepted";
    NodePublishAcceptsIncompleteCapability, "node-publish-accepts-incomplete-capability", "NodePublishVolume accepts a capability without access type or mode";
    NodePublishAcceptsMissingCapability, "node-publish-accepts-missing-capability", "a missing volume_capability is accepted";
    NodePublishAcceptsMissingPath, "node-publish-accepts-missing-path", "a missing target_path is accepted";
    NodePublishAcceptsMissingStaging, "node-publish-accepts-missing-staging", "a missing staging_target_path is accepted although volumes are staged";
    NodePublishConflictAsInternal, "node-publish-conflict-as-internal", "a repeat with other arguments is INTERNAL";
    NodePublishCrashesOnLargeContext, "node-publish-crashes-on-large-context", "a volume_context of more than 4 KiB ends the driver";
    NodePublishEmptyIdAsNotFound, "node-publish-empty-id-as-not-found", "a missing volume_id is NOT_FOUND";
    NodePublishErrorsShowContext, "node-publish-errors-show-context", "errors quote volume_context";
    NodePublishFollowsLinks, "node-publish-follows-links", "a symbolic link at target_path is followed";
    NodePublishIgnoresAccessMode, "node-publish-ignores-access-mode", "a volume for a single writer is published at two paths";
    NodePublishIgnoresReadonlyConflict, "node-publish-ignores-readonly-conflict", "a repeat with another readonly flag is OK";
    NodePublishJoinsMountOptions, "node-publish-joins-mount-options", "text after a comma in volume_context becomes a mount option; needs root";
    NodePublishMakesOtherKind, "node-publish-makes-other-kind", "the target path is a file for a mount, and a directory for a block volume";
    NodePublishMakesNothing, "node-publish-makes-nothing", "OK is answered but nothing exists at the target path";
    NodePublishMissingStagingAsInvalidArgument, "node-publish-missing-staging-as-invalid-argument", "a missing staging_target_path is INVALID_ARGUMENT";
    NodePublishMixesUpVolumes, "node-publish-mixes-up-volumes", "a volume that is published at the same time as another one shows the other volume";
    NodePublishPanicsWithoutCapability, "node-publish-panics-without-capability", "a request without volume_capability causes a panic";
    NodePublishPassesContextAsOption, "node-publish-passes-context-as-option", "a value of volume_context is passed to a command where it can act as an option";
    NodePublishPrintsContext, "node-publish-prints-context", "volume_context is printed";
    NodePublishRefusesLongPaths, "node-publish-refuses-long-paths", "paths of more than 128 bytes are rejected";
    NodePublishRefusesPathsOf128Bytes, "node-publish-refuses-paths-of-128-bytes", "NodePublishVolume takes paths of up to 127 bytes only";
    NodePublishRefusesRepeats, "node-publish-refuses-repeats", "a repeated request is ALREADY_EXISTS";
    NodePublishRefusesSecondPath, "node-publish-refuses-second-path", "a shared volume cannot be published at a second path";
    NodePublishRefusesSingleNodeWriter, "node-publish-refuses-single-node-writer", "NodePublishVolume accepts the newer single-node modes and rejects SINGLE_NODE_WRITER";
    NodePublishRunsFsType, "node-publish-runs-fs-type", "fs_type is executed by a shell";
    NodePublishSecondPathAsInternal, "node-publish-second-path-as-internal", "a second path that the access mode does not permit is INTERNAL";
    NodePublishUnknownVolumeOk, "node-publish-unknown-volume-ok", "an unknown volume is OK";
    NodePublishWritesFilesOfContext, "node-publish-writes-files-of-context", "a file is written under a name from volume_context, wherever it leads";

    // NodeUnpublishVolume.
    NodeUnpublishVolumeUnimplemented, "node-unpublish-volume-unimplemented", "NodeUnpublishVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeUnpublishAcceptsEmptyId, "node-unpublish-accepts-empty-id", "a missing volume_id is accepted";
    NodeUnpublishAcceptsMissingPath, "node-unpublish-accepts-missing-path", "a missing target_path is accepted";
    NodeUnpublishFailsOnBlock, "node-unpublish-fails-on-block", "block volumes cannot be unpublished";
    NodeUnpublishForgetsLinks, "node-unpublish-forgets-links", "a volume that was published at a path through a symbolic link stays published";
    NodeUnpublishKeepsPublication, "node-unpublish-keeps-publication", "the target path is removed but the volume is still recorded as published";
    NodeUnpublishLeavesTarget, "node-unpublish-leaves-target", "the directory or file at the target path stays";
    NodeUnpublishRefusesLongPaths, "node-unpublish-refuses-long-paths", "NodeUnpublishVolume takes target_path of up to 128 bytes only";
    NodeUnpublishRefusesPathsOf128Bytes, "node-unpublish-refuses-paths-of-128-bytes", "NodeUnpublishVolume takes target_path of up to 127 bytes only";
    NodeUnpublishRefusesRepeats, "node-unpublish-refuses-repeats", "a volume that is not published there is NOT_FOUND";
    NodeUnpublishRemovesEverything, "node-unpublish-removes-everything", "target_path is removed with everything in it, whatever it is";
    NodeUnpublishRunsPaths, "node-unpublish-runs-paths", "target_path is executed by a shell";
    NodeUnpublishUnknownAsInternal, "node-unpublish-unknown-as-internal", "an unknown volume is INTERNAL";
    NodeUnpublishUnstages, "node-unpublish-unstages", "unpublishing unstages the volume as well";

    // NodeGetVolumeStats.
    NodeGetVolumeStatsKeepsThread, "node-get-volume-stats-keeps-thread", "some NodeGetVolumeStats leave a thread";
    NodeGetVolumeStatsUnimplemented, "node-get-volume-stats-unimplemented", "NodeGetVolumeStats answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeGetVolumeStatsAvailableExceedsTotal, "node-get-volume-stats-available-exceeds-total", "available is larger than total";
    NodeGetVolumeStatsAvailableNegative, "node-get-volume-stats-available-negative", "available is negative";
    NodeGetVolumeStatsDemandsStagingPath, "node-get-volume-stats-demands-staging-path", "a missing staging_target_path is rejected";
    NodeGetVolumeStatsEmpty, "node-get-volume-stats-empty", "the answer is empty although GET_VOLUME_STATS is advertised";
    NodeGetVolumeStatsEmptyIdAsNotFound, "node-get-volume-stats-empty-id-as-not-found", "a missing volume_id is NOT_FOUND";
    NodeGetVolumeStatsHangs, "node-get-volume-stats-hangs", "NodeGetVolumeStats never answers";
    NodeGetVolumeStatsIgnoresPath, "node-get-volume-stats-ignores-path", "statistics are returned for paths where the volume is not";
    NodeGetVolumeStatsMissingPathAsNotFound, "node-get-volume-stats-missing-path-as-not-found", "a missing volume_path is NOT_FOUND";
    NodeGetVolumeStatsOmitsCondition, "node-get-volume-stats-omits-condition", "volume_condition is missing";
    NodeGetVolumeStatsPanicsOnInlineIds, "node-get-volume-stats-panics-on-inline-ids", "an id in the form that kubelet uses for inline volumes causes a panic";
    NodeGetVolumeStatsPanicsOnUnknownVolume, "node-get-volume-stats-panics-on-unknown-volume", "a volume that does not exist causes a panic";
    NodeGetVolumeStatsRefusesLongPaths, "node-get-volume-stats-refuses-long-paths", "NodeGetVolumeStats takes paths of up to 128 bytes only";
    NodeGetVolumeStatsRefusesPathsOf128Bytes, "node-get-volume-stats-refuses-paths-of-128-bytes", "NodeGetVolumeStats takes paths of up to 127 bytes only";
    NodeGetVolumeStatsRefusesStagingPath, "node-get-volume-stats-refuses-staging-path", "the staging path is NOT_FOUND";
    NodeGetVolumeStatsTotalNegative, "node-get-volume-stats-total-negative", "total is negative";
    NodeGetVolumeStatsTotalZero, "node-get-volume-stats-total-zero", "total is 0";
    NodeGetVolumeStatsUnitUnknown, "node-get-volume-stats-unit-unknown", "unit is UNKNOWN";
    NodeGetVolumeStatsUnknownOk, "node-get-volume-stats-unknown-ok", "an unknown volume is OK";
    NodeGetVolumeStatsUsedNegative, "node-get-volume-stats-used-negative", "used is negative";
    NodeGetVolumeStatsWrongPathAsInternal, "node-get-volume-stats-wrong-path-as-internal", "a path where the volume is not is INTERNAL";

    // NodeExpandVolume.
    NodeExpandVolumeUnimplemented, "node-expand-volume-unimplemented", "NodeExpandVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeExpandAcceptsAnySize, "node-expand-accepts-any-size", "sizes that exceed the size of the volume are accepted";
    NodeExpandAnswersWrongSize, "node-expand-answers-wrong-size", "the reply has half the size";
    NodeExpandDemandsStagingPath, "node-expand-demands-staging-path", "a missing staging_target_path is rejected";
    NodeExpandEmptyIdAsNotFound, "node-expand-empty-id-as-not-found", "a missing volume_id is NOT_FOUND";
    NodeExpandFailsOnDevices, "node-expand-fails-on-devices", "a block volume is treated as a file system";
    NodeExpandIgnoresCapability, "node-expand-ignores-capability", "a volume_capability that the volume lacks is accepted";
    NodeExpandIgnoresPath, "node-expand-ignores-path", "a volume is expanded at paths where it is not";
    NodeExpandMissingPathAsNotFound, "node-expand-missing-path-as-not-found", "a missing volume_path is NOT_FOUND";
    NodeExpandOutOfRangeAsInternal, "node-expand-out-of-range-as-internal", "a size that is not allowed is INTERNAL";
    NodeExpandRefusesLongPaths, "node-expand-refuses-long-paths", "NodeExpandVolume takes paths of up to 128 bytes only";
    NodeExpandRefusesPathsOf128Bytes, "node-expand-refuses-paths-of-128-bytes", "NodeExpandVolume takes paths of up to 127 bytes only";
    NodeExpandRefusesSmallSizes, "node-expand-refuses-small-sizes", "a size below 3 GiB is INTERNAL";
    NodeExpandRefusesRepeats, "node-expand-refuses-repeats", "a volume that the node has already expanded enough is INTERNAL";
    NodeExpandRefusesStagingPath, "node-expand-refuses-staging-path", "the staging path is INTERNAL";
    NodeExpandUnknownOk, "node-expand-unknown-ok", "an unknown volume is OK";

    // NodeGetCapabilities.
    NodeGetCapabilitiesUnimplemented, "node-get-capabilities-unimplemented", "NodeGetCapabilities answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeGetCapabilitiesEmptyEntry, "node-get-capabilities-empty-entry", "an entry sets no branch of the oneof";
    NodeGetCapabilitiesUnknownType, "node-get-capabilities-unknown-type", "an entry has the type UNKNOWN";

    // NodeGetInfo.
    NodeGetInfoUnimplemented, "node-get-info-unimplemented", "NodeGetInfo answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeGetInfoFails, "node-get-info-fails", "NodeGetInfo answers INTERNAL";
    NodeGetInfoIdChanges, "node-get-info-id-changes", "node_id differs from call to call";
    NodeGetInfoIdEmpty, "node-get-info-id-empty", "node_id is missing";
    NodeGetInfoIdLong, "node-get-info-id-long", "node_id has 200 bytes, more than older software supports";
    NodeGetInfoIdTooLong, "node-get-info-id-too-long", "node_id has 257 bytes";
    NodeGetInfoIdDiffersWithFlag, "node-get-info-id-differs-with-flag", "node_id with controller_get_node_info differs from node_id without it";
    NodeGetInfoLimitNegative, "node-get-info-limit-negative", "max_volumes_per_node is negative";
    NodeGetInfoOmitsTopology, "node-get-info-omits-topology", "accessible_topology is missing although volumes are bound to topologies";
    NodeGetInfoTopologyKeyInvalid, "node-get-info-topology-key-invalid", "a topology key begins and ends with a dash";
    NodeGetInfoTopologyKeyTooLong, "node-get-info-topology-key-too-long", "the name part of a topology key has 64 characters";
    NodeGetInfoTopologyValueEmpty, "node-get-info-topology-value-empty", "topology values are empty";
    NodeGetInfoTopologyValueInvalid, "node-get-info-topology-value-invalid", "topology values contain spaces and brackets";

    // NodeGetVolumeHealth.
    NodeGetVolumeHealthUnimplemented, "node-get-volume-health-unimplemented", "NodeGetVolumeHealth answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeGetVolumeHealthDemandsPaths, "node-get-volume-health-demands-paths", "a missing path is rejected";
    NodeGetVolumeHealthEmptyIdAsNotFound, "node-get-volume-health-empty-id-as-not-found", "a missing volume_id is NOT_FOUND";
    NodeGetVolumeHealthIgnoresLostPath, "node-get-volume-health-ignores-lost-path", "a volume is reported as healthy although its target path is gone";
    NodeGetVolumeHealthInaccessibleWhenUsed, "node-get-volume-health-inaccessible-when-used", "a volume that is published is reported as inaccessible";
    NodeGetVolumeHealthMakesPaths, "node-get-volume-health-makes-paths", "a path that does not exist is created";
    NodeGetVolumeHealthNeverIll, "node-get-volume-health-never-ill", "no problem of a volume is ever reported";
    NodeGetVolumeHealthOtherId, "node-get-volume-health-other-id", "the returned volume_id is not the requested one";
    NodeGetVolumeHealthRefusesLongPaths, "node-get-volume-health-refuses-long-paths", "NodeGetVolumeHealth takes paths of up to 128 bytes only";
    NodeGetVolumeHealthRefusesPathsOf128Bytes, "node-get-volume-health-refuses-paths-of-128-bytes", "NodeGetVolumeHealth takes paths of up to 127 bytes only";
    NodeGetVolumeHealthRefusesStagingPath, "node-get-volume-health-refuses-staging-path", "staging_target_path is rejected";
    NodeGetVolumeHealthRefusesUnused, "node-get-volume-health-refuses-unused", "a volume that is neither staged nor published is INTERNAL";
    NodeGetVolumeHealthUnknownOk, "node-get-volume-health-unknown-ok", "an unknown volume is OK and has no problem";
    NodeGetVolumeHealthWithoutHealth, "node-get-volume-health-without-health", "the reply has no volume_health";

    // NodeGetStorageHealth.
    NodeGetStorageHealthUnimplemented, "node-get-storage-health-unimplemented", "NodeGetStorageHealth answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeGetStorageHealthNeedsAVolume, "node-get-storage-health-needs-a-volume", "the call is FAILED_PRECONDITION as long as no volume is in use on the node";
    NodeGetStorageHealthNeverIll, "node-get-storage-health-never-ill", "no problem of the storage is ever reported";
    NodeGetStorageHealthUnreachable, "node-get-storage-health-unreachable", "the storage is reported as unreachable although its volumes work";

    // Health, whichever RPC returns it.
    StorageHealthEntryTwice, "storage-health-entry-twice", "each problem of the storage is reported twice";
    StorageHealthReasonEmpty, "storage-health-reason-empty", "the storage is reported as degraded without a reason";
    StorageHealthReasonInWords, "storage-health-reason-in-words", "the reason for degraded storage is a sentence";
    StorageHealthReasonTooLong, "storage-health-reason-too-long", "the reason for degraded storage has more than 128 bytes";
    StorageHealthStatusUnknown, "storage-health-status-unknown", "the storage is reported with a problem of unknown status";
    VolumeHealthEntryTwice, "volume-health-entry-twice", "each problem of a volume is reported twice";
    VolumeHealthFloods, "volume-health-floods", "each volume is reported with seventeen problems";
    VolumeHealthIdMissing, "volume-health-id-missing", "volume health is reported without volume_id";
    VolumeHealthMessageTooLong, "volume-health-message-too-long", "the message for a problem of a volume has more than 128 bytes";
    VolumeHealthReasonEmpty, "volume-health-reason-empty", "each volume is reported as degraded without a reason";
    VolumeHealthReasonInWords, "volume-health-reason-in-words", "the reason for a degraded volume is a sentence";
    VolumeHealthReasonTooLong, "volume-health-reason-too-long", "the reason for a degraded volume has more than 128 bytes";
    VolumeHealthStatusUnknown, "volume-health-status-unknown", "each volume is reported with a problem of unknown status";
}

impl Defect {
    /// Defects that only show in sequences of calls: calls that overlap, are rejected or are abandoned, and calls
    /// before and after a restart. The stateful suite has to find them; the checks of single RPCs need not.
    pub const IN_HISTORIES: &[Defect] = {
        use Defect::*;
        &[
            ControllerExpandRefusalBlocks,
            ControllerExpandRefusalGrows,
            ControllerPublishForgetsReadonly,
            ControllerPublishRefusalAttaches,
            ControllerPublishRefusalDetachesOthers,
            ControllerPublishRepeatTooEarly,
            CreateGroupSnapshotRefusalTakesName,
            CreateSnapshotRacesOnName,
            CreateSnapshotRefusalMakesSnapshot,
            CreateSnapshotRefusalTakesName,
            CreateVolumeCountsOverlapsTwice,
            CreateVolumeDoublesAfterTimeout,
            CreateVolumeFailsLate,
            CreateVolumeKeepsCopyOfDeleted,
            CreateVolumeLeaksAfterTimeout,
            CreateVolumeLosesUpdates,
            CreateVolumeRefusalKeepsVolume,
            CreateVolumeRefusalMakesVolume,
            CreateVolumeRefusalTakesName,
            CreateVolumeRevivesDeleted,
            DeleteVolumeRefusalBlocks,
            EndsWithFirstConnection,
            KeepsNothing,
            ListSnapshotsFailsBehindDeleted,
            ListVolumesFailsBehindDeleted,
            LockKeptAfterCancel,
            LockOwnedByConnection,
            NodePublishForgetsReadonly,
            NodePublishRefusalPublishes,
            NodePublishRefusalUnpublishesOthers,
            NodeStageRefusalStages,
            NodeStageRefusalUnstagesOthers,
            NodeUnpublishRefusalUnpublishes,
            NodeUnstageNeedsAttachment,
            NodeUnstageRefusalBlocks,
            ProbeFailsAfterStart,
            RestartChangesNodeId,
            RestartDatesSnapshotsAnew,
            RestartForgetsLastWrite,
            RestartForgetsNames,
            RestartForgetsNodeTopology,
            RestartForgetsPublished,
            RestartForgetsSizes,
            RestartForgetsSnapshotSizes,
            RestartForgetsSources,
            RestartForgetsStaged,
            RestartRefusesPublished,
            RestartRefusesUnstaging,
            RestartShiftsCreationTimes,
            RestartTakesTruncatedForEmpty,
            SavesAfterAnswer,
            SecondStartDeletesVolumes,
        ]
    };

    /// Defects that only show after many calls, in the resources of the driver's process. The growth suite has to
    /// find them.
    pub const OVER_TIME: &[Defect] = {
        use Defect::*;
        &[
            ConnectionKeepsFile,
            ControllerExpandLeavesFile,
            ControllerPublishKeepsSocket,
            ControllerPublishRefusalKeepsSocket,
            CreateGroupSnapshotKeepsMemory,
            CreateSnapshotKeepsThread,
            CreateSnapshotRefusalKeepsThread,
            CreateVolumeFromSourceKeepsFile,
            CreateVolumeFromVolumeLeavesFile,
            CreateVolumeGivenUpKeepsFile,
            CreateVolumeKeepsMemory,
            CreateVolumeKeepsRejectedNames,
            CreateVolumeRefusalKeepsMemory,
            CreateVolumeRefusedCopyLeavesFile,
            DeleteVolumeKeepsFile,
            ListVolumesKeepsMemory,
            NodeGetVolumeStatsKeepsThread,
            NodePublishKeepsMemory,
            NodePublishRefusalKeepsFile,
            NodeStageKeepsChild,
            NodeStageRefusalLeavesZombie,
            NodeUnpublishLeavesZombie,
        ]
    };

    /// Defects that only show with many volumes, many callers or after many calls. The load suite has to find them.
    pub const UNDER_LOAD: &[Defect] = {
        use Defect::*;
        &[
            ControllerPublishHiddenLimit,
            CreateVolumeForgetsUnderLoad,
            CreateVolumeNamesRunOut,
            CreateVolumeStalls,
            ListVolumesQuadratic,
            NodePublishEnds,
            NodePublishSlowsDown,
            OneLockForAllVolumes,
            RejectionsKeepMemory,
        ]
    };

    /// Defects that only show with hostile input, many of them in effects on the driver's host. The hostile suite has
    /// to find them.
    pub const UNDER_ATTACK: &[Defect] = {
        use Defect::*;
        &[
            ControllerExpandOverflows,
            CopiesFollowLinks,
            CreateVolumeAdoptsIds,
            CreateVolumeAdoptsSnapshots,
            CreateVolumeFollowsSubdir,
            CreateVolumeMakesDirectoryOfName,
            CreateVolumeResolvesNames,
            CreateVolumeRunsNames,
            CreateVolumeRunsParameters,
            DeleteSnapshotCompletesIds,
            DeleteSnapshotFollowsPaths,
            DeleteSnapshotMatchesBeginnings,
            DeleteSnapshotTakesDotsForAll,
            DeleteSnapshotTakesVolumeIds,
            DeleteVolumeCompletesIds,
            DeleteVolumeFollowsEndsOfIds,
            DeleteVolumeFollowsPaths,
            DeleteVolumeIgnoresLastLetters,
            DeleteVolumeMatchesBeginnings,
            DeleteVolumeRunsIds,
            DeleteVolumeTakesDotsForAll,
            DeleteVolumeTakesSnapshotIds,
            DeleteVolumeTrimsIds,
            ListSnapshotsCutsLettersOfTokens,
            ListSnapshotsInternalOnOtherTokens,
            ListVolumesKeepsFewListings,
            ListVolumesOpensTokens,
            NodePublishCrashesOnLargeContext,
            NodePublishErrorsShowContext,
            NodePublishFollowsLinks,
            NodePublishJoinsMountOptions,
            NodePublishMixesUpVolumes,
            NodePublishPassesContextAsOption,
            NodePublishPrintsContext,
            NodePublishRunsFsType,
            NodePublishWritesFilesOfContext,
            NodeStageFollowsContext,
            NodeUnpublishForgetsLinks,
            NodeUnpublishRemovesEverything,
            NodeUnpublishRunsPaths,
            NodeUnstageRemovesEverything,
            PrintsSecrets,
        ]
    };

    /// The point at which a call has to be held for the defect to show, if there is one.
    pub(crate) fn needs_time(self) -> Option<HoldPoint> {
        use Defect::*;
        let held = matches!(
            self,
            CreateVolumeCountsOverlapsTwice
                | CreateVolumeDoublesAfterTimeout
                | CreateVolumeGivenUpKeepsFile
                | CreateVolumeKeepsCopyOfDeleted
                | CreateVolumeLeaksAfterTimeout
                | CreateVolumeLosesUpdates
                | CreateVolumeRacesOnName
                | CreateVolumeRevivesDeleted
                | ListVolumesCrashesOnOverlap
                | LockKeptAfterCancel
                | LockOwnedByConnection
        );
        let rpc = match self {
            NodeUnstageGoesOn => "NodeUnstageVolume",
            ControllerPublishRepeatTooEarly => "ControllerPublishVolume",
            CreateSnapshotRacesOnName => "CreateSnapshot",
            _ if held => "CreateVolume",
            _ => return None,
        };
        Some(HoldPoint { rpc: RpcName(rpc), step: HoldStage::BeforeCommit })
    }

    /// Returns true if the defect changes how the state is saved.
    pub(crate) fn changes_saving(self) -> bool {
        matches!(
            self,
            Defect::RestartForgetsLastWrite
                | Defect::RestartTakesTruncatedForEmpty
                | Defect::SavesAfterAnswer
        )
    }

    /// The defect that makes an RPC answer UNIMPLEMENTED.
    pub(crate) fn unimplemented(method: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|defect| {
            defect.id().strip_suffix("-unimplemented").is_some_and(|rpc| is_kebab_of(rpc, method))
        })
    }
}

/// Returns whether `kebab` is the name of an RPC in kebab case.
fn is_kebab_of(kebab: &str, method: &str) -> bool {
    let mut rest = kebab.chars();
    let mut says = |c: char| rest.next() == Some(c);
    let spelt = method
        .char_indices()
        .all(|(at, c)| (at == 0 || c.is_ascii_lowercase() || says('-')) && says(c.to_ascii_lowercase()));
    spelt && rest.next().is_none()
}
