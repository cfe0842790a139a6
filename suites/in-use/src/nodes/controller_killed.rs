//! The controller is killed while a volume moves from one node to another.

use csi_harness::prelude::*;
use csi_harness::resources::workload::is_fuse;
use csi_harness::spec::requirements::Requirement;
use csi_nemesis::restart::driver;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use csi_suite_stateful::restart::unless_forgotten;
use csi_workload::rules::{IN_USE_001, IN_USE_002};

use super::rules::{NODES_001, NODES_002, NODES_003, NODES_007};
use super::takeover::{
    ATTACH, DETACH, NOT_TAKEN_OVER, at_other_node, is_one_device, is_still_published, other_node, used_on,
};
use crate::beside::{Action, InUse, beside};
use crate::insist::until_done;
use crate::restarts::HalfWay;

const USE: Action = Action { name: "the use of the volume on its first node", rpcs: &[] };
const BACK: Action =
    Action { name: "the end of the driver while a node that comes back gives the volume back", rpcs: &[] };
const MOVED: Action = Action { name: "the use of the volume on its new node", rpcs: &[] };

/// Moves a volume to the other node, and kills the driver half-way through one of the two calls that do that. Both are then made until they are
/// done, as external-attacher makes them.
async fn killed_in(cx: &Cx, killed: Operation) -> CheckResult {
    let there = other_node(cx).await?;
    let mut half_way = HalfWay::prepare(cx).await?;
    // Another volume moves undisturbed first, which shows where the middle of the call is.
    let other = cx.scope();
    let mut here = TrackedVolume::new(&other, other.writable_volume().await?);
    let mut elsewhere = TrackedVolume::new(&there, here.volume.clone());
    let (scope_there, refused) = (there.scope(), "the driver does not move a new volume to the other node");
    here.request(&other, ATTACH).await?.send(&other).await.or_skip(refused)?;
    let calls = [
        (DETACH, here.request(&other, DETACH).await?, &other),
        (ATTACH, elsewhere.request(&scope_there, ATTACH).await?, &scope_there),
    ];
    for (operation, request, at) in calls {
        let answer = match operation == killed {
            true => half_way.learn(request.send(at).once()).await,
            false => request.send(at).once().await,
        };
        answer.or_skip(refused)?;
    }
    scope_there.undo().await?;
    other.undo().await?;

    let user = InUse::begin(cx).await?;
    beside(USE, [&user], async { Ok(()) }).await?;
    let (mut volume, written) = user.leave_node(USE).await?;
    let used = there.scope();
    let mut moved = TrackedVolume::new(&used, volume.volume.clone());
    let (detach, attach) = (volume.request(cx, DETACH).await?, moved.request(&used, ATTACH).await?);
    let situation = format!("after the driver was killed during {}", killed.rpc().method);
    let ended = async {
        if killed == DETACH {
            half_way.kill_during(cx, detach.send(cx).once()).await?;
            until_done(cx, DETACH, &detach, &NODES_002, &situation).await?;
        } else {
            until_done(cx, DETACH, &detach, &NODES_002, &situation).await?;
            half_way.kill_during(cx, attach.send(&used).once()).await?;
        }
        until_done(&used, ATTACH, &attach, &NODES_002, &situation).await.map(drop)
    };
    unless_forgotten(driver(cx)?, ended.await)?;
    let moved = used_on(&used, moved, "the driver rejects the use of the volume on the other node").await?;
    let noun = "a volume that moved while the driver was killed";
    let user = InUse::after_move(used, moved, &written, &NODES_001, noun).await?;
    beside(MOVED, [&user], async { Ok(()) }).await?;
    user.end(MOVED).await
}

check! {
    /// The record of an attachment and the attachment itself change one after the other, and a driver that is
    /// killed between the two changes has to detect this when it starts.
    IN_DETACH {
        id: "nodes/killed-in-detach",
        title: "a volume moves with its data when the driver is killed during ControllerUnpublishVolume",
        spec: [NODES_001, NODES_002, IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, TWO_NODES, RESTARTS, ROOT],
        refuted_by: ["hostpath/start-keeps-half-a-detach", "hostpath/start-empties-half-detached-volume"],
        access: Each,
        varies: true,
    }
    async |cx| { killed_in(cx, DETACH).await }
}

