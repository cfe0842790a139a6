//! ControllerGetNodeInfo returns the topology of a node and what is attached to it. It is of a draft of CSI 1.14.

use std::collections::BTreeSet;

use csi_harness::prelude::*;

use super::common::{publishable, unknown_id};

fn ask<'a>(cx: &'a Cx, node_id: &str) -> PendingCall<'a, v1::ControllerGetNodeInfoResponse> {
    cx.call(v1::ControllerGetNodeInfoRequest { node_id: node_id.to_owned() })
}

async fn info(cx: &Cx) -> CheckResult<v1::ControllerGetNodeInfoResponse> {
    let node_id = cx.node_id().await?;
    ask(cx, &node_id).setup("the controller's information about the node").await
}

check! {
    /// The attacher registers the node by this answer.
    WORKS {
        id: "controller/controller-get-node-info/works",
        title: "ControllerGetNodeInfo answers for the node of NodeGetInfo",
        spec: [req::CTRL_NODEINFO_001],
        needs: [GET_NODE_INFO, NODE],
        refuted_by: ["controller-get-node-info-unimplemented"],
        plain: ["ControllerGetNodeInfo"],
    }
    async |cx| {
        let node_id = cx.node_id().await?;
        ask(cx, &node_id).await.must("return information about the node")?;
        Ok(())
    }
}

check! {
    /// A retry must not move the node.
    REPEATED {
        id: "controller/controller-get-node-info/repeated",
        title: "ControllerGetNodeInfo returns the same topology for a node every time",
        spec: [req::CTRL_NODEINFO_002],
        needs: [GET_NODE_INFO, NODE],
        refuted_by: ["controller-get-node-info-changes"],
    }
    async |cx| {
        let [first, again] = [info(cx).await?, info(cx).await?].map(|info| info.accessible_topology);
        ensure!(
            first == again,
            "the topology of the node changes from call to call";
            expected: wires(first.as_slice()),
            actual: wires(again.as_slice())
        );
        Ok(())
    }
}

check! {
    /// Existing volumes are bound to the former keys of the node.
    TOPOLOGY_KEYS {
        id: "controller/controller-get-node-info/topology-keys",
        title: "ControllerGetNodeInfo returns the topology keys of NodeGetInfo",
        spec: [req::CTRL_NODEINFO_003],
        needs: [GET_NODE_INFO, NODE, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["controller-get-node-info-other-keys"],
    }
    async |cx| {
        let of_node = cx.call(v1::NodeGetInfoRequest::default()).setup("the topology of the node").await?;
        let of_controller = info(cx).await?;
        let [Some(expected), Some(actual)] =
            [of_node.accessible_topology, of_controller.accessible_topology].map(|one| one.map(keys))
        else {
            return Err(Stop::skip("only one of the services has a topology for the node"));
        };
        ensure!(
            expected == actual,
            "the controller and the node report different topology keys for the node";
            expected: format!("{expected:?}"),
            actual: format!("{actual:?}")
        );
        Ok(())
    }
}

/// The keys in lower case, since their case does not matter.
fn keys(topology: v1::Topology) -> BTreeSet<String> {
    topology.segments.into_keys().map(|key| key.to_ascii_lowercase()).collect()
}

check! {
    /// Zero leaves the limit to the orchestrator; a negative number has no meaning.
    MAX_VOLUMES {
        id: "controller/controller-get-node-info/max-volumes-per-node",
        title: "max_volumes_per_node of ControllerGetNodeInfo is not negative",
        spec: [req::CTRL_NODEINFO_004],
        needs: [GET_NODE_INFO, NODE],
        refuted_by: ["controller-get-node-info-limit-negative"],
    }
    async |cx| {
        let limit = info(cx).await?.max_volumes_per_node;
        ensure!(limit >= 0, "max_volumes_per_node is negative"; expected: "0 or more", actual: limit);
        Ok(())
    }
}

check! {
    /// In the view of the orchestrator, a volume that is listed but not published takes up a slot of the node
    /// that no unpublish releases.
    UNPUBLISHED {
        id: "controller/controller-get-node-info/unpublished-volume",
        title: "ControllerGetNodeInfo does not list a volume that was unpublished from the node",
        spec: [req::CTRL_NODEINFO_005],
        needs: [GET_NODE_INFO, NODE, PUBLISH_UNPUBLISH_VOLUME, VOLUME],
        refuted_by: ["controller-get-node-info-keeps-unpublished"],
    }
    async |cx| {
        let (volume, node_id) = publishable(cx).await?;
        let request = cx.controller_publish_request(&volume, &node_id);
        cx.controller_publish(request).setup("a published volume").await?;
        cx.controller_unpublish(&volume.id, &node_id).setup("an unpublished volume").await?;
        let listed = info(cx).await?.published_volume_ids;
        ensure!(
            !listed.contains(&volume.id),
            "published_volume_ids names a volume that is no longer published";
            expected: format!("a list without {:?}", volume.id),
            actual: format!("{listed:?}")
        );
        Ok(())
    }
}

check! {
    /// An answer about a node that does not exist would register it.
    UNKNOWN_NODE {
        id: "controller/controller-get-node-info/unknown-node",
        title: "ControllerGetNodeInfo of an unknown node is NOT_FOUND",
        spec: [req::CTRL_NODEINFO_006],
        needs: [GET_NODE_INFO],
        refuted_by: ["controller-get-node-info-unknown-node-ok"],
    }
    async |cx| {
        ask(cx, &cx.unknown_node_id()).await.must_be_refused("of an unknown node", unknown_id())?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] =
    &[&WORKS, &REPEATED, &TOPOLOGY_KEYS, &MAX_VOLUMES, &UNPUBLISHED, &UNKNOWN_NODE];
