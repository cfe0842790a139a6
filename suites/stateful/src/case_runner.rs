//! Runs one sequence after another, each on names of its own and undone, and reports the results in the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_model::call_context::DriverProfile;
use csi_model::expectation::Breach;

use crate::budget::Budget;
use crate::case::{BreachText, Case};
use crate::minimal::Smallest;
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::orchestrator::{Orchestrator, Tries};
use crate::reported::Reported;
use crate::sequence::{Pace, PlannedStep, Sequence, case, play, reproduction};

/// Largest number of attempts to get a sequence to its end. In each attempt, one more fault that has broken it off is
/// known.
const TURNS_MAX: u32 = 8;

/// The sequences of one check.
#[derive(Debug)]
pub(crate) struct CaseRunner<'a> {
    pub(crate) cx: &'a Cx,
    pub(crate) probed: &'a Arc<ProbedDriver>,
    pub(crate) profile: DriverProfile,
    seed: u64,
    reported: Reported,
    /// The reason why something of an earlier sequence could not be undone. A later sequence may show the fault behind it.
    stays: Option<String>,
}

/// The result of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SequenceOutcome {
    /// No fault was met.
    Passed,
    /// It shows only faults that are reported already.
    KnownFault,
    /// It shows a fault that was not reported before.
    NewFault,
}

/// A refusal that did not come again when everything was done again.
fn refused_once(call: &str, breach: &Breach) -> Breach {
    Breach {
        rule: &req::GEN_CONC_003,
        message: format!("{call} is rejected once, and not when the same calls are made again"),
        ..breach.clone()
    }
}

