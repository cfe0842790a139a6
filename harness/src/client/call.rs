//! Sends one call, and decides how it ended: done, refused, or unknown.

use std::error::Error;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use csi_proto::{MESSAGE_BYTES_MAX, Rpc, Transport, hidden};
use http::uri::PathAndQuery;
use prost::bytes::{Buf as _, BufMut as _};
use prost::{DecodeError, Message};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status};
use tower::ServiceExt as _;
use tower::util::MapResponse;

use crate::client::answer::{Answer, NoAnswer, Received, Refused};
use crate::client::patience::Patience;
use crate::client::record::CallLog;
use crate::client::response_rules::{Heard, ResponseRules};
use crate::text::message::error_chain;

/// Messages read of a stream whose first one is all that matters.
const STREAM_MESSAGES_MAX: usize = 100_000;
/// Messages of one stream that are looked at for rules that hold for every reply.
const WATCHED_MAX: usize = 100;

/// Returns an error if bytes are no message of some type.
pub(crate) type Form = fn(&[u8]) -> Result<(), DecodeError>;

/// The form of the messages of a type.
pub(crate) fn form<M: Message + Default>(bytes: &[u8]) -> Result<(), DecodeError> {
    M::decode(bytes).map(drop)
}

/// Decodes the one message that was received. Its form was checked before.
pub(crate) fn message<M: Message + Default>(received: &Received) -> M {
    messages(received).into_iter().next().unwrap_or_default()
}

/// Decodes all messages that were received. Their form was checked before.
pub(crate) fn messages<M: Message + Default>(received: &Received) -> Vec<M> {
    received.messages.iter().filter_map(|bytes| M::decode(bytes.as_slice()).ok()).collect()
}

/// One call, with its destination and its observers. It handles messages as bytes, so that one code serves all RPCs.
pub(crate) struct Exchange<'a> {
    pub(crate) transport: Transport,
    pub(crate) rpc: Rpc,
    pub(crate) request: Vec<u8>,
    /// Also travels to the driver, as kubelet's deadlines do.
    pub(crate) limit: Duration,
    pub(crate) patience: &'a Patience,
    pub(crate) response_rules: &'a ResponseRules,
    /// The check that makes the call; `None` outside of checks.
    pub(crate) caller: Option<CallingCheck<'a>>,
}

/// A check that makes a call.
#[derive(Clone, Copy)]
pub(crate) struct CallingCheck<'a> {
    /// Its label.
    pub(crate) check: &'a str,
    /// Its calls so far.
    pub(crate) log: &'a CallLog,
}

/// An answer, and when it arrived.
pub(crate) struct Ended {
    pub(crate) answer: Answer<Received>,
    /// The moment at which the answer had arrived, or was no longer waited for. The answer is judged after that, which is no time of the driver.
    pub(crate) at: Instant,
}

impl Exchange<'_> {
    /// Sends the request and waits for the one message that answers it.
    pub(crate) async fn unary(self, form: Form) -> Ended {
        let wire = self.wire();
        let ended = self.patience.wait(self.rpc, self.limit, pin!(wire.unary())).await;
        let at = Instant::now();
        let whole = |bytes| formed(Received { messages: vec![bytes], is_whole: true }, form);
        Ended { answer: self.judge(&wire.code, ended.map(|ended| ended.and_then(whole))), at }
    }

    /// Sends the request and reads this many messages of the response stream. The rest is cut off.
    pub(crate) async fn streaming(self, form: Form, messages_max: usize) -> Ended {
        let wire = self.wire();
        let mut read = Received { messages: Vec::new(), is_whole: false };
        let ended =
            self.patience.wait(self.rpc, self.limit, pin!(wire.streaming(messages_max, &mut read))).await;
        let at = Instant::now();
        let after_messages = read.messages.len();
        let ended = ended.map(|ended| formed(read, form).and_then(|read| ended.map(|()| read)));
        let answer = match self.judge(&wire.code, ended) {
            Answer::Refused(refused) => Answer::Refused(Refused { after_messages, ..refused }),
            other => other,
        };
        Ended { answer, at }
    }

    /// Sends the request, whether or not it is one, and hands on the response, or the first of several, unread; it is empty where there is
    /// none. What such a call is answered says nothing of the rules that hold for every reply.
    pub(crate) async fn unread(self) -> Ended {
        let wire = self.wire();
        let ended = self.patience.wait(self.rpc, self.limit, pin!(wire.first())).await;
        let at = Instant::now();
        let answer = match ended {
            Ok(Ok(first)) => Answer::Ok(Received { messages: vec![first], is_whole: true }),
            Ok(Err(status)) => no_answer(&status, self.limit).unwrap_or_else(|| refused(&status)),
            Err(waited) => Answer::Unknown(NoAnswer::Timeout(waited)),
        };
        Ended { answer, at }
    }

    fn wire(&self) -> Wire<'_> {
        Wire { exchange: self, code: OddCode::default() }
    }

    /// Decides how a call ended, and passes the reply to those who look at every reply.
    fn judge(&self, code: &OddCode, ended: Result<Result<Received, Status>, Duration>) -> Answer<Received> {
        let heard = self.response_rules.heard(self.rpc, &self.request, self.caller);
        if let Some(code) = code.0.get() {
            heard.odd_code(code);
        }
        match ended {
            Ok(Ok(received)) => {
                received.messages.iter().take(WATCHED_MAX).for_each(|message| heard.message(message));
                self.patience.done(self.rpc);
                Answer::Ok(received)
            }
            Ok(Err(status)) => no(&heard, &status, self.limit),
            Err(waited) => Answer::Unknown(NoAnswer::Timeout(waited)),
        }
    }
}

