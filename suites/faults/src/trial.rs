//! One life of a volume in which something fails, at one step or at several one after another: the volume is led to the
//! step, something breaks, the call is made and judged, the fault is healed, the call is repeated, and the volume is
//! led to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_harness::resources::state_dir::Disposition;
use csi_harness::spec::requirements::Requirement;
use csi_harness::text::message;
use csi_nemesis::fault::Fault;
use csi_nemesis::injector::power::NO_POWER_START;
use csi_nemesis::injector::{FaultEffects, Injected, Injector};
use csi_nemesis::restart::{NO_START, kill_and_start};
use csi_nemesis::step::Step;
use csi_proto::RPCS;
use csi_proto::lock::Mutex;

use crate::case::Case;
use crate::found;
use crate::left::{self, Look, Places};
use crate::life::{Life, Plan};
use crate::neighbour::{AnotherVolume, Neighbour};
use crate::rules::{
    FAULT_CODE_001, FAULT_DONE_001, FAULT_HEAL_001, FAULT_LEFT_001, FAULT_OTHERS_001, FAULT_TIME_001,
};

/// Time after which a caller gives up a call that hangs.
const HUNG: Duration = Duration::from_millis(300);
/// Pause between two looks whether a call hangs already.
const HANGS_LOOK: Duration = Duration::from_millis(10);
/// The time in which a process has to end after it has broken its connections.
const ENDS_IN: Duration = Duration::from_millis(500);
/// The time in which effects of a healed fault have to go away: before the driver is restarted, where waiting avoids
/// most restarts, and after that.
const SETTLES_IN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// Limits in place of `SETTLES_IN` once leftovers of this driver have outlasted those, and none has ever gone late.
const SETTLES_KNOWN_IN: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
/// An effect that goes away after this time has gone late.
const LATE_AFTER: Duration = Duration::from_millis(200);
/// Limits of a life with `Patience::Brief` in place of `SETTLES_IN`, once this driver was seen to leave something behind.
const SETTLES_BRIEFLY_IN: [Duration; 2] = [Duration::from_millis(250); 2];
/// A call is repeated for this time if it is already reported that it keeps failing after a fault in this step.
const KNOWN_TO_FAIL_IN: Duration = Duration::from_secs(1);
/// A call is repeated for this time where no connection has to come back.
const CONVERGES_LOCALLY_IN: Duration = Duration::from_secs(10);
/// A call is repeated for this time if it has kept failing for the full time before, after a fault in a step of this
/// RPC.
const SEEN_TO_FAIL_IN: Duration = Duration::from_secs(4);
/// A volume that is not known any more after this time is not waited for in full, if volumes of this driver were gone before.
const SEEN_GONE_IN: Duration = Duration::from_secs(1);
/// The event after which something of a driver is gone, for messages.
const KILLED: &str = "the driver was killed";
/// Pauses between two looks at what is left.
const LOOKS: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(200)];

/// The settings that all trials of a check share.
pub(crate) struct Bench<'a> {
    pub(crate) cx: &'a Cx,
    pub(crate) plan: Plan,
    pub(crate) places: Places,
    pub(crate) neighbour: Neighbour,
    /// True if the driver may be killed to see what it knows afterwards.
    pub(crate) may_kill: bool,
    /// States with which the driver did not start, and that are not kept.
    pub(crate) ruined_more: u32,
    pub(crate) waits: Arc<FullWaits>,
}

/// Results of full-length waits for this driver, in all checks: they need not be repeated for every fault.
#[derive(Default)]
pub(crate) struct FullWaits(Mutex<WaitResults>);

#[derive(Default)]
struct WaitResults {
    /// The RPC in which something was broken, and the RPC that kept failing after that.
    failed_calls: BTreeSet<(&'static str, &'static str)>,
    leftovers_stayed: bool,
    /// Leftovers have gone, but not at once.
    leftovers_went_late: bool,
}

impl FullWaits {
    fn has_failed(&self, broken: Step, call: Step) -> bool {
        self.0.lock().failed_calls.contains(&(broken.rpc(), call.rpc()))
    }

    fn note_failed(&self, broken: Step, call: Step) {
        self.0.lock().failed_calls.insert((broken.rpc(), call.rpc()));
    }

    /// Returns the limits for leftovers in a life that decides a failure.
    fn leftovers_settle_in(&self) -> [Duration; 2] {
        let results = self.0.lock();
        let is_known = results.leftovers_stayed && !results.leftovers_went_late;
        if is_known { SETTLES_KNOWN_IN } else { SETTLES_IN }
    }

