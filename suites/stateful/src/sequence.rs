//! Calls one after another, each judged before the next one is made.

use std::time::{Duration, Instant};

use csi_harness::prelude::*;

use csi_proto::code_name;

use crate::case::{BreachText, Case, Driver, FORM, Step};
use crate::model::Model;
use crate::model::answer::Answer;
use crate::model::around::{Terms, Time};
use crate::model::call::{Call, GroupCall, SnapshotCall, VolumeCall};
use crate::model::expectation::Breach;
use crate::model::generate::{Op, generate};
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
    /// How long is waited after each deletion and before each list, so that whatever takes its time is over.
    pub to_settle: Duration,
}

/// Something to do in a sequence.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Whatever call comes into question now.
    Op(Op),
    /// This call.
    Call(Call),
    /// This call, given up by the caller after so long.
    GivenUp(Call, Duration),
    /// This call, whose connection breaks after so long.
    Broken(Call, Duration),
    /// This call, made until the driver says something other than "not now", as long as it may take to settle.
    Insist(Call),
}

impl Item {
    fn call(&self, model: &Model, nth: usize, now: Time) -> Option<Call> {
        match self {
            Item::Op(op) => generate(model, *op, u32::try_from(nth).unwrap_or(u32::MAX), now),
            Item::Call(call) | Item::GivenUp(call, _) | Item::Broken(call, _) | Item::Insist(call) => {
                Some(call.clone())
            }
        }
    }
}

/// Does one thing after another, as long as nothing is wrong.
///
/// # Errors
/// Broken if a path cannot be made.
pub async fn play(
    orchestrator: &Orchestrator,
    terms: &Terms,
    pace: Pace,
    items: &[Item],
) -> CheckResult<Sequence> {
    let mut model = Model::new(terms.clone());
    let mut sequence = Sequence::default();
    for (nth, item) in items.iter().enumerate() {
        if Instant::now() >= pace.until {
            break;
        }
        sequence.used = nth + 1;
        let now = orchestrator.now();
        let Some(call) = item.call(&model, nth, now) else { continue };
        if lists(&call) {
            tokio::time::sleep(pace.to_settle).await;
        }
        let expected = model.expected(&call, now);
        let made = match item {
            Item::GivenUp(_, limit) => orchestrator.make_within(&call, *limit).await?,
            Item::Broken(_, limit) => orchestrator.make_and_break(&call, *limit).await?,
            Item::Insist(_) => orchestrator.insist(&call).await?,
            Item::Op(_) | Item::Call(_) => orchestrator.make(&call).await?,
        };
        let Some(made) = made else { continue };
        let taken = model.take(&call, &made.answer, made.span);
        if let (Item::Insist(_), Answer::PutOff(code)) = (item, &made.answer) {
            match never_done(&call, *code) {
                breach if terms.known.has(&breach) => sequence.remarks.push(breach),
                breach => sequence.breach = Some(breach),
            }
        }
        let is_deletion = deletes(&call) && matches!(made.answer, Answer::Done(_));
        sequence.steps.push(step(0, call, expected, made));
        sequence.remarks.extend(taken.remarks);
        if let Some(Lost::Wrong(breach)) = taken.stop {
            sequence.breach = Some(*breach);
        }
        if sequence.breach.is_some() {
            break;
        }
        if is_deletion {
            tokio::time::sleep(pace.to_settle).await;
        }
    }
    Ok(sequence)
}

/// A call as a step of a case.
pub(crate) fn step(worker: u16, call: Call, expected: Vec<String>, made: Made) -> Step {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    Step {
        call,
        worker,
        from_us: micros(made.span.invoked),
        to_us: micros(made.span.returned),
        request: made.request,
        expected,
        came: made.came,
    }
}

/// What is to be said of a driver that goes on saying "not now".
fn never_done(call: &Call, code: Code) -> Breach {
    Breach {
        rule: &req::GEN_TIMEOUT_002,
        message: format!("{} is put off for ever after a call that got no answer", call.method()),
        expected: "the work picked up where it stood, and OK once it is done".to_owned(),
        actual: code_name(code).to_owned(),
        code: Some(code),
        leaves_doubt: true,
    }
}

fn lists(call: &Call) -> bool {
    matches!(call, Call::ListVolumes | Call::ListSnapshots)
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
    /// Whether time may change what was seen: something was deleted or listed.
    pub fn takes_time(&self) -> bool {
        self.steps.iter().any(|step| deletes(&step.call) || lists(&step.call))
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
}

/// A case without steps, of a check on its driver.
pub(crate) fn case(cx: &Cx, seed: u64, breach: BreachText) -> Case {
    let target = cx.target();
    let capabilities =
        Capability::ALL.iter().copied().filter(|one| target.capabilities().has(*one)).collect();
    Case {
        csi_sanity_case: FORM,
        check: cx.label().to_owned(),
        seed,
        breach,
        driver: Driver {
            name: target.info().name.clone(),
            version: target.info().vendor_version.clone(),
            capabilities,
        },
        names: Default::default(),
        steps: Vec::new(),
    }
}
