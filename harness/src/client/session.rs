//! Sends the calls of one check.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_proto::{Call, Rpc, Service, StreamingCall, UnaryCall};
use futures_util::future::BoxFuture;
use tonic::async_trait;

use crate::client::answer::{Answer, NoAnswer, Received, Streamed};
use crate::client::call::{self, CallingCheck, Ended, Exchange, Form};
use crate::client::patience::{Patience, Pauses, Settles, Waiting};
use crate::client::record::{CallLog, Caller, Message, Ticket};
use crate::client::reply::Reply;
use crate::client::retry::PendingCall;
use crate::client::spent::{Part, TimerGuard};
use crate::client::stages::Stage;
use crate::client::target::Target;
use crate::config::{Config, Secret};
use crate::protocol::effect;
use crate::resources::paths::Paths;
use crate::spec::verdict::{CheckResult, CutShort, Stop, Violation};

/// Messages read of a stream that is to be read to its end.
const STREAM_MESSAGES_MAX: usize = 100_000;
/// Questions that a driver is asked at least before it counts as one that does not settle.
const LOOKS_MIN: u32 = 6;
/// Pauses longer than this are shown to those who watch the run.
const WORTH_A_WORD: Duration = Duration::from_millis(100);
/// After this time, a clock that counts whole seconds has another reading.
const NEXT_SECOND: Duration = Duration::from_millis(1_100);

/// Looks at the driver after each call of a check.
#[async_trait]
pub(crate) trait AfterCall: fmt::Debug + Send + Sync {
    /// Looks at it after this call.
    async fn after(&self, log: &CallLog, call: Ticket);

    /// The RPC whose plain call fails by now: the check need not make any more calls then.
    async fn lost(&self) -> Option<Rpc>;
}

/// Learns how each call of a caller ended, also if the call is sent again after that.
pub trait CallObserver: fmt::Debug + Send + Sync {
    /// Takes note of the end of a call, and of the time that it took.
    fn ended(&self, rpc: Rpc, answer: &Answer<()>, took: Duration);
}

/// Sends calls for one check, records them, and keeps to its deadline.
#[derive(Clone, Debug)]
pub struct Session {
    target: Arc<Target>,
    log: Arc<CallLog>,
    check: Arc<str>,
    deadline: Instant,
    node: usize,
    worker: usize,
    cleanup: bool,
    /// Secrets that replace the configured ones.
    secrets: Option<Arc<Secret>>,
    probe: Option<Arc<dyn AfterCall>>,
    observer: Option<Arc<dyn CallObserver>>,
}

/// The way in which the response to a request is read.
#[derive(Clone, Copy)]
enum Reading {
    /// One message.
    One(Form),
    /// A stream, of which at most this many messages are read.
    Stream(Form, usize),
    /// Bytes that are not decoded.
    Unread,
}

/// A request that was sent.
struct Sent {
    rpc: Rpc,
    ticket: Ticket,
    at: Instant,
    /// The full time limit of such a call, and the part of it that the check has left.
    whole: Duration,
    limit: Duration,
    /// The number of broken connections when it was sent.
    breaks: u64,
}

impl Session {
    pub(crate) fn new(target: Arc<Target>, log: Arc<CallLog>, check: &str, limit: Duration) -> Session {
        let deadline = Instant::now() + limit;
        let (node, worker, cleanup, secrets, probe, observer) = Default::default();
        Session {
            target,
            log,
            check: check.into(),
            deadline,
            node,
            worker,
            cleanup,
            secrets,
            probe,
            observer,
        }
    }

    /// A session that looks at the driver after each call.
    pub(crate) fn probed_by(self, probe: Option<Arc<dyn AfterCall>>) -> Session {
        Session { probe, ..self }
    }

    pub(crate) fn for_cleanup(&self) -> Session {
        let limit = Duration::from_millis(self.config().time_limits.undo_ms);
        Session {
            deadline: Instant::now() + limit,
            cleanup: true,
            probe: None,
            observer: None,
            ..self.clone()
        }
    }

