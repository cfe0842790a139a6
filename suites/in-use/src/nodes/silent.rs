//! A node that does not answer any more: its volume is taken from it without its help, and it may come back.

use std::time::Duration;

use csi_harness::prelude::*;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use csi_proto::Call as _;
use csi_workload::beside::Beside;
use csi_workload::log::Log;
use csi_workload::now_us;
use csi_workload::rules::{IN_USE_001, IN_USE_002};

use super::rules::{NODES_001, NODES_002, NODES_003, NODES_007};
use super::takeover::{given_back, is_one_device, is_still_published, other_node, used_on};
use crate::beside::{Action, InUse, beside, judge_moved};
use crate::insist::{Insisted, insist, until_done};

const ATTACH: Operation = Operation::ControllerPublishVolume;
const DETACH: Operation = Operation::ControllerUnpublishVolume;
const SILENCE: Action =
    Action { name: "the use of the volume on a node before that falls silent", rpcs: &[] };
const BACK: Action = Action {
    name: "NodeUnpublishVolume and NodeUnstageVolume on a node that comes back",
    rpcs: &[v1::NodeUnpublishVolumeRequest::RPC, v1::NodeUnstageVolumeRequest::RPC],
};
const NOT_TAKEN_OVER: &str = "the driver rejects the use of the volume on the other node while the first one has not given it back; here one \
                              machine plays both nodes, which may be the reason";
/// The time for which is looked whether a workload can write on the node from which its volume was detached.
const FENCE_LIMIT: Duration = Duration::from_secs(1);

/// Detaches a volume from a node that has not given it back, and attaches it to another one. The specification has an orchestrator unstage a
/// volume first, so that a driver may reject the detach. It may not put it off without end: with ABORTED and UNAVAILABLE it says that a
/// later call is done.
///
/// # Errors
/// A violation if a call is put off for too long; skip if the driver rejects the detach.
async fn move_by_force(cx: &Cx, there: &Cx, volume: &mut TrackedVolume) -> CheckResult {
    if !DETACH.is_offered(cx) {
        return Ok(());
    }
    let detach = volume.request(cx, DETACH).await?;
    let is_put_off = |code| matches!(code, Code::Aborted | Code::Unavailable);
    match insist(cx, DETACH, &detach, is_put_off).await? {
        Insisted::Done(_) => {}
        Insisted::Rejected(refused) => {
            return Err(Stop::skip(format!(
                "the driver does not detach a volume that a silent node still has, as the specification lets it: {refused}"
            )));
        }
        Insisted::NotDone(answer) => {
            return Err(Violation::new(
                "ControllerUnpublishVolume is put off without end while a node does not answer",
            )
            .of(&NODES_002)
            .expected("OK, or a code that does not promise that the call is done when it is made again")
            .actual(answer)
            .into());
        }
    }
    let mut moved = TrackedVolume::new(there, volume.volume.clone());
    let attach = moved.request(there, ATTACH).await?;
    let situation = "after the volume was detached from a node that does not answer";
    until_done(there, ATTACH, &attach, &NODES_002, situation).await.map(drop)
}

check! {
    /// kubelet and the pods of a node are gone, and its mounts are there. After six minutes, or at once with the taint out-of-service,
    /// Kubernetes detaches the volume, and the pod continues elsewhere. When the node comes back, its kubelet cleans up.
    SILENT {
        id: "nodes/silent",
        title: "a volume of a node that has fallen silent is published elsewhere with its data, and the node does not damage it when it comes back",
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
        let user = InUse::begin(cx).await?;
        beside(SILENCE, [&user], async { Ok(()) }).await?;
        let (mut volume, written) = user.fall_silent(SILENCE).await?;
        move_by_force(cx, &there, &mut volume).await?;
        let used = there.scope();
        let moved = used_on(&used, TrackedVolume::new(&used, volume.volume.clone()), NOT_TAKEN_OVER).await?;
        let judged = judge_moved(&written, &moved, "a volume whose node had fallen silent").await;
        judged.map_err(|stop| stop.of(&NODES_001))?;
        let is_one_device = is_one_device(&volume, &moved, cx.access());
        let user = InUse::resume(used, moved, &written).await?;
        if is_one_device {
            let situation = "on a node that comes back after its volume was taken from it";
            let back = given_back(cx, &mut volume, &NODES_003, situation);
            beside(BACK, [&user], back).await?;
            is_still_published(&user)?;
        } else {
            cx.note(
                "the first node has the disk for itself, so that it writes to it when it unmounts it, unless the driver fences the node, which \
                 CSI does not require: its return is not judged",
            );
        }
        user.end(BACK).await
    }
}

check! {
    /// A node that has lost the network may go on to run its pods. Nothing in CSI says that the detach ends their writes, so that this is
    /// only noted; what they had made durable before has to be there.
    STILL_WRITING {
        id: "nodes/still-writing",
        title: "a volume that is taken from a node whose workload still writes holds what was durable before",
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
        let moved = used_on(&used, TrackedVolume::new(&used, volume.volume), NOT_TAKEN_OVER).await?;
        let judged = judge_moved(&written, &moved, "a volume that was taken from a node that still wrote to it").await;
        judged.map_err(|stop| stop.of(&NODES_001))
    }
}

pub(super) static CHECKS: &[&Check] = &[&SILENT, &STILL_WRITING];
