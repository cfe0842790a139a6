//! What the driver remembers of volumes, snapshots and group snapshots.

use std::collections::BTreeMap;

use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{self, volume_content_source};
use serde::{Deserialize, Serialize};

use super::content::Content;
use super::table::Row;
use crate::config::{NodeConfig, StaticVolume};

/// A string map of the protocol.
pub(crate) type Map = BTreeMap<String, String>;

/// A volume capability that was checked: how a volume is, or may be, used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Usage {
    pub(crate) access: Access,
    /// The number of an access mode that the protocol defines.
    mode: i32,
}

/// How a workload sees a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Access {
    Block,
    Mount { fs_type: String, mount_flags: Vec<String>, volume_mount_group: String },
}

impl Usage {
    pub(crate) fn new(access: Access, mode: Mode) -> Self {
        Self { access, mode: mode as i32 }
    }

    pub(crate) fn mode(&self) -> Mode {
        Mode::try_from(self.mode).unwrap_or_default()
    }

    pub(crate) fn is_block(&self) -> bool {
        self.access == Access::Block
    }

    /// Whether it leaves the file system to the driver.
    pub(crate) fn lacks_fs_type(&self) -> bool {
        matches!(&self.access, Access::Mount { fs_type, .. } if fs_type.is_empty())
    }

    pub(crate) fn is_multi_node(&self) -> bool {
        matches!(
            self.mode(),
            Mode::MultiNodeReaderOnly | Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter
        )
    }

    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.mode(), Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly)
    }

    pub(crate) fn to_proto(&self) -> v1::VolumeCapability {
        use v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
        let access_type = match self.access.clone() {
            Access::Block => AccessType::Block(BlockVolume {}),
            Access::Mount { fs_type, mount_flags, volume_mount_group } => {
                AccessType::Mount(MountVolume { fs_type, mount_flags, volume_mount_group })
            }
        };
        v1::VolumeCapability {
            access_type: Some(access_type),
            access_mode: Some(AccessMode { mode: self.mode }),
        }
    }

    /// Whether a volume made for this usage can also be used as `wanted`.
    fn covers(&self, wanted: &Usage) -> bool {
        self.access.covers(&wanted.access) && mode_covers(self.mode(), wanted.mode())
    }
}

impl Access {
    /// Flags and group are matters of each mount; the file system is one of the volume unless it was left open.
    fn covers(&self, wanted: &Access) -> bool {
        match (self, wanted) {
            (Access::Block, Access::Block) => true,
            (Access::Mount { fs_type: have, .. }, Access::Mount { fs_type: want, .. }) => {
                have == want || have.is_empty() || want.is_empty()
            }
            (Access::Block, Access::Mount { .. }) | (Access::Mount { .. }, Access::Block) => false,
        }
    }
}

/// Whether a volume fit for one access mode is fit for another that asks no more of it.
fn mode_covers(have: Mode, want: Mode) -> bool {
    use Mode::*;
    let covered: &[Mode] = match have {
        Unknown => &[],
        SingleNodeReaderOnly => &[SingleNodeReaderOnly],
        SingleNodeWriter => {
            &[SingleNodeWriter, SingleNodeReaderOnly, SingleNodeSingleWriter, SingleNodeMultiWriter]
        }
        SingleNodeSingleWriter => &[SingleNodeSingleWriter, SingleNodeWriter, SingleNodeReaderOnly],
        SingleNodeMultiWriter => {
            &[SingleNodeMultiWriter, SingleNodeSingleWriter, SingleNodeWriter, SingleNodeReaderOnly]
        }
        MultiNodeReaderOnly => &[MultiNodeReaderOnly, SingleNodeReaderOnly],
        MultiNodeSingleWriter => &[
            MultiNodeSingleWriter,
            MultiNodeReaderOnly,
            SingleNodeWriter,
            SingleNodeReaderOnly,
            SingleNodeSingleWriter,
        ],
        MultiNodeMultiWriter => return want != Unknown,
    };
    covered.contains(&want)
}

/// What a volume was copied from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Source {
    Snapshot(String),
    Volume(String),
}

