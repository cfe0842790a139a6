//! Calls one after another, each judged before the next one is made.

use std::time::{Duration, Instant};

use csi_harness::driver::SystemCall;
use csi_harness::prelude::*;
use csi_harness::spec::verdict::ReproductionStep;
use csi_model::Model;
use csi_model::answer::Answer;
use csi_model::call::{Call, GroupCall, List, SnapshotCall, VolumeCall};
use csi_model::call_context::{DriverProfile, Time};
use csi_model::expectation::Breach;
use csi_model::generate::{CopySize, Op, generate};
use csi_model::names::{Id, Name, Node, Slot, Stamp, Target, legend};
use csi_model::rules::AFTER_ERROR_005;
use csi_model::state_set::Impossible;
use csi_proto::{RPCS, code_name};

use crate::case::{BreachText, Case, CaseStep, Driver, FORM};
use crate::how::CallMode;
use crate::orchestrator::{Made, Orchestrator};

/// The shortest time that an orchestrator waits before its next call after a call that it gave up. Kubelet and the
/// sidecars back off for longer; without any pause, the driver's threads decide which call begins first.
const BACKS_OFF: Duration = Duration::from_millis(50);

/// The result of a sequence.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// The calls that were made; the last one broke the rule.
    pub steps: Vec<CaseStep>,
    /// The calls in a form in which they can be made again.
    pub(crate) links: Vec<ExecutedStep>,
    /// The rule that was broken.
    pub breach: Option<Breach>,
    /// Recommendations that were not kept, and answers that are only tolerated.
    pub remarks: Vec<Remark>,
    /// The reason why something that it made cannot be undone, if it broke no rule.
    pub(crate) left: Option<String>,
}

/// A recommendation that a call of a sequence did not keep, or an answer that is only tolerated.
#[derive(Clone, Debug)]
pub struct Remark {
    pub breach: Breach,
    /// The place of the call among the steps.
    pub(crate) at: usize,
}

/// A call of a sequence that was made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExecutedStep {
    pub(crate) doing: Step,
    /// The id that it gave.
    pub(crate) gives: Option<Id>,
    /// True if another step is missing before it.
    pub(crate) is_early: bool,
    /// The changes of files and mounts that the driver made for it, if it was to be killed before one of them.
    pub(crate) changes: Vec<SystemCall>,
}

/// Keeps to the time of a check.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The time after which no more calls are begun.
    pub until: Instant,
    /// The time for which a call is repeated while the driver puts it off.
    pub insists: Duration,
    /// The time to wait before the last call, so that slow changes are over.
    pub settles: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub enum PlannedStep {
    /// Any call of this kind that is possible in the present state.
    Op(Op),
    /// A certain call.
    Step(Step),
    /// A copy under a name, with the room that its source has by then.
    Copy(Name, Id, CopySize, CallMode),
    /// A workload on the first node writes.
    Write(Id, Target, Slot),
}

/// A call, and how it is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub call: Call,
    pub how: CallMode,
}

impl Step {
    /// The call made once, and its answer waited for.
    pub fn once(call: Call) -> Step {
        Step { call, how: CallMode::Once }
    }

    fn is_given_up(&self) -> bool {
        self.how.given_up_after().is_some()
    }
}

impl From<CaseStep> for PlannedStep {
    fn from(CaseStep { call, how, .. }: CaseStep) -> PlannedStep {
        PlannedStep::Step(Step { call, how })
    }
}

impl From<Call> for PlannedStep {
    fn from(call: Call) -> PlannedStep {
        PlannedStep::Step(Step::once(call))
    }
}

