//! The way of a volume to another node.

use std::os::unix::fs::MetadataExt as _;

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_ops::lifecycle::Lifecycle;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use csi_proto::Call as _;
use csi_workload::beside::Written;

use super::rules::{NODES_001, NODES_002, NODES_003, NODES_007};
use crate::beside::{Action, InUse, beside};
use crate::insist::{Insisted, insist, until_done};

pub(super) const ATTACH: Operation = Operation::ControllerPublishVolume;
pub(super) const DETACH: Operation = Operation::ControllerUnpublishVolume;
pub(super) const BACK: Action = Action {
    name: "NodeUnpublishVolume and NodeUnstageVolume on a node that comes back",
    rpcs: &[v1::NodeUnpublishVolumeRequest::RPC, v1::NodeUnstageVolumeRequest::RPC],
};
pub(super) const NOT_TAKEN_OVER: &str = "the driver rejects the use of the volume on the other node while the first one has not given it back; \
                                         here one machine plays both nodes, which may be the reason";

/// Another node where a new volume of the first node can be used. Nodes that cannot reach it, as in another zone, are passed over.
///
/// # Errors
/// Skip if the driver rejects a call about the volume on each of them, or if the tests do not see it.
pub async fn other_node(cx: &Cx) -> CheckResult<Cx> {
    let mut unusable = Stop::skip("there is no other node");
    for node in (1..cx.target().nodes().len()).rev() {
        let trial = cx.scope();
        let volume = trial.writable_volume().await?;
        let there = trial.at_node(node);
        let refused = "a new volume cannot be used on another node";
        let used = used_on(&there, TrackedVolume::new(&there, volume), refused).await;
        trial.undo().await?;
        match used {
            Ok(_) => return Ok(cx.at_node(node)),
            Err(stop @ (Stop::Skip(_) | Stop::Declined(..))) => unusable = stop,
            Err(other) => return Err(other),
        }
    }
    Err(unusable)
}

/// The volume as another node uses it.
pub(super) fn at_other_node(there: &Cx, volume: &TrackedVolume) -> TrackedVolume {
    TrackedVolume {
        capability: volume.capability.clone(),
        ..TrackedVolume::new(there, volume.volume.clone())
    }
}

/// Detaches a volume from a node that has not given it back. The specification has an orchestrator unstage a volume first, so that a driver may
/// reject this. It may not put the call off without end: with ABORTED and UNAVAILABLE it says that a later call is done.
///
/// # Errors
/// A violation if the call is put off for too long; skip if the driver rejects it.
pub(super) async fn detach_by_force(cx: &Cx, volume: &mut TrackedVolume) -> CheckResult {
    let detach = volume.request(cx, DETACH).await?;
    let is_put_off = |code| matches!(code, Code::Aborted | Code::Unavailable);
    match insist(cx, DETACH, &detach, is_put_off).await? {
        Insisted::Done(_) => Ok(()),
        Insisted::Rejected(refused) => Err(Stop::skip(format!(
            "the driver does not detach a volume that a silent node still has, as the specification lets it: {refused}"
        ))),
        Insisted::NotDone(answer) => Err(Violation::new(
            "ControllerUnpublishVolume is postponed indefinitely while a node does not answer",
        )
        .of(&NODES_002)
        .expected("OK, or a code that does not promise that a repeated call succeeds")
        .actual(answer)
        .into()),
    }
}

/// Attaches a volume to another node after it was detached from the first one, as external-attacher does until the answer is OK. The situation
/// reads after "does not succeed".
///
/// # Errors
/// A violation if that does not come.
pub(super) async fn attach_elsewhere(there: &Cx, volume: &TrackedVolume, situation: &str) -> CheckResult {
    let attach = at_other_node(there, volume).request(there, ATTACH).await?;
    until_done(there, ATTACH, &attach, &NODES_002, situation).await.map(drop)
}

