//! Runs the chosen checks and says what happens. One loop owns counts, cancellation and the life of the driver.

mod harm;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio::time::MissedTickBehavior;

use crate::checks::check::{Check, Runs};
use crate::checks::known::KnownFailing;
use crate::checks::planned::Planned;
use crate::checks::registry::Registry;
use crate::client::record::{CallLog, Silence};
use crate::client::session::Session;
use crate::client::stages::Stage;
use crate::client::target::Target;
use crate::config::AccessType;
use crate::driver::{Away, Driver};
use crate::lifecycle::cx::Cx;
use crate::lifecycle::size::{self, Found};
use crate::protocol::capability::Capability;
use crate::resources::left_behind::{LeftBehind, Removal};
use crate::resources::machine;
use crate::results::events::{Event, Reporter};
use crate::results::fault;
use crate::results::outcome::{CheckReport, Crash, Halt, Leak, Outcome, Summary};
use crate::run::inventory::{self, Inventory, Surroundings};
use crate::run::run_check::{Done, Rules, raised, run_check, unmet};
use crate::spec::need::Need;
use crate::text::shorten::shortened;
use crate::text::size::sized;
use crate::verdict::alone::{MetAgain, Rejected};
use crate::verdict::confirmation::Confirmation;
use crate::verdict::dedup::Dedup;
use crate::verdict::precondition::Preconditions;
use crate::verdict::profile::Strictness;
use crate::verdict::{self, Judge, crash};
use harm::Harm;

/// The default number of checks that run at one time.
pub const JOBS: usize = 8;
/// Deaths of the driver after which a run gives up.
const CRASHES_MAX: usize = 50;
/// The time in which a driver has to stop before it is restarted.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Time for the repetitions that confirm failures in a whole run. Failures beyond it count as they are.
const CONFIRMING_MAX: Duration = Duration::from_secs(600);
/// Time limit of each look at what exists.
const INVENTORY_LIMIT: Duration = Duration::from_secs(300);

/// The label of what is done while no check runs.
const BESIDE_CHECKS: &str = "beside the checks";

/// Makes the command that runs one check alone, from its label, and the fault that it is to meet, if there is one.
pub type RepeatCommand = dyn Fn(&str, Option<&str>) -> String + Send + Sync;

/// Settings of a run.
pub struct RunOptions {
    /// The number of checks that run at one time.
    pub jobs: usize,
    /// Seed of everything random.
    pub seed: u64,
    /// Failures after which the run ends, if any number does.
    pub failures_max: Option<usize>,
    /// Whether to compare what exists before and after.
    pub leak_check: bool,
    /// True if the calls of checks that passed are reported as well.
    pub keep_calls: bool,
    /// True if each check is judged separately: it is reported even if it only shows a fault of another check, and
    /// failures are not repeated.
    /// repeated.
    pub report_each: bool,
    /// The suites that the checks are chosen from.
    pub registry: Registry,
    /// Checks that have to fail.
    pub known: KnownFailing,
    /// Makes the command that runs one check alone.
    pub repeat: Arc<RepeatCommand>,
    /// The command that undoes what the run could not.
    pub cleanup: Option<String>,
}

impl Default for RunOptions {
    /// The options of a command line without flags, with the seed 0 and without a suite.
    fn default() -> RunOptions {
        RunOptions {
            jobs: JOBS,
            seed: 0,
            failures_max: None,
            leak_check: true,
            keep_calls: false,
            report_each: false,
            registry: Registry::new([]),
            known: KnownFailing::default(),
            repeat: Arc::new(|labels, _| labels.to_owned()),
            cleanup: None,
        }
    }
}

impl std::fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOptions")
            .field("jobs", &self.jobs)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// Time between two events that show that the run continues.
const TICK: Duration = Duration::from_secs(1);

