//! The check that a workload becomes: volumes are created, the stages run, and everything is judged and undone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use csi_harness::checks::check::{Body, Check, Runs};
use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;
use csi_harness::resources::workload::new_run;
use csi_harness::text::message::error_chain;
use csi_proto::Service;
use futures_util::FutureExt as _;
use tempfile::TempPath;
use tokio::sync::watch;

use crate::cycle::{Caller, Cycle};
use crate::fleet::Fleet;
use crate::judge::{Judge, LOAD_005, RULES};
use crate::recorder::Recorder;
use crate::report::{Report, Results, ShardEntry, ThresholdEntry};
use crate::resources::Sampler;
use crate::scaling::Cost;
use crate::threshold::Time;
use crate::workers::at_once;
use crate::workload::{Course, Part, Stage, Workload};

/// The largest number of callers that create, check and delete the volumes that stay.
const KEEPERS_MAX: u32 = 16;
/// Time between two updates of the progress.
const TICK: Duration = Duration::from_secs(1);
/// Time that parts of a load wait for each other, and between two looks.
const MEETING_MAX: Duration = Duration::from_secs(600);
const MEETING_PAUSE: Duration = Duration::from_millis(50);
/// Time after which life cycles of a burst that have not begun are left out.
const BURST_MAX: Duration = Duration::from_secs(600);

/// The state of a load, which its callers share.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) cx: Cx,
    pub(crate) workload: Workload,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) judge: Judge,
    pub(crate) fleet: Fleet,
    /// True while the driver is restarted.
    pub(crate) is_down: watch::Sender<bool>,
    /// Marks the writes of this load, so that those of others are not taken for them.
    pub(crate) run: u64,
    /// The moment after which nothing more is begun, if the load is one check among others and not the purpose of the run. Such a load is
    /// too short for trends, and a driver with too little storage for it is not blamed.
    pub(crate) ends: Option<Instant>,
}

impl Load {
    /// Returns true if nothing more is begun.
    pub(crate) fn is_over(&self) -> bool {
        self.ends.is_some_and(|ends| Instant::now() >= ends)
    }
}

/// The suite with the check of this workload. Its measurements go to `results`.
pub fn suite(workload: &Workload, results: &Results) -> Suite {
    let (workload, results) = (workload.clone(), results.clone());
    let id = format!("load/{}", workload.name);
    let title = format!("nothing is lost, leaks or goes wrong under the load {}", workload.name);
    let kills = workload.stages.iter().any(|stage| stage.kills);
    let body = Body::made(move |cx| {
        let (workload, results) = (workload.clone(), results.clone());
        Box::pin(async move { run(cx, workload, &results, None).await })
    });
    let check = Check {
        requirements: RULES,
        needs: if kills { &[CREATE_DELETE_VOLUME, RESTARTS] } else { &[CREATE_DELETE_VOLUME] },
        runs: Runs::Serial,
        ..Check::new(id.into(), title.into(), body)
    };
    Suite { name: "load", checks: Checks::made([check]), retired: &[] }
}

/// Makes the load and judges it. Nothing more is begun after the moment `ends`, which a load that is one check among
/// others has. Skips if the driver cannot be put under this load, and is broken if that cannot be judged.
pub(crate) async fn run(
    cx: &Cx,
    mut workload: Workload,
    results: &Results,
    ends: Option<Instant>,
) -> CheckResult {
    // A load that runs once more, because its connection broke, has new measurements.
    results.recorder.clear();
    let info = cx.target().info();
    let shard = workload.part.as_ref().map(|part| part.shard);
    *results.findings.lock() = Report {
        driver: format!("{} {}", info.name, info.vendor_version),
        shard: shard.map(|shard| ShardEntry { index: shard.index(), of: shard.of() }),
        ..Report::default()
    };
    leave_out(cx, &mut workload)?;
    let fleet = Fleet::new(cx, &workload).await?;
    let (recorder, judge, run) = (results.recorder.clone(), Judge::default(), new_run());
    let is_down = watch::Sender::default();
    let load = Arc::new(Load { cx: cx.clone(), workload, recorder, judge, fleet, is_down, run, ends });
    load.run(results).await
}

/// Leaves out the life cycles that the driver does not offer.
fn leave_out(cx: &Cx, workload: &mut Workload) -> CheckResult {
    let lacking: Vec<&str> =
        workload.mix.keys().filter(|cycle| !cycle.is_offered(cx)).map(|cycle| cycle.name()).collect();
    if !lacking.is_empty() {
        cx.note(format!(
            "life cycles that are left out, since the driver does not support them or --access-type does not name them: {}",
            lacking.join(", ")
        ));
    }
    workload.mix.retain(|cycle, share| cycle.is_offered(cx) && *share > 0);
    if !cx.target().serves(Service::Node) {
        workload.published = 0;
    }
    match workload.mix.is_empty() {
        true => Err(Stop::skip("the driver has no calls for any of the life cycles")),
        false => Ok(()),
    }
}

