//! Judges the answers of both RPCs.

use std::ops::Range;
use std::time::{Duration, Instant};

use csi_harness::prelude::*;

use super::stream::{Question, Received, ask, ask_for, ask_for_some, bytes_of, shown};
use super::{missing_id, of_what_is_gone, or_untracked};
use crate::controller::common::{must_become_unknown, unknown_id};

const FIXED_LENGTH: i32 = v1::BlockMetadataType::FixedLength as i32;
const UNKNOWN: i32 = v1::BlockMetadataType::Unknown as i32;
/// An offset behind the end of any volume, for drivers that do not report their capacity.
const BEYOND_ANY_VOLUME: i64 = 1 << 62;
/// The number of cancelled streams: a driver that continues each of them runs out of resources.
const CUT_OFF: usize = 20;
/// The limit on the wait for a request that must fail, which is at least this, or a multiple of the duration of a
/// correct one.
const HANGS_AFTER: Duration = Duration::from_secs(3);
const HANGS_AFTER_PLAIN: u32 = 20;
/// Limits the messages that are read before a stream is cancelled, to be continued later.
const MESSAGES_BEFORE_CUT_MAX: usize = 100;

pub(super) async fn tuples_lie_in_the_volume<Q: Question>(cx: &Cx, question: &Q) -> CheckResult {
    let received = ask_for_some(cx, question, 0, 1).await?;
    let capacity_bytes = received.capacity_bytes().unwrap_or(i64::MAX);
    for tuple in received.tuples() {
        ensure!(
            (0..capacity_bytes).contains(&tuple.byte_offset),
            "a tuple begins outside of the volume";
            of: &req::META_FORMAT_002,
            expected: format!("byte_offset from 0 to below volume_capacity_bytes {capacity_bytes}"),
            actual: shown(tuple)
        );
        ensure!(
            tuple.size_bytes > 0,
            "a tuple is empty";
            of: &req::META_FORMAT_003,
            expected: "size_bytes above 0",
            actual: shown(tuple)
        );
    }
    // It is open whether the last block may exceed a volume that is no multiple of the block size.
    if let Some(tuple) = received.tuples().find(|tuple| bytes_of(tuple).end > capacity_bytes) {
        cx.warn(
            Violation::new("a tuple ends beyond the end of the volume")
                .of(&req::META_FORMAT_003)
                .expected(format!("an end within volume_capacity_bytes {capacity_bytes}"))
                .actual(shown(tuple)),
        );
    }
    Ok(())
}

/// Checks that each tuple ends before the next one begins, within and across messages.
pub(super) async fn tuples_rise<Q: Question>(cx: &Cx, question: &Q) -> CheckResult {
    for max_results in [0, 1] {
        let received = ask_for_some(cx, question, max_results, 2).await?;
        let tuples = received.messages.iter().enumerate().flat_map(|(message, received)| {
            received.block_metadata.iter().map(move |tuple| (message, tuple))
        });
        for ((message, tuple), (next_message, next)) in tuples.clone().zip(tuples.skip(1)) {
            let (rule, of_where) = match message == next_message {
                true => (Q::RULES.order, format!("message {}", message + 1)),
                false => {
                    (Q::RULES.order_of_messages, format!("messages {} and {}", message + 1, next_message + 1))
                }
            };
            let end = bytes_of(tuple).end;
            ensure!(
                tuple.byte_offset < next.byte_offset && end <= next.byte_offset,
                "two consecutive tuples do not ascend, or overlap";
                of: rule,
                expected: format!("after {}, a tuple with byte_offset of at least {end}", shown(tuple)),
                actual: format!("{}, in {of_where} of the stream with max_results {max_results}", shown(next))
            );
        }
    }
    Ok(())
}

/// Checks that all messages have one style, which is one of the two defined ones.
pub(super) async fn style_stays<Q: Question>(cx: &Cx, question: &Q) -> CheckResult {
    for max_results in [0, 1] {
        let received = ask_for_some(cx, question, max_results, 1).await?;
        let styles = received.messages.iter().map(|message| message.block_metadata_type);
        let Some(first) = styles.clone().next() else { continue };
        ensure!(
            first != UNKNOWN,
            "block_metadata_type is UNKNOWN, or not set";
            of: Q::RULES.style,
            expected: "FIXED_LENGTH or VARIABLE_LENGTH",
            actual: "UNKNOWN in the first message"
        );
        if let Some((message, style)) = styles.enumerate().find(|(_, style)| *style != first) {
            return Err(Violation::new("block_metadata_type changes in the middle of a stream")
                .of(Q::RULES.style)
                .expected(format!("{} in each message, as in the first", style_name(first)))
                .actual(format!("{} in message {}", style_name(style), message + 1))
                .into());
        }
    }
    Ok(())
}

