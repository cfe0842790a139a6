//! Makes the calls of the model on a driver, as an orchestrator would, and remembers between them what an orchestrator
//! has to: ids, contexts and paths. Everything goes through the [`Cx`], so that it is recorded and undone.

mod controller;
mod group;
mod health;
mod memory;
mod node;
mod parameters;
pub mod probed_driver;
mod snapshot;
mod workload;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::client::answer;
use csi_harness::driver::{CallFault, SystemCall};
use csi_harness::prelude::*;
use csi_harness::protocol::effect::is_not_now;
use csi_harness::resources::workload::new_run;
use csi_model::Span;
use csi_model::answer::{Answer, Response};
use csi_model::call::{Call, GroupCall, List, VolumeCall};
use csi_model::call_context::Time;
use csi_model::names::{Id, Name, ObjectKind};
use csi_nemesis::disruption::{Disrupted, Hits};
use csi_nemesis::watched_driver::WatchedDriver;
use csi_proto::lock::Mutex;
use csi_proto::redact;
use serde_json::Value;

use crate::case::RecordedAnswer;
use memory::Memory;
use probed_driver::ProbedDriver;

/// Pauses between two times that a call is insisted on: the first one, and the longest.
const INSIST_PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(500)];

/// The number of times that a call is made while the driver says "not now".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tries {
    /// Once: the answer is judged together with the calls that were under way.
    One,
    /// Once, by a caller that repeats the call itself.
    Next,
    /// A few times, since nothing else is under way.
    Some,
}

/// A caller of the driver. Clones share what they know.
#[derive(Clone, Debug)]
pub struct Orchestrator {
    cx: Cx,
    probed: Arc<ProbedDriver>,
    tries: Tries,
    started: Instant,
    /// Distinguishes the writes of its workloads from all others.
    run: u64,
    keeps_wire: bool,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// The end of the call.
    pub answer: Answer<Response>,
    /// The times of its beginning and end.
    pub span: Span,
    /// The request, without secrets.
    pub request: Value,
    /// The answer, without secrets.
    pub recorded: RecordedAnswer,
    /// The entries of all pages, of a list.
    listing: Listing,
}

/// Entries as they came. Whose they are may be known only once other calls have been answered.
#[derive(Clone, Debug, Default, PartialEq)]
enum Listing {
    #[default]
    None,
    Volumes(u32, Vec<v1::list_volumes_response::Entry>),
    Snapshots(u32, Vec<v1::Snapshot>),
    Health(health::List),
}

impl Orchestrator {
    /// A caller that knows only the probed facts, for calls in a name space of their own.
    pub fn new(cx: Cx, probed: &Arc<ProbedDriver>, tries: Tries) -> Orchestrator {
        let (started, run) = (Instant::now(), new_run());
        let keeps_wire = cx.config().effort.regressions.is_some();
        Orchestrator { cx, probed: probed.clone(), tries, started, run, keeps_wire, memory: Arc::default() }
    }

    /// Keeps what goes over the wire, for a sequence that may be reported. Without that, it is kept only where cases are stored: to put
    /// each message into words takes longer than to send it.
    pub(crate) fn keeping_wire(self) -> Orchestrator {
        Orchestrator { keeps_wire: true, ..self }
    }

    /// An orchestrator for one of several parallel callers.
    pub fn worker(&self, worker: u16) -> Orchestrator {
        Orchestrator { cx: self.cx.worker(worker.into()), ..self.clone() }
    }

    /// The time since the first call.
    pub fn now(&self) -> Time {
        self.started.elapsed()
    }

    /// The end of a call, by the ids that are known now.
    pub fn answer(&self, made: &Made) -> Answer<Response> {
        match (&made.answer, &made.listing) {
            (Answer::Done(_), Listing::Volumes(pages, entries)) => {
                Answer::Done(Response::Volumes(self.listed_volumes(*pages, entries)))
            }
            (Answer::Done(_), Listing::Snapshots(pages, snapshots)) => {
                Answer::Done(Response::Snapshots(self.listed_snapshots(*pages, snapshots)))
            }
            (Answer::Done(_), Listing::Health(list)) => {
                Answer::Done(Response::Volumes(self.listed_health(list)))
            }
            (answer, _) => answer.clone(),
        }
    }

    /// Appends a text to the name that a name of the model stands for.
    pub fn append_to_name(&self, name: Name, text: &str) {
        let unique = self.cx.unique_name();
        self.memory.lock().append_to_name(name, unique, text);
    }

