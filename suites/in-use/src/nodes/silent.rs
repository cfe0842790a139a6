//! A node that does not answer any more: its volume is taken from it without its help, and it may come back.

use std::time::Duration;

use csi_harness::prelude::*;
use csi_nemesis::watched_driver::WatchedDriver;
use csi_ops::volume::TrackedVolume;
use csi_workload::beside::{Beside, Written};
use csi_workload::log::Log;
use csi_workload::now_us;
use csi_workload::rules::{IN_USE_001, IN_USE_002};
use futures_util::future::join;

use super::rules::{NODES_001, NODES_002, NODES_003, NODES_007};
use super::takeover::{
    ATTACH, DETACH, NOT_TAKEN_OVER, at_other_node, attach_elsewhere, detach_by_force, move_by_force,
    other_node, used_elsewhere, used_on,
};
use crate::beside::{Action, InUse, beside, judge_moved};
use crate::insist::{fail_in_turn, until_done};

const SILENCE: Action =
    Action { name: "the use of the volume on a node before that falls silent", rpcs: &[] };
/// The time for which is looked whether a workload can write on the node from which its volume was detached.
const FENCE_LIMIT: Duration = Duration::from_secs(1);
/// The number of times that a node asks for a volume before it is detached from a silent one.
const ASKED_BEFORE: u32 = 3;

/// Lets a workload write for a while, and then its node fall silent.
async fn silent(user: InUse) -> CheckResult<(TrackedVolume, Written)> {
    beside(SILENCE, [&user], async { Ok(()) }).await?;
    user.fall_silent(SILENCE).await
}

/// Lets the node of a workload fall silent, and moves the volume to the other node.
async fn falls_silent(cx: &Cx, there: &Cx, user: InUse) -> CheckResult {
    let (mut volume, written) = silent(user).await?;
    move_by_force(cx, there, &mut volume).await?;
    used_elsewhere(cx, there, volume, &written, "a volume whose node had fallen silent").await
}

check! {
    /// kubelet and the pods of a node are gone, but its mounts still exist. After six minutes, or at once
    /// with the taint out-of-service, Kubernetes detaches the volume, and the pod continues elsewhere. When
    /// the node comes back, its kubelet cleans up.
    SILENT {
        id: "nodes/silent",
        title: "a volume of a silent node is published elsewhere with its data, and survives the return of the node",
        spec: [NODES_001, NODES_002, NODES_003, NODES_007, IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, TWO_NODES, ROOT],
        refuted_by: [
            "hostpath/forced-detach-empties",
            "hostpath/forced-detach-stays-pending",
            "hostpath/late-unpublish-unmounts-elsewhere",
            "hostpath/late-unpublish-needs-attachment",
            "hostpath/late-unstaging-breaks-writer",
            "hostpath/late-unstaging-empties",
            "hostpath/late-unstaging-needs-attachment",
        ],
        access: Each,
        varies: true,
    }
    async |cx| {
        let there = other_node(cx).await?;
        falls_silent(cx, &there, InUse::begin(cx).await?).await
    }
}

check! {
    /// A driver that allows one writer (ReadWriteOncePod) has to record the writer. A lost node does not
    /// remove this record, so the detach has to do it.
    SINGLE_WRITER {
        id: "nodes/silent-single-writer",
        title: "a SINGLE_NODE_SINGLE_WRITER volume of a silent node is published elsewhere with its data",
        spec: [NODES_001, NODES_002, NODES_003, NODES_007, IN_USE_001, IN_USE_002],
        needs: [
            NODE,
            CREATE_DELETE_VOLUME,
            PUBLISH_UNPUBLISH_VOLUME,
            SINGLE_NODE_MULTI_WRITER,
            NODE_SINGLE_NODE_MULTI_WRITER,
            TWO_NODES,
            ROOT,
        ],
        refuted_by: ["hostpath/single-writer-outlives-detach"],
        duplicate_of: "nodes/silent",
        access: Each,
        varies: true,
    }
    async |cx| {
        let there = other_node(cx).await?;
        falls_silent(cx, &there, InUse::begin_with_mode(cx, Mode::SingleNodeSingleWriter).await?).await
    }
}

