//! The requirements that no check tests from outside, or only with warnings, and the reasons.

use csi_harness::spec::requirements::{Requirement, req};

/// The requirements without a check, sorted by id.
pub static UNTESTED: &[(&Requirement, &str)] = &[
    (&req::CTRL_CAPS_009, "the text of a condition is free"),
    (&req::CTRL_CREATESNAP_003, "the table says which code fits an error, and its rows are checked"),
    (&req::CTRL_CREATESNAP_005, "only ready_to_use shows whether a snapshot is still processed"),
    (&req::CTRL_CREATESNAP_007, "needs a back end that fails while it processes a snapshot"),
    (&req::CTRL_CREATESNAP_011, "only ready_to_use shows whether a snapshot is still processed"),
    (&req::CTRL_CREATESNAP_027, "needs a back end whose space for snapshots is used up"),
    (&req::CTRL_CREATESNAP_033, "needs a location whose storage is used up"),
    (&req::CTRL_CREATEVOL_006, "volume_context is opaque, so that it does not show which value a volume got"),
    (
        &req::CTRL_CREATEVOL_023,
        "a driver may ignore what it does not know, and only the driver knows which values are valid",
    ),
    (&req::CTRL_CREATEVOL_026, "documents are not visible over gRPC"),
    (&req::CTRL_CREATEVOL_046, "needs a location whose storage is used up"),
    (
        &req::CTRL_CREATEVOL_049,
        "CTRL-CREATEVOL-025 says where a volume made from a snapshot lies, and is checked",
    ),
    (
        &req::CTRL_GETHEALTH_010,
        "upstream callers send no secrets, but a driver may document that it needs some",
    ),
    (&req::CTRL_LISTHEALTH_009, "a driver may make pages as short as it likes"),
    (
        &req::CTRL_LISTHEALTH_015,
        "upstream callers send no secrets, but a driver may document that it needs some",
    ),
    (&req::CTRL_LISTSNAP_003, "the moment at which a snapshot is cut does not show from outside"),
    (&req::CTRL_NODEINFO_007, "needs a volume that is attached by other means than the driver"),
    (&req::CTRL_PUBLISH_020, "calls without publish_context cannot use it, and all others may need it"),
    (&req::GEN_ERR_006, "needs a valid identity of the back end that lacks a permission"),
    (
        &req::GEN_ERR_010,
        "wrong credentials can lock an account, and secrets may be keys that no login checks",
    ),
    (&req::GEN_RPC_001, "an RPC that is not registered answers as one that is not supported"),
    (&req::GEN_RPC_003, "on which nodes a plugin is deployed does not show at one endpoint"),
    (&req::GEN_SECRET_006, "documents are not visible over gRPC"),
    (
        &req::GEN_SKEW_002,
        "drivers that move from one version to the next send the fields of both, so the run only remarks on it",
    ),
    (&req::GROUP_CREATE_005, "only ready_to_use shows whether a group snapshot is still processed"),
    (&req::ID_PCAPS_019, "a node-only endpoint may advertise it for the controller elsewhere"),
    (&req::ID_PROBE_005, "documents are not visible over gRPC"),
    (&req::ID_PROBE_006, "needs a driver that is put into a broken state"),
    (&req::ID_PROBE_011, "needs a driver that is put into a broken state"),
    (&req::ID_PROBE_013, "needs a driver that is put into a broken state"),
    (&req::ID_PROBE_014, "needs a driver that is put into a broken state"),
    (&req::META_STREAM_002, "needs a back end that fails while it collects metadata"),
    (&req::MSG_HEALTH_016, "other checks use volumes, and so see whether a degraded one can be used"),
    (&req::MSG_TOPOLOGY_005, "a prefix does not show which company it belongs to"),
    (
        &req::MSG_TOPOREQ_010,
        "a place that was tried in vain looks like one that was not tried; MSG-TOPOREQ-014 warns",
    ),
    (
        &req::MSG_TOPOREQ_013,
        "a caller may ask only for topology that the plugin supports, and all of that may be met",
    ),
    (&req::MSG_TOPOREQ_015, "a combination that was tried in vain looks like one that was not tried"),
    (&req::MSG_TOPOREQ_017, "a place that was tried in vain looks like one that was not tried"),
    (
        &req::MSG_VOLCAP_007,
        "the tables of the publishing RPCs say what a mode rules out, and their rows are checked",
    ),
    (
        &req::MSG_VOLUME_009,
        "a sensitive value that is no secret of a request looks like any other; GEN-SECRET-001 is checked",
    ),
    (&req::MSG_VOLUME_010, "calls without volume_context cannot use it, and all others may need it"),
    (&req::NODE_EXPAND_022, "needs a file system that is known not to grow while it is in use"),
    (&req::NODE_HEALTH_007, "a path that is not absolute breaks a rule of the caller, and OK does no harm"),
    (&req::NODE_HEALTH_017, "needs a fault of one node out of several"),
    (&req::NODE_HEALTH_020, "needs a fault that stays over a restart of the driver"),
    (
        &req::NODE_INFO_004,
        "a driver that relies on a second call shows only where there is none, and each run has such calls",
    ),
    (
        &req::NODE_PUBLISH_002,
        "it does not show where a call runs, but NODE-PUBLISH-026 and -027 check that the volume is there",
    ),
    (
        &req::NODE_PUBLISH_009,
        "the tables after it ask for ALREADY_EXISTS or OK where it asks for FAILED_PRECONDITION",
    ),
    (
        &req::NODE_STAGE_002,
        "it does not show where a call runs, but NODE-PUBLISH-026 and -027 check that the volume is there",
    ),
    (
        &req::NODE_UNPUBLISH_005,
        "it does not show where a call runs, but NODE-UNPUBLISH-002 checks that the mount is gone",
    ),
    (
        &req::NODE_UNSTAGE_005,
        "it does not show where a call runs, but NODE-UNSTAGE-002 checks that the mount is gone",
    ),
    (
        &req::OPS_CONFIG_004,
        "it does not show who created the files next to the socket: others may use the directory",
    ),
    (
        &req::OPS_LIFE_007,
        "a command that starts a driver may name the address itself, which hides what CSI_ENDPOINT does",
    ),
    (&req::OPS_MODE_003, "only the driver knows which configuration is wrong"),
    (&req::PROTO_CONN_002, "a message in another encoding cannot be read, and so breaks the rule of its RPC"),
    (
        &req::PROTO_CONN_005,
        "a command that starts a driver may name the address itself, which hides what CSI_ENDPOINT does",
    ),
    (
        &req::PROTO_CONN_006,
        "an address of a test set-up says nothing of the one that an orchestrator will give",
    ),
    (
        &req::PROTO_CONN_007,
        "a driver may be deployed in parts; that a service is missing breaks the rule of its RPCs",
    ),
    (
        &req::PROTO_SEC_002,
        "an address of a test set-up says nothing of the one that an orchestrator will give",
    ),
];