    /// Returns true if the driver has given this id.
    pub fn knows(&self, id: Id) -> bool {
        self.memory.lock().ids.text(id).is_some()
    }

    /// The ids that the driver has given under a name, in their order.
    pub fn ids(&self, name: Name) -> Vec<Id> {
        self.memory.lock().ids.of(name)
    }

    /// Makes a call. `None` if it speaks of something that was never made.
    ///
    /// # Errors
    /// Broken if a path cannot be made.
    pub fn make<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, CheckResult<Option<Made>>> {
        // The box keeps the code of all calls out of every future that awaits this one.
        Box::pin(async move {
            if !self.can_name(call) {
                return Ok(None);
            }
            match call {
                Call::Volume(call @ (VolumeCall::Write { .. } | VolumeCall::Read { .. })) => {
                    self.work(call).await.map(Some)
                }
                Call::Volume(call) => self.volume(call).await.map(Some),
                Call::Snapshot(call) => Ok(Some(self.snapshot(call).await)),
                Call::Group(call) => Ok(Some(self.group(call).await)),
                Call::List(List::Volumes) => Ok(Some(self.list_volumes().await)),
                Call::List(List::Snapshots) => Ok(Some(self.list_snapshots().await)),
                Call::List(List::VolumeHealth) => Ok(Some(self.list_health().await)),
            }
        })
    }

    /// Gives the driver time.
    pub async fn wait(&self, time: Duration) {
        if !time.is_zero() {
            self.cx.wait(Settles::Everything, time, time).await;
        }
    }

    /// Makes a call, and disrupts it.
    ///
    /// # Errors
    /// Broken if a path cannot be made or the driver cannot be disrupted; a violation if it does not come back.
    pub async fn make_disrupted(&self, call: &Call, disrupted: Disrupted) -> CheckResult<Option<Made>> {
        let Disrupted { by, after } = disrupted;
        if !self.can_name(call) {
            return Ok(None);
        }
        if by.hits() == Hits::Driver && self.is_any_served_by_a_process() {
            // The file system may end with the driver, and its mounts with it.
            return self.make(call).await;
        }
        if let Call::Volume(call) = call {
            // Paths are made before, so that the time is that of the call.
            self.make_paths(call).await?;
        }
        let (invoked, before) = (self.now(), self.cx.calls_sent());
        let mut made = self.make(call);
        let answered = tokio::select! {
            made = &mut made => Some(made),
            () = pass(after) => None,
        };
        let made = match (answered, by.hits()) {
            (Some(made), Hits::Call | Hits::Connections) => return made,
            (None, Hits::Call) => {
                drop(made);
                by.inject(&self.cx).await?;
                Ok(Some(self.given_up(call, invoked, before)))
            }
            (Some(made), Hits::Driver) => by.inject(&self.cx).await.and(made),
            (None, Hits::Connections | Hits::Driver) => {
                let (injected, made) = tokio::join!(by.inject(&self.cx), made);
                injected.and(made)
            }
        };
        let made = made?;
        by.heal(&self.cx).await?;
        Ok(made)
    }

    /// Makes a call, and has the driver killed before this change of files or mounts that it makes for it. Returns the changes, too;
    /// there are none where the driver is not killed for the sake of mounts that it serves.
    ///
    /// # Errors
    /// Fails as [`Orchestrator::make_disrupted`] does; skip if the changes of the driver cannot be watched.
    pub async fn make_killed(
        &self,
        call: &Call,
        nth: NonZeroU32,
    ) -> CheckResult<Option<(Made, Vec<SystemCall>)>> {
        if !self.can_name(call) {
            return Ok(None);
        }
        if self.is_any_served_by_a_process() {
            // The file system may end with the driver, and its mounts with it.
            return Ok(self.make(call).await?.map(|made| (made, Vec::new())));
        }
        let watched = WatchedDriver::start(&self.cx).await?;
        watched.arm(nth.get(), CallFault::Kills);
        let made = self.make(call).await;
        let changes = watched.heal();
        watched.end().await?;
        Ok(made?.map(|made| (made, changes)))
    }

    /// A call that is not awaited any more. Its effect is unknown. `before` is the number of calls that were sent before it.
    fn given_up(&self, call: &Call, invoked: Time, before: u64) -> Made {
        let sent = self.cx.last_call().filter(|_| self.cx.calls_sent() > before);
        let request = sent.filter(|sent| sent.rpc.as_deref() == Some(call.method())).map(|sent| sent.request);
        let request = self.kept(|| request.unwrap_or_default());
        let span = Span { invoked, returned: self.now() };
        let recorded =
            RecordedAnswer::new(&Answer::<Response>::Unknown, "given up by the caller", Value::Null);
        Made { answer: Answer::Unknown, span, request, recorded, listing: Listing::None }
    }

