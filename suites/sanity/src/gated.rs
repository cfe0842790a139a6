//! Sends empty requests to the RPCs that need a capability.

use csi_harness::prelude::*;
use csi_harness::protocol::rpc::{self, Facts};
use csi_proto::Service;

/// Returns the error of an empty request, if there is one.
pub(crate) async fn refusal(cx: &Cx, facts: &Facts) -> CheckResult<Option<Refused>> {
    Ok(cx.call_bytes(facts.rpc, Vec::new()).await.any_answer()?.err())
}

/// Checks that every promised RPC of a service exists: an empty request is invalid, but not unimplemented.
pub(crate) async fn promised_are_there(cx: &Cx, service: Service) -> CheckResult {
    let mut missing = Vec::new();
    for facts in rpc::promised(service).filter(|facts| cx.target().offers(facts.rpc)) {
        if let Some(refused) = refusal(cx, facts).await?
            && refused.code == Code::Unimplemented
        {
            missing.push(format!("{} answers {refused}", facts.rpc));
        }
    }
    ensure!(
        missing.is_empty(),
        "a capability is advertised, but its RPC is not implemented";
        expected: "any answer but UNIMPLEMENTED",
        actual: missing.join("; ")
    );
    Ok(())
}
