//! Checks the rules for every reply of every RPC.
//!
//! The harness observes all replies of a run. These checks run after all others and report the violations in the
//! whole run. They make calls that no other check made, so that there are always replies; a driver that is dead by
//! then is judged by its earlier replies.

pub(crate) mod fields;
pub(crate) mod health;
pub(crate) mod not_advertised;
pub(crate) mod secrets;
pub(crate) mod status;

use csi_harness::client::response_rules::ResponseBreach;
use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_harness::text::shorten::shortened;
use csi_proto::{Call as _, UnaryCall};

/// Limits the shown calls whose replies broke a rule.
const CALLS_SHOWN_MAX: usize = 4;

/// Requires any answer.
fn heard<T>(reply: Reply<T>) -> CheckResult {
    reply.any_answer().map(|_| ())
}

/// Sends the request, unless the run has already called the RPC.
async fn ask<Q: UnaryCall>(cx: &Cx, request: Q) -> CheckResult {
    if cx.target().has_done(Q::RPC) {
        return Ok(());
    }
    heard(cx.call(request).await)
}

/// Makes calls for replies of all kinds: the plugin's name and capabilities, its node, a volume, and a list.
async fn ask_around(cx: &Cx) -> CheckResult {
    ask(cx, v1::GetPluginInfoRequest {}).await?;
    ask(cx, v1::GetPluginCapabilitiesRequest {}).await?;
    ask(cx, v1::ProbeRequest {}).await?;
    if NODE.unmet(cx.target(), cx.access()).is_none() {
        ask(cx, v1::NodeGetInfoRequest::default()).await?;
    }
    let capabilities = cx.target().capabilities();
    if capabilities.has(Capability::CreateDeleteVolume) && !cx.target().has_done(v1::CreateVolumeRequest::RPC)
    {
        heard(cx.create_volume(cx.create_volume_request()).await)?;
    }
    if capabilities.has(Capability::ListVolumes) {
        ask(cx, v1::ListVolumesRequest::default()).await?;
    }
    Ok(())
}

/// Causes an error, unless the run had one; any driver with a Controller or Node service rejects empty requests.
async fn ask_for_errors(cx: &Cx) -> CheckResult {
    let wants =
        |need: &Need, rpc| need.unmet(cx.target(), cx.access()).is_none() && !cx.target().has_refused(rpc);
    if wants(&CONTROLLER, v1::ValidateVolumeCapabilitiesRequest::RPC) {
        heard(cx.call(v1::ValidateVolumeCapabilitiesRequest::default()).await)?;
    }
    if wants(&NODE, v1::NodeUnpublishVolumeRequest::RPC) {
        heard(cx.call(v1::NodeUnpublishVolumeRequest::default()).await)?;
    }
    Ok(())
}

/// Returns one violation with each place where the run saw the rule broken, even if the driver no longer answers.
fn report(
    asked: CheckResult,
    requirement: &'static Requirement,
    breaches: &[ResponseBreach],
    message: &str,
    expected: &str,
) -> CheckResult {
    let breaches = usual_first(breaches);
    let Some(first) = breaches.first() else { return asked };
    let all: Vec<_> = breaches.iter().map(describe).collect();
    let violation = Violation::new(format!("{}: {message}", place(first))).of(requirement);
    Err(seen_with(violation, &breaches).expected(expected).actual(all.join("; ")).into())
}

/// Orders breaches for a report: an odd request, or a fault that is injected, can be the reason for an odd reply.
fn usual_first(breaches: &[ResponseBreach]) -> Vec<ResponseBreach> {
    let mut breaches = breaches.to_vec();
    breaches.sort_by_key(|breach| !circumstances(breach).is_empty());
    breaches
}

/// Says what the check that made the call does to the driver, unless its calls are usual ones.
fn circumstances(breach: &ResponseBreach) -> &'static str {
    match breach.check.as_deref().and_then(|check| check.split('/').next()) {
        Some("faults") => ", which injects faults",
        Some("hostile" | "fuzz") => ", which sends hostile requests",
        _ => "",
    }
}

/// Returns the violation with the checks in which it occurred, and the calls whose replies show it.
fn seen_with(violation: Violation, breaches: &[ResponseBreach]) -> Violation {
    let calls = breaches.iter().take(CALLS_SHOWN_MAX).map(call);
    let reproduction = breaches.first().map(ResponseBreach::reproduction).unwrap_or_default();
    breaches
        .iter()
        .fold(violation, |violation, breach| violation.along_with(breach.check.as_deref()))
        .transcript(std::iter::once("calls".to_owned()).chain(calls).collect())
        .reproduction(reproduction)
}

fn call(breach: &ResponseBreach) -> String {
    format!("  {} {}\n      → {}", breach.rpc, shortened(&breach.request.to_string()), breach.answer)
}

fn place(breach: &ResponseBreach) -> String {
    format!("{} of {}", breach.place, breach.rpc)
}

fn describe(breach: &ResponseBreach) -> String {
    let check = breach.check.as_deref().unwrap_or("the first questions");
    let (name, circumstances) = (of_a_long_name(breach), circumstances(breach));
    format!("{}: {}{name}, in {check}{circumstances}", place(breach), breach.actual)
}

/// Explains a long id: many drivers derive ids from names, so an author needs to know if only a long name causes it.
fn of_a_long_name(breach: &ResponseBreach) -> String {
    let name_bytes = breach.request["name"].as_str().map_or(0, str::len);
    if name_bytes > 64 { format!(" for a name of {name_bytes} bytes") } else { String::new() }
}

pub(crate) const CHECKS: &[&[&Check]] =
    &[fields::CHECKS, status::CHECKS, secrets::CHECKS, health::CHECKS, not_advertised::CHECKS];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_calls_are_shown_before_injected_faults() {
        let breach = |check: &str| ResponseBreach {
            requirement: &req::GEN_ERR_002,
            rpc: v1::CreateVolumeRequest::RPC,
            place: "the code".to_owned(),
            actual: "UNKNOWN".to_owned(),
            check: Some(check.to_owned()),
            request: Default::default(),
            answer: String::new(),
            before: Vec::new(),
        };
        let seen =
            [breach("faults/commands"), breach("hostile/limits/strings"), breach("property/volumes@block")];
        let shown: Vec<String> = usual_first(&seen).iter().map(describe).collect();
        assert_eq!(
            shown,
            [
                "the code of CreateVolume: UNKNOWN, in property/volumes@block",
                "the code of CreateVolume: UNKNOWN, in faults/commands, which injects faults",
                "the code of CreateVolume: UNKNOWN, in hostile/limits/strings, which sends hostile requests",
            ]
        );
    }
}