impl Load {
    async fn run(self: &Arc<Self>, results: &Results) -> CheckResult {
        let keepers = self.workload.callers.min(KEEPERS_MAX) as usize;
        let mut keepers = self.callers(keepers, 0);
        let mut callers = self.callers(self.workload.callers as usize, keepers.len());
        let mut poller = Caller::new(&self.cx, keepers.len() + callers.len(), &self.recorder);
        self.recorder.begin(
            "create",
            (self.workload.volumes > 0).then(|| self.workload.volumes.into()),
            None,
        );
        let costs = self.fill(&mut keepers).await?;
        self.recorder.end();
        if self.ends.is_some() && self.judge.lacks_anything() {
            return self.judge.conclude(&self.cx, self.ends.is_some());
        }
        let met = self.meet().await?;
        let sampler = match self.ends {
            None => Sampler::new(&self.cx, results.findings.clone()).await,
            Some(_) => Sampler::default(),
        };
        let mut played = 0;
        for stage in &self.workload.stages {
            if !self.judge.is_dead() && !self.is_over() {
                self.stage(stage, &mut callers, &keepers[0], &mut poller, &sampler).await?;
                played += u64::from(!self.is_over());
            }
        }
        let stages = self.workload.stages.len() as u64;
        if self.is_over() && played < stages {
            self.cx.cut_short(played, stages, "stages of the load");
        }
        drop(met);
        if !self.judge.is_dead() {
            self.recorder.begin("check", None, None);
            self.inspect(&keepers).await?;
            self.recorder.end();
            // Other parts of the load may still be under way.
            if self.ends.is_none()
                && self.workload.part.is_none()
                && self.workload.mix.contains_key(&Cycle::Attachment)
            {
                self.recorder.begin("compare", None, None);
                self.compare_volumes(&keepers).await?;
                self.recorder.end();
            }
            sampler.judge(self, &mut callers[0]).await?;
            self.recorder.begin("delete", None, None);
            self.clear(&keepers).await?;
            self.recorder.end();
        }
        if self.ends.is_none() {
            self.judge_times(results, costs);
        }
        self.judge.conclude(&self.cx, self.ends.is_some())
    }

    fn callers(&self, count: usize, first: usize) -> Vec<Caller> {
        (first..first + count).map(|number| Caller::new(&self.cx, number, &self.recorder)).collect()
    }

    async fn stage(
        self: &Arc<Self>,
        stage: &Stage,
        callers: &mut Vec<Caller>,
        keeper: &Caller,
        poller: &mut Caller,
        sampler: &Sampler,
    ) -> CheckResult {
        let course = stage.course;
        let is_steady = match course {
            Course::Callers { is_ramp, .. } => !is_ramp,
            Course::Rate { from, to, .. } => from == to,
            Course::Burst(_) => false,
        };
        let steady = course.duration().filter(|_| is_steady);
        self.recorder.begin(&stage.name, self.workload.planned(course), steady);
        let next = Arc::new(AtomicU64::new(0));
        let begun = Instant::now();
        let count = callers.len();
        let work = callers.drain(..).enumerate().map(|(number, mut caller)| {
            let offset = match course {
                Course::Callers { duration, is_ramp: true } => duration.mul_f64(number as f64 / count as f64),
                _ => Duration::ZERO,
            };
            let (load, next) = (self.clone(), next.clone());
            let work = async move {
                let ended = load.take_part(&mut caller, course, &next, begun, offset).await;
                (caller, ended)
            };
            work.boxed()
        });
        let work = at_once(work.collect());
        let restart = async {
            match course.duration().filter(|_| stage.kills) {
                Some(duration) => {
                    tokio::time::sleep(duration / 2).await;
                    self.restart(keeper).await
                }
                None => Ok(()),
            }
        };
        let progress = async {
            let of = course.duration().map(|duration| duration.as_secs().max(1));
            for second in 1.. {
                match of {
                    Some(of) if second > of => {
                        self.cx.stage("second of waiting for the last calls of the load", second - of, None);
                    }
                    _ => self.cx.stage("second of the load", second, of),
                }
                tokio::time::sleep(TICK).await;
            }
        };
        tokio::select! {
            // Callers wait as long as the driver is down, so a driver that does not come back ends their work.
            ended = async { tokio::try_join!(work.map(Ok), restart) } => {
                let (returned, ended): (Vec<Caller>, Vec<CheckResult>) = ended?.0.into_iter().unzip();
                *callers = returned;
                ended.into_iter().collect::<CheckResult>()?;
            }
            polled = self.poll(poller, self.workload.poll) => polled?,
            () = progress => {}
            () = sampler.watch(&self.recorder, steady) => {}
        }
        self.recorder.end();
        Ok(())
    }

