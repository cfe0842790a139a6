//! ControllerGetCapabilities returns the optional RPCs and modes of the Controller service.

use csi_harness::prelude::*;
use v1::controller_service_capability::{Type, rpc};

async fn capabilities(cx: &Cx) -> CheckResult<Vec<v1::ControllerServiceCapability>> {
    let reply = cx.call(v1::ControllerGetCapabilitiesRequest {}).await;
    Ok(reply.must("return the capabilities of the Controller service")?.capabilities)
}

fn offers(capabilities: &[v1::ControllerServiceCapability], wanted: rpc::Type) -> bool {
    let is = |Type::Rpc(rpc): &Type| rpc.r#type == wanted as i32;
    capabilities.iter().any(|capability| capability.r#type.as_ref().is_some_and(is))
}

check! {
    /// Orchestrators call no other RPC of the Controller service before they know its capabilities.
    ANSWERS {
        id: "controller/controller-get-capabilities/answers",
        title: "ControllerGetCapabilities is answered",
        spec: [req::CTRL_CAPS_001],
        needs: [CONTROLLER_SERVICE],
        refuted_by: ["controller-get-capabilities-unimplemented"],
    }
    async |cx| {
        capabilities(cx).await?;
        Ok(())
    }
}

check! {
    /// An empty list is legal, an entry without a type is not. Types of a later release are permitted.
    WELL_FORMED {
        id: "controller/controller-get-capabilities/well-formed",
        title: "each entry of ControllerGetCapabilities names a capability",
        spec: [req::CTRL_CAPS_003],
        needs: [CONTROLLER],
        refuted_by: ["controller-get-capabilities-unknown-type", "controller-get-capabilities-empty-entry"],
        replaces: [
            "Controller Service [Controller Server] ControllerGetCapabilities should return appropriate capabilities",
        ],
    }
    async |cx| {
        for capability in capabilities(cx).await? {
            let number = capability.r#type.as_ref().map_or(0, |Type::Rpc(rpc)| rpc.r#type);
            ensure!(
                number != 0,
                "an entry of ControllerGetCapabilities names no capability";
                expected: "an rpc with a type other than UNKNOWN",
                actual: wire(&capability)
            );
        }
        Ok(())
    }
}

check! {
    /// Only a driver that publishes volumes can list the nodes to which they are published.
    PUBLISHED_NODES {
        id: "controller/controller-get-capabilities/published-nodes",
        title: "a driver with LIST_VOLUMES_PUBLISHED_NODES has PUBLISH_UNPUBLISH_VOLUME",
        spec: [req::CTRL_CAPS_007],
        needs: [LIST_VOLUMES_PUBLISHED_NODES],
        refuted_by: ["controller-get-capabilities-hides-publish"],
    }
    async |cx| {
        let offered = capabilities(cx).await?;
        ensure!(
            offers(&offered, rpc::Type::PublishUnpublishVolume),
            "LIST_VOLUMES_PUBLISHED_NODES is advertised without PUBLISH_UNPUBLISH_VOLUME";
            expected: "both, or neither",
            actual: wires(&offered)
        );
        Ok(())
    }
}

check! {
    /// A backup tool that reads a group snapshot requests its members one by one.
    GET_SNAPSHOT {
        id: "controller/controller-get-capabilities/get-snapshot-with-groups",
        title: "a driver with group snapshots has GET_SNAPSHOT",
        spec: [req::CTRL_GETSNAP_002],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT],
        refuted_by: ["controller-get-capabilities-hides-get-snapshot"],
    }
    async |cx| {
        let offered = capabilities(cx).await?;
        ensure!(
            offers(&offered, rpc::Type::GetSnapshot),
            "group snapshots are offered without GET_SNAPSHOT";
            expected: "GET_SNAPSHOT in ControllerGetCapabilities",
            actual: wires(&offered)
        );
        Ok(())
    }
}

check! {
    /// A monitor confirms each entry of the list with this RPC, and does not start without it.
    GET_VOLUME_HEALTH_TOO {
        id: "controller/controller-get-capabilities/get-volume-health",
        title: "a driver with LIST_VOLUME_HEALTH has GET_VOLUME_HEALTH",
        spec: [req::CTRL_CAPS_014],
        needs: [LIST_VOLUME_HEALTH],
        refuted_by: ["controller-get-capabilities-hides-get-volume-health"],
    }
    async |cx| {
        let offered = capabilities(cx).await?;
        ensure!(
            offers(&offered, rpc::Type::GetVolumeHealth),
            "LIST_VOLUME_HEALTH is advertised without GET_VOLUME_HEALTH";
            expected: "both, or GET_VOLUME_HEALTH alone",
            actual: wires(&offered)
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] =
    &[&ANSWERS, &WELL_FORMED, &PUBLISHED_NODES, &GET_SNAPSHOT, &GET_VOLUME_HEALTH_TOO];