fn style_name(style: i32) -> String {
    let known = v1::BlockMetadataType::try_from(style);
    known.map_or_else(|_| style.to_string(), |known| known.as_str_name().to_owned())
}

/// Checks that all tuples have one size in the style of fixed length.
pub(super) async fn fixed_length_is_fixed<Q: Question>(cx: &Cx, question: &Q) -> CheckResult {
    let received = ask_for_some(cx, question, 0, 2).await?;
    if received.messages.iter().any(|message| message.block_metadata_type != FIXED_LENGTH) {
        return Err(Stop::skip("the driver does not use the style FIXED_LENGTH"));
    }
    let Some(first) = received.tuples().next() else { return Ok(()) };
    let Some(other) = received.tuples().find(|tuple| tuple.size_bytes != first.size_bytes) else {
        return Ok(());
    };
    // The specification does not mention volumes that are no multiple of the block size.
    if other.size_bytes < first.size_bytes && Some(bytes_of(other).end) == received.capacity_bytes() {
        cx.warn(
            Violation::new("the last block of the volume is shorter than the others")
                .of(&req::META_FORMAT_004)
                .expected(format!(
                    "size_bytes {} in each tuple, since the style is FIXED_LENGTH",
                    first.size_bytes
                ))
                .actual(shown(other)),
        );
        return Ok(());
    }
    Err(Violation::new("tuples have different sizes although the style is FIXED_LENGTH")
        .of(Q::RULES.fixed_length)
        .expected(format!("size_bytes {} in each tuple, as in the first", first.size_bytes))
        .actual(shown(other))
        .into())
}

pub(super) async fn capacity_stays<Q: Question>(cx: &Cx, question: &Q) -> CheckResult {
    let received = ask_for_some(cx, question, 1, 1).await?;
    let mut capacities = received.messages.iter().map(|message| message.volume_capacity_bytes);
    let first = capacities.next().unwrap_or_default();
    ensure!(
        first > 0,
        "volume_capacity_bytes is missing";
        of: Q::RULES.capacity,
        expected: "the capacity of the volume in each message",
        actual: format!("volume_capacity_bytes {first} in the first message")
    );
    if let Some((message, other)) = (2..).zip(capacities).find(|(_, capacity)| *capacity != first) {
        return Err(Violation::new("volume_capacity_bytes changes in the middle of a stream")
            .of(Q::RULES.capacity)
            .expected(format!("{first} in each message, as in the first"))
            .actual(format!("{other} in message {message}"))
            .into());
    }
    Ok(())
}

/// Checks that no message has more tuples than requested, and that all messages together are equal to the whole
/// stream.
pub(super) async fn max_results_is_kept<Q: Question>(cx: &Cx, question: &Q) -> CheckResult {
    let all = ask_for_some(cx, question, 0, 2).await?;
    for max_results in [1, 2] {
        let received = ask(cx, question, 0, max_results).await?;
        let counts = received.messages.iter().map(|message| message.block_metadata.len());
        let most = counts.max().unwrap_or_default();
        ensure!(
            i32::try_from(most).is_ok_and(|most| most <= max_results),
            "a message has more tuples than requested";
            of: Q::RULES.max_results,
            expected: format!("at most {max_results} in each message"),
            actual: format!("{most} in one message")
        );
        if let Some(missing) = gap(&all, &received, 0, &format!("with max_results {max_results}")) {
            return Err(missing.of(&req::META_STREAM_001).into());
        }
    }
    Ok(())
}

/// Returns the data that one stream lists behind an offset and the other does not. Ranges may be divided differently.
fn gap(all: &Received, received: &Received, offset: i64, how: &str) -> Option<Violation> {
    let until = all.known_until().min(received.known_until());
    let missing = all.ranges().between(offset, until).first_outside(&received.ranges())?;
    let Range { start, end } = missing;
    Some(
        Violation::new(format!("the stream {how} ends with OK, but lacks bytes that another stream lists"))
            .expected(format!(
                "bytes {start} to {end}, as in the stream from offset 0 on without max_results"
            ))
            .actual(match received.tuples().find(|tuple| tuple.byte_offset >= start) {
                Some(next) => format!("the next tuple is {}", shown(next)),
                None => "no tuple from there on".to_owned(),
            }),
    )
}

