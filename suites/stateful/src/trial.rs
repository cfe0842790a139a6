//! One sequence after another, each on names of its own and undone, and what is said of the driver in the end.

use std::sync::Arc;
use std::time::Duration;

use csi_harness::prelude::*;
use csi_harness::requirements::Requirement;

use crate::budget::Budget;
use crate::case::{BreachText, Case};
use crate::model::around::Terms;
use crate::model::expectation::Breach;
use crate::orchestrator::ground::Ground;
use crate::orchestrator::{Orchestrator, Tries};
use crate::sequence::{Item, Pace, Sequence, case, play};

/// The sequences of one check.
#[derive(Debug)]
pub(crate) struct Trial<'a> {
    pub(crate) cx: &'a Cx,
    pub(crate) ground: &'a Arc<Ground>,
    pub(crate) terms: Terms,
    seed: u64,
    /// Rules that were remarked on: each is told once.
    remarked: Vec<&'static Requirement>,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(cx: &'a Cx, ground: &'a Arc<Ground>, seed: u64) -> Trial<'a> {
        Trial { cx, ground, terms: ground.terms(cx), seed, remarked: Vec::new() }
    }

    /// Makes a sequence of calls, within the time that there is for them.
    ///
    /// # Errors
    /// A violation, told by the shortest sequence found that breaks the same rule. Broken if something cannot be undone.
    pub(crate) async fn run(&mut self, items: Vec<Item>, budget: &Budget) -> CheckResult {
        let pace = Pace { until: budget.until(), insists: self.cx.settle_limit(), settles: Duration::ZERO };
        let sequence = self.attempt(pace, &items).await?;
        self.remark(&sequence.remarks);
        if sequence.breach.is_none() {
            return Ok(());
        }
        match self.minimal(sequence, budget).await? {
            Some(sequence) => Err(self.accusation(&sequence)),
            None => {
                self.ground.needs_time();
                self.terms = self.ground.terms(self.cx);
                Ok(())
            }
        }
    }

    fn remark(&mut self, remarks: &[Breach]) {
        for remark in remarks {
            if !self.remarked.contains(&remark.rule) {
                self.remarked.push(remark.rule);
                self.cx.warn(remark.clone().into());
            }
        }
    }

    pub(crate) async fn attempt(&self, pace: Pace, items: &[Item]) -> CheckResult<Sequence> {
        let scope = self.cx.scope();
        let orchestrator = Orchestrator::new(scope.clone(), self.ground, Tries::Some);
        let sequence = play(&orchestrator, &self.terms, pace, items).await?;
        let undone = scope.undo().await;
        // Where a rule is broken, that what it left cannot be undone comes second.
        if sequence.breach.is_none() {
            undone?;
        }
        Ok(sequence)
    }

    /// The violation that a sequence shows, which is also stored as a case if the user wants that.
    pub(crate) fn accusation(&self, sequence: &Sequence) -> Stop {
        let Some(breach) = &sequence.breach else {
            return Stop::broken("a sequence that breaks no rule was taken for one that does");
        };
        let mut told = sequence.table();
        if let Some(folder) = &self.cx.config().effort.regressions {
            let case = case(self.cx, self.seed, BreachText::from(breach));
            told.push(Case { steps: sequence.steps.clone(), ..case }.store_in(folder));
        }
        Violation::from(breach.clone()).told(told).into()
    }
}
