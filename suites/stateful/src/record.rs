//! Records the calls of parallel callers, to be judged afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_harness::resources::machine;
use csi_harness::spec::verdict::ReproductionStep;
use csi_model::answer::{Answer, Response, SnapshotResponse};
use csi_model::call::{Call, CreateSpec, Size, SnapshotCall, Usage, VolumeCall};
use csi_model::call_context::{DriverProfile, Time};
use csi_model::expectation::{Breach, Known};
use csi_model::history::{Entry, History, Report, Timeline, Unordered, check};
use csi_model::names::{Id, Name};
use csi_nemesis::disruption::Disruption;
use csi_proto::lock::Mutex;
use tokio::sync::watch;

use crate::case::{BreachText, Case};
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::orchestrator::{Made, Orchestrator, Tries};
use crate::reported::Reported;
use crate::sequence::{case, reproduction, step};
use crate::shrink::{is_about, related};

/// Times that a call is made while its result is open; a driver that says "not now" each time is left alone.
const TRIES_MAX: u32 = 20;
/// The number in the names of objects that no other call is about.
const ALONE: u16 = 101;
/// The time that a caller waits before it repeats a call.
const PAUSE: Duration = Duration::from_millis(20);

/// Callers on one name space, and what they did.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    cx: Cx,
    profile: DriverProfile,
    orchestrator: Orchestrator,
    made: Arc<Mutex<Vec<(u16, Call, Made)>>>,
    ends: Arc<Mutex<Vec<End>>>,
    seen: Arc<watch::Sender<BTreeMap<Moment, u32>>>,
}

