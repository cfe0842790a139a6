//! GroupControllerGetCapabilities returns the capabilities of the GroupController service.

use csi_harness::prelude::*;
use v1::group_controller_service_capability::Type;

check! {
    /// The snapshotter calls it once, at its start.
    SERVED {
        id: "group/group-controller-get-capabilities/served",
        title: "a plugin that advertises GROUP_CONTROLLER_SERVICE serves GroupControllerGetCapabilities",
        spec: [req::GROUP_CAPS_001],
        needs: [GROUP_CONTROLLER_SERVICE],
        refuted_by: ["group-controller-get-capabilities-unimplemented"],
    }
    async |cx| {
        cx.call(v1::GroupControllerGetCapabilitiesRequest {}).await.must("be answered")?;
        Ok(())
    }
}

check! {
    /// An empty list is legal, an entry without a type is not.
    WELL_FORMED {
        id: "group/group-controller-get-capabilities/well-formed",
        title: "each entry of GroupControllerGetCapabilities names a capability",
        spec: [req::GROUP_CAPS_003],
        needs: [GROUP_CONTROLLER],
        refuted_by: [
            "group-controller-get-capabilities-empty-entry",
            "group-controller-get-capabilities-unknown-type",
        ],
        replaces: [
            "GroupController Service [GroupController Server] GroupControllerGetCapabilities should return appropriate capabilities",
        ],
    }
    async |cx| {
        let answer = cx
            .call(v1::GroupControllerGetCapabilitiesRequest {})
            .setup("the capabilities of the group controller");
        for capability in answer.await?.capabilities {
            let named = matches!(&capability.r#type, Some(Type::Rpc(rpc)) if rpc.r#type != 0);
            ensure!(
                named,
                "an entry of GroupControllerGetCapabilities names no capability";
                expected: "an rpc with a type other than UNKNOWN",
                actual: wire(&capability)
            );
        }
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&SERVED, &WELL_FORMED];
