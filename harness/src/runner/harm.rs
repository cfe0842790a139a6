//! Checks that may harm those after them. After each one a plain call is made that the driver did before; where it fails, the
//! call is looked for after which it does, and the driver is started anew for the checks that follow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Runner, STOP_GRACE};
use crate::outcome::{CheckReport, Kind, Outcome, Planned, SameFault};
use crate::plain_call::{Found, Lost, PlainCall, Probe};
use crate::record::CallRecord;
use crate::reply::Answer;
use crate::run_check::{Rules, raised, run_check};
use crate::story;
use crate::verdict::Violation;

/// A plain call that takes longer is made only where there is a reason to, or after so many checks.
const SLOW: Duration = Duration::from_secs(1);
const HELD_MAX: usize = 8;
/// A check that has taken longer is not run once more to find the call.
const TRIED_AGAIN_MAX: Duration = Duration::from_secs(60);
/// Calls shown at the most of those one of which it was.
const SUSPECTS_SHOWN_MAX: usize = 4;

/// What is known of the driver while such checks run.
#[derive(Debug, Default)]
pub(super) struct Harm {
    has_begun: bool,
    /// The call that shows whether the driver still works; none where it never did.
    plain: Option<Arc<PlainCall>>,
    is_slow: bool,
    /// Reports on checks after which no plain call was made yet.
    held: Vec<CheckReport>,
    /// Why the plain call fails, where the driver cannot be started anew or that does not help.
    lasts: Option<Lasting>,
    /// The checks that were blamed and what came of them, by what failed after them.
    blamed: BTreeMap<(&'static str, Option<i32>), (String, Kind)>,
}

/// A plain call that fails for good.
#[derive(Debug)]
struct Lasting {
    lost: Lost,
    /// Since when, in words.
    since: String,
}

/// Whether a driver that was started anew does the plain call again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fresh {
    Works,
    Fails,
    /// The run may not start it.
    Unavailable,
}

