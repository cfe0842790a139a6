//! The restart suite kills or stops the driver under load or while volumes are in use. The results of its answers are still
//! there afterwards, and calls without an answer are completed when they are repeated. This also holds after it was started
//! twice.
//!
//! Calls afterwards go over the connections from before, as those of an orchestrator that does not notice the end.

mod detach_durable;
mod double_start;
mod identity_stable;
mod in_use;
mod memory;
mod started;
mod volume_in_use;

use std::time::{Duration, Instant};

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::client::unmet::needs_memory;
use csi_harness::prelude::*;
use csi_model::rules::RESTARTED;
use csi_nemesis::disruption::{Disruption, KILLED};
use csi_nemesis::restart::driver;

use crate::budget::Budget;
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::random_workload::RandomWorkload;
use crate::record::{Moment, Recorder};
use crate::reported::Reported;
use crate::resource_usage::{self, ResourceUsage};
pub use memory::unless_forgotten;
use volume_in_use::VolumeInUse;

/// Callers that work in parallel.
const WORKERS: u16 = 6;
/// Longest time under load before an end at a random moment.
const LOAD_MAX: Duration = Duration::from_millis(60);
/// Callers stop after this time, also while the driver takes its time to end.
const LOAD_LIMIT: Duration = Duration::from_secs(10);
/// Number of calls after which all callers stop. Every kind of call occurs among them.
const LOAD_CALLS_MAX: u32 = 2_000;
/// The call of its kind at which the driver is killed: the first ones meet nothing.
const AT_CALL: u32 = 2;

pub const SUITE: Suite = Suite { name: "restart", checks: Checks::Declared(&[CHECKS]), retired: &[] };

const CHECKS: &[&Check] = &[
    &memory::REMEMBERS,
    &identity_stable::IDENTITY_STABLE,
    &detach_durable::UNDONE,
    &UNDER_LOAD,
    &in_use::IN_USE,
    &in_use::REBOOT,
    &double_start::STARTED_TWICE,
    &started::STARTING,
    &started::SAME_VOLUME,
    &started::NEXT_CALLER,
];

check! {
    /// Plugins are updated, evicted and run out of memory while volumes are in use. An orchestrator relies on the answers that it got, and
    /// repeats calls that were not answered.
    UNDER_LOAD {
        id: "restart/under-load",
        title: "results that the driver answered with OK survive a kill or a stop, and all other calls can be repeated",
        spec: RESTARTED,
        needs: [CREATE_DELETE_VOLUME, RESTARTS],
        refuted_by: ["restart-forgets-last-write", "restart-takes-truncated-for-empty", "saves-after-answer"],
        duplicate_of: "*",
        runs: KillsUnderLoad,
        access: Each,
        varies: true,
    }
    async |cx| {
        needs_memory(driver(cx)?)?;
        let probed = ProbedDriver::probe(cx).await?;
        let load = RandomWorkload::new(&probed.profile, probed.usage);
        let moments: Vec<Moment> =
            load.changing().into_iter().flat_map(|rpc| [Moment::Begins(rpc), Moment::Ends(rpc)]).collect();
        let budget = Budget::new(cx, moments.len(), cx.config().effort.kills);
        let ends = Disruption::under_load();
        let (mut reported, mut longest) = (Reported::new(cx), Duration::ZERO);
        let before = ResourceUsage::before(cx, &probed).await?;
        let (mut rounds, mut stays) = (0, None);
        while reported.goes_on() && budget.begins(cx, "end of the driver", rounds) {
            let scope = cx.scope();
            let mut rng = budget.rng(rounds);
            let nth = rounds as usize;
            let (end, when) = match moments.get(nth) {
                Some(moment) => (&KILLED, When::Moment(*moment)),
                None => (ends[nth % ends.len()], When::After(LOAD_MAX.mul_f64(rng.f64()))),
            };
            reported.is_random(budget.is_random(rounds));
            rounds += 1;
            let is_first = reported.is_all_right();
            let round = Round { cx: &scope, probed: &probed, load: &load, seed: rng.u64(..), end };
            let ended = round.run(when, &mut reported).await;
            if ended.is_err() || is_first && !reported.is_all_right() {
                cx.note(format!("of the rounds in which the driver was ended, number {rounds} showed the first fault"));
            }
            longest = longest.max(ended?);
            // Later rounds may show the reason.
            stays = stays.or(scope.undo_best_effort().await);
        }
        budget.end(cx, rounds, "ends of the driver");
        cx.note(format!("ended {rounds} times; after each start it answered within {} ms", longest.as_millis()));
        if !reported.leaves_doubt()
            && stays.is_none()
            && let Some(missing) = before.missing(cx, &probed).await?
        {
            resource_usage::remark(cx, &req::GEN_TIMEOUT_002, missing);
        }
        if let Some(why) = stays.filter(|_| reported.is_all_right()) {
            return Err(Stop::broken(why));
        }
        reported.end()
    }
}

/// The moment at which the driver is ended.
#[derive(Clone, Copy, Debug)]
enum When {
    Moment(Moment),
    After(Duration),
}

impl When {
    async fn comes(self, recorder: &Recorder) {
        match self {
            When::Moment(moment) => recorder.reaches(moment, AT_CALL).await,
            When::After(time) => tokio::time::sleep(time).await,
        }
    }
}

/// One life of the driver.
struct Round<'a> {
    cx: &'a Cx,
    probed: &'a std::sync::Arc<ProbedDriver>,
    load: &'a RandomWorkload,
    seed: u64,
    end: &'static Disruption,
}

impl Round<'_> {
    /// Ends the driver under load, and looks what is left: how long it took to start.
    async fn run(&self, when: When, reported: &mut Reported) -> CheckResult<Duration> {
        let recorder = Recorder::new(self.cx, self.probed);
        let used = VolumeInUse::begin(self.probed, &recorder).await?;
        let until = Instant::now() + LOAD_LIMIT;
        let mut loading = std::pin::pin!(self.load.run(&recorder, WORKERS, LOAD_CALLS_MAX, self.seed, until));
        let loaded = tokio::select! {
            loaded = &mut loading => Some(loaded),
            () = when.comes(&recorder) => None,
        };
        recorder.disrupted(self.end);
        match loaded {
            Some(loaded) => loaded.and(self.end.inject(self.cx).await)?,
            None => {
                let (loaded, ended) = tokio::join!(loading, self.end.inject(self.cx));
                loaded.and(ended)?;
            }
        }
        let healed = self.end.heal(self.cx).await;
        let away = healed.map_err(|stop| recorder.with_calls_under_way(stop, self.end))?;
        recorder.is_back();
        self.load.look(&recorder).await?;
        if let Some(used) = used {
            used.again().await?;
            used.back().await?;
        }
        recorder.judge(self.seed, reported);
        Ok(away)
    }
}
