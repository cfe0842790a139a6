//! Records the calls of a check. Messages are kept as bytes, and turned into text without their secrets only on demand.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_proto::lock::Mutex;
use csi_proto::reflect::prost_reflect::{DynamicMessage, ReflectMessage as _};
use csi_proto::{Endpoint, Rpc, code_name, redact, reflect};
use prost::Message as _;
use serde_json::Value;
use tonic::Code;

use crate::client::answer::{Answer, NoAnswer, Received};
use crate::client::spent::{Clock, TimeSpent};
use crate::protocol::rpc::Facts;
use crate::spec::verdict::{CutShort, ReproductionStep, Violation};

/// Calls kept for one check, encoded. A check that makes more loses some from the middle: the first ones made what the
/// others speak of, and the last ones led to the verdict.
const CALLS_BYTES_MAX: usize = 16 << 20;
/// The first calls, which are never lost.
const CALLS_FIRST: usize = 100;
/// The memory that a call takes beside its messages.
const CALL_BYTES: usize = 256;
/// Longest response kept, encoded: lists of a large back end would fill the memory.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// A message, or those of a stream, as they went over the wire.
#[derive(Clone)]
pub struct Message(Arc<Kept>);

struct Kept {
    rpc: Rpc,
    body: Body,
}

enum Body {
    Request(Vec<u8>),
    Response(Arc<Received>),
    /// The replies of a stream.
    Stream(Arc<Received>),
    /// A placeholder for messages of this many bytes.
    TooLong(usize),
}

/// The text that follows the messages of a stream that the test stopped reading.
const CUT_OFF: &str = "cut off by the test";

impl Message {
    /// Keeps a request.
    pub(crate) fn request(rpc: Rpc, bytes: Vec<u8>) -> Message {
        Message::kept(rpc, Body::Request(bytes))
    }

    /// Keeps a request that may be none, unless it is too long for that.
    pub(crate) fn odd_request(rpc: Rpc, bytes: &[u8]) -> Message {
        Message::unless_too_long(rpc, bytes.len(), || Body::Request(bytes.to_vec()))
    }

    /// Keeps what came with OK, unless it is too long for that.
    pub(crate) fn response(rpc: Rpc, received: &Arc<Received>, streams: bool) -> Message {
        let bytes = received.messages.iter().map(Vec::len).sum();
        Message::unless_too_long(rpc, bytes, || {
            let received = received.clone();
            if streams { Body::Stream(received) } else { Body::Response(received) }
        })
    }

    fn unless_too_long(rpc: Rpc, bytes: usize, keep: impl FnOnce() -> Body) -> Message {
        Message::kept(rpc, if bytes > RESPONSE_BYTES_MAX { Body::TooLong(bytes) } else { keep() })
    }

    fn kept(rpc: Rpc, body: Body) -> Message {
        Message(Arc::new(Kept { rpc, body }))
    }

    /// The message as JSON, without secrets.
    pub fn json(&self) -> Value {
        let Kept { rpc, body } = &*self.0;
        let response = |bytes: &Vec<u8>| json(reflect::response(*rpc, bytes), bytes);
        match body {
            Body::Request(bytes) => json(reflect::request(*rpc, bytes), bytes),
            Body::Response(received) => received.messages.first().map_or(Value::Null, response),
            Body::Stream(received) => {
                let end = (!received.is_whole).then(|| Value::from(CUT_OFF));
                received.messages.iter().map(response).chain(end).collect()
            }
            Body::TooLong(bytes) => Value::from(format!("{bytes} bytes, too long to keep")),
        }
    }

    /// Returns true for a request of which JSON shows everything, so that it can be sent from there: not for bytes that are no message,
    /// and not for unknown or repeated fields.
    pub(crate) fn is_whole_in_json(&self) -> bool {
        let Kept { rpc, body: Body::Request(bytes) } = &*self.0 else { return false };
        let again = reflect::request(*rpc, bytes).and_then(|request| {
            let json = serde_json::to_value(&request).ok()?;
            DynamicMessage::deserialize(request.descriptor(), json).ok()
        });
        again.is_some_and(|again| again.encoded_len() == bytes.len())
    }

