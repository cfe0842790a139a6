//! A virtual machine that moves while it runs, as KubeVirt makes it: for a while, both nodes have its disk.

use csi_harness::prelude::*;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use csi_proto::Call as _;
use csi_workload::rules::{IN_USE_001, IN_USE_002};

use super::rules::{NODES_002, NODES_003, NODES_006, NODES_007};
use super::takeover::{given_back, is_still_published, other_node, used_on};
use crate::beside::{Action, InUse, beside, judge_moved};
use crate::insist::until_done;

const TARGET_READY: Action = Action {
    name: "the publication of the volume on the node that a virtual machine moves to",
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
const NOT_OFFERED: &str = "the driver makes no block volumes for several writers on several nodes";
const NOT_ON_TWO: &str = "the driver rejects a block volume for several writers on a second node, which controller/controller-publish-volume/two-nodes judges";

check! {
    /// The target is prepared while the machine runs at the source. Then it stops there and continues at the target, without a restart, and
    /// the source is withdrawn while it runs.
    LIVE_MIGRATION {
        id: "nodes/live-migration",
        title: "a block volume is handed over between two nodes that have it, with its data and without hurting its user",
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
        let capability = cx.capability_with_mode(Mode::MultiNodeMultiWriter);
        let mut request = cx.create_node_volume_request().await?;
        request.volume_capabilities = vec![capability.clone()];
        let volume: NodeVolume = cx.create_volume(request).await.or_skip(NOT_OFFERED)?.into();
        let shared = |cx: &Cx| TrackedVolume { capability: capability.clone(), ..TrackedVolume::new(cx, volume.clone()) };
        let user = InUse::of(cx, shared(cx)).await?;
        let used = there.scope();
        let (target, _) =
            beside(TARGET_READY, [&user], used_on(&used, shared(&used), NOT_ON_TWO)).await?;
        let (mut source, written) = user.fall_silent(TARGET_READY).await?;
        let noun = "a volume that two nodes have, read on the second one,";
        judge_moved(&written, &target, noun).await.map_err(|stop| stop.of(&NODES_006))?;
        let user = InUse::resume(used, target, &written).await?;
        let withdrawn = async {
            let situation = "while another node uses the volume";
            given_back(cx, &mut source, &NODES_003, situation).await?;
            let detach = Operation::ControllerUnpublishVolume;
            if detach.is_offered(cx) {
                let request = source.request(cx, detach).await?;
                until_done(cx, detach, &request, &NODES_002, situation).await?;
            }
            Ok(())
        };
        beside(WITHDRAWN, [&user], withdrawn).await?;
        is_still_published(&user)?;
        user.end(WITHDRAWN).await
    }
}

pub(super) static CHECKS: &[&Check] = &[&LIVE_MIGRATION];
