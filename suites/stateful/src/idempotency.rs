//! The idempotency suite: each call made several times, at every point of the life of a volume, after errors, and after the
//! caller has given up or its connection broke. The model judges that the answers are compatible; what is left behind, the run notices.

mod path;

use std::sync::Arc;
use std::time::Duration;

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;
use csi_model::call::Call;
use csi_model::rules::{ALL, GIVEN_UP};
use csi_nemesis::disruption::{self, Disruption};

use crate::budget::Budget;
use crate::case_runner::CaseRunner;
use crate::how::CallMode;
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::property::stored;
use crate::resource_usage::{self, ResourceUsage};
use crate::sequence::{PlannedStep, Step};
use path::Path;

/// Longest time after which a caller gives up, or its connection breaks.
const UNANSWERED_MAX: Duration = Duration::from_millis(50);
/// Walks through the life of a volume for each of the times that calls are repeated.
const WALKS: u32 = 3;

pub const SUITE: Suite = Suite { name: "idempotency", checks: Checks::Declared(&[CHECKS]), retired: &[] };

const CHECKS: &[&Check] = &[
    &EACH_CALL,
    &EVERY_POINT,
    &AFTER_ERRORS,
    &GIVEN_UP_AND_REPEATED,
    &GIVEN_UP_AND_DONE_AGAIN,
    &BROKEN_AND_REPEATED,
];

check! {
    /// A caller without an answer repeats its call, and so does each part of Kubernetes that restarts.
    EACH_CALL {
        id: "idempotency/each-call-repeated",
        title: "each call from the creation of a volume to its deletion can be made several times",
        spec: ALL,
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-forgets-names", "controller-publish-refuses-repeats", "node-stage-refuses-repeats", "create-snapshot-refuses-repeats"],
        duplicate_of: "*",
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        let probed = ProbedDriver::probe(cx).await?;
        let path = Path::new(&probed);
        let repeat = repeat(cx);
        let items = path.forth().into_iter().chain(path.back()).flat_map(|call| repeated(call, repeat));
        try_all(cx, &probed, vec![items.collect()]).await
    }
}

check! {
    /// A call that was done may be repeated at any later time, and a call that was not done may be undone.
    EVERY_POINT {
        id: "idempotency/every-call-at-every-point",
        title: "calls can be repeated and undone at any point in the life of a volume, and its life continues",
        spec: ALL,
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["controller-unpublish-refuses-repeats", "node-unstage-refuses-repeats", "node-unpublish-refuses-repeats", "node-publish-refuses-repeats"],
        duplicate_of: "*",
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        let probed = ProbedDriver::probe(cx).await?;
        let path = Path::new(&probed);
        let repeat = repeat(cx);
        let context = |(before, call, after): (Vec<Call>, Call, Vec<Call>)| {
            let once = |calls: Vec<Call>| calls.into_iter().map(PlannedStep::from);
            once(before).chain(repeated(call, repeat)).chain(once(after)).collect()
        };
        try_all(cx, &probed, path.with_calls_out_of_turn().into_iter().map(context).collect()).await
    }
}

check! {
    /// A rejected request changes nothing, so the right request is answered as before.
    AFTER_ERRORS {
        id: "idempotency/after-an-error",
        title: "a call has the same result as before after a contradicting call was rejected",
        spec: ALL,
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-volume-ignores-size-conflict",
            "controller-publish-forgets-readonly",
            "node-publish-forgets-readonly",
        ],
        duplicate_of: "*",
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        let probed = ProbedDriver::probe(cx).await?;
        let path = Path::new(&probed);
        let repeat = repeat(cx);
        let after_error = |call: Call| {
            let wrong = path.contradicting(&call).map(PlannedStep::from);
            let again = if wrong.is_some() { repeated(call.clone(), repeat) } else { Vec::new() };
            repeated(call, repeat).into_iter().chain(wrong).chain(again)
        };
        let back = || path.back().into_iter().map(PlannedStep::from);
        let forth = path.forth().into_iter().flat_map(after_error).chain(back()).collect();
        let readonly = path.readonly().into_iter().flat_map(after_error).chain(back()).collect();
        let mut sequences = vec![forth, readonly];
        if let Some((before, publish)) = path.published_readonly() {
            let before = before.into_iter().map(PlannedStep::from);
            sequences.push(before.chain(after_error(publish)).chain(back()).collect());
        }
        try_all(cx, &probed, sequences).await
    }
}

check! {
    /// A caller whose deadline has passed does not know the result, and can only repeat the call.
    GIVEN_UP_AND_REPEATED {
        id: "idempotency/given-up-and-repeated",
        title: "a call that its caller gave up is completed when it is repeated, and creates nothing twice",
        spec: GIVEN_UP,
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-volume-doubles-after-timeout",
            "create-volume-leaks-after-timeout",
            "lock-kept-after-cancel",
            "controller-publish-repeat-too-early",
        ],
        duplicate_of: "*",
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        made_again(cx, &disruption::GIVEN_UP).await
    }
}

