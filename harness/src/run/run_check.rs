//! One check from start to end: needs, body, undoing, verdict.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use tokio::sync::watch;

use crate::checks::known::{Entry, KnownFailing};
use crate::checks::planned::Planned;
use crate::client::answer::{Answer, NoAnswer};
use crate::client::record::{CallLog, CallRecord, Recorded, Silence};
use crate::client::session::{AfterCall, Session};
use crate::client::spent::Spent;
use crate::client::target::Target;
use crate::config::profile::Profile;
use crate::driver::Driver;
use crate::lifecycle::cx::Cx;
use crate::resources::machine;
use crate::results::failure_report::{self, have_to_do};
use crate::results::fault;
use crate::results::outcome::{CheckReport, Flaky, Halt, Outcome, Strictness};
use crate::run::precondition::Preconditions;
use crate::run::runner::RepeatCommand;
use crate::spec::faults::FaultKey;
use crate::spec::requirements::Requirement;
use crate::spec::verdict::{CheckResult, Damage, Stop, Violation};

/// Calls that are told of those that the driver may have died of.
const CALLS_TOLD_MAX: usize = 4;

/// What is the same for all checks of a run.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) seed: u64,
    pub(crate) strictness: Strictness,
    pub(crate) keep_calls: bool,
    pub(crate) known: Arc<KnownFailing>,
    pub(crate) preconditions: Arc<Preconditions>,
    pub(crate) repeat: Arc<RepeatCommand>,
    /// Looks at the driver after each call.
    pub(crate) probe: Option<Arc<dyn AfterCall>>,
}

impl Rules {
    /// The command that shows the outcome again.
    fn repeat_command(&self, label: &str, outcome: &Outcome) -> String {
        let violation = outcome.violation();
        let others = violation.map_or(&[][..], |violation| &violation.along_with);
        let labels: Vec<&str> = others.iter().map(String::as_str).chain([label]).collect();
        (self.repeat)(&labels.join(","), violation.and_then(|violation| violation.injected.as_deref()))
    }
}

impl CheckReport {
    /// The report on a check that sent no call.
    pub(crate) fn without_calls(planned: Planned, outcome: Outcome, rules: &Rules) -> CheckReport {
        CheckReport {
            repeat: rules.repeat_command(&planned.label(), &outcome),
            planned,
            outcome,
            also: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
            tried: 0,
            cut_short: Vec::new(),
            duration: Duration::ZERO,
            spent: Spent::default(),
            calls: Vec::new(),
            calls_dropped: 0,
            incidents: Vec::new(),
            leftovers: Vec::new(),
            left_behind: Vec::new(),
            began_with: None,
        }
    }
}

/// A finished check, and how the driver left calls unanswered, if it did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) report: CheckReport,
    pub(crate) silence: Option<Silence>,
    /// Whether the check has ended the driver itself, so that its death says nothing.
    pub(crate) on_purpose: bool,
    /// What the check worked with, where it left something that can be undone once the driver is back.
    pub(crate) cx: Option<Cx>,
}

impl Done {
    /// What is left of a check that the harness could not run to its end.
    pub(crate) fn broken(planned: Planned, why: &str, rules: &Rules) -> Done {
        let outcome = Outcome::Broken(format!("the harness itself failed: {why}"));
        let report = CheckReport::without_calls(planned, outcome, rules);
        Done { report, silence: None, on_purpose: false, cx: None }
    }

    /// The call that the driver may have died of: the first one that broke off, since those after it met a dead driver; or
    /// the last one that took too long.
    pub(crate) fn fatal_call(&self) -> Option<&CallRecord> {
        let broke = |call: &&CallRecord| matches!(call.outcome, Answer::Unknown(NoAnswer::Broken(_)));
        let late = |call: &&CallRecord| matches!(call.outcome, Answer::Unknown(NoAnswer::Timeout(_)));
        let calls = &self.report.calls;
        let unanswered = calls.iter().find(broke).or_else(|| calls.iter().rev().find(late));
        unanswered.or_else(|| calls.iter().rev().find(|call| !call.cleanup))
    }
}

/// Runs one check and undoes what it made. A raised stop signal ends the body early; the undoing still happens.
pub(crate) async fn run_check(
    target: Arc<Target>,
    planned: Planned,
    rules: Rules,
    stop: watch::Receiver<Halt>,
) -> Done {
    let run = AssertUnwindSafe(run_and_undo(target, planned.clone(), rules.clone(), stop));
    run.catch_unwind().await.unwrap_or_else(|panic| {
        Done::broken(planned, &format!("it panicked: {}", panic_text(&*panic)), &rules)
    })
}

