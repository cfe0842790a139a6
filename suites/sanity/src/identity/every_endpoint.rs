//! Checks that every endpoint serves the Identity service.

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_proto::Service;

check! {
    /// A program that finds a socket has to be able to identify its plugin.
    SERVED {
        id: "identity/every-endpoint/served",
        title: "every endpoint serves the three RPCs of Identity",
        spec: [req::GEN_RPC_005, req::ID_PCAPS_001, req::ID_PROBE_001],
        refuted_by: [
            "get-plugin-info-unimplemented",
            "get-plugin-capabilities-unimplemented",
            "probe-unimplemented",
        ],
    }
    async |cx| {
        let mut endpoints = vec![Service::Node];
        endpoints.extend(cx.target().controller_endpoint().map(|_| Service::Controller));
        for service in endpoints {
            served(cx.call_at(service, v1::GetPluginInfoRequest {}).await, service, &req::GEN_RPC_005)?;
            let capabilities = cx.call_at(service, v1::GetPluginCapabilitiesRequest {}).await;
            served(capabilities, service, &req::ID_PCAPS_001)?;
            served(cx.call_at(service, v1::ProbeRequest {}).await, service, &req::ID_PROBE_001)?;
        }
        Ok(())
    }
}

fn served<T>(reply: Reply<T>, service: Service, rule: &'static Requirement) -> CheckResult {
    match reply.any_answer()? {
        Err(refused) if refused.code == Code::Unimplemented => Err(Violation::new(format!(
            "the endpoint of the {service} service does not serve all of Identity"
        ))
        .of(rule)
        .expected("any answer but UNIMPLEMENTED")
        .actual(refused)
        .into()),
        _ => Ok(()),
    }
}

pub(crate) static CHECKS: &[&Check] = &[&SERVED];
