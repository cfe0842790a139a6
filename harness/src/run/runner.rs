//! Runs the chosen checks in their order. The executor runs them as tasks, and the dispatcher receives their results; this module decides
//! which check is next, when the run ends, and whether the driver still lives.

mod deaths;
mod dispatcher;
mod executor;
mod harm;
mod leaks;
mod preparation;
mod repetitions;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::checks::check::Planned;
use crate::checks::check::Runs;
use crate::checks::known::KnownFailing;
use crate::checks::registry::Registry;
use crate::client::record::Silence;
use crate::client::stages::Stage;
use crate::client::target::Target;
use crate::results::events::{Event, Reporter};
use crate::results::outcome::{self, CheckReport, Halt, Outcome, Summary};
use crate::run::inventory::{Inventory, Surroundings};
pub use crate::run::run_check::RepeatCommand;
use crate::run::run_check::{Done, Rules, unmet};
use crate::verdict::Judge;
use crate::verdict::alone::Rejected;
use crate::verdict::confirmation::Confirmation;
use crate::verdict::precondition::Preconditions;
use crate::verdict::profile::Strictness;
use dispatcher::Dispatcher;
use executor::Executor;
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

/// Settings of a run.
pub struct RunOptions {
    /// The number of checks that run at one time.
    pub jobs: usize,
    /// Seed of everything random.
    pub seed: u64,
    /// Failures after which the run ends, if any number does.
    pub failures_max: Option<usize>,
    /// True if the objects before and after the run are compared.
    pub leak_check: bool,
    /// True if the calls of checks that passed are reported as well.
    pub keep_calls: bool,
    /// True if each check is judged separately: it is reported even if it only shows a fault of another check, and
    /// failures are not repeated.
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
    dispatcher: Dispatcher<'a>,
    stop: watch::Receiver<Halt>,
    harm: Harm,
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
            dispatcher: Dispatcher::new(target.clone(), profile),
            target,
            options,
            rules,
            stop,
            harm: Harm::default(),
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
        self.dispatcher.report_to(reporter);
    }

    /// Runs everything and returns the results.
    pub async fn run(mut self, mut plan: Vec<Planned>) -> Summary {
        let started = Instant::now();
        let target = self.target.clone();
        self.dispatcher.emit(&Event::Started {
            target: &target,
            planned: plan.len(),
            seed: self.options.seed,
        });
        for remark in target.remarks() {
            self.dispatcher.emit(&Event::Remark(remark));
        }
        for expired in self.options.known.expired() {
            self.dispatcher.emit(&Event::Remark(&expired));
        }
        if !self.options.report_each {
            self.dispatcher.report_each_fault_once(&plan);
        }
        self.prepare(&mut plan).await;
        let parts = if self.in_turn { self.options.registry.by_suite(plan) } else { vec![plan] };
        for part in parts {
            self.run_phases(part).await;
        }
        self.dispatcher.finish_rest();
        if let Some(before) = self.before.take() {
            self.report_leaks(before).await;
        }
        self.strike_out_what_is_gone().await;
        self.report_repeated_calls();
        let around = std::mem::take(&mut self.around).news(&self.target);
        let mut summary = std::mem::take(&mut self.dispatcher.summary);
        summary.left_behind.extend(around);
        for left in summary.left_behind.iter_mut().filter(|left| left.by_cleanup) {
            left.remove.clone_from(&self.options.cleanup);
        }
        summary.halt = *self.stop.borrow();
        summary.duration = started.elapsed();
        summary.calls = target.tally.calls();
        summary.judged = (!target.nodes().is_empty()).then(|| target.judged());
        self.dispatcher.emit(&Event::Finished(&summary));
        summary
    }

    /// Remarks on calls that were answered only when they were made again. Orchestrators repeat such calls, so that no check fails for
    /// them, but other callers do not. Checks that may harm the driver are left out, since they cause such answers themselves.
    fn report_repeated_calls(&mut self) {
        let mut repeated = self.target.tally.repeated();
        repeated.retain(|label, _| {
            !self.options.registry.find(label).is_ok_and(|check| check.course().may_harm())
        });
        let calls: u64 = repeated.values().map(|one| one.calls).sum();
        let Some((label, repeated)) = repeated.first_key_value() else { return };
        let begins = match calls {
            1 => "a call was answered only when it was repeated".to_owned(),
            calls => format!("{calls} calls were answered only when they were repeated"),
        };
        self.dispatcher.emit(&Event::Remark(&format!(
            "{begins}: in {label}, {} at first. Orchestrators repeat such calls; a caller that does not, such as the Go csi-sanity, fails",
            repeated.first
        )));
    }

    /// Parallel checks, then those that run alone, and those that may harm others in order of harm, with a look at the driver
    /// after each of them. Those that judge the whole run come last. Among checks that are alike in this, those come first whose Go
    /// names users know, so that a driver that dies has been judged by them. Where nothing starts the driver again, those of them
    /// that a driver may lose everything over come before those that it may crash on.
    async fn run_phases(&mut self, mut plan: Vec<Planned>) {
        let starts_again = self.target.driver().is_some();
        plan.sort_by_key(|planned| {
            let (course, is_known) = (planned.check.course(), !planned.check.replaces.is_empty());
            match course {
                Runs::LosesData if is_known && !starts_again => (Runs::CrashProne, !is_known, false),
                _ => (course, !is_known, true),
            }
        });
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
                self.dispatcher.emit(&Event::CheckStarted(&planned));
                self.run_one(planned).await.report
            } else {
                self.run_alone(planned).await
            };
            if self.dead && matches!(report.outcome, Outcome::Broken(_)) {
                report = self.left_out(report.planned);
            }
            self.dispatcher.finish(report);
        }
    }

    async fn run_parallel(&mut self, mut waiting: VecDeque<Planned>) {
        let mut running = self.executor();
        // Checks whose connections the driver broke. They run again alone, which shows if it does so each time.
        let mut again = Vec::new();
        // Checks whose calls were rejected, perhaps because of other checks.
        let mut rejected = Vec::new();
        let mut unconfirmed = Vec::<CheckReport>::new();
        let have_company = self.options.jobs > 1 && waiting.len() > 1;
        loop {
            while running.len() < self.options.jobs.max(1)
                && !self.is_over()
                && let Some(planned) = waiting.pop_front()
            {
                self.dispatcher.emit(&Event::CheckStarted(&planned));
                running.begin(planned);
            }
            let Some(done) = self.with_news(running.next()).await else { break };
            self.dispatcher.emit(&Event::CheckEnded(&done.report.planned));
            if done.silence.is_some() && !self.target.is_alive().await {
                self.driver_died(done, &mut running, &mut waiting).await;
            } else if done.silence == Some(Silence::ConnectionBroke) {
                self.dispatcher.remember_left_behind(&done.report);
                // The driver is back already, or dropped the connection; others are under way still.
                again.push(done.report.planned);
            } else if have_company {
                match Rejected::of(done.report) {
                    Ok(one) => rejected.push(one),
                    Err(report) if Confirmation::of(&report).is_some() => unconfirmed.push(*report),
                    Err(report) => self.dispatcher.finish(*report),
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
        self.dispatcher.emit(&Event::CheckStarted(&planned));
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
            self.dispatcher.remember_left_behind(&done.report);
            done = self.run_one(done.report.planned).await;
            if done.silence == Some(Silence::ConnectionBroke) {
                self.accuse(&mut done, true);
            }
        }
        done.report
    }

    fn executor(&self) -> Executor {
        Executor::new(self.target.clone(), self.rules.clone(), self.stop.clone())
    }

    async fn run_one(&mut self, planned: Planned) -> Done {
        // Its earlier reports came from a run beside others; it reports its faults again when it runs alone.
        self.target.faults().keep_reported(&planned.label(), &[]);
        let mut running = self.executor();
        running.begin(planned.clone());
        let done = self.with_news(running.next()).await;
        let done = done.unwrap_or_else(|| Done::broken(planned, "it has not ended", &self.rules));
        self.dispatcher.emit(&Event::CheckEnded(&done.report.planned));
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
                        self.dispatcher.emit(&Event::Waiting(waiting));
                    }
                }
                _ = tick.tick() => self.dispatcher.emit(&Event::Tick { stages: &self.target.clone().stages.all() }),
            }
        }
    }

    fn is_over(&self) -> bool {
        let failures = self.dispatcher.failures();
        let has_failed_enough = self.options.failures_max.is_some_and(|most| failures >= most);
        self.dead || *self.stop.borrow() != Halt::None || has_failed_enough
    }

    /// Reports a check that is not run any more.
    fn leave_out(&mut self, planned: Planned) {
        let report = self.left_out(planned);
        self.dispatcher.finish(report);
    }

    fn left_out(&self, planned: Planned) -> CheckReport {
        let outcome = if let Some(why) = unmet(&planned, &self.target).filter(|_| self.dead) {
            // With a living driver, it would have been skipped as well.
            Outcome::Skipped(why)
        } else if self.dead {
            let is_dead = match &self.ended_in[..] {
                [] => "is dead".to_owned(),
                ended_in => format!("has been dead since {}", ended_in.join(", ")),
            };
            let why = self.gone.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
            Outcome::Broken(format!("the driver {is_dead}{why}"))
        } else if *self.stop.borrow() != Halt::None {
            Outcome::Skipped(outcome::INTERRUPTED.to_owned())
        } else {
            let failures = match self.options.failures_max {
                Some(most) if most > 1 => format!("{most} failures (--maxfail)"),
                _ => "a failure (--fail-fast or --maxfail 1)".to_owned(),
            };
            Outcome::Skipped(format!("{}{failures}", outcome::ENDED_EARLY))
        };
        CheckReport::without_calls(planned, outcome, &self.rules)
    }
}