check! {
    /// Kubelet stops waiting for an unstaging, and the next pod requests the volume. If the unstaging still
    /// continues, it takes the volume from that pod.
    GIVEN_UP_AND_DONE_AGAIN {
        id: "idempotency/given-up-and-done-again",
        title: "a call that is made again after its opposite was given up keeps its effect",
        spec: GIVEN_UP,
        needs: [CREATE_DELETE_VOLUME, NODE],
        refuted_by: ["node-unstage-goes-on"],
        duplicate_of: "*",
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        let probed = ProbedDriver::probe(cx).await?;
        let path = Path::new(&probed);
        let steps = path.steps_with_their_places();
        let budget = walks(cx, steps.len());
        let mut trial = CaseRunner::new(cx, &probed, budget.seed());
        let insisted = |call: Call| PlannedStep::Step(Step { call, how: CallMode::Retried });
        let sequence = |done: u32| {
            let (before, forth, back, after) = steps[done as usize % steps.len()].clone();
            let given_up = disruption::GIVEN_UP.after(some_time(&mut budget.rng(done)));
            let mut items: Vec<PlannedStep> = before.into_iter().map(PlannedStep::from).collect();
            items.extend([PlannedStep::from(forth.clone()), PlannedStep::Step(Step { call: back, how: given_up.into() }), insisted(forth)]);
            items.extend(after.into_iter().map(PlannedStep::from));
            items
        };
        try_each(cx, &mut trial, &budget, sequence).await?;
        trial.end()
    }
}

check! {
    /// A sidecar that dies loses its connection, and its successor repeats the call over another one.
    BROKEN_AND_REPEATED {
        id: "idempotency/connection-broken-and-repeated",
        title: "a call whose connection broke is completed when it is repeated over a new one, and creates nothing twice",
        spec: GIVEN_UP,
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["lock-owned-by-connection"],
        duplicate_of: "*",
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        made_again(cx, &disruption::DISCONNECTED).await
    }
}

/// A time that is as often shorter than a tenth of the longest as it is longer.
fn some_time(rng: &mut fastrand::Rng) -> Duration {
    UNANSWERED_MAX.mul_f64(10_f64.powf(-5.0 * rng.f64()))
}

/// Makes each call twice that got no answer within a random time.
async fn made_again(cx: &Cx, unanswered: &'static Disruption) -> CheckResult {
    let probed = ProbedDriver::probe(cx).await?;
    let path = Path::new(&probed);
    let before = ResourceUsage::before(cx, &probed).await?;
    let budget = walks(cx, 1);
    let mut trial = CaseRunner::new(cx, &probed, budget.seed());
    let sequence = |done| {
        let mut rng = budget.rng(done);
        let again = |call: Call| {
            [unanswered.after(some_time(&mut rng)).into(), CallMode::Retried, CallMode::Once]
                .map(|how| PlannedStep::Step(Step { call: call.clone(), how }))
        };
        path.forth().into_iter().chain(path.back()).flat_map(again).collect()
    };
    try_each(cx, &mut trial, &budget, sequence).await?;
    if !trial.reported().leaves_doubt()
        && let Some(missing) = before.missing(cx, &probed).await?
    {
        resource_usage::remark(cx, &req::GEN_TIMEOUT_002, missing);
    }
    trial.end()
}

fn repeat(cx: &Cx) -> usize {
    usize::try_from(cx.config().effort.repeat).unwrap_or(usize::MAX)
}

fn repeated(call: Call, times: usize) -> Vec<PlannedStep> {
    vec![PlannedStep::from(call); times]
}

/// The walks of calls that get no answer, of this many sequences each. They give up after equal times in every run, and
/// after others with `--budget`.
fn walks(cx: &Cx, sequences: usize) -> Budget {
    let walks = WALKS.saturating_mul(cx.config().effort.repeat);
    let tries = walks.saturating_mul(u32::try_from(sequences).unwrap_or(u32::MAX));
    Budget::new(cx, usize::try_from(tries).unwrap_or(usize::MAX), Budget::more(cx, tries))
}

async fn try_all(cx: &Cx, probed: &Arc<ProbedDriver>, sequences: Vec<Vec<PlannedStep>>) -> CheckResult {
    let budget = Budget::new(cx, sequences.len(), 0);
    let mut trial = CaseRunner::new(cx, probed, budget.seed());
    try_each(cx, &mut trial, &budget, |done| sequences[done as usize].clone()).await?;
    trial.end()
}

/// Tries what failed in earlier runs, and then each sequence by its number.
async fn try_each(
    cx: &Cx,
    trial: &mut CaseRunner<'_>,
    budget: &Budget,
    sequence: impl Fn(u32) -> Vec<PlannedStep>,
) -> CheckResult {
    stored::try_again(cx, trial, budget).await?;
    let mut done = 0;
    while trial.begins(budget, done) {
        trial.next(&sequence(done), budget, done).await?;
        done += 1;
    }
    budget.end(cx, done, "sequences");
    Ok(())
}
