//! Departures from correct behaviour, each at one place.

use crate::named::named;

// One line for each defect, in the group of its RPC, and one `driver.has(Defect::…)` where it acts.
named! {
    /// A named departure from correct behaviour.
    Defect, "defect";
    // Any RPC.
    InvalidArgumentAsInternal, "invalid-argument-as-internal", "invalid argument as internal";
    InvalidArgumentAsUnknown, "invalid-argument-as-unknown", "invalid argument as unknown";
    LockCoversAllObjects, "lock-covers-all-objects", "lock covers all objects";
    LockNeverReleasedAfterError, "lock-never-released-after-error", "lock never released after error";
    NotFoundAsInternal, "not-found-as-internal", "not found as internal";
    SecretsInErrors, "secrets-in-errors", "secrets in errors";
    StatusDetailsSet, "status-details-set", "status details set";
    StatusMessageEmpty, "status-message-empty", "status message empty";

    // GetPluginInfo.
    GetPluginInfoUnimplemented, "get-plugin-info-unimplemented", "GetPluginInfo answers UNIMPLEMENTED although it is mandatory or advertised";
    GetPluginInfoFails, "get-plugin-info-fails", "get plugin info fails";
    GetPluginInfoManifestTooLarge, "get-plugin-info-manifest-too-large", "get plugin info manifest too large";
    GetPluginInfoNameChanges, "get-plugin-info-name-changes", "get plugin info name changes";
    GetPluginInfoNameEmpty, "get-plugin-info-name-empty", "get plugin info name empty";
    GetPluginInfoNameEndsInDash, "get-plugin-info-name-ends-in-dash", "get plugin info name ends in dash";
    GetPluginInfoNameTooLong, "get-plugin-info-name-too-long", "get plugin info name too long";
    GetPluginInfoNameWithSlash, "get-plugin-info-name-with-slash", "get plugin info name with slash";
    GetPluginInfoNameWithUnderscore, "get-plugin-info-name-with-underscore", "get plugin info name with underscore";
    GetPluginInfoNameWithoutHost, "get-plugin-info-name-without-host", "get plugin info name without host";
    GetPluginInfoVersionEmpty, "get-plugin-info-version-empty", "get plugin info version empty";
    GetPluginInfoVersionTooLong, "get-plugin-info-version-too-long", "get plugin info version too long";

    // GetPluginCapabilities.
    GetPluginCapabilitiesUnimplemented, "get-plugin-capabilities-unimplemented", "GetPluginCapabilities answers UNIMPLEMENTED although it is mandatory or advertised";
    GetPluginCapabilitiesChanges, "get-plugin-capabilities-changes", "get plugin capabilities changes";
    GetPluginCapabilitiesEmptyEntry, "get-plugin-capabilities-empty-entry", "get plugin capabilities empty entry";
    GetPluginCapabilitiesHidesControllerService, "get-plugin-capabilities-hides-controller-service", "get plugin capabilities hides controller service";
    GetPluginCapabilitiesHidesTopology, "get-plugin-capabilities-hides-topology", "get plugin capabilities hides topology";
    GetPluginCapabilitiesUnknownExpansion, "get-plugin-capabilities-unknown-expansion", "get plugin capabilities unknown expansion";
    GetPluginCapabilitiesUnknownService, "get-plugin-capabilities-unknown-service", "get plugin capabilities unknown service";

    // Probe.
    ProbeUnimplemented, "probe-unimplemented", "Probe answers UNIMPLEMENTED although it is mandatory or advertised";
    ProbeCrashes, "probe-crashes", "probe crashes";
    ProbeFails, "probe-fails", "probe fails";
    ProbeHangs, "probe-hangs", "probe hangs";
    ProbeNeverReady, "probe-never-ready", "probe never ready";

    // CreateVolume.
    CreateVolumeUnimplemented, "create-volume-unimplemented", "CreateVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    CreateVolumeAcceptsAnySize, "create-volume-accepts-any-size", "create volume accepts any size";
    CreateVolumeAcceptsCrossedRange, "create-volume-accepts-crossed-range", "create volume accepts crossed range";
    CreateVolumeAcceptsEmptyName, "create-volume-accepts-empty-name", "create volume accepts empty name";
    CreateVolumeAcceptsEmptyRange, "create-volume-accepts-empty-range", "create volume accepts empty range";
    CreateVolumeAcceptsEmptySnapshotId, "create-volume-accepts-empty-snapshot-id", "create volume accepts empty snapshot id";
    CreateVolumeAcceptsEmptySource, "create-volume-accepts-empty-source", "create volume accepts empty source";
    CreateVolumeAcceptsEmptySourceVolumeId, "create-volume-accepts-empty-source-volume-id", "create volume accepts empty source volume id";
    CreateVolumeAcceptsEmptyTopologyRequirement, "create-volume-accepts-empty-topology-requirement", "create volume accepts empty topology requirement";
    CreateVolumeAcceptsMissingAccessMode, "create-volume-accepts-missing-access-mode", "create volume accepts missing access mode";
    CreateVolumeAcceptsMissingAccessType, "create-volume-accepts-missing-access-type", "create volume accepts missing access type";
    CreateVolumeAcceptsMissingCapabilities, "create-volume-accepts-missing-capabilities", "create volume accepts missing capabilities";
    CreateVolumeAcceptsNegativeSize, "create-volume-accepts-negative-size", "create volume accepts negative size";
    CreateVolumeAcceptsUnknownAccessMode, "create-volume-accepts-unknown-access-mode", "create volume accepts unknown access mode";
    CreateVolumeAcceptsUnsupportedCapability, "create-volume-accepts-unsupported-capability", "create volume accepts unsupported capability";
    CreateVolumeAnswersWithoutVolume, "create-volume-answers-without-volume", "create volume answers without volume";
    CreateVolumeConflictAsInternal, "create-volume-conflict-as-internal", "create volume conflict as internal";
    CreateVolumeConflictAsInvalidArgument, "create-volume-conflict-as-invalid-argument", "create volume conflict as invalid argument";
    CreateVolumeContextHoldsSecrets, "create-volume-context-holds-secrets", "create volume context holds secrets";
    CreateVolumeContextTooLarge, "create-volume-context-too-large", "create volume context too large";
    CreateVolumeCrashesAfterWork, "create-volume-crashes-after-work", "create volume crashes after work";
    CreateVolumeCrashesOnLongNames, "create-volume-crashes-on-long-names", "create volume crashes on long names";
    CreateVolumeDropsSource, "create-volume-drops-source", "create volume drops source";
    CreateVolumeEmptyId, "create-volume-empty-id", "create volume empty id";
    CreateVolumeExceedsLimit, "create-volume-exceeds-limit", "create volume exceeds limit";
    CreateVolumeFoldsCase, "create-volume-folds-case", "create volume folds case";
    CreateVolumeForgetsNames, "create-volume-forgets-names", "create volume forgets names";
    CreateVolumeHalvesSize, "create-volume-halves-size", "create volume halves size";
    CreateVolumeIdTooLong, "create-volume-id-too-long", "create volume id too long";
    CreateVolumeIgnoresCapabilityConflict, "create-volume-ignores-capability-conflict", "create volume ignores capability conflict";
    CreateVolumeIgnoresMissingSource, "create-volume-ignores-missing-source", "create volume ignores missing source";
    CreateVolumeIgnoresMutableParameterConflict, "create-volume-ignores-mutable-parameter-conflict", "create volume ignores mutable parameter conflict";
    CreateVolumeIgnoresParameterConflict, "create-volume-ignores-parameter-conflict", "create volume ignores parameter conflict";
    CreateVolumeIgnoresPreferred, "create-volume-ignores-preferred", "create volume ignores preferred";
    CreateVolumeIgnoresRequisite, "create-volume-ignores-requisite", "create volume ignores requisite";
    CreateVolumeIgnoresSizeConflict, "create-volume-ignores-size-conflict", "create volume ignores size conflict";
    CreateVolumeIgnoresSourceConflict, "create-volume-ignores-source-conflict", "create volume ignores source conflict";
    CreateVolumeIgnoresTopologyConflict, "create-volume-ignores-topology-conflict", "create volume ignores topology conflict";
    CreateVolumeIgnoresUnknownMutableParameters, "create-volume-ignores-unknown-mutable-parameters", "create volume ignores unknown mutable parameters";
    CreateVolumeIgnoresUnknownParameters, "create-volume-ignores-unknown-parameters", "create volume ignores unknown parameters";
    CreateVolumeInfeasibleTopologyAsInternal, "create-volume-infeasible-topology-as-internal", "create volume infeasible topology as internal";
    CreateVolumeInternalOnNegativeSize, "create-volume-internal-on-negative-size", "create volume internal on negative size";
    CreateVolumeInternalOnPathNames, "create-volume-internal-on-path-names", "create volume internal on path names";
    CreateVolumeInternalOnRepeats, "create-volume-internal-on-repeats", "create volume internal on repeats";
    CreateVolumeLeaksOnError, "create-volume-leaks-on-error", "create volume leaks on error";
    CreateVolumeMissingSourceAsInternal, "create-volume-missing-source-as-internal", "create volume missing source as internal";
    CreateVolumeNegativeCapacity, "create-volume-negative-capacity", "create volume negative capacity";
    CreateVolumeOutOfRangeAsInternal, "create-volume-out-of-range-as-internal", "create volume out of range as internal";
    CreateVolumeOutOfRangeAsInvalidArgument, "create-volume-out-of-range-as-invalid-argument", "create volume out of range as invalid argument";
    CreateVolumeOvercommits, "create-volume-overcommits", "create volume overcommits";
    CreateVolumePanicsWithoutRange, "create-volume-panics-without-range", "create volume panics without range";
    CreateVolumeParametersBeatMutableOnes, "create-volume-parameters-beat-mutable-ones", "create volume parameters beat mutable ones";
    CreateVolumeRacesOnName, "create-volume-races-on-name", "create volume races on name";
    CreateVolumeRefusesCompatibleSize, "create-volume-refuses-compatible-size", "create volume refuses compatible size";
    CreateVolumeRefusesLongNames, "create-volume-refuses-long-names", "create volume refuses long names";
    CreateVolumeRefusesRepeats, "create-volume-refuses-repeats", "create volume refuses repeats";
    CreateVolumeRefusesUnicodeNames, "create-volume-refuses-unicode-names", "create volume refuses unicode names";
    CreateVolumeRepeatChangesContext, "create-volume-repeat-changes-context", "create volume repeat changes context";
    CreateVolumeRepeatChangesId, "create-volume-repeat-changes-id", "create volume repeat changes id";
    CreateVolumeRepeatDropsCapacity, "create-volume-repeat-drops-capacity", "create volume repeat drops capacity";
    CreateVolumeRepeatDropsContext, "create-volume-repeat-drops-context", "create volume repeat drops context";
    CreateVolumeRepeatDropsSource, "create-volume-repeat-drops-source", "create volume repeat drops source";
    CreateVolumeRepeatDropsTopology, "create-volume-repeat-drops-topology", "create volume repeat drops topology";
    CreateVolumeReusesIds, "create-volume-reuses-ids", "create volume reuses ids";
    CreateVolumeReversesPreferred, "create-volume-reverses-preferred", "create volume reverses preferred";
    CreateVolumeRoundsDown, "create-volume-rounds-down", "create volume rounds down";
    CreateVolumeShrinksSource, "create-volume-shrinks-source", "create volume shrinks source";
    CreateVolumeSourceDataLost, "create-volume-source-data-lost", "create volume source data lost";
    CreateVolumeTrimsNames, "create-volume-trims-names", "create volume trims names";
    CreateVolumeTruncatesNames, "create-volume-truncates-names", "create volume truncates names";
    CreateVolumeTruncatesToSource, "create-volume-truncates-to-source", "create volume truncates to source";

    // Volumes as reported.
    ConditionMessageEmpty, "condition-message-empty", "condition message empty";
    VolumeTopologyKeyInvalid, "volume-topology-key-invalid", "volume topology key invalid";
    VolumeTopologyKeyPrefixDiffers, "volume-topology-key-prefix-differs", "volume topology key prefix differs";
    VolumeTopologyKeyPrefixUpperCase, "volume-topology-key-prefix-upper-case", "volume topology key prefix upper case";
    VolumeTopologyKeysDifferInCase, "volume-topology-keys-differ-in-case", "volume topology keys differ in case";
    VolumeTopologyMissing, "volume-topology-missing", "volume topology missing";
    VolumeTopologyValueEmpty, "volume-topology-value-empty", "volume topology value empty";
    VolumeTopologyValueTooLong, "volume-topology-value-too-long", "volume topology value too long";
    VolumeTopologyWithoutCapability, "volume-topology-without-capability", "volume topology without capability";

    // DeleteVolume.
    DeleteVolumeUnimplemented, "delete-volume-unimplemented", "DeleteVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    DeleteVolumeAcceptsEmptyId, "delete-volume-accepts-empty-id", "delete volume accepts empty id";
    DeleteVolumeCrashesOnPaths, "delete-volume-crashes-on-paths", "delete volume crashes on paths";
    DeleteVolumeDeletesInUse, "delete-volume-deletes-in-use", "delete volume deletes in use";
    DeleteVolumeDeletesSnapshots, "delete-volume-deletes-snapshots", "delete volume deletes snapshots";
    DeleteVolumeInUseAsInternal, "delete-volume-in-use-as-internal", "delete volume in use as internal";
    DeleteVolumeKeepsName, "delete-volume-keeps-name", "delete volume keeps name";
    DeleteVolumeKeepsVolume, "delete-volume-keeps-volume", "delete volume keeps volume";
    DeleteVolumeUnknownInternal, "delete-volume-unknown-internal", "delete volume unknown internal";
    DeleteVolumeUnknownNotFound, "delete-volume-unknown-not-found", "delete volume unknown not found";
    DeleteVolumeWithSnapshotsAsInternal, "delete-volume-with-snapshots-as-internal", "delete volume with snapshots as internal";

    // ControllerPublishVolume.
    ControllerPublishVolumeUnimplemented, "controller-publish-volume-unimplemented", "ControllerPublishVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    ControllerPublishAcceptsAnyCapability, "controller-publish-accepts-any-capability", "controller publish accepts any capability";
    ControllerPublishAcceptsMissingCapability, "controller-publish-accepts-missing-capability", "controller publish accepts missing capability";
    ControllerPublishContextChanges, "controller-publish-context-changes", "controller publish context changes";
    ControllerPublishContextHoldsSecrets, "controller-publish-context-holds-secrets", "controller publish context holds secrets";
    ControllerPublishContextTooLarge, "controller-publish-context-too-large", "controller publish context too large";
    ControllerPublishEmptyNodeIdAsNotFound, "controller-publish-empty-node-id-as-not-found", "controller publish empty node id as not found";
    ControllerPublishEmptyVolumeIdAsNotFound, "controller-publish-empty-volume-id-as-not-found", "controller publish empty volume id as not found";
    ControllerPublishForgetsOwnNode, "controller-publish-forgets-own-node", "controller publish forgets own node";
    ControllerPublishIgnoresAccessMode, "controller-publish-ignores-access-mode", "controller publish ignores access mode";
    ControllerPublishIgnoresCapabilityConflict, "controller-publish-ignores-capability-conflict", "controller publish ignores capability conflict";
    ControllerPublishIgnoresLimit, "controller-publish-ignores-limit", "controller publish ignores limit";
    ControllerPublishIgnoresReadonlyConflict, "controller-publish-ignores-readonly-conflict", "controller publish ignores readonly conflict";
    ControllerPublishLimitAsInternal, "controller-publish-limit-as-internal", "controller publish limit as internal";
    ControllerPublishNotFoundAsInternal, "controller-publish-not-found-as-internal", "controller publish not found as internal";
    ControllerPublishNotRecorded, "controller-publish-not-recorded", "controller publish not recorded";
    ControllerPublishOtherNodeNotNamed, "controller-publish-other-node-not-named", "controller publish other node not named";
    ControllerPublishPanicsWithoutCapability, "controller-publish-panics-without-capability", "controller publish panics without capability";
    ControllerPublishRefusesRepeats, "controller-publish-refuses-repeats", "controller publish refuses repeats";
    ControllerPublishRefusesSecondNode, "controller-publish-refuses-second-node", "controller publish refuses second node";
    ControllerPublishRepeatAsFailedPrecondition, "controller-publish-repeat-as-failed-precondition", "controller publish repeat as failed precondition";
    ControllerPublishUnknownNodeOk, "controller-publish-unknown-node-ok", "controller publish unknown node ok";
    ControllerPublishUnknownVolumeOk, "controller-publish-unknown-volume-ok", "controller publish unknown volume ok";

    // ControllerUnpublishVolume.
    ControllerUnpublishVolumeUnimplemented, "controller-unpublish-volume-unimplemented", "ControllerUnpublishVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    ControllerUnpublishAcceptsEmptyId, "controller-unpublish-accepts-empty-id", "controller unpublish accepts empty id";
    ControllerUnpublishDemandsNode, "controller-unpublish-demands-node", "controller unpublish demands node";
    ControllerUnpublishDetachesAllNodes, "controller-unpublish-detaches-all-nodes", "controller unpublish detaches all nodes";
    ControllerUnpublishIgnoresMissingNode, "controller-unpublish-ignores-missing-node", "controller unpublish ignores missing node";
    ControllerUnpublishKeepsAttachment, "controller-unpublish-keeps-attachment", "controller unpublish keeps attachment";
    ControllerUnpublishRefusesRepeats, "controller-unpublish-refuses-repeats", "controller unpublish refuses repeats";
    ControllerUnpublishRepeatAsNotFound, "controller-unpublish-repeat-as-not-found", "controller unpublish repeat as not found";
    ControllerUnpublishUnknownAsInternal, "controller-unpublish-unknown-as-internal", "controller unpublish unknown as internal";

    // ValidateVolumeCapabilities.
    ValidateVolumeCapabilitiesUnimplemented, "validate-volume-capabilities-unimplemented", "ValidateVolumeCapabilities answers UNIMPLEMENTED although it is mandatory or advertised";
    ValidateAcceptsMissingAccessType, "validate-accepts-missing-access-type", "validate accepts missing access type";
    ValidateAcceptsMissingCapabilities, "validate-accepts-missing-capabilities", "validate accepts missing capabilities";
    ValidateAcceptsUnknownAccessMode, "validate-accepts-unknown-access-mode", "validate accepts unknown access mode";
    ValidateChecksFirstCapabilityOnly, "validate-checks-first-capability-only", "validate checks first capability only";
    ValidateConfirmsEverything, "validate-confirms-everything", "validate confirms everything";
    ValidateConfirmsOtherCapabilities, "validate-confirms-other-capabilities", "validate confirms other capabilities";
    ValidateConfirmsOtherContext, "validate-confirms-other-context", "validate confirms other context";
    ValidateConfirmsWithoutCapabilities, "validate-confirms-without-capabilities", "validate confirms without capabilities";
    ValidateEmptyIdAsNotFound, "validate-empty-id-as-not-found", "validate empty id as not found";
    ValidateIgnoresVolume, "validate-ignores-volume", "validate ignores volume";
    ValidateNeverConfirms, "validate-never-confirms", "validate never confirms";
    ValidateUnknownVolumeConfirmed, "validate-unknown-volume-confirmed", "validate unknown volume confirmed";
    ValidateUnknownVolumeOk, "validate-unknown-volume-ok", "validate unknown volume ok";
    ValidateUnsupportedAsInternal, "validate-unsupported-as-internal", "validate unsupported as internal";

    // ListVolumes.
    ListVolumesUnimplemented, "list-volumes-unimplemented", "ListVolumes answers UNIMPLEMENTED although it is mandatory or advertised";
    ListVolumesAcceptsAnyToken, "list-volumes-accepts-any-token", "list volumes accepts any token";
    ListVolumesAcceptsNegativeMax, "list-volumes-accepts-negative-max", "list volumes accepts negative max";
    ListVolumesDropsContext, "list-volumes-drops-context", "list volumes drops context";
    ListVolumesEmptyOnError, "list-volumes-empty-on-error", "list volumes empty on error";
    ListVolumesEntryWithoutVolume, "list-volumes-entry-without-volume", "list volumes entry without volume";
    ListVolumesEntryWithoutVolumeId, "list-volumes-entry-without-volume-id", "list volumes entry without volume id";
    ListVolumesIgnoresMaxEntries, "list-volumes-ignores-max-entries", "list volumes ignores max entries";
    ListVolumesIgnoresToken, "list-volumes-ignores-token", "list volumes ignores token";
    ListVolumesInvalidTokenAsInvalidArgument, "list-volumes-invalid-token-as-invalid-argument", "list volumes invalid token as invalid argument";
    ListVolumesNeverSetsNextToken, "list-volumes-never-sets-next-token", "list volumes never sets next token";
    ListVolumesOmitsCondition, "list-volumes-omits-condition", "list volumes omits condition";
    ListVolumesOmitsCopies, "list-volumes-omits-copies", "list volumes omits copies";
    ListVolumesOmitsPublishedNodes, "list-volumes-omits-published-nodes", "list volumes omits published nodes";
    ListVolumesOmitsStatus, "list-volumes-omits-status", "list volumes omits status";
    ListVolumesOneEntryTooMany, "list-volumes-one-entry-too-many", "list volumes one entry too many";
    ListVolumesPanicsOnNegativeMax, "list-volumes-panics-on-negative-max", "list volumes panics on negative max";
    ListVolumesPanicsOnNumericToken, "list-volumes-panics-on-numeric-token", "list volumes panics on numeric token";
    ListVolumesRepeatsFirstEntry, "list-volumes-repeats-first-entry", "list volumes repeats first entry";
    ListVolumesSkipsLastOfPage, "list-volumes-skips-last-of-page", "list volumes skips last of page";
    ListVolumesStaleCapacity, "list-volumes-stale-capacity", "list volumes stale capacity";
    ListVolumesTokenOnLastPage, "list-volumes-token-on-last-page", "list volumes token on last page";
    ListVolumesZeroMaxMeansOne, "list-volumes-zero-max-means-one", "list volumes zero max means one";

    // GetCapacity.
    GetCapacityUnimplemented, "get-capacity-unimplemented", "GetCapacity answers UNIMPLEMENTED although it is mandatory or advertised";
    GetCapacityConstant, "get-capacity-constant", "get capacity constant";
    GetCapacityFails, "get-capacity-fails", "get capacity fails";
    GetCapacityHidesSizeLimits, "get-capacity-hides-size-limits", "get capacity hides size limits";
    GetCapacityIgnoresCapabilities, "get-capacity-ignores-capabilities", "get capacity ignores capabilities";
    GetCapacityIgnoresParameters, "get-capacity-ignores-parameters", "get capacity ignores parameters";
    GetCapacityIgnoresTopology, "get-capacity-ignores-topology", "get capacity ignores topology";
    GetCapacityMaximumNegative, "get-capacity-maximum-negative", "get capacity maximum negative";
    GetCapacityMaximumTooSmall, "get-capacity-maximum-too-small", "get capacity maximum too small";
    GetCapacityMinimumAboveMaximum, "get-capacity-minimum-above-maximum", "get capacity minimum above maximum";
    GetCapacityMinimumNegative, "get-capacity-minimum-negative", "get capacity minimum negative";
    GetCapacityNegative, "get-capacity-negative", "get capacity negative";

    // ControllerGetCapabilities.
    ControllerGetCapabilitiesUnimplemented, "controller-get-capabilities-unimplemented", "ControllerGetCapabilities answers UNIMPLEMENTED although it is mandatory or advertised";
    ControllerGetCapabilitiesEmptyEntry, "controller-get-capabilities-empty-entry", "controller get capabilities empty entry";
    ControllerGetCapabilitiesHidesExpand, "controller-get-capabilities-hides-expand", "controller get capabilities hides expand";
    ControllerGetCapabilitiesHidesPublish, "controller-get-capabilities-hides-publish", "controller get capabilities hides publish";
    ControllerGetCapabilitiesUnknownType, "controller-get-capabilities-unknown-type", "controller get capabilities unknown type";

    // CreateSnapshot.
    CreateSnapshotUnimplemented, "create-snapshot-unimplemented", "CreateSnapshot answers UNIMPLEMENTED although it is mandatory or advertised";
    CreateSnapshotAcceptsEmptyName, "create-snapshot-accepts-empty-name", "create snapshot accepts empty name";
    CreateSnapshotAnswersWithoutSnapshot, "create-snapshot-answers-without-snapshot", "create snapshot answers without snapshot";
    CreateSnapshotConflictAsInternal, "create-snapshot-conflict-as-internal", "create snapshot conflict as internal";
    CreateSnapshotEmptySourceAsNotFound, "create-snapshot-empty-source-as-not-found", "create snapshot empty source as not found";
    CreateSnapshotForgetsNames, "create-snapshot-forgets-names", "create snapshot forgets names";
    CreateSnapshotIgnoresMissingSource, "create-snapshot-ignores-missing-source", "create snapshot ignores missing source";
    CreateSnapshotIgnoresSourceConflict, "create-snapshot-ignores-source-conflict", "create snapshot ignores source conflict";
    CreateSnapshotIgnoresUnknownParameters, "create-snapshot-ignores-unknown-parameters", "create snapshot ignores unknown parameters";
    CreateSnapshotRefusesLongNames, "create-snapshot-refuses-long-names", "create snapshot refuses long names";
    CreateSnapshotRefusesRepeats, "create-snapshot-refuses-repeats", "create snapshot refuses repeats";
    CreateSnapshotRefusesUnicodeNames, "create-snapshot-refuses-unicode-names", "create snapshot refuses unicode names";
    CreateSnapshotRepeatChangesId, "create-snapshot-repeat-changes-id", "create snapshot repeat changes id";
    CreateSnapshotRepeatChangesTime, "create-snapshot-repeat-changes-time", "create snapshot repeat changes time";
    CreateSnapshotRepeatDropsSize, "create-snapshot-repeat-drops-size", "create snapshot repeat drops size";
    CreateSnapshotUnknownSourceAsInternal, "create-snapshot-unknown-source-as-internal", "create snapshot unknown source as internal";

    // Snapshots as reported.
    SnapshotGroupIdMissing, "snapshot-group-id-missing", "snapshot group id missing";
    SnapshotNeverReady, "snapshot-never-ready", "snapshot never ready";
    SnapshotSizeNegative, "snapshot-size-negative", "snapshot size negative";
    SnapshotWithoutCreationTime, "snapshot-without-creation-time", "snapshot without creation time";
    SnapshotWithoutId, "snapshot-without-id", "snapshot without id";
    SnapshotWithoutSource, "snapshot-without-source", "snapshot without source";

    // DeleteSnapshot.
    DeleteSnapshotUnimplemented, "delete-snapshot-unimplemented", "DeleteSnapshot answers UNIMPLEMENTED although it is mandatory or advertised";
    DeleteSnapshotAcceptsEmptyId, "delete-snapshot-accepts-empty-id", "delete snapshot accepts empty id";
    DeleteSnapshotDeletesVolume, "delete-snapshot-deletes-volume", "delete snapshot deletes volume";
    DeleteSnapshotGroupMemberAsInternal, "delete-snapshot-group-member-as-internal", "delete snapshot group member as internal";
    DeleteSnapshotInUseAsInternal, "delete-snapshot-in-use-as-internal", "delete snapshot in use as internal";
    DeleteSnapshotKeepsSnapshot, "delete-snapshot-keeps-snapshot", "delete snapshot keeps snapshot";
    DeleteSnapshotUnknownNotFound, "delete-snapshot-unknown-not-found", "delete snapshot unknown not found";

    // ListSnapshots.
    ListSnapshotsUnimplemented, "list-snapshots-unimplemented", "ListSnapshots answers UNIMPLEMENTED although it is mandatory or advertised";
    ListSnapshotsAcceptsAnyToken, "list-snapshots-accepts-any-token", "list snapshots accepts any token";
    ListSnapshotsAcceptsNegativeMax, "list-snapshots-accepts-negative-max", "list snapshots accepts negative max";
    ListSnapshotsDropsSize, "list-snapshots-drops-size", "list snapshots drops size";
    ListSnapshotsEntryWithoutSnapshot, "list-snapshots-entry-without-snapshot", "list snapshots entry without snapshot";
    ListSnapshotsHidesUnready, "list-snapshots-hides-unready", "list snapshots hides unready";
    ListSnapshotsIgnoresIdFilter, "list-snapshots-ignores-id-filter", "list snapshots ignores id filter";
    ListSnapshotsIgnoresMaxEntries, "list-snapshots-ignores-max-entries", "list snapshots ignores max entries";
    ListSnapshotsIgnoresSourceFilter, "list-snapshots-ignores-source-filter", "list snapshots ignores source filter";
    ListSnapshotsIgnoresToken, "list-snapshots-ignores-token", "list snapshots ignores token";
    ListSnapshotsInvalidTokenAsInvalidArgument, "list-snapshots-invalid-token-as-invalid-argument", "list snapshots invalid token as invalid argument";
    ListSnapshotsJoinsFilters, "list-snapshots-joins-filters", "list snapshots joins filters";
    ListSnapshotsNeverSetsNextToken, "list-snapshots-never-sets-next-token", "list snapshots never sets next token";
    ListSnapshotsOmitsGroupMembers, "list-snapshots-omits-group-members", "list snapshots omits group members";
    ListSnapshotsOnePerSource, "list-snapshots-one-per-source", "list snapshots one per source";
    ListSnapshotsPanicsOnNegativeMax, "list-snapshots-panics-on-negative-max", "list snapshots panics on negative max";
    ListSnapshotsSkipsLastOfPage, "list-snapshots-skips-last-of-page", "list snapshots skips last of page";
    ListSnapshotsStaleReady, "list-snapshots-stale-ready", "list snapshots stale ready";
    ListSnapshotsTokenOnLastPage, "list-snapshots-token-on-last-page", "list snapshots token on last page";
    ListSnapshotsUnknownFilterNotFound, "list-snapshots-unknown-filter-not-found", "list snapshots unknown filter not found";

    // GetSnapshot.
    GetSnapshotUnimplemented, "get-snapshot-unimplemented", "GetSnapshot answers UNIMPLEMENTED although it is mandatory or advertised";
    GetSnapshotEmptyIdAsNotFound, "get-snapshot-empty-id-as-not-found", "get snapshot empty id as not found";
    GetSnapshotHidesUnready, "get-snapshot-hides-unready", "get snapshot hides unready";
    GetSnapshotOtherId, "get-snapshot-other-id", "get snapshot other id";
    GetSnapshotUnknownOk, "get-snapshot-unknown-ok", "get snapshot unknown ok";
    GetSnapshotWithoutSnapshot, "get-snapshot-without-snapshot", "get snapshot without snapshot";

    // ControllerExpandVolume.
    ControllerExpandVolumeUnimplemented, "controller-expand-volume-unimplemented", "ControllerExpandVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    ControllerExpandAcceptsAnySize, "controller-expand-accepts-any-size", "controller expand accepts any size";
    ControllerExpandAcceptsEmptyRange, "controller-expand-accepts-empty-range", "controller expand accepts empty range";
    ControllerExpandAcceptsMissingRange, "controller-expand-accepts-missing-range", "controller expand accepts missing range";
    ControllerExpandAcceptsNegativeSize, "controller-expand-accepts-negative-size", "controller expand accepts negative size";
    ControllerExpandAnswersOldSize, "controller-expand-answers-old-size", "controller expand answers old size";
    ControllerExpandAnswersZero, "controller-expand-answers-zero", "controller expand answers zero";
    ControllerExpandChangesNothing, "controller-expand-changes-nothing", "controller expand changes nothing";
    ControllerExpandDemandsCapability, "controller-expand-demands-capability", "controller expand demands capability";
    ControllerExpandEmptyIdAsNotFound, "controller-expand-empty-id-as-not-found", "controller expand empty id as not found";
    ControllerExpandExceedsLimit, "controller-expand-exceeds-limit", "controller expand exceeds limit";
    ControllerExpandIgnoresCapability, "controller-expand-ignores-capability", "controller expand ignores capability";
    ControllerExpandIgnoresUse, "controller-expand-ignores-use", "controller expand ignores use";
    ControllerExpandInUseAsInternal, "controller-expand-in-use-as-internal", "controller expand in use as internal";
    ControllerExpandNodeExpansionAlwaysRequired, "controller-expand-node-expansion-always-required", "controller expand node expansion always required";
    ControllerExpandNodeExpansionNotRequired, "controller-expand-node-expansion-not-required", "controller expand node expansion not required";
    ControllerExpandOutOfRangeAsInternal, "controller-expand-out-of-range-as-internal", "controller expand out of range as internal";
    ControllerExpandPanicsWithoutRange, "controller-expand-panics-without-range", "controller expand panics without range";
    ControllerExpandRefusesOnline, "controller-expand-refuses-online", "controller expand refuses online";
    ControllerExpandRefusesRepeats, "controller-expand-refuses-repeats", "controller expand refuses repeats";
    ControllerExpandShrinks, "controller-expand-shrinks", "controller expand shrinks";
    ControllerExpandUnknownOk, "controller-expand-unknown-ok", "controller expand unknown ok";

    // ControllerGetVolume.
    ControllerGetVolumeUnimplemented, "controller-get-volume-unimplemented", "ControllerGetVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    ControllerGetVolumeDropsContext, "controller-get-volume-drops-context", "controller get volume drops context";
    ControllerGetVolumeEmptyIdAsNotFound, "controller-get-volume-empty-id-as-not-found", "controller get volume empty id as not found";
    ControllerGetVolumeOmitsCondition, "controller-get-volume-omits-condition", "controller get volume omits condition";
    ControllerGetVolumeOmitsPublishedNodes, "controller-get-volume-omits-published-nodes", "controller get volume omits published nodes";
    ControllerGetVolumeOmitsStatus, "controller-get-volume-omits-status", "controller get volume omits status";
    ControllerGetVolumeOtherId, "controller-get-volume-other-id", "controller get volume other id";
    ControllerGetVolumeStaleCapacity, "controller-get-volume-stale-capacity", "controller get volume stale capacity";
    ControllerGetVolumeUnknownOk, "controller-get-volume-unknown-ok", "controller get volume unknown ok";
    ControllerGetVolumeWithoutVolume, "controller-get-volume-without-volume", "controller get volume without volume";

    // ControllerModifyVolume.
    ControllerModifyVolumeUnimplemented, "controller-modify-volume-unimplemented", "ControllerModifyVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    ControllerModifyAcceptsMissingParameters, "controller-modify-accepts-missing-parameters", "controller modify accepts missing parameters";
    ControllerModifyAcceptsUnknownKeys, "controller-modify-accepts-unknown-keys", "controller modify accepts unknown keys";
    ControllerModifyAppliesBeforeChecking, "controller-modify-applies-before-checking", "controller modify applies before checking";
    ControllerModifyChangesContext, "controller-modify-changes-context", "controller modify changes context";
    ControllerModifyChangesNothing, "controller-modify-changes-nothing", "controller modify changes nothing";
    ControllerModifyEmptyIdAsNotFound, "controller-modify-empty-id-as-not-found", "controller modify empty id as not found";
    ControllerModifyRefusesRepeats, "controller-modify-refuses-repeats", "controller modify refuses repeats";
    ControllerModifyRefusesUpdates, "controller-modify-refuses-updates", "controller modify refuses updates";
    ControllerModifyUnknownOk, "controller-modify-unknown-ok", "controller modify unknown ok";

    // GroupControllerGetCapabilities.
    GroupControllerGetCapabilitiesUnimplemented, "group-controller-get-capabilities-unimplemented", "GroupControllerGetCapabilities answers UNIMPLEMENTED although it is mandatory or advertised";
    GroupControllerGetCapabilitiesEmptyEntry, "group-controller-get-capabilities-empty-entry", "group controller get capabilities empty entry";
    GroupControllerGetCapabilitiesUnknownType, "group-controller-get-capabilities-unknown-type", "group controller get capabilities unknown type";

    // CreateVolumeGroupSnapshot.
    CreateVolumeGroupSnapshotUnimplemented, "create-volume-group-snapshot-unimplemented", "CreateVolumeGroupSnapshot answers UNIMPLEMENTED although it is mandatory or advertised";
    CreateGroupSnapshotAcceptsEmptyName, "create-group-snapshot-accepts-empty-name", "create group snapshot accepts empty name";
    CreateGroupSnapshotAcceptsMissingSources, "create-group-snapshot-accepts-missing-sources", "create group snapshot accepts missing sources";
    CreateGroupSnapshotAnswersWithoutGroup, "create-group-snapshot-answers-without-group", "create group snapshot answers without group";
    CreateGroupSnapshotDropsLastSource, "create-group-snapshot-drops-last-source", "create group snapshot drops last source";
    CreateGroupSnapshotForgetsNames, "create-group-snapshot-forgets-names", "create group snapshot forgets names";
    CreateGroupSnapshotIgnoresMissingSource, "create-group-snapshot-ignores-missing-source", "create group snapshot ignores missing source";
    CreateGroupSnapshotIgnoresParameterConflict, "create-group-snapshot-ignores-parameter-conflict", "create group snapshot ignores parameter conflict";
    CreateGroupSnapshotIgnoresSourceConflict, "create-group-snapshot-ignores-source-conflict", "create group snapshot ignores source conflict";
    CreateGroupSnapshotIgnoresUnknownParameters, "create-group-snapshot-ignores-unknown-parameters", "create group snapshot ignores unknown parameters";
    CreateGroupSnapshotLeaksMembers, "create-group-snapshot-leaks-members", "create group snapshot leaks members";
    CreateGroupSnapshotMissingSourceAsInternal, "create-group-snapshot-missing-source-as-internal", "create group snapshot missing source as internal";
    CreateGroupSnapshotRefusesRepeats, "create-group-snapshot-refuses-repeats", "create group snapshot refuses repeats";
    CreateGroupSnapshotRefusesUnicodeNames, "create-group-snapshot-refuses-unicode-names", "create group snapshot refuses unicode names";
    CreateGroupSnapshotRepeatDropsMembers, "create-group-snapshot-repeat-drops-members", "create group snapshot repeat drops members";

    // Group snapshots as reported.
    GroupSnapshotAcceptsMissingMembers, "group-snapshot-accepts-missing-members", "group snapshot accepts missing members";
    GroupSnapshotIgnoresMemberMismatch, "group-snapshot-ignores-member-mismatch", "group snapshot ignores member mismatch";
    GroupSnapshotMemberMismatchAsInternal, "group-snapshot-member-mismatch-as-internal", "group snapshot member mismatch as internal";
    GroupSnapshotMembersOfOtherGroup, "group-snapshot-members-of-other-group", "group snapshot members of other group";
    GroupSnapshotMembersWithoutGroup, "group-snapshot-members-without-group", "group snapshot members without group";
    GroupSnapshotNeverReady, "group-snapshot-never-ready", "group snapshot never ready";
    GroupSnapshotReadyTooEarly, "group-snapshot-ready-too-early", "group snapshot ready too early";
    GroupSnapshotWithoutCreationTime, "group-snapshot-without-creation-time", "group snapshot without creation time";
    GroupSnapshotWithoutId, "group-snapshot-without-id", "group snapshot without id";
    GroupSnapshotWithoutMembers, "group-snapshot-without-members", "group snapshot without members";

    // DeleteVolumeGroupSnapshot.
    DeleteVolumeGroupSnapshotUnimplemented, "delete-volume-group-snapshot-unimplemented", "DeleteVolumeGroupSnapshot answers UNIMPLEMENTED although it is mandatory or advertised";
    DeleteGroupSnapshotAcceptsEmptyId, "delete-group-snapshot-accepts-empty-id", "delete group snapshot accepts empty id";
    DeleteGroupSnapshotKeepsGroup, "delete-group-snapshot-keeps-group", "delete group snapshot keeps group";
    DeleteGroupSnapshotKeepsMembers, "delete-group-snapshot-keeps-members", "delete group snapshot keeps members";
    DeleteGroupSnapshotUnknownNotFound, "delete-group-snapshot-unknown-not-found", "delete group snapshot unknown not found";

    // GetVolumeGroupSnapshot.
    GetVolumeGroupSnapshotUnimplemented, "get-volume-group-snapshot-unimplemented", "GetVolumeGroupSnapshot answers UNIMPLEMENTED although it is mandatory or advertised";
    GetGroupSnapshotEmptyIdAsNotFound, "get-group-snapshot-empty-id-as-not-found", "get group snapshot empty id as not found";
    GetGroupSnapshotOtherId, "get-group-snapshot-other-id", "get group snapshot other id";
    GetGroupSnapshotUnknownOk, "get-group-snapshot-unknown-ok", "get group snapshot unknown ok";
    GetGroupSnapshotWithoutGroup, "get-group-snapshot-without-group", "get group snapshot without group";

    // GetMetadataAllocated.
    GetMetadataAllocatedUnimplemented, "get-metadata-allocated-unimplemented", "GetMetadataAllocated answers UNIMPLEMENTED although it is mandatory or advertised";
    GetMetadataAllocatedEmptyIdAsNotFound, "get-metadata-allocated-empty-id-as-not-found", "get metadata allocated empty id as not found";
    GetMetadataAllocatedUnknownOk, "get-metadata-allocated-unknown-ok", "get metadata allocated unknown ok";

    // GetMetadataDelta.
    GetMetadataDeltaUnimplemented, "get-metadata-delta-unimplemented", "GetMetadataDelta answers UNIMPLEMENTED although it is mandatory or advertised";
    GetMetadataDeltaAnswersAllocated, "get-metadata-delta-answers-allocated", "get metadata delta answers allocated";
    GetMetadataDeltaAnswersNothing, "get-metadata-delta-answers-nothing", "get metadata delta answers nothing";
    GetMetadataDeltaEmptyIdAsNotFound, "get-metadata-delta-empty-id-as-not-found", "get metadata delta empty id as not found";
    GetMetadataDeltaMixesVolumes, "get-metadata-delta-mixes-volumes", "get metadata delta mixes volumes";
    GetMetadataDeltaUnknownOk, "get-metadata-delta-unknown-ok", "get metadata delta unknown ok";

    // Block metadata of both kinds.
    GetMetadataAcceptsAnyOffset, "get-metadata-accepts-any-offset", "get metadata accepts any offset";
    GetMetadataCapacityChanges, "get-metadata-capacity-changes", "get metadata capacity changes";
    GetMetadataCapacityZero, "get-metadata-capacity-zero", "get metadata capacity zero";
    GetMetadataEmptyRanges, "get-metadata-empty-ranges", "get metadata empty ranges";
    GetMetadataEndsEarly, "get-metadata-ends-early", "get metadata ends early";
    GetMetadataIgnoresMaxResults, "get-metadata-ignores-max-results", "get metadata ignores max results";
    GetMetadataIgnoresOffset, "get-metadata-ignores-offset", "get metadata ignores offset";
    GetMetadataOffsetAsInternal, "get-metadata-offset-as-internal", "get metadata offset as internal";
    GetMetadataOverlaps, "get-metadata-overlaps", "get metadata overlaps";
    GetMetadataResumeSkipsBlock, "get-metadata-resume-skips-block", "get metadata resume skips block";
    GetMetadataSizesVary, "get-metadata-sizes-vary", "get metadata sizes vary";
    GetMetadataTypeChanges, "get-metadata-type-changes", "get metadata type changes";
    GetMetadataTypeUnknown, "get-metadata-type-unknown", "get metadata type unknown";
    GetMetadataUnordered, "get-metadata-unordered", "get metadata unordered";

    // NodeStageVolume.
    NodeStageVolumeUnimplemented, "node-stage-volume-unimplemented", "NodeStageVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeStageAcceptsAnyCapability, "node-stage-accepts-any-capability", "node stage accepts any capability";
    NodeStageAcceptsMissingCapability, "node-stage-accepts-missing-capability", "node stage accepts missing capability";
    NodeStageAcceptsMissingPath, "node-stage-accepts-missing-path", "node stage accepts missing path";
    NodeStageConflictAsInternal, "node-stage-conflict-as-internal", "node stage conflict as internal";
    NodeStageEmptyIdAsNotFound, "node-stage-empty-id-as-not-found", "node stage empty id as not found";
    NodeStageIgnoresCapabilityConflict, "node-stage-ignores-capability-conflict", "node stage ignores capability conflict";
    NodeStageNotRecorded, "node-stage-not-recorded", "node stage not recorded";
    NodeStagePanicsWithoutCapability, "node-stage-panics-without-capability", "node stage panics without capability";
    NodeStageRefusesLongPaths, "node-stage-refuses-long-paths", "node stage refuses long paths";
    NodeStageRefusesRepeats, "node-stage-refuses-repeats", "node stage refuses repeats";
    NodeStageUnknownVolumeOk, "node-stage-unknown-volume-ok", "node stage unknown volume ok";

    // NodeUnstageVolume.
    NodeUnstageVolumeUnimplemented, "node-unstage-volume-unimplemented", "NodeUnstageVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeUnstageAcceptsEmptyId, "node-unstage-accepts-empty-id", "node unstage accepts empty id";
    NodeUnstageAcceptsMissingPath, "node-unstage-accepts-missing-path", "node unstage accepts missing path";
    NodeUnstageIgnoresPublished, "node-unstage-ignores-published", "node unstage ignores published";
    NodeUnstageKeepsStaging, "node-unstage-keeps-staging", "node unstage keeps staging";
    NodeUnstageRefusesRepeats, "node-unstage-refuses-repeats", "node unstage refuses repeats";
    NodeUnstageUnknownAsInternal, "node-unstage-unknown-as-internal", "node unstage unknown as internal";

    // NodePublishVolume.
    NodePublishVolumeUnimplemented, "node-publish-volume-unimplemented", "NodePublishVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    NodePublishAcceptsAnyCapability, "node-publish-accepts-any-capability", "node publish accepts any capability";
    NodePublishAcceptsMissingCapability, "node-publish-accepts-missing-capability", "node publish accepts missing capability";
    NodePublishAcceptsMissingPath, "node-publish-accepts-missing-path", "node publish accepts missing path";
    NodePublishAcceptsMissingStaging, "node-publish-accepts-missing-staging", "node publish accepts missing staging";
    NodePublishAcceptsUnstaged, "node-publish-accepts-unstaged", "node publish accepts unstaged";
    NodePublishConflictAsInternal, "node-publish-conflict-as-internal", "node publish conflict as internal";
    NodePublishEmptyIdAsNotFound, "node-publish-empty-id-as-not-found", "node publish empty id as not found";
    NodePublishIgnoresAccessMode, "node-publish-ignores-access-mode", "node publish ignores access mode";
    NodePublishIgnoresCapabilityConflict, "node-publish-ignores-capability-conflict", "node publish ignores capability conflict";
    NodePublishIgnoresReadonlyConflict, "node-publish-ignores-readonly-conflict", "node publish ignores readonly conflict";
    NodePublishMakesNothing, "node-publish-makes-nothing", "node publish makes nothing";
    NodePublishMakesParents, "node-publish-makes-parents", "node publish makes parents";
    NodePublishMissingStagingAsInvalidArgument, "node-publish-missing-staging-as-invalid-argument", "node publish missing staging as invalid argument";
    NodePublishPanicsWithoutCapability, "node-publish-panics-without-capability", "node publish panics without capability";
    NodePublishRefusesExistingTarget, "node-publish-refuses-existing-target", "node publish refuses existing target";
    NodePublishRefusesLongPaths, "node-publish-refuses-long-paths", "node publish refuses long paths";
    NodePublishRefusesRepeats, "node-publish-refuses-repeats", "node publish refuses repeats";
    NodePublishRefusesSecondPath, "node-publish-refuses-second-path", "node publish refuses second path";
    NodePublishSecondPathAsInternal, "node-publish-second-path-as-internal", "node publish second path as internal";
    NodePublishUnknownVolumeOk, "node-publish-unknown-volume-ok", "node publish unknown volume ok";

    // NodeUnpublishVolume.
    NodeUnpublishVolumeUnimplemented, "node-unpublish-volume-unimplemented", "NodeUnpublishVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeUnpublishAcceptsEmptyId, "node-unpublish-accepts-empty-id", "node unpublish accepts empty id";
    NodeUnpublishAcceptsMissingPath, "node-unpublish-accepts-missing-path", "node unpublish accepts missing path";
    NodeUnpublishFailsOnBlock, "node-unpublish-fails-on-block", "node unpublish fails on block";
    NodeUnpublishKeepsPublication, "node-unpublish-keeps-publication", "node unpublish keeps publication";
    NodeUnpublishLeavesTarget, "node-unpublish-leaves-target", "node unpublish leaves target";
    NodeUnpublishRefusesRepeats, "node-unpublish-refuses-repeats", "node unpublish refuses repeats";
    NodeUnpublishUnknownAsInternal, "node-unpublish-unknown-as-internal", "node unpublish unknown as internal";
    NodeUnpublishUnstages, "node-unpublish-unstages", "node unpublish unstages";

    // NodeGetVolumeStats.
    NodeGetVolumeStatsUnimplemented, "node-get-volume-stats-unimplemented", "NodeGetVolumeStats answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeGetVolumeStatsAvailableNegative, "node-get-volume-stats-available-negative", "node get volume stats available negative";
    NodeGetVolumeStatsDemandsStagingPath, "node-get-volume-stats-demands-staging-path", "node get volume stats demands staging path";
    NodeGetVolumeStatsEmpty, "node-get-volume-stats-empty", "node get volume stats empty";
    NodeGetVolumeStatsEmptyIdAsNotFound, "node-get-volume-stats-empty-id-as-not-found", "node get volume stats empty id as not found";
    NodeGetVolumeStatsHangs, "node-get-volume-stats-hangs", "node get volume stats hangs";
    NodeGetVolumeStatsHidesLostTarget, "node-get-volume-stats-hides-lost-target", "node get volume stats hides lost target";
    NodeGetVolumeStatsIgnoresPath, "node-get-volume-stats-ignores-path", "node get volume stats ignores path";
    NodeGetVolumeStatsMissingPathAsNotFound, "node-get-volume-stats-missing-path-as-not-found", "node get volume stats missing path as not found";
    NodeGetVolumeStatsOmitsCondition, "node-get-volume-stats-omits-condition", "node get volume stats omits condition";
    NodeGetVolumeStatsRefusesStagingPath, "node-get-volume-stats-refuses-staging-path", "node get volume stats refuses staging path";
    NodeGetVolumeStatsSumExceedsTotal, "node-get-volume-stats-sum-exceeds-total", "node get volume stats sum exceeds total";
    NodeGetVolumeStatsTotalNegative, "node-get-volume-stats-total-negative", "node get volume stats total negative";
    NodeGetVolumeStatsTotalZero, "node-get-volume-stats-total-zero", "node get volume stats total zero";
    NodeGetVolumeStatsUnitUnknown, "node-get-volume-stats-unit-unknown", "node get volume stats unit unknown";
    NodeGetVolumeStatsUnknownOk, "node-get-volume-stats-unknown-ok", "node get volume stats unknown ok";
    NodeGetVolumeStatsUsedNegative, "node-get-volume-stats-used-negative", "node get volume stats used negative";
    NodeGetVolumeStatsWrongPathAsInternal, "node-get-volume-stats-wrong-path-as-internal", "node get volume stats wrong path as internal";

    // NodeExpandVolume.
    NodeExpandVolumeUnimplemented, "node-expand-volume-unimplemented", "NodeExpandVolume answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeExpandAcceptsAnySize, "node-expand-accepts-any-size", "node expand accepts any size";
    NodeExpandAnswersWrongSize, "node-expand-answers-wrong-size", "node expand answers wrong size";
    NodeExpandDemandsStagingPath, "node-expand-demands-staging-path", "node expand demands staging path";
    NodeExpandEmptyIdAsNotFound, "node-expand-empty-id-as-not-found", "node expand empty id as not found";
    NodeExpandIgnoresCapability, "node-expand-ignores-capability", "node expand ignores capability";
    NodeExpandIgnoresPath, "node-expand-ignores-path", "node expand ignores path";
    NodeExpandMissingPathAsNotFound, "node-expand-missing-path-as-not-found", "node expand missing path as not found";
    NodeExpandOutOfRangeAsInternal, "node-expand-out-of-range-as-internal", "node expand out of range as internal";
    NodeExpandRefusesRepeats, "node-expand-refuses-repeats", "node expand refuses repeats";
    NodeExpandRefusesStagingPath, "node-expand-refuses-staging-path", "node expand refuses staging path";
    NodeExpandUnknownOk, "node-expand-unknown-ok", "node expand unknown ok";

    // NodeGetCapabilities.
    NodeGetCapabilitiesUnimplemented, "node-get-capabilities-unimplemented", "NodeGetCapabilities answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeGetCapabilitiesChanges, "node-get-capabilities-changes", "node get capabilities changes";
    NodeGetCapabilitiesEmptyEntry, "node-get-capabilities-empty-entry", "node get capabilities empty entry";
    NodeGetCapabilitiesUnknownType, "node-get-capabilities-unknown-type", "node get capabilities unknown type";

    // NodeGetInfo.
    NodeGetInfoUnimplemented, "node-get-info-unimplemented", "NodeGetInfo answers UNIMPLEMENTED although it is mandatory or advertised";
    NodeGetInfoFails, "node-get-info-fails", "node get info fails";
    NodeGetInfoIdChanges, "node-get-info-id-changes", "node get info id changes";
    NodeGetInfoIdEmpty, "node-get-info-id-empty", "node get info id empty";
    NodeGetInfoIdLong, "node-get-info-id-long", "node get info id long";
    NodeGetInfoIdTooLong, "node-get-info-id-too-long", "node get info id too long";
    NodeGetInfoLimitNegative, "node-get-info-limit-negative", "node get info limit negative";
    NodeGetInfoOmitsTopology, "node-get-info-omits-topology", "node get info omits topology";
    NodeGetInfoTopologyKeyInvalid, "node-get-info-topology-key-invalid", "node get info topology key invalid";
    NodeGetInfoTopologyKeyTooLong, "node-get-info-topology-key-too-long", "node get info topology key too long";
    NodeGetInfoTopologyValueEmpty, "node-get-info-topology-value-empty", "node get info topology value empty";
    NodeGetInfoTopologyValueInvalid, "node-get-info-topology-value-invalid", "node get info topology value invalid";
    NodeGetInfoTopologyWithoutCapability, "node-get-info-topology-without-capability", "node get info topology without capability";
}

