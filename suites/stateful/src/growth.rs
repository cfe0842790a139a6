//! The growth suite: what can be done and undone, refused or given up is, again and again, and what the driver takes up must not
//! grow with it: memory, open files, threads, child processes, mounts, loop devices, and files in its directory.

mod back_end;
mod cycle;
pub mod rules;
mod trend;

use std::time::{Duration, Instant};

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;
use csi_harness::resources::usage::{Resource, Usage};

use cycle::{Cycle, Scene};
use rules::{GROWTH_001, GROWTH_002, GROWTH_003};
use trend::{Growth, Sample, growing};

/// The growth suite.
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
    &REFUSED_VOLUMES,
    &REFUSED_SNAPSHOTS,
    &REFUSED_ATTACHMENTS,
    &REFUSED_STAGINGS,
    &REFUSED_PUBLICATIONS,
    &GIVEN_UP,
    &CONNECTIONS,
    &back_end::BACK_END,
];

/// Part of the time of a check of these suites that one of this suite looks, and again for each look at what it suspects.
const SHARE: u32 = 300;
const SHARE_AGAIN: u32 = 120;
/// Looks at the driver, each after as many rounds; the first ones are there for what is made once.
const WARMING_UP: usize = 2;
const LOOKS_MAX: usize = 6;
/// Rounds between two looks at the most.
const ROUNDS_MAX: u64 = 200;
/// Fewer rounds in all show only what grows with each of them.
const ROUNDS_FEW: u64 = 100;
/// Times that what grows has to grow again: an allocator, or a collector of garbage, may take long to level off.
const AGAIN: usize = 1;
const AGAIN_MEMORY: usize = 3;
/// Memory that has to have come in all of that.
const MEMORY_BYTES_MIN: u64 = 8 << 20;

macro_rules! grows {
    ($($(#[doc = $doc:literal])+ $name:ident = $id:literal, $title:literal, $cycle:ident by $rule:ident,
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
                judge(cx, Cycle::$cycle).await
            }
        })+
    };
}

grows! {
    /// Orchestrators ask for as long as the driver runs.
    LOOKS = "growth/looks", "a driver that is only asked takes up no more with each call", Looks by GROWTH_001,
        needs [], refuted_by ["list-volumes-keeps-memory"];
    /// A cluster makes and deletes volumes for years.
    VOLUMES = "growth/volumes", "a driver takes up no more with each volume that was made and deleted", Volumes by GROWTH_001,
        needs [CREATE_DELETE_VOLUME], refuted_by ["create-volume-keeps-memory", "delete-volume-keeps-file"],
        duplicate_of "growth/looks";
    /// Copies open their source, and have workers of their own.
    COPIES = "growth/copies", "a driver takes up no more with each copy that was made and deleted", Copies by GROWTH_001,
        needs [CREATE_DELETE_VOLUME, any_of(&[Capability::CreateDeleteSnapshot, Capability::CloneVolume])],
        refuted_by ["create-volume-from-source-keeps-file"], duplicate_of "growth/volumes";
    /// Backups make a snapshot each hour, and delete one.
    SNAPSHOTS = "growth/snapshots", "a driver takes up no more with each snapshot that was made and deleted", Snapshots by GROWTH_001,
        needs [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT], refuted_by ["create-snapshot-keeps-thread"],
        duplicate_of "growth/looks";
    /// Each member is a snapshot that has to be given back.
    GROUP_SNAPSHOTS = "growth/group-snapshots", "a driver takes up no more with each group snapshot that was made and deleted", GroupSnapshots by GROWTH_001,
        needs [CREATE_DELETE_VOLUME, CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT], refuted_by ["create-group-snapshot-keeps-memory"],
        duplicate_of "growth/looks";
    /// Each pod that comes and goes attaches and detaches.
    ATTACHMENTS = "growth/attachments", "a driver takes up no more with each volume that was attached and detached", Attachments by GROWTH_001,
        needs [CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, NODE], refuted_by ["controller-publish-keeps-socket"],
        duplicate_of "growth/looks";
    /// Sessions, mappings and loop devices are made here.
    STAGINGS = "growth/stagings", "a driver takes up no more with each volume that was staged and unstaged", Stagings by GROWTH_001,
        needs [VOLUME, NODE, STAGE_UNSTAGE_VOLUME], refuted_by ["node-stage-keeps-child"], duplicate_of "growth/looks";
    /// Each pod that comes and goes publishes and unpublishes.
    PUBLICATIONS = "growth/publications", "a driver takes up no more with each volume that was published and unpublished", Publications by GROWTH_001,
        needs [VOLUME, NODE], refuted_by ["node-unpublish-leaves-zombie"], duplicate_of "growth/looks";
    /// A claim that cannot be met is asked for again and again, for days.
    REFUSED_VOLUMES = "growth/refused-volumes", "a driver takes up no more with each volume that it refuses to make", RefusedVolumes by GROWTH_002,
        needs [CREATE_DELETE_VOLUME], refuted_by ["create-volume-refusal-keeps-memory"], duplicate_of "growth/looks";
    /// The same of a snapshot.
    REFUSED_SNAPSHOTS = "growth/refused-snapshots", "a driver takes up no more with each snapshot that it refuses to make", RefusedSnapshots by GROWTH_002,
        needs [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT], refuted_by ["create-snapshot-refusal-keeps-thread"],
        duplicate_of "growth/looks";
    /// The same of an attachment.
    REFUSED_ATTACHMENTS = "growth/refused-attachments", "a driver takes up no more with each volume that it refuses to attach", RefusedAttachments by GROWTH_002,
        needs [CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, NODE], refuted_by ["controller-publish-refusal-keeps-socket"],
        duplicate_of "growth/looks";
    /// Kubelet repeats what is rejected for as long as the pod is there.
    REFUSED_STAGINGS = "growth/refused-stagings", "a driver takes up no more with each volume that it refuses to stage", RefusedStagings by GROWTH_002,
        needs [CREATE_DELETE_VOLUME, NODE, STAGE_UNSTAGE_VOLUME], refuted_by ["node-stage-refusal-leaves-zombie"],
        duplicate_of "growth/looks";
    /// The same of a publication.
    REFUSED_PUBLICATIONS = "growth/refused-publications", "a driver takes up no more with each volume that it refuses to publish", RefusedPublications by GROWTH_002,
        needs [CREATE_DELETE_VOLUME, NODE], refuted_by ["node-publish-refusal-keeps-file"], duplicate_of "growth/looks";
    /// A slow back end has its callers give up, and what waits for it has to end with them.
    GIVEN_UP = "growth/given-up", "a driver takes up no more with each call that its caller gave up", GivenUp by GROWTH_003,
        needs [CREATE_DELETE_VOLUME], refuted_by ["create-volume-given-up-keeps-file"], duplicate_of "growth/volumes";
    /// Sidecars come and go, and probes connect each time.
    CONNECTIONS = "growth/connections", "a driver takes up no more with each connection that was broken", Connections by GROWTH_003,
        needs [], refuted_by ["connection-keeps-file"], duplicate_of "growth/looks";
}

