//! NodeGetInfo identifies the node. It is only mandatory for drivers that attach volumes.

use csi_harness::prelude::*;

use crate::topology;

/// The limit on the bytes of a node id.
const ID_BYTES_MAX: usize = 256;
/// The limit on the bytes of a node id in older software.
const ID_BYTES_SAFE: usize = 128;
/// The number of calls, to see whether the answer changes.
const CALLS: usize = 3;

/// Returns the answer; skips if the driver need not have the RPC.
async fn info(cx: &Cx) -> CheckResult<v1::NodeGetInfoResponse> {
    let reply = cx.call(v1::NodeGetInfoRequest::default()).await;
    let mandatory = cx.target().capabilities().has(Capability::PublishUnpublishVolume);
    if reply.code()? == Code::Unimplemented && !mandatory {
        return Err(Stop::skip("the driver does not attach volumes and has no NodeGetInfo"));
    }
    reply.setup("the answer of NodeGetInfo")
}

check! {
    /// Without it the orchestrator cannot name the node in ControllerPublishVolume.
    SERVED {
        id: "node/node-get-info/served",
        title: "a plugin that attaches volumes serves NodeGetInfo",
        spec: [req::NODE_INFO_001],
        needs: [NODE, PUBLISH_UNPUBLISH_VOLUME],
        refuted_by: ["node-get-info-unimplemented", "node-get-info-fails"],
    }
    async |cx| {
        cx.call(v1::NodeGetInfoRequest::default()).await.must("return information about the node")?;
        Ok(())
    }
}

check! {
    /// kubelet rejects the registration of a driver whose node has no id.
    NODE_ID {
        id: "node/node-get-info/node-id",
        title: "NodeGetInfo returns a node_id",
        spec: [req::NODE_INFO_005, req::GEN_FIELD_002],
        needs: [NODE],
        refuted_by: ["node-get-info-id-empty"],
        replaces: ["Node Service NodeGetInfo should return appropriate values"],
    }
    async |cx| {
        let id = info(cx).await?.node_id;
        ensure!(!id.is_empty(), "the node has no id"; expected: "a node_id", actual: "an empty one");
        Ok(())
    }
}

check! {
    /// Attachments are stored under the id, so a node that changes it loses them.
    SAME_NODE_ID {
        id: "node/node-get-info/same-node-id",
        title: "NodeGetInfo returns the same node_id every time",
        spec: [req::NODE_INFO_005],
        needs: [NODE],
        refuted_by: ["node-get-info-id-changes"],
    }
    async |cx| {
        let first = info(cx).await?.node_id;
        for _ in 1..CALLS {
            let again = info(cx).await?.node_id;
            ensure!(
                first == again,
                "the node_id changes from call to call";
                expected: format!("{first:?} every time"),
                actual: format!("{again:?}")
            );
        }
        Ok(())
    }
}

check! {
    /// Orchestrators reserve no more than 256 bytes for the id.
    NODE_ID_LENGTH {
        id: "node/node-get-info/node-id-length",
        title: "the node_id has 256 bytes or fewer",
        spec: [req::NODE_INFO_008],
        needs: [NODE],
        refuted_by: ["node-get-info-id-too-long"],
    }
    async |cx| {
        let bytes = info(cx).await?.node_id.len();
        ensure!(bytes <= ID_BYTES_MAX, "the node_id is too long"; expected: "256 bytes or fewer", actual: bytes);
        Ok(())
    }
}

check! {
    /// The limit was 128 bytes until version 1.4 of the specification.
    NODE_ID_SAFE_LENGTH {
        id: "node/node-get-info/node-id-safe-length",
        title: "the node_id has 128 bytes or fewer, which older software supports",
        spec: [req::NODE_INFO_009],
        needs: [NODE],
        refuted_by: ["node-get-info-id-long"],
    }
    async |cx| {
        let bytes = info(cx).await?.node_id.len();
        ensure!(
            bytes <= ID_BYTES_SAFE,
            "the node_id is longer than older software supports";
            expected: "128 bytes or fewer",
            actual: bytes
        );
        Ok(())
    }
}

