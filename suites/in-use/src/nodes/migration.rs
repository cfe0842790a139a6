//! Volumes for several writers that two nodes have at once: one of the nodes falls silent, or a virtual machine moves while it runs, as KubeVirt
//! makes it.

use csi_harness::prelude::*;
use csi_ops::volume::TrackedVolume;
use csi_proto::Call as _;
use csi_workload::rules::{IN_USE_001, IN_USE_002};

use super::rules::{NODES_002, NODES_003, NODES_006, NODES_007};
use super::takeover::{
    BACK, DETACH, at_other_node, detach_by_force, given_back, is_one_device, is_still_published, other_node,
    used_on,
};
use crate::beside::{Action, InUse, beside};
use crate::insist::until_done;

const TARGET_READY: Action = Action {
    name: "the publication of the volume on a second node",
    rpcs: &[
        v1::ControllerPublishVolumeRequest::RPC,
        v1::NodeStageVolumeRequest::RPC,
        v1::NodePublishVolumeRequest::RPC,
    ],
};
const WITHDRAWN: Action = Action {
    name: "the end of its use on the node that a virtual machine has left",
    rpcs: &[
        v1::NodeUnpublishVolumeRequest::RPC,
        v1::NodeUnstageVolumeRequest::RPC,
        v1::ControllerUnpublishVolumeRequest::RPC,
    ],
};
const DETACHED: Action = Action {
    name: "ControllerUnpublishVolume for another node that has the volume and does not answer",
    rpcs: &[v1::ControllerUnpublishVolumeRequest::RPC],
};
const NOT_ON_TWO: &str = "the driver rejects a volume for several writers on a second node, which controller/controller-publish-volume/two-nodes judges";

/// Publishes a volume for several writers on both nodes while its workload runs on the first one, and then moves the workload to the second one.
/// Returns the volume of the first node, which still has it published, and its user on the second node.
///
/// # Errors
/// A violation if data are missing on the second node; skip if the driver has no such volumes.
async fn on_two_nodes(cx: &Cx, there: &Cx) -> CheckResult<(TrackedVolume, InUse)> {
    let user = InUse::begin_with_mode(cx, Mode::MultiNodeMultiWriter).await?;
    let used = there.scope();
    let target = at_other_node(&used, user.volume());
    let (target, _) = beside(TARGET_READY, [&user], used_on(&used, target, NOT_ON_TWO)).await?;
    let (source, written) = user.fall_silent(TARGET_READY).await?;
    let noun = "a volume that two nodes have, read on the second one,";
    Ok((source, InUse::after_move(used, target, &written, &NODES_006, noun).await?))
}

/// Returns true if ListVolumes names the node of a workload among those to which its volume is attached. A driver may list other nodes as well, but
/// may not omit this one.
async fn is_listed_as_attached(user: &InUse) -> CheckResult<bool> {
    let cx = user.cx();
    let has = |capability| cx.target().capabilities().has(capability);
    if !has(Capability::ListVolumes) || !has(Capability::ListVolumesPublishedNodes) {
        return Ok(false);
    }
    let listed = cx.eventually(Settles::VolumeListed, || async {
        let names_node = |entry: &v1::list_volumes_response::Entry| {
            entry.volume.as_ref().is_some_and(|volume| volume.volume_id == user.id())
                && entry
                    .status
                    .as_ref()
                    .is_some_and(|status| status.published_node_ids.contains(&user.volume().node_id))
        };
        Ok(cx.list_volumes().await?.iter().any(names_node).then_some(()))
    });
    Ok(listed.await?.is_some())
}

check! {
    /// A pod on each of two nodes uses one volume (ReadWriteMany), and one of the nodes is lost. This must
    /// not affect the pod on the other node.
    MULTI_WRITER {
        id: "nodes/silent-multi-writer",
        title: "a workload is not harmed when another node with its volume falls silent, is detached, and comes back",
        spec: [NODES_007, NODES_002, NODES_003, NODES_006, IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, TWO_NODES, ROOT],
        refuted_by: ["hostpath/forced-detach-detaches-all-nodes", "hostpath/forced-detach-breaks-other-node"],
        access: Each,
        varies: true,
    }
    async |cx| {
        let there = other_node(cx).await?;
        let (mut source, user) = on_two_nodes(cx, &there).await?;
        let was_listed = is_listed_as_attached(&user).await?;
        beside(DETACHED, [&user], detach_by_force(cx, &mut source)).await?;
        ensure!(
            !was_listed || is_listed_as_attached(&user).await?,
            "a volume is no longer listed as attached to its node after it was detached from another one";
            of: &NODES_007,
            expected: format!("{:?} in published_node_ids", user.volume().node_id),
            actual: "still missing after the time to settle (settle-ms)"
        );
        // If each node has the disk for itself, an unmount writes to it, and CSI does not require that the driver fences the node.
        if is_one_device(&source, user.volume(), cx.access()) {
            let situation = "on a node that comes back while another one uses the volume";
            beside(BACK, [&user], given_back(cx, &mut source, &NODES_003, situation)).await?;
        }
        is_still_published(&user)?;
        user.end(BACK).await
    }
}

check! {
    /// The target is prepared while the machine runs at the source. Then it stops there and continues at the target, without a restart, and
    /// the source is withdrawn while it runs.
    LIVE_MIGRATION {
        id: "nodes/live-migration",
        title: "a block volume is handed over between two nodes that have it, with its data and without harm to its user",
        spec: [NODES_006, NODES_002, NODES_003, NODES_007, IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, TWO_NODES, BLOCK_ACCESS, ROOT],
        refuted_by: [
            "hostpath/second-node-gets-empty-device",
            "hostpath/attach-elsewhere-breaks-writer",
            "hostpath/late-detach-wipes",
            "hostpath/late-unstaging-breaks-writer",
        ],
        access: Each,
        varies: true,
    }
    async |cx| {
        let there = other_node(cx).await?;
        let (mut source, user) = on_two_nodes(cx, &there).await?;
        let withdrawn = async {
            let situation = "while another node uses the volume";
            given_back(cx, &mut source, &NODES_003, situation).await?;
            if DETACH.is_offered(cx) {
                let request = source.request(cx, DETACH).await?;
                until_done(cx, DETACH, &request, &NODES_002, situation).await?;
            }
            Ok(())
        };
        beside(WITHDRAWN, [&user], withdrawn).await?;
        is_still_published(&user)?;
        user.end(WITHDRAWN).await
    }
}

pub(super) static CHECKS: &[&Check] = &[&MULTI_WRITER, &LIVE_MIGRATION];