/// Does something again and again, and judges whether the driver grows with it.
async fn judge(cx: &Cx, cycle: Cycle) -> CheckResult {
    if look(cx).await.is_none() {
        return Err(Stop::skip(
            "these tests do not see the driver's process; it has to listen at a socket on this machine, or --driver-pid has to name it",
        ));
    }
    let effort = &cx.config().effort;
    let budget = Duration::from_millis(effort.budget_ms.unwrap_or(effort.check_budget_ms));
    let time = budget / SHARE;
    let scene = cycle.begin(cx).await?;
    let mut trial = CaseRunner { cx, cycle, scene, rng: cx.rng(), rounds: 0 };
    trial.samples(WARMING_UP, time / 3).await?;
    let mut found = growing(&trial.samples(LOOKS_MAX, time).await?);
    for again in 0..AGAIN_MEMORY {
        let is_due = |growth: &Growth| again < AGAIN || growth.resource == Resource::Memory;
        if !found.iter().any(is_due) {
            break;
        }
        let now = growing(&trial.samples(LOOKS_MAX, budget / SHARE_AGAIN).await?);
        let confirmed = |before: Growth| match now.iter().find(|growth| growth.is_again(&before)) {
            Some(growth) => Some(before.and(growth)),
            None => Some(before).filter(|before| !is_due(before)),
        };
        found = found.into_iter().filter_map(confirmed).collect();
    }
    found.retain(|growth| growth.resource != Resource::Memory || growth.amount() >= MEMORY_BYTES_MIN);
    if found.is_empty() {
        if trial.rounds < ROUNDS_FEW {
            cx.note(format!(
                "{} rounds: only what grows with each of them would have been seen",
                trial.rounds
            ));
        }
        return Ok(());
    }
    trial.tell(&found).await
}

/// What the driver takes up now; `None` where it cannot be seen, or is a part of this process.
async fn look(cx: &Cx) -> Option<Usage> {
    let process = cx.driver_process().await.filter(|process| *process != std::process::id())?;
    Usage::of(process, cx.config().state_dir.as_deref())
}

struct CaseRunner<'a> {
    cx: &'a Cx,
    cycle: Cycle,
    scene: Scene,
    rng: fastrand::Rng,
    rounds: u64,
}

impl CaseRunner<'_> {
    /// Goes on for so long, and looks at the driver so often, and before.
    async fn samples(&mut self, looks: usize, time: Duration) -> CheckResult<Vec<Sample>> {
        let mut samples = vec![self.sample().await?];
        let each = time / u32::try_from(looks).unwrap_or(u32::MAX);
        for _ in 0..looks {
            let begun = Instant::now();
            let end = self.rounds + ROUNDS_MAX;
            while self.rounds < end {
                self.cycle.round(self.cx, &self.scene, &mut self.rng).await?;
                self.rounds += 1;
                self.cx.stage("round", self.rounds, None);
                if begun.elapsed() >= each {
                    break;
                }
            }
            samples.push(self.sample().await?);
        }
        Ok(samples)
    }

    async fn sample(&self) -> CheckResult<Sample> {
        let usage = look(self.cx).await;
        let usage = usage.ok_or_else(|| Stop::broken("the driver's process cannot be seen any more"))?;
        Ok(Sample { rounds: self.rounds, usage })
    }

    /// Says what grows, unless the driver gives it back once nothing more comes.
    async fn tell(&self, seen: &[Growth]) -> CheckResult {
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
        let each = seen.iter().map(|one| one.resource.told(one.per_round()).to_string()).collect::<Vec<_>>();
        let told = seen.iter().map(|one| {
            let Growth { resource, before, after, rounds } = *one;
            let name = if resource.is_bytes() { "bytes " } else { "" };
            format!("{name}{}: {before} before, {after} after {rounds} rounds", resource.name(false))
        });
        let violation =
            Violation::new(format!("the driver grows by {} for {}", each.join(" and "), self.cycle.told()))
                .of(self.cycle.rule())
                .expected("what was taken up is given back, or levels off")
                .actual(told.collect::<Vec<_>>().join("; "));
        if self.cx.target().is_owned() {
            return Err(violation.into());
        }
        // Others may call the driver, too.
        self.cx.warn(violation);
        Ok(())
    }
}
