//! One fault, tried: a volume is led to the step, something breaks, the call is made and judged, it is healed, the call is made again,
//! and the volume is led to its end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use csi_harness::lifecycle::memory::needs_memory;
use csi_harness::prelude::*;
use csi_harness::resources::state_dir::Aside;
use csi_harness::spec::requirements::Requirement;

use crate::case::Case;
use crate::fault::Fault;
use crate::found;
use crate::left::{self, Look, Places};
use crate::lever::{Lever, Traits, come_back};
use crate::life::{Life, Plan, Step};
use crate::neighbour::Neighbour;
use crate::rules::{FAULT_CODE_001, FAULT_HEAL_001, FAULT_LEFT_001, FAULT_TIME_001};

/// How long a caller waits for a call that hangs.
const HUNG: Duration = Duration::from_secs(1);
/// How long a process may take to end after it has broken its connections.
const ENDS_IN: Duration = Duration::from_millis(500);
/// How long what was healed may take until nothing of it is left: before the driver is started anew, which is waited for so that few
/// are, and after that.
const SETTLES_IN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// What has happened to a driver of which something is gone.
const KILLED: &str = "the driver was killed";
/// Pauses between two looks at what is left.
const LOOKS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(200)];

/// What all trials of a check have in common.
pub(crate) struct Bench<'a> {
    pub(crate) cx: &'a Cx,
    pub(crate) plan: Plan,
    pub(crate) places: Places,
    pub(crate) neighbour: Neighbour,
    /// States with which the driver did not start, and that are not kept.
    pub(crate) ruined_more: u32,
}

/// What was told of the driver, each thing once.
#[derive(Default)]
pub(crate) struct Told(BTreeMap<(&'static str, &'static str, String), u32>);

impl Told {
    /// Whether what is wrong was not told at another place of the same step.
    fn is_new(&mut self, step: Step, violation: &Violation) -> bool {
        let rule = violation.requirement.map_or("", |rule| rule.id);
        let times = self.0.entry((rule, step.rpc(), violation.message.clone())).or_default();
        *times += 1;
        *times == 1
    }

    /// Whether it is told already that a driver breaks a rule in the call of this step.
    fn has(&self, step: Step, rule: &Requirement) -> bool {
        self.0.keys().any(|(known, rpc, _)| *known == rule.id && *rpc == step.rpc())
    }

    /// How often something was wrong.
    pub(crate) fn times(&self) -> u32 {
        self.0.values().sum()
    }

    /// How many different things were told.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Says how often each was met.
    pub(crate) fn end(self, cx: &Cx) {
        for ((rule, rpc, what), times) in self.0.into_iter().filter(|(_, times)| *times > 1) {
            cx.note(format!("{rpc}: {times} faults led to this: {what} ({rule})"));
        }
    }
}

/// How a trial went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Went {
    /// The driver did not meet the fault.
    Unmet,
    /// It did, and came to the end of the life after so long.
    Through(Duration),
    /// Something was told of it.
    Wrong,
}

