use csi_harness::prelude::Violation;

use super::{Done, Pairs, ReclaimPolicy};

/// The description of a new VolumeSnapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSpec {
    pub name: String,
    pub class: String,
    pub origin: SnapshotOrigin,
}

/// The origin of a VolumeSnapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotOrigin {
    /// The name of a claim, of which the driver takes a snapshot.
    Claim(String),
    /// The snapshot_id of an existing snapshot, for which only the objects are created.
    Handle(String),
}

/// The current state of a VolumeSnapshot and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub spec: SnapshotSpec,
    /// True if volumes can be made from it.
    pub ready: bool,
    pub handle: Option<String>,
    /// The smallest size of a volume made from it; 0 if the driver does not report one.
    pub restore_size_bytes: i64,
    /// The alternative topologies in which it can be used; empty means everywhere, as far as the driver reports.
    pub topology: Vec<Pairs>,
    /// The fate of the snapshot after its object is deleted.
    pub deletion: ReclaimPolicy,
    /// The error of the last attempt.
    pub error: Option<String>,
    /// The reason why the emulated cluster gave up; see [`Pvc::given_up`](super::Claim::given_up).
    pub given_up: Option<String>,
}

/// A range of bytes in a snapshot of a block volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub offset_bytes: u64,
    pub size_bytes: u64,
}

impl Block {
    /// Makes a block from a driver's answer.
    ///
    /// # Errors
    /// A violation if the answer is no valid block.
    pub(crate) fn reported(byte_offset: i64, size_bytes: i64) -> Done<Block> {
        match (u64::try_from(byte_offset), u64::try_from(size_bytes)) {
            (Ok(offset_bytes), Ok(size_bytes)) if size_bytes > 0 => Ok(Block { offset_bytes, size_bytes }),
            _ => Err(Violation::new("a block of a snapshot has no valid range")
                .expected("byte_offset is not negative, and size_bytes is more than 0")
                .actual(format!("byte_offset {byte_offset}, size_bytes {size_bytes}"))
                .into()),
        }
    }
}

/// The description of a new VolumeGroupSnapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSnapshotSpec {
    pub name: String,
    pub class: String,
    pub origin: GroupSnapshotOrigin,
}

/// The origin of a VolumeGroupSnapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupSnapshotOrigin {
    /// All claims with these labels.
    Labels(Pairs),
    /// The ids of an existing group snapshot and its members, for which only the objects are created.
    Handles { group: String, snapshots: Vec<String> },
}

/// The current state of a VolumeGroupSnapshot and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSnapshot {
    pub spec: GroupSnapshotSpec,
    /// True if all members can be used.
    pub ready: bool,
    pub handle: Option<String>,
    /// The names of the members' VolumeSnapshots, each with its claim.
    pub members: Vec<(String, String)>,
    /// The fate of the group snapshot after its object is deleted.
    pub deletion: ReclaimPolicy,
    /// The error of the last attempt.
    pub error: Option<String>,
    /// The reason why the emulated cluster gave up; see [`Pvc::given_up`](super::Claim::given_up).
    pub given_up: Option<String>,
}