    /// Makes the life cycles of one caller, until the last one that is due in this stage.
    async fn take_part(
        &self,
        caller: &mut Caller,
        course: Course,
        next: &AtomicU64,
        begun: Instant,
        offset: Duration,
    ) -> CheckResult {
        let end = begun + course.duration().unwrap_or(BURST_MAX);
        let end = self.ends.map_or(end, |ends| ends.min(end));
        tokio::time::sleep(offset).await;
        while !self.judge.is_dead() && !self.judge.is_in_vain() {
            let number = self.workload.number(next.fetch_add(1, Ordering::Relaxed));
            let due = match course {
                Course::Callers { .. } => Instant::now(),
                Course::Rate { .. } | Course::Burst(_) => {
                    let Some(due) = course.due(number) else { break };
                    begun + due
                }
            };
            tokio::time::sleep_until(due.into()).await;
            // The sender is a part of the load.
            let _ = self.is_down.subscribe().wait_for(|is_down| !is_down).await;
            if Instant::now() >= end {
                break;
            }
            self.cycle(caller, self.workload.cycle(number), due).await?;
            // Others have their turn also while all answers are there at once.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Kills the driver and starts it again. Then each published volume is published once more, as kubelet does after a node has
    /// restarted.
    async fn restart(&self, keeper: &Caller) -> CheckResult {
        let target = self.cx.target();
        let driver = target.driver().ok_or_else(|| Stop::skip("the run cannot stop and start the driver"))?;
        self.is_down.send_replace(true);
        driver.kill().await.map_err(|error| Stop::broken(error_chain(&error)))?;
        let took = match target.bring_back().await {
            Ok(took) => took,
            Err(away) if !away.is_fault() => return Err(Stop::broken(away.to_string())),
            Err(away) => {
                return Err(Violation::new(
                    "the driver does not answer after it was killed under load and started again",
                )
                .of(&req::GEN_ERR_001)
                .expected("a driver that starts from any state that a kill can leave")
                .actual(away)
                .damage(Damage::Crash)
                .printed(driver.last_lines())
                .into());
            }
        };
        self.is_down.send_replace(false);
        self.cx.note(format!("the driver was killed, and answered again {} after its start", Time(took)));
        self.publish_all_again(keeper).await
    }

    /// Waits until all parts of the load are here, each of which leaves a file in the directory that they share. The file is removed when
    /// the stages are over, so that it misleads no later load.
    async fn meet(&self) -> CheckResult<Option<TempPath>> {
        let Some(Part { shard, meeting_dir: Some(directory) }) = &self.workload.part else { return Ok(None) };
        let file = |index: u32| directory.join(format!("{}-{index}-of-{}", self.workload.name, shard.of()));
        let own = file(shard.index());
        let failed =
            |error| Stop::broken(format!("failed to write {}: {error}", file(shard.index()).display()));
        std::fs::write(&own, "").map_err(failed)?;
        let own = TempPath::try_from_path(&own).map_err(failed)?;
        let until = Instant::now() + MEETING_MAX;
        loop {
            let here = (1..=shard.of()).filter(|index| file(*index).exists()).count() as u64;
            if here == u64::from(shard.of()) {
                return Ok(Some(own));
            }
            if Instant::now() >= until {
                return Err(Stop::broken(format!(
                    "{here} of {} parts of the load have come to {} within {} s",
                    shard.of(),
                    directory.display(),
                    MEETING_MAX.as_secs()
                )));
            }
            self.cx.stage("part of the load that is ready", here, Some(shard.of().into()));
            tokio::time::sleep(MEETING_PAUSE).await;
        }
    }

    /// Compares the measurements with the limits of the user, and looks for calls that become slower.
    fn judge_times(&self, results: &Results, costs: Vec<Cost>) {
        let mut findings = results.findings.lock();
        for threshold in &self.workload.thresholds {
            let Some((series, elapsed)) = self.recorder.whole(threshold.rpc()) else {
                self.judge.lacks(format!("{threshold}: {} was not called", threshold.rpc()));
                continue;
            };
            let (value, is_met) = threshold.evaluate(&series, elapsed);
            // A limit on the whole load says nothing about a part of it.
            if !is_met && self.workload.part.is_none() {
                let violation = Violation::new(format!("the threshold {threshold} is not met"));
                self.judge.blame(violation.of(&LOAD_005).expected(threshold).actual(&value));
            }
            findings.thresholds.push(ThresholdEntry { threshold: threshold.to_string(), value, is_met });
        }
        findings.cost = costs;
        findings.cost.iter().filter_map(Cost::violation).for_each(|slow| self.judge.blame(slow));
        for stage in self.recorder.stages() {
            for (rpc, series) in &stage.rpcs {
                if let Some(slower) = crate::report::slower(&stage, rpc, series) {
                    self.judge.blame(slower);
                }
            }
        }
    }
}