/// The requirements that repeat others, through which they are checked, sorted by id.
pub static SAID_AGAIN: &[(&Requirement, &[&Requirement])] = &[
    (
        &req::CTRL_CREATEVOL_024,
        &[&req::MSG_VOLSOURCE_004, &req::MSG_VOLSOURCE_006, &req::CTRL_CREATESNAP_015],
    ),
    (&req::CTRL_GETSNAP_004, &[&req::CTRL_GETSNAP_010]),
    (&req::CTRL_GETVOL_005, &[&req::CTRL_GETVOL_015]),
    (&req::CTRL_INTERACT_005, &[&req::MSG_SNAPSHOT_003]),
    (&req::CTRL_LISTHEALTH_016, &[&req::MSG_HEALTH_001]),
    (&req::CTRL_LISTSNAP_008, &[&req::CTRL_LISTSNAP_002]),
    (&req::CTRL_LISTVOL_007, &[&req::CTRL_LISTVOL_002]),
    (&req::CTRL_PUBLISH_002, &[&req::NODE_STAGE_001, &req::NODE_PUBLISH_001]),
    (&req::CTRL_VALIDATE_013, &[&req::CTRL_VALIDATE_002]),
    (&req::GEN_ERR_008, &[&req::GEN_CONC_003]),
    (&req::GEN_ERR_009, &[&req::GEN_RPC_002]),
    (&req::GROUP_GET_004, &[&req::GROUP_GET_014]),
    (
        &req::META_FORMAT_001,
        &[&req::META_ALLOC_013, &req::META_ALLOC_014, &req::META_DELTA_015, &req::META_DELTA_016],
    ),
    (&req::META_FORMAT_006, &[&req::META_ALLOC_008, &req::META_DELTA_010]),
    (&req::MSG_CAPRANGE_002, &[&req::MSG_CAPRANGE_005, &req::MSG_CAPRANGE_008]),
    (&req::NODE_CAPS_004, &[&req::NODE_STATS_001]),
    (&req::NODE_CAPS_008, &[&req::NODE_PUBLISH_017]),
    (&req::NODE_CAPS_009, &[&req::MSG_VOLCAP_005]),
    (&req::NODE_PUBLISH_010, &[&req::NODE_PUBLISH_004]),
    (&req::NODE_PUBLISH_011, &[&req::NODE_PUBLISH_040]),
    (&req::NODE_PUBLISH_028, &[&req::NODE_PUBLISH_026, &req::NODE_PUBLISH_027]),
    (&req::NODE_STAGE_016, &[&req::NODE_STAGE_023]),
    (&req::PROTO_CONN_003, &[&req::GEN_RPC_005, &req::ID_PCAPS_001, &req::ID_PROBE_001]),
];

