//! A call about to be made, as often as its sender needs.

use std::future::{Future, IntoFuture};
use std::time::Instant;

use csi_proto::Rpc;
use futures_util::future::BoxFuture;
use tonic::Code;

use crate::client::answer::{Answer, NoAnswer};
use crate::client::patience::{Pauses, Settles};
use crate::client::reply::Reply;
use crate::client::session::Session;
use crate::protocol::effect;
use crate::spec::verdict::Stop;

/// Times that a call to be judged is made while the driver says "not now".
const JUDGED_TRIES_MAX: u32 = 6;
/// Times that a call to be judged is made when "not now" may last for ever: a resource is used up, or the driver has
/// never said anything else.
const EXHAUSTED_TRIES_MAX: u32 = 3;
/// Times that a call to build on is made although no answer came.
const UNANSWERED_TRIES_MAX: u32 = 3;

/// A call that was not sent yet.
///
/// An awaited call is sent to be judged, and is sent again a few times while the driver only says "not now" (`ABORTED`, `UNAVAILABLE`,
/// `RESOURCE_EXHAUSTED`), which says nothing about the request. [`PendingCall::once`] sends it a single time. [`PendingCall::setup`] is for
/// calls that only prepare, and as patient as an orchestrator.
#[must_use = "a call is sent only when it is awaited"]
pub struct PendingCall<'a, T> {
    session: &'a Session,
    rpc: Rpc,
    send: Box<dyn FnMut() -> BoxFuture<'a, Reply<T>> + Send + 'a>,
}

impl<T> std::fmt::Debug for PendingCall<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PendingCall({})", self.rpc)
    }
}

impl<'a, T: Send + 'a> PendingCall<'a, T> {
    pub(crate) fn new<F>(
        session: &'a Session,
        rpc: Rpc,
        mut send: impl FnMut() -> F + Send + 'a,
    ) -> PendingCall<'a, T>
    where
        F: Future<Output = Reply<T>> + Send + 'a,
    {
        PendingCall { session, rpc, send: Box::new(move || Box::pin(send())) }
    }

    /// The call with its response turned into something else.
    pub fn map<U: Send + 'a>(self, f: fn(T) -> U) -> PendingCall<'a, U> {
        let PendingCall { session, rpc, mut send } = self;
        PendingCall::new(session, rpc, move || {
            let reply = send();
            async move { reply.await.map(f) }
        })
    }

    /// Sends it a single time: for checks about calls at the same time, and for those that ask again themselves.
    pub fn once(mut self) -> BoxFuture<'a, Reply<T>> {
        (self.send)()
    }

    /// The check builds on it, but does not judge it: another check does. `what` names what is missing without it.
    ///
    /// The same request is sent again while the driver says "not now", until `time-limits: settle-ms` has passed, and a
    /// few times after a time limit or a broken connection.
    ///
    /// # Errors
    /// Broken, so that one fault of the driver is one failure.
    pub async fn setup(self, what: &str) -> Result<T, Stop> {
        self.patiently().await.setup(what)
    }

    /// Sends it as patiently as an orchestrator, as [`PendingCall::setup`] does, to be judged.
    pub async fn patiently(mut self) -> Reply<T> {
        let mut tries = Tries::of(&self);
        let mut settled = None;
        loop {
            let reply = (self.send)().await;
            // The first call may have taken longer than a driver gets to settle.
            let settled = *settled.get_or_insert_with(|| Instant::now() + self.session.settle_limit());
            if !tries.go_on(reply.answer().as_ref().map(drop), settled).await {
                return reply;
            }
        }
    }

    /// Sends it to be judged, and only a few times where sending this RPC again has never helped, unless the driver says that
    /// something is pending.
    pub fn sparing(self) -> BoxFuture<'a, Reply<T>> {
        let in_vain = self.session.patience().is_judged_in_vain(self.rpc);
        Box::pin(self.judged(if in_vain { EXHAUSTED_TRIES_MAX } else { JUDGED_TRIES_MAX }))
    }

    async fn judged(mut self, most: u32) -> Reply<T> {
        let mut tries = Tries::of(&self);
        loop {
            let reply = (self.send)().await;
            if !tries.go_on_judging(reply.answer().as_ref().map(drop), most).await {
                return reply;
            }
        }
    }
}