impl Source {
    pub(crate) fn to_proto(&self) -> v1::VolumeContentSource {
        use volume_content_source::{SnapshotSource, Type, VolumeSource};
        let source = match self {
            Source::Snapshot(id) => Type::Snapshot(SnapshotSource { snapshot_id: id.clone() }),
            Source::Volume(id) => Type::Volume(VolumeSource { volume_id: id.clone() }),
        };
        v1::VolumeContentSource { r#type: Some(source) }
    }
}

/// A volume and everything that is going on with it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Volume {
    pub(crate) id: String,
    /// None for volumes that were not made by CreateVolume.
    pub(crate) name: Option<String>,
    /// Milliseconds since 1970; 0 for volumes that were always there.
    #[serde(default)]
    pub(crate) made_ms: u64,
    pub(crate) capacity_bytes: i64,
    /// What it was made for; empty for volumes that were not made by CreateVolume, which take anything.
    pub(crate) usages: Vec<Usage>,
    pub(crate) parameters: Map,
    /// Mutable parameters it was made with.
    pub(crate) first_mutable_parameters: Map,
    /// Mutable parameters as last modified.
    pub(crate) mutable_parameters: Map,
    pub(crate) modifications: u32,
    pub(crate) context: Map,
    pub(crate) source: Option<Source>,
    /// Index of the zone its storage lies in.
    pub(crate) zone: usize,
    pub(crate) content: Content,
    /// By node id.
    pub(crate) attachments: BTreeMap<String, Attachment>,
    /// By node id; what is nowhere in use on a node may have no entry.
    pub(crate) on_nodes: BTreeMap<String, OnNode>,
}

/// A volume on a node, as the node sees it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OnNode {
    /// By staging path.
    pub(crate) staged: BTreeMap<String, Usage>,
    /// By target path.
    pub(crate) published: BTreeMap<String, Publication>,
    /// The size that NodeExpandVolume has grown it to here, 0 if it has not.
    #[serde(default)]
    pub(crate) grown_bytes: i64,
}

impl OnNode {
    /// Whether the volume is staged or published at the path.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.staged.contains_key(path) || self.published.contains_key(path)
    }
}

impl Row for Volume {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl Volume {
    /// A volume that the configuration tells of.
    pub(crate) fn provisioned_elsewhere(volume: &StaticVolume, content: Content) -> Self {
        Self {
            id: volume.id.clone(),
            name: None,
            made_ms: 0,
            capacity_bytes: volume.capacity_bytes,
            usages: Vec::new(),
            parameters: Map::new(),
            first_mutable_parameters: Map::new(),
            mutable_parameters: Map::new(),
            modifications: 0,
            context: volume.volume_context.clone(),
            source: None,
            zone: 0,
            content,
            attachments: BTreeMap::new(),
            on_nodes: BTreeMap::new(),
        }
    }

    /// Whether it can be used this way.
    pub(crate) fn covers(&self, wanted: &Usage) -> bool {
        self.usages.is_empty() || self.usages.iter().any(|made_for| made_for.covers(wanted))
    }

    pub(crate) fn is_in_use_on_a_node(&self) -> bool {
        !self.attachments.is_empty() || self.is_staged_or_published()
    }

    pub(crate) fn is_staged_or_published(&self) -> bool {
        self.on_nodes.values().any(|node| !node.staged.is_empty() || !node.published.is_empty())
    }

    /// What a node has of it.
    pub(crate) fn on(&self, node: &NodeConfig) -> &OnNode {
        static UNUSED: OnNode =
            OnNode { staged: BTreeMap::new(), published: BTreeMap::new(), grown_bytes: 0 };
        self.on_nodes.get(&node.id).unwrap_or(&UNUSED)
    }

    /// The same, to be changed.
    pub(crate) fn on_mut(&mut self, node: &NodeConfig) -> &mut OnNode {
        self.on_nodes.entry(node.id.clone()).or_default()
    }

    /// Block or mount, as far as it is settled.
    pub(crate) fn is_block(&self) -> bool {
        !self.usages.is_empty() && self.usages.iter().all(Usage::is_block)
    }
}

/// A volume on a node, as the controller sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attachment {
    pub(crate) usage: Usage,
    pub(crate) readonly: bool,
}

impl Attachment {
    pub(crate) fn writes(&self) -> bool {
        !self.readonly && !self.usage.is_read_only()
    }
}

/// A volume at a target path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Publication {
    pub(crate) usage: Usage,
    pub(crate) readonly: bool,
    /// Identity of what the driver made at the path; none if it was there before.
    pub(crate) made: Option<Made>,
}

/// Tells a file or directory from any other that may come to stand in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Made {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// A snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Snapshot {
    pub(crate) id: String,
    /// None for members of a group.
    pub(crate) name: Option<String>,
    pub(crate) source_volume_id: String,
    pub(crate) size_bytes: i64,
    pub(crate) created_ms: u64,
    pub(crate) group: Option<String>,
    /// Index of the zone that its volume lies in, from which alone it can be used where snapshots have a topology.
    #[serde(default)]
    pub(crate) zone: usize,
    pub(crate) content: Content,
    /// Times it has to be looked at before it is ready.
    pub(crate) polls_left: u32,
    /// Moment before which it is not ready.
    pub(crate) ready_ms: u64,
}

impl Row for Snapshot {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

/// A group snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) source_volume_ids: Vec<String>,
    pub(crate) parameters: Map,
    pub(crate) snapshot_ids: Vec<String>,
    pub(crate) created_ms: u64,
}

impl Row for Group {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }
}