/// Detaches a volume from a node that has not given it back, and attaches it to another one.
///
/// # Errors
/// Fails like [`detach_by_force`] and [`attach_elsewhere`].
pub(super) async fn move_by_force(cx: &Cx, there: &Cx, volume: &mut TrackedVolume) -> CheckResult {
    if !DETACH.is_offered(cx) {
        return Ok(());
    }
    detach_by_force(cx, volume).await?;
    attach_elsewhere(there, volume, "after the volume was detached from a node that does not answer").await
}

/// Uses a volume on the other node, to which it was moved by force. The workload continues there while the first node comes back, and gives back
/// what it had.
///
/// # Errors
/// A violation if data are missing, or if the first node hurts the other one; skip if the driver rejects the use on the other node.
pub(super) async fn used_elsewhere(
    cx: &Cx,
    there: &Cx,
    mut volume: TrackedVolume,
    written: &Written,
    noun: &str,
) -> CheckResult {
    let used = there.scope();
    let moved = used_on(&used, at_other_node(&used, &volume), NOT_TAKEN_OVER).await?;
    let is_one_device = is_one_device(&volume, &moved, cx.access());
    let user = InUse::after_move(used, moved, written, &NODES_001, noun).await?;
    if is_one_device {
        let situation = "on a node that comes back after its volume was taken from it";
        beside(BACK, [&user], given_back(cx, &mut volume, &NODES_003, situation)).await?;
        is_still_published(&user)?;
    } else {
        cx.note(
            "the first node has the disk for itself, so that it writes to it when it unmounts it, unless the driver fences the node, which CSI \
             does not require: its return is not judged",
        );
    }
    user.end(BACK).await
}

/// Attaches, stages and publishes a volume.
///
/// # Errors
/// Skip, with this reason, if the driver rejects a call, or if the tests do not see the volume.
pub(super) async fn used_on(cx: &Cx, mut volume: TrackedVolume, refused: &str) -> CheckResult<TrackedVolume> {
    for step in Lifecycle::of(cx).publication() {
        let response = volume.request(cx, step).await?.send(cx).await.or_skip(refused)?;
        volume.record(response);
    }
    if !cx.sees_published(&volume.target_path) {
        return Err(Stop::skip("these tests see nothing mounted where the driver publishes"));
    }
    Ok(volume)
}

/// Unpublishes and unstages a volume, as kubelet does until the answer is OK. The situation reads after "does not succeed".
///
/// # Errors
/// A violation of the rule if that does not come.
pub(super) async fn given_back(
    cx: &Cx,
    volume: &mut TrackedVolume,
    rule: &'static Requirement,
    situation: &str,
) -> CheckResult {
    for step in [Operation::NodeUnpublishVolume, Operation::NodeUnstageVolume] {
        if step.is_offered(cx) {
            let request = volume.request(cx, step).await?;
            until_done(cx, step, &request, rule, situation).await?;
        }
    }
    Ok(())
}

/// Judges whether the volume of a workload is still where it was published when another node has given it back. A workload whose mounts are its own
/// does not notice that, but the next one at the path would.
///
/// # Errors
/// A violation if it is not.
pub(super) fn is_still_published(user: &InUse) -> CheckResult {
    let path = &user.volume().target_path;
    ensure!(
        user.cx().sees_published(path),
        "a volume is no longer published on its node after another node was detached or has unpublished it";
        of: &NODES_007,
        expected: "the volume at its target path",
        actual: format!("nothing is mounted at {path}")
    );
    Ok(())
}

/// Returns true if two paths lead to one file system or one device of the kernel. Where they do not, both nodes have the disk for themselves,
/// and an unmount on one of them writes to it behind the back of the other one.
pub(super) fn is_one_device(one: &TrackedVolume, other: &TrackedVolume, access: AccessType) -> bool {
    let device = |volume: &TrackedVolume| {
        let found = std::fs::metadata(&volume.target_path).ok()?;
        Some(if access == AccessType::Block { found.rdev() } else { found.dev() })
    };
    matches!((device(one), device(other)), (Some(one), Some(other)) if one == other)
}