/// Runs checks against one driver.
pub struct Runner<'a> {
    target: Arc<Target>,
    options: RunOptions,
    rules: Rules,
    reporters: Vec<&'a mut dyn Reporter>,
    stop: watch::Receiver<Halt>,
    dedup: Dedup,
    harm: Harm,
    /// Ids of the checks that have passed.
    passed: BTreeSet<String>,
    summary: Summary,
    /// The inventory before the run, if one was taken.
    before: Option<Inventory>,
    around: Surroundings,
    dead: bool,
    /// The reason why it is not started again, although the run could do that.
    gone: Option<String>,
    /// The checks during which it died last.
    ended_in: Vec<String>,
    in_turn: bool,
    /// Time spent on confirming failures so far.
    confirming: Duration,
}

impl std::fmt::Debug for Runner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The checks that are running.
#[derive(Default)]
struct Running {
    tasks: JoinSet<Done>,
    planned: HashMap<Id, Planned>,
}

impl Running {
    fn begin(&mut self, planned: Planned, check: impl Future<Output = Done> + Send + 'static) {
        let task = self.tasks.spawn(check);
        self.planned.insert(task.id(), planned);
    }

    /// The next one that ends, however it does; `None` if none runs.
    async fn next(&mut self, rules: &Rules) -> Option<Done> {
        loop {
            let ended = self.tasks.join_next_with_id().await?;
            let id = match &ended {
                Ok((id, _)) => *id,
                Err(error) => error.id(),
            };
            match (ended, self.planned.remove(&id)) {
                (Ok((_, done)), _) => return Some(done),
                (Err(error), Some(planned)) => return Some(Done::broken(planned, &error.to_string(), rules)),
                // Each has its plan.
                (Err(_), None) => {}
            }
        }
    }
}