    fn bytes(&self) -> usize {
        match &self.0.body {
            Body::Request(bytes) => bytes.len(),
            Body::Response(received) | Body::Stream(received) => received.messages.iter().map(Vec::len).sum(),
            Body::TooLong(_) => 0,
        }
    }
}

/// A message as JSON, whether or not it has the form that it should have.
fn json(read: Option<DynamicMessage>, bytes: &[u8]) -> Value {
    // A message that cannot be decoded may hold secrets anywhere, so only its size is shown.
    let unread = || Value::from(format!("{} bytes that cannot be read", bytes.len()));
    read.map_or_else(unread, redact::dynamic)
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.json())
    }
}

/// One recorded call.
#[derive(Clone, Debug)]
pub struct CallRecord {
    /// The RPC that was called.
    pub rpc: Rpc,
    /// The time from the start of the check until it was sent.
    pub sent_after: Duration,
    /// The duration, so far if it has not ended.
    pub duration: Duration,
    /// True if it was made to undo what the check did.
    pub cleanup: bool,
    /// The node that it went to, from 0. Always 0 for the Controller services and for a driver with one node.
    pub node: usize,
    /// The worker of the check that made it, from 0.
    pub worker: usize,
    /// The endpoint that it went to, where other programs of this machine can call the driver there.
    pub endpoint: Option<Arc<Endpoint>>,
    /// The message that was sent.
    pub request: Message,
    /// The end of the call, with the answer if there was one.
    pub outcome: Answer<Message>,
}

impl CallRecord {
    /// The request as JSON, without secrets.
    pub fn request(&self) -> Value {
        self.request.json()
    }

    /// The response as JSON, or the status, or why there is none.
    pub fn outcome(&self) -> Answer<Value> {
        self.outcome.as_ref().map(Message::json)
    }

    /// The call as a step on the way to a violation.
    pub fn reproduction(&self) -> ReproductionStep {
        let (code, response) = match self.outcome() {
            Answer::Ok(response) => (code_name(Code::Ok), response),
            Answer::Refused(refused) => (code_name(refused.code), Value::Null),
            Answer::Unknown(_) => (ReproductionStep::NO_ANSWER, Value::Null),
        };
        let given_up_after_us = match &self.outcome {
            Answer::Unknown(NoAnswer::Cancelled(after)) => u64::try_from(after.as_micros()).ok(),
            _ => None,
        };
        let (rpc, what, code) = (Some(self.rpc.method.to_owned()), self.rpc.to_string(), code.to_owned());
        ReproductionStep { what, rpc, request: self.request(), code, response, given_up_after_us }
    }

    fn bytes(&self) -> usize {
        let response = match &self.outcome {
            Answer::Ok(response) => response.bytes(),
            Answer::Refused(_) | Answer::Unknown(_) => 0,
        };
        CALL_BYTES + self.request.bytes() + response
    }
}

impl fmt::Display for Answer<Value> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Ok(response) => write!(f, "OK {response}"),
            Answer::Refused(refused) => write!(f, "{refused}"),
            Answer::Unknown(no_answer) => write!(f, "{no_answer}"),
        }
    }
}

/// Calls without an answer: the driver may be dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The connection broke in the middle of a call, as it does when a process dies.
    ConnectionBroke,
    /// A time limit passed.
    TimedOut,
}

/// Everything one check did and remarked.
#[derive(Debug)]
pub struct CallLog {
    started: Instant,
    pub(crate) clock: Clock,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The first calls, which are always kept.
    first: Vec<CallRecord>,
    /// The latest calls. Those between are dropped where they take too much room.
    latest: VecDeque<CallRecord>,
    /// The number of all calls, which count from 0.
    sent: u64,
    bytes: usize,
    silence: Option<Silence>,
    blamed: Vec<Violation>,
    warnings: Vec<Violation>,
    notes: Vec<String>,
    /// The number of tries that have begun, for a check that makes several.
    tried: u64,
    cut_short: Vec<CutShort>,
    incidents: Vec<(Duration, String)>,
}