impl<'a> CaseRunner<'a> {
    pub(crate) fn new(cx: &'a Cx, probed: &'a Arc<ProbedDriver>, seed: u64) -> CaseRunner<'a> {
        CaseRunner { cx, probed, profile: probed.profile(cx), seed, reported: Reported::new(cx), stays: None }
    }

    /// The faults that were reported so far.
    pub(crate) fn reported(&self) -> &Reported {
        &self.reported
    }

    /// Begins another sequence of the check after `done` of them, unless there is enough to report or the budget is
    /// used up.
    pub(crate) fn begins(&self, budget: &Budget, done: u32) -> bool {
        self.reported.goes_on() && budget.begins(self.cx, "sequence", done)
    }

    /// Makes the sequence of the check that comes after `done` of them. Fails with a violation if a driver that was
    /// ended does not come back.
    pub(crate) async fn next(&mut self, items: &[PlannedStep], budget: &Budget, done: u32) -> CheckResult {
        self.reported.is_random(budget.is_random(done));
        let is_first = self.reported.is_all_right();
        if self.run(items, budget).await? != SequenceOutcome::Passed && is_first {
            self.cx.note(format!("the first fault was in sequence {}", done + 1));
        }
        Ok(())
    }

    /// Makes a sequence of calls. A fault that breaks it off is reported with the shortest sequence found that shows it, unless it was
    /// reported before. From then on it is tolerated, and the sequence is made again to see what lies behind it.
    pub(crate) async fn run(
        &mut self,
        items: &[PlannedStep],
        budget: &Budget,
    ) -> CheckResult<SequenceOutcome> {
        let mut outcome = SequenceOutcome::Passed;
        for _ in 0..TURNS_MAX {
            let (now, is_whole) = self.turn(items, budget).await?;
            outcome = outcome.max(now);
            if is_whole || !self.reported.goes_on() || Instant::now() >= budget.until() {
                break;
            }
        }
        Ok(outcome)
    }

    /// Makes a sequence of calls once: what it showed, and whether another turn would show nothing else.
    async fn turn(&mut self, items: &[PlannedStep], budget: &Budget) -> CheckResult<(SequenceOutcome, bool)> {
        self.profile = DriverProfile { known: self.reported.known(), ..self.probed.profile(self.cx) };
        let pace = Pace { until: budget.until(), insists: self.cx.settle_limit(), settles: Duration::ZERO };
        let sequence = self.attempt(pace, items).await?;
        self.stays = self.stays.take().or_else(|| sequence.left.clone());
        let again = sequence.remarks.iter().any(|remark| self.profile.known.has(&remark.breach));
        for remark in &sequence.remarks {
            if self.reported.is_worth_a_warning(&remark.breach, &self.profile.known) {
                let warning = self.warning(&sequence, remark, budget).await?;
                self.reported.warn(warning);
            }
        }
        let Some(breach) = sequence.breach.clone() else {
            return Ok((if again { SequenceOutcome::KnownFault } else { SequenceOutcome::Passed }, true));
        };
        if !self.reported.claim(&breach) {
            return Ok((SequenceOutcome::KnownFault, false));
        }
        let call = sequence.steps.last().map_or("a call", |step| step.call.method());
        let outcome = match self.minimal(sequence, &breach, budget).await? {
            Smallest::Shows(sequence, plays) => {
                let accusation = self.accusation(&breach, &sequence);
                self.reported.blame(&breach, plays.of(accusation));
                SequenceOutcome::NewFault
            }
            // These are no faults, so that nothing is tolerated from now on: the sequence would only be broken off again.
            Smallest::NeedsTime => {
                self.reported.release(&breach);
                self.probed.needs_time();
                return Ok((SequenceOutcome::Passed, true));
            }
            Smallest::Once => {
                self.reported.release(&breach);
                self.reported.remark(&refused_once(call, &breach), &self.profile.known);
                return Ok((SequenceOutcome::Passed, true));
            }
            Smallest::ReportedElsewhere => {
                self.reported.release(&breach);
                self.reported.claim(&breach);
                SequenceOutcome::KnownFault
            }
        };
        Ok((outcome, false))
    }

    /// Notes the faults that were met again. Fails with a fault that another check reports if there is nothing else to
    /// report, and is broken if something could not be undone and no fault explains it.
    pub(crate) fn end(self) -> CheckResult {
        match self.stays {
            Some(why) if self.reported.is_all_right() => Err(Stop::broken(why)),
            _ => self.reported.end(),
        }
    }

    /// Makes the calls of a sequence on new names, and undoes what they made.
    pub(crate) fn attempt<'b>(
        &'b self,
        pace: Pace,
        items: &'b [PlannedStep],
    ) -> BoxFuture<'b, CheckResult<Sequence>> {
        let scope = self.cx.scope();
        let orchestrator = Orchestrator::new(scope.clone(), self.probed, Tries::Some);
        self.played(scope, orchestrator, pace, items)
    }

    /// Makes them again for a report, which has the messages of each call.
    pub(crate) fn attempt_to_report<'b>(
        &'b self,
        pace: Pace,
        items: &'b [PlannedStep],
    ) -> BoxFuture<'b, CheckResult<Sequence>> {
        let scope = self.cx.scope();
        let orchestrator = Orchestrator::new(scope.clone(), self.probed, Tries::Some).keeping_wire();
        self.played(scope, orchestrator, pace, items)
    }

    fn played<'b>(
        &'b self,
        scope: Cx,
        orchestrator: Orchestrator,
        pace: Pace,
        items: &'b [PlannedStep],
    ) -> BoxFuture<'b, CheckResult<Sequence>> {
        Box::pin(async move {
            let sequence = play(&orchestrator, &self.profile, pace, items).await?;
            let left = scope.undo_best_effort().await;
            // If a rule is broken, that is reported, and not that something could not be undone.
            Ok(Sequence { left: left.filter(|_| sequence.breach.is_none()), ..sequence })
        })
    }

    /// The violation that a sequence shows, which is also stored as a case if the user wants that.
    pub(crate) fn accusation(&self, breach: &Breach, sequence: &Sequence) -> Violation {
        let breach = sequence.breach.as_ref().unwrap_or(breach);
        let mut reported = sequence.table();
        if let Some(folder) = &self.cx.config().effort.regressions {
            let case = case(self.cx, self.seed, BreachText::from(breach));
            reported.push(Case { steps: sequence.steps.clone(), ..case }.store_in(folder));
        }
        Violation::from(breach.clone()).transcript(reported).reproduction(reproduction(&sequence.steps))
    }
}
