//! GetMetadataAllocated and GetMetadataDelta.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use csi_proto::v1::{
    BlockMetadata, BlockMetadataType, GetMetadataAllocatedRequest, GetMetadataAllocatedResponse,
    GetMetadataDeltaRequest, GetMetadataDeltaResponse,
};
use tokio_stream::StreamExt as _;
use tonic::{Code, Status};

use crate::call::Stream;
use crate::defect::Defect;
use crate::driver::{MockDriver, Shared};
use crate::metadata::{self, Message};

/// The delay of each of the first messages, for the defect that depends on cancelling a stream.
const SLOW_STORAGE: Duration = Duration::from_millis(50);
/// The number of delayed messages. A caller that cancels has received one message more than it wanted.
const SLOW_MESSAGES: usize = 3;

pub(crate) async fn get_metadata_allocated(
    driver: &MockDriver,
    original: &GetMetadataAllocatedRequest,
) -> Result<Vec<GetMetadataAllocatedResponse>, Status> {
    if driver.has(Defect::GetMetadataAllocatedEmptyIdAsNotFound) && original.snapshot_id.is_empty() {
        return Err(Status::not_found("snapshot  does not exist"));
    }
    if driver.has(Defect::GetMetadataAllocatedAcceptsEmptyId) && original.snapshot_id.is_empty() {
        return Ok(Vec::new());
    }
    check_busy(driver, &original.snapshot_id)?;
    let mut request = original.clone();
    let GetMetadataAllocatedRequest { snapshot_id, starting_offset, max_results, .. } = &mut request;
    alter_request(driver, snapshot_id, starting_offset, max_results);
    let answer = metadata::get_metadata_allocated(driver, &request).await;
    let unknown = answer.as_ref().is_err_and(|status| status.code() == Code::NotFound);
    if driver.has(Defect::GetMetadataAllocatedUnknownOk) && unknown {
        return Ok(Vec::new());
    }
    let mut messages = answer?;
    corrupt_reply(driver, original.starting_offset, &mut messages);
    Ok(messages)
}

pub(crate) async fn get_metadata_delta(
    driver: &MockDriver,
    original: &GetMetadataDeltaRequest,
) -> Result<Vec<GetMetadataDeltaResponse>, Status> {
    let has = |defect| driver.has(defect);
    let empty = original.base_snapshot_id.is_empty() || original.target_snapshot_id.is_empty();
    if has(Defect::GetMetadataDeltaEmptyIdAsNotFound) && empty {
        return Err(Status::not_found("snapshot  does not exist"));
    }
    if (has(Defect::GetMetadataDeltaAcceptsEmptyBaseId) && original.base_snapshot_id.is_empty())
        || (has(Defect::GetMetadataDeltaAcceptsEmptyTargetId) && original.target_snapshot_id.is_empty())
    {
        return Ok(Vec::new());
    }
    check_busy(driver, &original.target_snapshot_id)?;
    let mut request = original.clone();
    let GetMetadataDeltaRequest { target_snapshot_id, starting_offset, max_results, .. } = &mut request;
    alter_request(driver, target_snapshot_id, starting_offset, max_results);
    let mut answer = metadata::get_metadata_delta(driver, &request).await;
    let unknown = answer.as_ref().is_err_and(|status| status.code() == Code::NotFound);
    if has(Defect::GetMetadataDeltaUnknownOk) && unknown {
        return Ok(Vec::new());
    }
    let mixed = answer.as_ref().is_err_and(|status| status.code() == Code::InvalidArgument) && !empty;
    if has(Defect::GetMetadataDeltaUntrackedAsInternal) && answer.is_ok() {
        return Err(Status::internal("changed blocks are not tracked"));
    }
    if has(Defect::GetMetadataDeltaMixesVolumes) && mixed {
        let target = GetMetadataAllocatedRequest {
            snapshot_id: request.target_snapshot_id,
            starting_offset: request.starting_offset,
            max_results: request.max_results,
            secrets: request.secrets,
        };
        answer = metadata::get_metadata_allocated(driver, &target).await;
    }
    let mut messages = answer?;
    corrupt_reply(driver, original.starting_offset, &mut messages);
    if has(Defect::GetMetadataDeltaAnswersNothing) {
        messages.clear();
    }
    if has(Defect::GetMetadataDeltaMissesFirstBlock) {
        messages.iter_mut().for_each(|message| message.block_metadata.retain(|block| block.byte_offset > 0));
    }
    Ok(messages.into_iter().map(Into::into).collect())
}

fn alter_request(driver: &MockDriver, snapshot_id: &str, starting_offset: &mut i64, max_results: &mut i32) {
    if driver.has(Defect::GetMetadataIgnoresMaxResults) && *max_results > 0 {
        *max_results = 0;
    }
    let capacity = driver.state().snapshots.get(snapshot_id).map(|snapshot| snapshot.size_bytes);
    let Some(capacity) = capacity else { return };
    let valid = (0..=capacity).contains(starting_offset);
    if driver.has(Defect::GetMetadataAcceptsAnyOffset) && !valid {
        *starting_offset = (*starting_offset).clamp(0, capacity);
    }
    if driver.has(Defect::GetMetadataIgnoresOffset) && valid {
        *starting_offset = 0;
    }
}

