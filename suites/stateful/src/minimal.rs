//! The shortest and plainest sequence that shows the fault that a longer one has shown.

use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_model::answer::leaves_open;
use csi_model::expectation::Breach;
use csi_model::rules::AFTER_ERROR_005;

use crate::budget::Budget;
use crate::case_runner::CaseRunner;
use crate::record::Found;
use crate::reported::reported_by_other_check;
use crate::sequence::{Pace, PlannedStep, Remark, Sequence, Step, reproduction};
use crate::shrink::Shrinker;

/// The number of calls after which shortening a sequence ends. Calls are counted, so that the result is as short on a
/// busy machine as on an idle one.
const SHRINK_CALLS_MAX: usize = 1_200;
/// The number of calls after which shortening the sequence of a warning ends. A driver can give reason for many of them.
const SHRINK_CALLS_OF_WARNING_MAX: usize = 60;
/// Largest number of repetitions of a sequence to confirm that it shows the fault.
const CONFIRMATIONS_MAX: u32 = 3;
/// Number of repetitions of a sequence with a broken-off call until a refusal is seen twice: the machine decides what
/// the break meets.
const BROKEN_OFF_TRIES_MAX: u32 = 8;
/// The time for which a call is repeated while a sequence is shortened.
const SHRINK_INSISTS: Duration = Duration::from_secs(1);

/// The result of shortening a sequence that has shown a fault.
#[derive(Debug)]
pub(crate) enum Smallest {
    /// The smallest sequence found that shows it, and how often it came.
    Shows(Sequence, Played),
    /// The driver only needed time.
    NeedsTime,
    /// The rejection did not come again.
    Once,
    /// Another check reports it by now.
    ReportedElsewhere,
}

/// The result of making the failing sequence again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Played {
    /// The fault has come again.
    Again,
    /// The fault has come once in this many plays.
    Once { of: u32 },
    /// The sequence could not be made again.
    NotAgain,
}

impl Played {
    /// The accusation, which says so.
    pub(crate) fn of(self, accusation: Violation) -> Violation {
        match self {
            Played::Again => accusation.replayed(2, 2),
            Played::Once { of } => accusation.replayed(1, of),
            Played::NotAgain => accusation,
        }
    }
}

