//! What the driver remembers. Records are JSON inside the database, so that fields can be added with a default and
//! state written by an older version still opens.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::backend::{Backend, BackendRef};
use crate::capability::Capability;
use crate::fs::FsType;
use crate::ids::ObjectId;

/// What is known of the file system in an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum FsState {
    /// Not looked at yet: blank, or whatever a source brought along.
    #[default]
    Unknown,
    /// Being formatted: what is there now is ours and may be thrown away.
    Formatting {
        /// The file system to be.
        fs_type: FsType,
    },
    /// Formatted.
    Formatted {
        /// The file system.
        fs_type: FsType,
        /// The size up to which it has been grown, in bytes.
        size_bytes: u64,
        /// Whether the identity of the file system is that of the volume it was copied from.
        #[serde(default)]
        copied: bool,
    },
}

/// What a volume or snapshot was copied from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "id")]
pub enum Source {
    /// A snapshot.
    Snapshot(String),
    /// Another volume.
    Volume(String),
}

/// The attachment of a volume to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// How it may be used there.
    pub capability: Capability,
    /// Whether it is attached read-only.
    pub readonly: bool,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// Its key, and the name of its data on disk.
    pub key: ObjectId,
    /// The identifier that the CO chose, for an inline volume.
    #[serde(default)]
    pub inline_id: Option<String>,
    /// The name it was made under.
    pub name: String,
    /// Where the data live.
    pub backend: BackendRef,
    /// Its size.
    pub capacity_bytes: u64,
    /// The pool that its size counts against.
    #[serde(default)]
    pub pool: Option<String>,
    /// The project whose quota limits its directory.
    #[serde(default)]
    pub project: Option<u32>,
    /// The file system inside.
    #[serde(default)]
    pub fs: FsState,
    /// The parameters it was made with.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// The mutable parameters it was made with, to recognise a repeated request.
    #[serde(default)]
    pub first_mutable_parameters: BTreeMap<String, String>,
    /// The mutable parameters now in force.
    #[serde(default)]
    pub mutable_parameters: BTreeMap<String, String>,
    /// The file system types that its capabilities named.
    #[serde(default)]
    pub fs_types: BTreeSet<String>,
    /// What it was copied from.
    #[serde(default)]
    pub source: Option<Source>,
    /// The nodes it is attached to.
    #[serde(default)]
    pub attachments: BTreeMap<String, Attachment>,
    /// Whether it is an empty directory that nobody could write to yet. Then the directory need not have reached the
    /// disk: a start makes it again.
    #[serde(default)]
    pub untouched: bool,
}

impl Volume {
    /// The identifier that the CO uses.
    pub fn id(&self) -> &str {
        self.inline_id.as_deref().unwrap_or(self.key.as_str())
    }

    /// What keeps the data.
    pub(crate) fn backend(&self) -> &'static dyn Backend {
        self.backend.get()
    }
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its identifier, and the name of its data on disk.
    pub key: ObjectId,
    /// The name it was made under; empty for a member of a group.
    pub name: String,
    /// The volume it was cut from, which may be gone by now.
    pub source_volume_id: String,
    /// The group it belongs to.
    #[serde(default)]
    pub group: Option<ObjectId>,
    /// The size of the volume when it was cut.
    pub size_bytes: u64,
    /// Where the data live.
    pub backend: BackendRef,
    /// The file system inside.
    #[serde(default)]
    pub fs: FsState,
    /// When it was cut, in nanoseconds since 1970.
    pub created_ns: u64,
}

/// A group snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Its identifier.
    pub key: ObjectId,
    /// The name it was made under.
    pub name: String,
    /// Its members.
    pub snapshots: BTreeSet<ObjectId>,
    /// The volumes they were cut from.
    pub source_volume_ids: BTreeSet<String>,
    /// The parameters it was made with.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// When it was cut, in nanoseconds since 1970.
    pub created_ns: u64,
}

/// How far an operation on a path has come. It is written as begun before anything is touched, so that a start after
/// a crash knows what to undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Begun, never acknowledged.
    Begun,
    /// Done and acknowledged.
    Done,
}

/// A volume staged at a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Staged {
    /// The volume.
    pub volume: ObjectId,
    /// The staging path.
    pub path: String,
    /// The capability it was staged with.
    pub capability: Capability,
    /// Whether the driver made the directory at the path.
    pub made_path: bool,
    /// How far it has come.
    pub phase: Phase,
}

/// A volume published at a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The volume.
    pub volume: ObjectId,
    /// The target path.
    pub path: String,
    /// The path it was staged at; none for an inline volume.
    pub staging_path: Option<String>,
    /// The capability it was published with.
    pub capability: Capability,
    /// Whether it is read-only, by flag or by access mode.
    pub readonly: bool,
    /// Whether the driver made what is at the path.
    pub made_path: bool,
    /// How far it has come.
    pub phase: Phase,
}
