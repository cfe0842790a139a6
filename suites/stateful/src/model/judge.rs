//! Judging: the answers that a driver may give to a call in one certain state, and what it may say when it is done.
//!
//! Each function is a row or two of the specification. Where several answers are right, all are listed with the reason;
//! where the text leaves a question open, so does the list.

mod group;
mod node;
mod snapshot;
mod volume;

pub(super) use group::{group, group_said};
pub(super) use snapshot::{snapshot, snapshot_said};
pub(super) use volume::{volume, volume_said};
