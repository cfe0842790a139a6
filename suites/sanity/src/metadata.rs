//! Checks of the SnapshotMetadata service.
//!
//! The service is for block volumes, so its checks make block volumes for any configured access types. Both RPCs
//! answer with streams of one form: `common` declares the checks that both have, `judge` has the judgements, and each RPC
//! adds its own rules.

mod common;
mod judge;
mod ranges;
mod stream;
mod volume;

pub(crate) mod get_metadata_allocated;
pub(crate) mod get_metadata_delta;

use csi_harness::client::reply::Refusal;
use csi_harness::prelude::*;

/// The reason why either RPC may answer FAILED_PRECONDITION at any time. The specification says so of deltas, and
/// does not exclude that a storage system cannot list the blocks of a snapshot either.
const UNTRACKED: &str = "the storage system may not keep track of blocks";

/// Replaces the rule for a stream about a missing object: the stream must not succeed, or must have another code.
fn of_what_is_gone<Q: stream::Question>(stop: Stop) -> Stop {
    match &stop {
        Stop::Violation(violation) if violation.refused.is_none() => stop.of(Q::RULES.failure),
        _ => stop.of(Q::RULES.not_found),
    }
}

/// Returns the permitted error for a request without a REQUIRED field.
fn missing_id<Q: stream::Question>() -> Refusal {
    or_untracked(refused_with(Code::InvalidArgument).named_by(Q::RULES.invalid))
}

/// Permits the error of storage that does not track blocks as well.
fn or_untracked(refusal: Refusal) -> Refusal {
    refusal.or(Code::FailedPrecondition, UNTRACKED)
}

pub(crate) const CHECKS: &[&[&Check]] = &[get_metadata_allocated::CHECKS, get_metadata_delta::CHECKS];
