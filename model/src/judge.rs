//! Judging: the answers that a driver may give to a call in one certain state, and what it may say when it is done.
//!
//! Each function is a row or two of the specification. Where several answers are right, all are listed with the reason;
//! where the text leaves a question open, so does the list.

mod group;
mod health;
mod node;
mod snapshot;
mod volume;

pub(super) use group::{group, group_said};
pub(super) use node::is_in_use;
pub(super) use snapshot::{snapshot, snapshot_said};
pub(super) use volume::{volume, volume_said};

use csi_harness::spec::requirements::req;

use super::call::List;
use super::expectation::{Expectation, must};

/// A list can be read in any state.
pub(super) fn list(list: List) -> Expectation {
    match list {
        List::Volumes => must(&req::CTRL_LISTVOL_001, "list the volumes"),
        List::Snapshots => must(&req::CTRL_LISTSNAP_001, "list the snapshots"),
        List::VolumeHealth => health::list(),
    }
}
