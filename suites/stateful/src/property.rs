//! The property suite: random sequences of calls, each answer judged by the model. What fails is made as short as it can
//! be, on names of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_harness::registry::Suite;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::budget::Budget;
use crate::model::expectation::Breach;
use crate::model::generate;
use crate::model::generate::{Op, Verb, ops};
use crate::orchestrator::ground::Ground;
use crate::orchestrator::{Orchestrator, Tries};
use crate::rules::{ALL, GROUPS, NODES, SNAPSHOTS, VOLUMES};
use crate::sequence::{Pace, Sequence, play};
use crate::shrink::Shrinker;
use crate::verdict::{Remarks, accusation};

/// Sequences made at the most to shorten one.
const SHRINK_TRIES_MAX: u32 = 200;
/// Time for that at the most.
const SHRINK_LIMIT: Duration = Duration::from_secs(60);

/// The property suite.
pub const SUITE: Suite = Suite { name: "property", checks: &[CHECKS], retired: &[] };

const CHECKS: &[&Check] =
    &[&VOLUMES_AT_RANDOM, &SNAPSHOTS_AT_RANDOM, &GROUPS_AT_RANDOM, &NODES_AT_RANDOM, &DATA_AT_RANDOM];

check! {
    /// Each call may be right by itself, and wrong after another one: volumes are made, attached, expanded, modified,
    /// copied, listed and deleted in any order that an orchestrator may choose.
    VOLUMES_AT_RANDOM {
        id: "property/volumes",
        title: "volumes are what earlier calls have made of them, in whichever order the calls come",
        spec: VOLUMES,
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-forgets-names"],
    }
    async |cx| {
        use Verb::*;
        at_random(cx, &[
            CreateVolume, CopyVolume, DeleteVolume, GiveBack, ControllerPublishVolume, ControllerUnpublishVolume,
            ValidateVolumeCapabilities, ControllerGetVolume, ControllerExpandVolume, ControllerModifyVolume, ListVolumes,
        ]).await
    }
}

check! {
    /// Snapshots outlive volumes, volumes are made from snapshots, and names come again.
    SNAPSHOTS_AT_RANDOM {
        id: "property/snapshots",
        title: "snapshots are what earlier calls have made of them, in whichever order the calls come",
        spec: SNAPSHOTS,
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT],
        refuted_by: ["create-snapshot-forgets-names"],
    }
    async |cx| {
        use Verb::*;
        at_random(cx, &[
            CreateVolume, CopySnapshot, CopyVolume, DeleteVolume, GiveBack, CreateSnapshot, DeleteSnapshot, GetSnapshot,
            ListSnapshots, ListVolumes,
        ]).await
    }
}

check! {
    /// The same for what several volumes go into at once.
    GROUPS_AT_RANDOM {
        id: "property/group-snapshots",
        title: "group snapshots are what earlier calls have made of them, in whichever order the calls come",
        spec: GROUPS,
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT],
        refuted_by: ["create-volume-group-snapshot-forgets-names"],
    }
    async |cx| {
        use Verb::*;
        at_random(cx, &[
            CreateVolume, CopyMember, DeleteVolume, GiveBack, CreateVolumeGroupSnapshot, DeleteVolumeGroupSnapshot,
            GetVolumeGroupSnapshot, ListSnapshots, ListVolumes,
        ]).await
    }
}

check! {
    /// Pods come and go, one call of kubelet meets the one before, and a path is used again.
    NODES_AT_RANDOM {
        id: "property/nodes",
        title: "volumes are staged and published where earlier calls have put them, in whichever order the calls come",
        spec: NODES,
        needs: [NODE, CREATE_DELETE_VOLUME],
        refuted_by: ["node-publish-forgets-readonly"],
        access: Each,
    }
    async |cx| {
        use Verb::*;
        at_random(cx, &[
            CreateVolume, GiveBack, DeleteVolume, ControllerPublishVolume, ControllerUnpublishVolume, ControllerExpandVolume,
            NodeStageVolume, NodeUnstageVolume, NodePublishVolume, NodeUnpublishVolume, NodeExpandVolume,
            NodeGetVolumeStats,
        ]).await
    }
}

