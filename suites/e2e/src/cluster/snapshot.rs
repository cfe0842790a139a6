use csi_harness::prelude::Violation;

use super::{Done, Pairs, ReclaimPolicy};

/// A VolumeSnapshot to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSpec {
    /// Its name.
    pub name: String,
    /// The class.
    pub class: String,
    /// What it is of.
    pub origin: SnapshotOrigin,
}

/// What a VolumeSnapshot is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotOrigin {
    /// A claim, by its name: the driver takes it.
    Claim(String),
    /// A snapshot_id that exists: only the objects are made.
    Handle(String),
}

/// A VolumeSnapshot as it is, with the content bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What was asked for.
    pub spec: SnapshotSpec,
    /// Whether it can be used.
    pub ready: bool,
    /// snapshot_id.
    pub handle: Option<String>,
    /// Bytes that a volume made from it has at the least; 0 where the driver does not say.
    pub restore_size_bytes: i64,
    /// Places from which it can be used, as alternatives; empty: everywhere, as far as the driver says.
    pub topology: Vec<Pairs>,
    /// What becomes of the snapshot when it is deleted.
    pub deletion: ReclaimPolicy,
    /// The failure of the latest try.
    pub error: Option<String>,
    /// Why nobody tries to go on with it; see [`Pvc::given_up`](super::Claim::given_up).
    pub given_up: Option<String>,
}

/// A range of bytes in a snapshot of a block volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it begins.
    pub offset_bytes: u64,
    /// How long it is.
    pub size_bytes: u64,
}

impl Block {
    /// A block as a driver tells it.
    ///
    /// # Errors
    /// A violation if that is none.
    pub(crate) fn told(byte_offset: i64, size_bytes: i64) -> Done<Block> {
        match (u64::try_from(byte_offset), u64::try_from(size_bytes)) {
            (Ok(offset_bytes), Ok(size_bytes)) if size_bytes > 0 => Ok(Block { offset_bytes, size_bytes }),
            _ => Err(Violation::new("a block of a snapshot has no valid range")
                .expected("byte_offset is not negative, and size_bytes is more than 0")
                .actual(format!("byte_offset {byte_offset}, size_bytes {size_bytes}"))
                .into()),
        }
    }
}

/// A VolumeGroupSnapshot to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSnapshotSpec {
    /// Its name.
    pub name: String,
    /// The class.
    pub class: String,
    /// What it is of.
    pub origin: GroupSnapshotOrigin,
}

/// What a VolumeGroupSnapshot is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupSnapshotOrigin {
    /// All claims that have these labels.
    Labels(Pairs),
    /// A group_snapshot_id and the snapshot_ids of its members: only the objects are made.
    Handles {
        /// group_snapshot_id.
        group: String,
        /// snapshot_ids.
        snapshots: Vec<String>,
    },
}

/// A VolumeGroupSnapshot as it is, with the content bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSnapshot {
    /// What was asked for.
    pub spec: GroupSnapshotSpec,
    /// Whether all members can be used.
    pub ready: bool,
    /// group_snapshot_id.
    pub handle: Option<String>,
    /// The names of the VolumeSnapshots of its members, with the claim that each is of.
    pub members: Vec<(String, String)>,
    /// What becomes of it when it is deleted.
    pub deletion: ReclaimPolicy,
    /// The failure of the latest try.
    pub error: Option<String>,
    /// Why nobody tries to go on with it; see [`Pvc::given_up`](super::Claim::given_up).
    pub given_up: Option<String>,
}
