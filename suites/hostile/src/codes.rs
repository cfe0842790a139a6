//! Judges the status codes with which a driver rejects nonsense.

use std::collections::BTreeSet;

use csi_harness::prelude::*;
use csi_proto::reflect::prost_reflect::DynamicMessage;
use serde_json::Value;

use crate::rules::HOSTILE_CODE_001;
use crate::scene::Request;
use crate::send::send;
use crate::sweep::{Mutation, volley};

/// Sends each request with each of its changes, as [`volley`] does. Any answer is accepted, except codes that do not
/// name the problem.
///
/// # Errors
/// Fails as [`volley`] does, and with a violation if there was such a code.
pub(crate) async fn survives(
    cx: &Cx,
    requests: &[Request],
    changes: impl Fn(&Request) -> Vec<(String, DynamicMessage)>,
) -> CheckResult {
    let mut codes = Codes::default();
    for request in requests {
        let scope = cx.scope();
        let plain = request.renamed(&scope);
        codes.look_at_plain(&plain, &send(&scope, plain.rpc, &plain.bytes()).await);
        // The clean-up of the changed requests says what cannot be undone.
        let _ = scope.undo_best_effort().await;
    }
    let look = |shot: &Mutation, answer: &Answer<Value>| {
        codes.look(shot, answer);
        Ok(())
    };
    let ended = volley(cx, requests, changes, look).await;
    codes.verdict(ended)
}

/// The errors whose codes do not name the problem; the first of each RPC is kept.
#[derive(Debug, Default)]
struct Codes {
    first: Option<Violation>,
    rpcs: BTreeSet<&'static str>,
    /// The RPCs that the driver answers so even without an error in the request.
    failing_anyway: BTreeSet<&'static str>,
}

/// Returns true if a code says that the driver is at fault, or nothing.
fn is_internal(code: Code) -> bool {
    matches!(code, Code::Internal | Code::Unknown)
}

impl Codes {
    /// Records the answer to a request without an error.
    fn look_at_plain(&mut self, request: &Request, answer: &Answer<Value>) {
        if matches!(answer, Answer::Refused(refused) if is_internal(refused.code)) {
            self.failing_anyway.insert(request.rpc.method);
        }
    }

    /// Records one answer. A driver answers INTERNAL or UNKNOWN if it did not consider the case, and failed somewhere
    /// later.
    fn look(&mut self, shot: &Mutation, answer: &Answer<Value>) {
        let Answer::Refused(refused) = answer else { return };
        let method = shot.request.rpc.method;
        if !is_internal(refused.code) || self.failing_anyway.contains(method) || !self.rpcs.insert(method) {
            return;
        }
        self.first.get_or_insert_with(|| {
            Violation::new(format!(
                "{} is rejected with a code for internal faults of the driver",
                shot.described()
            ))
            .of(&HOSTILE_CODE_001)
            .expected("INVALID_ARGUMENT, or another code for faults of the caller; or OK")
            .actual(refused)
        });
    }

    /// Returns the result of the check. A reason that prevents further calls is reported only if there is no
    /// violation.
    ///
    /// # Errors
    /// Fails with a violation if there was one, and otherwise as the calls did.
    fn verdict(self, ended: CheckResult) -> CheckResult {
        let Some(first) = self.first else { return ended };
        if !matches!(ended, Ok(()) | Err(Stop::Broken(_))) {
            return ended;
        }
        let rpcs: Vec<_> = self.rpcs.into_iter().collect();
        let actual = format!("{}; such codes came from {}", first.actual, rpcs.join(", "));
        Err(first.actual(actual).into())
    }
}
