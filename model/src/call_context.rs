//! The facts beside the object of a call: about the driver, the time, and other objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use csi_harness::protocol::capability::Capability;
use csi_harness::protocol::rpc::Facts;

use super::bytes::Bytes;
use super::call::{List, Size, Usage};
use super::expectation::Known;
use super::names::Id;

const MIB: i64 = 1 << 20;

/// Time since the calls began.
pub type Time = Duration;

/// The facts about the driver that the model needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverProfile {
    /// The capabilities that the driver advertises.
    pub capabilities: BTreeSet<Capability>,
    /// The time for which a deleted object may still be seen.
    pub settle: Duration,
    /// True if new objects may be missing from lists for a while.
    pub lists_lag: bool,
    /// True if it was ended meanwhile, and may have forgotten its answers.
    pub was_ended: bool,
    /// Ways to use volumes that CreateVolume is known to accept.
    pub usages: Vec<Usage>,
    /// A size that CreateVolume is known to accept, in bytes.
    pub size_bytes: i64,
    /// A size to expand volumes to, in bytes.
    pub larger_bytes: i64,
    /// Names of each kind that are used.
    pub names: u16,
    /// The number of nodes.
    pub nodes: u8,
    /// Places on each node at which one volume is published.
    pub targets: u8,
    /// Sets of parameters that volumes are made with.
    pub parameters: u8,
    /// Sets of mutable_parameters that volumes are made with or changed to.
    pub mutable_parameters: u8,
    /// Its faults that checks have reported.
    pub known: Known,
}

impl DriverProfile {
    /// Returns true if the driver advertises it.
    pub fn has(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }

    /// The lists that the driver advertises.
    pub fn lists(&self) -> impl Iterator<Item = List> {
        let is_promised = |list: &List| {
            Facts::named(list.method())
                .is_some_and(|facts| facts.promised_by.iter().all(|one| self.has(*one)))
        };
        List::ALL.into_iter().filter(is_promised)
    }

    /// Two sizes for expanding volumes, which orchestrators may request in parallel.
    pub fn expansions(&self) -> [Size; 2] {
        let between = self.size_bytes.midpoint(self.larger_bytes);
        [self.larger_bytes, between - between % MIB].map(Size::at_least)
    }
}

/// States if something exists, as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Presence {
    /// It does not exist.
    No,
    /// Unknown, or it is not ready, or a deletion may still be under way.
    #[default]
    Maybe,
    /// It exists.
    Yes,
}

/// The facts beside the object of a call.
#[derive(Clone, Debug)]
pub struct CallContext {
    pub profile: Arc<DriverProfile>,
    /// The time at which the call was sent.
    pub invoked: Time,
    /// The time at which it was answered; the maximum if it was not.
    pub returned: Time,
    /// The existence of its source.
    pub source: Presence,
    /// The size that the driver has given for it; 0 if that is not known.
    pub source_bytes: i64,
    /// True if the volume that it copies may be in use.
    pub source_in_use: bool,
    /// True if a source of that id was deleted before, so that this source may be another one than the volume was
    /// copied from.
    pub source_came_again: bool,
    /// Snapshots or copies of the object that the call is about.
    pub dependants: Presence,
    /// The other object that has the id which the driver gave.
    pub owner: Presence,
    /// True if a call about another object may still be under way.
    pub pending_elsewhere: bool,
    /// True if such a call got no answer, so that it may overlap with this one.
    pub unanswered_elsewhere: bool,
    /// The contents of the volumes, snapshots and members that it copies.
    pub bytes: BTreeMap<Id, Bytes>,
}

impl CallContext {
    /// A call of which nothing is known but when it was made.
    pub fn new(profile: Arc<DriverProfile>, invoked: Time, returned: Time) -> CallContext {
        CallContext {
            profile,
            invoked,
            returned,
            source: Presence::Maybe,
            source_bytes: 0,
            source_in_use: true,
            source_came_again: false,
            dependants: Presence::Maybe,
            owner: Presence::Maybe,
            pending_elsewhere: false,
            unanswered_elsewhere: false,
            bytes: BTreeMap::new(),
        }
    }

    /// Returns true if both have equal facts, except for the time.
    pub(super) fn is_like(&self, other: &CallContext) -> bool {
        let known = |context: &CallContext| {
            let source =
                (context.source, context.source_bytes, context.source_in_use, context.source_came_again);
            (source, context.dependants, context.owner)
        };
        known(self) == known(other) && self.bytes == other.bytes
    }

    /// The time until which an object that this call deleted may still be seen.
    pub(super) fn fades_until(&self) -> Time {
        self.returned.saturating_add(self.profile.settle)
    }
}
