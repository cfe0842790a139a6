//! The growth suite: what can be done and undone, refused or given up is, again and again, and what the driver takes up must not
//! grow with it: memory, open files, threads, child processes, mounts, loop devices, and files in its directory.

mod back_end;
mod cycle;

use std::time::{Duration, Instant};

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;
use csi_harness::resources::trend::{Growth, Sample, growing};
use csi_harness::resources::usage::{Resource, Usage, connections_to_others};
use csi_ops::operation::Operation::*;

use crate::rules::{GROWTH_001, GROWTH_002, GROWTH_003};
use cycle::{Cycle, Scene};

pub const SUITE: Suite = Suite { name: "growth", checks: Checks::Declared(&[CHECKS]), retired: &[] };

const CHECKS: &[&Check] = &[
    &LOOKS,
    &VOLUMES,
    &COPIES,
    &SNAPSHOTS,
    &GROUP_SNAPSHOTS,
    &ATTACHMENTS,
    &STAGINGS,
    &PUBLICATIONS,
    &STATISTICS,
    &REFUSED_VOLUMES,
    &REFUSED_SNAPSHOTS,
    &REFUSED_ATTACHMENTS,
    &REFUSED_STAGINGS,
    &REFUSED_PUBLICATIONS,
    &GIVEN_UP,
    &CONNECTIONS,
    &back_end::BACK_END,
];

/// Looks at the driver, each after as many rounds; the first ones are there for what is made once.
const WARMING_UP: usize = 2;
const LOOKS_OF_SERIES: usize = 6;
/// Rounds between two looks: of calls that make something, and of calls that make nothing and take less time.
const ROUNDS_THAT_MAKE: u32 = 16;
const ROUNDS_THAT_MAKE_NOTHING: u32 = 60;
/// A resource that grows has to grow again in this multiple of the rounds: an allocator may take long to level off.
const AGAIN: u64 = 4;
/// The number of further looks at memory, until there is more of it than a garbage collector keeps.
const AGAIN_MEMORY: usize = 4;
/// So many things, in at least half as many rounds, come from no pool and no allocator that levels off: the series ends early.
const CERTAIN_THINGS: u64 = 256;
/// Looks of a series that show that much, at least.
const CERTAIN_LOOKS: usize = 2;
/// Memory that has to have come in all of that, beside what there was before: a collector of garbage lets the heap double.
const MEMORY_BYTES_MIN: u64 = 8 << 20;
/// Part of the longest time of a check after which a series of looks ends early.
const SERIES: u32 = 5;
/// Clients close a connection to a back end that was idle for 90 seconds, or sooner.
const KEEP_ALIVE: Duration = Duration::from_secs(100);

