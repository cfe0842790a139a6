//! The resources that the driver takes up during a load: looked at while it runs, and confirmed by life cycles of one kind alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_harness::resources::trend::{Growth, Sample, growing, rising};
use csi_harness::resources::usage::{Resource, Usage};
use csi_proto::lock::Mutex;

use crate::cycle::{Caller, Cycle};
use crate::judge::LOAD_003;
use crate::recorder::Recorder;
use crate::report::{GrowthEntry, Report};
use crate::run::Load;

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
const ALONE_CYCLES_MIN: u64 = 12;
const ALONE_CYCLES_MAX: u64 = 40;
const ALONE_MAX: Duration = Duration::from_secs(60);
/// Times that a malformed request is sent alone between two looks.
const REQUEST_TIMES: u64 = 8;
/// A clear growth with life cycles of one kind: several times the amount that may have other reasons.
const ALONE_AMOUNT: f64 = 32.0;
const ALONE_BYTES: f64 = (8 << 20) as f64;
/// Life cycles of one kind end early if the resource has not risen after this part of a clear growth, which is several units of it.
const ALONE_EXPECTED: f64 = 0.09;
/// The growth of memory that is reported, in addition to the memory before the load: a garbage collector lets the heap double.
const MEMORY_BYTES_MIN: u64 = 8 << 20;
/// Life cycles of one kind alone are tried if memory has grown during the load by this part of its size before: one half.
const MEMORY_SUSPECTED: u64 = 2;
/// The growth of memory between two measurements of these life cycles that is expected if it grows as it did before.
const MEMORY_BYTES_BETWEEN: u64 = 512 << 10;
/// The largest number of these life cycles.
const MEMORY_CYCLES_MAX: u64 = 5_000;
/// The time limit for trying all kinds of life cycles for memory.
const MEMORY_MAX: Duration = Duration::from_secs(120);

/// Looks at the driver. The default one has no process to look at.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    /// The process of the driver, unless it is this one or cannot be seen.
    process: Option<u32>,
    directory: Option<std::path::PathBuf>,
    /// The findings of the load, which get each look at once, so that a screen shows it.
    findings: Arc<Mutex<Report>>,
    /// Looks in each stage of constant load.
    stages: Mutex<Vec<Vec<Sample>>>,
}