/// Everything that is recorded of a check.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) calls: Vec<CallRecord>,
    pub(crate) calls_dropped: usize,
    pub(crate) blamed: Vec<Violation>,
    pub(crate) warnings: Vec<Violation>,
    pub(crate) notes: Vec<String>,
    pub(crate) tried: u64,
    pub(crate) cut_short: Vec<CutShort>,
    pub(crate) incidents: Vec<(Duration, String)>,
    pub(crate) spent: TimeSpent,
}

/// The maker of a call, and the endpoint that it goes to.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    pub(crate) node: usize,
    pub(crate) worker: usize,
    pub(crate) cleanup: bool,
    pub(crate) endpoint: Option<Arc<Endpoint>>,
}

/// A call that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

impl Ticket {
    /// The number of calls that the check sent before this one.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

impl CallLog {
    pub(crate) fn new() -> Arc<CallLog> {
        Arc::new(CallLog { started: Instant::now(), clock: Clock::start(), inner: Mutex::default() })
    }

    /// Adds a broken rule that did not end the check.
    pub(crate) fn blame(&self, violation: Violation) {
        self.inner.lock().blamed.push(violation);
    }

    /// Adds a remark that does not stop the check: a rule that is only recommended, or a tolerated answer.
    pub fn warn(&self, warning: Violation) {
        self.inner.lock().warnings.push(warning);
    }

    /// Adds something to know that is no verdict.
    pub(crate) fn note(&self, note: String) {
        self.inner.lock().notes.push(note);
    }

    /// Records that this many tries have begun.
    pub(crate) fn tried(&self, tries: u64) {
        let mut inner = self.inner.lock();
        inner.tried = inner.tried.max(tries);
    }

    /// Notes that a check met its time limit before it had done all its work.
    pub(crate) fn cut_short(&self, work: CutShort) {
        self.inner.lock().cut_short.push(work);
    }

    /// Adds what happened between calls and was none.
    pub(crate) fn happened(&self, what: String) {
        let after = self.started.elapsed();
        self.inner.lock().incidents.push((after, what));
    }

    /// The time at which the check began.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Records a call before it is sent. Until its end is recorded, it counts as a call without an answer.
    pub(crate) fn sent(&self, rpc: Rpc, caller: Caller, request: Message) -> Ticket {
        let Caller { node, worker, cleanup, endpoint } = caller;
        let call = CallRecord {
            rpc,
            sent_after: self.started.elapsed(),
            duration: Duration::ZERO,
            cleanup,
            node,
            worker,
            endpoint,
            request,
            outcome: Answer::Unknown(NoAnswer::CheckEnded),
        };
        let mut inner = self.inner.lock();
        let number = inner.sent;
        inner.sent += 1;
        inner.bytes += call.bytes();
        match inner.first.len() < CALLS_FIRST {
            true => inner.first.push(call),
            false => inner.latest.push_back(call),
        }
        inner.make_room();
        Ticket(number)
    }

    /// Calls `look` with the record of a call, if it is still kept.
    pub(crate) fn look_at<T>(
        &self,
        Ticket(number): Ticket,
        look: impl FnOnce(&CallRecord) -> T,
    ) -> Option<T> {
        self.inner.lock().find(number).map(|call| look(call))
    }

    /// The number of calls that were sent.
    pub(crate) fn sent_so_far(&self) -> u64 {
        self.inner.lock().sent
    }

    /// The last call that was sent, if it is kept.
    pub(crate) fn last(&self) -> Option<CallRecord> {
        let mut inner = self.inner.lock();
        let last = inner.sent.checked_sub(1)?;
        inner.find(last).cloned()
    }

