//! What was said on the wire while a check ran. Messages are kept as they are and turned into text, without their
//! secrets, only when somebody asks.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use csi_proto::{Rpc, redact};
use serde_json::Value;

use crate::reply::{Answer, NoAnswer};
use crate::verdict::Violation;

/// Calls kept for one check; a check that makes more keeps the first ones and counts the rest.
const CALLS_MAX: usize = 200;
/// Longest response kept, encoded: lists of a large back end would fill the memory.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// Makes the text of a message when it is needed.
pub(crate) type Render = Box<dyn Fn() -> Value + Send + Sync>;

/// Keeps a response, one message or the messages of a stream, unless it is too long for that.
pub(crate) fn keep<M: prost::Name + Clone + Send + Sync + 'static>(messages: &[M]) -> Render {
    let length: usize = messages.iter().map(M::encoded_len).sum();
    if length > RESPONSE_BYTES_MAX {
        return Box::new(move || Value::from(format!("{length} bytes, too long to keep")));
    }
    match messages {
        [only] => {
            let only = only.clone();
            Box::new(move || redact::json(&only))
        }
        several => {
            let several = several.to_vec();
            Box::new(move || several.iter().map(redact::json).collect())
        }
    }
}

/// One recorded call.
pub struct CallRecord {
    /// Which RPC.
    pub rpc: Rpc,
    /// When it was sent, counted from the start of the check.
    pub sent_after: Duration,
    /// How long it took.
    pub duration: Duration,
    /// Whether it was made to undo what the check did.
    pub cleanup: bool,
    pub(crate) request: Render,
    pub(crate) outcome: Answer<Render>,
}

impl CallRecord {
    /// The request as JSON, without secrets.
    pub fn request(&self) -> Value {
        (self.request)()
    }

    /// The response as JSON, or the status, or why there is none.
    pub fn outcome(&self) -> Answer<Value> {
        self.outcome.as_ref().map(|render| render())
    }
}

impl fmt::Debug for CallRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.rpc, self.request())
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
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    calls: Vec<CallRecord>,
    calls_dropped: usize,
    warnings: Vec<Violation>,
    connection_broke: bool,
    timed_out: bool,
}

impl CallLog {
    pub(crate) fn new() -> Arc<CallLog> {
        Arc::new(CallLog { started: Instant::now(), inner: Mutex::default() })
    }

    /// Adds a remark that does not stop the check: a rule that is only recommended, or a tolerated answer.
    pub fn warn(&self, warning: Violation) {
        self.lock().warnings.push(warning);
    }

    pub(crate) fn record(&self, call: CallRecord) {
        let mut inner = self.lock();
        match &call.outcome {
            Answer::Unknown(NoAnswer::Broken(_)) => inner.connection_broke = true,
            Answer::Unknown(NoAnswer::Timeout(_)) => inner.timed_out = true,
            Answer::Ok(_) | Answer::Refused(_) => {}
        }
        if inner.calls.len() < CALLS_MAX {
            inner.calls.push(call);
        } else {
            inner.calls_dropped += 1;
        }
    }

    /// Time since the check started.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// How calls went unanswered, if any did.
    pub(crate) fn silence(&self) -> Option<Silence> {
        let inner = self.lock();
        match (inner.connection_broke, inner.timed_out) {
            (true, _) => Some(Silence::ConnectionBroke),
            (false, true) => Some(Silence::TimedOut),
            (false, false) => None,
        }
    }

    pub(crate) fn take(&self) -> (Vec<CallRecord>, usize, Vec<Violation>) {
        let mut inner = self.lock();
        let dropped = std::mem::take(&mut inner.calls_dropped);
        (std::mem::take(&mut inner.calls), dropped, std::mem::take(&mut inner.warnings))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
