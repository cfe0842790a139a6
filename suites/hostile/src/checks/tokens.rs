//! Sends page tokens that this list never returned.

use csi_harness::prelude::*;
use csi_harness::protocol::effect;

use crate::codes::survives;
use crate::injection_points::TextRole;
use crate::rules::HOSTILE_CODE_001;
use crate::sweep::with_texts;

/// Numbers of all kinds, since many tokens are numbers: negative, large, too large, in other digits and forms; also
/// texts with more bytes than letters, and texts that mean nothing.
const TEXTS: [&str; 14] = [
    "-1",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "\u{661}\u{662}\u{663}",
    "1e3",
    "0x10",
    "+1",
    " 1",
    "1\0",
    "aaaaaaaaaaaaaaa\u{e9}\u{e9}\u{e9}",
    "null",
    "\u{feff}",
];

check! {
    /// A token comes from the caller. The driver chooses its form, but it may receive any text.
    FORMS {
        id: "hostile/tokens/forms",
        title: "a token that the driver has not returned is rejected or accepted, and the driver survives",
        spec: [HOSTILE_CODE_001, req::GEN_ERR_001],
        needs: [any_of(&[Capability::ListVolumes, Capability::ListSnapshots])],
        refuted_by: ["list-volumes-panics-on-numeric-token", "list-snapshots-cuts-letters-of-tokens"],
        runs: CrashProne,
    }
    async |cx| {
        let texts = TEXTS.map(str::to_owned);
        survives(cx, |request| with_texts(request, &[TextRole::Token], &[], &texts)).await
    }
}

check! {
    /// Tokens of both lists often have the same format.
    OTHER_LIST {
        id: "hostile/tokens/other-list",
        title: "ListSnapshots rejects or accepts a token of ListVolumes, and the driver survives",
        spec: [HOSTILE_CODE_001, req::GEN_ERR_001],
        needs: [LIST_VOLUMES, LIST_SNAPSHOTS, CREATE_DELETE_VOLUME],
        refuted_by: ["list-snapshots-internal-on-other-tokens"],
        runs: CrashProne,
    }
    async |cx| {
        for _ in 0..2 {
            cx.new_volume().await?;
        }
        let first = v1::ListVolumesRequest { max_entries: 1, ..Default::default() };
        let token = cx.call(first).await.setup("a page of volumes")?.next_token;
        if token.is_empty() {
            return Err(Stop::skip("the list of volumes has one page only"));
        }
        let request = v1::ListSnapshotsRequest { starting_token: token, ..Default::default() };
        match cx.call(request).await.any_answer()? {
            Err(refused) if effect::says_nothing(refused.code) => Err(Violation::new(
                "ListSnapshots rejects a token of ListVolumes with a code for faults of the driver",
            )
            .expected("ABORTED, or OK")
            .actual(refused)
            .into()),
            _ => Ok(()),
        }
    }
}

pub(crate) static CHECKS: &[&Check] = &[&FORMS, &OTHER_LIST];
