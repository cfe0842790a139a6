//! Requirements that no check can test from outside, and why.

use csi_harness::requirements::{Requirement, req};

/// The rows, sorted by id.
pub static UNTESTED: &[(&Requirement, &str)] = &[
    (&req::CTRL_CAPS_009, "what a condition says is free text"),
    (&req::CTRL_CREATESNAP_003, "which code fits an error, the table says, whose rows are checked"),
    (&req::CTRL_CREATESNAP_005, "whether a snapshot is still processed shows in ready_to_use alone"),
    (&req::CTRL_CREATESNAP_007, "needs a back end that fails while it processes a snapshot"),
    (&req::CTRL_CREATESNAP_011, "whether a snapshot is still processed shows in ready_to_use alone"),
    (&req::CTRL_CREATESNAP_027, "needs a back end whose space for snapshots is used up"),
    (&req::CTRL_CREATEVOL_006, "volume_context is opaque, so that it does not show which value a volume got"),
    (
        &req::CTRL_CREATEVOL_023,
        "what it does not know a driver may ignore, and which values are valid it alone knows",
    ),
    (
        &req::CTRL_CREATEVOL_024,
        "MSG-VOLSOURCE-004, MSG-VOLSOURCE-006 and CTRL-CREATESNAP-015 ask the same with a keyword, and are checked",
    ),
    (&req::CTRL_CREATEVOL_026, "documents are not visible over gRPC"),
    (&req::CTRL_CREATEVOL_031, "volume_context is opaque, so that it does not show which value a volume got"),
    (&req::CTRL_CREATEVOL_046, "needs a location whose storage is used up"),
    (&req::CTRL_GETSNAP_004, "says in lower case what CTRL-GETSNAP-010 requires, which is checked"),
    (&req::CTRL_GETVOL_005, "says in lower case what CTRL-GETVOL-015 requires, which is checked"),
    (&req::CTRL_INTERACT_005, "recommends what MSG-SNAPSHOT-003 requires, which is checked"),
    (&req::CTRL_LISTSNAP_003, "the moment at which a snapshot is cut does not show from outside"),
    (
        &req::CTRL_LISTSNAP_008,
        "a driver may split a list by itself; what is left out breaks CTRL-LISTSNAP-002",
    ),
    (&req::CTRL_LISTVOL_007, "a driver may split a list by itself; what is left out breaks CTRL-LISTVOL-002"),
    (&req::CTRL_MODIFYVOL_008, "the present values of mutable parameters cannot be read back"),
    (
        &req::CTRL_PUBLISH_002,
        "that the volume can be staged and published on the node is what NODE-STAGE-001 and NODE-PUBLISH-001 are checked by",
    ),
    (
        &req::CTRL_PUBLISH_020,
        "the calls that carry no publish_context can do nothing else, and all others may need it",
    ),
    (&req::CTRL_VALIDATE_013, "says again what CTRL-VALIDATE-002 requires, which is checked"),
    (&req::GEN_ERR_006, "needs a valid identity of the back end that lacks a permission"),
    (
        &req::GEN_ERR_010,
        "wrong credentials can lock an account, and secrets may be keys that no login checks",
    ),
    (&req::GEN_RPC_001, "an RPC that is not registered answers as one that is not supported"),
    (&req::GEN_RPC_003, "on which nodes a plugin is deployed does not show at one endpoint"),
    (&req::GEN_SECRET_006, "documents are not visible over gRPC"),
    (&req::GROUP_CREATE_005, "whether a group snapshot is still processed shows in ready_to_use alone"),
    (&req::GROUP_GET_004, "says in lower case what GROUP-GET-014 requires, which is checked"),
    (&req::ID_PROBE_005, "documents are not visible over gRPC"),
    (&req::ID_PROBE_006, "needs a driver that is put into a broken state"),
    (&req::ID_PROBE_011, "needs a driver that is put into a broken state"),
    (&req::ID_PROBE_013, "needs a driver that is put into a broken state"),
    (&req::ID_PROBE_014, "needs a driver that is put into a broken state"),
    (&req::META_FORMAT_001, "META-ALLOC-013 and -014, META-DELTA-015 and -016 ask the same, and are checked"),
    (&req::META_FORMAT_006, "META-ALLOC-008 and META-DELTA-010 ask the same, and are checked"),
    (&req::META_STREAM_002, "needs a back end that fails while it collects metadata"),
    (
        &req::MSG_CAPRANGE_002,
        "follows from MSG-CAPRANGE-005 and MSG-CAPRANGE-008, which are checked with equal bounds",
    ),
    (&req::MSG_TOPOLOGY_005, "which company a prefix belongs to cannot be told from its letters"),
    (
        &req::MSG_TOPOREQ_010,
        "a place that was tried in vain looks like one that was not tried; MSG-TOPOREQ-014 warns",
    ),
    (
        &req::MSG_TOPOREQ_013,
        "a caller may ask only for topology that the plugin supports, and all of that may be met",
    ),
    (&req::MSG_TOPOREQ_015, "a combination that was tried in vain looks like one that was not tried"),
    (
        &req::MSG_VOLCAP_007,
        "what a mode rules out, the tables of the publishing RPCs say, whose rows are checked",
    ),
    (
        &req::MSG_VOLUME_009,
        "a sensitive value that is no secret of a request looks like any other; GEN-SECRET-001 is checked",
    ),
    (
        &req::MSG_VOLUME_010,
        "the calls that carry no volume_context can do nothing else, and all others may need it",
    ),
    (&req::NODE_CAPS_009, "MSG-VOLCAP-005 asks the same with a keyword, and is checked"),
    (&req::NODE_EXPAND_022, "needs a file system that is known not to grow while it is in use"),
    (
        &req::NODE_INFO_004,
        "a driver that counts on a second call does so only where there is none, and each run makes some",
    ),
    (
        &req::NODE_PUBLISH_002,
        "where a call runs does not show; that the volume is there does, by NODE-PUBLISH-026 and -027",
    ),
    (
        &req::NODE_STAGE_002,
        "where a call runs does not show; that the volume is there does, by NODE-PUBLISH-026 and -027",
    ),
    (&req::NODE_STAGE_016, "a driver may refuse with NodePublishVolume instead, as NODE-PUBLISH-041 judges"),
    (&req::NODE_STAGE_023, "a driver may refuse with NodePublishVolume instead, as NODE-PUBLISH-041 judges"),
    (
        &req::NODE_UNPUBLISH_005,
        "where a call runs does not show; that the mount is gone does, by NODE-UNPUBLISH-002",
    ),
    (
        &req::NODE_UNSTAGE_005,
        "where a call runs does not show; that the mount is gone does, by NODE-UNSTAGE-002",
    ),
    (&req::PROTO_CONN_002, "what is encoded otherwise cannot be read, and so breaks the rule of its RPC"),
    (&req::PROTO_CONN_003, "each of the RPCs has a rule of its own, and is checked by that"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_have_no_check() {
        assert!(UNTESTED.is_sorted_by(|(a, _), (b, _)| a.id < b.id));
        for (row, _) in UNTESTED {
            let checked = crate::SUITE.checks.iter().copied().flatten();
            let check = checked.into_iter().find(|check| check.requirements.contains(row));
            assert!(check.is_none(), "{} is tested by {check:?}", row.id);
        }
    }
}