check! {
    /// Zero leaves the limit to the orchestrator; a negative number has no meaning.
    MAX_VOLUMES {
        id: "node/node-get-info/max-volumes-per-node",
        title: "max_volumes_per_node is not negative",
        spec: [req::NODE_INFO_011],
        needs: [NODE],
        refuted_by: ["node-get-info-limit-negative"],
    }
    async |cx| {
        let limit = info(cx).await?.max_volumes_per_node;
        ensure!(limit >= 0, "max_volumes_per_node is negative"; expected: "0 or more", actual: limit);
        Ok(())
    }
}

check! {
    /// An orchestrator that does not know of constraints does not request volumes near the node.
    TOPOLOGY_ADVERTISED {
        id: "node/node-get-info/topology-advertised",
        title: "a driver whose nodes have a topology advertises VOLUME_ACCESSIBILITY_CONSTRAINTS",
        spec: [req::NODE_INFO_012],
        needs: [NODE],
        refuted_by: ["get-plugin-capabilities-hides-topology"],
    }
    async |cx| {
        let advertised = cx.target().capabilities().has(Capability::VolumeAccessibilityConstraints);
        if let Some(topology) = info(cx).await?.accessible_topology
            && !advertised
        {
            let violation = Violation::new("accessible_topology is returned without the capability")
                .expected("no accessible_topology, or VOLUME_ACCESSIBILITY_CONSTRAINTS in GetPluginCapabilities")
                .actual(format!("{:?}", topology.segments));
            // A topology without segments names no place.
            if !topology.segments.is_empty() {
                return Err(violation.into());
            }
            cx.warn(violation);
        }
        Ok(())
    }
}

check! {
    /// Keys become label keys of the node, and Kubernetes rejects any other form.
    TOPOLOGY_FORM {
        id: "node/node-get-info/topology-form",
        title: "keys and values of the node's topology have the form of labels",
        spec: [
            req::MSG_TOPOLOGY_002,
            req::MSG_TOPOLOGY_001,
            req::MSG_TOPOLOGY_004,
            req::MSG_TOPOLOGY_006,
            req::MSG_TOPOLOGY_007,
            req::MSG_TOPOLOGY_008,
            req::MSG_TOPOLOGY_009,
            req::NODE_INFO_014,
        ],
        needs: [NODE, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: [
            "node-get-info-omits-topology",
            "node-get-info-topology-key-invalid",
            "node-get-info-topology-key-too-long",
            "node-get-info-topology-value-empty",
            "node-get-info-topology-value-invalid",
        ],
    }
    async |cx| {
        match info(cx).await?.accessible_topology {
            Some(topology) => topology::well_formed(&topology.segments),
            None => {
                // The field is optional: a node without it reaches every volume that has no topology either.
                cx.warn(
                    Violation::new("the driver advertises VOLUME_ACCESSIBILITY_CONSTRAINTS, and its node reports no topology")
                        .of(&req::NODE_INFO_014)
                        .expected("accessible_topology: without it, no volume with a topology can be used on this node")
                        .actual("none"),
                );
                Ok(())
            }
        }
    }
}

check! {
    /// The orchestrator asks the controller about the node by this id.
    FROM_CONTROLLER {
        id: "node/node-get-info/controller-get-node-info",
        title: "NodeGetInfo returns one node_id with and without controller_get_node_info",
        spec: [req::NODE_INFO_018],
        needs: [NODE, NODE_INFO_FROM_CONTROLLER],
        refuted_by: ["node-get-info-id-differs-with-flag"],
    }
    async |cx| {
        let request = v1::NodeGetInfoRequest { controller_get_node_info: true };
        let with = cx.call(request).setup("the node_id alone").await?.node_id;
        let without = info(cx).await?.node_id;
        ensure!(
            with == without,
            "the node_id differs with controller_get_node_info";
            expected: format!("{without:?}"),
            actual: format!("{with:?}")
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &SERVED,
    &NODE_ID,
    &SAME_NODE_ID,
    &NODE_ID_LENGTH,
    &NODE_ID_SAFE_LENGTH,
    &MAX_VOLUMES,
    &TOPOLOGY_ADVERTISED,
    &TOPOLOGY_FORM,
    &FROM_CONTROLLER,
];
