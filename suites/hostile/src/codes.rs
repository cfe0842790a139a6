//! How nonsense is refused.

use std::collections::BTreeSet;

use csi_harness::prelude::*;
use csi_proto::reflect::prost_reflect::DynamicMessage;
use serde_json::Value;

use crate::rules::HOSTILE_CODE_001;
use crate::scene::Request;
use crate::sweep::{Mutation, volley};

/// Sends each of the requests with each of its changes, as [`volley`] does. Any answer will do, but for codes that do not say
/// what is wrong.
///
/// # Errors
/// As for [`volley`]; a violation if there was such a code.
pub(crate) async fn survives(
    cx: &Cx,
    requests: &[Request],
    changes: impl Fn(&Request) -> Vec<(String, DynamicMessage)>,
) -> CheckResult {
    let mut codes = Codes::default();
    let look = |shot: &Mutation, answer: &Answer<Value>| {
        codes.look(shot, answer);
        Ok(())
    };
    let ended = volley(cx, requests, changes, look).await;
    codes.verdict(ended)
}

/// Refusals with codes that do not say what is wrong: the first of each RPC is kept.
#[derive(Debug, Default)]
struct Codes {
    first: Option<Violation>,
    rpcs: BTreeSet<&'static str>,
}

impl Codes {
    /// Looks at one answer. INTERNAL and UNKNOWN are what a driver answers that has not thought of the case, or that leaves
    /// it to whatever fails first.
    fn look(&mut self, shot: &Mutation, answer: &Answer<Value>) {
        let Answer::Refused(refused) = answer else { return };
        if !matches!(refused.code, Code::Internal | Code::Unknown)
            || !self.rpcs.insert(shot.request.rpc.method)
        {
            return;
        }
        self.first.get_or_insert_with(|| {
            Violation::new(format!(
                "{} is rejected with a code for internal faults of the driver",
                shot.told()
            ))
            .of(&HOSTILE_CODE_001)
            .expected("INVALID_ARGUMENT, or another code for faults of the caller; or OK")
            .actual(refused)
        });
    }

    /// How a check ends whose calls have ended so: what stands in the way of more calls is told only if there is nothing else.
    ///
    /// # Errors
    /// What the calls ended with, or a violation if there was one.
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