/// Checks that a stream from an offset leaves out the data before it, and nothing else.
pub(super) async fn offset_is_kept<Q: Question>(cx: &Cx, question: &Q) -> CheckResult {
    let all = ask_for_some(cx, question, 0, 2).await?;
    for offset in offsets(&all) {
        let received = ask(cx, question, offset, 0).await?;
        if let Some(before) = received.tuples().find(|tuple| bytes_of(tuple).end <= offset) {
            return Err(Violation::new("a tuple ends before starting_offset")
                .of(Q::RULES.ends_behind_offset)
                .expected(format!("tuples that end after starting_offset {offset}"))
                .actual(shown(before))
                .into());
        }
        if let Some(missing) = gap(&all, &received, offset, &format!("from offset {offset} on")) {
            return Err(missing.of(Q::RULES.offset).into());
        }
    }
    Ok(())
}

/// Returns offsets within a tuple, at its end and start, and where there are no data.
fn offsets(received: &Received) -> Vec<i64> {
    let pairs = received.tuples().zip(received.tuples().skip(1));
    let gap = pairs.map(|(one, next)| bytes_of(one).end..next.byte_offset).find(|gap| !gap.is_empty());
    let middle = |range: Range<i64>| range.start + (range.end - range.start) / 2;
    let first = received.tuples().next().map(bytes_of);
    let second = received.tuples().nth(1).map(|tuple| tuple.byte_offset);
    let wanted = [first.clone().map(middle), first.map(|first| first.end), second, gap.map(middle)];
    let capacity_bytes = received.capacity_bytes().unwrap_or(i64::MAX);
    let mut offsets: Vec<i64> =
        wanted.into_iter().flatten().filter(|offset| (0..capacity_bytes).contains(offset)).collect();
    offsets.sort_unstable();
    offsets.dedup();
    offsets
}

/// Checks that a broken stream continues at the next byte without a loss.
pub(super) async fn can_be_continued<Q: Question>(cx: &Cx, question: &Q) -> CheckResult {
    let all = ask_for_some(cx, question, 0, 2).await?;
    let before = ask_for(cx, &question.with(0, 1), messages_before_cut(&all)).await?;
    let Some(last) = before.tuples().last() else {
        return Err(Stop::skip("the first messages of the stream have no tuples"));
    };
    let next = bytes_of(last).end;
    if before.is_whole || all.capacity_bytes().is_some_and(|capacity_bytes| next >= capacity_bytes) {
        return Err(Stop::skip("the stream is too short to be cut off"));
    }
    let mut received = ask(cx, question, next, 0).await?;
    let begins = received.tuples().next().map_or(i64::MAX, |first| first.byte_offset);
    received.messages.splice(0..0, before.messages);
    let how = format!("cut off and continued at offset {next}");
    let Some(missing) = gap(&all, &received, 0, &how) else { return Ok(()) };
    let expected_at_once = all.ranges().between(next, begins) != Default::default();
    Err(missing.of(if expected_at_once { &req::META_STREAM_005 } else { &req::META_STREAM_001 }).into())
}

/// Returns the number of messages, each with one tuple, before the cancellation, so that the next tuple follows
/// directly if there is such a place.
fn messages_before_cut(all: &Received) -> usize {
    let meets = |(one, next): (&v1::BlockMetadata, &v1::BlockMetadata)| bytes_of(one).end == next.byte_offset;
    let pairs = all.tuples().zip(all.tuples().skip(1)).take(MESSAGES_BEFORE_CUT_MAX);
    pairs.into_iter().position(meets).unwrap_or(0) + 1
}

/// Checks that a driver still serves after callers cancelled streams.
pub(super) async fn serves_after_cuts<Q: Question>(cx: &Cx, question: &Q) -> CheckResult {
    ask_for_some(cx, question, 1, 2).await?;
    for _ in 0..CUT_OFF {
        let served = cx.eventually(Settles::StreamEnded, || async {
            let reply = cx.stream_up_to(question.with(0, 1), 1).once().await;
            // The driver may notice late that a stream is no longer read.
            let busy = matches!(reply.code()?, Code::Aborted | Code::Unavailable | Code::ResourceExhausted);
            Ok((!busy).then_some(reply))
        });
        let reply = match served.await? {
            Some(reply) => reply,
            None => cx.stream_up_to(question.with(0, 1), 1).await,
        };
        reply.must("still work after a stream was cut off").map_err(|stop| stop.of(&req::META_STREAM_003))?;
    }
    Ok(())
}