/// A moment at which the driver can be disrupted: a call of an RPC begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moment {
    /// A call of this RPC begins.
    Begins(&'static str),
    /// A call of this RPC is answered.
    Ends(&'static str),
}

/// An end of the driver among the calls.
#[derive(Clone, Copy, Debug)]
struct End {
    by: &'static Disruption,
    at: Time,
    back: Option<Time>,
}

impl End {
    /// Describes the end in a line, for a report whose first call began at `first`.
    fn described(&self, first: Time) -> String {
        let when = match self.at.checked_sub(first) {
            Some(after) => format!("{} ms after the first of them began", after.as_millis()),
            None => "before the first of them began".to_owned(),
        };
        let back =
            self.back.map(|back| format!(", and answered again {} ms later", (back - self.at).as_millis()));
        format!("  the driver was {} {when}{}", self.by.participle(), back.unwrap_or_default())
    }
}

impl Recorder {
    pub(crate) fn new(cx: &Cx, probed: &Arc<ProbedDriver>) -> Recorder {
        let orchestrator = Orchestrator::new(cx.clone(), probed, Tries::One).keeping_wire();
        Recorder {
            cx: cx.clone(),
            profile: probed.profile(cx),
            orchestrator,
            made: Arc::default(),
            ends: Arc::default(),
            seen: Arc::default(),
        }
    }

    pub(crate) fn orchestrator(&self) -> &Orchestrator {
        &self.orchestrator
    }

    /// Makes a call as one of several callers. `None` if it speaks of something that was never made.
    pub(crate) async fn make(&self, worker: u16, call: impl Into<Call>) -> CheckResult<Option<Made>> {
        let call = call.into();
        self.sees(Moment::Begins(call.method()));
        let made = self.orchestrator.worker(worker).make(&call).await?;
        self.sees(Moment::Ends(call.method()));
        if let Some(made) = &made {
            self.made.lock().push((worker, call, made.clone()));
        }
        Ok(made)
    }

    /// Makes a call until the driver has done or rejected it, a limited number of times and not again after `until`. Returns true if it is
    /// done.
    pub(crate) async fn make_until_definite(
        &self,
        worker: u16,
        call: Call,
        until: Option<Instant>,
    ) -> CheckResult<bool> {
        for _ in 0..TRIES_MAX {
            if until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            match self.make(worker, call.clone()).await?.map(|made| made.answer) {
                Some(Answer::Done(_)) => return Ok(true),
                Some(answer) if answer.leaves_open() => self.pause().await,
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Makes two calls in parallel.
    pub(crate) async fn at_once(&self, first: u16, calls: [Call; 2]) -> CheckResult {
        let [one, other] = calls;
        let (one, other) = tokio::join!(self.make(first, one), self.make(first + 1, other));
        one.and(other).map(|_| ())
    }

    /// Takes a snapshot of a volume that no other call is about, and asks for it again once the clock shows another second: a driver that
    /// answers with the current time does so in every run, and not only where two calls happen to be far apart.
    pub(crate) async fn take_snapshot_twice(&self, usage: Usage) -> CheckResult {
        let (name, volume) = (Name::snapshot(ALONE), Name::volume(ALONE));
        let wanted = CreateSpec::of(Size::at_least(self.profile.size_bytes), usage);
        let create = VolumeCall::CreateVolume { name: volume, wanted };
        let take = || Call::from(SnapshotCall::CreateSnapshot { name, volume: volume.id(0) });
        if !self.profile.has(Capability::CreateDeleteSnapshot)
            || !self.make_until_definite(0, create.into(), None).await?
            || !self.make_until_definite(0, take(), None).await?
        {
            return Ok(());
        }
        let first = self.creation_time(name);
        self.make_until_definite(0, take(), None).await?;
        // A part of a second that comes twice is not of the current time.
        let is_fixed = first.is_some_and(|(_, nanos)| nanos != 0) && self.creation_time(name) == first;
        if !is_fixed {
            self.cx.wait_for_next_second().await;
            self.make_until_definite(0, take(), None).await?;
        }
        Ok(())
    }

    /// The creation_time of a snapshot in the last response.
    fn creation_time(&self, wanted: Name) -> Option<(i64, i32)> {
        self.made.lock().iter().rev().find_map(|(_, call, made)| match (call, &made.answer) {
            (
                Call::Snapshot(SnapshotCall::CreateSnapshot { name, .. }),
                Answer::Done(Response::Snapshot(SnapshotResponse::Seen(facts))),
            ) if *name == wanted => facts.creation_time,
            _ => None,
        })
    }

    /// Waits for a while after the driver has said "not now".
    pub(crate) async fn pause(&self) {
        self.cx.wait(Settles::Everything, PAUSE, PAUSE).await;
    }

    fn sees(&self, moment: Moment) {
        self.seen.send_modify(|seen| *seen.entry(moment).or_default() += 1);
    }

    /// Waits until the recorder has seen a moment this many times more than now.
    pub(crate) async fn reaches(&self, moment: Moment, times: u32) {
        let mut seen = self.seen.subscribe();
        let often = |seen: &BTreeMap<Moment, u32>| seen.get(&moment).copied().unwrap_or_default();
        let before = often(&seen.borrow());
        // The other end is kept by this recorder.
        let _ = seen.wait_for(|seen| often(seen) >= before + times).await;
    }

    /// Notes that the driver is ended now.
    pub(crate) fn disrupted(&self, by: &'static Disruption) {
        self.ends.lock().push(End { by, at: self.orchestrator.now(), back: None });
    }

    /// Notes that it answers again.
    pub(crate) fn is_back(&self) {
        if let Some(end) = self.ends.lock().last_mut() {
            end.back = Some(self.orchestrator.now());
        }
    }

    /// Adds the calls that were under way to the violation of a driver that has not come back.
    pub(crate) fn with_calls_under_way(&self, stop: Stop, by: &Disruption) -> Stop {
        let Stop::Violation(violation) = stop else { return stop };
        let made = self.made.lock();
        let unanswered = || made.iter().filter(|(_, _, made)| made.answer == Answer::Unknown);
        let mut lines = vec!["calls under way when it ended".to_owned()];
        lines.extend(unanswered().map(|(worker, call, _)| format!("  worker {worker:<3} {call}")));
        let calls: Vec<_> = unanswered()
            .map(|(worker, call, made)| step(*worker, call.clone(), Vec::new(), made.clone()))
            .collect();
        let mut steps = reproduction(&calls);
        let end =
            format!("the driver is {} while it works on these calls, and started again", by.participle());
        steps.push(ReproductionStep::by_hand(end));
        violation.transcript(lines).reproduction(steps).into()
    }

    /// Judges all recorded calls, and reports their faults. Returns true if there was something new to report.
    pub(crate) fn judge(&self, seed: u64, reported: &mut Reported) -> bool {
        let found = self.found(seed, reported);
        found.iter().for_each(|one| reported.blame(&one.breach, one.violation.clone()));
        !found.is_empty()
    }

    /// Judges all recorded calls. Returns the faults that this check has claimed, and has to report now.
    pub(crate) fn found(&self, seed: u64, reported: &mut Reported) -> Vec<Found> {
        let judged = self.judged(reported);
        let new = judged.report.unordered.iter().filter(|unordered| reported.claim(&unordered.breach));
        new.map(|unordered| Found {
            violation: self.accusation(&judged, unordered, seed),
            breach: unordered.breach.clone(),
            in_turn: in_turn(&judged.history, unordered)
                .into_iter()
                .map(|entry| entry.call.clone())
                .collect(),
            known: judged.history.profile.known.clone(),
        })
        .collect()
    }

    /// Judges all recorded calls, but only warns, because nothing can be held against the driver.
    pub(crate) fn remark(&self, seed: u64, reported: &mut Reported) {
        let judged = self.judged(reported);
        if let Some(unordered) = judged.report.unordered.first() {
            self.cx.warn(self.accusation(&judged, unordered, seed));
        }
    }

    fn judged(&self, reported: &mut Reported) -> Judged {
        let mut made = std::mem::take(&mut *self.made.lock());
        made.sort_by_key(|(_, _, made)| made.span.invoked);
        let entry = |(worker, call, made): &(u16, Call, Made)| Entry {
            worker: *worker,
            call: call.clone(),
            // Such a rejection says nothing of the driver, and the call may have done a part of its work.
            answer: match machine::lacks_right(&made.recorded.message) {
                Some(_) => Answer::Unknown,
                None => self.orchestrator.answer(made),
            },
            span: made.span,
        };
        let was_ended = !self.ends.lock().is_empty();
        let profile = DriverProfile { known: reported.known(), was_ended, ..self.profile.clone() };
        let history = History { profile, entries: made.iter().map(entry).collect() };
        let report = check(&history);
        reported.add(&report, &history.profile.known);
        Judged { made, history, report }
    }

    fn accusation(&self, judged: &Judged, unordered: &Unordered, seed: u64) -> Violation {
        let Judged { made, history, .. } = judged;
        let mut lines = vec!["calls whose answers contradict each other".to_owned()];
        let timeline = Timeline::new(history, unordered);
        lines.extend(timeline.lines());
        let spans = unordered.calls.iter().filter_map(|place| made.get(*place)).map(|(_, _, made)| made.span);
        let first = spans.clone().map(|span| span.invoked).min().unwrap_or_default();
        let last = spans.map(|span| span.returned).max().unwrap_or(Time::MAX);
        // An end after the last answer explains nothing.
        lines.extend(self.ends.lock().iter().filter(|end| end.at <= last).map(|end| end.described(first)));
        if let Some(folder) = &self.cx.config().effort.regressions {
            let steps = made.iter().cloned();
            let steps = steps.map(|(worker, call, made)| step(worker, call, Vec::new(), made));
            let disruptions = self.ends.lock().iter().map(|end| end.by.after(end.at)).collect();
            let case = case(&self.cx, seed, BreachText::from(&unordered.breach));
            let case = Case { steps: steps.collect(), disruptions, ..case };
            lines.push(case.store_in(folder));
        }
        let reproduction = self.reproduction(judged, unordered);
        Violation::from(unordered.breach.clone())
            .transcript(lines)
            .timeline(timeline.into_spans())
            .reproduction(reproduction)
    }

    /// The calls that contradict each other and those that made their objects, in the order of their ends, and the ends of the driver
    /// among them.
    fn reproduction(&self, judged: &Judged, unordered: &Unordered) -> Vec<ReproductionStep> {
        let matter: BTreeSet<(u16, Time)> = with_makers(&judged.history, unordered)
            .into_iter()
            .map(|entry| (entry.worker, entry.span.invoked))
            .collect();
        let matters = |(worker, _, made): &&(u16, Call, Made)| matter.contains(&(*worker, made.span.invoked));
        let calls = judged.made.iter().filter(matters).map(|(worker, call, made)| {
            let returned = made.span.returned;
            (returned, reproduction(&[step(*worker, call.clone(), Vec::new(), made.clone())]))
        });
        let ends = self.ends.lock();
        let ends = ends.iter().map(|end| {
            let what = format!("the driver is {}, and started again", end.by.participle());
            (end.at, vec![ReproductionStep::by_hand(what)])
        });
        let mut steps: Vec<(Time, Vec<ReproductionStep>)> = calls.collect();
        if steps.iter().all(|(_, calls)| calls.is_empty()) {
            return Vec::new();
        }
        steps.extend(ends);
        steps.sort_by_key(|(at, _)| *at);
        steps.into_iter().flat_map(|(_, steps)| steps).collect()
    }
}

/// The recorded calls with the judgement on them.
struct Judged {
    made: Vec<(u16, Call, Made)>,
    history: History,
    report: Report,
}

#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) violation: Violation,
    pub(crate) breach: Breach,
    /// The calls that led there, in the order of a sequence.
    pub(crate) in_turn: Vec<Call>,
    /// The faults that were tolerated by then.
    pub(crate) known: Known,
}

/// The calls about what has no order and about what that was made from, up to the last one that matters, by their ends.
fn in_turn<'a>(history: &'a History, unordered: &Unordered) -> Vec<&'a Entry> {
    let matter = unordered.calls.iter().filter_map(|place| history.entries.get(*place));
    let end = matter.map(|entry| entry.span.returned).max().unwrap_or_default();
    let mut entries: Vec<_> = history.entries.iter().filter(|entry| entry.span.returned <= end).collect();
    entries.sort_by_key(|entry| entry.span.returned);
    let calls: Vec<&Call> = entries.iter().map(|entry| &entry.call).collect();
    let names = related([unordered.name].into(), &calls);
    entries.retain(|entry| entry.call.subject().is_none() || is_about(&entry.call, &names));
    entries
}

/// The calls that have no order, and the first calls that gave the ids which these name.
fn with_makers<'a>(history: &'a History, unordered: &Unordered) -> Vec<&'a Entry> {
    let mut kept: Vec<&Entry> =
        unordered.calls.iter().filter_map(|place| history.entries.get(*place)).collect();
    let mut at = 0;
    while let Some(entry) = kept.get(at) {
        let maker = |id: Id| {
            let mut before = history.entries.iter().filter(|other| other.span.invoked < entry.span.invoked);
            before.find(|other| other.call.makes().is_some() && other.answer.id_given() == Some(id))
        };
        let makers: Vec<&Entry> = entry.call.ids().into_iter().filter_map(maker).collect();
        let is_new = |maker: &&Entry| !kept.iter().any(|other| std::ptr::eq(*other, *maker));
        let makers: Vec<&Entry> = makers.into_iter().filter(is_new).collect();
        kept.extend(makers);
        at += 1;
    }
    kept
}