impl PlannedStep {
    fn doing(&self, model: &Model, nth: usize, now: Time) -> Option<Step> {
        match self {
            PlannedStep::Op(op) => {
                generate(model, *op, u32::try_from(nth).unwrap_or(u32::MAX), now).map(Step::once)
            }
            PlannedStep::Step(doing) => Some(doing.clone()),
            PlannedStep::Copy(name, source, room, how) => {
                let wanted = model.copy_of(*source, *room)?;
                Some(Step { call: VolumeCall::CreateVolume { name: *name, wanted }.into(), how: *how })
            }
            PlannedStep::Write(volume, target, slot) => {
                let (volume, node, target, slot) = (*volume, Node(0), *target, *slot);
                let stamp = Stamp(u32::try_from(nth).unwrap_or(u32::MAX));
                Some(Step::once(VolumeCall::Write { volume, node, target, slot, stamp }.into()))
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
    profile: &DriverProfile,
    pace: Pace,
    items: &[PlannedStep],
) -> CheckResult<Sequence> {
    let mut model = Model::new(profile.clone());
    let mut sequence = Sequence::default();
    for (nth, item) in items.iter().enumerate() {
        if Instant::now() >= pace.until {
            break;
        }
        let Some(doing) = item.doing(&model, nth, orchestrator.now()) else { continue };
        if nth + 1 == items.len() {
            orchestrator.wait(pace.settles).await;
        }
        let Step { call, how } = &doing;
        if sequence
            .links
            .last()
            .is_some_and(|before| before.doing.is_given_up() && before.doing.call != *call)
        {
            orchestrator.wait(BACKS_OFF).await;
        }
        let expected =
            if orchestrator.keeps_wire() { model.expected(call, orchestrator.now()) } else { Vec::new() };
        let mut changes = Vec::new();
        let made = match *how {
            CallMode::Once => orchestrator.make(call).await?,
            CallMode::Retried => orchestrator.insist(call, pace.insists).await?,
            CallMode::Disrupted(disrupted) => orchestrator.make_disrupted(call, disrupted).await?,
            CallMode::KilledAtChange(nth) => {
                orchestrator.make_killed(call, nth).await?.map(|(made, seen)| {
                    changes = seen;
                    made
                })
            }
        };
        let Some(made) = made else { continue };
        let taken = model.take(call, &made.answer, made.span);
        let at = sequence.steps.len();
        if let (CallMode::Retried, Answer::PutOff(code)) = (how, &made.answer) {
            match never_done(call, *code) {
                breach if profile.known.has(&breach) => sequence.remarks.push(Remark { breach, at }),
                breach => sequence.breach = Some(breach),
            }
        }
        let gives = call.makes().and_then(|_| made.answer.id_given());
        sequence.steps.push(CaseStep { how: *how, ..step(0, call.clone(), expected, made) });
        sequence.links.push(ExecutedStep { doing, gives, is_early: false, changes });
        // The model sees only codes. The words of a driver explain its rejection, and show whether this machine is to blame.
        let explained = |breach: Breach| match breach.code {
            Some(code) => match sequence.steps.last() {
                Some(step) if step.recorded.code == code_name(code) => {
                    Breach { actual: step.recorded.to_string(), ..breach }
                }
                _ => breach,
            },
            None => breach,
        };
        let remarks = taken.remarks.into_iter().map(|breach| Remark { breach: explained(breach), at });
        sequence.remarks.extend(remarks);
        if let Some(Impossible::Wrong(breach)) = taken.stop {
            sequence.breach = Some(explained(*breach));
        }
        if sequence.breach.is_some() {
            break;
        }
    }
    Ok(sequence)
}

pub(crate) fn step(worker: u16, call: Call, expected: Vec<String>, made: Made) -> CaseStep {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    CaseStep {
        call,
        how: CallMode::Once,
        worker,
        from_us: micros(made.span.invoked),
        to_us: micros(made.span.returned),
        request: made.request,
        expected,
        recorded: made.recorded,
    }
}

/// The violation of a driver that keeps saying "not now".
fn never_done(call: &Call, code: Code) -> Breach {
    Breach {
        rule: &AFTER_ERROR_005,
        message: format!("{} is postponed indefinitely after a call that got no answer", call.method()),
        expected: "the work resumed where it stopped, and OK once it is done".to_owned(),
        actual: code_name(code).to_owned(),
        code: Some(code),
        leaves_doubt: true,
        damage: None,
    }
}

fn lists(call: &Call) -> bool {
    matches!(call, Call::List(_))
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
    /// The calls, to be made again.
    pub(crate) fn doings(&self) -> Vec<Step> {
        self.links.iter().map(|link| link.doing.clone()).collect()
    }

    /// The sequence up to and with the call of a remark, as if that had ended it.
    pub(crate) fn until(&self, remark: &Remark) -> Sequence {
        let mut part = self.clone();
        part.steps.truncate(remark.at + 1);
        part.links.truncate(remark.at + 1);
        part.remarks.retain(|other| other.at <= remark.at);
        part
    }

    /// Returns true if the last call gives reason for this remark.
    pub(crate) fn ends_with(&self, remark: &Breach) -> bool {
        let is_last = |other: &&Remark| other.at + 1 == self.steps.len();
        self.remarks.iter().filter(is_last).any(|other| other.breach.fault() == remark.fault())
    }

    /// Returns true if a call did not get the time to be answered.
    pub(crate) fn is_broken_off(&self) -> bool {
        self.steps.iter().any(|step| step.how.disruption().is_some())
    }

    /// Returns true if time may change the result: something was deleted or listed.
    pub fn takes_time(&self) -> bool {
        self.steps.iter().any(|step| deletes(&step.call) || lists(&step.call))
    }

    /// The changes that may need more time.
    pub(crate) fn settles(&self) -> Vec<Settles> {
        let of_call = |step: &CaseStep| match &step.call {
            Call::Volume(VolumeCall::DeleteVolume { .. }) => {
                vec![Settles::VolumeGone, Settles::VolumeUnlisted]
            }
            Call::List(List::Volumes) => vec![Settles::VolumeListed],
            Call::List(List::Snapshots) => vec![Settles::SnapshotListed],
            call if deletes(call) => vec![Settles::SnapshotGone, Settles::SnapshotUnlisted],
            _ => Vec::new(),
        };
        let has_lists = self.steps.iter().any(|step| lists(&step.call));
        let is_looked_for = |what: &Settles| {
            has_lists || !matches!(what, Settles::VolumeUnlisted | Settles::SnapshotUnlisted)
        };
        self.steps.iter().flat_map(of_call).filter(is_looked_for).collect()
    }

    /// The sequence as a table, the step that broke the rule marked.
    pub fn table(&self) -> Vec<String> {
        let width = self.steps.iter().map(|step| step.call.to_string().chars().count()).max().unwrap_or(0);
        let last = self.steps.len();
        let row = |(number, step): (usize, &CaseStep)| {
            let mark = if number == last { '>' } else { ' ' };
            format!("{mark} {number:>3}  {:<width$}  {}{}", step.call.to_string(), step.recorded, step.how)
        };
        let mut lines = vec!["calls, of which the last one breaks the rule".to_owned()];
        lines.extend((1..).zip(&self.steps).map(row));
        lines.extend(legend(self.steps.iter().flat_map(|step| step.call.ids())));
        lines
    }
}

/// The steps as reports have them; none if the messages were not kept. A call that is disrupted has a step before it that says how, unless
/// its caller only gave it up.
pub(crate) fn reproduction(steps: &[CaseStep]) -> Vec<ReproductionStep> {
    let has_messages = steps.iter().any(|step| !step.request.is_null());
    if has_messages { steps.iter().flat_map(reproduction_of).collect() } else { Vec::new() }
}

fn reproduction_of(step: &CaseStep) -> impl Iterator<Item = ReproductionStep> {
    let given_up_after = step.how.given_up_after();
    let disruption = step.how.disruption().filter(|_| given_up_after.is_none());
    let disrupted =
        disruption.map(|by| ReproductionStep::by_hand(format!("while the next call is made: {by}")));
    let method = step.call.method();
    let made = ReproductionStep {
        rpc: RPCS.iter().find(|rpc| rpc.method == method).map(|rpc| rpc.method.to_owned()),
        what: step.call.to_string(),
        request: step.request.clone(),
        code: step.recorded.code.clone(),
        response: step.recorded.response.clone(),
        given_up_after_us: given_up_after.and_then(|after| u64::try_from(after.as_micros()).ok()),
    };
    disrupted.into_iter().chain([made])
}

/// Returns the case of a check without its steps: the driver, the settings and the violation.
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
        disruptions: Vec::new(),
        steps: Vec::new(),
    }
}
