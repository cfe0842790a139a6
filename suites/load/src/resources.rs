//! The resources that the driver takes up during a load: looked at while it runs, and confirmed by life cycles of one kind alone.

use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_harness::resources::trend::{Growth, Sample, growing, rising};
use csi_harness::resources::usage::{Resource, Usage};
use csi_proto::lock::Mutex;

use crate::cycle::{Caller, Cycle};
use crate::judge::LOAD_003;
use crate::load::Load;
use crate::recorder::Recorder;
use crate::report::GrowthEntry;

/// Looks at the driver in a stage of constant load.
const LOOKS: u32 = 40;
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Part of a stage, as one in so many, that is not judged: pools and caches fill.
const WARM_UP: usize = 4;
/// Looks at life cycles of one kind alone: those to warm up, and those that are judged.
const ALONE_WARM_UP: usize = 2;
const ALONE_LOOKS: usize = 7;
/// Looks that are judged, after which life cycles with which nothing has risen are left.
const ALONE_LOOKS_MIN: usize = 4;
/// Life cycles between two of these looks, and the time that all of one kind may take.
const ALONE_CYCLES: u64 = 40;
const ALONE_MAX: Duration = Duration::from_secs(60);
/// Memory that has to come in addition to as much as there was: a collector of garbage lets the heap double.
const MEMORY_BYTES_MIN: u64 = 8 << 20;

/// Looks at the driver.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// The process of the driver, unless it is this one or cannot be seen.
    process: Option<u32>,
    directory: Option<std::path::PathBuf>,
    /// Looks in each stage of constant load.
    stages: Mutex<Vec<Vec<Sample>>>,
}

impl Sampler {
    pub(crate) async fn new(cx: &Cx) -> Sampler {
        let process = cx.driver_process().await.filter(|process| *process != std::process::id());
        let directory = if process.is_some() { cx.driver_directory().await } else { None };
        Sampler { process, directory, stages: Mutex::default() }
    }

    async fn look(&self, rounds: u64) -> Option<Sample> {
        let (process, directory) = (self.process?, self.directory.clone());
        // It reads many small files.
        let usage = tokio::task::spawn_blocking(move || Usage::of(process, directory.as_deref())).await;
        Some(Sample { rounds, usage: usage.ok()?? })
    }