check! {
    /// When the driver starts, the new node may or may not have the volume, and the repeated call has to lead
    /// to the same result.
    IN_ATTACH {
        id: "nodes/killed-in-attach",
        title: "a volume moves with its data when the driver is killed during ControllerPublishVolume for its new node",
        spec: [NODES_001, NODES_002, IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, TWO_NODES, RESTARTS, ROOT],
        refuted_by: ["hostpath/start-keeps-half-an-attach", "hostpath/start-empties-half-attached-volume"],
        duplicate_of: "nodes/killed-in-detach",
        access: Each,
        varies: true,
    }
    async |cx| { killed_in(cx, ATTACH).await }
}

/// Makes a call about another volume without a disturbance. Then it makes the call about the volume, kills the driver during that, and repeats the
/// call until it is done, as a sidecar does.
///
/// # Errors
/// A violation of the rule if that does not come; skip if the driver rejects the call that is not disturbed.
async fn killed_in_step(
    cx: &Cx,
    step: Operation,
    (other_cx, other): (&Cx, &mut TrackedVolume),
    (own_cx, own): (&Cx, &mut TrackedVolume),
    rule: &'static Requirement,
) -> CheckResult {
    let mut half_way = HalfWay::prepare(cx).await?;
    let undisturbed = other.request(other_cx, step).await?.send(other_cx).once();
    other.record(half_way.learn(undisturbed).await.or_skip(NOT_TAKEN_OVER)?);
    let request = own.request(own_cx, step).await?;
    half_way.kill_during(cx, request.send(own_cx).once()).await?;
    let situation = format!("after the driver was killed during {}", step.method());
    own.record(until_done(own_cx, step, &request, rule, &situation).await?);
    Ok(())
}

check! {
    /// A failure of a node often ends the driver as well, more than once. The calls that move volumes, also
    /// those after the node has come back, are then repeated, and the driver knows them only from its
    /// records.
    IN_EACH_CALL {
        id: "nodes/killed-in-each-call",
        title: "a volume of a silent node moves with its data although the driver is killed during each call",
        spec: [NODES_001, NODES_002, NODES_003, NODES_007, IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, TWO_NODES, RESTARTS, ROOT],
        refuted_by: [
            "hostpath/start-empties-half-published-volume",
            "hostpath/start-keeps-half-a-staging",
            "hostpath/start-keeps-half-an-unstaging",
        ],
        duplicate_of: "nodes/killed-in-detach",
        access: Each,
        varies: true,
    }
    async |cx| {
        let there = other_node(cx).await?;
        let user = InUse::begin(cx).await?;
        beside(USE, [&user], async { Ok(()) }).await?;
        if is_fuse(user.path()) {
            return Err(Stop::skip("the processes that serve its mounts end with the driver"));
        }
        let (mut volume, written) = user.fall_silent(USE).await?;
        let trial = cx.scope();
        let mut other = used_on(&trial, TrackedVolume::new(&trial, trial.writable_volume().await?), NOT_TAKEN_OVER).await?;
        let (trial_there, used) = (there.scope(), there.scope());
        let (mut other_there, mut moved) = (at_other_node(&trial_there, &other), at_other_node(&used, &volume));
        let moves = async {
            if DETACH.is_offered(cx) {
                killed_in_step(cx, DETACH, (&trial, &mut other), (cx, &mut volume), &NODES_002).await?;
            }
            for step in [ATTACH, Operation::NodeStageVolume, Operation::NodePublishVolume] {
                if step.is_offered(cx) {
                    let disturbed = (&used, &mut moved);
                    killed_in_step(cx, step, (&trial_there, &mut other_there), disturbed, &NODES_002).await?;
                }
            }
            Ok(())
        };
        unless_forgotten(driver(cx)?, moves.await)?;
        if !used.sees_published(&moved.target_path) {
            return Err(Stop::skip("these tests see nothing mounted where the driver publishes"));
        }
        let noun = "a volume whose node had fallen silent, and that moved while the driver was killed";
        let is_one_device = is_one_device(&volume, &moved, cx.access());
        let user = InUse::after_move(used, moved, &written, &NODES_001, noun).await?;
        // If each node has the disk for itself, an unmount writes to it, and CSI does not require that the driver fences the node.
        if is_one_device {
            let back = async {
                for step in [Operation::NodeUnpublishVolume, Operation::NodeUnstageVolume] {
                    if step.is_offered(cx) {
                        killed_in_step(cx, step, (&trial, &mut other), (cx, &mut volume), &NODES_003).await?;
                    }
                }
                Ok(())
            };
            let ended = beside(BACK, [&user], back).await.map(drop);
            unless_forgotten(driver(cx)?, ended)?;
            is_still_published(&user)?;
        }
        user.end(MOVED).await
    }
}

pub(super) static CHECKS: &[&Check] = &[&IN_DETACH, &IN_ATTACH, &IN_EACH_CALL];