/// The binding requirements of which checks only warn, because an apparent violation may be none; sorted by id.
pub static ONLY_WARNED: &[(&Requirement, &str)] = &[
    (
        &req::CTRL_CAPACITY_002,
        "storage is shared and changes, and may be reported as 0 or rejected where nothing can be created",
    ),
    (
        &req::CTRL_CAPACITY_003,
        "storage is shared and changes, and only the driver knows what a parameter does",
    ),
    (&req::CTRL_EXPAND_014, "the field is optional, and a driver may leave it unread"),
    (&req::CTRL_PUBLISH_010, "a controller may leave it to the node to reject"),
    (
        &req::ID_PROBE_007,
        "it does not show what a starting driver still waits for, and a missing dependency is an error by ID-PROBE-014",
    ),
    (&req::MSG_USAGE_005, "only the driver knows what it needs to work well"),
    (
        &req::MSG_VOLCAP_002,
        "the text does not define who is not to be trusted, and the reader of the error may have sent the flags",
    ),
    (&req::NODE_EXPAND_020, "the field is optional, and a driver may leave it unread"),
    (&req::NODE_PUBLISH_039, "a node plugin without state cannot know which volumes exist"),
    (&req::NODE_STAGE_021, "a node plugin without state cannot know which volumes exist"),
    (&req::NODE_STAGE_023, "OK is wrong only if the volume cannot be used in that way, which no call shows"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> Vec<&'static Requirement> {
        let suite = crate::SUITE;
        suite.checks.iter().flat_map(|check| check.requirements.iter().copied()).collect()
    }

    #[test]
    fn rows_are_sorted_and_have_no_check() {
        assert!(UNTESTED.is_sorted_by(|(a, _), (b, _)| a.id < b.id));
        assert!(SAID_AGAIN.is_sorted_by(|(a, _), (b, _)| a.id < b.id));
        let named = named();
        for row in UNTESTED.iter().map(|(row, _)| row).chain(SAID_AGAIN.iter().map(|(row, _)| row)) {
            assert!(!named.contains(row), "{} is tested", row.id);
        }
    }

    #[test]
    fn only_what_binds_needs_a_reason_to_warn() {
        assert!(ONLY_WARNED.is_sorted_by(|(a, _), (b, _)| a.id < b.id));
        ONLY_WARNED.iter().for_each(|(row, _)| assert!(row.is_binding(), "{}", row.id));
    }
}
