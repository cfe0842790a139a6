//! Requirements that no check can test from outside, and why.

use csi_harness::requirements::{Requirement, req};

/// The rows, sorted by id.
pub static UNTESTED: &[(&Requirement, &str)] = &[
    (&req::CTRL_CAPS_009, "what a condition says is free text"),
    (&req::CTRL_CREATESNAP_007, "needs a back end that fails while it processes a snapshot"),
    (&req::CTRL_CREATESNAP_027, "needs a back end whose space for snapshots is used up"),
    (&req::CTRL_CREATEVOL_006, "volume_context is opaque, so that it does not show which value a volume got"),
    (&req::CTRL_CREATEVOL_026, "documents are not visible over gRPC"),
    (&req::CTRL_CREATEVOL_031, "volume_context is opaque, so that it does not show which value a volume got"),
    (&req::CTRL_CREATEVOL_046, "needs a location whose storage is used up"),
    (&req::CTRL_LISTSNAP_003, "the moment at which a snapshot is cut does not show from outside"),
    (&req::CTRL_MODIFYVOL_008, "the present values of mutable parameters cannot be read back"),
    (&req::GEN_ERR_006, "needs a valid identity of the back end that lacks a permission"),
    (
        &req::GEN_ERR_010,
        "wrong credentials can lock an account, and secrets may be keys that no login checks",
    ),
    (&req::GEN_RPC_001, "an RPC that is not registered answers as one that is not supported"),
    (&req::GEN_RPC_003, "on which nodes a plugin is deployed does not show at one endpoint"),
    (&req::GEN_SECRET_006, "documents are not visible over gRPC"),
    (&req::ID_PROBE_005, "documents are not visible over gRPC"),
    (&req::ID_PROBE_006, "needs a driver that is put into a broken state"),
    (&req::ID_PROBE_011, "needs a driver that is put into a broken state"),
    (&req::ID_PROBE_013, "needs a driver that is put into a broken state"),
    (&req::ID_PROBE_014, "needs a driver that is put into a broken state"),
    (&req::META_FORMAT_001, "META-ALLOC-013 and -014, META-DELTA-015 and -016 ask the same, and are checked"),
    (&req::META_FORMAT_006, "META-ALLOC-008 and META-DELTA-010 ask the same, and are checked"),
    (&req::META_STREAM_002, "needs a back end that fails while it collects metadata"),
    (&req::MSG_TOPOLOGY_005, "which company a prefix belongs to cannot be told from its letters"),
    (
        &req::MSG_TOPOREQ_013,
        "a caller may ask only for topology that the plugin supports, and all of that may be met",
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
