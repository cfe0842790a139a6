//! Checks the gRPC status of errors.

use csi_harness::prelude::*;

use super::{ask_around, ask_for_errors, describe, place, report, seen_with, usual_first};

check! {
    /// A user finds only the message in the events of a pod that does not start.
    MESSAGE {
        id: "every-reply/status/message",
        title: "every error has a message",
        spec: [req::GEN_ERR_011],
        refuted_by: ["status-message-empty"],
        runs: Finally,
    }
    async |cx| {
        let asked = ask_for_errors(cx).await;
        let breaches = cx.target().breaches(&req::GEN_ERR_011);
        report(asked, &req::GEN_ERR_011, &breaches, "the error has no text", "a readable message in each error")
    }
}

check! {
    /// Orchestrators do not read details; the code and the message have to suffice.
    DETAILS {
        id: "every-reply/status/details",
        title: "no error has status details",
        spec: [req::GEN_ERR_013],
        refuted_by: ["status-details-set"],
        runs: Finally,
    }
    async |cx| {
        let asked = ask_for_errors(cx).await;
        let breaches = cx.target().breaches(&req::GEN_ERR_013);
        report(asked, &req::GEN_ERR_013, &breaches, "the error has status details", "no details")
    }
}

check! {
    /// An orchestrator decides by the code alone what to do next.
    CODE {
        id: "every-reply/status/code",
        title: "every status code is defined by gRPC, and is not UNKNOWN",
        spec: [req::GEN_ERR_002, req::GEN_ERR_001],
        refuted_by: ["status-code-not-canonical", "invalid-argument-as-unknown"],
        runs: Finally,
    }
    async |cx| {
        let asked = ask_around(cx).await.and(ask_for_errors(cx).await);
        let (unknown, odd): (Vec<_>, Vec<_>) = cx
            .target()
            .breaches(&req::GEN_ERR_002)
            .into_iter()
            .partition(|breach| breach.actual.starts_with("UNKNOWN"));
        report(Ok(()), &req::GEN_ERR_002, &odd, "the code is not defined by gRPC", "a code between 0 and 16")?;
        let unknown = usual_first(&unknown);
        if let Some(first) = unknown.first() {
            // UNKNOWN is usually an error without a chosen code.
            let all: Vec<_> = unknown.iter().map(describe).collect();
            let violation = Violation::new(format!("{}: the code is UNKNOWN", place(first)));
            cx.warn(
                seen_with(violation, &unknown)
                    .expected("a code that says what the caller can do next; gRPC defines UNKNOWN, but it says nothing")
                    .actual(all.join("; ")),
            );
        }
        asked
    }
}

pub(crate) static CHECKS: &[&Check] = &[&MESSAGE, &DETAILS, &CODE];
