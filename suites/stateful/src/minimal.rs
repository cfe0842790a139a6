//! The shortest and plainest sequence that shows the fault that a longer one has shown.

use std::time::{Duration, Instant};

use csi_harness::prelude::*;

use crate::after_error::rules::AFTER_ERROR_005;
use crate::budget::Budget;
use crate::case_runner::CaseRunner;
use crate::model::answer::leaves_open;
use crate::model::expectation::Breach;
use crate::record::Found;
use crate::reported::told_elsewhere;
use crate::sequence::{Doing, Item, Pace, Sequence};
use crate::shrink::Shrinker;

/// Sequences made at the most to shorten one.
const SHRINK_TRIES_MAX: u32 = 400;
/// How often a sequence with a call that is broken off is made again to see a refusal twice: what the break meets, the machine decides.
const BROKEN_OFF_TRIES_MAX: u32 = 8;
/// How long a call is insisted on while a sequence is shortened.
const SHRINK_INSISTS: Duration = Duration::from_secs(1);

/// What is left of a fault that a sequence has shown.
#[derive(Debug)]
pub(crate) enum Smallest {
    /// The smallest sequence found that shows it.
    Shows(Sequence),
    /// The driver only needed time.
    NeedsTime,
    /// The rejection did not come again.
    Once,
    /// Another check has come to tell it meanwhile.
    ToldElsewhere,
}

impl CaseRunner<'_> {
    /// The smallest sequence found that shows the same fault as this one.
    ///
    /// # Errors
    /// Broken if a path cannot be made, or what the last sequence has made cannot be undone.
    pub(crate) async fn minimal(
        &self,
        found: Sequence,
        breach: &Breach,
        budget: &Budget,
    ) -> CheckResult<Smallest> {
        let (smallest, comes_again) = self.shrunk(found, breach, budget).await?;
        if told_elsewhere(self.cx, breach).is_some() {
            return Ok(Smallest::ToldElsewhere);
        }
        // Without deletions and lists there is nothing that time could change, and what was insisted on had its time.
        let takes_time = smallest.takes_time() && breach.rule != &AFTER_ERROR_005;
        // A code that says nothing of the request may be of other calls at the time.
        let may_be_of_others = !comes_again && breach.code.is_some_and(leaves_open);
        if !takes_time && !may_be_of_others {
            return Ok(Smallest::Shows(smallest));
        }
        let _confirming = self.cx.begin(Part::Confirming);
        let whole = self.cx.settle_limit_of(&smallest.settles()).max(self.profile.settle);
        let settles = if takes_time { whole } else { Duration::ZERO };
        let pace = Pace { until: Instant::now() + self.cx.remaining(), insists: whole, settles };
        let tries = if smallest.is_broken_off() { BROKEN_OFF_TRIES_MAX } else { 1 };
        for _ in 0..tries {
            let again = self.attempt_to_report(pace, &items(smallest.doings())).await?;
            if is_the_same(&again, breach) {
                return Ok(Smallest::Shows(again));
            }
        }
        Ok(if takes_time { Smallest::NeedsTime } else { Smallest::Once })
    }

    /// What is to be told of a contradiction: the smallest sequence of calls one after another that shows the same, or else the
    /// calls at the same time. `None` if the driver only needed time, or another check tells it.
    pub(crate) async fn without_overlaps(mut self, found: &Found, budget: &Budget) -> Option<Violation> {
        self.profile.known = found.known.clone();
        let at_once = || Some(found.violation.clone());
        let sequence = match self.in_turn(found, budget).await {
            Ok(sequence) if is_the_same(&sequence, &found.breach) => sequence,
            Ok(_) | Err(_) => return at_once(),
        };
        match self.minimal(sequence, &found.breach, budget).await {
            Ok(Smallest::Shows(sequence)) => Some(self.accusation(&found.breach, &sequence)),
            Ok(Smallest::NeedsTime) => {
                self.probed.needs_time();
                None
            }
            Ok(Smallest::ToldElsewhere) => None,
            Ok(Smallest::Once) | Err(_) => at_once(),
        }
    }

    /// The calls that led to a contradiction, one after another.
    async fn in_turn(&self, found: &Found, budget: &Budget) -> CheckResult<Sequence> {
        let _shrinking = self.cx.begin(Part::Shrinking);
        let until = budget.shrink_until();
        let pace = Pace { until, insists: SHRINK_INSISTS, settles: Duration::ZERO };
        let items: Vec<Item> = found.in_turn.iter().cloned().map(Item::from).collect();
        self.attempt_to_report(pace, &items).await
    }

    /// The smallest sequence found within the time for it, and whether it was seen more than once.
    async fn shrunk(
        &self,
        found: Sequence,
        breach: &Breach,
        budget: &Budget,
    ) -> CheckResult<(Sequence, bool)> {
        let _shrinking = self.cx.begin(Part::Shrinking);
        let until = budget.shrink_until();
        let pace = Pace { until, insists: SHRINK_INSISTS, settles: Duration::ZERO };
        let mut shrinker = Shrinker::new(found.links.clone(), &self.profile);
        let (mut smallest, mut comes_again) = (found, false);
        for _ in 0..SHRINK_TRIES_MAX {
            let is_over = Instant::now() >= until || told_elsewhere(self.cx, breach).is_some();
            let Some(doings) = shrinker.candidate().filter(|_| !is_over) else { break };
            // What cannot be undone any more would only get worse.
            let Ok(sequence) = self.attempt_to_report(pace, &items(doings)).await else { break };
            let fails = is_the_same(&sequence, breach);
            comes_again |= fails;
            shrinker.tell(fails.then(|| sequence.links.clone()));
            if fails && sequence.steps.len() <= smallest.steps.len() {
                smallest = sequence;
            }
        }
        if !smallest.has_messages()
            && let Ok(sequence) = self.attempt_to_report(pace, &items(smallest.doings())).await
            && is_the_same(&sequence, breach)
        {
            smallest = sequence;
        }
        Ok((smallest, comes_again))
    }
}

fn items(doings: Vec<Doing>) -> Vec<Item> {
    doings.into_iter().map(Item::Doing).collect()
}

/// Whether a sequence shows the same fault, and no other one of the same rule.
fn is_the_same(sequence: &Sequence, breach: &Breach) -> bool {
    sequence.breach.as_ref().is_some_and(|other| other.fault() == breach.fault())
}