impl Bench<'_> {
    /// Tries one fault.
    ///
    /// # Errors
    /// It cannot be judged.
    pub(crate) async fn try_one(
        &self,
        lever: &dyn Lever,
        fault: &Fault,
        told: &mut Told,
    ) -> CheckResult<Went> {
        lever.begin_trial();
        let scope = self.cx.scope();
        let before = Look::take(self.cx, &self.places).await;
        let mut life = Life::begin(&scope).await?;
        let mut trial = Trial { bench: self, lever, fault, traits: lever.traits(fault), told };
        let went = trial.lead(&mut life).await;
        let undone = scope.undo_or_leave().await;
        match went {
            Ok(Went::Through(took)) => {
                if let Some(why) = undone {
                    return Err(Stop::broken(format!("while {}: could not undo: {why}", lever.tell(fault))));
                }
                if trial.told.has(fault.step, &FAULT_LEFT_001) {
                    return Ok(Went::Through(took));
                }
                match self.is_nothing_left(&before, trial.traits.loses_power).await? {
                    Ok(()) => Ok(Went::Through(took)),
                    Err(left) => trial.wrong(left, &life),
                }
            }
            Ok(other) => Ok(other),
            Err(Stop::Violation(violation)) => trial.wrong(*violation, &life),
            Err(other) => Err(other),
        }
    }

    fn is_running(&self) -> bool {
        self.cx.target().driver().is_none_or(|driver| driver.end_of_process().is_none())
    }

    /// Whether the driver runs after a trial, if need be as a new one: what a fault has left may be nothing that it starts with.
    ///
    /// # Errors
    /// The volume that is in use meanwhile cannot be had.
    pub(crate) async fn is_up_again(&mut self, lever: &dyn Lever, fault: &Fault) -> CheckResult<bool> {
        if self.is_running() {
            return Ok(true);
        }
        if lever.start_over().await? {
            self.neighbour = Neighbour::begin(self.cx, self.plan.sees).await?;
            return Ok(true);
        }
        match self.cx.target().start_afresh(Check::id_of(self.cx.label())).await {
            Ok(aside) => {
                self.note_ruined(fault, &aside);
                self.neighbour = Neighbour::begin(self.cx, self.plan.sees).await?;
                Ok(true)
            }
            Err(why) => {
                self.cx.note(format!(
                    "after {fault}, the driver no longer starts, not even with an empty state: {why}"
                ));
                Ok(false)
            }
        }
    }

    /// Says where a state is with which the driver does not start; those that are not kept are counted.
    fn note_ruined(&mut self, fault: &Fault, aside: &Aside) {
        match aside {
            Aside::Kept(_) => self.cx.note(format!(
                "after {fault}, the driver no longer started: its state {aside}, and it was started with an empty one"
            )),
            Aside::Deleted(_) => self.ruined_more += 1,
        }
    }

    /// Says how often a state was ruined that is not kept.
    pub(crate) fn end(&self) {
        if self.ruined_more > 0 {
            self.cx.note(format!(
                "after {} more faults, the driver no longer started: each time its state was deleted, since enough of them are kept",
                self.ruined_more
            ));
        }
    }

    /// Whether nothing has come to be that stays, also when the driver is started the next time. An empty directory whose removal the power
    /// was lost before is nobody's fault.
    async fn is_nothing_left(&self, before: &Look, loses_power: bool) -> CheckResult<Result<(), Violation>> {
        // Of a driver that forgets everything it cannot be seen what it would find at its next start.
        if self.left_after(before, SETTLES_IN[0]).await.is_empty() || !remembers(self.cx) {
            return Ok(Ok(()));
        }
        come_back(self.cx).await?;
        let mut left = self.left_after(before, SETTLES_IN[1]).await;
        left.retain(|one| !(loses_power && left::is_empty_directory(one)));
        if left.is_empty() {
            return Ok(Ok(()));
        }
        Ok(Err(Violation::new("something is left behind after the volume was deleted")
            .of(&FAULT_LEFT_001)
            .expected("no more than a life without failures leaves")
            .actual(left::told(&left))))
    }

    /// What is still there that was not before, after so long at the most.
    async fn left_after(&self, before: &Look, limit: Duration) -> Vec<String> {
        let (begun, mut pause) = (Instant::now(), LOOKS[0]);
        loop {
            let left = Look::take(self.cx, &self.places).await.since(before);
            if left.is_empty() || begun.elapsed() > limit {
                return left;
            }
            self.cx.wait(Settles::Willing("DeleteVolume"), pause, limit).await;
            pause = (pause * 2).min(LOOKS[1]);
        }
    }
}

/// What came of a call while something was broken.
enum Broke {
    /// The driver did not meet it.
    Unmet,
    /// It was done.
    Answered,
    /// It was refused, or there was no answer.
    Open,
}

