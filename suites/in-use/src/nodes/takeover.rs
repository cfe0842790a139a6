//! The way of a volume to another node.

use std::os::unix::fs::MetadataExt as _;

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_ops::lifecycle::Lifecycle;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;

use super::rules::NODES_007;
use crate::beside::InUse;
use crate::insist::until_done;

/// Another node where a new volume of the first node can be used. Nodes that cannot reach it, as in another zone, are passed over.
///
/// # Errors
/// Skip if the driver rejects a call about the volume on each of them, or if the tests do not see it.
pub(super) async fn other_node(cx: &Cx) -> CheckResult<Cx> {
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

/// Unpublishes and unstages a volume, as kubelet does until the answer is OK. The situation reads after "is not done".
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
        "a volume is not published any more on the node that has it, after another node has given it back";
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