    fn note_leftovers(&self, are_gone: bool, waited: Duration) {
        let mut results = self.0.lock();
        results.leftovers_went_late |= are_gone && waited > LATE_AFTER;
        results.leftovers_stayed |= !are_gone && waited >= SETTLES_IN[1];
    }
}

/// The thoroughness with which a life is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// The life decides whether a failure is reported, so it looks at everything and waits as long as a driver may take.
    Full,
    /// Every new failure is looked for again in other lives, so the life does not spend time on a kind of failure that was seen before.
    Brief,
}

/// Stands for any RPC in a key, if the RPC of the fault does not matter.
const ANY_RPC: &str = "all RPCs";

/// The key of a failure, whatever its place: the rule, the RPC in which something was broken, and the violation.
pub(crate) type Key = (&'static str, &'static str, String);

/// The failures that were reported, with the number of faults that led to each, and those that a life with several faults has shown.
#[derive(Default)]
pub(crate) struct Reported {
    times: BTreeMap<Key, u32>,
    seen: BTreeSet<Key>,
}

impl Reported {
    /// Counts a fault that led to it, reported or to be reported now.
    pub(crate) fn count(&mut self, key: Key) {
        *self.times.entry(key).or_default() += 1;
    }

    /// Notes a failure of a life with several faults. It is reported once a single fault has led to it.
    pub(crate) fn note_seen(&mut self, key: Key) {
        self.seen.insert(key);
    }

    pub(crate) fn knows(&self, key: &Key) -> bool {
        self.times.contains_key(key)
    }

    /// True if any life has shown that the driver breaks a rule, whether that is reported or not.
    fn has_seen(&self, rule: &Requirement) -> bool {
        self.seen.iter().any(|(known, ..)| *known == rule.id) || self.is_known(rule)
    }

    /// True if a life has shown that a volume is gone, whether that is reported or not.
    fn has_seen_gone(&self) -> bool {
        self.seen.iter().chain(self.times.keys()).any(|(.., message)| message.starts_with(found::GONE))
    }

    /// True if it is reported that the driver breaks a rule in the call of this step.
    pub(crate) fn has(&self, step: Step, rule: &Requirement) -> bool {
        self.times.keys().any(|(known, rpc, _)| *known == rule.id && *rpc == step.rpc())
    }

    /// True if it is reported that the driver breaks a rule in any call.
    fn is_known(&self, rule: &Requirement) -> bool {
        self.times.keys().any(|(known, ..)| *known == rule.id)
    }

    /// Number of different failures.
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    /// Says how many faults led to each.
    pub(crate) fn end(self, cx: &Cx) {
        for ((rule, rpc, what), times) in self.times.into_iter().filter(|(_, times)| *times > 1) {
            cx.note(format!("{rpc}: {times} faults led to this: {what} ({rule})"));
        }
    }
}

/// A violation that a life has shown.
#[derive(Clone)]
pub(crate) struct Finding {
    /// The fault that the driver met last.
    pub(crate) fault: Fault,
    violation: Violation,
    /// The calls until then, in words.
    lines: Vec<String>,
    /// True if the life ended with it.
    pub(crate) ends: bool,
}

impl Finding {
    /// A driver that does not start, forgets its volumes or answers no call at all does so for one reason, in whichever call that shows.
    pub(crate) fn key(&self) -> Key {
        let (rule, message) =
            (self.violation.requirement.map_or("", |rule| rule.id), &self.violation.message);
        let is_of_all = rule == FAULT_OTHERS_001.id
            || message == NO_START
            || NO_POWER_START.contains(&message.as_str())
            || message.starts_with(found::GONE);
        (rule, if is_of_all { ANY_RPC } else { self.fault.step.rpc() }, message.clone())
    }

    /// True if both break one rule in one call, whichever fault came last before it.
    pub(crate) fn is_like(&self, other: &Finding) -> bool {
        self.violation.requirement == other.violation.requirement
            && self.call_or_message() == other.call_or_message()
    }

    /// The RPC with which the message begins, or the whole message if it begins with none.
    fn call_or_message(&self) -> &str {
        let message = &self.violation.message;
        let first = message.split(' ').next().unwrap_or_default();
        if RPCS.iter().any(|rpc| rpc.method == first) { first } else { message }
    }

    /// True if something was left behind, or keeps the driver from starting, which any of the faults may have led to.
    pub(crate) fn is_left(&self) -> bool {
        self.is_of(&FAULT_LEFT_001) || self.violation.message == NO_START
    }

