//! Rules that hold for every reply of every RPC.
//!
//! The harness watches all replies of a run. The checks here run after everything else, and report what was found in the whole run.
//! They make the calls themselves that nobody has made, so that there is always something to see; a driver that is dead by then is
//! judged by what it has answered.

pub(crate) mod fields;
pub(crate) mod health;
pub(crate) mod not_advertised;
pub(crate) mod secrets;
pub(crate) mod sizes;
pub(crate) mod status;

use csi_harness::client::response_rules::ResponseBreach;
use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_harness::text::shorten::shortened;
use csi_proto::{Call as _, UnaryCall};

/// Calls shown of those whose replies broke a rule.
const CALLS_SHOWN_MAX: usize = 4;

/// Only that there is an answer counts.
fn heard<T>(reply: Reply<T>) -> CheckResult {
    reply.any_answer().map(|_| ())
}

/// Asks, unless the driver has done so in this run before.
async fn ask<Q>(cx: &Cx, request: Q) -> CheckResult
where
    Q: UnaryCall + Send + Sync,
    Q::Response: Send + Sync,
{
    if cx.target().has_done(Q::RPC) {
        return Ok(());
    }
    heard(cx.call(request).await)
}

/// Replies of all kinds: who the plugin is, what it can do, where it runs, a volume, and a list.
async fn ask_around(cx: &Cx) -> CheckResult {
    ask(cx, v1::GetPluginInfoRequest {}).await?;
    ask(cx, v1::GetPluginCapabilitiesRequest {}).await?;
    ask(cx, v1::ProbeRequest {}).await?;
    if NODE.unmet(cx.target(), cx.access()).is_none() {
        ask(cx, v1::NodeGetInfoRequest {}).await?;
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

/// An error, which any driver with either service gives to empty requests, unless there was one.
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

/// One violation that names each place where the run has seen the rule broken, also where the driver could not be asked again.
fn report(
    asked: CheckResult,
    requirement: &'static Requirement,
    breaches: &[ResponseBreach],
    message: &str,
    expected: &str,
) -> CheckResult {
    let Some(first) = breaches.first() else { return asked };
    let all: Vec<_> = breaches.iter().map(told).collect();
    let violation = Violation::new(format!("{}: {message}", place(first))).of(requirement);
    Err(seen_with(violation, breaches).expected(expected).actual(all.join("; ")).into())
}

/// The violation, with the checks in which it was seen, and the calls whose replies show it.
fn seen_with(violation: Violation, breaches: &[ResponseBreach]) -> Violation {
    let calls = breaches.iter().take(CALLS_SHOWN_MAX).map(call);
    let reproduction = breaches.first().map(ResponseBreach::reproduction).into_iter().collect();
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

fn told(breach: &ResponseBreach) -> String {
    let check = breach.check.as_deref().unwrap_or("the first questions");
    format!("{}: {}{}, in {check}", place(breach), breach.actual, of_a_long_name(breach))
}

/// Ids are often made of names: where only a long one makes them too long, the author has to know.
fn of_a_long_name(breach: &ResponseBreach) -> String {
    let name_bytes = breach.request["name"].as_str().map_or(0, str::len);
    if name_bytes > 64 { format!(" for a name of {name_bytes} bytes") } else { String::new() }
}

/// A list for each file of checks.
pub(crate) const CHECKS: &[&[&Check]] =
    &[sizes::CHECKS, fields::CHECKS, status::CHECKS, secrets::CHECKS, health::CHECKS, not_advertised::CHECKS];
