//! The records of the driver. They are stored as JSON, so that fields with a default can be added and the state of an
//! older version still opens.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::capability::Capability;
use crate::fs::FsType;
use crate::ids::ObjectId;

/// The way in which the data of a volume are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// A directory of the state directory.
    Directory,
    /// A file with a file system.
    Image,
    /// A file that is given out as a block device.
    Block,
}

impl BackendKind {
    /// All of them. If several fit a request, the first one is used.
    pub(crate) const ALL: [BackendKind; 3] = [BackendKind::Directory, BackendKind::Image, BackendKind::Block];
    /// The back ends that the `backend` parameter may name. Block volumes are chosen by the access type instead.
    pub(crate) const OF_FILE_SYSTEMS: [BackendKind; 2] = [BackendKind::Directory, BackendKind::Image];

    /// The name in records and in messages.
    pub fn name(self) -> &'static str {
        match self {
            BackendKind::Directory => "directory",
            BackendKind::Image => "image",
            BackendKind::Block => "block",
        }
    }

    /// The back end of file systems with this name.
    pub fn named(name: &str) -> Option<BackendKind> {
        BackendKind::OF_FILE_SYSTEMS.into_iter().find(|kind| kind.name() == name)
    }
}

/// The state of the file system in an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum FsState {
    /// Not inspected yet. The image is blank, or contains copied data.
    #[default]
    Unknown,
    /// Formatting has begun. The present content is worthless.
    Formatting { fs_type: FsType },
    Formatted {
        fs_type: FsType,
        /// The size in bytes to which the file system has been grown.
        size_bytes: u64,
        /// True if the file system still has the UUID of the volume from which it was copied.
        #[serde(default)]
        copied: bool,
    },
}

/// The source of a copied volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "id")]
pub enum Source {
    Snapshot(String),
    Volume(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub capability: Capability,
    pub readonly: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// The key, and the name of the data on disk.
    pub key: ObjectId,
    /// The identifier that the CO has chosen for an inline volume.
    #[serde(default)]
    pub inline_id: Option<String>,
    pub name: String,
    pub backend: BackendKind,
    pub capacity_bytes: u64,
    /// The pool that the size counts against.
    #[serde(default)]
    pub pool: Option<String>,
    /// The project whose quota limits the directory.
    #[serde(default)]
    pub project: Option<u32>,
    #[serde(default)]
    pub fs: FsState,
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// The mutable parameters of the CreateVolume request, to recognise a repeated request.
    #[serde(default)]
    pub first_mutable_parameters: BTreeMap<String, String>,
    /// The mutable parameters that are in effect now.
    #[serde(default)]
    pub mutable_parameters: BTreeMap<String, String>,
    /// The file system types that the capabilities of CreateVolume named.
    #[serde(default)]
    pub fs_types: BTreeSet<String>,
    #[serde(default)]
    pub source: Option<Source>,
    /// The attachments by node id.
    #[serde(default)]
    pub attachments: BTreeMap<String, Attachment>,
    /// True if this is an empty directory that was never staged. It need not be durable, because a start creates it
    /// again.
    #[serde(default)]
    pub untouched: bool,
}

impl Volume {
    pub fn id(&self) -> &str {
        self.inline_id.as_deref().unwrap_or(self.key.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The identifier, and the name of the data on disk.
    pub key: ObjectId,
    /// The name from the request; empty for a member of a group.
    pub name: String,
    /// The source volume, which may be deleted by now.
    pub source_volume_id: String,
    #[serde(default)]
    pub group: Option<ObjectId>,
    pub size_bytes: u64,
    pub backend: BackendKind,
    #[serde(default)]
    pub fs: FsState,
    /// Nanoseconds since 1970.
    pub created_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    pub key: ObjectId,
    pub name: String,
    pub snapshots: BTreeSet<ObjectId>,
    pub source_volume_ids: BTreeSet<String>,
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// Nanoseconds since 1970.
    pub created_ns: u64,
}

/// The progress of an operation on a path. It is recorded as begun before anything is changed, so that a start after
/// a crash knows what to undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The caller has not got a reply.
    Begun,
    Done,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Staged {
    pub volume: ObjectId,
    pub path: String,
    pub capability: Capability,
    /// True if the driver created the directory at the path.
    pub made_path: bool,
    pub phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    pub volume: ObjectId,
    pub path: String,
    /// The node; empty for an inline volume, and in records of older versions.
    #[serde(default)]
    pub node: String,
    /// The staging path; none for an inline volume.
    pub staging_path: Option<String>,
    pub capability: Capability,
    /// True if the publication is read-only, because of the field `readonly`, the attachment, the access mode or a
    /// mount flag.
    pub readonly: bool,
    /// True if the driver created the file or directory at the path.
    pub made_path: bool,
    pub phase: Phase,
}