impl<'a> Runner<'a> {
    /// Prepares a run. When the value of `stop` says so, checks end early, what they made is undone, and the run ends.
    pub fn new(target: Arc<Target>, options: RunOptions, stop: watch::Receiver<Halt>) -> Runner<'a> {
        let profile = target.config().profile;
        let rules = Rules {
            seed: options.seed,
            keep_calls: options.keep_calls,
            judge: Judge {
                strictness: Strictness { profile, flaky_result: target.config().flaky_result },
                known: Arc::new(options.known.clone()),
            },
            preconditions: Arc::new(Preconditions::of(&options.registry)),
            repeat: options.repeat.clone(),
            probe: None,
        };
        Runner {
            target,
            options,
            rules,
            reporters: Vec::new(),
            stop,
            dedup: Dedup::default(),
            harm: Harm::default(),
            passed: BTreeSet::new(),
            summary: Summary { profile, ..Summary::default() },
            before: None,
            around: Surroundings::default(),
            dead: false,
            gone: None,
            ended_in: Vec::new(),
            in_turn: false,
            confirming: Duration::ZERO,
        }
    }

    /// Makes the checks of a suite begin when all those of the suites before it have ended.
    pub fn take_suites_in_turn(&mut self) {
        self.in_turn = true;
    }

    /// Adds a listener.
    pub fn report_to(&mut self, reporter: &'a mut dyn Reporter) {
        self.reporters.push(reporter);
    }

    /// Runs everything and returns the results.
    pub async fn run(mut self, plan: Vec<Planned>) -> Summary {
        let started = Instant::now();
        let target = self.target.clone();
        self.emit(&Event::Started { target: &target, planned: plan.len(), seed: self.options.seed });
        for remark in target.remarks() {
            self.emit(&Event::Remark(remark));
        }
        for expired in self.options.known.expired() {
            self.emit(&Event::Remark(&expired));
        }
        // Such a loop device matters only to a driver that uses devices of this machine.
        if let Some(node) = target.nodes().first()
            && node.shares_mounts().await
            && let Some(left) = machine::warn_of_read_only_loops()
        {
            self.emit(&Event::Remark(&left));
        }
        self.before = self.take_inventory().await;
        for access in self.target.config().access_types.clone() {
            if plan.iter().any(|planned| {
                planned.access == access && planned.check.needs.iter().any(Need::is_of_volumes)
            }) {
                self.find_size(access).await;
            }
        }
        if !self.options.report_each {
            self.dedup = Dedup::of(&plan);
        }
        let parts = if self.in_turn { self.options.registry.by_suite(plan) } else { vec![plan] };
        for part in parts {
            self.run_phases(part).await;
        }
        let rest = verdict::conclude_rest(&mut self.dedup, self.target.faults());
        self.report(rest);
        if let Some(before) = self.before.take() {
            self.report_leaks(before).await;
        }
        let around = std::mem::take(&mut self.around).news(&self.target);
        self.summary.left_behind.extend(around);
        let is_noted = |left: &LeftBehind| left.remove == Some(Removal::Cleanup);
        if self.summary.left_behind.iter().any(is_noted) {
            self.summary.cleanup.clone_from(&self.options.cleanup);
        }
        self.summary.halt = *self.stop.borrow();
        self.summary.duration = started.elapsed();
        self.summary.calls = target.tally.calls();
        self.summary.judged = (!target.nodes().is_empty()).then(|| target.judged());
        let summary = std::mem::take(&mut self.summary);
        self.emit(&Event::Finished(&summary));
        summary
    }

    /// Parallel checks, then those that run alone, and those that may harm others in order of harm, with a look at the driver
    /// after each of them. Those that judge the whole run come last. Among checks that are alike in this, those come first whose Go
    /// names users know, so that a driver that dies has been judged by them.
    async fn run_phases(&mut self, mut plan: Vec<Planned>) {
        plan.sort_by_key(|planned| (planned.check.course(), planned.check.replaces.is_empty()));
        self.target.faults().run_next(plan.iter().map(Planned::label));
        let mut take = |wanted: &dyn Fn(Runs) -> bool| -> Vec<Planned> {
            let end = plan.partition_point(|planned| wanted(planned.check.course()));
            plan.drain(..end).collect()
        };
        let parallel = take(&|runs| runs == Runs::Parallel);
        let alone = take(&|runs| runs == Runs::Serial);
        let harmful = take(&Runs::may_harm);
        self.run_parallel(parallel.into()).await;
        self.record_unattributed_leaks().await;
        // Many parallel calls may damage a driver, too, so plain calls are made after these checks as well.
        self.run_harmful(alone).await;
        self.run_harmful(harmful).await;
        self.run_those_that_judge_the_run(plan).await;
    }

    /// A driver that is dead is judged by what it has answered.
    async fn run_those_that_judge_the_run(&mut self, plan: Vec<Planned>) {
        for planned in plan {
            let mut report = if self.dead && *self.stop.borrow() == Halt::None {
                self.emit(&Event::CheckStarted(&planned));
                self.run_one(planned).await.report
            } else {
                self.run_alone(planned).await
            };
            if self.dead && matches!(report.outcome, Outcome::Broken(_)) {
                report = self.left_out(report.planned);
            }
            self.finish(report);
        }
    }

    async fn run_parallel(&mut self, mut waiting: VecDeque<Planned>) {
        let mut running = Running::default();
        // Checks whose connections the driver broke. They run again alone, which shows if it does so each time.
        let mut again = Vec::new();
        // Checks whose calls were rejected, perhaps because of other checks.
        let mut rejected = Vec::new();
        let mut unconfirmed = Vec::<CheckReport>::new();
        let have_company = self.options.jobs > 1 && waiting.len() > 1;
        let rules = self.rules.clone();
        loop {
            while running.tasks.len() < self.options.jobs.max(1)
                && !self.is_over()
                && let Some(planned) = waiting.pop_front()
            {
                self.emit(&Event::CheckStarted(&planned));
                let check =
                    run_check(self.target.clone(), planned.clone(), self.rules.clone(), self.stop.clone());
                running.begin(planned, check);
            }
            let Some(done) = self.with_news(running.next(&rules)).await else { break };
            self.emit(&Event::CheckEnded(&done.report.planned));
            if done.silence.is_some() && !self.target.is_alive().await {
                self.driver_died(done, &mut running, &mut waiting).await;
            } else if done.silence == Some(Silence::ConnectionBroke) {
                self.remember_left_behind(&done.report);
                // The driver is back already, or dropped the connection; others are under way still.
                again.push(done.report.planned);
            } else if have_company {
                let beside = running.planned.values().map(Planned::label).collect();
                match Rejected::of(done.report, beside) {
                    Ok(one) => rejected.push(one),
                    Err(report) if Confirmation::of(&report).is_some() => unconfirmed.push(*report),
                    Err(report) => self.finish(*report),
                }
            } else {
                self.confirm_and_finish(done.report).await;
            }
        }
        self.run_one_by_one(again).await;
        self.run_rejected_alone(rejected).await;
        unconfirmed.sort_by_key(|report| self.target.faults().place(&report.label()));
        for report in unconfirmed {
            self.confirm_and_finish(report).await;
        }
        for planned in waiting {
            self.leave_out(planned);
        }
    }

    /// Lets the other running checks end, brings the driver back, and finds out which of the checks that had a call
    /// without an answer kills it, by running them again one by one. If the driver stays away, one of these checks has
    /// to report it.
    async fn driver_died(&mut self, first: Done, running: &mut Running, waiting: &mut VecDeque<Planned>) {
        let mut involved = vec![first];
        while let Some(other) = running.next(&self.rules).await {
            self.emit(&Event::CheckEnded(&other.report.planned));
            if other.silence.is_some() { involved.push(other) } else { self.finish(other.report) }
        }
        if let [alone] = &mut involved[..]
            && self.options.jobs <= 1
        {
            self.accuse(alone, false);
            self.crash(&mut involved).await;
            return involved.into_iter().for_each(|done| self.finish(done.report));
        }
        let under_way = self.crash(&mut involved).await;
        if self.dead {
            match &mut involved[..] {
                [alone] => self.accuse(alone, false),
                [one, ..] => self.rules.judge.accuse(&mut one.report, crash::killed_by_one_of(&under_way)),
                [] => {}
            }
            return involved.into_iter().for_each(|done| self.finish(done.report));
        }
        self.judges_first(&involved, waiting).await;
        involved.sort_by_key(|done| !self.judges_its_fatal_call(done));
        let crashes = self.summary.crashes.len();
        let mut reports = Vec::new();
        for done in involved {
            self.remember_left_behind(&done.report);
            reports.push(self.run_alone(done.report.planned).await);
        }
        if self.summary.crashes.len() == crashes
            && !reports.iter().any(|report| matches!(report.outcome, Outcome::Failed(_)))
            && let Some(report) = reports.first_mut()
        {
            self.rules.judge.accuse(report, crash::killed_by_one_of(&under_way));
        }
        reports.into_iter().for_each(|report| self.finish(report));
    }

    /// First runs the waiting checks that judge the plain form of the calls under way: if the driver does not survive
    /// such a call, only that check reports it.
    async fn judges_first(&mut self, involved: &[Done], waiting: &mut VecDeque<Planned>) {
        for done in involved {
            let judge = crash::fatal_call(&done.report.calls)
                .and_then(|call| self.rules.preconditions.judge_of(call.rpc));
            let at =
                waiting.iter().position(|planned| judge.is_some_and(|judge| planned.check.id == judge.id));
            if let Some(planned) = at.and_then(|at| waiting.remove(at)) {
                let report = self.run_alone(planned).await;
                self.finish(report);
            }
        }
    }

    fn judges_its_fatal_call(&self, done: &Done) -> bool {
        let judge = crash::fatal_call(&done.report.calls)
            .and_then(|call| self.rules.preconditions.judge_of(call.rpc));
        judge.is_some_and(|judge| judge.id == done.report.planned.check.id)
    }

    /// Runs checks again alone whose calls were rejected while others ran, in the order of the run.
    async fn run_rejected_alone(&mut self, mut all: Vec<Rejected>) {
        all.sort_by_key(|rejected| self.target.faults().place(&rejected.report.label()));
        let mut met_again = MetAgain::default();
        for rejected in all {
            if self.is_over() || met_again.is_enough_for(&rejected) {
                self.finish(rejected.report);
                continue;
            }
            self.remember_left_behind(&rejected.report);
            let mut alone = self.run_alone(rejected.report.planned.clone()).await;
            met_again.settle(rejected, &mut alone, &self.rules.judge, self.target.faults());
            self.confirm_and_finish(alone).await;
        }
    }

    async fn confirm_and_finish(&mut self, report: CheckReport) {
        let report = self.confirmed(report).await;
        self.finish(report);
    }

    /// Repeats a check until each of its failures has recurred, or it was repeated often enough.
    async fn confirmed(&mut self, mut report: CheckReport) -> CheckReport {
        let confirmation = Confirmation::of(&report).filter(|_| !self.options.report_each);
        let Some(mut confirmation) = confirmation else { return report };
        let begun = Instant::now();
        let why_not = loop {
            if confirmation.is_complete() {
                break None;
            }
            if confirmation.is_exhausted() {
                break Some("no repetition came as far");
            }
            if self.is_over() {
                break Some("the run ended before it could be repeated");
            }
            if self.confirming + begun.elapsed() > CONFIRMING_MAX {
                break Some("the time for repetitions was used up");
            }
            let again = self.run_alone(report.planned.clone()).await;
            self.remember_left_behind(&again);
            confirmation.count(&report, &again);
        };
        self.confirming += begun.elapsed();
        report.spent.confirming += begun.elapsed();
        report.duration += begun.elapsed();
        if let Some(why) = why_not.filter(|_| confirmation.is_missing()) {
            report.notes.push(format!("a failure is not confirmed: {why}"));
        }
        confirmation.settle(&mut report, &self.rules.judge, self.target.faults());
        report
    }

    async fn run_one_by_one(&mut self, plan: Vec<Planned>) {
        for planned in plan {
            let report = self.run_alone(planned).await;
            self.confirm_and_finish(report).await;
        }
    }

    async fn run_alone(&mut self, planned: Planned) -> CheckReport {
        if self.is_over() {
            return self.left_out(planned);
        }
        self.emit(&Event::CheckStarted(&planned));
        let mut done = self.run_one(planned).await;
        if done.silence.is_some() && !self.target.is_alive().await {
            if done.on_purpose && self.target.driver().is_some_and(|driver| driver.starting_for().is_some()) {
                // The check has ended the driver itself, and has reported if it does not come back.
                let back = self.revive(std::slice::from_mut(&mut done)).await;
                if !back {
                    self.dead = true;
                    self.ended_in = vec![done.report.label()];
                }
            } else {
                self.accuse(&mut done, false);
                self.crash(std::slice::from_mut(&mut done)).await;
            }
        } else if done.silence == Some(Silence::ConnectionBroke) {
            self.remember_left_behind(&done.report);
            done = self.run_one(done.report.planned).await;
            if done.silence == Some(Silence::ConnectionBroke) {
                self.accuse(&mut done, true);
            }
        }
        done.report
    }

    async fn run_one(&mut self, planned: Planned) -> Done {
        // Its earlier reports came from a run beside others; it reports its faults again when it runs alone.
        self.target.faults().keep_reported(&planned.label(), &[]);
        let (mut running, rules) = (Running::default(), self.rules.clone());
        let check = run_check(self.target.clone(), planned.clone(), rules.clone(), self.stop.clone());
        // As a task, it runs where the connections are handled, so that an answer wakes no other thread.
        running.begin(planned.clone(), check);
        let done = self.with_news(running.next(&rules)).await;
        let done = done.unwrap_or_else(|| Done::broken(planned, "it has not ended", &rules));
        self.emit(&Event::CheckEnded(&done.report.planned));
        done
    }

    /// Waits for work beside the checks, and shows meanwhile what it is.
    async fn with_news_of<T>(&mut self, what: &'static str, work: impl Future<Output = T>) -> T {
        let target = self.target.clone();
        target.stages.set(BESIDE_CHECKS, Stage { what, number: 0, of: None });
        let ended = self.with_news(work).await;
        target.stages.end(BESIDE_CHECKS);
        ended
    }

    /// Waits for checks, and shows meanwhile what they wait for.
    async fn with_news<T>(&mut self, checks: impl Future<Output = T>) -> T {
        let mut news = self.target.patience.news.subscribe();
        let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + TICK, TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::pin!(checks);
        loop {
            tokio::select! {
                biased;
                ended = &mut checks => return ended,
                _ = news.changed() => {
                    let waiting = *news.borrow_and_update();
                    if let Some(waiting) = waiting {
                        self.emit(&Event::Waiting(waiting));
                    }
                }
                _ = tick.tick() => self.emit(&Event::Tick { stages: &self.target.clone().stages.all() }),
            }
        }
    }

    /// Makes the call of the check that ended with no gRPC status, alone and reproducibly, a violation.
    fn accuse(&self, done: &mut Done, alive: bool) {
        if done.on_purpose {
            return;
        }
        let printed = if alive { Vec::new() } else { self.target.last_lines() };
        let violation = crash::killed(&done.report.calls, alive).printed(printed);
        if let Some(call) = crash::fatal_call(&done.report.calls).filter(|_| !alive)
            && let Some(judge) = self.rules.preconditions.judge_of(call.rpc)
            && judge.id == done.report.planned.check.id
        {
            self.target.is_killed_by(call.rpc, &judge.id);
        }
        self.rules.judge.accuse(&mut done.report, violation);
    }

    /// Notes a death of the driver, tries to have it back, and undoes what the checks could not. Returns what was under way.
    async fn crash(&mut self, involved: &mut [Done]) -> Vec<String> {
        let asked = |done: &Done| {
            let rpc = crash::fatal_call(&done.report.calls).map_or("a call", |call| call.rpc.method);
            format!("{}: {rpc}", done.report.label())
        };
        let under_way: Vec<String> = involved.iter().map(asked).collect();
        self.ended_in.clone_from(&under_way);
        let known = &self.rules.judge.known;
        let known = involved.iter().any(|done| known.entry(&done.report.label()).is_some());
        let driver = self.target.driver();
        let log = driver.and_then(Driver::log).map(|log| log.path().to_owned());
        let back = self.revive(involved).await;
        self.dead = !back || self.summary.crashes.len() + 1 >= CRASHES_MAX;
        if back && self.dead {
            self.gone = Some(format!("it died {CRASHES_MAX} times, and is not started again"));
        }
        let crash = Crash { under_way: under_way.clone(), back, known, log };
        self.emit(&Event::Crashed(&crash));
        self.summary.crashes.push(crash);
        if back && !self.target.is_alive().await {
            // Undoing has killed the driver again, which the check of that call reports.
            self.dead |= self.target.bring_back().await.is_err();
        }
        under_way
    }

    /// Tries to have the driver back, and undoes what the checks could not: whether it is.
    async fn revive(&mut self, involved: &mut [Done]) -> bool {
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
    async fn starts_afresh(&mut self, away: &Away, during: &[String]) -> bool {
        let target = self.target.clone();
        let check = during.first().map(|label| Check::id_of(label)).unwrap_or_default();
        if away.is_fault()
            && let Ok(aside) =
                self.with_news_of("starting the driver with an empty state", target.start_afresh(check)).await
        {
            self.emit(&Event::Remark(&format!(
                "after {}, the driver did not start any more: {away}. Its state {aside}, and it was started with an empty one",
                during.join(", ")
            )));
            return true;
        }
        self.is_gone(away, during);
        false
    }

    /// Keeps the reason why the driver is not back, and reports it with what the user can do.
    fn is_gone(&mut self, away: &Away, during: &[String]) {
        let Some(_) = self.target.driver() else {
            let remark = "the driver does not come back by itself; with --driver-command or --restart-command, the run could go on";
            return self.emit(&Event::Remark(remark));
        };
        let why = format!("it did not start again: {away}");
        let printed = self.target.last_lines();
        let last = printed.iter().rev().find(|line| !line.trim().is_empty());
        let last =
            last.map(|line| format!("; it printed last: {}", shortened(line.trim()))).unwrap_or_default();
        // The remaining state keeps the driver from starting, and the check that led to it would lead to it again.
        let without: Vec<String> = during.iter().map(|label| format!("--filter '!{label}'")).collect();
        let is_named = self.target.config().state_dir.is_some();
        let hint = if is_named { "" } else { "; with --state-dir, the run does so by itself" };
        let remark = format!(
            "{why}{last}. To go on, give it the state of a new driver, and run the others: {}{hint}",
            without.join(" ")
        );
        self.gone = Some(why);
        self.emit(&Event::Remark(&remark));
    }

    fn is_over(&self) -> bool {
        let failures = self.summary.counts.failed + self.summary.counts.flaky_failures;
        let has_failed_enough = self.options.failures_max.is_some_and(|most| failures >= most);
        self.dead || *self.stop.borrow() != Halt::None || has_failed_enough
    }

    /// Reports a check that is not run any more.
    fn leave_out(&mut self, planned: Planned) {
        let report = self.left_out(planned);
        self.finish(report);
    }

    fn left_out(&self, planned: Planned) -> CheckReport {
        let outcome = if let Some(why) = unmet(&planned, &self.target).filter(|_| self.dead) {
            // With a living driver, it would have been skipped as well.
            Outcome::Skipped(why)
        } else if self.dead {
            let since = match &self.ended_in[..] {
                [] => String::new(),
                ended_in => format!(" since {}", ended_in.join(", ")),
            };
            let why = self.gone.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
            Outcome::Broken(format!("the driver is dead{since}{why}"))
        } else if *self.stop.borrow() != Halt::None {
            Outcome::Skipped("interrupted".to_owned())
        } else {
            Outcome::Skipped(match self.options.failures_max {
                Some(most) if most > 1 => format!("{most} failures came before (--maxfail)"),
                _ => "another check failed before (--fail-fast)".to_owned(),
            })
        };
        CheckReport::without_calls(planned, outcome, &self.rules)
    }

    fn finish(&mut self, report: CheckReport) {
        let ready = verdict::conclude(report, &mut self.dedup, self.target.faults());
        self.report(ready);
    }

    /// Keeps what a check may have left behind; also of one that runs again.
    fn remember_left_behind(&mut self, report: &CheckReport) {
        self.summary.left_behind.extend(report.left_behind.iter().cloned());
    }

    fn report(&mut self, reports: Vec<CheckReport>) {
        for report in reports {
            if report.outcome == Outcome::Passed {
                self.passed.insert(report.planned.check.id.to_string());
            }
            for work in &report.cut_short {
                self.summary.cut_short.push((report.label(), work.clone()));
            }
            let (outcome, counts_as) = (report.outcome.kind(), report.outcome.counts_as());
            self.summary.count(outcome, counts_as, &fault::key(&report), report.outcome.binds_from());
            self.remember_left_behind(&report);
            self.emit(&Event::CheckFinished(&report));
        }
    }

    /// Finds a size of volumes for such access that the driver takes, where the user names none.
    async fn find_size(&mut self, access: AccessType) {
        let target = self.target.clone();
        if target.config().volume_size_bytes.is_some()
            || !target.capabilities().has(Capability::CreateDeleteVolume)
        {
            return;
        }
        let limit = Duration::from_millis(target.config().time_limits.check_ms);
        let cx = Cx::of_no_check(&target, "size of volumes", access, self.options.seed, limit);
        let stop = &mut self.stop.clone();
        let finding = async {
            tokio::select! {
                found = size::find(&cx, target.volume_size_bytes(access)) => found,
                () = raised(stop) => Found::First,
            }
        };
        let found = self.with_news_of("finding a size of volumes", finding).await;
        // Objects that cannot be undone are reported at the end.
        let _ = cx.finish().await;
        self.summary.left_behind.extend(cx.left_behind());
        let remark = match found {
            Found::First => return,
            Found::Larger(bytes) => {
                target.grow_to(access, bytes);
                let why =
                    "the smallest size tried that the driver accepts; --volume-size-bytes chooses another";
                format!("volumes for {access} access are made with {}, {why}", sized(bytes))
            }
            Found::Invalid(refused) => {
                let why = "does it need other --parameters, --secrets or another --volume-size-bytes?";
                format!("CreateVolume rejects a plain request: {refused}; {why}")
            }
        };
        self.emit(&Event::Remark(&remark));
    }

    async fn take_inventory(&mut self) -> Option<Inventory> {
        if !self.options.leak_check && !self.target.is_owned() {
            return None;
        }
        let (target, session) = (self.target.clone(), self.inventory_session());
        let looking = async { (Surroundings::seen_with(&target).await, Inventory::take(&session).await) };
        let (around, inventory) = self.with_news_of("looking at what there is", looking).await;
        if self.options.leak_check {
            self.around = around;
        }
        match inventory {
            Ok(inventory) => {
                self.target.owns(inventory.ownership());
                Some(inventory).filter(|_| self.options.leak_check)
            }
            Err(_) if !self.options.leak_check => None,
            Err(why) => {
                self.emit(&Event::Remark(&format!("leaks are not looked for: {why}")));
                None
            }
        }
    }

    async fn record_unattributed_leaks(&mut self) {
        let session = self.inventory_session();
        if let Some(before) = self.before.as_mut().filter(|_| !self.dead) {
            before.mark_unattributed(&session).await;
        }
    }

    async fn report_leaks(&mut self, mut before: Inventory) {
        let session = self.inventory_session();
        // If the driver died of a call, or its object is not asked for any more, the driver may have had no chance to
        // remove the object.
        let is_unnamed = |left: &LeftBehind| left.in_doubt && left.id.is_none();
        if !self.summary.crashes.is_empty() || self.summary.left_behind.iter().any(is_unnamed) {
            before.share();
        }
        if self.dead {
            self.unmount(&mut before.mounts_left(&session), &session).await;
            return self.emit(&Event::Remark("leaks are not looked for: the driver is dead"));
        }
        match self.with_news_of("looking for what is left", before.leaks(&session)).await {
            Ok(mut leaks) => {
                self.unmount(&mut leaks, &session).await;
                if !leaks.is_empty() {
                    self.emit(&Event::Leaked(&leaks));
                }
                self.summary.leaks = leaks;
            }
            Err(why) => self.emit(&Event::Remark(&format!("leaks are not looked for: {why}"))),
        }
    }

    /// Undoes what can be undone without the driver, and says so.
    async fn unmount(&mut self, leaks: &mut Vec<Leak>, session: &Session) {
        for remark in inventory::unmount(leaks, session).await {
            self.emit(&Event::Remark(&remark));
        }
    }

    fn inventory_session(&self) -> Session {
        Session::new(self.target.clone(), CallLog::new(), "leak check", INVENTORY_LIMIT)
    }

    fn emit(&mut self, event: &Event<'_>) {
        for reporter in &mut self.reporters {
            reporter.event(event);
        }
    }
}