async fn run_and_undo(
    target: Arc<Target>,
    planned: Planned,
    rules: Rules,
    mut stop: watch::Receiver<Halt>,
) -> Done {
    let started = Instant::now();
    let label = planned.label();
    let check_limit = Duration::from_millis(target.config().time_limits.check_ms);
    let log = CallLog::new();
    let session = Session::new(target.clone(), log.clone(), &label, check_limit);
    let session = session.probed_by(rules.probe.clone());
    let cx = Cx::new(session, planned.access, planned.number, rules.seed);
    let ends = target.driver().map(Driver::ends);
    let read_only_before = machine::read_only_loops();

    let ended = match unmet(&planned, &target) {
        Some(reason) => Err(Stop::Skip(reason)),
        None => tokio::select! {
            ended = judged(&planned, &cx, check_limit, &rules) => ended,
            () = raised(&mut stop) => Err(Stop::skip("interrupted")),
        },
    };
    let on_purpose = target.driver().map(Driver::ends) != ends;
    if on_purpose && target.bring_back().await.is_ok() {
        // Calls that its end has left without an answer say nothing.
        log.forget_silence();
    }
    cx.stage("undoing what it made", 0, None);
    let leftovers = cx.finish().await;
    let still_mounted = match &*leftovers {
        [] => None,
        _ => cx.still_mounted().await,
    };
    cx.make_way().await;
    let cleared = machine::clear_read_only_loops(&read_only_before);
    target.stages.end(&label);
    let silence = log.silence();
    let Recorded {
        calls,
        calls_dropped,
        blamed,
        warnings,
        mut notes,
        tried,
        cut_short,
        mut incidents,
        spent,
    } = log.take();
    incidents.extend(target.driver().map(|driver| driver.history_since(log.started())).unwrap_or_default());
    incidents.sort();

    notes.extend(cleared);
    let (ended, mut blamed, warnings) =
        without_what_the_machine_denies(ended, blamed, warnings, machine::lacks_right);
    let is_reported = still_mounted.is_some();
    if let Some(violation) = still_mounted {
        match reported_by(&target, &label, &violation, ended.as_ref().err(), &blamed) {
            Some(other) => notes.push(format!("{}; {other} fails", violation.message)),
            None => blamed.push(violation),
        }
    }
    let in_the_way = if cx.may_leave() || is_reported { &[][..] } else { &leftovers };
    let (outcome, also) = judge(&planned, ended, blamed, &warnings, in_the_way, &rules, &mut notes);
    let entry = rules.known.entry(&label);
    let outcome = listed(outcome, entry);
    let also: Vec<Outcome> = also.into_iter().map(|one| listed(one, entry)).collect();
    let violations = std::iter::once(&outcome).chain(&also).filter_map(Outcome::violation);
    let own: Vec<&FaultKey> = violations.filter_map(|one| one.fault.as_deref()).collect();
    target.faults().keep_reported(&label, &own);
    let told = !matches!(outcome, Outcome::Passed | Outcome::SameFault(_) | Outcome::Skipped(_));
    let keep = told || rules.keep_calls || silence.is_some();
    let repeat = rules.repeat_command(&label, &outcome);
    let mut report = CheckReport {
        outcome,
        also,
        warnings,
        notes,
        tried,
        cut_short,
        duration: started.elapsed(),
        spent,
        calls: if keep { calls } else { Vec::new() },
        calls_dropped: if keep { calls_dropped } else { 0 },
        incidents,
        leftovers,
        left_behind: cx.left_behind(),
        began_with: None,
        repeat,
        planned,
    };
    report.began_with = fault::began_with(&report, &target.tally);
    let cx = (!(report.leftovers.is_empty() && report.left_behind.is_empty())).then_some(cx);
    Done { report, silence, on_purpose, cx }
}

/// Resolves once the signal is raised.
pub(crate) async fn raised(stop: &mut watch::Receiver<Halt>) {
    if stop.wait_for(|halt| *halt != Halt::None).await.is_err() {
        // Nobody is left who could raise it.
        std::future::pending::<()>().await;
    }
}

/// Why a check does not apply to the driver, by what was known before the run.
pub(crate) fn unmet(planned: &Planned, target: &Target) -> Option<String> {
    if let (Some(elsewhere), false) = (&target.config().elsewhere, planned.check.needs.is_empty()) {
        return Some(format!(
            "it calls the driver, but in this run only its cluster does ({})",
            elsewhere.place
        ));
    }
    planned.check.needs.iter().find_map(|need| need.unmet(target, planned.access))
}