/// Checks that offsets outside of the volume are rejected.
pub(super) async fn offsets_outside_are_refused<Q: Question>(cx: &Cx, question: &Q) -> CheckResult {
    let received = ask(cx, question, 0, 0).await?;
    let beyond = received
        .capacity_bytes()
        .map_or(BEYOND_ANY_VOLUME, |capacity_bytes| capacity_bytes.saturating_add(1));
    for (offset, what) in
        [(-1, "with a negative starting_offset"), (beyond, "with starting_offset beyond the end")]
    {
        let is_vague = "the row for invalid arguments fits as well, but is less precise";
        let refusal = refused_with(Code::OutOfRange).or_warn(Code::InvalidArgument, is_vague);
        let reply = cx.stream_up_to(question.with(offset, 0), 1).await;
        let refused = reply.must_be_refused(what, or_untracked(refusal));
        refused.map_err(|stop| stop.of(Q::RULES.out_of_range))?;
    }
    Ok(())
}

/// Checks a negative number of tuples. The specification does not mention it, so every violation is a remark.
pub(super) async fn negative_max_results<Q: Question>(cx: &Cx, question: &Q) -> CheckResult {
    let begun = Instant::now();
    ask(cx, question, 0, 0).await?;
    let plain = begun.elapsed();
    let limit = HANGS_AFTER.max(plain * HANGS_AFTER_PLAIN);
    let asked = cx.stream_up_to(question.with(0, -1), 1);
    let actual = match cx.give_up_after(limit, asked).await {
        Some(reply) => match reply.any_answer()? {
            Err(refused) if refused.code == Code::InvalidArgument => return Ok(()),
            Err(refused) => refused.to_string(),
            Ok(_) => "OK".to_owned(),
        },
        None => {
            format!("no answer within {} ms; a plain one took {} ms", limit.as_millis(), plain.as_millis())
        }
    };
    cx.warn(
        Violation::new(format!("{} with negative max_results is not rejected as invalid", Q::RPC))
            .of(Q::RULES.invalid)
            .expected("INVALID_ARGUMENT")
            .actual(actual),
    );
    Ok(())
}

/// Checks a request without a REQUIRED id.
pub(super) async fn is_refused_without<Q: Question>(cx: &Cx, question: Q, field: &str) -> CheckResult {
    let reply = cx.stream_up_to(question, 1).await;
    reply.must_be_refused(&format!("without {field}"), missing_id::<Q>())?;
    Ok(())
}

/// Skips if the storage system does not track blocks.
pub(super) async fn is_tracked<Q: Question>(cx: &Cx, question: &Q) -> CheckResult {
    ask(cx, question, 0, 0).await.map(drop)
}

/// Checks a request about a deleted snapshot.
pub(super) async fn becomes_unknown<Q: Question>(cx: &Cx, question: Q, what: &str) -> CheckResult {
    let ask = || cx.stream_up_to(question.clone(), 1);
    must_become_unknown(cx, Settles::SnapshotGone, what, ask).await.map_err(of_what_is_gone::<Q>)
}

/// Checks a request about a made-up snapshot.
pub(super) async fn is_unknown<Q: Question>(cx: &Cx, question: Q, what: &str) -> CheckResult {
    let reply = cx.stream_up_to(question, 1).await;
    reply.must_be_refused(what, or_untracked(unknown_id())).map_err(of_what_is_gone::<Q>)?;
    Ok(())
}

pub(super) async fn lists_written<Q: Question>(cx: &Cx, question: &Q, written: &[Range<i64>]) -> CheckResult {
    if written.is_empty() {
        return Err(Stop::skip("the volume cannot be written to from here"));
    }
    for place in written {
        let received = ask(cx, question, place.start, 0).await?;
        let wanted: super::ranges::Ranges = std::iter::once(place.clone()).collect();
        let missing = wanted.between(0, received.known_until()).first_outside(&received.ranges());
        if let Some(Range { start, end }) = missing {
            return Err(Violation::new("no tuple covers bytes that were written before the snapshot")
                .expected(format!(
                    "tuples that cover at least bytes {start} to {end}; more of them are allowed"
                ))
                .actual(match received.tuples().next() {
                    Some(first) => {
                        format!("from offset {} on, the first tuple is {}", place.start, shown(first))
                    }
                    None => format!("no tuple from offset {} on", place.start),
                })
                .into());
        }
    }
    Ok(())
}
