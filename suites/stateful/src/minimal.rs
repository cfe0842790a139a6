//! The shortest and plainest sequence that shows the fault that a longer one has shown.

use std::time::{Duration, Instant};

use csi_harness::prelude::*;

use crate::budget::Budget;
use crate::model::expectation::Breach;
use crate::record::Found;
use crate::sequence::{Doing, Item, Pace, Sequence};
use crate::shrink::Shrinker;
use crate::trial::Trial;

/// Sequences made at the most to shorten one.
const SHRINK_TRIES_MAX: u32 = 400;
/// How long a call is insisted on while a sequence is shortened.
const SHRINK_INSISTS: Duration = Duration::from_secs(1);

impl Trial<'_> {
    /// The smallest sequence found that shows the same fault as this one. `None` if the driver only needed time.
    ///
    /// # Errors
    /// Broken if a path cannot be made, or what the last sequence has made cannot be undone.
    pub(crate) async fn minimal(&self, found: Sequence, budget: &Budget) -> CheckResult<Option<Sequence>> {
        let Some(breach) = found.breach.clone() else { return Ok(None) };
        let smallest = self.shrunk(found, &breach, budget).await?;
        // Without deletions and lists there is nothing that time could change, and what was insisted on had its time.
        if !smallest.takes_time() || breach.rule == &req::GEN_TIMEOUT_002 {
            return Ok(Some(smallest));
        }
        let _confirming = self.cx.begin(Part::Confirming);
        let settles = self.cx.settle_limit();
        let pace = Pace { until: Instant::now() + self.cx.remaining(), insists: settles, settles };
        let slow = self.attempt(pace, &items(smallest.doings())).await?;
        Ok(is_the_same(&slow, &breach).then_some(slow))
    }

    /// What is to be told of a contradiction: the smallest sequence of calls one after another that shows the same, or else the
    /// calls at the same time. `None` if the driver only needed time.
    pub(crate) async fn without_overlaps(mut self, found: &Found, budget: &Budget) -> Option<Violation> {
        self.terms.known = found.known.clone();
        let at_once = || Some(found.violation.clone());
        let sequence = match self.in_turn(found, budget).await {
            Ok(sequence) if is_the_same(&sequence, &found.breach) => sequence,
            Ok(_) | Err(_) => return at_once(),
        };
        match self.minimal(sequence, budget).await {
            Ok(Some(sequence)) => Some(self.accusation(&found.breach, &sequence)),
            Ok(None) => {
                self.ground.needs_time();
                None
            }
            Err(_) => at_once(),
        }
    }

    /// The calls that led to a contradiction, one after another.
    async fn in_turn(&self, found: &Found, budget: &Budget) -> CheckResult<Sequence> {
        let _shrinking = self.cx.begin(Part::Shrinking);
        let until = budget.shrink_until(self.cx);
        let pace = Pace { until, insists: SHRINK_INSISTS, settles: Duration::ZERO };
        let items: Vec<Item> = found.in_turn.iter().cloned().map(Item::from).collect();
        self.attempt(pace, &items).await
    }

    /// The smallest sequence found within the time for it.
    async fn shrunk(&self, found: Sequence, breach: &Breach, budget: &Budget) -> CheckResult<Sequence> {
        let _shrinking = self.cx.begin(Part::Shrinking);
        let until = budget.shrink_until(self.cx);
        let pace = Pace { until, insists: SHRINK_INSISTS, settles: Duration::ZERO };
        let mut shrinker = Shrinker::new(found.links.clone(), &self.terms);
        let mut smallest = found;
        for _ in 0..SHRINK_TRIES_MAX {
            let Some(doings) = shrinker.candidate().filter(|_| Instant::now() < until) else { break };
            // What cannot be undone any more would only get worse.
            let Ok(sequence) = self.attempt(pace, &items(doings)).await else { break };
            let fails = is_the_same(&sequence, breach);
            shrinker.tell(fails.then(|| sequence.links.clone()));
            if fails && sequence.steps.len() <= smallest.steps.len() {
                smallest = sequence;
            }
        }
        Ok(smallest)
    }
}

fn items(doings: Vec<Doing>) -> Vec<Item> {
    doings.into_iter().map(Item::Doing).collect()
}

/// Whether a sequence shows the same fault, and no other one of the same rule.
fn is_the_same(sequence: &Sequence, breach: &Breach) -> bool {
    sequence.breach.as_ref().is_some_and(|other| other.fault() == breach.fault())
}