impl Runner<'_> {
    /// Runs checks that may harm those after them, one by one.
    pub(super) async fn run_harmful(&mut self, plan: Vec<Planned>) {
        if !plan.is_empty() && !self.harm.has_begun && !self.is_over() {
            self.begin_harm().await;
        }
        let keep_calls = std::mem::replace(&mut self.rules.keep_calls, true);
        for planned in plan {
            self.rules.premises.forget_what_works();
            let report = self.run_alone(planned).await;
            self.harm.held.push(report);
            self.look_after(keep_calls, false).await;
        }
        self.look_after(keep_calls, true).await;
        self.rules.keep_calls = keep_calls;
    }

    /// Makes the plain call for the first time. Where it fails although its check has passed, something that ran before has
    /// spoilt the driver.
    async fn begin_harm(&mut self) {
        self.harm.has_begun = true;
        let Some(plain) = PlainCall::of(&self.rules.premises, &self.target, self.rules.seed) else { return };
        let plain = Arc::new(plain);
        let Err(lost) = self.make_plain(&plain).await else {
            self.harm.plain = Some(plain);
            return;
        };
        if !self.passed.contains(plain.judge().id) {
            return;
        }
        let since = "the checks that ran before those that may harm a driver".to_owned();
        let remark = format!("a plain {} does not work any more since {since}: {}", lost.rpc, lost.answer);
        self.emit(&super::Event::Remark(&remark));
        if self.start_afresh(&plain).await != Fresh::Works {
            self.harm.lasts = Some(Lasting { lost, since });
        }
        self.harm.plain = Some(plain);
    }

    /// Makes the plain call if it is time to, judges what comes of it, and tells the reports that waited for that.
    async fn look_after(&mut self, keep_calls: bool, is_last: bool) {
        if let Some(plain) = self.harm.plain.clone()
            && !self.harm.held.is_empty()
            && !self.is_over()
        {
            if self.harm.is_slow && !is_last && self.harm.held.len() < HELD_MAX && !self.is_in_doubt(&plain) {
                return;
            }
            match (self.make_plain(&plain).await, self.harm.lasts.is_some()) {
                (Ok(()), false) => {}
                (Ok(()), true) => self.harm.lasts = None,
                (Err(_), true) => self.excuse(),
                (Err(lost), false) => self.spoilt(&plain, lost).await,
            }
        }
        for mut report in std::mem::take(&mut self.harm.held) {
            if !keep_calls && matches!(report.outcome, Outcome::Passed | Outcome::Skipped(_)) {
                report.calls.clear();
                report.calls_dropped = 0;
            }
            self.finish(report);
        }
    }

    async fn make_plain(&mut self, plain: &PlainCall) -> Result<(), Lost> {
        let begun = Instant::now();
        let mut stop = self.stop.clone();
        let made = async {
            tokio::select! {
                made = plain.make() => made,
                () = raised(&mut stop) => Ok(()),
            }
        };
        let made = self.with_news(made).await;
        self.harm.is_slow |= begun.elapsed() > SLOW;
        made
    }

    /// Whether a call of a check that waits has failed that may be a plain one.
    fn is_in_doubt(&self, plain: &PlainCall) -> bool {
        let failed = |call: &CallRecord| {
            plain.judge().plain.contains(&call.rpc.method) && !matches!(call.outcome, Answer::Ok(_))
        };
        self.harm.held.iter().any(|report| report.calls.iter().any(failed))
    }

    /// Ends the driver and starts it, if the run may.
    async fn start_afresh(&mut self, plain: &PlainCall) -> Fresh {
        let Some(driver) = self.target.driver().cloned() else { return Fresh::Unavailable };
        self.rules.premises.forget();
        // What matters is whether it is there afterwards.
        let _ = driver.stop(STOP_GRACE).await;
        let _ = self.target.bring_back().await;
        if !self.target.is_alive().await {
            self.dead = true;
            return Fresh::Fails;
        }
        if self.make_plain(plain).await.is_ok() { Fresh::Works } else { Fresh::Fails }
    }

    /// Finds out which check has spoilt the driver, blames it, and has the driver back as it was, as far as that is possible.
    async fn spoilt(&mut self, plain: &Arc<PlainCall>, lost: Lost) {
        let suspect = suspect(&self.harm.held, &lost);
        let fault = (lost.rpc.method, lost.code.map(|code| code as i32));
        let first = self.harm.blamed.get(&fault).filter(|_| !self.options.tell_each).cloned();
        let fresh = self.start_afresh(plain).await;
        let (at, violation) = match (first, fresh) {
            (Some((first, counts_as)), _) => {
                self.fold(suspect, first, counts_as, &lost);
                return self.lasts(fresh, suspect, lost);
            }
            (None, Fresh::Works) => match self.try_again(plain, suspect).await {
                Some((at, found)) => (at, self.proven(plain, &found)),
                None => return self.doubt(suspect, plain, &lost),
            },
            (None, Fresh::Fails | Fresh::Unavailable) => (suspect, self.seen(plain, suspect, &lost)),
        };
        let is_proven = fresh == Fresh::Works;
        let fresh = if is_proven { self.start_afresh(plain).await } else { fresh };
        // That a call had no answer proves nothing by itself.
        self.blame(at, violation, is_proven || lost.code.is_some());
        let blamed = &self.harm.held[at];
        self.harm.blamed.insert(fault, (blamed.label(), blamed.outcome.kind()));
        self.lasts(fresh, at, lost);
    }

    /// Notes that the plain call fails for good, unless the driver was started anew and does it again.
    fn lasts(&mut self, fresh: Fresh, at: usize, lost: Lost) {
        if fresh != Fresh::Works {
            let since = self.harm.held[at].label();
            self.harm.lasts = Some(Lasting { lost, since });
        }
    }

    /// Runs those that may have spoilt the driver once more, the likeliest first, each in a fresh start, with a look after each call.
    async fn try_again(&mut self, plain: &Arc<PlainCall>, suspect: usize) -> Option<(usize, Found)> {
        let others = (0..self.harm.held.len()).filter(|at| *at != suspect);
        for (number, at) in std::iter::once(suspect).chain(others).enumerate() {
            let report = &self.harm.held[at];
            if report.duration > TRIED_AGAIN_MAX || self.is_over() {
                continue;
            }
            let (planned, harmless) = (report.planned.clone(), harmless(report, plain.judge().plain));
            if number > 0 && self.start_afresh(plain).await != Fresh::Works {
                return None;
            }
            let probe = Probe::new(plain.clone(), harmless);
            let rules = Rules { probe: Some(probe.clone()), ..self.rules.clone() };
            let (target, stop) = (self.target.clone(), self.stop.clone());
            let done = self.with_news(run_check(target, planned, rules, stop)).await;
            self.remember_left_behind(&done.report);
            if let Some(found) = probe.found().await {
                return Some((at, found));
            }
            if let Err(lost) = self.make_plain(plain).await {
                let last = done.report.calls.iter().next_back();
                return last.map(|call| (at, Found { line: story::call_line(call), rpc: call.rpc, lost }));
            }
        }
        None
    }

    /// What is wrong where the call is known.
    fn proven(&self, plain: &PlainCall, found: &Found) -> Violation {
        let told = ["the call, in a fresh start", &found.line, "the plain call after it", &found.lost.line];
        let message =
            format!("after {}, a plain {} fails, which worked before it", found.rpc, found.lost.rpc);
        violation(plain, message, &found.lost).told(told.map(str::to_owned).into())
    }

    /// What is wrong where it is known only what the check has sent.
    fn seen(&self, plain: &PlainCall, at: usize, lost: &Lost) -> Violation {
        let calls = suspects(&self.harm.held[at], lost);
        let mut told = vec!["one of these calls, or several".to_owned()];
        told.extend(calls.into_iter().take(SUSPECTS_SHOWN_MAX).map(story::call_line));
        told.extend(["the plain call after the check".to_owned(), lost.line.clone()]);
        let message = format!("after this check, a plain {} fails, which worked before it", lost.rpc);
        violation(plain, message, lost).told(told)
    }

    /// Blames a check that waits to be told, unless it has something worse to say.
    fn blame(&mut self, at: usize, violation: Violation, is_certain: bool) {
        let mut report = self.harm.held.remove(at);
        let binds = self.rules.strict || violation.requirement.is_none_or(|rule| rule.is_binding());
        match &report.outcome {
            Outcome::Failed(_) | Outcome::KnownFailure { .. } => {
                report.notes.push(format!("{}: {}", violation.message, violation.actual));
            }
            other => {
                report.warnings.extend(other.violation().cloned());
                match is_certain && binds {
                    true => self.accuse_of(&mut report, violation),
                    false => report.outcome = Outcome::Warned(violation),
                }
            }
        }
        self.harm.held.insert(at, report);
    }

    /// Tells what was seen of a check that does not show it again.
    fn doubt(&mut self, at: usize, plain: &PlainCall, lost: &Lost) {
        let message = format!(
            "after this check, a plain {} failed, which worked before it; the driver was started anew and does it again, and \
             the check alone does not make it fail",
            lost.rpc
        );
        self.blame(at, violation(plain, message, lost), false);
    }

    /// Has a check point to the one that is blamed for the same.
    fn fold(&mut self, at: usize, first: String, counts_as: Kind, lost: &Lost) {
        let message = format!("after it, a plain {} fails", lost.rpc);
        let same = SameFault { first, message, counts_as, deviates: counts_as != Kind::Warned };
        let report = &mut self.harm.held[at];
        match &report.outcome {
            Outcome::Passed | Outcome::Skipped(_) | Outcome::Broken(_) => {
                report.outcome = Outcome::SameFault(same);
                report.calls.clear();
            }
            _ => report.notes.push(same.told()),
        }
    }

    /// Leaves those without a verdict whose calls failed as the plain call does.
    fn excuse(&mut self) {
        let Some(Lasting { lost, since }) = &self.harm.lasts else { return };
        for report in &mut self.harm.held {
            let is_own = matches!(report.outcome, Outcome::Failed(_) | Outcome::KnownFailure { .. });
            if !is_own && report.calls.iter().any(|call| lost.shows_in(call)) {
                let why =
                    format!("a plain {} does not work any more since {since}: {}", lost.rpc, lost.answer);
                report.warnings.extend(report.outcome.violation().cloned());
                report.outcome = Outcome::Broken(why);
            }
        }
    }
}