/// Counts how often a call was sent, and decides if it is sent again.
struct Tries<'a> {
    session: &'a Session,
    rpc: Rpc,
    pauses: Pauses,
    unanswered: u32,
    /// The first end that a caller that makes each call once takes for a failure: `UNAVAILABLE`, or no answer.
    failed: Option<String>,
}

impl<'a> Tries<'a> {
    fn of<T>(call: &PendingCall<'a, T>) -> Tries<'a> {
        Tries { session: call.session, rpc: call.rpc, pauses: Pauses::default(), unanswered: 0, failed: None }
    }

    /// Returns true, after a pause, if a call that prepares is to be sent again. A driver has time to settle until
    /// `settled`.
    fn go_on(&mut self, ended: Answer<()>, settled: Instant) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let patience = self.session.patience();
            let again = match &ended {
                Answer::Ok(()) => false,
                Answer::Refused(refused) if effect::is_not_now(self.rpc.method, refused.code) => {
                    let late = Instant::now() + self.pauses.next > settled;
                    let known = patience.is_unwilling(self.rpc) && self.pauses.taken >= EXHAUSTED_TRIES_MAX;
                    !late && !known
                }
                Answer::Refused(_) => false,
                Answer::Unknown(NoAnswer::CheckEnded | NoAnswer::NotSent(_)) => false,
                Answer::Unknown(_) => {
                    self.unanswered += 1;
                    self.unanswered < UNANSWERED_TRIES_MAX && !patience.is_silent(self.rpc)
                }
            };
            if again && self.session.remaining() > self.pauses.next {
                self.wait(&ended, settled).await;
                return true;
            }
            if self.pauses.taken > 0 {
                patience.was_willing(self.rpc, matches!(ended, Answer::Ok(())));
            }
            self.end(&ended);
            false
        })
    }

    /// Returns true, after a pause, if a call that is judged is to be sent again.
    fn go_on_judging(&mut self, ended: Answer<()>, most: u32) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let tries_max = match &ended {
                Answer::Refused(refused) if refused.code == Code::ResourceExhausted => EXHAUSTED_TRIES_MAX,
                Answer::Refused(refused) if !effect::is_not_now(self.rpc.method, refused.code) => 0,
                // An operation that is still pending after all tries breaks a rule, so it takes all of them to accuse
                // the driver.
                Answer::Refused(refused) if refused.code == Code::Aborted => JUDGED_TRIES_MAX,
                Answer::Refused(_) => most,
                Answer::Ok(()) | Answer::Unknown(_) => 0,
            };
            if self.pauses.taken + 1 >= tries_max || self.session.remaining() < self.pauses.next {
                if self.pauses.taken > 0 {
                    self.session.patience().was_judged(self.rpc, tries_max == 0);
                }
                self.end(&ended);
                return false;
            }
            self.wait(&ended, Instant::now() + self.pauses.next).await;
            true
        })
    }

    async fn wait(&mut self, ended: &Answer<()>, until: Instant) {
        let failed = match ended {
            Answer::Refused(refused) if refused.code == Code::Unavailable => Some(refused.to_string()),
            Answer::Unknown(why @ (NoAnswer::Timeout(_) | NoAnswer::GivenUp(_) | NoAnswer::Broken(_))) => {
                Some(why.to_string())
            }
            Answer::Ok(()) | Answer::Refused(_) | Answer::Unknown(_) => None,
        };
        self.failed = self.failed.take().or(failed);
        let what = Settles::Willing(self.rpc.method);
        self.session.wait_to_repeat(what, &mut self.pauses, until).await;
    }

    /// Counts the call if the driver has answered it only when it was made again.
    fn end(&self, ended: &Answer<()>) {
        let is_answered = match ended {
            Answer::Ok(()) => true,
            Answer::Refused(refused) => !effect::is_not_now(self.rpc.method, refused.code),
            Answer::Unknown(_) => false,
        };
        if let Some(failed) = self.failed.as_deref().filter(|_| is_answered) {
            self.session.target().tally.answered_when_repeated(self.session.label(), self.rpc, failed);
        }
    }
}

impl<'a, T: Send + 'a> IntoFuture for PendingCall<'a, T> {
    type Output = Reply<T>;
    type IntoFuture = BoxFuture<'a, Reply<T>>;

    fn into_future(self) -> BoxFuture<'a, Reply<T>> {
        Box::pin(self.judged(JUDGED_TRIES_MAX))
    }
}