check! {
    /// A node that has lost the network may continue to run its pods. CSI does not state that the detach ends
    /// their writes, so such writes are only noted; data that were durable before must not be lost.
    STILL_WRITING {
        id: "nodes/still-writing",
        title: "a volume detached from a node whose workload still writes holds all data that were durable before",
        spec: [NODES_001, NODES_002],
        needs: [NODE, CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, TWO_NODES, ROOT],
        refuted_by: ["hostpath/forced-detach-damages-what-is-written"],
        duplicate_of: "nodes/silent",
        access: Each,
        varies: true,
    }
    async |cx| {
        let there = other_node(cx).await?;
        let user = InUse::begin(cx).await?;
        Beside::begin(SILENCE, [user.workload()]).await?;
        let workload = user.workload().workload();
        let durable = workload.log(Log::acknowledged);
        let mut volume = user.volume().clone();
        move_by_force(cx, &there, &mut volume).await?;
        let attached_us = now_us();
        let lands = |log: &Log| log.records().any(|one| one.begun_us > attached_us && one.durable_us.is_some());
        let has_ended = |log: &Log| lands(log) || !log.troubles().is_empty();
        workload.until(FENCE_LIMIT, has_ended).await;
        if workload.log(lands) {
            cx.note(
                "the first node can write to the volume after ControllerPublishVolume for the second one has returned: the driver does not \
                 fence it, which CSI does not require",
            );
        }
        user.workload().end_unjudged().await;
        let written = user.workload().written_up_to(durable);
        let used = there.scope();
        let moved = used_on(&used, at_other_node(&used, &volume), NOT_TAKEN_OVER).await?;
        let judged = judge_moved(&written, &moved, "a volume that was taken from a node that still wrote to it").await;
        judged.map_err(|stop| stop.of(&NODES_001))
    }
}

check! {
    /// The back end of a driver may fail while a node is down, often for the same reason. external-attacher
    /// repeats the detach until it succeeds. A driver that keeps records may treat the failed call as done,
    /// or as still in progress.
    FAILING_DETACH {
        id: "nodes/failing-detach",
        title: "a volume of a silent node moves with its data after ControllerUnpublishVolume has failed several times",
        spec: [NODES_001, NODES_002, NODES_003, NODES_007, IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, TWO_NODES, RESTARTS, ROOT],
        refuted_by: ["hostpath/failed-detach-is-taken-for-done", "hostpath/failed-detach-empties"],
        duplicate_of: "nodes/silent",
        access: Each,
        varies: true,
    }
    async |cx| {
        let there = other_node(cx).await?;
        let driver = WatchedDriver::start(cx).await?;
        // Another volume moves undisturbed first, which shows whether the driver detaches a volume that its node still has.
        let (trial, trial_there) = (cx.scope(), there.scope());
        let other = used_on(&trial, TrackedVolume::new(&trial, trial.writable_volume().await?), NOT_TAKEN_OVER);
        move_by_force(&trial, &trial_there, &mut other.await?).await?;
        trial_there.undo().await?;
        trial.undo().await?;

        let (mut volume, written) = silent(InUse::begin(cx).await?).await?;
        let detach = volume.request(cx, DETACH).await?;
        let (_, failed_count) = fail_in_turn(cx, &driver, &detach).await;
        if failed_count == 0 {
            return Err(Stop::skip("ControllerUnpublishVolume of the driver changes no files and mounts that could fail"));
        }
        let situation = format!("after ControllerUnpublishVolume has failed {failed_count} times");
        until_done(cx, DETACH, &detach, &NODES_002, &situation).await?;
        attach_elsewhere(&there, &volume, &situation).await?;
        used_elsewhere(cx, &there, volume, &written, "a volume whose detach had failed").await
    }
}

check! {
    /// The successor of a lost pod is scheduled at once, so external-attacher requests the volume for the new
    /// node during the six minutes in which the lost node still has it, and also during the detach.
    WAITING_ATTACH {
        id: "nodes/waiting-attach",
        title: "a volume of a silent node moves with its data to a node that requests it before and during the detach",
        spec: [NODES_001, NODES_002, NODES_003, NODES_007, IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, TWO_NODES, ROOT],
        refuted_by: ["hostpath/rejected-attach-stays-rejected", "hostpath/waiting-attach-empties"],
        duplicate_of: "nodes/silent",
        access: Each,
        varies: true,
    }
    async |cx| {
        let there = other_node(cx).await?;
        let (mut volume, written) = silent(InUse::begin(cx).await?).await?;
        let attacher = there.worker(1);
        let attach = at_other_node(&there, &volume).request(&attacher, ATTACH).await?;
        for _ in 0..ASKED_BEFORE {
            // Other checks judge whether the driver may attach the volume to both nodes, which depends on its mode.
            attach.send(&attacher).once().await.any_answer()?.ok();
        }
        let situation = "for a node that requested the volume before it was detached from a silent one";
        // The detach may take as long as the attacher is patient, so that only its next answer is judged.
        let (detached, _) =
            join(detach_by_force(cx, &mut volume), until_done(&attacher, ATTACH, &attach, &NODES_002, situation)).await;
        detached?;
        until_done(&attacher, ATTACH, &attach, &NODES_002, situation).await?;
        used_elsewhere(cx, &there, volume, &written, "a volume for which another node had waited").await
    }
}

pub(super) static CHECKS: &[&Check] =
    &[&SILENT, &SINGLE_WRITER, &STILL_WRITING, &FAILING_DETACH, &WAITING_ATTACH];
