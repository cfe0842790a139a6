//! The concurrency suite: many callers make calls in parallel, and then a search decides if any order of their calls
//! explains the answers.

mod names;
mod pairs;

use std::sync::Arc;

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;
use csi_model::call::Usage;
use csi_model::call_context::DriverProfile;
use csi_model::rules::AT_ONCE;
use tokio::task::JoinSet;

use crate::budget::Budget;
use crate::case_runner::CaseRunner;
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::random_workload::RandomWorkload;
use crate::record::Recorder;
use crate::reported::{Reported, reported_by_other_check};
use crate::resource_usage::{self, ResourceUsage};

/// Callers that work in parallel.
const WORKERS: u16 = 8;
/// Calls on one name space.
const ROUND_CALLS: u32 = 100;
/// Volumes that pairs of callers use in parallel.
const LANES: u16 = 4;
/// Pairs of calls in each lane of a round.
const LANE_PAIRS: u32 = 10;
/// Rounds of pairs that compete for a name, each with other delays.
const NAME_ROUNDS: u32 = 3;

pub const SUITE: Suite = Suite { name: "concurrency", checks: Checks::Declared(&[CHECKS]), retired: &[] };

const CHECKS: &[&Check] = &[&NAMES, &CONTROLLER_CALLS, &PAIRS];

check! {
    /// Two callers use one name for different objects, or one of them copies the snapshot that the other one
    /// deletes. Every run makes the same pairs, so such a race is found with any seed.
    NAMES {
        id: "concurrency/one-name",
        title: "of two simultaneous creations with one name and different contents, one takes effect",
        spec: AT_ONCE,
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-snapshot-races-on-name",
            "create-volume-keeps-copy-of-deleted",
            "create-volume-races-on-name",
        ],
        duplicate_of: "*",
        runs: Serial,
        varies: true,
    }
    async |cx| {
        in_rounds(cx, Calls::ForOneName).await
    }
}

check! {
    /// The sidecars of Kubernetes work on many volumes at once, and several times on one volume after they
    /// have lost their memory: a name is requested twice, a volume is attached while it is deleted, and lists
    /// are read while they change.
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
    /// Two calls for one volume arrive at the same moment, and each of them is valid: the same call twice, or
    /// a call and its opposite. The result has to be that of one of the two orders.
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
    ForOneName,
    OfManyWorkers,
    InPairs,
}

impl Calls {
    /// The rounds that are equal in every run, those that depend on its seed, and their description.
    fn rounds(self, cx: &Cx) -> (u32, u32, String) {
        let by_number = |calls: u32| {
            let all = cx.config().effort.operations.div_ceil(calls);
            let fixed = all.div_ceil(2);
            (fixed, all - fixed, format!("rounds of {calls} calls"))
        };
        match self {
            Calls::ForOneName => (NAME_ROUNDS, 0, "rounds of calls that compete for names".to_owned()),
            Calls::OfManyWorkers => by_number(ROUND_CALLS),
            Calls::InPairs => by_number(2 * u32::from(LANES) * LANE_PAIRS),
        }
    }

    async fn make(
        self,
        recorder: &Recorder,
        probed: &Arc<ProbedDriver>,
        round: u32,
        seed: u64,
        budget: &Budget,
    ) -> CheckResult {
        match self {
            Calls::ForOneName => names::run(recorder, probed, round).await,
            Calls::OfManyWorkers => {
                let load = RandomWorkload::new(&probed.profile, probed.usage);
                load.run(recorder, WORKERS, ROUND_CALLS, seed, budget.until()).await?;
                load.look(recorder).await
            }
            Calls::InPairs => pairs::run(recorder, probed, LANES, LANE_PAIRS, seed, budget.until()).await,
        }
    }
}

/// Two callers, with names that no other lane uses.
#[derive(Clone, Debug)]
struct Lane {
    number: u16,
    profile: DriverProfile,
    usage: Usage,
    recorder: Recorder,
}

impl Lane {
    /// The number of the first caller; the other one follows it.
    fn worker(&self) -> u16 {
        2 * self.number
    }
}

/// Lets several lanes do their work in parallel.
async fn in_lanes<F: Future<Output = CheckResult> + Send + 'static>(
    recorder: &Recorder,
    probed: &ProbedDriver,
    lanes: u16,
    walk: impl Fn(Lane) -> F,
) -> CheckResult {
    let mut running = JoinSet::new();
    for number in 0..lanes {
        let (profile, usage) = (probed.profile.clone(), probed.usage);
        running.spawn(walk(Lane { number, profile, usage, recorder: recorder.clone() }));
    }
    while let Some(ended) = running.join_next().await {
        ended.map_err(|panic| Stop::broken(format!("a caller failed: {panic}")))??;
    }
    Ok(())
}

/// Makes calls until enough were made, in rounds that are judged and undone one by one.
async fn in_rounds(cx: &Cx, calls: Calls) -> CheckResult {
    let probed = ProbedDriver::probe(cx).await?;
    let (fixed, random, what) = calls.rounds(cx);
    let budget = Budget::new(cx, usize::try_from(fixed).unwrap_or(usize::MAX), random);
    let (mut reported, mut rounds) = (Reported::new(cx), 0);
    let before = ResourceUsage::before(cx, &probed).await?;
    while reported.goes_on() && budget.begins(cx, "round", rounds) {
        let scope = cx.scope();
        let seed = budget.rng(rounds).u64(..);
        reported.is_random(budget.is_random(rounds));
        let recorder = Recorder::new(&scope, &probed);
        calls.make(&recorder, &probed, rounds, seed, &budget).await?;
        if rounds == 0 {
            recorder.take_snapshot_twice(probed.usage).await?;
        }
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
            cx.note(format!("of the {what}, number {rounds} showed the first fault"));
        }
        scope.undo().await?;
    }
    if !reported.leaves_doubt()
        && let Some(missing) = before.missing(cx, &probed).await?
    {
        resource_usage::remark(cx, &req::GEN_CONC_003, missing);
    }
    budget.end(cx, rounds, &what);
    if reported.is_all_right() {
        budget.note_chances(cx, rounds, &what);
    }
    reported.end()
}
