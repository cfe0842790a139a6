//! GetPluginCapabilities: which services the plugin offers.

use csi_harness::prelude::*;
use v1::plugin_capability::Type;

async fn capabilities(cx: &Cx) -> CheckResult<Vec<v1::PluginCapability>> {
    let reply = cx.call(v1::GetPluginCapabilitiesRequest {}).await;
    Ok(reply.must("say what the plugin offers")?.capabilities)
}

check! {
    /// The first thing an orchestrator asks after the name. An empty list is legal, an entry that says nothing is not.
    WELL_FORMED {
        id: "identity/get-plugin-capabilities/well-formed",
        title: "each entry of GetPluginCapabilities names a capability",
        spec: [req::ID_PCAPS_004, req::ID_PCAPS_001],
        refuted_by: ["get-plugin-capabilities-empty-entry"],
        replaces: ["Identity Service GetPluginCapabilities should return appropriate capabilities"],
    }
    async |cx| {
        for capability in capabilities(cx).await? {
            let number = match &capability.r#type {
                Some(Type::Service(service)) => service.r#type,
                Some(Type::VolumeExpansion(expansion)) => expansion.r#type,
                None => 0,
            };
            ensure!(
                number != 0,
                "an entry of GetPluginCapabilities names no capability";
                expected: "a service or a volume expansion with a type other than UNKNOWN",
                actual: format!("{capability:?}")
            );
        }
        Ok(())
    }
}

check! {
    /// Leaving it out is for node-only plugins.
    CONTROLLER_SERVICE_ADVERTISED {
        id: "identity/get-plugin-capabilities/controller-service",
        title: "a plugin that serves the Controller service advertises CONTROLLER_SERVICE",
        spec: [req::ID_PCAPS_005],
        needs: [CONTROLLER],
        refuted_by: ["get-plugin-capabilities-hides-controller-service"],
    }
    async |cx| {
        let advertised = capabilities(cx).await?;
        ensure!(
            cx.target().capabilities().has(Capability::ControllerService),
            "the Controller service answers, but CONTROLLER_SERVICE is not advertised";
            expected: "CONTROLLER_SERVICE in GetPluginCapabilities",
            actual: format!("{advertised:?}")
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&WELL_FORMED, &CONTROLLER_SERVICE_ADVERTISED];
