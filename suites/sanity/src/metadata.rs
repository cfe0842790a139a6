//! Checks of the SnapshotMetadata service.
//!
//! It is a service of block volumes, so that its checks make some whichever access types are configured. Both RPCs answer with
//! streams of one form: what is judged alike stands in `judge`, and each RPC brings its own rules.

mod judge;
mod ranges;
mod told;
mod volume;

pub(crate) mod get_metadata_allocated;
pub(crate) mod get_metadata_delta;

use csi_harness::client::reply::Refusal;
use csi_harness::prelude::*;

/// Why either may be refused as FAILED_PRECONDITION at any time. The specification says so of deltas; that a storage system cannot
/// tell the blocks of a snapshot either is not ruled out.
const UNTRACKED: &str = "the storage system may not keep track of blocks";

/// The rule for a stream that tells of something that is not there: that there is one, or that it is refused otherwise.
fn of_what_is_gone<Q: told::Question>(stop: Stop) -> Stop {
    match &stop {
        Stop::Violation(violation) if violation.refused.is_none() => stop.of(Q::RULES.failure),
        _ => stop.of(Q::RULES.not_found),
    }
}

/// The refusal of a request without a field that is REQUIRED.
fn missing_id<Q: told::Question>() -> Refusal {
    or_untracked(refused_with(Code::InvalidArgument).named_by(Q::RULES.invalid))
}

/// A refusal that may also be the one of all such requests.
fn or_untracked(refusal: Refusal) -> Refusal {
    refusal.or(Code::FailedPrecondition, UNTRACKED)
}

/// A list for each file of checks.
pub(crate) const CHECKS: &[&[&Check]] = &[get_metadata_allocated::CHECKS, get_metadata_delta::CHECKS];