    /// The kept calls about an object: their requests name its id, or they made it.
    pub(crate) fn about(&self, id: &str) -> Vec<CallRecord> {
        let id = Value::from(id).to_string();
        let made = |call: &CallRecord| match call.outcome() {
            Answer::Ok(response) => {
                Facts::of(call.rpc).is_some_and(Facts::changes) && response.to_string().contains(&id)
            }
            Answer::Refused(_) | Answer::Unknown(_) => false,
        };
        let inner = self.inner.lock();
        let all = inner.first.iter().chain(&inner.latest);
        all.filter(|call| call.request().to_string().contains(&id) || made(call)).cloned().collect()
    }

    /// The kept calls that succeeded and changed one of these objects. Where none is named, as in a list, the calls that made a volume or a
    /// snapshot.
    pub(crate) fn changes_of(&self, ids: &BTreeSet<String>) -> Vec<CallRecord> {
        let ids: Vec<String> = ids.iter().map(|id| Value::from(id.as_str()).to_string()).collect();
        let is_about_them = |text: &str| ids.iter().any(|id| text.contains(id.as_str()));
        let leads_there = |call: &&CallRecord| {
            let (Some(facts), Answer::Ok(response)) = (Facts::of(call.rpc), call.outcome()) else {
                return false;
            };
            match ids.is_empty() {
                true => facts.makes_listed(),
                false => {
                    facts.changes()
                        && (is_about_them(&call.request().to_string())
                            || is_about_them(&response.to_string()))
                }
            }
        };
        let inner = self.inner.lock();
        let all = inner.first.iter().chain(&inner.latest);
        all.filter(|call| !call.cleanup).filter(leads_there).cloned().collect()
    }

    /// Notes how and when a call ended.
    pub(crate) fn ended(&self, Ticket(number): Ticket, at: Instant, outcome: Answer<Message>) {
        let ended_after = at.saturating_duration_since(self.started);
        let mut inner = self.inner.lock();
        match &outcome {
            Answer::Unknown(NoAnswer::Broken(_)) => inner.silence = Some(Silence::ConnectionBroke),
            Answer::Unknown(NoAnswer::Timeout(_)) => {
                inner.silence = inner.silence.or(Some(Silence::TimedOut))
            }
            Answer::Unknown(
                NoAnswer::GivenUp(_)
                | NoAnswer::DisconnectedByTest
                | NoAnswer::TooLong(_)
                | NoAnswer::Cancelled(_)
                | NoAnswer::CheckEnded
                | NoAnswer::NotSent(_),
            )
            | Answer::Ok(_)
            | Answer::Refused(_) => {}
        }
        let Some(call) = inner.find(number) else { return };
        let before = call.bytes();
        call.duration = ended_after.saturating_sub(call.sent_after);
        call.outcome = outcome;
        let grown = call.bytes() - before;
        inner.bytes += grown;
        inner.make_room();
    }

    /// Records that a worker has given up the calls that it had under way.
    pub(crate) fn let_go(&self, worker: usize) {
        let now = self.started.elapsed();
        let mut inner = self.inner.lock();
        // Earlier calls have ended or were given up, because a worker makes one call at a time.
        let Inner { first, latest, .. } = &mut *inner;
        let under_way = first.iter_mut().chain(latest).rev().filter(|call| call.worker == worker);
        for call in under_way.take_while(|call| matches!(call.outcome, Answer::Unknown(NoAnswer::CheckEnded)))
        {
            call.duration = now.saturating_sub(call.sent_after);
            call.outcome = Answer::Unknown(NoAnswer::Cancelled(call.duration));
        }
    }

    /// Forgets calls without an answer: the check that made them has explained it.
    pub(crate) fn forget_silence(&self) {
        self.inner.lock().silence = None;
    }

    /// The reason why calls went unanswered, if any did.
    pub(crate) fn silence(&self) -> Option<Silence> {
        self.inner.lock().silence
    }