struct Trial<'a> {
    bench: &'a Bench<'a>,
    lever: &'a dyn Lever,
    fault: &'a Fault,
    traits: Traits,
    told: &'a mut Told,
}

impl Trial<'_> {
    fn cx(&self) -> &Cx {
        self.bench.cx
    }

    async fn lead(&mut self, life: &mut Life) -> CheckResult<Went> {
        let at = self.fault.step;
        let plan = &self.bench.plan;
        for step in plan.steps.iter().copied().filter(|step| *step < at && step.matters_to(at)) {
            plainly(life, step, plan).await?;
        }
        let broke = self.break_it(life).await?;
        if self.traits.loses_power && !matches!(broke, Broke::Unmet) {
            for step in at.had_on_node(matches!(broke, Broke::Answered)) {
                if plan.steps.contains(step) {
                    self.further(life, *step).await?;
                }
            }
        }
        let took = match broke {
            Broke::Unmet => return Ok(Went::Unmet),
            // Nobody asks again for what was answered for.
            Broke::Answered => Duration::ZERO,
            Broke::Open => self.again(life).await?,
        };
        if matches!(at, Step::Snapshot | Step::Restore) && plan.steps.contains(&Step::Restore) {
            if at == Step::Snapshot {
                self.restore(life).await?;
            }
            life.restored_holds().await?;
        }
        let is_restored = |step: Step| at == Step::Snapshot && step == Step::Restore;
        let is_led = |step: &Step| *step > at && step.matters_to(at) && !is_restored(*step);
        for step in plan.steps.iter().copied().filter(is_led) {
            self.further(life, step).await?;
        }
        self.bench.neighbour.holds().await?;
        Ok(Went::Through(took))
    }

    /// Makes the call while it is broken, and judges the answer.
    async fn break_it(&mut self, life: &mut Life) -> CheckResult<Broke> {
        let step = self.fault.step;
        let injected = self.lever.inject(self.fault).await?;
        let limit = match self.traits.hangs {
            true => HUNG,
            false => Duration::from_millis(self.cx().config().time_limits.call_ms),
        };
        let asked = match self.cx().give_up_after(limit, life.call(step)).await.transpose() {
            Ok(asked) => asked,
            Err(stop) => {
                injected.heal().await?;
                return Err(stop);
            }
        };
        if asked.is_none() {
            life.lines.push(format!(
                "{} → given up by the caller after {} ms",
                step.rpc(),
                limit.as_millis()
            ));
        }
        if !injected.was_met() {
            injected.heal().await?;
            if !matches!(asked, Some(Answer::Ok(()))) {
                self.again(life).await?;
            }
            return Ok(Broke::Unmet);
        }
        life.lines.push(format!("  fault: {}", self.lever.tell(self.fault)));
        let judged = self.judge(life, asked.as_ref()).await;
        let healed = injected.heal().await;
        // Also where something is wrong: the next trial would take the mounts of the other volume for new ones.
        let had_again = match self.traits.loses_power && self.bench.is_running() {
            true => self.bench.neighbour.is_had_again().await,
            false => Ok(()),
        };
        judged?;
        healed?;
        life.lines.push(self.healed().to_owned());
        if self.traits.kills {
            self.bench.neighbour.is_known(self.happened()).await?;
        }
        had_again?;
        let is_answered = matches!(asked, Some(Answer::Ok(())));
        let is_started_to_see = is_answered && self.traits.may_forget && remembers(self.cx());
        if is_started_to_see {
            come_back(self.cx()).await?;
            life.lines.push("the driver is killed and started again".to_owned());
        }
        let is_started = self.traits.kills || is_started_to_see;
        if is_started {
            let happened = if is_started_to_see { KILLED } else { self.happened() };
            life.is_kept(step, happened).await?;
        }
        if !is_answered {
            return Ok(Broke::Open);
        }
        if is_started && !self.traits.loses_power {
            life.is_done(step, &self.bench.plan).await?;
        }
        Ok(Broke::Answered)
    }

    /// What has happened when something is gone, in words that read after "after".
    fn happened(&self) -> &'static str {
        match self.traits {
            Traits { loses_power: true, .. } => "the power was lost",
            Traits { kills: true, .. } => KILLED,
            _ => "something failed",
        }
    }

    /// What comes after the fault, in words.
    fn healed(&self) -> &'static str {
        match self.traits {
            Traits { loses_power: true, .. } => {
                "the power is back; no mount is left, and the driver is started"
            }
            Traits { kills: true, .. } => "the driver is started again",
            _ => "it is healed",
        }
    }

    /// Judges what was answered while something was broken.
    async fn judge(&mut self, life: &mut Life, answer: Option<&Answer<()>>) -> CheckResult {
        if self.traits.kills {
            // What came before the end is judged when the driver is back.
            return Ok(());
        }
        let step = self.fault.step;
        self.is_alive(life, matches!(answer, Some(Answer::Unknown(_)))).await?;
        match answer {
            Some(Answer::Ok(())) => life.is_done(step, &self.bench.plan).await?,
            Some(Answer::Refused(refused)) => self.judge_code(life, refused),
            None if self.traits.hangs => {}
            Some(Answer::Unknown(_)) | None => {
                let late = Violation::new(format!("{} is not answered in time", step.rpc()))
                    .of(&FAULT_TIME_001)
                    .expected("an error as soon as the driver knows that it failed")
                    .actual("no answer");
                self.remark(life, late);
            }
        }
        if !self.traits.freezes {
            if let Some(silent) = self.bench.neighbour.is_served(self.traits.isolates).await {
                self.remark(life, silent);
            }
            self.bench.neighbour.is_listed().await?;
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
                self.fault.step.rpc()
            ));
            let expected = "INTERNAL, UNAVAILABLE, ABORTED or the like, on which the call is made again";
            self.remark(life, wrong.of(&FAULT_CODE_001).expected(expected).actual(refused));
        }
    }

    /// # Errors
    /// A violation if the driver has ended by itself.
    async fn is_alive(&self, life: &mut Life, is_silent: bool) -> CheckResult {
        let Some(driver) = self.cx().target().driver() else { return Ok(()) };
        if is_silent {
            // The connection breaks a moment before the process is gone.
            let _ = tokio::time::timeout(ENDS_IN, driver.ended()).await;
        }
        let Some(status) = driver.end_of_process() else { return Ok(()) };
        let printed = driver.last_lines();
        life.lines.push(format!("the process of the driver has ended: {status}"));
        self.cx().answers_for_silence();
        if let Err(away) = self.cx().target().bring_back().await {
            life.lines.push(format!("started again, it does not answer: {away}"));
        }
        Err(Violation::new("the driver ends when something that it needs fails")
            .of(&req::GEN_ERR_001)
            .expected("an error, and a driver that keeps serving")
            .actual(format!("its process has ended ({status})"))
            .printed(printed)
            .into())
    }

    /// Makes the call again after healing, until it is done: how long that took.
    async fn again(&mut self, life: &mut Life) -> CheckResult<Duration> {
        let step = self.fault.step;
        match life.converge(step).await? {
            Ok(took) => {
                life.is_done(step, &self.bench.plan).await?;
                Ok(took)
            }
            Err(last) => {
                let message = format!("{} is not done any more after something has failed once", step.rpc());
                let expected = "OK when the same call is made again, now that nothing is broken";
                Err(self.unhealed(life, step, message, expected, last).await)
            }
        }
    }

    /// What is to be said of a call that fails for good: nothing can be done with a volume that is gone, which was answered for.
    async fn unhealed(&self, life: &Life, step: Step, what: String, expected: &str, last: String) -> Stop {
        match life.is_kept(step, self.happened()).await {
            Err(gone @ Stop::Violation(_)) => gone,
            _ => {
                let unhealed = Violation::new(what).of(&FAULT_HEAL_001).expected(expected);
                unhealed.actual(self.with_others(last).await).into()
            }
        }
    }

    /// Adds to an answer that others get the same, if they do: the driver is stuck as a whole then, and not with one volume.
    async fn with_others(&self, last: String) -> String {
        match self.bench.neighbour.is_refused_another().await {
            Some(other) => format!("{last}; CreateVolume of another name fails as well: {other}"),
            None => last,
        }
    }

    /// Makes a volume from a snapshot that was answered for.
    async fn restore(&mut self, life: &mut Life) -> CheckResult {
        let Err(last) = life.converge(Step::Restore).await? else {
            return life.is_done(Step::Restore, &self.bench.plan).await;
        };
        match self.bench.neighbour.is_refused_another().await {
            None => {
                let unusable = format!("no volume can be made from the snapshot: {last}");
                Err(found::not_done("CreateSnapshot", &unusable).into())
            }
            Some(_) => Err(self.for_good(life, Step::Restore, last).await),
        }
    }

    /// Makes a later call of the life.
    async fn further(&mut self, life: &mut Life, step: Step) -> CheckResult {
        match life.converge(step).await? {
            Ok(_) => life.is_done(step, &self.bench.plan).await,
            Err(last) => Err(self.for_good(life, step, last).await),
        }
    }

    async fn for_good(&self, life: &Life, step: Step, last: String) -> Stop {
        let failed = self.fault.step.rpc();
        let message = format!("{} fails for good after something has failed in {failed}", step.rpc());
        self.unhealed(life, step, message, "OK, since nothing is broken any more", last).await
    }

    /// Tells what does not end the trial.
    fn remark(&mut self, life: &Life, violation: Violation) {
        if self.told.is_new(self.fault.step, &violation) {
            self.cx().blame(self.full(violation, life));
        }
    }

    fn wrong(&mut self, violation: Violation, life: &Life) -> CheckResult<Went> {
        self.remark(life, violation);
        Ok(Went::Wrong)
    }

    /// With what was broken, the calls, and what shows it again; stored as well, if the user wants that.
    fn full(&self, violation: Violation, life: &Life) -> Violation {
        let broken = format!("in {}, {}", self.fault.step.id(), self.lever.tell(self.fault));
        let mut lines = life.lines.clone();
        lines.push(format!("broken: {broken} (--fault {})", self.fault));
        if let Some(folder) = &self.cx().config().effort.regressions {
            lines.push(Case::new(self.cx(), self.fault, broken, &violation, &life.lines).store_in(folder));
        }
        let printed = match violation.printed.is_empty() {
            true => self.cx().target().last_lines(),
            false => violation.printed.to_vec(),
        };
        violation.transcript(lines).printed(printed).injected(self.fault)
    }
}

/// Whether the driver may be killed to see what it knows afterwards: it is not told already that it forgets everything.
fn remembers(cx: &Cx) -> bool {
    cx.target().driver().is_none_or(|driver| needs_memory(driver).is_ok())
}

/// Makes a call in which nothing is broken.
///
/// # Errors
/// Broken if it is not done.
pub(crate) async fn plainly(life: &mut Life, step: Step, plan: &Plan) -> CheckResult {
    match life.converge(step).await? {
        Ok(_) => {}
        Err(last) => {
            return Err(Stop::broken(format!("needs {}, in which nothing is broken: {last}", step.rpc())));
        }
    }
    without_fault(life.is_done(step, plan).await)
}

/// What is wrong already while nothing is broken, other checks judge.
pub(crate) fn without_fault(ended: CheckResult) -> CheckResult {
    match ended {
        Err(Stop::Violation(violation)) => {
            Err(Stop::broken(format!("without any fault: {}: {}", violation.message, violation.actual)))
        }
        other => other,
    }
}