impl CaseRunner<'_> {
    /// The smallest sequence found that shows this fault.
    pub(crate) async fn minimal(
        &self,
        found: Sequence,
        breach: &Breach,
        budget: &Budget,
    ) -> CheckResult<Smallest> {
        let shows = |sequence: &Sequence| is_the_same(sequence, breach);
        let smallest = self.shrunk(found, breach, &shows, SHRINK_CALLS_MAX, budget).await?;
        if reported_by_other_check(self.cx, breach).is_some() {
            return Ok(Smallest::ReportedElsewhere);
        }
        // Without deletions and lists, time could not change the result, and calls that were repeated had their time.
        let takes_time = smallest.takes_time() && breach.rule != &AFTER_ERROR_005;
        // A code that says nothing of the request may be of other calls at the time.
        let may_be_of_others = breach.code.is_some_and(leaves_open);
        if !takes_time && !may_be_of_others {
            return self.confirmed(smallest, breach, budget).await;
        }
        let _confirming = self.cx.begin(Part::Confirming);
        let whole = self.cx.settle_limit_of(&smallest.settles()).max(self.profile.settle);
        let settles = if takes_time { whole } else { Duration::ZERO };
        let pace = Pace { until: Instant::now() + self.cx.remaining(), insists: whole, settles };
        let tries = if smallest.is_broken_off() { BROKEN_OFF_TRIES_MAX } else { 1 };
        for _ in 0..tries {
            let again = self.attempt_to_report(pace, &items(smallest.doings())).await?;
            if is_the_same(&again, breach) {
                return Ok(Smallest::Shows(again, Played::Again));
            }
        }
        Ok(if takes_time { Smallest::NeedsTime } else { Smallest::Once })
    }

    /// The warning for a remark, with a short sequence of calls that gives reason for it, if one is found.
    pub(crate) async fn warning(
        &self,
        sequence: &Sequence,
        remark: &Remark,
        budget: &Budget,
    ) -> CheckResult<Violation> {
        let breach = &remark.breach;
        let shows = |sequence: &Sequence| sequence.ends_with(breach);
        let found = sequence.until(remark);
        let smallest = self.shrunk(found, breach, &shows, SHRINK_CALLS_OF_WARNING_MAX, budget).await?;
        let _confirming = self.cx.begin(Part::Confirming);
        let pace = Pace { until: budget.until(), insists: self.cx.settle_limit(), settles: Duration::ZERO };
        let again = self.attempt_to_report(pace, &items(smallest.doings())).await?;
        let warning = Violation::from(breach.clone());
        Ok(match shows(&again) {
            true => warning.transcript(again.table()).reproduction(reproduction(&again.steps)),
            false => warning,
        })
    }

    /// The report of a contradiction: the smallest sequence of single calls that shows it, or else the parallel calls.
    /// `None` if the driver only needed time, or another check reports it.
    pub(crate) async fn without_overlaps(mut self, found: &Found, budget: &Budget) -> Option<Violation> {
        self.profile.known = found.known.clone();
        let at_once = || Some(found.violation.clone());
        let sequence = match self.in_turn(found, budget).await {
            Ok(sequence) if is_the_same(&sequence, &found.breach) => sequence,
            Ok(_) | Err(_) => return at_once(),
        };
        match self.minimal(sequence, &found.breach, budget).await {
            // Single calls have shown it by chance. Whether parallel ones show it each time, a repetition of the check decides.
            Ok(Smallest::Shows(_, Played::Once { .. })) => at_once(),
            Ok(Smallest::Shows(sequence, plays)) => Some(plays.of(self.accusation(&found.breach, &sequence))),
            Ok(Smallest::NeedsTime) => {
                self.probed.needs_time();
                None
            }
            Ok(Smallest::ReportedElsewhere) => None,
            Ok(Smallest::Once) | Err(_) => at_once(),
        }
    }

    /// Repeats the sequence until it shows the fault once more. Parts of it that did so while it was shortened do not
    /// count: a driver may have recovered in the meantime.
    async fn confirmed(&self, sequence: Sequence, breach: &Breach, budget: &Budget) -> CheckResult<Smallest> {
        let _confirming = self.cx.begin(Part::Confirming);
        let pace = Pace { until: budget.until(), insists: self.cx.settle_limit(), settles: Duration::ZERO };
        for _ in 0..CONFIRMATIONS_MAX {
            if Instant::now() >= budget.until() {
                return Ok(Smallest::Shows(sequence, Played::NotAgain));
            }
            let again = self.attempt_to_report(pace, &items(sequence.doings())).await;
            match again {
                Ok(again) if is_the_same(&again, breach) => {
                    return Ok(Smallest::Shows(again, Played::Again));
                }
                Ok(again) if again.left.is_none() => {}
                // Continuing could only leave more behind.
                Ok(_) | Err(_) => return Ok(Smallest::Shows(sequence, Played::NotAgain)),
            }
        }
        Ok(Smallest::Shows(sequence, Played::Once { of: 1 + CONFIRMATIONS_MAX }))
    }

    /// The calls that led to a contradiction, one after another.
    async fn in_turn(&self, found: &Found, budget: &Budget) -> CheckResult<Sequence> {
        let _shrinking = self.cx.begin(Part::Shrinking);
        let pace = Pace { until: budget.until(), insists: SHRINK_INSISTS, settles: Duration::ZERO };
        let items: Vec<PlannedStep> = found.in_turn.iter().cloned().map(PlannedStep::from).collect();
        self.attempt(pace, &items).await
    }

    /// The smallest sequence found with `calls_max` calls that still `shows` what was found.
    async fn shrunk(
        &self,
        found: Sequence,
        breach: &Breach,
        shows: &(dyn Fn(&Sequence) -> bool + Sync),
        calls_max: usize,
        budget: &Budget,
    ) -> CheckResult<Sequence> {
        let _shrinking = self.cx.begin(Part::Shrinking);
        let pace = Pace { until: budget.until(), insists: SHRINK_INSISTS, settles: Duration::ZERO };
        let mut shrinker = Shrinker::new(found.links.clone(), &self.profile);
        let (mut smallest, mut calls) = (found, 0);
        while calls < calls_max
            && Instant::now() < budget.until()
            && reported_by_other_check(self.cx, breach).is_none()
            && let Some(doings) = shrinker.candidate()
        {
            let Ok(sequence) = self.attempt(pace, &items(doings)).await else { break };
            if sequence.left.is_some() {
                // Continuing could only leave more behind.
                break;
            }
            // A sequence without calls has a cost, too.
            calls += 1 + sequence.steps.len();
            let fails = shows(&sequence);
            shrinker.take_result(fails.then(|| sequence.links.clone()));
            if fails && sequence.steps.len() <= smallest.steps.len() {
                smallest = sequence;
            }
        }
        Ok(smallest)
    }
}

fn items(doings: Vec<Step>) -> Vec<PlannedStep> {
    doings.into_iter().map(PlannedStep::Step).collect()
}

/// Returns true if a sequence shows this fault, and no other one of its rule.
fn is_the_same(sequence: &Sequence, breach: &Breach) -> bool {
    sequence.breach.as_ref().is_some_and(|other| other.fault() == breach.fault())
}