macro_rules! grows {
    ($($(#[doc = $doc:literal])+ $name:ident = $id:literal, $title:literal, $cycle:expr, by $rule:ident,
        needs [$($need:expr),*], refuted_by [$($defect:literal),+] $(, duplicate_of $leader:literal)?;)+) => {
        $(check! {
            $(#[doc = $doc])+
            $name {
                id: $id,
                title: $title,
                spec: [$rule],
                needs: [$($need),*],
                refuted_by: [$($defect),+],
                $(duplicate_of: $leader,)?
                runs: Serial,
                varies: true,
            }
            async |cx| {
                judge(cx, $cycle).await
            }
        })+
    };
}

grows! {
    /// Orchestrators send such calls as long as the driver runs.
    LOOKS = "growth/looks", "a driver's resources do not grow with each call that only reads",
        Cycle::Looks, by GROWTH_001,
        needs [], refuted_by ["list-volumes-keeps-memory"];
    /// A cluster makes and deletes volumes for years.
    VOLUMES = "growth/volumes", "a driver's resources do not grow with each volume that was made and deleted",
        Cycle::DoAndUndo(CreateVolume), by GROWTH_001,
        needs [CREATE_DELETE_VOLUME], refuted_by ["create-volume-keeps-memory", "delete-volume-keeps-file"],
        duplicate_of "growth/looks";
    /// Copies open their source, and have workers of their own.
    COPIES = "growth/copies", "a driver's resources do not grow with each copy that was made and deleted",
        Cycle::Copies, by GROWTH_001,
        needs [CREATE_DELETE_VOLUME, any_of(&[Capability::CreateDeleteSnapshot, Capability::CloneVolume])],
        refuted_by ["create-volume-from-source-keeps-file"], duplicate_of "growth/volumes";
    /// Backups make a snapshot each hour, and delete one.
    SNAPSHOTS = "growth/snapshots", "a driver's resources do not grow with each snapshot that was made and deleted",
        Cycle::DoAndUndo(CreateSnapshot), by GROWTH_001,
        needs [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT], refuted_by ["create-snapshot-keeps-thread"],
        duplicate_of "growth/looks";
    /// Each member is a snapshot that has to be released.
    GROUP_SNAPSHOTS = "growth/group-snapshots", "a driver's resources do not grow with each group snapshot that was made and deleted",
        Cycle::DoAndUndo(CreateVolumeGroupSnapshot), by GROWTH_001,
        needs [CREATE_DELETE_VOLUME, CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT], refuted_by ["create-group-snapshot-keeps-memory"],
        duplicate_of "growth/looks";
    /// Each pod that comes and goes attaches and detaches.
    ATTACHMENTS = "growth/attachments", "a driver's resources do not grow with each volume that was attached and detached",
        Cycle::DoAndUndo(ControllerPublishVolume), by GROWTH_001,
        needs [CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, NODE], refuted_by ["controller-publish-keeps-socket"],
        duplicate_of "growth/looks";
    /// Sessions, mappings and loop devices are made here.
    STAGINGS = "growth/stagings", "a driver's resources do not grow with each volume that was staged and unstaged",
        Cycle::DoAndUndo(NodeStageVolume), by GROWTH_001,
        needs [VOLUME, NODE, STAGE_UNSTAGE_VOLUME], refuted_by ["node-stage-keeps-child"], duplicate_of "growth/looks";
    /// Each pod that comes and goes publishes and unpublishes.
    PUBLICATIONS = "growth/publications", "a driver's resources do not grow with each volume that was published and unpublished",
        Cycle::DoAndUndo(NodePublishVolume), by GROWTH_001,
        needs [VOLUME, NODE], refuted_by ["node-publish-keeps-memory", "node-unpublish-leaves-zombie"], duplicate_of "growth/looks";
    /// kubelet requests statistics of each volume every minute, as long as its pod exists.
    STATISTICS = "growth/statistics", "a driver's resources do not grow with each query about a volume in use",
        Cycle::Statistics, by GROWTH_001,
        needs [VOLUME, NODE, GET_VOLUME_STATS], refuted_by ["node-get-volume-stats-keeps-thread"], duplicate_of "growth/looks";
    /// A claim that cannot be satisfied is requested again and again, for days.
    REFUSED_VOLUMES = "growth/refused-volumes", "a driver's resources do not grow with each volume that it refuses to make",
        Cycle::Reject(&[CreateVolume, DeleteVolume]), by GROWTH_002,
        needs [CREATE_DELETE_VOLUME], refuted_by ["create-volume-refusal-keeps-memory", "create-volume-keeps-rejected-names"],
        duplicate_of "growth/looks";
    /// A backup that cannot be made is tried again and again, for days.
    REFUSED_SNAPSHOTS = "growth/refused-snapshots", "a driver's resources do not grow with each snapshot that it refuses to make",
        Cycle::Reject(&[CreateSnapshot, DeleteSnapshot]), by GROWTH_002,
        needs [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT], refuted_by ["create-snapshot-refusal-keeps-thread"],
        duplicate_of "growth/looks";
    /// An attachment that cannot be made is tried again as long as the pod exists.
    REFUSED_ATTACHMENTS = "growth/refused-attachments", "a driver's resources do not grow with each volume that it refuses to attach",
        Cycle::Reject(&[ControllerPublishVolume]), by GROWTH_002,
        needs [CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, NODE], refuted_by ["controller-publish-refusal-keeps-socket"],
        duplicate_of "growth/looks";
    /// Kubelet repeats a rejected staging as long as the pod exists.
    REFUSED_STAGINGS = "growth/refused-stagings", "a driver's resources do not grow with each volume that it refuses to stage",
        Cycle::Reject(&[NodeStageVolume]), by GROWTH_002,
        needs [VOLUME, NODE, STAGE_UNSTAGE_VOLUME], refuted_by ["node-stage-refusal-leaves-zombie"],
        duplicate_of "growth/looks";
    /// Kubelet repeats a rejected publication as long as the pod exists.
    REFUSED_PUBLICATIONS = "growth/refused-publications", "a driver's resources do not grow with each volume that it refuses to publish",
        Cycle::Reject(&[NodePublishVolume]), by GROWTH_002,
        needs [VOLUME, NODE], refuted_by ["node-publish-refusal-keeps-file"], duplicate_of "growth/looks";
    /// If a back end is slow, callers give up, and the work that waits for it has to end with them.
    GIVEN_UP = "growth/given-up", "a driver's resources do not grow with each call that its caller gave up",
        Cycle::GivenUp, by GROWTH_003,
        needs [CREATE_DELETE_VOLUME], refuted_by ["create-volume-given-up-keeps-file"], duplicate_of "growth/volumes";
    /// Sidecars start and end, and each probe makes a connection.
    CONNECTIONS = "growth/connections", "a driver's resources do not grow with each connection that was broken",
        Cycle::Connections, by GROWTH_003,
        needs [], refuted_by ["connection-keeps-file"], duplicate_of "growth/looks";
}

/// Does something again and again, and judges whether the driver grows with it.
async fn judge(cx: &Cx, cycle: Cycle) -> CheckResult {
    if look(cx).await.is_none() {
        return Err(Stop::skip(
            "these tests do not see the driver's process; it has to listen at a socket on this machine, or --driver-pid has to name it",
        ));
    }
    cx.driver_directory().await;
    let scene = cycle.begin(cx).await?;
    let mut trial = CaseRunner { cx, cycle, scene, rng: cx.rng(), rounds: 0, planned: 0 };
    trial.samples(WARMING_UP, 1, &[]).await?;
    let mut found = growing(&trial.samples(LOOKS_OF_SERIES, 1, &[]).await?);
    for again in 0..AGAIN_MEMORY {
        let is_due = |growth: &Growth| {
            again == 0 || (growth.resource == Resource::Memory && !is_more_than_garbage(growth))
        };
        if !found.iter().any(is_due) {
            break;
        }
        let now = growing(&trial.samples(LOOKS_OF_SERIES, AGAIN, &found).await?);
        let confirmed = |before: Growth| match now.iter().find(|growth| growth.is_again(&before)) {
            Some(growth) => Some(before.and(growth)),
            None => Some(before).filter(|before| !is_due(before)),
        };
        found = found.into_iter().filter_map(confirmed).collect();
    }
    found.retain(|growth| growth.resource != Resource::Memory || is_more_than_garbage(growth));
    if trial.rounds < trial.planned {
        cx.cut_short(trial.rounds, trial.planned, "rounds");
    }
    if found.is_empty() { Ok(()) } else { trial.report(&found).await }
}

/// Returns true if more memory came than a garbage collector may keep, which lets the heap grow to twice its live size.
fn is_more_than_garbage(memory: &Growth) -> bool {
    memory.amount() >= memory.before + MEMORY_BYTES_MIN
}

/// The resources that the driver uses now; `None` where they cannot be seen, or the driver is a part of this process.
async fn look(cx: &Cx) -> Option<Usage> {
    let process = cx.driver_process().await.filter(|process| *process != std::process::id())?;
    Usage::of(process, cx.target().driver_directory().as_deref())
}

struct CaseRunner<'a> {
    cx: &'a Cx,
    cycle: Cycle,
    scene: Scene,
    rng: fastrand::Rng,
    rounds: u64,
    /// The number of rounds that were planned, had time not run out.
    planned: u64,
}

/// The finding about the driver's connections to other programs: true if the driver closes those that were idle for a while.
#[derive(Debug)]
struct ClosesIdleConnections(bool);

impl CaseRunner<'_> {
    /// Looks at the driver, and again after each series of rounds, which is `times` the usual one. The samples end
    /// early once it is certain that earlier growth recurs.
    async fn samples(&mut self, looks: usize, times: u64, before: &[Growth]) -> CheckResult<Vec<Sample>> {
        let effort = &self.cx.config().effort;
        let usual = if self.cycle.makes_something() { ROUNDS_THAT_MAKE } else { ROUNDS_THAT_MAKE_NOTHING };
        let each = u64::from(effort.scaled(usual)) * times;
        let longest = (effort.ceiling() / SERIES).min(self.cx.remaining() / SERIES);
        // Each look has its part of the time: rounds that all come before the first one would show no growth after it.
        let longest = longest / u32::try_from(looks).unwrap_or(u32::MAX);
        let mut samples = vec![self.sample().await?];
        for _ in 0..looks {
            self.planned += each;
            let (end, until) = (self.rounds + each, Instant::now() + longest);
            while self.rounds < end && Instant::now() < until {
                let counts = self.cycle.round(self.cx, &mut self.scene, &mut self.rng).await?;
                self.rounds += u64::from(counts);
                self.cx.stage("round", self.rounds, None);
            }
            samples.push(self.sample().await?);
            if is_certain(before, &samples) {
                break;
            }
        }
        Ok(samples)
    }

    async fn sample(&self) -> CheckResult<Sample> {
        let usage = look(self.cx).await;
        let usage = usage.ok_or_else(|| Stop::broken("the driver's process is no longer visible"))?;
        Ok(Sample { rounds: self.rounds, usage })
    }

    /// Says what grows, unless the driver gives it back once nothing more comes.
    async fn report(&self, seen: &[Growth]) -> CheckResult {
        let stays = |growth: &Growth, now: &Usage| {
            let half = growth.before + growth.after.saturating_sub(growth.before) / 2;
            now.get(growth.resource).is_some_and(|now| now > half)
        };
        let shrunk = self.cx.eventually(Settles::ProcessShrunk, || async {
            let now = self.sample().await?.usage;
            Ok((!seen.iter().any(|growth| stays(growth, &now))).then_some(()))
        });
        if shrunk.await?.is_some() {
            return Ok(());
        }
        let mut seen = seen.to_vec();
        if self.closes_idle_connections(&seen).await? {
            // An allocator may keep the memory of connections that are closed.
            seen.retain(|growth| !is_of_connections(growth) && growth.resource != Resource::Memory);
            let now = self.sample().await?.usage;
            seen.retain(|growth| stays(growth, &now));
            // Another check may have waited for its own connections, while those of this one are still open, each with a thread.
            if !seen.is_empty() {
                self.cx.wait(Settles::ProcessShrunk, KEEP_ALIVE, KEEP_ALIVE).await;
                let now = self.sample().await?.usage;
                seen.retain(|growth| stays(growth, &now));
            }
        }
        if seen.is_empty() {
            return Ok(());
        }
        let each =
            seen.iter().map(|one| one.resource.amount(one.per_round()).to_string()).collect::<Vec<_>>();
        let lines = seen.iter().map(|one| {
            let Growth { resource, before, after, rounds } = *one;
            let name = if resource.is_bytes() { "bytes " } else { "" };
            format!("{name}{}: {before} before, {after} after {rounds} rounds", resource.name(false))
        });
        let violation = Violation::new(format!(
            "the driver grows by {} for {}",
            each.join(" and "),
            self.cycle.description()
        ))
        .of(self.cycle.rule())
        .expected("the resources are released, or level off")
        .actual(lines.collect::<Vec<_>>().join("; "))
        // It grew in both series of rounds.
        .replayed(2, 2)
        .damage(Damage::Leak);
        if self.cx.target().is_owned() {
            return Err(violation.into());
        }
        // Others may call the driver, too.
        self.cx.warn(violation);
        Ok(())
    }

    /// Returns true if the driver keeps connections for later and closes them when they were idle. One check waits for that, and the others
    /// use its finding.
    async fn closes_idle_connections(&self, seen: &[Growth]) -> CheckResult<bool> {
        let Some(growth) = seen.iter().find(|growth| is_of_connections(growth)) else { return Ok(false) };
        let held = || async {
            let process = self.cx.driver_process().await;
            process.map_or(0, connections_to_others)
        };
        let before: u64 = held().await;
        if before * 2 < growth.amount() {
            return Ok(false);
        }
        let watch = async {
            let idle = self.cx.wait(Settles::ProcessShrunk, KEEP_ALIVE, KEEP_ALIVE);
            Ok(ClosesIdleConnections(are_closed_after(idle, before, held).await))
        };
        Ok(self.cx.learn(watch).await?.0)
    }
}