    /// A session whose calls are reported to an observer when they end, except for calls that only clean up.
    pub(crate) fn observed_by(&self, observer: Arc<dyn CallObserver>) -> Session {
        Session { observer: Some(observer), ..self.clone() }
    }

    /// A session that sends calls of the Node service to another node.
    pub(crate) fn at_node(&self, node: usize) -> Session {
        Session { node, ..self.clone() }
    }

    /// A session that sends these secrets instead of the configured ones.
    pub(crate) fn with_secrets(&self, secrets: Option<Arc<Secret>>) -> Session {
        Session { secrets, ..self.clone() }
    }

    /// The session of one of several callers, whose calls are recorded under its number.
    pub(crate) fn of_worker(&self, worker: usize) -> Session {
        Session { worker, ..self.clone() }
    }

    pub(crate) fn secrets(&self) -> Option<Arc<Secret>> {
        self.secrets.clone()
    }

    /// The driver under test.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The user's settings.
    pub fn config(&self) -> &Config {
        self.target.config()
    }

    /// The label of the check: its id, with `@block` behind it for block access.
    pub fn label(&self) -> &str {
        &self.check
    }

    /// The time that is left.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The time in which the driver has to settle, at most the time left.
    pub fn settle_limit(&self) -> Duration {
        self.patience().settle_limit(self.config().time_limits.settle_ms).min(self.remaining())
    }

    /// The time in which the driver has to make these changes, considering earlier waits for them.
    pub fn settle_limit_of(&self, what: &[Settles]) -> Duration {
        let configured_ms = self.config().time_limits.settle_ms;
        let limits = what.iter().map(|what| self.patience().settle_limit_of(*what, configured_ms));
        limits.max().unwrap_or_default().min(self.remaining())
    }

    /// Records that the caller has given up the calls that it had under way, and does not await their answers any more.
    pub fn let_go(&self) {
        self.log.let_go(self.worker);
    }

    /// Waits for a call as a caller does that gives it up after this time.
    pub async fn give_up_after<T>(&self, limit: Duration, call: impl IntoFuture<Output = T>) -> Option<T> {
        let answered = tokio::time::timeout(limit, call.into_future()).await.ok();
        if answered.is_none() {
            self.let_go();
        }
        answered
    }

    pub(crate) fn patience(&self) -> &Patience {
        &self.target.patience
    }

    /// The place where paths of this session's node are made.
    pub(crate) fn paths(&self) -> &Paths {
        self.target.node(self.node).paths()
    }

    pub(crate) fn node(&self) -> usize {
        self.node
    }

    /// Breaks all connections to the driver, as if the caller had died, and waits until new ones stand. Calls under way
    /// get no answer, so that only checks that run alone may do this.
    pub async fn break_connections(&self) {
        self.target.break_connections(self.remaining()).await;
    }

    /// Breaks all connections when the driver may be gone. Returns true if it answers again within the limit.
    pub async fn break_connections_within(&self, limit: Duration) -> bool {
        self.target.break_connections(limit.min(self.remaining())).await
    }