    /// Everything so far; the log is empty afterwards.
    pub(crate) fn take(&self) -> Recorded {
        let now = self.started.elapsed();
        let mut inner = std::mem::take(&mut *self.inner.lock());
        for call in inner.first.iter_mut().chain(&mut inner.latest) {
            if matches!(call.outcome, Answer::Unknown(NoAnswer::CheckEnded)) {
                call.duration = now.saturating_sub(call.sent_after);
            }
        }
        let calls: Vec<CallRecord> = inner.first.into_iter().chain(inner.latest).collect();
        let calls_dropped = usize::try_from(inner.sent).unwrap_or(usize::MAX) - calls.len();
        let spent = self.clock.spent();
        let Inner { blamed, warnings, notes, tried, cut_short, incidents, .. } = inner;
        Recorded { calls, calls_dropped, blamed, warnings, notes, tried, cut_short, incidents, spent }
    }
}

impl Inner {
    fn make_room(&mut self) {
        while self.bytes > CALLS_BYTES_MAX
            && let Some(lost) = self.latest.pop_front()
        {
            self.bytes -= lost.bytes();
        }
    }

    /// A call that is still kept, by its number.
    fn find(&mut self, number: u64) -> Option<&mut CallRecord> {
        let number = usize::try_from(number).ok()?;
        if number < self.first.len() {
            return self.first.get_mut(number);
        }
        let before_latest = usize::try_from(self.sent).ok()?.checked_sub(self.latest.len())?;
        self.latest.get_mut(number.checked_sub(before_latest)?)
    }
}

#[cfg(test)]
mod tests {
    use csi_proto::{Call as _, v1};
    use prost::Message as _;

    use super::*;

    fn send(log: &CallLog, name: &str) -> Ticket {
        let request = v1::CreateVolumeRequest { name: name.to_owned(), ..Default::default() };
        let rpc = v1::CreateVolumeRequest::RPC;
        log.sent(rpc, Caller::default(), Message::request(rpc, request.encode_to_vec()))
    }

    fn name(call: &CallRecord) -> String {
        call.request()["name"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_call_without_a_waiting_caller_is_reported() {
        let log = CallLog::new();
        send(&log, "a");
        let recorded = log.take();
        assert_eq!(recorded.calls.len(), 1);
        assert!(matches!(recorded.calls[0].outcome, Answer::Unknown(NoAnswer::CheckEnded)));
    }

    #[test]
    fn a_call_that_is_given_up_is_not_under_way() {
        let log = CallLog::new();
        send(&log, "a");
        log.let_go(1);
        log.let_go(0);
        send(&log, "b");
        let recorded = log.take();
        let is_let_go = |call: &CallRecord| matches!(call.outcome, Answer::Unknown(NoAnswer::Cancelled(_)));
        assert_eq!(recorded.calls.iter().map(is_let_go).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn the_first_and_the_last_calls_are_kept() {
        let log = CallLog::new();
        let long = "x".repeat(1 << 20);
        for n in 0..CALLS_FIRST {
            send(&log, &n.to_string());
        }
        for n in 0..20 {
            send(&log, &format!("{n}{long}"));
        }
        let ticket = send(&log, "last");
        let refused = crate::client::answer::Refused {
            code: tonic::Code::Internal,
            message: String::new(),
            after_messages: 0,
        };
        log.ended(ticket, Instant::now(), Answer::Refused(refused));
        let recorded = log.take();
        let firsts = [0, CALLS_FIRST - 1].map(|at| name(&recorded.calls[at]));
        assert_eq!(firsts, ["0", "99"]);
        let last = recorded.calls.last().unwrap();
        assert!(name(last) == "last" && matches!(last.outcome, Answer::Refused(_)));
        assert!(recorded.calls_dropped >= 4, "{}", recorded.calls_dropped);
        assert_eq!(recorded.calls.len() + recorded.calls_dropped, CALLS_FIRST + 21);
    }
}