    fn is_of(&self, rule: &Requirement) -> bool {
        self.violation.requirement.is_some_and(|broken| broken.id == rule.id)
    }

    /// Adds the fault, the calls, and the command that repeats it; stores the case if the user wants that.
    pub(crate) fn full(self, cx: &Cx, injector: &dyn Injector) -> Violation {
        let Finding { fault, violation, mut lines, .. } = self;
        let broken = format!("in {}, {}", fault.step.id(), injector.describe(&fault));
        let case = Case::new(cx, &fault, broken.clone(), &violation, &lines);
        lines.push(format!("the fault: {broken} (--fault {fault})"));
        if let Some(folder) = &cx.config().effort.regressions {
            lines.push(case.store_in(folder));
        }
        violation.transcript(lines).injected(fault)
    }

    /// The violation for a failure that cannot be put down to one of the faults of a life.
    pub(crate) fn of_several(self, injector: &dyn Injector, faults: &[Fault], how: &str) -> Violation {
        let Finding { violation, mut lines, .. } = self;
        lines.push(how.to_owned());
        let line =
            |fault: &Fault| format!("  in {}, {} ({fault})", fault.step.id(), injector.describe(fault));
        lines.extend(faults.iter().map(line));
        violation.transcript(lines)
    }
}

/// The result of a life.
#[derive(Default)]
pub(crate) struct Lived {
    /// Faults that the driver did not meet.
    pub(crate) unmet: Vec<Fault>,
    /// The longest time that a failed call took once nothing was broken any more.
    pub(crate) took: Duration,
    pub(crate) findings: Vec<Finding>,
}

impl Bench<'_> {
    /// Leads a volume through its life with these faults, in the order of the steps, and at most one in each.
    pub(crate) async fn lead(
        &self,
        injector: &dyn Injector,
        faults: &[Fault],
        reported: &Reported,
        patience: Patience,
    ) -> CheckResult<Lived> {
        injector.begin_trial();
        let scope = self.cx.scope();
        let before = Look::take(self.cx, &self.places).await;
        let mut life = Life::begin(&scope).await?;
        let (at, lived) = (None, Lived::default());
        let mut trial =
            Trial { bench: self, injector, faults, reported, patience, at, lost_power: false, lived };
        let went = trial.lead(&mut life).await;
        let undone = scope.undo_best_effort().await;
        match went {
            Ok(()) => {
                let Some(At { fault, .. }) = trial.at else { return Ok(trial.lived) };
                if let Some(why) = undone {
                    return Err(Stop::broken(format!(
                        "while {}: could not undo: {why}",
                        injector.describe(fault)
                    )));
                }
                // This failure is reported once for each RPC, and looking takes seconds if something is left.
                let is_known = faults.iter().all(|fault| reported.has(fault.step, &FAULT_LEFT_001));
                let settles_in = match patience {
                    Patience::Brief if reported.has_seen(&FAULT_LEFT_001) => SETTLES_BRIEFLY_IN,
                    _ => self.waits.leftovers_settle_in(),
                };
                if !is_known
                    && let Err(left) = self.is_nothing_left(&before, trial.lost_power, settles_in).await?
                {
                    trial.find(left, &life, true);
                }
            }
            Err(Stop::Violation(violation)) if trial.at.is_some() => trial.find(*violation, &life, true),
            Err(other) => without_fault(Err(other))?,
        }
        Ok(trial.lived)
    }

    fn is_running(&self) -> bool {
        self.cx.target().driver().is_none_or(|driver| driver.end_of_process().is_none())
    }

    /// Starts the driver after a life, with an empty state if it does not start with what a fault has left. If the
    /// other volume in use was damaged, a new one replaces it, so that the next fault is not held responsible.
    pub(crate) async fn is_up_again(
        &mut self,
        injector: &dyn Injector,
        faults: &[Fault],
    ) -> CheckResult<bool> {
        if self.is_running() {
            if self.neighbour.holds().await.is_err() {
                self.neighbour = Neighbour::begin(self.cx, self.plan.sees).await?;
            }
            return Ok(true);
        }
        // While something was broken, the driver may not have started for that reason.
        if injector.start_over().await? || self.cx.target().bring_back().await.is_ok() {
            self.neighbour = Neighbour::begin(self.cx, self.plan.sees).await?;
            return Ok(true);
        }
        match self.cx.target().start_afresh(Check::id_of(self.cx.label())).await {
            Ok(disposition) => {
                self.note_corrupt_state(&after(faults), &disposition);
                self.neighbour = Neighbour::begin(self.cx, self.plan.sees).await?;
                Ok(true)
            }
            Err(why) => {
                self.cx.note(format!("after {}, the driver no longer starts: {why}", after(faults)));
                Ok(false)
            }
        }
    }

    /// Says where a state is with which the driver does not start; those that are not kept are counted.
    fn note_corrupt_state(&mut self, fault: &str, disposition: &Disposition) {
        match disposition {
            Disposition::Kept(_) => self.cx.note(format!(
                "after {fault}, the driver no longer started: its state {disposition}, and it was started with an empty one"
            )),
            Disposition::Deleted(_) => self.ruined_more += 1,
        }
    }

    /// Says how often a state was ruined that is not kept.
    pub(crate) fn end(&self) {
        if self.ruined_more > 0 {
            self.cx.note(format!(
                "further faults kept the driver from starting {}: each time its state was deleted, since enough of them are kept",
                message::times(self.ruined_more.into())
            ));
        }
    }

    /// Checks that no new object stays, also after a restart of the driver. An empty directory does not count if the
    /// power was lost before its removal.
    async fn is_nothing_left(
        &self,
        before: &Look,
        loses_power: bool,
        settles_in: [Duration; 2],
    ) -> CheckResult<Result<(), Violation>> {
        // A driver that forgets everything cannot be restarted to see what it finds then.
        if self.left_after(before, settles_in[0]).await.is_empty() || !self.may_kill {
            return Ok(Ok(()));
        }
        match kill_and_start(self.cx).await {
            Err(Stop::Violation(no_start)) => return Ok(Err(*no_start)),
            other => other?,
        }
        let mut left = self.left_after(before, settles_in[1]).await;
        left.retain(|one| !(loses_power && left::is_empty_directory(one)));
        if left.is_empty() {
            return Ok(Ok(()));
        }
        Ok(Err(Violation::new("something is left behind after the volume was deleted")
            .of(&FAULT_LEFT_001)
            .damage(Damage::Leak)
            .expected("no more than is left behind without failures")
            .actual(left::listed(&left))))
    }

    /// The new objects that are still there after this time at most.
    async fn left_after(&self, before: &Look, limit: Duration) -> Vec<String> {
        let (begun, mut pause) = (Instant::now(), LOOKS[0]);
        loop {
            let left = Look::take(self.cx, &self.places).await.since(before);
            if left.is_empty() || begun.elapsed() > limit {
                self.waits.note_leftovers(left.is_empty(), begun.elapsed());
                return left;
            }
            self.cx.wait(Settles::Willing("DeleteVolume"), pause, limit).await;
            pause = (pause * 2).min(LOOKS[1]);
        }
    }
}

