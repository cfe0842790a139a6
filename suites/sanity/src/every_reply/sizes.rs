//! Checks the size of strings and maps in replies.

use csi_harness::prelude::*;

use super::{ask_around, report};

check! {
    /// Orchestrators store replies in fields of that size.
    STRINGS {
        id: "every-reply/sizes/strings",
        title: "no string of any reply has more than 128 bytes",
        spec: [req::GEN_SIZE_001],
        refuted_by: ["get-plugin-info-version-too-long", "create-volume-id-too-long"],
        runs: Finally,
    }
    async |cx| {
        let asked = ask_around(cx).await;
        let breaches = cx.target().breaches(&req::GEN_SIZE_001);
        report(asked, &req::GEN_SIZE_001, &breaches, "the string is too long", "at most 128 bytes (256 for the id of a node)")
    }
}

check! {
    /// Maps are stored as well, and sent back with every call.
    MAPS {
        id: "every-reply/sizes/maps",
        title: "no string map of any reply has more than 4 KiB",
        spec: [req::GEN_SIZE_002],
        refuted_by: ["get-plugin-info-manifest-too-large", "create-volume-context-too-large"],
        runs: Finally,
    }
    async |cx| {
        let asked = ask_around(cx).await;
        let breaches = cx.target().breaches(&req::GEN_SIZE_002);
        report(asked, &req::GEN_SIZE_002, &breaches, "the map is too large", "at most 4096 bytes of keys and values")
    }
}

pub(crate) static CHECKS: &[&Check] = &[&STRINGS, &MAPS];
