//! A workload whose volume another node asks for, and gets.

use std::time::Duration;

use csi_harness::prelude::*;
use csi_ops::operation::{Operation, Request};
use csi_ops::volume::TrackedVolume;
use csi_proto::Call as _;
use csi_workload::rules::{IN_USE_001, IN_USE_002, IN_USE_010};
use futures_util::future::join;

use crate::beside::{Action, InUse, beside, judge_moved, published};
use crate::insist;

const ATTACH: Operation = Operation::ControllerPublishVolume;
const DETACH: Operation = Operation::ControllerUnpublishVolume;
const ASKED_FOR: Action = Action {
    name: "ControllerPublishVolume and ControllerUnpublishVolume for another node",
    rpcs: &[v1::ControllerPublishVolumeRequest::RPC, v1::ControllerUnpublishVolumeRequest::RPC],
};
const LEFT: Action = Action {
    name: "ControllerUnpublishVolume for a node that the volume has left",
    rpcs: &[v1::ControllerUnpublishVolumeRequest::RPC],
};
/// The first caller of the detach gives up after this time, in the middle of the work. Each further one waits twice as long.
const PATIENCE: Duration = Duration::from_millis(5);
/// The detach is given up so many times at most.
const GIVEN_UP_MAX: u32 = 4;

/// A caller that attaches or detaches while the volume moves.
async fn until_done(cx: &Cx, operation: Operation, request: &Request) -> CheckResult {
    let situation = "while a volume moves from one node to another";
    insist::until_done(cx, operation, request, &IN_USE_010, situation).await.map(drop)
}

check! {
    /// A pod moves to another node. Its volume is detached from the first node and attached to the second one
    /// by callers that do not know of each other, and the detach is repeated long after the second node has
    /// the volume.
    OTHER_NODE {
        id: "in-use/other-node",
        title: "calls for another node do not harm a workload, and its volume moves there despite an interrupted detach",
        spec: [IN_USE_001, IN_USE_002, IN_USE_010],
        needs: [NODE, CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, TWO_NODES, ROOT],
        refuted_by: [
            "hostpath/attach-elsewhere-breaks-writer",
            "hostpath/detach-elsewhere-breaks-writer",
            "hostpath/late-detach-stays-pending",
            "hostpath/late-detach-wipes",
            "hostpath/given-up-detach-keeps-volume",
        ],
        access: Each,
        varies: true,
    }
    async |cx| {
        let there = cx.at_node(cx.target().nodes().len() - 1);
        // A new volume shows whether the other node can have any.
        let mut new = TrackedVolume::new(&there, cx.writable_volume().await?);
        let refused = "the driver does not attach a new volume to the other node";
        new.request(&there, ATTACH).await?.send(&there).await.or_skip(refused)?;
        let user = InUse::begin(cx).await?;
        let mut moved = TrackedVolume::new(&there, user.volume().volume.clone());
        let (attach, detach_there) = (moved.request(&there, ATTACH).await?, moved.request(&there, DETACH).await?);
        let asked_for = async {
            // The driver may keep a volume for one node to that node.
            attach.send(&there).once().await.any_answer()?.ok();
            detach_there.send(&there).await.any_answer().map(drop)
        };
        beside(ASKED_FOR, [&user], asked_for).await?;
        let (mut volume, written) = user.leave_node(ASKED_FOR).await?;
        let detach = volume.request(cx, DETACH).await?;
        for nth in 0..GIVEN_UP_MAX {
            if cx.give_up_after(PATIENCE * 2_u32.pow(nth), detach.send(cx).once()).await.is_some() {
                break;
            }
        }
        let attacher = there.worker(1);
        let (detached, attached) = join(until_done(cx, DETACH, &detach), until_done(&attacher, ATTACH, &attach)).await;
        detached.and(attached)?;
        until_done(cx, DETACH, &detach).await?;
        let used = there.scope();
        let moved = match published(&used, volume.volume).await {
            Err(Stop::Skip(why)) => {
                cx.note(format!("no workload runs on the other node: {why}"));
                return Ok(());
            }
            moved => moved?,
        };
        judge_moved(&written, &moved, "a volume that moved to another node").await?;
        let user = InUse::resume(used, moved, &written).await?;
        beside(LEFT, [&user], until_done(cx, DETACH, &detach)).await?;
        user.end(LEFT).await
    }
}

pub(crate) static CHECKS: &[&Check] = &[&OTHER_NODE];
