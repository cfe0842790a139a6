//! One check from start to end: needs, body, undoing, verdict.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use tokio::sync::watch;

use crate::cx::{Cx, Session};
use crate::driver::Driver;
use crate::known::KnownFailing;
use crate::outcome::{CheckReport, Halt, Outcome, Planned};
use crate::record::{CallLog, Silence, Told};
use crate::story;
use crate::target::Target;
use crate::verdict::{CheckResult, Stop, Violation};

/// What is the same for all checks of a run.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) seed: u64,
    pub(crate) strict: bool,
    pub(crate) keep_calls: bool,
    pub(crate) known: Arc<KnownFailing>,
    pub(crate) repeat: Arc<dyn Fn(&str) -> String + Send + Sync>,
}

impl Rules {
    /// The command that shows the outcome again.
    fn repeat_command(&self, label: &str, outcome: &Outcome) -> String {
        let others = outcome.violation().map_or(&[][..], |violation| &violation.along_with);
        let labels: Vec<&str> = others.iter().map(String::as_str).chain([label]).collect();
        (self.repeat)(&labels.join(","))
    }
}

impl CheckReport {
    /// The report on a check that sent no call.
    pub(crate) fn without_calls(planned: Planned, outcome: Outcome, rules: &Rules) -> CheckReport {
        CheckReport {
            repeat: rules.repeat_command(&planned.label(), &outcome),
            planned,
            outcome,
            warnings: Vec::new(),
            notes: Vec::new(),
            duration: Duration::ZERO,
            calls: Vec::new(),
            calls_dropped: 0,
            leftovers: Vec::new(),
        }
    }
}

/// A finished check, and how the driver left calls unanswered, if it did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) report: CheckReport,
    pub(crate) silence: Option<Silence>,
    /// Whether the call that got no answer was one that it only builds on, so that another check has to report it.
    pub(crate) unfounded: bool,
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
        let why = format!("the harness itself panicked: {}", panic_text(&*panic));
        let report = CheckReport::without_calls(planned, Outcome::Broken(why), &rules);
        Done { report, silence: None, unfounded: true }
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
    let cx = Cx::new(session, &planned, rules.seed);
    let ends = target.driver().map(Driver::ends);

    let ended = match unmet(&planned, &target) {
        Some(reason) => Err(Stop::Skip(reason)),
        None => tokio::select! {
            ended = body(&planned, &cx, check_limit) => ended,
            () = raised(&mut stop) => Err(Stop::skip("interrupted")),
        },
    };
    let mut silence = log.silence();
    let mut unfounded = !matches!(ended, Err(Stop::Unanswered(_)));
    if target.driver().map(Driver::ends) != ends {
        // The driver was ended on purpose, so calls without an answer say nothing, unless it stays away now.
        let back = target.bring_back().await.is_some();
        silence = (!back).then_some(Silence::TimedOut);
        unfounded |= !back;
    }

    let leftovers = cx.finish().await;
    let Told { calls, calls_dropped, warnings, notes } = log.take();

    let outcome = judge(&planned, ended, &warnings, &leftovers, &rules);
    let outcome = listed(outcome, rules.known.reason(&label));
    let told = !matches!(outcome, Outcome::Passed | Outcome::Skipped(_));
    let keep = told || rules.keep_calls;
    let repeat = rules.repeat_command(&label, &outcome);
    let report = CheckReport {
        outcome,
        warnings,
        notes,
        duration: started.elapsed(),
        calls: if keep { calls } else { Vec::new() },
        calls_dropped: if keep { calls_dropped } else { 0 },
        leftovers,
        repeat,
        planned,
    };
    Done { report, silence, unfounded }
}

/// Resolves once the signal is raised.
pub(crate) async fn raised(stop: &mut watch::Receiver<Halt>) {
    if stop.wait_for(|halt| *halt != Halt::None).await.is_err() {
        // Nobody is left who could raise it.
        std::future::pending::<()>().await;
    }
}

fn unmet(planned: &Planned, target: &Target) -> Option<String> {
    planned.check.needs.iter().find_map(|need| need.unmet(target, planned.access))
}

/// The body, with its deadline, and with a panic caught: that is a fault of the check.
async fn body(planned: &Planned, cx: &Cx, limit: Duration) -> CheckResult {
    let run = AssertUnwindSafe((planned.check.body)(cx)).catch_unwind();
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

fn judge(
    planned: &Planned,
    ended: CheckResult,
    warnings: &[Violation],
    leftovers: &[String],
    rules: &Rules,
) -> Outcome {
    let by_level = |violation: Violation| {
        let rule = violation.requirement.or_else(|| planned.check.requirements.first().copied());
        if rules.strict || rule.is_none_or(|rule| rule.is_binding()) {
            Outcome::Failed(violation)
        } else {
            Outcome::Warned(violation)
        }
    };
    match ended {
        Err(Stop::Violation(violation)) => by_level(*violation),
        Err(Stop::Skip(reason)) => Outcome::Skipped(reason),
        Err(Stop::Broken(reason) | Stop::Unanswered(reason)) => Outcome::Broken(reason),
        Ok(()) => match warnings.first() {
            Some(warning) if rules.strict => Outcome::Failed(warning.clone()),
            Some(warning) => Outcome::Warned(warning.clone()),
            None => match leftovers.first() {
                Some(leftover) => Outcome::Broken(format!("could not undo: {leftover}")),
                None => Outcome::Passed,
            },
        },
    }
}

/// A listed check has to fail.
fn listed(outcome: Outcome, reason: Option<&str>) -> Outcome {
    let Some(reason) = reason.map(str::to_owned) else { return outcome };
    match outcome {
        // One list serves runs with and without --strict, so what only warns is known as well.
        Outcome::Failed(violation) | Outcome::Warned(violation) => {
            Outcome::KnownFailure { violation, reason }
        }
        Outcome::Passed => Outcome::UnexpectedPass { reason },
        other => other,
    }
}

/// The violation of a check whose last call ended without a gRPC status: the driver died of it, or lives on and breaks
/// it off each time.
pub(crate) fn killed(report: &CheckReport, alive: bool, printed: Vec<String>) -> Violation {
    let last = report.calls.iter().rev().find(|call| !call.cleanup);
    let call = last.map_or_else(|| "a call".to_owned(), |call| call.rpc.to_string());
    let message = match alive {
        true => format!("the driver lives on, but {call} ends without a gRPC status"),
        false => format!("the driver did not survive {call}"),
    };
    Violation::new(message)
        .of(&crate::requirements::req::GEN_ERR_001)
        .expected("an answer, whatever the request, and a driver that goes on serving")
        .actual(last.map_or_else(String::new, story::call_line))
        .printed(printed)
}
