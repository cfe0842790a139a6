//! One sequence after another, each on names of its own and undone, and what is said of the driver in the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::prelude::*;

use crate::case::{BreachText, Case};
use crate::model::around::Terms;
use crate::model::expectation::Breach;
use crate::orchestrator::ground::Ground;
use crate::orchestrator::{Orchestrator, Tries};
use crate::sequence::{Item, Pace, Sequence, case, play};
use crate::shrink::Shrinker;
use crate::told::Told;

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
    told: Told,
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

impl<'a> Trial<'a> {
    pub(crate) fn new(cx: &'a Cx, ground: &'a Arc<Ground>, seed: u64) -> Trial<'a> {
        Trial { cx, ground, terms: ground.terms.clone(), seed, told: Told::new(cx) }
    }

    /// What was told so far.
    pub(crate) fn told(&self) -> &Told {
        &self.told
    }

    /// Makes a sequence of calls, of which none is begun after a time. What it shows for the first time in the run is told by the
    /// shortest sequence found that shows the same.
    ///
    /// # Errors
    /// Broken if something cannot be undone.
    pub(crate) async fn run(&mut self, items: Vec<Item>, until: Instant) -> CheckResult<Came> {
        self.terms.known = self.told.known();
        let sequence = self.attempt(Pace { until, to_settle: Duration::ZERO }, &items).await?;
        let again = sequence.remarks.iter().any(|remark| self.terms.known.has(remark));
        sequence.remarks.iter().for_each(|remark| self.told.remark(remark, &self.terms.known));
        let Some(breach) = sequence.breach.clone() else {
            return Ok(if again { Came::Again } else { Came::Right });
        };
        if !self.told.takes_on(&breach) {
            return Ok(Came::Again);
        }
        let items = items[..sequence.used].to_vec();
        match self.minimal(items, &breach, sequence).await? {
            Some(sequence) => {
                let accusation = self.accusation(&breach, &sequence);
                self.told.blame(&breach, accusation);
                Ok(Came::New)
            }
            None => {
                self.told.takes_back(&breach);
                self.terms.settle = self.cx.settle_limit();
                Ok(Came::Right)
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

    /// The shortest sequence found that shows the same. `None` if the driver only needed time.
    async fn minimal(
        &self,
        items: Vec<Item>,
        breach: &Breach,
        found: Sequence,
    ) -> CheckResult<Option<Sequence>> {
        let fault = breach.fault();
        let is_the_same =
            |sequence: &Sequence| sequence.breach.as_ref().is_some_and(|other| other.fault() == fault);
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
    fn accusation(&self, breach: &Breach, sequence: &Sequence) -> Violation {
        let breach = sequence.breach.as_ref().unwrap_or(breach);
        let mut told = sequence.table();
        if let Some(folder) = &self.cx.config().effort.regressions {
            let case = case(self.cx, self.seed, BreachText::from(breach));
            told.push(Case { steps: sequence.steps.clone(), ..case }.store_in(folder));
        }
        Violation::from(breach.clone()).told(told)
    }
}
