//! One sequence after another, each on names of its own and undone, and what is said of the driver in the end.

use std::sync::Arc;
use std::time::Duration;

use csi_harness::prelude::*;

use crate::budget::Budget;
use crate::case::{BreachText, Case};
use crate::minimal::Smallest;
use crate::model::call_context::DriverProfile;
use crate::model::expectation::Breach;
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::orchestrator::{Orchestrator, Tries};
use crate::reported::Reported;
use crate::sequence::{Item, Pace, Sequence, case, play, reproduction};

/// The sequences of one check.
#[derive(Debug)]
pub(crate) struct CaseRunner<'a> {
    pub(crate) cx: &'a Cx,
    pub(crate) probed: &'a Arc<ProbedDriver>,
    pub(crate) profile: DriverProfile,
    seed: u64,
    told: Reported,
}

/// What a sequence showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// Nothing is wrong.
    Right,
    /// Nothing but faults that are told.
    Again,
    /// A fault that was not told before.
    New,
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
        CaseRunner { cx, probed, profile: probed.profile(cx), seed, told: Reported::new(cx) }
    }

    /// What was told so far.
    pub(crate) fn told(&self) -> &Reported {
        &self.told
    }

    /// Makes a sequence of calls, within the time that there is for them. What it shows for the first time in the run is told by
    /// the shortest sequence found that shows the same.
    ///
    /// # Errors
    /// Broken if something cannot be undone.
    pub(crate) async fn run(&mut self, items: Vec<Item>, budget: &Budget) -> CheckResult<Came> {
        self.profile = DriverProfile { known: self.told.known(), ..self.probed.profile(self.cx) };
        let pace = Pace { until: budget.until(), insists: self.cx.settle_limit(), settles: Duration::ZERO };
        let sequence = self.attempt(pace, &items).await?;
        let again = sequence.remarks.iter().any(|remark| self.profile.known.has(remark));
        sequence.remarks.iter().for_each(|remark| self.told.remark(remark, &self.profile.known));
        let Some(breach) = sequence.breach.clone() else {
            return Ok(if again { Came::Again } else { Came::Right });
        };
        if !self.told.takes_on(&breach) {
            return Ok(Came::Again);
        }
        let call = sequence.steps.last().map_or("a call", |step| step.call.method());
        match self.minimal(sequence, &breach, budget).await? {
            Smallest::Shows(sequence) => {
                let accusation = self.accusation(&breach, &sequence);
                self.told.blame(&breach, accusation);
                Ok(Came::New)
            }
            Smallest::NeedsTime => {
                self.told.takes_back(&breach);
                self.probed.needs_time();
                Ok(Came::Right)
            }
            Smallest::Once => {
                self.told.takes_back(&breach);
                self.told.remark(&refused_once(call, &breach), &self.profile.known);
                Ok(Came::Right)
            }
            Smallest::ToldElsewhere => {
                self.told.takes_back(&breach);
                self.told.takes_on(&breach);
                Ok(Came::Again)
            }
        }
    }

    /// Says what was met again.
    ///
    /// # Errors
    /// A fault that another check tells, if nothing else is to be said.
    pub(crate) fn end(self) -> CheckResult {
        self.told.end()
    }

    /// Makes the calls of a sequence on new names, and undoes what they made.
    fn attempt<'b>(&'b self, pace: Pace, items: &'b [Item]) -> BoxFuture<'b, CheckResult<Sequence>> {
        let scope = self.cx.scope();
        let orchestrator = Orchestrator::new(scope.clone(), self.probed, Tries::Some);
        self.played(scope, orchestrator, pace, items)
    }

    /// Makes them for a report, which has the messages of each call.
    pub(crate) fn attempt_to_report<'b>(
        &'b self,
        pace: Pace,
        items: &'b [Item],
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
        items: &'b [Item],
    ) -> BoxFuture<'b, CheckResult<Sequence>> {
        Box::pin(async move {
            let sequence = play(&orchestrator, &self.profile, pace, items).await?;
            let undone = scope.undo().await;
            // Where a rule is broken, that what it left cannot be undone comes second.
            if sequence.breach.is_none() {
                undone?;
            }
            Ok(sequence)
        })
    }

    /// The violation that a sequence shows, which is also stored as a case if the user wants that.
    pub(crate) fn accusation(&self, breach: &Breach, sequence: &Sequence) -> Violation {
        let breach = sequence.breach.as_ref().unwrap_or(breach);
        let mut told = sequence.table();
        if let Some(folder) = &self.cx.config().effort.regressions {
            let case = case(self.cx, self.seed, BreachText::from(breach));
            told.push(Case { steps: sequence.steps.clone(), ..case }.store_in(folder));
        }
        Violation::from(breach.clone()).transcript(told).reproduction(reproduction(&sequence.steps))
    }
}