/// That a plain call fails breaks the rule that its check judges first.
fn violation(plain: &PlainCall, message: String, lost: &Lost) -> Violation {
    let violation = Violation::new(message)
        .expected(format!("a {} like any other is done, whatever was asked before it", lost.rpc))
        .actual(&lost.answer);
    plain.judge().requirements.first().copied().map_or(violation.clone(), |rule| violation.of(rule))
}

/// Which of the checks it is likeliest to be: the first one with a call that failed in the same way, unless that was its first
/// such call; then the one before.
fn suspect(held: &[CheckReport], lost: &Lost) -> usize {
    let shows = |report: &CheckReport| report.calls.iter().any(|call| lost.shows_in(call));
    match held.iter().position(shows) {
        Some(at) if at > 0 && last_done(&held[at].calls, &[lost.rpc.method]).is_none() => at - 1,
        Some(at) => at,
        None => held.len().saturating_sub(1),
    }
}

/// The last call of one of the RPCs that was done.
fn last_done(calls: &[CallRecord], methods: &[&str]) -> Option<usize> {
    let is_done = |call: &CallRecord| {
        !call.cleanup && methods.contains(&call.rpc.method) && matches!(call.outcome, Answer::Ok(_))
    };
    calls.iter().rposition(is_done)
}

/// How many of the first calls of the check were harmless: the same call was done after them.
fn harmless(report: &CheckReport, methods: &[&str]) -> u64 {
    match last_done(&report.calls, methods) {
        Some(at) if report.calls_dropped == 0 => at as u64,
        _ => 0,
    }
}

/// The calls of which it has to be one: those from the last one that was done to the first one that failed in the same way.
fn suspects<'a>(report: &'a CheckReport, lost: &Lost) -> Vec<&'a CallRecord> {
    let from = last_done(&report.calls, &[lost.rpc.method]).unwrap_or_default();
    let after = &report.calls[from..];
    let to = after.iter().skip(1).position(|call| lost.shows_in(call)).map_or(after.len(), |at| at + 2);
    after[..to].iter().filter(|call| !call.cleanup).collect()
}