/// What the body ends with, and what that is worth.
async fn judged(planned: &Planned, cx: &Cx, limit: Duration, rules: &Rules) -> CheckResult {
    let ended = body(planned, cx, limit).await;
    rules.preconditions.weigh(&planned.check, cx, ended).await
}

/// The body, with its deadline, and with a panic caught: that is a fault of the check.
pub(crate) async fn body(planned: &Planned, cx: &Cx, limit: Duration) -> CheckResult {
    let run = AssertUnwindSafe(planned.check.run(cx)).catch_unwind();
    match tokio::time::timeout(limit, run).await {
        Ok(Ok(ended)) => ended,
        Ok(Err(panic)) => Err(Stop::broken(format!("the check itself panicked: {}", panic_text(&*panic)))),
        Err(_) => Err(Stop::broken(format!("the check took longer than {} ms", limit.as_millis()))),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "no message".to_owned(),
    }
}

/// The check that fails where a mount stays, unless that is left to this one: another check that reports it, or this one if it fails for
/// something else, of which the mount may be a consequence.
fn reported_by(
    target: &Target,
    label: &str,
    violation: &Violation,
    ended: Option<&Stop>,
    blamed: &[Violation],
) -> Option<String> {
    let fails = |own: &Violation| own.requirement.is_none_or(Requirement::is_binding);
    if matches!(ended, Some(Stop::Violation(own)) if fails(own)) || blamed.iter().any(fails) {
        return Some(label.to_owned());
    }
    let by_rule = violation.requirement.and_then(|rule| target.faults().reported_by(rule));
    by_rule.or_else(|| target.faults().claim(violation.fault.as_deref()?, label).err())
}

/// What came of a check, and what else, the gravest first.
fn judge(
    planned: &Planned,
    ended: CheckResult,
    blamed: Vec<Violation>,
    warnings: &[Violation],
    leftovers: &[String],
    rules: &Rules,
    notes: &mut Vec<String>,
) -> (Outcome, Vec<Outcome>) {
    let by_level = |violation: Violation| {
        let rule = violation.requirement.or_else(|| planned.check.requirements.first().copied());
        let binds_from = rule.map_or(Profile::Csi, |rule| rule.binds_from());
        rules.strictness.weigh(violation, binds_from)
    };
    // What a check only remarks on, it cannot be sure of: no caller who relies on the rule makes it surer.
    let remarked = |violation: &Violation| rules.strictness.weigh(violation.clone(), Profile::Strict);
    let mut all: Vec<Outcome> = blamed.into_iter().map(by_level).collect();
    let ended = match ended {
        Err(Stop::Violation(violation)) => {
            all.push(by_level(*violation));
            Ok(())
        }
        other => other,
    };
    all.sort_by_key(Outcome::binds_from);
    match ended {
        // Nobody looks for what is left behind a check that was skipped, or interrupted.
        Err(Stop::Skip(reason) | Stop::Declined(_, reason)) if all.is_empty() => {
            let outcome = match leftovers.first() {
                Some(leftover) => Outcome::Broken(format!("{reason}; could not undo: {leftover}")),
                None => Outcome::Skipped(reason),
            };
            (outcome, Vec::new())
        }
        Err(Stop::Broken(reason) | Stop::Unanswered(reason)) if all.is_empty() => {
            (Outcome::Broken(reason), Vec::new())
        }
        ended => {
            if let Err(Stop::Broken(reason) | Stop::Unanswered(reason)) = ended {
                notes.push(format!("it did not finish: {reason}"));
            }
            all.extend(warnings.iter().map(remarked));
            let mut all = all.into_iter();
            let first = all.next().unwrap_or_else(|| match leftovers.first() {
                Some(leftover) => Outcome::Broken(format!("could not undo: {leftover}")),
                None => Outcome::Passed,
            });
            (first, all.collect())
        }
    }
}

