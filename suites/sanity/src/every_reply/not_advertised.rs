//! Calls RPCs that the driver does not advertise.

use csi_harness::prelude::*;
use csi_harness::protocol::effect;
use csi_harness::protocol::rpc::{FACTS, Facts, PROMISES};

check! {
    /// An orchestrator that still calls the RPC has to learn that repeating the call is useless.
    UNIMPLEMENTED {
        id: "every-reply/not-advertised/unimplemented",
        title: "an RPC that is not advertised works, or answers UNIMPLEMENTED",
        spec: [req::GEN_RPC_002],
        needs: [lacks_one_of(PROMISES)],
        refuted_by: ["unsupported-as-internal"],
        runs: CrashProne,
    }
    async |cx| {
        let mut wrong = Vec::new();
        let advertised_nowhere = |facts: &&Facts| !cx.target().offers(facts.rpc);
        let judged = cx.target().judged();
        let is_known = |facts: &&Facts| judged.versions.iter().any(|version| facts.is_in(*version));
        let served =
            FACTS.iter().filter(is_known).filter(|facts| cx.target().serves(facts.rpc.service));
        for facts in served.filter(advertised_nowhere) {
            // OK is no violation, and the driver may notice a malformed request or an unknown object first.
            if let Err(refused) = cx.call_bytes(facts.rpc, Vec::new()).await.any_answer()?
                && effect::says_nothing(refused.code)
            {
                wrong.push(format!("{} answers {refused}", facts.rpc));
            }
        }
        if !wrong.is_empty() {
            cx.warn(
                Violation::new("RPCs that are not advertised are rejected with another code than UNIMPLEMENTED")
                    .expected("UNIMPLEMENTED")
                    .actual(wrong.join("; ")),
            );
        }
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&UNIMPLEMENTED];