/// The faults of a life, in words.
fn after(faults: &[Fault]) -> String {
    match faults {
        [one] => one.to_string(),
        [first, .., last] => format!("a life with {} faults, from {first} to {last}", faults.len()),
        [] => String::new(),
    }
}

/// The result of a call while something was broken.
enum Broke {
    /// The driver did not meet it; `is_done` is true if the call was answered with OK.
    Unmet {
        is_done: bool,
    },
    Answered,
    /// It was refused, or got no answer.
    Open,
}

/// A fault that is there, or was the last one.
#[derive(Clone, Copy)]
struct At<'a> {
    fault: &'a Fault,
    traits: FaultEffects,
}

struct Trial<'a> {
    bench: &'a Bench<'a>,
    injector: &'a dyn Injector,
    faults: &'a [Fault],
    reported: &'a Reported,
    patience: Patience,
    /// The last fault that the driver met; none before the first one.
    at: Option<At<'a>>,
    lost_power: bool,
    lived: Lived,
}

impl<'a> Trial<'a> {
    fn cx(&self) -> &'a Cx {
        self.bench.cx
    }

    async fn lead(&mut self, life: &mut Life) -> CheckResult {
        let (bench, faults) = (self.bench, self.faults);
        let plan = &bench.plan;
        let matters = |step: &Step| faults.iter().any(|fault| step.matters_to(fault.step));
        for step in plan.steps.iter().copied().filter(matters) {
            let fault = faults.iter().find(|fault| fault.step == step);
            match (fault, self.at) {
                (Some(fault), _) => self.fail(life, fault).await?,
                (None, None) if faults.iter().all(|fault| fault.step < step) => return Ok(()),
                (None, None) => plainly(life, step, plan).await?,
                (None, Some(_)) => self.further(life, step).await?,
            }
            let is_read = self.at.is_some_and(|at| at.fault.step >= Step::UnpublishAgain);
            if step == Step::Restore && is_read && plan.uses_copies {
                life.restored_holds().await?;
            }
        }
        match self.at {
            Some(_) => bench.neighbour.holds().await,
            None => Ok(()),
        }
    }

    /// True if the driver has met a fault in this step.
    fn has_met(&self, step: Step) -> bool {
        let met = |fault: &&Fault| !self.lived.unmet.contains(fault);
        let is_over = self.at.is_some_and(|at| at.fault.step >= step);
        is_over && self.faults.iter().filter(met).any(|fault| fault.step == step)
    }

    /// Makes a call while it is broken, and again once it is healed.
    async fn fail(&mut self, life: &mut Life, fault: &'a Fault) -> CheckResult {
        let at = At { fault, traits: self.injector.traits(fault) };
        let before = self.at.replace(at);
        let broke = self.break_it(life, at).await?;
        if let Broke::Unmet { is_done } = broke {
            if before.is_none() && !is_done {
                self.again(life).await?;
            }
            self.at = before;
            self.lived.unmet.push(fault.clone());
            // A fault that was not met explains no failure, so one that was met before it has to.
            return match before.is_some() && !is_done {
                true => self.further(life, fault.step).await,
                false => Ok(()),
            };
        }
        if self.traits().loses_power {
            self.lost_power = true;
            for step in fault.step.had_on_node(matches!(broke, Broke::Answered)) {
                if self.bench.plan.steps.contains(step) {
                    self.further(life, *step).await?;
                }
            }
        }
        // A call that was answered with OK is not made again.
        if matches!(broke, Broke::Open) {
            let took = self.again(life).await?;
            self.lived.took = self.lived.took.max(took);
        }
        Ok(())
    }

    fn traits(&self) -> FaultEffects {
        self.at.map_or_else(FaultEffects::default, |at| at.traits)
    }

    /// The step in which something was broken last.
    fn step(&self) -> Step {
        self.at.map_or(Step::Create, |at| at.fault.step)
    }

    /// Makes the call while it is broken, and judges the answer.
    async fn break_it(&mut self, life: &mut Life, At { fault, traits }: At<'a>) -> CheckResult<Broke> {
        let step = fault.step;
        let injected = self.injector.inject(fault).await?;
        let limit = Duration::from_millis(self.cx().config().time_limits.call_ms);
        let begun = Instant::now();
        let asked = tokio::select! {
            asked = life.call(step) => Some(asked),
            () = is_given_up(&*injected, traits.hangs, limit) => None,
        };
        let asked = match asked.transpose() {
            Ok(asked) => asked,
            Err(stop) => {
                injected.heal().await?;
                return Err(stop);
            }
        };
        if asked.is_none() {
            self.cx().let_go();
            life.gave_up(step, begun.elapsed());
        }
        if !injected.was_triggered() {
            injected.heal().await?;
            return Ok(Broke::Unmet { is_done: matches!(asked, Some(Answer::Ok(()))) });
        }
        life.met(fault, &self.injector.describe(fault));
        let judged = self.judge(life, asked.as_ref()).await;
        let healed = injected.heal().await;
        // Also where something is wrong: the next trial would take the mounts of the other volume for new ones.
        let had_again = match traits.loses_power && self.bench.is_running() {
            true => self.bench.neighbour.is_had_again().await,
            false => Ok(()),
        };
        judged?;
        healed?;
        life.happened(self.healed());
        if traits.kills {
            self.bench.neighbour.is_known(self.happened()).await?;
        }
        had_again?;
        let is_answered = matches!(asked, Some(Answer::Ok(())));
        let is_started_to_see = is_answered && traits.may_forget && self.bench.may_kill;
        if is_started_to_see {
            kill_and_start(self.cx()).await?;
            life.happened("the driver is killed and started again");
        }
        let is_started = traits.kills || is_started_to_see;
        if is_started {
            let happened = if is_started_to_see { KILLED } else { self.happened() };
            life.is_kept(step, happened).await?;
        }
        if !is_answered {
            return Ok(Broke::Open);
        }
        if is_started && !traits.loses_power {
            life.is_done(step, &self.bench.plan).await?;
        }
        Ok(Broke::Answered)
    }

    /// The event after which something is gone, in words that read after "after".
    fn happened(&self) -> &'static str {
        match self.traits() {
            FaultEffects { loses_power: true, .. } => "the power was lost",
            FaultEffects { kills: true, .. } => KILLED,
            _ => "something failed",
        }
    }

    /// The state after the fault, in words.
    fn healed(&self) -> &'static str {
        match self.traits() {
            FaultEffects { loses_power: true, .. } => {
                "the power is back; no mount is left, and the driver is started"
            }
            FaultEffects { kills: true, .. } => "the driver is started again",
            _ => "the fault ends",
        }
    }

    /// Judges what was answered while something was broken.
    async fn judge(&mut self, life: &mut Life, answer: Option<&Answer<()>>) -> CheckResult {
        if self.traits().kills {
            // The earlier steps are judged when the driver is back.
            return Ok(());
        }
        let step = self.step();
        self.is_alive(life, matches!(answer, Some(Answer::Unknown(_)))).await?;
        match answer {
            Some(Answer::Ok(())) => life.is_done(step, &self.bench.plan).await?,
            Some(Answer::Refused(refused)) => self.judge_code(life, refused),
            None if self.traits().hangs => {}
            Some(Answer::Unknown(_)) | None => {
                let late = Violation::new(format!("{} is not answered in time", step.rpc()))
                    .of(&FAULT_TIME_001)
                    .expected("an error as soon as the driver knows that it failed")
                    .actual("no answer");
                self.find(late, life, false);
            }
        }
        // Each look takes seconds if no call is answered.
        let is_known_silent = self.reported.is_known(&FAULT_OTHERS_001)
            || self.patience == Patience::Brief && self.reported.has_seen(&FAULT_OTHERS_001)
            || self.lived.findings.iter().any(|finding| finding.is_of(&FAULT_OTHERS_001));
        if !self.traits().freezes && !is_known_silent {
            match self.bench.neighbour.is_served(self.traits().isolates).await {
                // ListVolumes would most likely be silent as well, and take as long.
                Some(silent) => self.find(silent, life, false),
                None => self.bench.neighbour.is_listed().await?,
            }
        }
        self.bench.neighbour.holds().await
    }

    /// A code that says that the request is wrong, or nothing at all.
    fn judge_code(&mut self, life: &Life, refused: &Refused) {
        let misleads = matches!(
            refused.code,
            Code::Unknown
                | Code::InvalidArgument
                | Code::NotFound
                | Code::AlreadyExists
                | Code::OutOfRange
                | Code::Unimplemented
                | Code::PermissionDenied
                | Code::Unauthenticated
        );
        if misleads {
            let wrong = Violation::new(format!(
                "{} is rejected with a code that does not mean \"try again later\"",
                self.step().rpc()
            ));
            let expected = "INTERNAL, UNAVAILABLE, ABORTED or the like, on which the call is made again";
            self.find(wrong.of(&FAULT_CODE_001).expected(expected).actual(refused), life, false);
        }
    }

    /// Fails with a violation if the driver has ended by itself.
    async fn is_alive(&self, life: &mut Life, is_silent: bool) -> CheckResult {
        let Some(driver) = self.cx().target().driver() else { return Ok(()) };
        if is_silent {
            // The connection breaks a moment before the process is gone.
            let _ = tokio::time::timeout(ENDS_IN, driver.ended()).await;
        }
        let Some(status) = driver.end_of_process() else { return Ok(()) };
        let printed = driver.last_lines();
        life.happened(&format!("the process of the driver has ended: {status}"));
        self.cx().expect_no_answer();
        if let Err(away) = self.cx().target().bring_back().await {
            life.happened(&format!("started again, it does not answer: {away}"));
        }
        Err(Violation::new("the driver ends when something that it needs fails")
            .of(&req::GEN_ERR_001)
            .expected("an error, and a driver that keeps serving")
            .actual(format!("its process has ended ({status})"))
            .damage(Damage::Crash)
            .printed(printed)
            .into())
    }

    /// Makes the call until it is done, for the time that this driver needs to be given.
    async fn converge(&self, life: &mut Life, step: Step) -> CheckResult<Result<Duration, String>> {
        let (broken, waits) = (self.step(), &self.bench.waits);
        let is_reported =
            self.reported.has(broken, &FAULT_HEAL_001) || self.reported.has(broken, &FAULT_DONE_001);
        let limit = life.converges_in(match waits.has_failed(broken, step) {
            true if is_reported => Some(KNOWN_TO_FAIL_IN),
            true => Some(SEEN_TO_FAIL_IN),
            // A connection to a back end may take the full time to come back.
            false => (!self.traits().isolates).then_some(CONVERGES_LOCALLY_IN),
        });
        if self.reported.has_seen_gone() && limit > SEEN_GONE_IN {
            let result = life.converge(step, SEEN_GONE_IN).await?;
            if result.is_ok() || matches!(life.is_kept(step, self.happened()).await, Err(Stop::Violation(_)))
            {
                return Ok(result);
            }
        }
        let is_full = life.has_failed && self.cx().remaining() > limit;
        let result = life.converge(step, limit).await?;
        if result.is_err() && is_full {
            waits.note_failed(broken, step);
        }
        Ok(result)
    }

    /// Makes the call again after healing, until it is done: how long that took.
    async fn again(&mut self, life: &mut Life) -> CheckResult<Duration> {
        let step = self.step();
        match self.converge(life, step).await? {
            Ok(took) => {
                life.is_done(step, &self.bench.plan).await?;
                Ok(took)
            }
            Err(last) => {
                let message = format!("{} no longer succeeds after something has failed once", step.rpc());
                let expected = "OK when the same call is made again, now that nothing is broken";
                Err(self.unhealed(life, step, message, expected, last).await)
            }
        }
    }

    /// The violation of a call that fails for good. A volume that is gone, although the driver had confirmed it, is
    /// reported instead.
    async fn unhealed(&self, life: &Life, step: Step, what: String, expected: &str, last: String) -> Stop {
        match life.is_kept(step, self.happened()).await {
            Err(gone @ Stop::Violation(_)) => gone,
            _ => {
                let actual = match self.bench.neighbour.try_another().await {
                    AnotherVolume::Created => last,
                    // The driver is stuck as a whole, and not with one volume.
                    AnotherVolume::Failed(other) => {
                        format!("{last}; CreateVolume of another name fails as well: {other}")
                    }
                    AnotherVolume::NoRoom(other) => {
                        let why = "the back end has no room for another volume, which may have other reasons than a fault";
                        return Stop::broken(format!("{what}: {last}; {why}: {other}"));
                    }
                };
                Violation::new(what).of(&FAULT_HEAL_001).expected(expected).actual(actual).into()
            }
        }
    }

    /// Makes a volume from a snapshot, after a fault in the call that made the snapshot.
    async fn restore(&mut self, life: &mut Life) -> CheckResult {
        let Err(last) = self.converge(life, Step::Restore).await? else {
            return life.is_done(Step::Restore, &self.bench.plan).await;
        };
        match self.bench.neighbour.try_another().await {
            AnotherVolume::Created => {
                let unusable = format!("no volume can be made from the snapshot: {last}");
                Err(found::not_done("CreateSnapshot", &unusable).into())
            }
            _ => Err(self.for_good(life, Step::Restore, last).await),
        }
    }

    /// Makes a call in which nothing is broken, after a fault in an earlier one.
    async fn further(&mut self, life: &mut Life, step: Step) -> CheckResult {
        if step == Step::Restore && self.has_met(Step::Snapshot) {
            return self.restore(life).await;
        }
        match self.converge(life, step).await? {
            Ok(_) => life.is_done(step, &self.bench.plan).await,
            Err(last) => Err(self.for_good(life, step, last).await),
        }
    }

    async fn for_good(&self, life: &Life, step: Step, last: String) -> Stop {
        let failed = self.step().rpc();
        let message = format!("{} fails permanently after something has failed in {failed}", step.rpc());
        self.unhealed(life, step, message, "OK, since nothing is broken any more", last).await
    }

    fn find(&mut self, violation: Violation, life: &Life, ends: bool) {
        let Some(At { fault, .. }) = self.at else { return };
        let does_not_start =
            violation.message == NO_START || NO_POWER_START.contains(&violation.message.as_str());
        // A driver that runs says in its answers what it lacks, and its last lines are mostly about other calls.
        let violation = match does_not_start {
            true => violation.printed(self.cx().target().last_lines()),
            false => violation,
        };
        let (lines, steps) = life.story();
        let violation = violation.reproduction(steps);
        self.lived.findings.push(Finding { fault: fault.clone(), violation, lines, ends });
    }
}

