//! Defines a check for each abuse of a connection, for each RPC, and for all RPCs mixed.

use std::time::Instant;

use csi_harness::checks::check::{Body, Check, CheckFuture, Runs, SAME_RULE};
use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;
use csi_harness::spec::faults::FaultKey;
use csi_harness::spec::requirements::Requirement;
use csi_proto::{RPCS, Rpc};

use super::allowance::Allowance;
use super::campaign::Campaign;
use super::case::Case;
use super::finding::Finding;
use super::frames::{self, ABUSES, Abuse};
use crate::process_stats::Vitals;
use crate::rules::{
    HOSTILE_CODE_001, HOSTILE_COMMAND_001, HOSTILE_EFFECT_001, HOSTILE_GROWTH_001, HOSTILE_PATH_001,
    HOSTILE_TIME_001,
};

/// The rules that such checks may report.
pub(super) const RULES: &[&Requirement] = &[
    &req::GEN_ERR_001,
    &req::GEN_SECRET_001,
    &HOSTILE_PATH_001,
    &HOSTILE_COMMAND_001,
    &HOSTILE_EFFECT_001,
    &HOSTILE_CODE_001,
    &HOSTILE_GROWTH_001,
    &HOSTILE_TIME_001,
];

pub fn suite(allowance: &Allowance) -> Suite {
    let frames = ABUSES.iter().map(|abuse| of_frames(*abuse, allowance));
    // If time is short, the mixed check says most, so it is first.
    let requests =
        [None].into_iter().chain(RPCS.iter().map(Some)).map(|rpc| of_requests(rpc.copied(), allowance));
    Suite { name: "fuzz", checks: Checks::made(requests.chain(frames)), retired: &[] }
}

fn of_frames(abuse: Abuse, allowance: &Allowance) -> Check {
    let title = format!("others are served as before: {}", abuse.title);
    let allowance = allowance.clone();
    check(format!("fuzz/frames/{}", abuse.name), title, &[], move |cx| {
        let allowance = allowance.clone();
        Box::pin(async move {
            // The check cannot choose its duration, and the unused rest of its share goes to later checks.
            allowance.take().ok_or_else(time_is_over)?;
            frames::abuse(cx, abuse).await
        })
    })
}

/// Returns the check of one RPC, or of all RPCs mixed.
fn of_requests(rpc: Option<Rpc>, allowance: &Allowance) -> Check {
    let (id, title) = match rpc {
        Some(rpc) => {
            (format!("fuzz/requests/{}", rpc.kebab_case()), format!("hostile requests do no harm: {rpc}"))
        }
        None => ("fuzz/mixed".to_owned(), "hostile requests of all kinds, mixed, do no harm".to_owned()),
    };
    let allowance = allowance.clone();
    let check = check(id, title, &[VOLUME], move |cx| {
        let allowance = allowance.clone();
        Box::pin(async move { fuzz(cx, rpc, &allowance).await })
    });
    // The mixed requests find what those of one RPC find, and more.
    Check { duplicate_of: rpc.is_none().then_some(SAME_RULE), ..check }
}

/// Returns a check that owns its data.
fn check(
    id: String,
    title: String,
    needs: &'static [Need],
    body: impl for<'a> Fn(&'a Cx) -> CheckFuture<'a> + Send + Sync + 'static,
) -> Check {
    Check {
        requirements: RULES,
        needs,
        runs: Runs::CrashProne,
        ..Check::new(id.into(), title.into(), Body::made(body))
    }
}

fn time_is_over() -> Stop {
    Stop::skip("--duration ended before it could begin; use a longer one, or --filter")
}

async fn fuzz(cx: &Cx, rpc: Option<Rpc>, allowance: &Allowance) -> CheckResult {
    let share = allowance.take().ok_or_else(time_is_over)?;
    let wanted = |input: &super::input::Input| rpc.is_none_or(|rpc| input.rpc == rpc);
    let Some(mut campaign) = Campaign::begin(cx, wanted).await? else {
        return Err(Stop::skip("the driver does not offer it"));
    };
    if share.inputs_max == 0 {
        return Err(Stop::skip("the other checks used up the inputs of the run"));
    }
    let process_stats = Vitals::take(cx).await;
    let started = Instant::now();
    let findings = campaign.run(share).await?;
    allowance.used(campaign.sent());
    cx.note(format!(
        "{} inputs, {:.0} a second; {} kinds of answers",
        campaign.sent(),
        campaign.sent() as f64 / started.elapsed().as_secs_f64().max(0.001),
        campaign.novelties()
    ));
    if let Some(slowest) = campaign.slow_probe() {
        cx.warn(
            Violation::new("others are not answered in time while hostile requests are under way")
                .of(&HOSTILE_TIME_001)
                .expected("a Probe that is answered at once")
                .actual(format!("one took {} ms", slowest.as_millis())),
        );
    }
    if let Some(process_stats) = process_stats.filter(|_| findings.is_empty()) {
        process_stats.compare(cx).await?;
    }
    report(cx, findings)
}

/// Reports the gravest finding as the violation, and the others as notes.
fn report(cx: &Cx, findings: Vec<Finding>) -> CheckResult {
    let violation = |finding: &Finding| {
        let fault = FaultKey { rule: finding.fault.rule.id, what: finding.fault.cause.clone() };
        let violation = finding.fault.violation(transcript(cx, finding));
        Violation { fault: Some(Box::new(fault)), ..violation }
    };
    let mut violations = findings.iter().map(violation);
    let Some(first) = violations.next() else { return Ok(()) };
    violations.for_each(|violation| cx.warn(violation));
    Err(first.into())
}

/// Describes the input, and names the file that contains it.
pub(super) fn transcript(cx: &Cx, finding: &Finding) -> Vec<String> {
    let case = Case::of(cx, finding);
    let mut lines = case.lines();
    if let Some(folder) = &cx.config().effort.regressions {
        lines.push(case.store_in(folder));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rpc_has_a_check() {
        let suite = suite(&Allowance::new(std::time::Duration::ZERO, 0));
        let ids: Vec<&str> = suite.checks.iter().map(|check| &*check.id).collect();
        assert_eq!(ids.len(), ABUSES.len() + RPCS.len() + 1);
        assert!(ids.contains(&"fuzz/requests/node-get-volume-stats"), "{ids:?}");
    }
}
