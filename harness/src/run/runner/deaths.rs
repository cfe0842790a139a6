//! Deaths of the driver: which check killed it, and how the run gets it back.

use std::collections::VecDeque;

use super::executor::Executor;
use super::{CRASHES_MAX, Runner};
use crate::checks::check::Check;
use crate::checks::check::Planned;
use crate::client::record::CallLog;
use crate::driver::{Away, Driver};
use crate::results::events::Event;
use crate::results::outcome::{CheckReport, Crash, Halt, Outcome};
use crate::run::run_check::Done;
use crate::spec::verdict::Violation;
use crate::text::shorten::shortened;
use crate::verdict::crash;

impl Runner<'_> {
    /// Lets the other running checks end, brings the driver back, and finds out which of the checks that had a call
    /// without an answer kills it, by running them again one by one. If the driver stays away, one of these checks has
    /// to report it.
    pub(super) async fn driver_died(
        &mut self,
        first: Done,
        running: &mut Executor,
        waiting: &mut VecDeque<Planned>,
    ) {
        let mut involved = vec![first];
        while let Some(other) = running.next().await {
            self.dispatcher.emit(&Event::CheckEnded(&other.report.planned));
            if other.silence.is_some() { involved.push(other) } else { self.dispatcher.finish(other.report) }
        }
        if let [alone] = &mut involved[..]
            && self.options.jobs <= 1
        {
            self.accuse(alone, false);
            self.crash(&mut involved).await;
            return involved.into_iter().for_each(|done| self.dispatcher.finish(done.report));
        }
        let under_way = self.crash(&mut involved).await;
        if self.dead {
            // Calls that came after its death met a closed socket, and ended at once.
            let waited = |done: &&mut Done| crash::fatal_call(&done.report.calls).map(|call| call.duration);
            match &mut involved[..] {
                [alone] => self.accuse(alone, false),
                several => {
                    if let Some(one) = several.iter_mut().max_by_key(waited) {
                        self.rules.judge.accuse(&mut one.report, crash::killed_by_one_of(&under_way, false));
                    }
                }
            }
            return involved.into_iter().for_each(|done| self.dispatcher.finish(done.report));
        }
        self.judges_first(&involved, waiting).await;
        involved.sort_by_key(|done| !self.judges_its_fatal_call(done));
        let crashes = self.dispatcher.summary.crashes.len();
        let mut reports = Vec::new();
        for done in involved {
            self.dispatcher.remember_left_behind(&done.report);
            reports.push(self.run_alone(done.report.planned).await);
        }
        // A check that was stopped has not shown that it does not crash the driver.
        let was_stopped = *self.stop.borrow() != Halt::None;
        if self.dispatcher.summary.crashes.len() == crashes
            && !reports.iter().any(|report| matches!(report.outcome, Outcome::Failed(_)))
            && let Some(report) = reports.first_mut()
        {
            self.rules.judge.accuse(report, crash::killed_by_one_of(&under_way, !was_stopped));
        }
        reports.into_iter().for_each(|report| self.dispatcher.finish(report));
    }

    /// If the driver has died of a call that was made before the first check, the check that judges the plain form of this call reports it,
    /// if it is planned, and leaves the plan.
    pub(super) async fn look_for_death(&mut self, log: &CallLog, plan: &mut Vec<Planned>) {
        let silence = log.silence();
        if silence.is_none() || self.target.is_alive().await {
            return;
        }
        let calls = log.take().calls;
        let Some(rpc) = crash::fatal_call(&calls).map(|call| call.rpc) else { return };
        let judge = self.rules.preconditions.judge_of(rpc);
        let at = plan.iter().position(|planned| judge.is_some_and(|judge| planned.check.id == judge.id));
        let Some(at) = at else {
            return self
                .crashed(vec![format!("the preparation of the run: {}", rpc.method)], false, &mut [])
                .await;
        };
        let outcome = Outcome::Broken("the driver died before the first check".to_owned());
        let report =
            CheckReport { calls, ..CheckReport::without_calls(plan.remove(at), outcome, &self.rules) };
        let mut done = Done { report, silence, on_purpose: false, cx: None };
        self.accuse(&mut done, false);
        self.crash(std::slice::from_mut(&mut done)).await;
        self.dispatcher.finish(done.report);
    }

    /// First runs the waiting checks that judge the plain form of the calls under way: if the driver does not survive
    /// such a call, only that check reports it.
    pub(super) async fn judges_first(&mut self, involved: &[Done], waiting: &mut VecDeque<Planned>) {
        for done in involved {
            let judge = crash::fatal_call(&done.report.calls)
                .and_then(|call| self.rules.preconditions.judge_of(call.rpc));
            let at =
                waiting.iter().position(|planned| judge.is_some_and(|judge| planned.check.id == judge.id));
            if let Some(planned) = at.and_then(|at| waiting.remove(at)) {
                let report = self.run_alone(planned).await;
                self.dispatcher.finish(report);
            }
        }
    }

    pub(super) fn judges_its_fatal_call(&self, done: &Done) -> bool {
        let judge = crash::fatal_call(&done.report.calls)
            .and_then(|call| self.rules.preconditions.judge_of(call.rpc));
        judge.is_some_and(|judge| judge.id == done.report.planned.check.id)
    }

    /// Makes the call of the check that ended with no gRPC status, alone and reproducibly, a violation.
    pub(super) fn accuse(&self, done: &mut Done, alive: bool) {
        if done.on_purpose {
            return;
        }
        let printed = if alive { Vec::new() } else { self.target.last_lines() };
        let fault = crash::panic_at_one_place(&printed).map(Box::new);
        let violation = Violation { fault, ..crash::killed(&done.report.calls, alive).printed(printed) };
        if let Some(call) = crash::fatal_call(&done.report.calls).filter(|_| !alive)
            && let Some(judge) = self.rules.preconditions.judge_of(call.rpc)
            && judge.id == done.report.planned.check.id
        {
            self.target.is_killed_by(call.rpc, &judge.id);
        }
        self.rules.judge.accuse(&mut done.report, violation);
    }

    /// Notes a death of the driver, tries to have it back, and undoes what the checks could not. Returns what was under way.
    pub(super) async fn crash(&mut self, involved: &mut [Done]) -> Vec<String> {
        let asked = |done: &Done| {
            let rpc = crash::fatal_call(&done.report.calls).map_or("a call", |call| call.rpc.method);
            format!("{}: {rpc}", done.report.label())
        };
        let under_way: Vec<String> = involved.iter().map(asked).collect();
        let known = &self.rules.judge.known;
        let known = involved.iter().any(|done| known.entry(&done.report.label()).is_some());
        self.crashed(under_way.clone(), known, involved).await;
        under_way
    }

    async fn crashed(&mut self, under_way: Vec<String>, known: bool, involved: &mut [Done]) {
        self.ended_in.clone_from(&under_way);
        let driver = self.target.driver();
        let log = driver.and_then(Driver::log).map(|log| log.path().to_owned());
        let back = self.revive(involved).await;
        self.dead = !back || self.dispatcher.summary.crashes.len() + 1 >= CRASHES_MAX;
        if back && self.dead {
            self.gone = Some(format!("it died {CRASHES_MAX} times, and is not started again"));
        }
        let crash = Crash { under_way, back, known, log };
        self.dispatcher.emit(&Event::Crashed(&crash));
        self.dispatcher.summary.crashes.push(crash);
        if back && !self.target.is_alive().await {
            // Undoing has killed the driver again, which the check of that call reports.
            self.dead |= self.target.bring_back().await.is_err();
        }
    }

    /// Tries to have the driver back, and undoes what the checks could not: whether it is.
    pub(super) async fn revive(&mut self, involved: &mut [Done]) -> bool {
        if let Some(driver) = self.target.driver() {
            // The driver may be dead already; it only matters that it comes back.
            let _ = driver.kill().await;
        }
        let target = self.target.clone();
        let doing = match self.target.driver() {
            Some(_) => "starting the driver again",
            None => "waiting for the driver to come back",
        };
        let back = match self.with_news_of(doing, target.bring_back()).await {
            Ok(_) => true,
            Err(away) => {
                let labels: Vec<String> = involved.iter().map(|done| done.report.label()).collect();
                self.starts_afresh(&away, &labels).await
            }
        };
        for done in involved {
            // Objects of the check died with the driver, or are found by the comparison at the end of the run.
            done.report.leftovers.clear();
            if let Some(cx) = done.cx.take().filter(|_| back) {
                done.report.leftovers = cx.finish().await;
                done.report.left_behind = cx.left_behind();
            }
        }
        back
    }

    /// Starts a driver that does not start any more with an empty state, if that is allowed, and reports it. Returns
    /// whether it runs.
    pub(super) async fn starts_afresh(&mut self, away: &Away, during: &[String]) -> bool {
        let target = self.target.clone();
        let check = during.first().map(|label| Check::id_of(label)).unwrap_or_default();
        if away.is_fault()
            && let Ok(aside) =
                self.with_news_of("starting the driver with an empty state", target.start_afresh(check)).await
        {
            self.dispatcher.emit(&Event::Remark(&format!(
                "after {}, the driver could not start again: {away}. Its state {aside}, and it was started with an empty one",
                during.join(", ")
            )));
            return true;
        }
        self.is_gone(away, during);
        false
    }

    /// Keeps the reason why the driver is not back, and reports it with what the user can do.
    pub(super) fn is_gone(&mut self, away: &Away, during: &[String]) {
        let Some(_) = self.target.driver() else {
            let remark = "the driver does not come back by itself; with --driver-command or --restart-command, the run could continue";
            return self.dispatcher.emit(&Event::Remark(remark));
        };
        let why = format!("the driver did not start again: {away}");
        let printed = self.target.last_lines();
        let last = printed.iter().rev().find(|line| !line.trim().is_empty());
        let last =
            last.map(|line| format!("; it printed last: {}", shortened(line.trim()))).unwrap_or_default();
        // The remaining state keeps the driver from starting, and the check that led to it would lead to it again.
        let without: Vec<String> = during.iter().map(|label| format!("--filter '!{label}'")).collect();
        let is_named = self.target.config().state_dir.is_some();
        let hint =
            if is_named { "" } else { "; with --state-dir, the run moves the state aside and continues" };
        let remark = format!(
            "{why}{last}. To go on, empty the state of the driver, and run the other checks: {}{hint}",
            without.join(" ")
        );
        self.dispatcher.summary.gone = Some(why.clone());
        self.gone = Some(why);
        self.dispatcher.emit(&Event::Remark(&remark));
    }
}
