//! Checks the sizes of the fields of replies, and that those exist that are REQUIRED.

use csi_harness::prelude::*;
use csi_proto::Call as _;

use super::{ask_around, heard, report};

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

check! {
    /// An orchestrator fails without them, and rarely says why.
    FILLED {
        id: "every-reply/fields/required",
        title: "every reply has its REQUIRED fields",
        spec: [req::GEN_FIELD_002],
        refuted_by: [
            "create-volume-answers-without-volume",
            "condition-message-empty",
        ],
        runs: Finally,
    }
    async |cx| {
        let asked = ask_around(cx).await;
        let mut breaches = cx.target().breaches(&req::GEN_FIELD_002);
        // These fields have checks of their own.
        let apart = ["GetPluginInfoResponse.", "VolumeHealth.", "NodeGetStorageHealthResponse."];
        breaches.retain(|breach| !apart.iter().any(|message| breach.place.starts_with(message)));
        report(asked, &req::GEN_FIELD_002, &breaches, "the field is REQUIRED and missing", "a value")
    }
}

check! {
    /// A REQUIRED list must not be empty.
    LISTS {
        id: "every-reply/fields/required-lists",
        title: "REQUIRED lists of replies have an element",
        spec: [req::GEN_FIELD_003],
        needs: [CREATE_DELETE_VOLUME, CONTROLLER],
        refuted_by: ["validate-confirms-without-capabilities"],
        runs: Finally,
    }
    async |cx| {
        let asked = ask_what_is_confirmed(cx).await;
        let breaches = cx.target().breaches(&req::GEN_FIELD_003);
        report(asked, &req::GEN_FIELD_003, &breaches, "the list is REQUIRED and empty", "at least one element")
    }
}

async fn ask_what_is_confirmed(cx: &Cx) -> CheckResult {
    if cx.target().has_done(v1::ValidateVolumeCapabilitiesRequest::RPC) {
        return Ok(());
    }
    let volume = cx.new_volume().await?;
    let request = v1::ValidateVolumeCapabilitiesRequest {
        parameters: cx.config().parameters.clone(),
        ..cx.validate_request(&volume.volume_id, &volume.volume_context)
    };
    heard(cx.call(request).await)
}

pub(crate) static CHECKS: &[&Check] = &[&STRINGS, &MAPS, &FILLED, &LISTS];