/// Returns true if fewer than half of the connections are left after they were idle.
async fn are_closed_after(
    idle: impl Future<Output = ()>,
    before: u64,
    held: impl AsyncFnOnce() -> u64,
) -> bool {
    idle.await;
    held().await * 2 < before
}

/// Returns true if each look has found enough new objects that the rest of the series would show nothing else. Bytes of
/// files are as certain as their files. Memory needs the whole series: an allocator may take long to level off.
fn is_certain(before: &[Growth], samples: &[Sample]) -> bool {
    let now = growing(samples);
    let grows_on = |before: &Growth| {
        now.iter().any(|now| {
            now.is_again(before) && now.amount() >= CERTAIN_THINGS && now.amount() * 2 >= now.rounds
        })
    };
    samples.len() > CERTAIN_LOOKS
        && !before.is_empty()
        && before.iter().all(|growth| match growth.resource {
            Resource::Memory => false,
            Resource::Storage => before.iter().any(|one| one.resource == Resource::Entries && grows_on(one)),
            _ => grows_on(growth),
        })
}

/// Returns true if the resource grows with connections: a socket is an open file, too.
fn is_of_connections(growth: &Growth) -> bool {
    matches!(growth.resource, Resource::Sockets | Resource::Files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_ends_once_each_round_has_kept_something() {
        let series = |resource, amounts: &[u64]| -> Vec<Sample> {
            let sample = |(at, amount): (usize, &u64)| Sample {
                rounds: 240 * at as u64,
                usage: Usage::from_amounts([(resource, *amount)]),
            };
            amounts.iter().enumerate().map(sample).collect()
        };
        let before = |resource| [Growth { resource, before: 10, after: 370, rounds: 360 }];
        let threads = [370, 610, 850];
        assert!(is_certain(&before(Resource::Threads), &series(Resource::Threads, &threads)));
        assert!(!is_certain(&before(Resource::Threads), &series(Resource::Threads, &threads[..2])));
        assert!(
            !is_certain(&before(Resource::Threads), &series(Resource::Threads, &[370, 450, 530])),
            "a pool"
        );
        assert!(!is_certain(&before(Resource::Files), &series(Resource::Threads, &threads)));
        assert!(!is_certain(&[], &series(Resource::Threads, &threads)));
        let memory = [370 << 20, 610 << 20, 850 << 20];
        assert!(!is_certain(&before(Resource::Memory), &series(Resource::Memory, &memory)));
        let entries = series(Resource::Entries, &threads);
        let [files, bytes] = [Resource::Entries, Resource::Storage].map(|resource| before(resource)[0]);
        assert!(is_certain(&[files, bytes], &entries));
        assert!(!is_certain(&[bytes], &entries), "a log");
    }

    #[test]
    fn a_heap_that_doubles_once_is_no_leak() {
        let memory = |before: u64, after: u64| {
            is_more_than_garbage(&Growth {
                resource: Resource::Memory,
                before: before << 20,
                after: after << 20,
                rounds: 1_200,
            })
        };
        // 45 KiB for each of 1,200 rounds, beside a live heap of 60 MiB.
        assert!(!memory(60, 113));
        assert!(!memory(60, 127));
        assert!(memory(60, 128), "there is more than the garbage of a heap of that size");
        assert!(memory(4, 30));
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_are_closed_when_idle_are_no_leak() {
        for (lifetime_seconds, left, is_closed) in [(90, 0, true), (90, 5, false), (3_600, 0, false)] {
            let opened = tokio::time::Instant::now();
            let held = async || match opened.elapsed().as_secs() < lifetime_seconds {
                true => 9,
                false => left,
            };
            let idle = tokio::time::sleep(KEEP_ALIVE);
            assert_eq!(are_closed_after(idle, 9, held).await, is_closed, "{left} after {lifetime_seconds} s");
        }
    }
}