impl Defect {
    /// The defect that makes an RPC answer UNIMPLEMENTED.
    pub(crate) fn unimplemented(method: &str) -> Option<Self> {
        Some(match method {
            "GetPluginInfo" => Defect::GetPluginInfoUnimplemented,
            "GetPluginCapabilities" => Defect::GetPluginCapabilitiesUnimplemented,
            "Probe" => Defect::ProbeUnimplemented,
            "CreateVolume" => Defect::CreateVolumeUnimplemented,
            "DeleteVolume" => Defect::DeleteVolumeUnimplemented,
            "ControllerPublishVolume" => Defect::ControllerPublishVolumeUnimplemented,
            "ControllerUnpublishVolume" => Defect::ControllerUnpublishVolumeUnimplemented,
            "ValidateVolumeCapabilities" => Defect::ValidateVolumeCapabilitiesUnimplemented,
            "ListVolumes" => Defect::ListVolumesUnimplemented,
            "GetCapacity" => Defect::GetCapacityUnimplemented,
            "ControllerGetCapabilities" => Defect::ControllerGetCapabilitiesUnimplemented,
            "CreateSnapshot" => Defect::CreateSnapshotUnimplemented,
            "DeleteSnapshot" => Defect::DeleteSnapshotUnimplemented,
            "ListSnapshots" => Defect::ListSnapshotsUnimplemented,
            "GetSnapshot" => Defect::GetSnapshotUnimplemented,
            "ControllerExpandVolume" => Defect::ControllerExpandVolumeUnimplemented,
            "ControllerGetVolume" => Defect::ControllerGetVolumeUnimplemented,
            "ControllerModifyVolume" => Defect::ControllerModifyVolumeUnimplemented,
            "GroupControllerGetCapabilities" => Defect::GroupControllerGetCapabilitiesUnimplemented,
            "CreateVolumeGroupSnapshot" => Defect::CreateVolumeGroupSnapshotUnimplemented,
            "DeleteVolumeGroupSnapshot" => Defect::DeleteVolumeGroupSnapshotUnimplemented,
            "GetVolumeGroupSnapshot" => Defect::GetVolumeGroupSnapshotUnimplemented,
            "GetMetadataAllocated" => Defect::GetMetadataAllocatedUnimplemented,
            "GetMetadataDelta" => Defect::GetMetadataDeltaUnimplemented,
            "NodeStageVolume" => Defect::NodeStageVolumeUnimplemented,
            "NodeUnstageVolume" => Defect::NodeUnstageVolumeUnimplemented,
            "NodePublishVolume" => Defect::NodePublishVolumeUnimplemented,
            "NodeUnpublishVolume" => Defect::NodeUnpublishVolumeUnimplemented,
            "NodeGetVolumeStats" => Defect::NodeGetVolumeStatsUnimplemented,
            "NodeExpandVolume" => Defect::NodeExpandVolumeUnimplemented,
            "NodeGetCapabilities" => Defect::NodeGetCapabilitiesUnimplemented,
            "NodeGetInfo" => Defect::NodeGetInfoUnimplemented,
            _ => return None,
        })
    }
}
