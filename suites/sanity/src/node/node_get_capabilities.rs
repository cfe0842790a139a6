//! NodeGetCapabilities returns the capabilities of the Node service.

use csi_harness::prelude::*;
use v1::node_service_capability::Type;

check! {
    /// Orchestrators call it before nearly every other node call.
    SERVED {
        id: "node/node-get-capabilities/served",
        title: "a node plugin serves NodeGetCapabilities",
        spec: [req::NODE_CAPS_001, req::GEN_RPC_007],
        refuted_by: ["node-get-capabilities-unimplemented"],
    }
    async |cx| {
        let reply = cx.call(v1::NodeGetCapabilitiesRequest {}).await;
        if reply.code()? == Code::Unimplemented && !answers_other_node_calls(cx).await? {
            return Err(Stop::skip("the endpoint serves no Node service"));
        }
        reply.must("be answered by a node plugin")?;
        Ok(())
    }
}

/// Returns whether there is a Node service, however it answers empty requests.
async fn answers_other_node_calls(cx: &Cx) -> CheckResult<bool> {
    let info = cx.call(v1::NodeGetInfoRequest::default()).await;
    let unpublish = cx.call(v1::NodeUnpublishVolumeRequest::default()).await;
    Ok([info.code()?, unpublish.code()?].into_iter().any(|code| code != Code::Unimplemented))
}

check! {
    /// An empty list is legal, an entry without a type is not.
    WELL_FORMED {
        id: "node/node-get-capabilities/well-formed",
        title: "each entry of NodeGetCapabilities names a capability",
        spec: [req::NODE_CAPS_003],
        needs: [NODE],
        refuted_by: ["node-get-capabilities-empty-entry", "node-get-capabilities-unknown-type"],
        replaces: ["Node Service NodeGetCapabilities should return appropriate capabilities"],
    }
    async |cx| {
        let answer = cx.call(v1::NodeGetCapabilitiesRequest {}).setup("the capabilities of the node").await?;
        for capability in answer.capabilities {
            let named = matches!(&capability.r#type, Some(Type::Rpc(rpc)) if rpc.r#type != 0);
            ensure!(
                named,
                "an entry of NodeGetCapabilities names no capability";
                expected: "an rpc with a type other than UNKNOWN",
                actual: wire(&capability)
            );
        }
        Ok(())
    }
}

check! {
    /// A node that leaves its topology to the controller has none if the controller does not offer
    /// GET_NODE_INFO.
    GET_NODE_INFO_TOO {
        id: "node/node-get-capabilities/get-node-info",
        title: "a driver with NODE_INFO_FROM_CONTROLLER has GET_NODE_INFO",
        spec: [req::NODE_INFO_017],
        needs: [NODE, CONTROLLER, CONTROLLER_SERVICE, NODE_INFO_FROM_CONTROLLER],
        refuted_by: ["controller-get-capabilities-hides-get-node-info"],
    }
    async |cx| {
        ensure!(
            cx.target().capabilities().has(Capability::GetNodeInfo),
            "NODE_INFO_FROM_CONTROLLER is advertised without GET_NODE_INFO";
            expected: "GET_NODE_INFO in ControllerGetCapabilities",
            actual: "none"
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&SERVED, &WELL_FORMED, &GET_NODE_INFO_TOO];
