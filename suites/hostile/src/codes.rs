//! Judges the status codes with which a driver rejects nonsense.

use std::collections::BTreeSet;
use std::sync::Arc;

use csi_harness::prelude::*;
use csi_harness::protocol::effect;
use csi_proto::Rpc;
use csi_proto::reflect::prost_reflect::DynamicMessage;
use serde_json::Value;

use crate::injection_points::{InjectionPoint, TextRole};
use crate::rules::HOSTILE_CODE_001;
use crate::scene::{Request, Scene};
use crate::send::send;
use crate::sweep::{Mutation, volley};

/// The change of a request that lacks a field that callers may leave out.
pub(crate) const LEGALLY_LEFT_OUT: &str = "left out, which is legal";

/// Sends each request of a scene with each of its changes, as [`volley`] does. Any answer is accepted, except codes that do not
/// name the problem. Fails as [`volley`] does, and with a violation if there was such a code.
pub(crate) async fn survives(
    cx: &Cx,
    changes: impl Fn(&Request) -> Vec<(String, DynamicMessage)>,
) -> CheckResult {
    let scene = Scene::set(cx).await?;
    let requests = &scene.requests(cx).await?;
    let anyway = cx.learn(async { Ok(Anyway::find_out(cx, requests).await) }).await?;
    let mut codes = Codes { found: Vec::new(), anyway };
    let look = |shot: &Mutation, answer: &Answer<Value>| {
        codes.look(shot, answer);
        Ok(())
    };
    let ended = volley(cx, requests, changes, look).await;
    if matches!(ended, Ok(()) | Err(Stop::Broken(_))) {
        codes.drop_what_fails_by_now(cx, requests).await;
    }
    codes.verdict(ended)
}

/// Requests that are no nonsense, and that a driver rejects with INTERNAL or UNKNOWN all the same. The checks of the RPCs report that.
#[derive(Debug, Default)]
struct Anyway {
    /// The RPCs whose requests without an error are rejected so.
    rpcs: BTreeSet<&'static str>,
    /// The RPCs and fields in which the id of an object that does not exist is rejected so.
    unknown_ids: BTreeSet<(&'static str, String)>,
}

impl Anyway {
    /// Sends each request as it is, and with each of its ids replaced by an unknown one.
    async fn find_out(cx: &Cx, requests: &[Request]) -> Anyway {
        let mut anyway = Anyway::default();
        for request in requests {
            let method = request.rpc.method;
            if is_internal(&once(cx, request, request.message.clone()).await) {
                anyway.rpcs.insert(method);
                continue;
            }
            let ids = InjectionPoint::all(&request.message, &[]);
            for id in ids.iter().filter(|place| place.kind() == TextRole::Id) {
                let field = id.to_string();
                let mut message = request.message.clone();
                id.write(&mut message, &unknown_id(cx, &field));
                if is_internal(&once(cx, request, message).await) {
                    anyway.unknown_ids.insert((method, field));
                }
            }
        }
        anyway
    }

    fn explains(&self, shot: &Mutation) -> bool {
        let method = shot.request.rpc.method;
        let is_changed =
            |field: &str| shot.change.strip_prefix(field).is_some_and(|rest| rest.starts_with(" = "));
        self.rpcs.contains(method)
            || self.unknown_ids.iter().any(|(rpc, field)| *rpc == method && is_changed(field))
    }
}

/// Sends a request and undoes its effects, as far as that is possible. The check's own requests show what cannot be undone.
async fn once(cx: &Cx, request: &Request, message: DynamicMessage) -> Answer<Value> {
    let scope = cx.scope();
    let request = request.changed(&scope, message);
    let answer = send(&scope, request.rpc, &request.bytes()).await;
    let _ = scope.undo_best_effort().await;
    answer
}

/// Returns the id of an object that does not exist, of the kind that the field names.
fn unknown_id(cx: &Cx, field: &str) -> String {
    match field {
        _ if field.contains("group_snapshot") => cx.unknown_group_snapshot_id(),
        _ if field.contains("snapshot") => cx.unknown_snapshot_id(),
        _ if field.contains("node") => cx.unknown_node_id(),
        _ => cx.unknown_volume_id(),
    }
}

/// Returns true if an answer says that the driver is at fault, or nothing.
fn is_internal(answer: &Answer<Value>) -> bool {
    matches!(answer, Answer::Refused(refused) if effect::says_nothing(refused.code))
}

/// The errors whose codes do not name the problem: the first of each RPC.
#[derive(Debug)]
struct Codes {
    found: Vec<(Rpc, Violation)>,
    anyway: Arc<Anyway>,
}

impl Codes {
    /// Records one answer. A driver answers INTERNAL or UNKNOWN if it did not consider the case, and failed somewhere
    /// later.
    fn look(&mut self, shot: &Mutation, answer: &Answer<Value>) {
        let Answer::Refused(refused) = answer else { return };
        let is_found = self.found.iter().any(|(rpc, _)| *rpc == shot.request.rpc);
        // A request without an optional field is right, so that no code for faults of the caller fits.
        let is_legal = shot.change.ends_with(LEGALLY_LEFT_OUT);
        if !is_internal(answer) || is_legal || self.anyway.explains(shot) || is_found {
            return;
        }
        let violation = Violation::new(format!(
            "{} is rejected with a code for internal faults of the driver",
            shot.described()
        ))
        .of(&HOSTILE_CODE_001)
        .expected("INVALID_ARGUMENT, or another code for faults of the caller; or OK")
        .actual(refused);
        self.found.push((shot.request.rpc, violation));
    }

    /// Sends the requests once more as they were before they were changed. An earlier change may have removed what they need, such as a
    /// staging directory, and then the last change is not the reason.
    async fn drop_what_fails_by_now(&mut self, cx: &Cx, requests: &[Request]) {
        for (rpc, violation) in std::mem::take(&mut self.found) {
            let fails = match requests.iter().find(|request| request.rpc == rpc) {
                Some(request) => is_internal(&once(cx, request, request.message.clone()).await),
                None => false,
            };
            if !fails {
                self.found.push((rpc, violation));
            }
        }
    }

    /// Returns the result of the check. A reason that prevents further calls is reported only if there is no
    /// violation. Otherwise the result is that of the calls.
    fn verdict(self, ended: CheckResult) -> CheckResult {
        if !matches!(ended, Ok(()) | Err(Stop::Broken(_))) {
            return ended;
        }
        let rpcs: BTreeSet<&str> = self.found.iter().map(|(rpc, _)| rpc.method).collect();
        let rpcs = Vec::from_iter(rpcs).join(", ");
        let Some((_, first)) = self.found.into_iter().next() else { return ended };
        let actual = format!("{}; such codes came from {rpcs}", first.actual);
        Err(first.actual(actual).into())
    }
}
