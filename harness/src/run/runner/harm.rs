//! Runs checks that may harm later checks. After each one, plain calls are made that the driver did before. If one
//! fails, the call that caused it is searched, and the driver is restarted for the checks that follow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Runner, STOP_GRACE};
use crate::checks::check::Planned;
use crate::client::answer::{Answer, NoAnswer};
use crate::client::record::CallRecord;
use crate::driver::{Away, Driver};
use crate::results::events::Event;
use crate::results::outcome::{CheckReport, Outcome, OutcomeKind};
use crate::run::plain_call::{Made, PlainCall, Probe};
use crate::run::run_check::{Rules, raised, run_check};
use crate::verdict::harm::{self, Culprit, Lasting, Lost};

/// Plain calls faster than `QUICK` are made after every check. Slower ones are made only after checks that could have
/// affected their objects; if they take longer than `CHEAP`, only once these checks have taken as long, or after
/// `HELD_MAX` of them.
const QUICK: Duration = Duration::from_millis(20);
const CHEAP: Duration = Duration::from_millis(250);
const HELD_MAX: usize = 8;
/// A plain call that fails is repeated for this time, because the driver may still work on a call that a check gave up.
const FAILS_FOR_GOOD: Duration = Duration::from_millis(1_500);
const FIRST_PAUSE: Duration = Duration::from_millis(25);
/// Restarts of the driver after it keeps putting off a plain call.
const RENEWED_MAX: usize = 8;
/// A check that has taken longer, or made more calls, is not run once more to find the call.
const TRIED_AGAIN_MAX: Duration = Duration::from_secs(60);
const CALLS_TRIED_AGAIN_MAX: usize = 500;
/// A call without an answer for this time is taken for one that will never get one.
const HANGS_AFTER: Duration = Duration::from_secs(2);
/// The time in which a driver has to stop that has left a call without an answer: most wait for their calls to end.
const BUSY_GRACE: Duration = Duration::from_secs(1);

/// Plain calls and reports while such checks run.
#[derive(Debug, Default)]
pub(super) struct Harm {
    has_begun: bool,
    /// The calls that show whether the driver still works; none where it never did them.
    plain: Vec<Watched>,
    /// Reports on checks after which a plain call is still to be made.
    held: Vec<CheckReport>,
    /// The number of restarts for which no check was to blame.
    renewed: usize,
    /// The checks that were blamed and their outcomes, by the failure that followed.
    blamed: BTreeMap<(&'static str, Option<i32>), (String, OutcomeKind)>,
}

/// A plain call, and its results so far.
#[derive(Debug)]
struct Watched {
    call: Arc<PlainCall>,
    /// The time that the last call took.
    took: Duration,
    /// The number of held reports whose checks had ended when the call was made last.
    seen: usize,
    /// True if it cannot be made any more, for a reason that proves nothing.
    is_mute: bool,
    /// The reason why it fails, if the driver cannot be restarted or a restart does not help.
    lasts: Option<Lasting>,
}

/// The time at which a plain call is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Now,
    Later,
    /// Nothing was done that may have harmed its objects.
    Never,
}

/// The result of a plain call after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fresh {
    Works,
    Fails,
    /// The run may not start it.
    Unavailable,
}

/// Returns true if the driver may be at work on a call without end.
fn hangs(call: &CallRecord) -> bool {
    matches!(&call.outcome, Answer::Unknown(NoAnswer::Timeout(after) | NoAnswer::Cancelled(after)) if *after >= HANGS_AFTER)
}

/// The result of repeating the checks that may have damaged the driver.
enum Tried {
    /// This check did it, by this call.
    Call(usize, Culprit),
    /// This check did it, by some of its calls.
    Check(usize, Lost),
    /// None of them did it alone.
    None,
    /// It is not known, since repeating the checks would take too long.
    Untried,
}