impl Sampler {
    pub(crate) async fn new(cx: &Cx, findings: Arc<Mutex<Report>>) -> Sampler {
        let process = cx.driver_process().await.filter(|process| *process != std::process::id());
        let directory = if process.is_some() { cx.driver_directory().await } else { None };
        Sampler { process, directory, findings, stages: Mutex::default() }
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
                self.findings.lock().growth = entries(samples, &[]);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Judges the resources that did not level off in the longest stage: life cycles of each kind alone have to show it again. The growth of
    /// each over that stage is a finding.
    pub(crate) async fn judge(&self, load: &Load, caller: &mut Caller) -> CheckResult {
        let stages = self.stages.lock().clone();
        let Some(samples) = stages.iter().max_by_key(|samples| samples.len()) else { return Ok(()) };
        let rising = rising(&samples[samples.len() / WARM_UP..]);
        let suspected: Vec<&Growth> = rising.iter().filter(|growth| is_suspected(growth)).collect();
        let mut unexplained: Vec<Resource> = suspected.iter().map(|growth| growth.resource).collect();
        let memory_until = Instant::now() + MEMORY_MAX;
        // The kind with the fewest calls that shows a growth says most about its reason.
        for cycle in Cycle::BY_CALLS.iter().filter(|cycle| load.workload.mix.contains_key(cycle)) {
            let is_late = Instant::now() >= memory_until;
            let tried: Vec<Resource> =
                unexplained.iter().copied().filter(|one| *one != Resource::Memory || !is_late).collect();
            if !tried.is_empty() {
                let growths: Vec<&Growth> =
                    suspected.iter().copied().filter(|growth| tried.contains(&growth.resource)).collect();
                let found = self.confirm(load, caller, *cycle, &growths).await?;
                unexplained.retain(|resource| !found.contains(resource));
            }
        }
        for growth in suspected {
            let per_cycle = growth.resource.amount(growth.per_round());
            let may_be_garbage =
                growth.resource == Resource::Memory && growth.after < more_than_garbage(growth);
            if unexplained.contains(&growth.resource) && !may_be_garbage {
                load.cx.note(format!(
                    "the driver grew by {per_cycle} for each life cycle of the load, which life cycles of one kind alone did not show again"
                ));
            }
        }
        self.findings.lock().growth = entries(samples, &rising);
        Ok(())
    }

    /// Runs life cycles of one kind alone, and reports the resources that grow with them as well, and returns these. `suspected` is the growth
    /// before.
    async fn confirm(
        &self,
        load: &Load,
        caller: &mut Caller,
        cycle: Cycle,
        suspected: &[&Growth],
    ) -> CheckResult<Vec<Resource>> {
        load.recorder.begin(&format!("only {}", cycle.name()), None, None);
        let until = Instant::now() + ALONE_MAX;
        let cycles = suspected.iter().map(|growth| cycles_between_looks(growth)).max().unwrap_or_default();
        let (mut samples, mut rounds) = (Vec::new(), 0);
        for look in 0..ALONE_WARM_UP + ALONE_LOOKS {
            // After the time is over nothing grows any more, which says nothing about the driver.
            if Instant::now() >= until {
                break;
            }
            while rounds < cycles * look as u64 && Instant::now() < until && !load.judge.is_dead() {
                load.cycle(caller, cycle, Instant::now()).await?;
                rounds += 1;
                load.cx.stage("life cycle of one kind", rounds, None);
            }
            samples.extend(self.look(rounds).await);
            let judged = &samples[ALONE_WARM_UP.min(samples.len())..];
            let rises = suspected.iter().any(|one| has_risen(judged, one.resource));
            let alone = cycles * judged.len().saturating_sub(1) as u64;
            let is_enough =
                judged.len() >= ALONE_LOOKS_MIN || suspected.iter().all(|growth| is_expected(growth, alone));
            if !rises && is_enough {
                break;
            }
        }
        load.recorder.end();
        let judged = &samples[ALONE_WARM_UP.min(samples.len())..];
        let mut found = if judged.len() >= ALONE_LOOKS_MIN { growing(judged) } else { Vec::new() };
        found.retain(|growth| {
            suspected.iter().any(|before| {
                before.resource == growth.resource
                    && (growth.resource != Resource::Memory || growth.after >= more_than_garbage(before))
            })
        });
        if found.is_empty() || self.gives_back(load, &found).await? {
            return Ok(Vec::new());
        }
        let rejected = match cycle {
            Cycle::Rejection => self.find_rejected(load, caller, &found).await,
            _ => None,
        };
        for mut growth in found.iter().copied() {
            let (mut each, mut rounds, mut calls) = (cycle.name().to_owned(), "life cycles", Vec::new());
            if let Some((rejected, alone)) = &rejected
                && alone.resource == growth.resource
            {
                (growth, rounds) = (*alone, "calls");
                each = format!("rejected {}", rejected.call);
                calls.clone_from(&rejected.lines);
            }
            let violation = Violation::new(format!(
                "the driver grows by {} for each {each}",
                growth.resource.amount(growth.per_round()),
            ))
            .of(&LOAD_003)
            .expected("the resources are released, or level off")
            .actual(format!(
                "{}: {} before, {} after {} {rounds}",
                growth.resource.name(false),
                growth.before,
                growth.after,
                growth.rounds
            ))
            .transcript(calls)
            .damage(Damage::Leak);
            // Others may call the driver, too, and how much memory a collector of garbage keeps is known to itself alone.
            match load.cx.target().is_owned() && growth.resource != Resource::Memory {
                true => load.judge.blame(violation),
                false => load.cx.warn(violation),
            }
        }
        Ok(found.iter().map(|growth| growth.resource).collect())
    }

    /// Sends each malformed request alone, until one of them shows the growth of a resource twice. `None` if none does in time.
    async fn find_rejected(
        &self,
        load: &Load,
        caller: &Caller,
        found: &[Growth],
    ) -> Option<(Rejected, Growth)> {
        let until = Instant::now() + ALONE_MAX;
        for number in load.fleet.rejected() {
            let mut samples = vec![self.look(0).await?];
            let mut answer = None;
            for times in 1..=2 {
                for _ in 0..REQUEST_TIMES {
                    answer = load.reject(caller, number).await;
                    if answer.is_none() || Instant::now() >= until {
                        break;
                    }
                }
                samples.push(self.look(times * REQUEST_TIMES).await?);
            }
            if Instant::now() >= until {
                return None;
            }
            let grown = found.iter().find_map(|growth| each_time(&samples, growth.resource));
            if let (Some(answer), Some(growth)) = (answer, grown) {
                let malformed = load.fleet.malformed(number);
                let method = malformed.request.operation().method();
                let call = format!("{method} {}", malformed.what);
                let lines = vec![format!("{method} {}", malformed.request.json()), format!("→ {answer}")];
                return Some((Rejected { call, lines }, growth));
            }
        }
        None
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

/// A malformed call with which a resource grows.
struct Rejected {
    /// The RPC, and what is wrong with the request.
    call: String,
    /// The request and the answer, as they went over the wire.
    lines: Vec<String>,
}

/// The growth of a resource that has come between each two looks, with at least one in two calls.
fn each_time(samples: &[Sample], resource: Resource) -> Option<Growth> {
    // Memory and files grow in steps that have nothing to do with single calls.
    if resource.is_bytes() {
        return None;
    }
    let amounts: Vec<u64> = samples.iter().map(|sample| sample.usage.get(resource)).collect::<Option<_>>()?;
    let grows = amounts.windows(2).all(|pair| pair[1] >= pair[0] + REQUEST_TIMES / 2);
    let (first, last) = (samples.first()?, samples.last()?);
    grows.then(|| Growth {
        resource,
        before: first.usage.get(resource).unwrap_or_default(),
        after: last.usage.get(resource).unwrap_or_default(),
        rounds: last.rounds - first.rounds,
    })
}

/// The growth of each resource from the first look to the last one, and with each life cycle where it rises.
fn entries(samples: &[Sample], rising: &[Growth]) -> Vec<GrowthEntry> {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return Vec::new() };
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
    Resource::ALL.into_iter().filter_map(entry).collect()
}

/// Returns true if life cycles of one kind are to show whether it grows with them.
fn is_suspected(growth: &Growth) -> bool {
    growth.resource != Resource::Memory || growth.amount() * MEMORY_SUSPECTED >= growth.before
}

/// The amount of memory that is more than a collector of garbage may keep, which lets the heap grow to twice its live size.
fn more_than_garbage(memory: &Growth) -> u64 {
    memory.before.saturating_mul(2).saturating_add(MEMORY_BYTES_MIN)
}

fn clear_amount(resource: Resource) -> f64 {
    if resource.is_bytes() { ALONE_BYTES } else { ALONE_AMOUNT }
}

/// The life cycles of one kind between two looks with which a clear growth comes, if the resource grows as it did before. A kind that does
/// not cause the growth is tried with so many as well.
fn cycles_between_looks(growth: &Growth) -> u64 {
    if growth.resource == Resource::Memory {
        return cycles_for_memory(growth);
    }
    let between =
        clear_amount(growth.resource) / (ALONE_LOOKS - 1) as f64 / growth.per_round().max(f64::MIN_POSITIVE);
    (between.ceil() as u64).clamp(ALONE_CYCLES_MIN, ALONE_CYCLES_MAX)
}

/// Returns true if so many life cycles of a kind that causes the growth make some of it.
fn is_expected(growth: &Growth, cycles: u64) -> bool {
    let expected = growth.per_round() * cycles as f64;
    growth.resource != Resource::Memory && expected >= clear_amount(growth.resource) * ALONE_EXPECTED
}

/// The life cycles between two looks with which so much memory comes, if it grows as it did before.
fn cycles_for_memory(memory: &Growth) -> u64 {
    let lacking = more_than_garbage(memory).saturating_sub(memory.after) / ALONE_LOOKS as u64;
    let between = (lacking + MEMORY_BYTES_BETWEEN) as f64 / memory.per_round().max(1.0);
    (between as u64).clamp(ALONE_CYCLES_MAX, MEMORY_CYCLES_MAX)
}

/// Returns true if there is more of a resource at the last look than at the first one.
fn has_risen(samples: &[Sample], resource: Resource) -> bool {
    let amount = |sample: Option<&Sample>| sample.and_then(|sample| sample.usage.get(resource));
    amount(samples.last()) > amount(samples.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_growth_needs_few_life_cycles() {
        let leak =
            |amount: u64| Growth { resource: Resource::Files, before: 20, after: 20 + amount, rounds: 600 };
        assert_eq!(cycles_between_looks(&leak(600)), ALONE_CYCLES_MIN);
        assert_eq!(
            cycles_between_looks(&leak(150)),
            22,
            "with one in four, {ALONE_AMOUNT} come between seven looks"
        );
        assert_eq!(cycles_between_looks(&leak(20)), ALONE_CYCLES_MAX);
    }

    #[test]
    fn memory_is_tried_beyond_what_a_collector_may_keep() {
        let grown = |before: u64, after: u64| Growth {
            resource: Resource::Memory,
            before: before << 20,
            after: after << 20,
            rounds: 1_024 * (after - before),
        };
        assert!(is_suspected(&grown(6, 9)));
        assert!(!is_suspected(&grown(100, 140)), "a heap grows before anything is collected");
        assert_eq!(more_than_garbage(&grown(6, 9)), 20 << 20);
        // 11 of 20 MiB are missing, of which 1 KiB comes with each life cycle.
        let cycles = cycles_for_memory(&grown(6, 9)) * ALONE_LOOKS as u64;
        assert!((11 << 10..18 << 10).contains(&cycles), "{cycles}");
    }
}
