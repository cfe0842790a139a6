//! The property suite: random sequences of calls, each answer judged by the model. A failing sequence is made as short
//! as possible, on names of its own. Sequences that failed in an earlier run come first, then sequences that are equal
//! in every run, then others.

pub(crate) mod stored;

use std::sync::Arc;

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;
use csi_model::generate::{Verb, ops};
use csi_model::rules::{ALL, GROUPS, SNAPSHOTS, VOLUMES};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::budget::Budget;
use crate::case_runner::CaseRunner;
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::sequence::PlannedStep;

pub const SUITE: Suite = Suite { name: "property", checks: Checks::Declared(&[CHECKS]), retired: &[] };

const CHECKS: &[&Check] = &[&VOLUMES_AT_RANDOM, &SNAPSHOTS_AT_RANDOM, &GROUPS_AT_RANDOM, &NODES_AT_RANDOM];

check! {
    /// Each call may be right by itself, but wrong after another one: volumes are made, attached, expanded,
    /// modified, copied, listed and deleted in any order that an orchestrator may choose.
    VOLUMES_AT_RANDOM {
        id: "property/volumes",
        title: "volumes are in the state that earlier calls led to, whatever the order of the calls",
        spec: VOLUMES,
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-volume-forgets-names",
            "delete-volume-keeps-name",
            "create-volume-exceeds-limit",
            "create-volume-rounds-down",
            "create-volume-repeat-ignores-limit",
            "create-volume-refuses-limit-repeats",
            "create-volume-keeps-parameters-in-part",
            "controller-expand-exceeds-limit",
            "controller-expand-waits-for-exact-size",
            "controller-get-volume-health-answers-last-asked",
            "controller-get-volume-health-refuses-unpublished",
            "controller-get-volume-health-unknown-ok",
            "controller-list-volume-health-keeps-deleted",
            "controller-list-volume-health-loses-page-ends",
        ],
        duplicate_of: "*",
        runs: Serial,
        varies: true,
    }
    async |cx| {
        use Verb::*;
        at_random(cx, &[
            CreateVolume, CopyVolume, DeleteVolume, GiveBack, ControllerPublishVolume, ControllerUnpublishVolume,
            ValidateVolumeCapabilities, ControllerGetVolume, ControllerExpandVolume, ControllerModifyVolume, ListVolumes,
            ControllerGetVolumeHealth, ControllerListVolumeHealth,
        ]).await
    }
}

check! {
    /// Snapshots outlive volumes, volumes are made from snapshots, and names are used again.
    SNAPSHOTS_AT_RANDOM {
        id: "property/snapshots",
        title: "snapshots are in the state that earlier calls led to, whatever the order of the calls",
        spec: SNAPSHOTS,
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT],
        refuted_by: [
            "create-snapshot-forgets-names",
            "create-snapshot-repeat-changes-time",
            "create-snapshot-repeat-omits-topology",
            "delete-volume-deletes-snapshots",
            "get-snapshot-omits-topology",
            "list-snapshots-omits-topology",
        ],
        duplicate_of: "*",
        runs: Serial,
        varies: true,
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
    /// Sequences of random calls about group snapshots, their members and their sources, judged by the model.
    GROUPS_AT_RANDOM {
        id: "property/group-snapshots",
        title: "group snapshots are in the state that earlier calls led to, whatever the order of the calls",
        spec: GROUPS,
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT],
        refuted_by: [
            "create-group-snapshot-forgets-names",
            "create-group-snapshot-repeat-drops-members",
            "create-group-snapshot-drops-last-source",
            "delete-snapshot-group-member-as-internal",
        ],
        duplicate_of: "*",
        runs: Serial,
        varies: true,
    }
    async |cx| {
        use Verb::*;
        at_random(cx, &[
            CreateVolume, CopyMember, DeleteVolume, GiveBack, CreateVolumeGroupSnapshot, DeleteVolumeGroupSnapshot,
            GetVolumeGroupSnapshot, DeleteMember, ListSnapshots, ListVolumes,
        ]).await
    }
}

check! {
    /// Pods start and end, calls of kubelet overlap with earlier ones, and paths are used again. If the tests
    /// run as root on the driver's host, data are written, and read back from the volume and its copies.
    NODES_AT_RANDOM {
        id: "property/nodes",
        title: "volumes are where earlier calls have put them, with their data, whatever the order of the calls",
        spec: ALL,
        needs: [NODE, CREATE_DELETE_VOLUME],
        refuted_by: [
            "controller-expand-refuses-online",
            "node-get-volume-health-other-id",
            "node-publish-ignores-readonly-conflict",
            "node-publish-refuses-second-path",
            "node-stage-refuses-repeats",
            "node-unpublish-refuses-repeats",
        ],
        duplicate_of: "*",
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        use Verb::*;
        let probed = ProbedDriver::probe(cx).await?;
        let mut verbs = vec![
            CreateVolume, GiveBack, DeleteVolume, ControllerPublishVolume, ControllerUnpublishVolume, ControllerExpandVolume,
            NodeStageVolume, NodeUnstageVolume, NodePublishVolume, NodeUnpublishVolume, NodeExpandVolume,
            NodeGetVolumeStats, NodeGetVolumeHealth,
        ];
        if probed.has_workloads {
            verbs.extend([
                Write, Write, Read, Read, CopySnapshot, CopyVolume, CopyMember, CreateSnapshot, DeleteSnapshot,
                CreateVolumeGroupSnapshot, DeleteVolumeGroupSnapshot,
            ]);
        } else {
            cx.note("nothing is written into volumes, since the tests see no mount at the target path");
        }
        run(cx, &probed, &verbs).await
    }
}

/// Makes up sequences of such things to do, and fails with the shortest one that breaks a rule.
async fn at_random(cx: &Cx, verbs: &[Verb]) -> CheckResult {
    run(cx, &ProbedDriver::probe(cx).await?, verbs).await
}

async fn run(cx: &Cx, probed: &Arc<ProbedDriver>, verbs: &[Verb]) -> CheckResult {
    let effort = &cx.config().effort;
    // A driver that really mounts needs about ten times as long for each.
    let cases = if probed.has_workloads { effort.cases.div_ceil(2) } else { effort.cases };
    let fixed = cases.div_ceil(2);
    let budget = Budget::new(cx, usize::try_from(fixed).unwrap_or(usize::MAX), cases - fixed);
    let mut trial = CaseRunner::new(cx, probed, budget.seed());
    stored::try_again(cx, &mut trial, &budget).await?;
    let strategy = ops(&probed.profile, verbs, usize::try_from(effort.steps).unwrap_or(usize::MAX));
    let mut done = 0;
    while trial.begins(&budget, done) {
        let tree = strategy.new_tree(&mut runner(budget.rng(done).u64(..)));
        let ops = tree.map_err(|reason| Stop::broken(format!("cannot make up calls: {reason}")))?.current();
        let items: Vec<PlannedStep> = ops.into_iter().map(PlannedStep::Op).collect();
        trial.next(&items, &budget, done).await?;
        done += 1;
    }
    budget.end(cx, done, "sequences");
    if trial.reported().is_all_right() {
        budget.note_chances(cx, done, "sequences");
    }
    trial.end()
}

fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}