    /// Looks at the driver again and again, in a stage of constant load that takes so long. Never ends.
    pub(crate) async fn watch(&self, recorder: &Recorder, duration: Option<Duration>) {
        let (Some(duration), true) = (duration, self.process.is_some()) else {
            return std::future::pending().await;
        };
        self.stages.lock().push(Vec::new());
        let pause = (duration / LOOKS).clamp(PAUSE_MIN, PAUSE_MAX);
        loop {
            let sample = self.look(recorder.cycles()).await;
            if let Some(samples) = self.stages.lock().last_mut() {
                samples.extend(sample);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// The growth of each resource over the longest stage, and a judgement of what did not level off: life cycles of each kind alone have
    /// to show it again.
    ///
    /// # Errors
    /// Broken as for a life cycle.
    pub(crate) async fn judge(&self, load: &Load, caller: &mut Caller) -> CheckResult<Vec<GrowthEntry>> {
        let stages = self.stages.lock().clone();
        let Some(samples) = stages.iter().max_by_key(|samples| samples.len()) else { return Ok(Vec::new()) };
        let rising = rising(&samples[samples.len() / WARM_UP..]);
        let suspected: Vec<&Growth> =
            rising.iter().filter(|growth| growth.resource != Resource::Memory).collect();
        let mut unexplained: Vec<Resource> = suspected.iter().map(|growth| growth.resource).collect();
        // The kind with the fewest calls that shows a growth says most about its reason.
        for cycle in Cycle::BY_CALLS.iter().filter(|cycle| load.workload.mix.contains_key(cycle)) {
            if !unexplained.is_empty() {
                let found = self.confirm(load, caller, *cycle, &unexplained).await?;
                unexplained.retain(|resource| !found.contains(resource));
            }
        }
        for growth in &rising {
            let per_cycle = growth.resource.amount(growth.per_round());
            let is_heap = growth.resource == Resource::Memory;
            let is_garbage = is_heap && growth.amount() < growth.before + MEMORY_BYTES_MIN;
            if (is_heap && !is_garbage) || unexplained.contains(&growth.resource) {
                load.cx.note(format!(
                    "the driver grew by {per_cycle} for each life cycle of the load, which life cycles of one kind alone did not show again"
                ));
            }
        }
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return Ok(Vec::new()) };
        let entry = |resource: Resource| {
            let (before, after) = (first.usage.get(resource)?, last.usage.get(resource)?);
            let grows = rising.iter().find(|growth| growth.resource == resource);
            let points = samples.iter().filter_map(|look| Some((look.rounds, look.usage.get(resource)?)));
            Some(GrowthEntry {
                resource,
                before,
                after,
                per_cycle: grows.map(Growth::per_round),
                points: points.collect(),
            })
        };
        Ok(Resource::ALL.into_iter().filter_map(entry).collect())
    }

    /// Runs life cycles of one kind alone, and reports the resources that grow with them as well, and returns these.
    async fn confirm(
        &self,
        load: &Load,
        caller: &mut Caller,
        cycle: Cycle,
        suspected: &[Resource],
    ) -> CheckResult<Vec<Resource>> {
        load.recorder.begin(&format!("only {}", cycle.name()), None, None);
        let until = Instant::now() + ALONE_MAX;
        let (mut samples, mut rounds) = (Vec::new(), 0);
        for look in 0..ALONE_WARM_UP + ALONE_LOOKS {
            while rounds < ALONE_CYCLES * look as u64 && Instant::now() < until && !load.judge.is_dead() {
                load.cycle(caller, cycle, Instant::now()).await?;
                rounds += 1;
                load.cx.stage("life cycle of one kind", rounds, None);
            }
            samples.extend(self.look(rounds).await);
            let judged = &samples[ALONE_WARM_UP.min(samples.len())..];
            if judged.len() >= ALONE_LOOKS_MIN && !suspected.iter().any(|one| has_risen(judged, *one)) {
                break;
            }
        }
        load.recorder.end();
        let mut found = growing(&samples[ALONE_WARM_UP.min(samples.len())..]);
        found.retain(|growth| suspected.contains(&growth.resource));
        if found.is_empty() || self.gives_back(load, &found).await? {
            return Ok(Vec::new());
        }
        for growth in &found {
            let violation = Violation::new(format!(
                "the driver grows by {} for each {}",
                growth.resource.amount(growth.per_round()),
                cycle.name()
            ))
            .of(&LOAD_003)
            .expected("the resources are released, or level off")
            .actual(format!(
                "{}: {} before, {} after {} life cycles",
                growth.resource.name(false),
                growth.before,
                growth.after,
                growth.rounds
            ))
            .damage(Damage::Leak);
            match load.cx.target().is_owned() {
                true => load.judge.blame(violation),
                // Others may call the driver, too.
                false => load.cx.warn(violation),
            }
        }
        Ok(found.iter().map(|growth| growth.resource).collect())
    }

    /// Returns true if the driver releases the resources once nothing more is asked of it.
    async fn gives_back(&self, load: &Load, found: &[Growth]) -> CheckResult<bool> {
        let stays = |growth: &Growth, now: &Usage| {
            now.get(growth.resource).is_some_and(|now| now > growth.before + growth.amount() / 2)
        };
        let shrunk = load.cx.eventually(Settles::ProcessShrunk, || async {
            let now = self.look(0).await;
            Ok(now.filter(|now| !found.iter().any(|growth| stays(growth, &now.usage))).map(drop))
        });
        Ok(shrunk.await?.is_some())
    }
}

/// Returns true if there is more of a resource at the last look than at the first one.
fn has_risen(samples: &[Sample], resource: Resource) -> bool {
    let amount = |sample: Option<&Sample>| sample.and_then(|sample| sample.usage.get(resource));
    amount(samples.last()) > amount(samples.first())
}