    /// A call, recorded when it is sent. Secrets configured for the RPC are filled in unless the request has some.
    pub fn call<Q: UnaryCall>(&self, mut request: Q) -> PendingCall<'_, Q::Response> {
        self.fill_secrets(&mut request);
        self.call_as_it_is(request)
    }

    /// A call with a request as it is, so also without secrets.
    pub fn call_as_it_is<Q: UnaryCall>(&self, request: Q) -> PendingCall<'_, Q::Response> {
        self.call_at(Q::RPC.service, request)
    }

    /// A call with a request as it is to the endpoint that has another service: Identity is on every endpoint.
    pub fn call_at<Q: UnaryCall>(&self, service: Service, request: Q) -> PendingCall<'_, Q::Response> {
        let reading = Reading::One(call::form::<Q::Response>);
        self.pending(service, Q::RPC, request.encode_to_vec(), reading, |received| {
            Answer::Ok(call::message(received))
        })
    }

    /// A call that is answered by a stream, all of which is read. One that is longer than any that can be judged gives no answer.
    pub fn stream<Q: StreamingCall>(&self, mut request: Q) -> PendingCall<'_, Vec<Q::Response>> {
        self.fill_secrets(&mut request);
        let reading = Reading::Stream(call::form::<Q::Response>, STREAM_MESSAGES_MAX);
        self.pending(Q::RPC.service, Q::RPC, request.encode_to_vec(), reading, |received| {
            match received.is_whole {
                true => Answer::Ok(call::messages(received)),
                false => Answer::Unknown(NoAnswer::TooLong(received.messages.len())),
            }
        })
    }

    /// Makes a call that is answered by a stream, and reads at most this many messages. The stream is then cut off, as
    /// by a caller that goes away.
    pub fn stream_up_to<Q: StreamingCall>(
        &self,
        mut request: Q,
        messages_max: usize,
    ) -> PendingCall<'_, Streamed<Q::Response>> {
        self.fill_secrets(&mut request);
        let reading = Reading::Stream(call::form::<Q::Response>, messages_max);
        self.pending(Q::RPC.service, Q::RPC, request.encode_to_vec(), reading, |received| {
            Answer::Ok(Streamed { messages: call::messages(received), is_whole: received.is_whole })
        })
    }

    /// A call that is sent so, and whose response is understood so.
    fn pending<T: Send + 'static>(
        &self,
        service: Service,
        rpc: Rpc,
        request: Vec<u8>,
        reading: Reading,
        understood: fn(&Received) -> Answer<T>,
    ) -> PendingCall<'_, T> {
        PendingCall::new(self, rpc, move || {
            let sent = self.recorded(service, rpc, request.clone(), reading);
            async move { sent.await.and_then(|received| understood(&received)) }
        })
    }

    /// Sends a request byte for byte, whether or not it is a valid one; the response is not decoded either. It is sent
    /// a single time, and what it makes is not undone.
    pub async fn call_bytes(&self, rpc: Rpc, bytes: Vec<u8>) -> Reply<Vec<u8>> {
        let received = self.recorded(rpc.service, rpc, bytes, Reading::Unread).await;
        received.map(|received| received.messages.first().cloned().unwrap_or_default())
    }

    /// From here on, the check itself reports calls without an answer, whether or not the driver has died of one. It
    /// also brings the driver back before it ends.
    pub fn expect_no_answer(&self) {
        self.log.forget_silence();
    }

    /// Reports a broken rule without ending the check, because what follows can still be judged. The gravest of all
    /// violations becomes the outcome of the check.
    pub fn blame(&self, violation: Violation) {
        self.log.blame(violation);
    }

    /// Records a broken rule without ending the check, where the rest can be judged without it. A refusal stops the
    /// check all the same, since it may prove nothing.
    ///
    /// # Errors
    /// Anything that stops a check other than a violation.
    pub fn beyond(&self, judged: CheckResult) -> CheckResult {
        match judged {
            Err(Stop::Violation(violation)) if violation.refused.is_none() => {
                self.blame(*violation);
                Ok(())
            }
            other => other,
        }
    }

    /// Reports something that does not stop the check: a recommendation not kept, an answer only tolerated.
    pub fn warn(&self, warning: Violation) {
        self.log.warn(warning);
    }

    /// Shows those who watch the run something that is no verdict, such as how much was tried.
    pub fn note(&self, note: impl Into<String>) {
        self.log.note(note.into());
    }

    /// Enters how long a write of a workload took beside calls of an RPC, for the reports.
    pub fn writer_paused(&self, rpc: Rpc, pause: Duration) {
        self.target.tally.paused(rpc, pause);
    }

    /// Shows the progress of the check: its stage, the number of the current try, and the number of all tries if it is
    /// known.
    pub fn stage(&self, what: &'static str, number: u64, of: Option<u64>) {
        self.log.tried(number);
        self.target().stages.set(self.label(), Stage { what, number, of });
    }

    /// States that the check met its time limit after `done` of the `planned` sequences, rounds or whatever `what` names in the plural.
    /// The run says so once at its end, and marks its verdict as based on less work.
    pub fn cut_short(&self, done: u64, planned: u64, what: impl Into<String>) {
        self.log.cut_short(CutShort { done, planned, what: what.into() });
    }

    /// Asks again until the driver has settled, and returns `None` if it has not within its time: `time-limits:
    /// settle-ms`, or less after earlier waits for this change.
    ///
    /// # Errors
    /// Any error of the question.
    pub async fn eventually<T, F>(&self, what: Settles, mut ask: impl FnMut() -> F) -> Result<Option<T>, Stop>
    where
        F: Future<Output = Result<Option<T>, Stop>>,
    {
        let patience = self.patience();
        let started = Instant::now();
        let first = Duration::from_millis(5);
        let mut pause = first;
        let mut looks = 0;
        loop {
            let found = ask().await?;
            looks += 1;
            if found.is_some() {
                patience.settled(what, pause == first);
                return Ok(found);
            }
            let configured_ms = self.config().time_limits.settle_ms;
            let limit =
                patience.settle_limit_of(what, configured_ms).min(started.elapsed() + self.remaining());
            // On a busy machine a short limit passes before the driver was asked often enough to show anything.
            let asked_enough = looks >= LOOKS_MIN || self.remaining().is_zero();
            if started.elapsed() + pause > limit && asked_enough {
                if limit >= patience.settle_limit(configured_ms) {
                    patience.never_settled(what);
                }
                return Ok(None);
            }
            self.wait(what, pause, limit.saturating_sub(started.elapsed())).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Waits for this time, or until the time of the check is over. All waits for this change last `longest` at most.
    pub fn wait(&self, what: Settles, pause: Duration, longest: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let pause = pause.min(self.remaining());
            if pause > WORTH_A_WORD {
                self.patience().news.send_replace(Some(Waiting { what, longest }));
            }
            self.log.clock.waited(pause);
            tokio::time::sleep(pause).await;
        })
    }

    /// Waits until a driver that answers with the current time reports another one, even in whole seconds.
    pub async fn wait_for_next_second(&self) {
        self.wait(Settles::NextSecond, NEXT_SECOND, NEXT_SECOND).await;
    }

    /// Waits before a call is made again, which is done until then.
    pub(crate) async fn wait_to_repeat(&self, what: Settles, pauses: &mut Pauses, until: Instant) {
        let pause = pauses.take();
        self.wait(what, pause, until.saturating_duration_since(Instant::now()).max(pause)).await;
    }

    /// The calls made so far.
    pub(crate) fn log(&self) -> &CallLog {
        &self.log
    }

    /// Records something that happens between two calls and is none, such as that mounts are taken away.
    pub fn happened(&self, what: impl Into<String>) {
        self.log.happened(what.into());
    }

    /// Counts the time from here until the answer is dropped as spent on a part of the check.
    pub fn begin(&self, part: Part) -> TimerGuard<'_> {
        self.log.clock.begin(part)
    }

    /// Sends a request once, within the limits of time, and notes that before and after.
    fn recorded(
        &self,
        service: Service,
        rpc: Rpc,
        request: Vec<u8>,
        reading: Reading,
    ) -> BoxFuture<'_, Reply<Arc<Received>>> {
        Box::pin(async move {
            let message = match reading {
                Reading::Unread => Message::odd_request(rpc, &request),
                Reading::One(_) | Reading::Stream(..) => Message::request(rpc, request.clone()),
            };
            let sent = match self.sent(service, rpc, message).await {
                Ok(sent) => sent,
                Err(why) => return Reply::new(rpc, Answer::Unknown(why), self.log.clone()),
            };
            let Ended { answer, at } = match sent.limit.is_zero() {
                true => Ended { answer: Answer::Unknown(NoAnswer::CheckEnded), at: Instant::now() },
                false => self.exchanged(service, rpc, request, reading, sent.limit).await,
            };
            let answer = match answer.map(Arc::new) {
                Answer::Unknown(NoAnswer::Broken(_)) if self.target.reconnected_since(sent.breaks) => {
                    Answer::Unknown(NoAnswer::DisconnectedByTest)
                }
                other => other,
            };
            let streams = matches!(reading, Reading::Stream(..));
            let kept = answer.as_ref().map(|received| Message::response(rpc, received, streams));
            self.ended(&sent, at, kept).await;
            Reply::new(rpc, answer, self.log.clone())
        })
    }

    async fn exchanged(
        &self,
        service: Service,
        rpc: Rpc,
        request: Vec<u8>,
        reading: Reading,
        limit: Duration,
    ) -> Ended {
        let target = &self.target;
        let transport = target.transport(self.node, service);
        let (patience, response_rules) = (&target.patience, &target.response_rules);
        let caller = Some(CallingCheck { check: &self.check, log: &self.log });
        let exchange = Exchange { transport, rpc, request, limit, patience, response_rules, caller };
        match reading {
            Reading::One(form) => exchange.unary(form).await,
            Reading::Stream(form, messages_max) => exchange.streaming(form, messages_max).await,
            Reading::Unread => exchange.unread().await,
        }
    }

    /// Notes that a request is sent now.
    ///
    /// # Errors
    /// The reason why it was not sent.
    async fn sent(&self, service: Service, rpc: Rpc, request: Message) -> Result<Sent, NoAnswer> {
        if let Some(judge) = self.target.deadly(rpc) {
            return Err(NoAnswer::NotSent(format!(
                "the driver crashes on a plain {rpc}, as {judge} reports"
            )));
        }
        if let Some(elsewhere) = &self.config().elsewhere {
            let why =
                format!("in this run only its cluster calls {} ({})", elsewhere.driver, elsewhere.place);
            return Err(NoAnswer::NotSent(why));
        }
        if let Some(probe) = &self.probe
            && let Some(lost) = probe.lost().await
        {
            return Err(NoAnswer::NotSent(format!("a plain {lost} no longer succeeds")));
        }
        let whole = self.config().time_limits.call(rpc.method);
        let limit = whole.min(self.remaining());
        let caller = Caller {
            node: self.node,
            worker: self.worker,
            cleanup: self.cleanup,
            endpoint: self.target.address(self.node, service),
        };
        let ticket = self.log.sent(rpc, caller, request);
        Ok(Sent { rpc, ticket, at: Instant::now(), whole, limit, breaks: self.target.breaks() })
    }

    /// Notes how and when it ended.
    async fn ended(&self, sent: &Sent, at: Instant, answer: Answer<Message>) {
        let (rpc, took) = (sent.rpc, at.saturating_duration_since(sent.at));
        if matches!(answer, Answer::Unknown(NoAnswer::Timeout(_))) && sent.limit == sent.whole {
            self.patience().kept_silent(rpc);
        }
        // A read may take long without any change being under way, so only calls that change something count here.
        if matches!(answer, Answer::Ok(_)) && effect::changes(rpc) {
            self.patience().took(took);
        }
        self.target.tally.add(&self.check, rpc, &answer, took);
        if let Some(observer) = &self.observer {
            observer.ended(rpc, &answer.as_ref().map(drop), took);
        }
        self.log.ended(sent.ticket, at, answer);
        if let Some(probe) = &self.probe {
            probe.after(&self.log, sent.ticket).await;
        }
    }

    /// Adds the configured secrets to a request that has none, as it is sent.
    pub fn fill_secrets<Q: Call>(&self, request: &mut Q) {
        let own = self.secrets.as_ref().map(|secret| &secret.0);
        if let (Some(secrets), Some(wanted)) =
            (request.secrets_mut(), own.or_else(|| self.target.config().secrets_for(Q::RPC.method)))
            && secrets.is_empty()
        {
            secrets.clone_from(wanted);
        }
    }
}