/// Resolves when a caller gives up a call: when that has hung for some time, and in any case after the limit of a call.
async fn is_given_up(injected: &dyn Injected, hangs: bool, limit: Duration) {
    let hung = async {
        while !(hangs && injected.was_triggered()) {
            tokio::time::sleep(HANGS_LOOK).await;
        }
        tokio::time::sleep(HUNG).await;
    };
    // Whichever comes first.
    let _ = tokio::time::timeout(limit, hung).await;
}

/// Makes a call in which nothing is broken.
pub(crate) async fn plainly(life: &mut Life, step: Step, plan: &Plan) -> CheckResult {
    match life.converge(step, life.converges_in(None)).await? {
        Ok(_) => {}
        Err(last) => {
            return Err(Stop::broken(format!("{} fails without any fault: {last}", step.rpc())));
        }
    }
    without_fault(life.is_done(step, plan).await)
}

/// Violations while nothing is broken are left to other checks.
pub(crate) fn without_fault(ended: CheckResult) -> CheckResult {
    match ended {
        Err(Stop::Violation(violation)) => {
            Err(Stop::broken(format!("without any fault: {}: {}", violation.message, violation.actual)))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use csi_harness::checks::registry::{Checks, Registry, Suite};
    use csi_harness::results::outcome::Outcome;
    use csi_test_support::mock;
    use tonic::async_trait;

    use super::*;

    /// Breaks nothing, and states that the driver has met the faults whose way is `met`.
    struct Stated;

    struct StatedFault {
        is_met: bool,
    }

    #[async_trait]
    impl Injector for Stated {
        fn faults(&self) -> Vec<Fault> {
            Vec::new()
        }

        fn describe(&self, fault: &Fault) -> String {
            fault.to_string()
        }

        fn traits(&self, _fault: &Fault) -> FaultEffects {
            FaultEffects::default()
        }

        async fn inject(&self, fault: &Fault) -> CheckResult<Box<dyn Injected + '_>> {
            Ok(Box::new(StatedFault { is_met: fault.way == "met" }))
        }
    }

    impl Injected for StatedFault {
        fn was_triggered(&self) -> bool {
            self.is_met
        }
    }

    check! {
        /// Leads a life in which CreateSnapshot is always rejected, after a fault that was met, and with one that is not.
        LEADS_A_LIFE {
            id: "faults/leads-a-life",
            title: "leads a life",
            spec: [FAULT_HEAL_001],
            refuted_by: ["none"],
        }
        async |cx| {
            let faults = [
                Fault::new("stated", Step::Create, "anywhere", "met"),
                Fault::new("stated", Step::Snapshot, "anywhere", "not-met"),
            ];
            let plan = Plan { steps: vec![Step::Create, Step::Snapshot, Step::Delete], ..Plan::default() };
            let neighbour = Neighbour::begin(cx, false).await?;
            let (places, waits) = (Places::default(), Arc::default());
            let bench = Bench { cx, plan, places, neighbour, may_kill: false, ruined_more: 0, waits };
            let lived = bench.lead(&Stated, &faults, &Reported::default(), Patience::Brief).await?;
            let blamed: Vec<String> = lived.findings.iter().map(|one| one.fault.to_string()).collect();
            ensure!(
                blamed == [faults[0].to_string()] && lived.unmet == faults[1..],
                "the fault that was met is not held responsible";
                actual: blamed.join(", ")
            );
            Ok(())
        }
    }

    const SUITE: Suite =
        Suite { name: "faults", checks: Checks::Declared(&[&[&LEADS_A_LIFE]]), retired: &[] };

    #[test]
    fn a_fault_that_was_not_met_is_not_held_responsible() {
        let without = vec!["CREATE_DELETE_SNAPSHOT".parse().unwrap()];
        let driver = csi_mock_driver::Config { without, ..Default::default() };
        let mut config = mock::everything_set();
        config.time_limits.settle_ms = Some(50);
        let run = mock::run(Registry::new([SUITE]), driver, config, 1, |_| true).unwrap();
        assert_eq!(run.outcomes_of("faults/leads-a-life"), [&Outcome::Passed]);
    }

    #[test]
    fn a_full_wait_in_vain_is_not_repeated_for_each_fault() {
        let waits = FullWaits::default();
        assert_eq!(waits.leftovers_settle_in(), SETTLES_IN);
        waits.note_leftovers(true, Duration::ZERO);
        waits.note_leftovers(false, SETTLES_IN[0]);
        assert_eq!(
            waits.leftovers_settle_in(),
            SETTLES_IN,
            "only the wait after a new start is the full one"
        );
        waits.note_leftovers(false, SETTLES_IN[1]);
        assert_eq!(waits.leftovers_settle_in(), SETTLES_KNOWN_IN);
        waits.note_leftovers(true, Duration::from_millis(500));
        assert_eq!(waits.leftovers_settle_in(), SETTLES_IN, "this driver removes some things late");
        assert!(!waits.has_failed(Step::Stage, Step::Publish));
        waits.note_failed(Step::Stage, Step::Publish);
        assert!(waits.has_failed(Step::StageAgain, Step::PublishAgain));
        assert!(!waits.has_failed(Step::Publish, Step::Publish));
    }
}
