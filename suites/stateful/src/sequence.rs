//! Calls one after another, each judged before the next one is made.

use std::time::{Duration, Instant};

use csi_harness::prelude::*;

use crate::case::{BreachText, Case, Driver, FORM, Step};
use crate::model::Model;
use crate::model::answer::Answer;
use crate::model::around::{Terms, Time};
use crate::model::call::{Call, GroupCall, SnapshotCall, VolumeCall};
use crate::model::expectation::Breach;
use crate::model::possible::Stop as Lost;
use crate::orchestrator::{Made, Orchestrator};

/// What a sequence came to.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// The calls that were made; the last one broke the rule.
    pub steps: Vec<Step>,
    /// How many of the things to do led to them.
    pub used: usize,
    /// The rule that was broken.
    pub breach: Option<Breach>,
    /// Recommendations that were not kept, and answers that are only tolerated.
    pub remarks: Vec<Breach>,
}

/// Keeps to the time of a check.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// When no more calls are to be begun.
    pub until: Instant,
    /// How long is waited after each deletion, so that nothing of it is seen any more.
    pub after_deletion: Duration,
}

/// Makes so many calls, as far as there is something to do and nothing is wrong: `call` says which, from what is known.
///
/// # Errors
/// Broken if a path cannot be made.
pub async fn play(
    orchestrator: &Orchestrator,
    terms: &Terms,
    pace: Pace,
    count: usize,
    mut call: impl FnMut(&Model, usize, Time) -> Option<Call>,
) -> CheckResult<Sequence> {
    let mut model = Model::new(terms.clone());
    let mut sequence = Sequence::default();
    for nth in 0..count {
        if Instant::now() >= pace.until {
            break;
        }
        sequence.used = nth + 1;
        let now = orchestrator.now();
        let Some(call) = call(&model, nth, now) else { continue };
        let expected = model.expected(&call, now);
        let Some(made) = orchestrator.make(&call).await? else { continue };
        let taken = model.take(&call, &made.answer, made.span);
        let is_deletion = deletes(&call) && matches!(made.answer, Answer::Done(_));
        sequence.steps.push(step(call, expected, made));
        sequence.remarks.extend(taken.remarks);
        if let Some(Lost::Wrong(breach)) = taken.stop {
            sequence.breach = Some(*breach);
            break;
        }
        if is_deletion {
            tokio::time::sleep(pace.after_deletion).await;
        }
    }
    Ok(sequence)
}

fn step(call: Call, expected: Vec<String>, made: Made) -> Step {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    Step {
        call,
        worker: 0,
        from_us: micros(made.span.invoked),
        to_us: micros(made.span.returned),
        request: made.request,
        expected,
        came: made.came,
    }
}

fn deletes(call: &Call) -> bool {
    matches!(
        call,
        Call::Volume(VolumeCall::DeleteVolume { .. })
            | Call::Snapshot(SnapshotCall::DeleteSnapshot { .. })
            | Call::Group(GroupCall::DeleteVolumeGroupSnapshot { .. } | GroupCall::DeleteMember { .. })
    )
}

impl Sequence {
    /// Whether something was deleted on the way.
    pub fn deletes(&self) -> bool {
        self.steps.iter().any(|step| deletes(&step.call))
    }

    /// The sequence as a table, the step that broke the rule marked.
    pub fn table(&self) -> Vec<String> {
        let width = self.steps.iter().map(|step| step.call.to_string().chars().count()).max().unwrap_or(0);
        let last = self.steps.len();
        let row = |(number, step): (usize, &Step)| {
            let mark = if number == last { '>' } else { ' ' };
            format!("{mark} {number:>3}  {:<width$}  {}", step.call.to_string(), step.came)
        };
        let mut lines = vec!["calls, of which the last one breaks the rule".to_owned()];
        lines.extend((1..).zip(&self.steps).map(row));
        lines
    }

    /// The sequence as a case to be stored.
    pub fn case(&self, cx: &Cx, seed: u64, breach: &Breach) -> Case {
        let target = cx.target();
        let capabilities =
            Capability::ALL.iter().copied().filter(|one| target.capabilities().has(*one)).collect();
        Case {
            csi_sanity_case: FORM,
            check: cx.label().to_owned(),
            seed,
            breach: BreachText::from(breach),
            driver: Driver {
                name: target.info().name.clone(),
                version: target.info().vendor_version.clone(),
                capabilities,
            },
            names: Default::default(),
            steps: self.steps.clone(),
        }
    }
}
