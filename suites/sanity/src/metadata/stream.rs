//! Reads streams of block metadata.

use std::ops::Range;

use csi_harness::client::answer::Streamed;
use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_proto::StreamingCall;

use super::UNTRACKED;
use super::ranges::Ranges;

/// Limits the messages of a stream if the driver chooses their length.
const LONG_MESSAGES_MAX: usize = 100;
/// Limits the messages of a stream with a few tuples each, because a fully allocated volume has too many.
const SHORT_MESSAGES_MAX: usize = 1_000;

/// The rules for the answers of one RPC that have a counterpart for the other RPC.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) ends_behind_offset: &'static Requirement,
    pub(super) offset: &'static Requirement,
    pub(super) style: &'static Requirement,
    pub(super) fixed_length: &'static Requirement,
    pub(super) capacity: &'static Requirement,
    pub(super) max_results: &'static Requirement,
    pub(super) order: &'static Requirement,
    pub(super) order_of_messages: &'static Requirement,
    pub(super) failure: &'static Requirement,
    pub(super) invalid: &'static Requirement,
    pub(super) not_found: &'static Requirement,
    pub(super) out_of_range: &'static Requirement,
}

/// A request of either RPC.
pub(super) trait Question: StreamingCall<Response: Into<Message>> {
    /// The rules for its answers.
    const RULES: &'static Rules;

    /// Returns the request with an offset and a limit on the tuples of a message.
    fn with(&self, starting_offset: i64, max_results: i32) -> Self;
}

/// A message of either stream: both have the same fields.
pub(super) type Message = v1::GetMetadataAllocatedResponse;

/// The messages that were read from a stream.
#[derive(Clone, Debug)]
pub(super) struct Received {
    pub(super) messages: Vec<Message>,
    /// True if the stream ended; otherwise this side cancelled it.
    pub(super) is_whole: bool,
}

impl<M: Into<Message>> From<Streamed<M>> for Received {
    fn from(streamed: Streamed<M>) -> Received {
        let messages = streamed.messages.into_iter().map(Into::into).collect();
        Received { messages, is_whole: streamed.is_whole }
    }
}

impl Received {
    pub(super) fn tuples(&self) -> impl Iterator<Item = &v1::BlockMetadata> + Clone {
        self.messages.iter().flat_map(|message| &message.block_metadata)
    }

    pub(super) fn ranges(&self) -> Ranges {
        self.tuples().map(bytes_of).collect()
    }

    /// Returns the offset before which no further data can follow.
    pub(super) fn known_until(&self) -> i64 {
        let last = self.tuples().map(|tuple| bytes_of(tuple).end).max();
        if self.is_whole { i64::MAX } else { last.unwrap_or(0) }
    }

    /// Returns the capacity of the volume, if a message contains it.
    pub(super) fn capacity_bytes(&self) -> Option<i64> {
        self.messages.first().map(|message| message.volume_capacity_bytes).filter(|bytes| *bytes > 0)
    }
}

pub(super) fn bytes_of(tuple: &v1::BlockMetadata) -> Range<i64> {
    tuple.byte_offset..tuple.byte_offset.saturating_add(tuple.size_bytes)
}

/// Describes a tuple for failures.
pub(super) fn shown(tuple: &v1::BlockMetadata) -> String {
    format!("byte_offset {}, size_bytes {}", tuple.byte_offset, tuple.size_bytes)
}

/// Sends the request with an offset and a limit on the tuples of a message, and reads as much as is worth judging.
pub(super) async fn ask<Q: Question>(
    cx: &Cx,
    question: &Q,
    starting_offset: i64,
    max_results: i32,
) -> CheckResult<Received> {
    let messages_max = if max_results == 0 { LONG_MESSAGES_MAX } else { SHORT_MESSAGES_MAX };
    ask_for(cx, &question.with(starting_offset, max_results), messages_max).await
}

/// Sends the request, and cancels the stream after a number of messages. Skips if the storage system does not track
/// blocks.
pub(super) async fn ask_for<Q: Question>(
    cx: &Cx,
    question: &Q,
    messages_max: usize,
) -> CheckResult<Received> {
    let reply = cx.stream_up_to(question.clone(), messages_max).await;
    if reply.code()? == Code::FailedPrecondition {
        return reply.or_skip(UNTRACKED).map(Received::from);
    }
    reply.setup("the blocks of a snapshot").map(Received::from)
}

/// Reads from the beginning, and requires a number of tuples.
pub(super) async fn ask_for_some<Q: Question>(
    cx: &Cx,
    question: &Q,
    max_results: i32,
    tuples_min: usize,
) -> CheckResult<Received> {
    let received = ask(cx, question, 0, max_results).await?;
    let tuples = received.tuples().count();
    if tuples < tuples_min {
        // A volume that was never written may have no blocks.
        return Err(Stop::skip(format!("needs {tuples_min} tuples, but the stream has {tuples}")));
    }
    Ok(received)
}
