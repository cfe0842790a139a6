//! One sequence after another, each on names of its own and undone, and what is said of the driver in the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_harness::requirements::Requirement;

use crate::case::{BreachText, Case};
use crate::model::around::Terms;
use crate::model::expectation::Breach;
use crate::orchestrator::ground::Ground;
use crate::orchestrator::{Orchestrator, Tries};
use crate::sequence::{Item, Pace, Sequence, case, play};
use crate::shrink::Shrinker;

/// Sequences made at the most to shorten one.
const SHRINK_TRIES_MAX: u32 = 200;
/// Time for that at the most.
const SHRINK_LIMIT: Duration = Duration::from_secs(60);

/// The sequences of one check.
#[derive(Debug)]
pub(crate) struct Trial<'a> {
    cx: &'a Cx,
    ground: &'a Arc<Ground>,
    terms: Terms,
    seed: u64,
    /// Rules that were remarked on: each is told once.
    remarked: Vec<&'static Requirement>,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(cx: &'a Cx, ground: &'a Arc<Ground>, seed: u64) -> Trial<'a> {
        Trial { cx, ground, terms: ground.terms.clone(), seed, remarked: Vec::new() }
    }

    /// Makes a sequence of calls, of which none is begun after a time.
    ///
    /// # Errors
    /// A violation, told by the shortest sequence found that breaks the same rule. Broken if something cannot be undone.
    pub(crate) async fn run(&mut self, items: Vec<Item>, until: Instant) -> CheckResult {
        let sequence = self.attempt(Pace { until, to_settle: Duration::ZERO }, &items).await?;
        self.remark(&sequence.remarks);
        let Some(breach) = sequence.breach.clone() else { return Ok(()) };
        let items = items[..sequence.used].to_vec();
        match self.minimal(items, &breach, sequence).await? {
            Some(sequence) => Err(self.accusation(&sequence)),
            None => {
                self.terms.settle = self.cx.settle_limit();
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

    async fn attempt(&self, pace: Pace, items: &[Item]) -> CheckResult<Sequence> {
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

    /// The shortest sequence found that breaks the same rule. `None` if the driver only needed time.
    async fn minimal(
        &self,
        items: Vec<Item>,
        breach: &Breach,
        found: Sequence,
    ) -> CheckResult<Option<Sequence>> {
        let is_the_same =
            |sequence: &Sequence| sequence.breach.as_ref().is_some_and(|other| other.rule == breach.rule);
        let until = Instant::now() + SHRINK_LIMIT.min(self.cx.remaining() / 2);
        let pace = Pace { until, to_settle: Duration::ZERO };
        let (mut shrinker, mut best) = (Shrinker::new(items), found);
        for _ in 0..SHRINK_TRIES_MAX {
            let Some(items) = shrinker.candidate().filter(|_| Instant::now() < until) else { break };
            // What cannot be undone any more would only get worse.
            let Ok(sequence) = self.attempt(pace, &items).await else { break };
            let fails = is_the_same(&sequence);
            shrinker.tell(fails);
            if fails {
                best = sequence;
            }
        }
        if !best.takes_time() || breach.rule == &req::GEN_TIMEOUT_002 {
            return Ok(Some(best));
        }
        // What is deleted may go on being there, and what is new may be listed late. With time to settle, wrong is wrong.
        let pace = Pace { until: Instant::now() + self.cx.remaining(), to_settle: self.cx.settle_limit() };
        let slow = self.attempt(pace, &shrinker.into_smallest()).await?;
        Ok(is_the_same(&slow).then_some(slow))
    }

    /// The violation that a sequence shows, which is also stored as a case if the user wants that.
    fn accusation(&self, sequence: &Sequence) -> Stop {
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