/// Takes out every violation that shows only that this machine lacks a right. The check ends without a verdict then, unless something else
/// is wrong.
fn without_what_the_machine_denies(
    ended: CheckResult,
    mut blamed: Vec<Violation>,
    mut warnings: Vec<Violation>,
    lacks_right: impl Fn(&str) -> Option<&'static str>,
) -> (CheckResult, Vec<Violation>, Vec<Violation>) {
    let mut denied = None;
    let mut is_shown = |violation: &Violation| match lacks_right(&violation.actual) {
        Some(right) => {
            denied.get_or_insert_with(|| format!("{}: {}; {right}", violation.message, violation.actual));
            false
        }
        None => true,
    };
    blamed.retain(&mut is_shown);
    warnings.retain(&mut is_shown);
    let ended = match ended {
        Err(Stop::Violation(violation)) if !is_shown(&violation) => Ok(()),
        Err(Stop::Broken(reason)) => Err(Stop::Broken(match lacks_right(&reason) {
            Some(right) => format!("{reason}; {right}"),
            None => reason,
        })),
        other => other,
    };
    let ended = match (ended, denied) {
        (Ok(()), Some(reason)) => Err(Stop::Broken(reason)),
        (ended, _) => ended,
    };
    (ended, blamed, warnings)
}

/// A listed check has to fail, and one that is listed as flaky may.
fn listed(outcome: Outcome, entry: Option<&Entry>) -> Outcome {
    let Some(entry) = entry else { return outcome };
    let reason = entry.reason.clone();
    match outcome {
        // One list serves runs under every profile, so what only warns is known as well.
        Outcome::Failed(violation) | Outcome::Warned(violation) | Outcome::Flaky(Flaky { violation, .. }) => {
            Outcome::KnownFailure { violation, reason }
        }
        Outcome::Passed if !entry.is_flaky => Outcome::UnexpectedPass { reason },
        other => other,
    }
}

/// The violation of a check one of whose calls ended without a gRPC status: the driver died of it, or lives on and breaks
/// it off each time. Of several at the same time nobody knows which it was.
pub(crate) fn killed(done: &Done, alive: bool) -> Violation {
    let fatal = done.fatal_call();
    let mut calls = fatal.map_or_else(Vec::new, |call| under_way_with(call, &done.report.calls));
    let let_go = fatal.map_or_else(Vec::new, |call| given_up_before(call, &done.report.calls));
    let rpcs = methods(&calls);
    let mut call = match &rpcs[..] {
        [] => "a call".to_owned(),
        [one] => (*one).to_owned(),
        several => format!("one of {}, which were under way at the same time", several.join(", ")),
    };
    let others: Vec<&str> = methods(&let_go).into_iter().filter(|rpc| !rpcs.contains(rpc)).collect();
    if !others.is_empty() {
        let others = others.join(", ");
        call = format!("{call}, or one of the calls given up before it that may go on: {others}");
    }
    calls.extend(let_go);
    let message = match alive {
        true => format!("the driver lives on, but {call} ends without a gRPC status"),
        false => format!("the driver crashed on {call}"),
    };
    let told: Vec<String> = calls.into_iter().take(CALLS_TOLD_MAX).map(failure_report::call_line).collect();
    let violation = cut_off(message).actual(told.join("\n      "));
    if alive { violation } else { violation.damage(Damage::Crash) }
}

/// Which RPCs these are.
fn methods(calls: &[&CallRecord]) -> Vec<&'static str> {
    let mut rpcs: Vec<&str> = calls.iter().map(|call| call.rpc.method).collect();
    rpcs.sort_unstable();
    rpcs.dedup();
    rpcs
}

/// The calls about the same things that the check had given up before this one ended, the last one first: the driver may have died
/// of one of them.
fn given_up_before<'a>(fatal: &CallRecord, calls: &'a [CallRecord]) -> Vec<&'a CallRecord> {
    let end = fatal.sent_after + fatal.duration;
    let is_let_go = |call: &&CallRecord| {
        matches!(call.outcome, Answer::Unknown(NoAnswer::LetGo(_)))
            && call.sent_after < end
            && have_to_do(call, fatal)
    };
    calls.iter().rev().filter(is_let_go).collect()
}

/// This call, and the others that broke off and were sent before it ended. One that its caller gave up may go on in the driver.
fn under_way_with<'a>(fatal: &'a CallRecord, calls: &'a [CallRecord]) -> Vec<&'a CallRecord> {
    let end = fatal.sent_after + fatal.duration;
    let may_go_on = |call: &CallRecord| {
        use NoAnswer::{Broken, Severed, Timeout};
        matches!(call.outcome, Answer::Unknown(Broken(_) | Severed | Timeout(_)))
    };
    let others = calls.iter().filter(|call| !std::ptr::eq(*call, fatal));
    std::iter::once(fatal).chain(others.filter(|call| may_go_on(call) && call.sent_after < end)).collect()
}

/// The violation of checks that were under way when the driver died, none of which is known to have killed it.
pub(crate) fn killed_by_one_of(under_way: &[String]) -> Violation {
    let message = "the driver crashed while several calls were under way; none of them crashes it alone";
    cut_off(message.to_owned()).actual(under_way.join("; ")).damage(Damage::Crash)
}

