//! The concurrency suite: many callers make calls in parallel, and then a search decides if any order of their calls
//! explains the answers.

mod pairs;

use std::sync::Arc;

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;

use crate::budget::Budget;
use crate::case_runner::CaseRunner;
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::random_workload::RandomWorkload;
use crate::record::Recorder;
use crate::reported::{Reported, reported_by_other_check};
use crate::resource_usage::{self, ResourceUsage};
use crate::rules::AT_ONCE;

/// Callers that work in parallel.
const WORKERS: u16 = 8;
/// Calls on one name space.
const ROUND_CALLS: u32 = 100;
/// Volumes that pairs of callers use in parallel.
const LANES: u16 = 4;
/// Pairs of calls in each lane of a round.
const LANE_PAIRS: u32 = 10;

/// The concurrency suite.
pub const SUITE: Suite = Suite { name: "concurrency", checks: Checks::Declared(&[CHECKS]), retired: &[] };

const CHECKS: &[&Check] = &[&CONTROLLER_CALLS, &PAIRS];

check! {
    /// The sidecars of Kubernetes work on many volumes at once, and on one after they have lost their memory: a name is
    /// asked for twice, a volume is attached while it is deleted, lists are read while they change.
    CONTROLLER_CALLS {
        id: "concurrency/controller-calls",
        title: "the answers to concurrent callers could also have been given one after another (they are linearizable)",
        spec: AT_ONCE,
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-volume-counts-overlaps-twice",
            "create-volume-loses-updates",
            "create-volume-races-on-name",
            "create-volume-revives-deleted",
            "list-volumes-crashes-on-overlap",
        ],
        duplicate_of: "*",
        runs: Serial,
        varies: true,
    }
    async |cx| {
        in_rounds(cx, Calls::OfManyWorkers).await
    }
}

check! {
    /// Two calls for one volume at the same moment, each of them right: the same one twice, or one that does and one that
    /// undoes. Whatever comes of it, it is one of the two orders.
    PAIRS {
        id: "concurrency/pairs",
        title: "two calls for one volume at the same moment take effect one after the other",
        spec: AT_ONCE,
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-loses-updates", "create-volume-races-on-name"],
        duplicate_of: "*",
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        in_rounds(cx, Calls::InPairs).await
    }
}

/// The calls that are made in parallel.
#[derive(Clone, Copy)]
enum Calls {
    OfManyWorkers,
    InPairs,
}

impl Calls {
    /// Largest number of calls of one round.
    fn of_a_round(self) -> u32 {
        match self {
            Calls::OfManyWorkers => ROUND_CALLS,
            Calls::InPairs => 2 * u32::from(LANES) * LANE_PAIRS,
        }
    }

    async fn make(
        self,
        recorder: &Recorder,
        probed: &Arc<ProbedDriver>,
        seed: u64,
        budget: &Budget,
    ) -> CheckResult {
        match self {
            Calls::OfManyWorkers => {
                let load = RandomWorkload::new(&probed.profile, probed.usage);
                load.run(recorder, WORKERS, ROUND_CALLS, seed, budget.until()).await?;
                load.look(recorder).await
            }
            Calls::InPairs => pairs::run(recorder, probed, LANES, LANE_PAIRS, seed, budget.until()).await,
        }
    }
}

/// Makes calls until enough were made, in rounds that are judged and undone one by one.
async fn in_rounds(cx: &Cx, calls: Calls) -> CheckResult {
    let probed = ProbedDriver::probe(cx).await?;
    let number = calls.of_a_round();
    let planned = cx.config().effort.operations.div_ceil(number);
    let fixed = planned.div_ceil(2);
    let budget = Budget::new(cx, usize::try_from(fixed).unwrap_or(usize::MAX), planned - fixed);
    let (mut reported, mut rounds) = (Reported::new(cx), 0);
    let before = ResourceUsage::before(cx, &probed).await?;
    while reported.goes_on() && budget.begins(cx, "round", rounds) {
        let scope = cx.scope();
        let seed = budget.rng(rounds).u64(..);
        reported.is_random(budget.is_random(rounds));
        let recorder = Recorder::new(&scope, &probed);
        calls.make(&recorder, &probed, seed, &budget).await?;
        rounds += 1;
        let is_first = reported.is_all_right();
        for found in recorder.found(seed, &mut reported) {
            match CaseRunner::new(cx, &probed, seed).without_overlaps(&found, &budget).await {
                Some(violation) => reported.blame(&found.breach, violation),
                None => {
                    reported.release(&found.breach);
                    if reported_by_other_check(cx, &found.breach).is_some() {
                        reported.claim(&found.breach);
                    }
                }
            }
        }
        if is_first && !reported.is_all_right() {
            cx.note(format!("round {rounds} of {number} calls was the first to go wrong"));
        }
        scope.undo().await?;
    }
    if !reported.leaves_doubt()
        && let Some(missing) = before.missing(cx, &probed).await?
    {
        resource_usage::remark(cx, &req::GEN_CONC_003, missing);
    }
    let what = format!("rounds of {number} calls");
    budget.end(cx, rounds, &what);
    if reported.is_all_right() {
        budget.note_chances(cx, rounds, &what);
    }
    reported.end()
}
