//! A stored case, run again: does the driver still break the rule?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;
use csi_model::rules::RESTARTED;
use csi_nemesis::disruption::Disrupted;
use tokio::task::JoinSet;

use crate::budget::Budget;
use crate::case::{Case, CaseStep};
use crate::case_runner::{CaseRunner, SequenceOutcome};
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::record::Recorder;
use crate::reported::Reported;
use crate::sequence::PlannedStep;

/// Number of repetitions of parallel calls: their effect differs from time to time.
const AT_ONCE_TIMES: u32 = 50;
/// Number of repetitions of parallel calls that end the driver.
const DISRUPTED_TIMES: u32 = 10;

/// The only check that runs a case. It is in no list: only `csi-sanity replay` has it.
pub const SUITE: Suite = Suite { name: "replay", checks: Checks::Declared(&[&[&CASE]]), retired: &[] };

check! {
    /// Runs the case that the configuration names.
    CASE {
        id: "replay/case",
        title: "the driver keeps the rule that it broke when the case was stored",
        spec: RESTARTED,
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-forgets-names"],
        runs: Serial,
    }
    async |cx| {
        let path = cx.config().effort.replay.as_ref().ok_or_else(|| Stop::skip("no case is named"))?;
        let case = Case::load(path).map_err(|error| Stop::broken(csi_harness::text::message::error_chain(&error)))?;
        let probed = ProbedDriver::probe(cx).await?;
        if let Some(why) = case.unfit_for(&probed.profile, probed.has_workloads) {
            return Err(Stop::skip(why));
        }
        match case.is_concurrent() || !case.disruptions.is_empty() {
            true => at_once(cx, &probed, &case).await,
            false => one_after_another(cx, &probed, &case).await,
        }
    }
}

async fn one_after_another(cx: &Cx, probed: &Arc<ProbedDriver>, case: &Case) -> CheckResult {
    let items: Vec<PlannedStep> = case.steps.iter().cloned().map(PlannedStep::from).collect();
    let mut trial = CaseRunner::new(cx, probed, case.seed);
    if trial.run(&items, &Budget::new(cx, 1, 0)).await? == SequenceOutcome::Passed {
        cx.note("fixed: none of the answers breaks a rule");
    }
    trial.end()
}

/// Each worker makes its calls again, each at the time at which it was made, and the driver is disrupted as it was.
async fn at_once(cx: &Cx, probed: &Arc<ProbedDriver>, case: &Case) -> CheckResult {
    let mut reported = Reported::new(cx);
    let times = if case.disruptions.is_empty() { AT_ONCE_TIMES } else { DISRUPTED_TIMES };
    for _ in 0..times {
        let scope = cx.scope();
        let recorder = Recorder::new(&scope, probed);
        let mut left = case.steps.clone();
        for disrupted in &case.disruptions {
            let due = disrupted.after.as_micros();
            let (before, after) = left.into_iter().partition(|step| u128::from(step.from_us) < due);
            left = after;
            let (made, ended) = tokio::join!(make(&recorder, before), disrupt(&scope, &recorder, disrupted));
            made.and(ended)?;
            disrupted.by.heal(&scope).await?;
            recorder.is_back();
        }
        make(&recorder, left).await?;
        if recorder.judge(case.seed, &mut reported) {
            return reported.end();
        }
        scope.undo().await?;
    }
    reported.end()?;
    cx.note(format!(
        "not seen again in {times} attempts, which is no proof that calls at the same time are right now"
    ));
    Ok(())
}

/// Lets each worker make its calls at their times.
async fn make(recorder: &Recorder, steps: Vec<CaseStep>) -> CheckResult {
    let mut workers: BTreeMap<u16, Vec<CaseStep>> = BTreeMap::new();
    steps.into_iter().for_each(|step| workers.entry(step.worker).or_default().push(step));
    let mut running = JoinSet::new();
    for (worker, steps) in workers {
        let recorder = recorder.clone();
        running.spawn(async move {
            for step in steps {
                until(&recorder, Duration::from_micros(step.from_us)).await;
                recorder.make(worker, step.call).await?;
            }
            CheckResult::Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.map_err(|panic| Stop::broken(format!("a caller failed: {panic}")))??;
    }
    Ok(())
}

async fn disrupt(cx: &Cx, recorder: &Recorder, disrupted: &Disrupted) -> CheckResult {
    until(recorder, disrupted.after).await;
    recorder.disrupted(disrupted.by);
    disrupted.by.inject(cx).await
}

async fn until(recorder: &Recorder, due: Duration) {
    tokio::time::sleep(due.saturating_sub(recorder.orchestrator().now())).await;
}