impl Runner<'_> {
    /// Runs checks that may harm those after them, one by one.
    pub(super) async fn run_harmful(&mut self, plan: Vec<Planned>) {
        if !plan.is_empty() && !self.harm.has_begun && !self.is_over() {
            self.begin_harm().await;
        }
        let keep_calls = std::mem::replace(&mut self.rules.keep_calls, true);
        for planned in plan {
            self.rules.preconditions.forget_what_works();
            let report = self.run_alone(planned).await;
            let report = self.confirmed(report).await;
            self.attribute_leaks_to(&report.label()).await;
            let hangs = report.calls.iter().any(hangs).then(|| report.label());
            self.harm.held.push(report);
            self.look_after(keep_calls, false).await;
            if let Some(label) = hangs {
                self.end_what_hangs(&label).await;
            }
        }
        self.look_after(keep_calls, true).await;
        self.rules.keep_calls = keep_calls;
    }

    /// Attributes to a check what is there after it and was not before, if no call has named it.
    async fn attribute_leaks_to(&mut self, label: &str) {
        if let Some(before) = &self.before
            && !self.dead
        {
            before.attribute_leaks_to(label, &self.inventory_session()).await;
        }
    }

    /// Restarts a driver that may still be at work on a call without an answer, which would slow down all later checks.
    async fn end_what_hangs(&mut self, label: &str) {
        let Some(driver) = self.target.driver().cloned().filter(|_| !self.is_over()) else { return };
        let why =
            format!("{label} left a call without an answer; the driver is restarted before the next check");
        self.dispatcher.emit(&Event::Remark(&why));
        if let Err(away) = self.restart(&driver, BUSY_GRACE).await {
            let label = label.to_owned();
            self.is_gone(&away, std::slice::from_ref(&label));
            self.ended_in = vec![label];
            self.dead = true;
        }
    }

    /// Restarts the driver. Earlier knowledge about its calls is discarded.
    async fn restart(&mut self, driver: &Driver, grace: Duration) -> Result<Duration, Away> {
        self.rules.preconditions.forget();
        self.harm.plain.iter_mut().for_each(|watched| watched.is_mute = false);
        // Only what is there afterwards matters, so an error is ignored.
        let _ = driver.stop(grace).await;
        let target = self.target.clone();
        self.with_news(target.bring_back()).await
    }

    /// Makes the plain calls for the first time. If one fails although its check has passed, an earlier check has
    /// damaged the driver.
    async fn begin_harm(&mut self) {
        self.harm.has_begun = true;
        for call in PlainCall::all(&self.rules.preconditions, &self.target, self.rules.seed) {
            if self.is_over() {
                return;
            }
            let call = Arc::new(call);
            let (made, took) = self.make_plain(&call).await;
            if made == Ok(Made::Not) {
                continue;
            }
            let mut watched = Watched { call: call.clone(), took, seen: 0, is_mute: false, lasts: None };
            if let Err(lost) = made {
                if !self.dispatcher.has_passed(&call.judge().id) {
                    continue;
                }
                let Some(lost) = self.fails_for_good(&call, lost).await else { continue };
                let reason = lost.reason.as_deref();
                let first = reason.and_then(|reason| self.target.tally.first_failure(lost.rpc, reason));
                let first = first.filter(|first| first.check != call.judge().id);
                let since =
                    first.map_or_else(|| "checks that ran at the same time".to_owned(), |one| one.check);
                let lasting = Lasting { lost, since };
                self.dispatcher.emit(&Event::Remark(&lasting.sentence()));
                watched.lasts = (self.start_afresh(&call).await != Fresh::Works).then_some(lasting);
            }
            self.harm.plain.push(watched);
        }
    }

    /// Makes the plain calls that are due, judges their answers, and releases the reports that waited for that.
    async fn look_after(&mut self, keep_calls: bool, is_last: bool) {
        let mut waits = false;
        for at in 0..self.harm.plain.len() {
            if self.is_over() {
                waits = false;
                break;
            }
            match self.due(at, is_last) {
                Due::Now => self.look_at(at).await,
                Due::Later => waits = true,
                Due::Never => {}
            }
        }
        if waits {
            return;
        }
        self.harm.plain.iter_mut().for_each(|watched| watched.seen = 0);
        for mut report in std::mem::take(&mut self.harm.held) {
            if !keep_calls && matches!(report.outcome, Outcome::Passed | Outcome::Skipped(_)) {
                report.calls.clear();
                report.calls_dropped = 0;
            }
            self.dispatcher.finish(report);
        }
    }

    fn due(&self, at: usize, is_last: bool) -> Due {
        let Watched { call, took, seen, is_mute, lasts } = &self.harm.plain[at];
        let unseen = &self.harm.held[*seen..];
        let may_harm = |made: &CallRecord| call.may_be_harmed_by(made.rpc);
        let is_quick = *took <= QUICK;
        if *is_mute
            || unseen.is_empty()
            || !(is_quick || unseen.iter().any(|one| one.calls.iter().any(may_harm)))
        {
            return Due::Never;
        }
        let failed = |made: &CallRecord| made.rpc == call.rpc() && !matches!(made.outcome, Answer::Ok(_));
        let is_in_doubt = || lasts.is_none() && unseen.iter().any(|one| one.calls.iter().any(failed));
        let is_cheap = || *took <= unseen.iter().map(|one| one.duration).sum::<Duration>().max(CHEAP);
        let is_due = is_quick || is_last || unseen.len() >= HELD_MAX || is_cheap() || is_in_doubt();
        if is_due { Due::Now } else { Due::Later }
    }

    async fn look_at(&mut self, at: usize) {
        let call = self.harm.plain[at].call.clone();
        let (made, took) = self.make_plain(&call).await;
        self.harm.plain[at].took = took;
        match (made, self.harm.plain[at].lasts.clone()) {
            (Ok(Made::Done), _) => self.harm.plain[at].lasts = None,
            (Ok(Made::Not), _) => {
                self.harm.plain[at].lasts = None;
                // Otherwise each later look would wait for it.
                self.harm.plain[at].is_mute = !self.renew(&call).await;
            }
            (Err(_), Some(lasting)) => self.harm.held.iter_mut().for_each(|report| lasting.excuse(report)),
            (Err(lost), None) => {
                if let Some(lost) = self.fails_for_good(&call, lost).await {
                    self.harm.plain[at].lasts = self.find_cause(&call, self.harm.plain[at].seen, lost).await;
                }
            }
        }
        self.harm.plain[at].seen = self.harm.held.len();
    }

    /// Restarts a driver that keeps putting off a plain call: resources that checks have used up may be there again.
    /// Returns true if the call is done now.
    async fn renew(&mut self, plain: &PlainCall) -> bool {
        let last = self.harm.held.last().map(CheckReport::label);
        if self.harm.renewed >= RENEWED_MAX || self.target.driver().is_none() || self.is_over() {
            return false;
        }
        self.harm.renewed += 1;
        let is_back = self.start_afresh(plain).await == Fresh::Works;
        if let Some(last) = last.filter(|_| is_back) {
            let rpc = plain.rpc();
            let remark = format!(
                "after {last}, a plain {rpc} failed; the driver was restarted, and {rpc} works again"
            );
            self.dispatcher.emit(&Event::Remark(&remark));
        }
        is_back
    }

    /// Makes it, and says how long that took.
    async fn make_plain(&mut self, plain: &PlainCall) -> (Result<Made, Lost>, Duration) {
        let begun = Instant::now();
        let mut stop = self.stop.clone();
        let made = async {
            tokio::select! {
                made = plain.make() => made,
                () = raised(&mut stop) => Ok(Made::Not),
            }
        };
        (self.with_news(made).await, begun.elapsed())
    }

    /// Returns the failure if the call still fails after a while.
    async fn fails_for_good(&mut self, plain: &PlainCall, mut lost: Lost) -> Option<Lost> {
        let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
        // A call without an answer has taken its time already.
        while lost.code.is_some() && begun.elapsed() + pause < FAILS_FOR_GOOD {
            tokio::time::sleep(pause).await;
            pause *= 2;
            lost = self.make_plain(plain).await.0.err()?;
        }
        Some(lost)
    }

    /// Ends the driver and starts it, if the run may.
    async fn start_afresh(&mut self, plain: &PlainCall) -> Fresh {
        let Some(driver) = self.target.driver().cloned() else { return Fresh::Unavailable };
        // The plain call that follows shows if the driver is back.
        let _ = self.restart(&driver, STOP_GRACE).await;
        if !self.target.is_alive().await {
            self.dead = true;
            return Fresh::Fails;
        }
        if self.make_plain(plain).await.0 == Ok(Made::Done) { Fresh::Works } else { Fresh::Fails }
    }

    /// Finds out which check has broken the driver, among those that ran since the plain call was done, blames it, and
    /// restores the driver as far as possible. Returns a lasting failure.
    async fn find_cause(&mut self, plain: &Arc<PlainCall>, from: usize, lost: Lost) -> Option<Lasting> {
        let suspect = from + harm::suspect(&self.harm.held[from..], &lost);
        let fault = (lost.rpc.method, lost.code.map(|code| code as i32));
        let first = self.harm.blamed.get(&fault).filter(|_| !self.options.report_each).cloned();
        let mut fresh = self.start_afresh(plain).await;
        if let Some((first, counts_as)) = first {
            lost.refer(&mut self.harm.held[suspect], first, counts_as);
            return self.recover(fresh, suspect, lost).await;
        }
        let after_check =
            |held: &[CheckReport], at: usize, lost: &Lost| lost.after_check(plain.judge(), &held[at]);
        let mut is_proven = false;
        let (at, violation) = match fresh {
            Fresh::Works => {
                let tried = self.try_again(plain, from, suspect).await;
                if !matches!(tried, Tried::Untried) {
                    fresh = self.start_afresh(plain).await;
                }
                is_proven = matches!(tried, Tried::Call(..) | Tried::Check(..));
                match tried {
                    Tried::Call(at, culprit) => (at, culprit.violation(plain.judge())),
                    Tried::Check(at, lost) => (at, after_check(&self.harm.held, at, &lost)),
                    Tried::Untried => (suspect, after_check(&self.harm.held, suspect, &lost)),
                    Tried::None => {
                        let violation = lost.once_after_check(plain.judge());
                        harm::blame(&mut self.harm.held[suspect], violation, false, &self.rules.judge);
                        return self.recover(fresh, suspect, lost).await;
                    }
                }
            }
            Fresh::Fails | Fresh::Unavailable => (suspect, after_check(&self.harm.held, suspect, &lost)),
        };
        // A call without an answer proves nothing by itself.
        let is_certain = is_proven || lost.code.is_some();
        let blamed = &mut self.harm.held[at];
        harm::blame(blamed, violation, is_certain, &self.rules.judge);
        self.harm.blamed.insert(fault, (blamed.label(), blamed.outcome.kind()));
        self.recover(fresh, at, lost).await
    }

    /// Continues after a check was blamed. The plain call fails for good, unless a restart has helped; in that case,
    /// the checks that ran in between run once more. Returns the lasting failure.
    async fn recover(&mut self, fresh: Fresh, at: usize, lost: Lost) -> Option<Lasting> {
        if fresh != Fresh::Works {
            return Some(Lasting { lost, since: self.harm.held[at].label() });
        }
        for later in at + 1..self.harm.held.len() {
            let report = &self.harm.held[later];
            if report.calls.iter().any(|call| lost.shows_in(call)) && !self.is_over() {
                let planned = report.planned.clone();
                self.dispatcher.summary.left_behind.extend(report.left_behind.iter().cloned());
                self.harm.held[later] = self.run_alone(planned).await;
            }
        }
        None
    }

    /// Repeats the checks that may have damaged the driver, the likeliest first, each after a restart and with a plain
    /// call after each of its calls.
    async fn try_again(&mut self, plain: &Arc<PlainCall>, from: usize, suspect: usize) -> Tried {
        let others = (from..self.harm.held.len()).filter(|at| *at != suspect);
        let mut tried = Tried::Untried;
        for at in std::iter::once(suspect).chain(others) {
            let report = &self.harm.held[at];
            let calls = report.calls.len() + report.calls_dropped;
            if report.duration > TRIED_AGAIN_MAX || calls > CALLS_TRIED_AGAIN_MAX || self.is_over() {
                continue;
            }
            let (planned, harmless) = (report.planned.clone(), harm::harmless(report, plain.rpc().method));
            if matches!(tried, Tried::None) && self.start_afresh(plain).await != Fresh::Works {
                return Tried::None;
            }
            tried = Tried::None;
            let probe = Probe::new(plain.clone(), harmless);
            let rules = Rules { probe: Some(probe.clone()), ..self.rules.clone() };
            let (target, stop) = (self.target.clone(), self.stop.clone());
            let done = self.with_news(run_check(target, planned, rules, stop)).await;
            self.dispatcher.remember_left_behind(&done.report);
            if let Some(found) = probe.found().await {
                return Tried::Call(at, found);
            }
            // The calls that undo the rest may have caused it.
            if let Err(lost) = self.make_plain(plain).await.0 {
                return Tried::Check(at, lost);
            }
        }
        tried
    }
}