/// Reverses the order of the tuples. Each message keeps its number of tuples.
fn reverse_tuples(messages: &mut [Message]) {
    let all: Vec<_> = messages.iter_mut().flat_map(|message| message.block_metadata.clone()).collect();
    let mut reversed = all.into_iter().rev();
    for message in messages {
        let count = message.block_metadata.len();
        message.block_metadata = reversed.by_ref().take(count).collect();
    }
}

fn corrupt_reply(driver: &MockDriver, starting_offset: i64, messages: &mut Vec<Message>) {
    let has = |defect| driver.has(defect);
    if has(Defect::GetMetadataUnordered) {
        reverse_tuples(messages);
    }
    messages
        .iter_mut()
        .for_each(|message| corrupt_tuples(driver, starting_offset, &mut message.block_metadata));
    if has(Defect::GetMetadataMessagesOverlap) {
        repeat_last_tuples(messages);
    }
    if let Some(last) = messages.last_mut() {
        corrupt_end(driver, last);
    }
    if has(Defect::GetMetadataEndsEarly) {
        messages.truncate(1);
    }
    if has(Defect::GetMetadataTypeUnknown) {
        messages
            .iter_mut()
            .for_each(|message| message.block_metadata_type = BlockMetadataType::Unknown as i32);
    }
    if has(Defect::GetMetadataTypeChanges) {
        let other = BlockMetadataType::VariableLength as i32;
        messages.iter_mut().skip(1).for_each(|message| message.block_metadata_type = other);
    }
    if has(Defect::GetMetadataCapacityChanges) {
        messages.iter_mut().skip(1).for_each(|message| message.volume_capacity_bytes += 4096);
    }
    if has(Defect::GetMetadataCapacityZero) {
        messages.iter_mut().for_each(|message| message.volume_capacity_bytes = 0);
    }
}

/// Starts each message with the last tuple of the previous one.
fn repeat_last_tuples(messages: &mut [Message]) {
    let mut last: Option<BlockMetadata> = None;
    for message in messages {
        let tuples = &mut message.block_metadata;
        let ends_with = tuples.last().copied();
        if let Some(before) = last {
            tuples.insert(0, before);
        }
        last = ends_with.or(last);
    }
}

fn corrupt_end(driver: &MockDriver, last: &mut Message) {
    let capacity = last.volume_capacity_bytes;
    let block_bytes = driver.config.metadata_block_bytes;
    if driver.has(Defect::GetMetadataOffsetAtEnd) {
        last.block_metadata.push(BlockMetadata { byte_offset: capacity, size_bytes: block_bytes });
    }
    if driver.has(Defect::GetMetadataLastBlockShort) {
        let size_bytes = block_bytes / 2;
        last.block_metadata.push(BlockMetadata { byte_offset: capacity - size_bytes, size_bytes });
    }
}

/// Rejects a snapshot that stays busy after a cancelled stream.
fn check_busy(driver: &MockDriver, snapshot_id: &str) -> Result<(), Status> {
    match cut_off(driver).contains(snapshot_id) {
        true => Err(Status::aborted("the snapshot is being read")),
        false => Ok(()),
    }
}

fn cut_off(driver: &Shared) -> MutexGuard<'_, BTreeSet<String>> {
    driver.cut_off.lock()
}

/// Turns the messages into a stream.
pub(crate) fn send<T: Send + 'static>(driver: &MockDriver, snapshot_id: &str, messages: Vec<T>) -> Stream<T> {
    let mut items: Vec<Result<T, Status>> = messages.into_iter().map(Ok).collect();
    if driver.has(Defect::GetMetadataBreaksOff) {
        items.truncate(1);
        items.push(Err(Status::internal("the storage does not answer")));
    }
    if !driver.has(Defect::GetMetadataStuckAfterCut) {
        return Box::pin(tokio_stream::iter(items));
    }
    let mut reading =
        Reading { driver: driver.shared(), snapshot_id: snapshot_id.to_owned(), left: items.len() };
    let slow = tokio_stream::iter(items.into_iter().enumerate()).then(async |(number, item)| {
        // This is long enough for a caller to cancel the stream before everything is sent.
        if number < SLOW_MESSAGES {
            tokio::time::sleep(SLOW_STORAGE).await;
        }
        item
    });
    Box::pin(slow.map(move |item| {
        reading.goes_on();
        item
    }))
}

/// A snapshot that is being read. It stays busy if the caller cancels the stream.
struct Reading {
    driver: Arc<Shared>,
    snapshot_id: String,
    left: usize,
}

impl Reading {
    fn goes_on(&mut self) {
        self.left -= 1;
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if self.left > 0 {
            cut_off(&self.driver).insert(std::mem::take(&mut self.snapshot_id));
        }
    }
}

fn corrupt_tuples(driver: &MockDriver, starting_offset: i64, tuples: &mut Vec<BlockMetadata>) {
    let has = |defect| driver.has(defect);
    if has(Defect::GetMetadataOverlaps)
        && let Some(first) = tuples.first().copied()
    {
        tuples.insert(0, first);
    }
    if has(Defect::GetMetadataEmptyRanges) {
        tuples.iter_mut().for_each(|tuple| tuple.size_bytes = 0);
    }
    if has(Defect::GetMetadataSizesVary)
        && let Some(first) = tuples.first_mut()
    {
        first.size_bytes /= 2;
    }
    if has(Defect::GetMetadataResumeSkipsBlock) && starting_offset > 0 {
        tuples.retain(|tuple| tuple.byte_offset > starting_offset);
    }
}
