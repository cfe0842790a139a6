//! What a stream of block metadata told.

use std::ops::Range;

use csi_harness::client::answer::Streamed;
use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_proto::StreamingCall;

use super::UNTRACKED;
use super::ranges::Ranges;

/// Messages read of a stream whose driver chooses how long they are.
const LONG_MESSAGES_MAX: usize = 100;
/// Messages read of a stream with a few tuples in each: a volume that is all allocated has more than anybody wants to read.
const SHORT_MESSAGES_MAX: usize = 1_000;

/// What the specification says of the answers of one RPC, where it says the same of both.
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

/// A request of one of the two RPCs.
pub(super) trait Question: StreamingCall<Response: Into<Message> + Send + Sync> + Send + Sync {
    /// Its rules.
    const RULES: &'static Rules;

    /// The same question from an offset on, with at most so many tuples in a message.
    fn with(&self, starting_offset: i64, max_results: i32) -> Self;
}

/// A message of one of the two streams.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) style: i32,
    pub(super) capacity_bytes: i64,
    pub(super) tuples: Vec<v1::BlockMetadata>,
}

macro_rules! messages {
    ($($response:ident),+) => {
        $(impl From<v1::$response> for Message {
            fn from(response: v1::$response) -> Message {
                Message {
                    style: response.block_metadata_type,
                    capacity_bytes: response.volume_capacity_bytes,
                    tuples: response.block_metadata,
                }
            }
        })+
    };
}

messages!(GetMetadataAllocatedResponse, GetMetadataDeltaResponse);

/// What was read of a stream.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) messages: Vec<Message>,
    /// Whether the stream has ended; otherwise it was cut off from here.
    pub(super) is_whole: bool,
}

impl<M: Into<Message>> From<Streamed<M>> for Told {
    fn from(streamed: Streamed<M>) -> Told {
        let messages = streamed.messages.into_iter().map(Into::into).collect();
        Told { messages, is_whole: streamed.is_whole }
    }
}

impl Told {
    /// The tuples of all messages.
    pub(super) fn tuples(&self) -> impl Iterator<Item = &v1::BlockMetadata> + Clone {
        self.messages.iter().flat_map(|message| &message.tuples)
    }

    /// What the tuples cover.
    pub(super) fn ranges(&self) -> Ranges {
        self.tuples().map(bytes_of).collect()
    }

    /// The offset up to which nothing more can follow.
    pub(super) fn known_until(&self) -> i64 {
        let last = self.tuples().map(|tuple| bytes_of(tuple).end).max();
        if self.is_whole { i64::MAX } else { last.unwrap_or(0) }
    }

    /// The capacity of the volume, if a message tells it.
    pub(super) fn capacity_bytes(&self) -> Option<i64> {
        self.messages.first().map(|message| message.capacity_bytes).filter(|bytes| *bytes > 0)
    }
}

/// The bytes that a tuple speaks of.
pub(super) fn bytes_of(tuple: &v1::BlockMetadata) -> Range<i64> {
    tuple.byte_offset..tuple.byte_offset.saturating_add(tuple.size_bytes)
}

/// A tuple as failures show it.
pub(super) fn shown(tuple: &v1::BlockMetadata) -> String {
    format!("byte_offset {}, size_bytes {}", tuple.byte_offset, tuple.size_bytes)
}

/// Asks from an offset on, with at most so many tuples in a message, and reads as much as is worth judging.
pub(super) async fn ask<Q: Question>(
    cx: &Cx,
    question: &Q,
    starting_offset: i64,
    max_results: i32,
) -> CheckResult<Told> {
    let messages_max = if max_results == 0 { LONG_MESSAGES_MAX } else { SHORT_MESSAGES_MAX };
    ask_for(cx, &question.with(starting_offset, max_results), messages_max).await
}

/// Asks, and cuts the stream off after so many messages. Skips where the storage system does not keep track of blocks.
pub(super) async fn ask_for<Q: Question>(cx: &Cx, question: &Q, messages_max: usize) -> CheckResult<Told> {
    let reply = cx.stream_up_to(question.clone(), messages_max).await;
    if reply.code()? == Code::FailedPrecondition {
        return reply.or_skip(UNTRACKED).map(Told::from);
    }
    reply.setup("the blocks of a snapshot").map(Told::from)
}

/// Asks from the beginning for something that has at least so many tuples.
pub(super) async fn ask_for_some<Q: Question>(
    cx: &Cx,
    question: &Q,
    max_results: i32,
    tuples_min: usize,
) -> CheckResult<Told> {
    let told = ask(cx, question, 0, max_results).await?;
    let tuples = told.tuples().count();
    if tuples < tuples_min {
        // A volume that nothing was written to may have no blocks.
        return Err(Stop::skip(format!(
            "it takes {tuples_min} tuples to judge, and the stream has {tuples}"
        )));
    }
    Ok(told)
}