check! {
    /// Users have one wish above all: what was written is there, after each restart of a pod, in each copy, on each node.
    DATA_AT_RANDOM {
        id: "property/data",
        title: "what was written to a volume is in it and in what is copied from it, in whichever order the calls come",
        spec: ALL,
        needs: [NODE, CREATE_DELETE_VOLUME, ROOT],
        refuted_by: ["node-publish-forgets-readonly"],
        access: Each,
    }
    async |cx| {
        use Verb::*;
        let ground = Ground::survey(cx).await?;
        if !ground.has_workloads {
            return Err(Stop::skip("what is published cannot be written to from here"));
        }
        run(cx, &ground, &[
            Write, Write, Write, Read, Read, Read, CreateVolume, CopySnapshot, CopyVolume, CopyMember, GiveBack,
            ControllerExpandVolume, NodeUnpublishVolume, NodeUnstageVolume, NodePublishVolume, NodeStageVolume,
            NodeExpandVolume, CreateSnapshot, DeleteSnapshot, CreateVolumeGroupSnapshot, DeleteVolumeGroupSnapshot,
        ]).await
    }
}

/// Makes up sequences of such things to do, and fails with the shortest one that breaks a rule.
async fn at_random(cx: &Cx, verbs: &[Verb]) -> CheckResult {
    let ground = Ground::survey(cx).await?;
    run(cx, &ground, verbs).await
}

async fn run(cx: &Cx, ground: &Arc<Ground>, verbs: &[Verb]) -> CheckResult {
    let effort = &cx.config().effort;
    let budget = Budget::new(cx, effort.cases);
    let seed = cx.rng().u64(..);
    let mut runner = runner(seed);
    let strategy = ops(&ground.terms, verbs, usize::try_from(effort.steps).unwrap_or(usize::MAX));
    let mut remarks = Remarks::default();
    let mut tries = 0;
    while budget.goes_on(tries) {
        let tree = strategy.new_tree(&mut runner);
        let ops = tree.map_err(|reason| Stop::broken(format!("cannot make up calls: {reason}")))?.current();
        let pace = Pace { until: budget.until(), after_deletion: Duration::ZERO };
        let sequence = attempt(cx, ground, pace, &ops).await?;
        tries += 1;
        remarks.add(cx, &sequence.remarks);
        if let Some(breach) = &sequence.breach {
            let ops = ops[..sequence.used].to_vec();
            if let Some(sequence) = minimal(cx, ground, ops, breach, sequence.clone()).await? {
                return Err(accusation(cx, seed, &sequence));
            }
        }
    }
    budget.tell(cx, tries, "sequences");
    Ok(())
}

fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// One sequence on names of its own, undone.
async fn attempt(cx: &Cx, ground: &Arc<Ground>, pace: Pace, ops: &[Op]) -> CheckResult<Sequence> {
    let scope = cx.scope();
    let orchestrator = Orchestrator::new(scope.clone(), ground, Tries::Some);
    let sequence = play(&orchestrator, &ground.terms, pace, ops.len(), |model, nth, now| {
        generate(model, ops[nth], u32::try_from(nth).unwrap_or(u32::MAX), now)
    });
    let sequence = sequence.await?;
    scope.undo().await?;
    Ok(sequence)
}

/// The shortest sequence found that breaks the same rule. `None` if the driver only needed time after a deletion.
async fn minimal(
    cx: &Cx,
    ground: &Arc<Ground>,
    ops: Vec<Op>,
    breach: &Breach,
    found: Sequence,
) -> CheckResult<Option<Sequence>> {
    let is_the_same =
        |sequence: &Sequence| sequence.breach.as_ref().is_some_and(|other| other.rule == breach.rule);
    let until = Instant::now() + SHRINK_LIMIT.min(cx.remaining() / 2);
    let pace = Pace { until, after_deletion: Duration::ZERO };
    let (mut shrinker, mut best) = (Shrinker::new(ops), found);
    for _ in 0..SHRINK_TRIES_MAX {
        let Some(ops) = shrinker.candidate().filter(|_| Instant::now() < until) else { break };
        let sequence = attempt(cx, ground, pace, &ops).await?;
        let fails = is_the_same(&sequence);
        shrinker.tell(fails);
        if fails {
            best = sequence;
        }
    }
    if !best.deletes() {
        return Ok(Some(best));
    }
    // What is deleted may go on being there for a while. With time to settle, what is wrong is wrong.
    let pace = Pace { until: Instant::now() + cx.remaining(), after_deletion: cx.settle_limit() };
    let slow = attempt(cx, ground, pace, &shrinker.into_smallest()).await?;
    Ok(is_the_same(&slow).then_some(slow))
}
