//! One call on the wire, and how its end is told apart: done, refused, or nobody knows.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use csi_proto::{MESSAGE_BYTES_MAX, Rpc, StreamingCall, UnaryCall};
use http::uri::PathAndQuery;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tower::ServiceExt as _;
use tower::util::MapResponse;

use crate::error_chain;
use crate::replies::Replies;
use crate::reply::{Answer, NoAnswer, Refused};

/// Messages read from one stream; a driver that sends more is cut off with an answer that says so.
const STREAM_MESSAGES_MAX: usize = 100_000;
/// Messages of one stream that are looked at for rules that hold for every reply.
const WATCHED_MAX: usize = 100;

/// Sends one request. The limit also travels to the driver, as kubelet's deadlines do.
pub(crate) async fn unary<Q>(
    channel: Channel,
    request: Q,
    limit: Duration,
    replies: &Arc<Replies>,
) -> Answer<Q::Response>
where
    Q: UnaryCall + Send + Sync,
    Q::Response: Send + Sync,
{
    let asked = request.clone();
    let exchange = async {
        let mut grpc =
            Grpc::new(watched(channel, Q::RPC, replies)).max_decoding_message_size(MESSAGE_BYTES_MAX);
        grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        let codec = ProstCodec::<Q, Q::Response>::default();
        grpc.unary(with_limit(request, limit), PathAndQuery::from_static(Q::RPC.path), codec).await
    };
    match tokio::time::timeout(limit, exchange).await {
        Ok(Ok(response)) => {
            replies.look_at_message(Q::RPC, &asked, response.get_ref());
            Answer::Ok(response.into_inner())
        }
        Ok(Err(status)) => no(Q::RPC, status, limit, replies),
        Err(_) => Answer::Unknown(NoAnswer::Timeout(limit)),
    }
}

/// Sends one request and reads the whole stream that answers it.
pub(crate) async fn streaming<Q>(
    channel: Channel,
    request: Q,
    limit: Duration,
    replies: &Arc<Replies>,
) -> Answer<Vec<Q::Response>>
where
    Q: StreamingCall + Send + Sync,
    Q::Response: Send + Sync,
{
    let asked = request.clone();
    let exchange = async {
        let mut grpc =
            Grpc::new(watched(channel, Q::RPC, replies)).max_decoding_message_size(MESSAGE_BYTES_MAX);
        grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        let codec = ProstCodec::<Q, Q::Response>::default();
        let path = PathAndQuery::from_static(Q::RPC.path);
        let mut stream = grpc.server_streaming(with_limit(request, limit), path, codec).await?.into_inner();
        let mut messages = Vec::new();
        while let Some(message) = stream.message().await? {
            if messages.len() == STREAM_MESSAGES_MAX {
                return Err(Status::out_of_range(format!(
                    "the stream has over {STREAM_MESSAGES_MAX} messages"
                )));
            }
            messages.push(message);
        }
        Ok(messages)
    };
    match tokio::time::timeout(limit, exchange).await {
        Ok(Ok(messages)) => {
            let looked_at = messages.iter().take(WATCHED_MAX);
            looked_at.for_each(|message| replies.look_at_message(Q::RPC, &asked, message));
            Answer::Ok(messages)
        }
        Ok(Err(status)) => no(Q::RPC, status, limit, replies),
        Err(_) => Answer::Unknown(NoAnswer::Timeout(limit)),
    }
}

/// The channel, with the headers of its responses shown to those who watch the replies.
fn watched(
    channel: Channel,
    rpc: Rpc,
    replies: &Arc<Replies>,
) -> MapResponse<Channel, impl FnOnce(http::Response<Body>) -> http::Response<Body> + Clone> {
    let replies = replies.clone();
    channel.map_response(move |response: http::Response<Body>| {
        replies.look_at_headers(rpc, response.headers());
        response
    })
}

fn with_limit<Q>(request: Q, limit: Duration) -> Request<Q> {
    let mut request = Request::new(request);
    request.set_timeout(limit);
    request
}

/// A status that the driver sent is a no. One that was made here has a source: the time limit, or a connection or
/// stream that broke. The two codes of a passed deadline leave open what the driver has done.
fn no<T>(rpc: Rpc, status: Status, limit: Duration, replies: &Replies) -> Answer<T> {
    match status.source() {
        Some(source) if !is_time_limit(source) => {
            return Answer::Unknown(NoAnswer::Broken(error_chain(source)));
        }
        Some(_) => return Answer::Unknown(NoAnswer::Timeout(limit)),
        None => replies.look_at_status(rpc, &status),
    }
    match status.code() {
        Code::DeadlineExceeded | Code::Cancelled => Answer::Unknown(NoAnswer::Timeout(limit)),
        code => Answer::Refused(Refused { code, message: status.message().to_owned() }),
    }
}

fn is_time_limit(error: &(dyn Error + 'static)) -> bool {
    error.is::<tonic::TimeoutExpired>() || error.source().is_some_and(is_time_limit)
}