    /// Repeats a call until the driver says something other than "not now", or the time is over.
    ///
    /// # Errors
    /// Broken if a path cannot be made.
    pub async fn insist(&self, call: &Call, limit: Duration) -> CheckResult<Option<Made>> {
        let invoked = self.now();
        let (until, once) = (Instant::now() + limit, Orchestrator { tries: Tries::Next, ..self.clone() });
        let mut pause = INSIST_PAUSES[0];
        loop {
            let Some(made) = once.make(call).await? else { return Ok(None) };
            let left = until.saturating_duration_since(Instant::now());
            if !matches!(made.answer, Answer::PutOff(_)) || left.is_zero() {
                return Ok(Some(Made { span: Span { invoked, ..made.span }, ..made }));
            }
            self.cx.wait(Settles::Willing(call.method()), pause.min(left), left).await;
            pause = (pause * 2).min(INSIST_PAUSES[1]);
        }
    }

    /// Returns true if all ids are known that the call names.
    fn can_name(&self, call: &Call) -> bool {
        let others = match call {
            Call::Group(GroupCall::DeleteMember { member, .. }) => vec![*member],
            _ => call.sources(),
        };
        let own = call.subject().and_then(|subject| subject.id());
        own.into_iter().chain(others).all(|id| self.knows(id))
    }

    /// Sends a call; `said` is what the model hears of the response, and `shown` is the response in a stored case.
    async fn send<'a, Q: csi_proto::Call, T: Send + 'a>(
        &self,
        request: &Q,
        calling: PendingCall<'a, T>,
        shown: impl FnOnce(&T) -> Value,
        read: impl FnOnce(&mut Memory, &T) -> Response,
    ) -> Made {
        let invoked = self.now();
        let reply = match self.tries {
            Tries::One | Tries::Next => calling.once().await,
            Tries::Some => calling.sparing().await,
        };
        let returned = self.now();
        let (answer, message, response) = match reply.answer() {
            answer::Answer::Ok(response) => {
                let answer = Answer::Done(read(&mut self.memory.lock(), response));
                (answer, String::new(), self.kept(|| shown(response)))
            }
            answer::Answer::Refused(refused) => {
                (self.refused(Q::RPC.method, refused.code), refused.message.clone(), Value::Null)
            }
            answer::Answer::Unknown(no_answer) => (Answer::Unknown, no_answer.to_string(), Value::Null),
        };
        let recorded = RecordedAnswer::new(&answer, &message, response);
        let sent = || {
            let mut sent = request.clone();
            self.cx.fill_secrets(&mut sent);
            redact::json(&sent)
        };
        let (span, request) = (Span { invoked, returned }, self.kept(sent));
        Made { answer, span, request, recorded, listing: Listing::None }
    }

    /// True if requests and responses are kept as JSON.
    pub(crate) fn keeps_wire(&self) -> bool {
        self.keeps_wire
    }

    fn kept(&self, message: impl FnOnce() -> Value) -> Value {
        if self.keeps_wire { message() } else { Value::Null }
    }

    fn refused(&self, method: &str, code: Code) -> Answer<Response> {
        match self.tries {
            Tries::Some | Tries::Next if is_not_now(method, code) => Answer::PutOff(code),
            Tries::Some | Tries::Next | Tries::One => Answer::Refused(code),
        }
    }

    /// The id as the driver gave it.
    fn text(&self, id: Id) -> String {
        self.memory.lock().ids.text(id).unwrap_or_default().to_owned()
    }

    /// The name on the wire.
    fn name(&self, name: Name) -> String {
        self.memory.lock().name(name, || self.cx.unique_name())
    }

    /// The source of a copy on the wire.
    fn source(&self, source: Id) -> v1::VolumeContentSource {
        let id = self.text(source);
        match source.name.kind {
            ObjectKind::Volume => v1::VolumeContentSource::volume(id),
            ObjectKind::Snapshot | ObjectKind::Group | ObjectKind::Member => {
                v1::VolumeContentSource::snapshot(id)
            }
        }
    }
}

/// Waits. A time shorter than the clock's resolution is counted in turns of other tasks.
async fn pass(time: Duration) {
    match time.as_millis() {
        0 => {
            for _ in 0..time.as_micros() {
                tokio::task::yield_now().await;
            }
        }
        _ => tokio::time::sleep(time).await,
    }
}
