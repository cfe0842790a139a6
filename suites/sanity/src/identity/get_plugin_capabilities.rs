//! GetPluginCapabilities returns the services of the plugin.

use std::collections::BTreeSet;

use csi_harness::prelude::*;
use csi_harness::protocol::rpc;
use csi_proto::Service;
use v1::plugin_capability::Type;

/// The number of calls.
const ASKED: usize = 6;

async fn capabilities(cx: &Cx) -> CheckResult<Vec<v1::PluginCapability>> {
    let reply = cx.call(v1::GetPluginCapabilitiesRequest {}).await;
    Ok(reply.must("return the capabilities of the plugin")?.capabilities)
}

/// Checks that every promised RPC of a service exists: an empty request is invalid, but not unimplemented.
async fn promised_are_there(cx: &Cx, service: Service) -> CheckResult {
    let mut missing = Vec::new();
    for facts in rpc::promised(service).filter(|facts| cx.target().offers(facts.rpc)) {
        if let Err(refused) = cx.call_bytes(facts.rpc, Vec::new()).await.any_answer()?
            && refused.code == Code::Unimplemented
        {
            missing.push(format!("{} answers {refused}", facts.rpc));
        }
    }
    ensure!(
        missing.is_empty(),
        "a capability is advertised, but its RPC is not implemented";
        expected: "any answer but UNIMPLEMENTED",
        actual: missing.join("; ")
    );
    Ok(())
}

fn listed(capabilities: &BTreeSet<String>) -> String {
    capabilities.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

check! {
    /// An orchestrator calls this RPC right after GetPluginInfo. An empty list is legal, an entry without a
    /// type is not.
    WELL_FORMED {
        id: "identity/get-plugin-capabilities/well-formed",
        title: "each entry of GetPluginCapabilities names a capability",
        spec: [req::ID_PCAPS_004, req::ID_PCAPS_001],
        refuted_by: [
            "get-plugin-capabilities-empty-entry",
            "get-plugin-capabilities-unknown-expansion",
            "get-plugin-capabilities-unknown-service",
        ],
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
                actual: wire(&capability)
            );
        }
        Ok(())
    }
}

check! {
    /// Only a plugin without a controller may leave it out.
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
            actual: wires(&advertised)
        );
        Ok(())
    }
}

check! {
    /// An orchestrator calls any instance, and only once.
    SAME_EACH_TIME {
        id: "identity/get-plugin-capabilities/same-each-time",
        title: "GetPluginCapabilities returns the same each time",
        spec: [req::ID_PCAPS_002],
        refuted_by: ["get-plugin-capabilities-changes"],
    }
    async |cx| {
        let as_set = |capabilities: Vec<v1::PluginCapability>| -> BTreeSet<String> {
            capabilities.iter().map(wire).collect()
        };
        let first = as_set(capabilities(cx).await?);
        for _ in 1..ASKED {
            let again = as_set(capabilities(cx).await?);
            ensure!(
                again == first,
                "GetPluginCapabilities does not return the same each time";
                expected: listed(&first),
                actual: listed(&again)
            );
        }
        Ok(())
    }
}

check! {
    /// A missing service would only be noticed during provisioning.
    CONTROLLER_SERVED {
        id: "identity/get-plugin-capabilities/controller-service-is-there",
        title: "a plugin that advertises CONTROLLER_SERVICE serves its mandatory and advertised RPCs",
        spec: [req::ID_PCAPS_006, req::GEN_RPC_006],
        needs: [CONTROLLER_SERVICE],
        refuted_by: [
            "controller-get-capabilities-unimplemented",
            "validate-volume-capabilities-unimplemented",
            "get-capacity-unimplemented",
        ],
    }
    async |cx| {
        capabilities(cx).await?;
        there(cx.call(v1::ControllerGetCapabilitiesRequest {}).await, "CONTROLLER_SERVICE")
            .map_err(|stop| stop.of(&req::GEN_RPC_006))?;
        there(cx.call(v1::ValidateVolumeCapabilitiesRequest::default()).await, "CONTROLLER_SERVICE")?;
        promised_are_there(cx, Service::Controller).await
    }
}

check! {
    /// A missing service would only be noticed during a backup.
    GROUP_CONTROLLER_SERVED {
        id: "identity/get-plugin-capabilities/group-controller-service-is-there",
        title: "a plugin that advertises GROUP_CONTROLLER_SERVICE serves its mandatory and advertised RPCs",
        spec: [req::ID_PCAPS_009],
        needs: [GROUP_CONTROLLER_SERVICE],
        refuted_by: [
            "group-controller-get-capabilities-unimplemented",
            "create-volume-group-snapshot-unimplemented",
        ],
    }
    async |cx| {
        capabilities(cx).await?;
        there(cx.call(v1::GroupControllerGetCapabilitiesRequest {}).await, "GROUP_CONTROLLER_SERVICE")?;
        promised_are_there(cx, Service::GroupController).await
    }
}

fn there<T>(reply: Reply<T>, promised_by: &str) -> CheckResult {
    match reply.any_answer()? {
        Err(refused) if refused.code == Code::Unimplemented => Err(Violation::new(format!(
            "{promised_by} is advertised, but a mandatory RPC is not implemented"
        ))
        .expected("any answer but UNIMPLEMENTED")
        .actual(refused)
        .into()),
        _ => Ok(()),
    }
}

check! {
    /// ONLINE and OFFLINE say when volumes can be expanded, and EXPAND_VOLUME says by which service.
    EXPANSION {
        id: "identity/get-plugin-capabilities/expansion",
        title: "a plugin that advertises ONLINE or OFFLINE expansion advertises EXPAND_VOLUME",
        spec: [req::ID_PCAPS_011, req::ID_PCAPS_015],
        needs: [any_of(&[Capability::OnlineExpansion, Capability::OfflineExpansion])],
        refuted_by: ["expand-volume-not-advertised", "controller-get-capabilities-hides-expand"],
    }
    async |cx| {
        let reply = cx.call(v1::GetPluginCapabilitiesRequest {}).await;
        let offered = wires(&reply.setup("the capabilities of the plugin")?.capabilities);
        if let Some(why) = [Service::Controller, Service::Node].into_iter().find_map(|one| cx.target().unreported(one)) {
            return Err(Stop::broken(why));
        }
        let has = |capability| cx.target().capabilities().has(capability);
        let controller = has(Capability::ExpandVolume);
        ensure!(
            !has(Capability::OnlineExpansion) || controller || has(Capability::NodeExpandVolume),
            "ONLINE expansion is advertised, but no RPC that expands volumes";
            expected: "EXPAND_VOLUME of the controller, the node or both",
            actual: offered
        );
        ensure!(
            !has(Capability::OfflineExpansion) || controller,
            "OFFLINE expansion is advertised, but the controller does not expand volumes";
            of: &req::ID_PCAPS_015,
            expected: "EXPAND_VOLUME of the controller",
            actual: offered
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &WELL_FORMED,
    &CONTROLLER_SERVICE_ADVERTISED,
    &SAME_EACH_TIME,
    &CONTROLLER_SERVED,
    &GROUP_CONTROLLER_SERVED,
    &EXPANSION,
];