fn cut_off(message: String) -> Violation {
    Violation::new(message)
        .of(&crate::spec::requirements::req::GEN_ERR_001)
        .expected("an answer to any request, and a driver that keeps serving")
}

#[cfg(test)]
mod tests {
    use csi_proto::{Call as _, v1};
    use prost::Message as _;

    use super::*;
    use crate::client::record::Message;

    fn call(sent_ms: u64, duration_ms: u64, outcome: Answer<Message>) -> CallRecord {
        CallRecord {
            rpc: v1::ProbeRequest::RPC,
            sent_after: Duration::from_millis(sent_ms),
            duration: Duration::from_millis(duration_ms),
            cleanup: false,
            node: 0,
            worker: 0,
            endpoint: None,
            request: Message::request(v1::ProbeRequest::RPC, Vec::new()),
            outcome,
        }
    }

    #[test]
    fn of_calls_at_the_same_time_none_alone_is_said_to_have_been_fatal() {
        let broke = || Answer::Unknown(NoAnswer::Broken("it broke".to_owned()));
        let late = || Answer::Unknown(NoAnswer::Timeout(Duration::ZERO));
        let calls = [
            call(0, 5, late()),
            call(1, 9, broke()),
            call(8, 2, broke()),
            call(10, 1, broke()),
            call(11, 1, broke()),
            call(12, 5, late()),
        ];
        let sent = |fatal: usize| -> Vec<u128> {
            under_way_with(&calls[fatal], &calls).iter().map(|call| call.sent_after.as_millis()).collect()
        };
        let named = |rpc, method: &str, sent_ms, outcome| CallRecord {
            rpc,
            request: Message::request(
                v1::NodeUnpublishVolumeRequest::RPC,
                v1::NodeUnpublishVolumeRequest { volume_id: method.to_owned(), ..Default::default() }
                    .encode_to_vec(),
            ),
            ..call(sent_ms, 1, outcome)
        };
        let let_go = || Answer::Unknown(NoAnswer::LetGo(Duration::from_millis(1)));
        let (publish, delete) = (v1::NodePublishVolumeRequest::RPC, v1::DeleteVolumeRequest::RPC);
        let given_up = [
            named(publish, "other", 0, let_go()),
            named(publish, "one", 1, let_go()),
            named(delete, "one", 3, broke()),
            named(publish, "one", 9, let_go()),
        ];
        let before: Vec<u128> =
            given_up_before(&given_up[2], &given_up).iter().map(|call| call.sent_after.as_millis()).collect();
        assert_eq!(before, [1], "of the same volume, and before its end");
        let why = "what was given up may go on, and those that found nobody there are not among them";
        assert_eq!(sent(1), [1, 0, 8], "{why}");
    }

    #[test]
    fn a_right_that_the_machine_lacks_is_no_violation() {
        let lacks = |answer: &str| answer.contains("EPERM").then_some("the machine lacks a right");
        let said = |actual: &str| Violation::new("it must grow, but failed").actual(actual);
        let judge = |ended: CheckResult, blamed: &[&str], warned: &[&str]| {
            let of = |all: &[&str]| all.iter().map(|actual| said(actual)).collect();
            let (ended, blamed, warnings) =
                without_what_the_machine_denies(ended, of(blamed), of(warned), lacks);
            (ended, blamed.len(), warnings.len())
        };
        for (ended, blamed, warned) in [
            (Err(Stop::from(said("INTERNAL EPERM"))), &[][..], &[][..]),
            (Ok(()), &["INTERNAL EPERM"][..], &[][..]),
            (Ok(()), &[][..], &["INTERNAL EPERM"][..]),
            (Err(Stop::broken("needs a staged volume: EPERM")), &[], &[]),
        ] {
            let (ended, blamed, warned) = judge(ended, blamed, warned);
            let Err(Stop::Broken(reason)) = ended else { panic!("{ended:?}") };
            assert!(reason.ends_with("EPERM; the machine lacks a right"), "{reason}");
            assert_eq!((blamed, warned), (0, 0));
        }
        let (ended, blamed, warned) = judge(Ok(()), &["INTERNAL EPERM", "OK"], &["NOT_FOUND"]);
        assert!(matches!(ended, Err(Stop::Broken(_))), "{ended:?}");
        assert_eq!((blamed, warned), (1, 1), "what else is wrong is still said");
        assert!(judge(Ok(()), &[], &[]).0.is_ok());
    }
}