/// Returns the messages if all of them have this form.
fn formed(received: Received, form: Form) -> Result<Received, Status> {
    match received.messages.iter().try_for_each(|bytes| form(bytes)) {
        Ok(()) => Ok(received),
        // gRPC's libraries report a message that cannot be decoded with this code.
        Err(error) => Err(Status::internal(format!("the answer cannot be decoded: {error}"))),
    }
}

/// A call as it goes over the wire.
struct Wire<'a> {
    exchange: &'a Exchange<'a>,
    /// The status code on the wire, if it is none of gRPC's.
    code: OddCode,
}

impl Wire<'_> {
    async fn unary(&self) -> Result<Vec<u8>, Status> {
        let mut grpc = self.grpc().await?;
        Ok(grpc.unary(self.request(), self.path(), RawCodec).await?.into_inner())
    }

    /// Reads at most this many messages.
    async fn streaming(&self, messages_max: usize, read: &mut Received) -> Result<(), Status> {
        let mut grpc = self.grpc().await?;
        let mut stream = grpc.server_streaming(self.request(), self.path(), RawCodec).await?.into_inner();
        while let Some(message) = stream.message().await? {
            if read.messages.len() == messages_max {
                return Ok(());
            }
            read.messages.push(message);
        }
        read.is_whole = true;
        Ok(())
    }

    /// Reads to the end, and keeps the first message. A message is a stream of one.
    async fn first(&self) -> Result<Vec<u8>, Status> {
        let mut grpc = self.grpc().await?;
        let mut stream = grpc.server_streaming(self.request(), self.path(), RawCodec).await?.into_inner();
        let first = stream.message().await?.unwrap_or_default();
        for _ in 0..STREAM_MESSAGES_MAX {
            if stream.message().await?.is_none() {
                break;
            }
        }
        Ok(first)
    }

    /// A client whose responses are looked at for codes that are none.
    async fn grpc(&self) -> Result<Grpc<Watched<impl Watch + use<>>>, Status> {
        let code = self.code.clone();
        let watched = self.exchange.transport.clone().map_response(move |response: http::Response<Body>| {
            code.look_at(response.headers());
            response
        });
        let mut grpc = Grpc::new(watched).max_decoding_message_size(MESSAGE_BYTES_MAX);
        grpc.ready().await.map_err(Status::from_error)?;
        Ok(grpc)
    }

    fn request(&self) -> Request<Vec<u8>> {
        let mut request = Request::new(self.exchange.request.clone());
        request.set_timeout(self.exchange.limit);
        request
    }

    fn path(&self) -> PathAndQuery {
        PathAndQuery::from_static(self.exchange.rpc.path)
    }
}

/// Hands bytes through as they are.
#[derive(Default)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = RawCodec;
    type Decoder = RawCodec;

    fn encoder(&mut self) -> RawCodec {
        RawCodec
    }

    fn decoder(&mut self) -> RawCodec {
        RawCodec
    }
}

impl Encoder for RawCodec {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, bytes: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&bytes);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut bytes = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut bytes);
        Ok(Some(bytes))
    }
}

/// A transport that shows responses to an observer on their way.
type Watched<F> = MapResponse<Transport, F>;

trait Watch: FnOnce(http::Response<Body>) -> http::Response<Body> + Clone {}

impl<F: FnOnce(http::Response<Body>) -> http::Response<Body> + Clone> Watch for F {}

/// A code as it came over the wire and is none of gRPC's: to its libraries that is UNKNOWN.
#[derive(Clone, Default)]
struct OddCode(Arc<OnceLock<String>>);

impl OddCode {
    fn look_at(&self, headers: &http::HeaderMap) {
        let Some(code) = headers.get("grpc-status") else { return };
        let code = String::from_utf8_lossy(code.as_bytes());
        if !code.parse::<u8>().is_ok_and(|code| code <= 16) {
            self.0.get_or_init(|| code.into_owned());
        }
    }
}

/// A status that the driver sent is a no, which is looked at.
fn no<T>(heard: &Heard<'_>, status: &Status, limit: Duration) -> Answer<T> {
    no_answer(status, limit).unwrap_or_else(|| {
        heard.status(status);
        refused(status)
    })
}

/// A status that was made here has a source: the time limit, or a connection or stream that broke.
fn no_answer<T>(status: &Status, limit: Duration) -> Option<Answer<T>> {
    status.source().map(|source| match is_time_limit(source) {
        true => Answer::Unknown(NoAnswer::Timeout(limit)),
        false => Answer::Unknown(NoAnswer::Broken(error_chain(source))),
    })
}

/// A status that the driver sent. The two codes of a passed deadline leave open what it has done.
fn refused<T>(status: &Status) -> Answer<T> {
    let message = hidden::strip(status.message()).into_owned();
    let refused = Refused { code: status.code(), message, after_messages: 0 };
    match status.code() {
        Code::DeadlineExceeded | Code::Cancelled => Answer::Unknown(NoAnswer::GivenUp(refused)),
        _ => Answer::Refused(refused),
    }
}

fn is_time_limit(error: &(dyn Error + 'static)) -> bool {
    error.is::<tonic::TimeoutExpired>() || error.source().is_some_and(is_time_limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_grpc() {
        for (text, odd) in [("0", false), ("16", false), ("17", true), ("-1", true), ("none", true)] {
            let code = OddCode::default();
            let headers = [(http::HeaderName::from_static("grpc-status"), text.parse().unwrap())];
            code.look_at(&headers.into_iter().collect());
            assert_eq!(code.0.get().is_some(), odd, "{text}");
        }
    }
}
