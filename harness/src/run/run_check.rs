//! Runs one check from start to end: needs, body, undoing, verdict.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_proto::Service;
use futures_util::FutureExt as _;
use tokio::sync::watch;

use crate::checks::check::Planned;
use crate::client::record::{CallLog, Recorded, Silence};
use crate::client::response_rules::SharedIds;
use crate::client::session::{AfterCall, Session};
use crate::client::spent::TimeSpent;
use crate::client::target::Target;
use crate::driver::Driver;
use crate::lifecycle::cx::Cx;
use crate::lifecycle::ledger::UNDOING;
use crate::resources::machine;
use crate::results::fault;
use crate::results::outcome::{self, CheckReport, Halt, Outcome};
use crate::spec::need::Need;
use crate::spec::verdict::{CheckResult, Stop};
use crate::verdict::alone::last_rejection;
use crate::verdict::precondition::Preconditions;
use crate::verdict::{Evidence, Judge};

/// Makes the command that runs one check alone, from its label, and the fault that it is to meet, if there is one.
pub type RepeatCommand = dyn Fn(&str, Option<&str>) -> String + Send + Sync;

/// Settings that all checks of a run share.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) seed: u64,
    pub(crate) keep_calls: bool,
    pub(crate) judge: Judge,
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
        let others = others.iter().map(String::as_str).filter(|other| *other != label);
        let labels: Vec<&str> = others.chain([label]).collect();
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
            spent: TimeSpent::default(),
            calls: Vec::new(),
            calls_dropped: 0,
            incidents: Vec::new(),
            leftovers: Vec::new(),
            left_behind: Vec::new(),
            began_with: None,
            shared_ids: SharedIds::default(),
        }
    }
}

/// A finished check, and how the driver left calls unanswered, if it did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) report: CheckReport,
    pub(crate) silence: Option<Silence>,
    /// True if the check has ended the driver on purpose, so that this is no crash.
    pub(crate) on_purpose: bool,
    /// The context of the check, if it left something that can be undone once the driver is back.
    pub(crate) cx: Option<Cx>,
}

impl Done {
    /// The result of a check that the harness could not run to its end.
    pub(crate) fn broken(planned: Planned, why: &str, rules: &Rules) -> Done {
        let outcome = Outcome::Broken(format!("the harness itself failed: {why}"));
        let report = CheckReport::without_calls(planned, outcome, rules);
        Done { report, silence: None, on_purpose: false, cx: None }
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

    let ended = match (undecided(&planned, &target), unmet(&planned, &target)) {
        (Some(reason), _) => Err(Stop::Broken(reason)),
        (None, Some(reason)) => Err(Stop::Skip(reason)),
        (None, None) => tokio::select! {
            ended = judged(&planned, &cx, check_limit, &rules) => ended,
            () = raised(&mut stop) => Err(Stop::skip(outcome::INTERRUPTED)),
        },
    };
    let on_purpose = target.driver().map(Driver::ends) != ends;
    if on_purpose && target.bring_back().await.is_ok() {
        // Calls that its end has left without an answer say nothing.
        log.forget_silence();
    }
    cx.stage(UNDOING, 0, None);
    let leftovers = cx.finish().await;
    let still_mounted = match &*leftovers {
        [] => None,
        _ => cx.still_mounted().await,
    };
    cx.release_leases().await;
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

    // A machine may have thousands of these devices, and only calls to a node change one.
    if calls.iter().any(|call| call.rpc.service == Service::Node)
        && let Some(before) = target.read_only_loops.get()
    {
        notes.extend(machine::clear_read_only_loops(before));
    }
    let keeps_from_passing = !cx.tolerates_leftovers() && still_mounted.is_none();
    let leftover = leftovers.first().filter(|_| keeps_from_passing).cloned();
    let mut evidence = Evidence { ended, blamed, warnings, notes, still_mounted, leftover };
    let (outcome, also) = rules.judge.judge(&planned, &mut evidence, target.faults());
    let Evidence { warnings, notes, .. } = evidence;
    let is_explained = !matches!(outcome, Outcome::Passed | Outcome::SameFault(_) | Outcome::Skipped(_));
    let may_be_chance = matches!(outcome, Outcome::Skipped(_)) && last_rejection(&calls).is_some();
    let keep = is_explained || rules.keep_calls || silence.is_some() || may_be_chance;
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
        shared_ids: target.response_rules.take_shared_ids(&label),
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
        // The sender is gone, so the signal never comes.
        std::future::pending::<()>().await;
    }
}

/// The reason why it is unknown whether a check applies to the driver: a service did not report its capabilities.
fn undecided(planned: &Planned, target: &Target) -> Option<String> {
    let decides = |need: &&Need| !matches!(need, Need::Serves(service) if target.serves(*service));
    let services = planned.check.needs.iter().filter(decides).flat_map(Need::services);
    services.into_iter().find_map(|service| target.unreported(service)).map(str::to_owned)
}

/// The reason why a check does not apply to the driver, by facts that were known before the run.
pub(crate) fn unmet(planned: &Planned, target: &Target) -> Option<String> {
    if let (Some(elsewhere), false) = (&target.config().elsewhere, planned.check.needs.is_empty()) {
        return Some(format!(
            "it calls the driver, but in this run only its cluster does ({})",
            elsewhere.place
        ));
    }
    planned.check.needs.iter().find_map(|need| need.unmet(target, planned.access))
}

/// Runs the body, and weighs a refusal on which its end rests.
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
