//! The records of volumes, snapshots and group snapshots.

use std::collections::BTreeMap;

use csi_proto::v1;
use csi_proto::v1::volume_capability::access_mode::Mode;
use serde::{Deserialize, Serialize};

use super::content::Content;
use super::table::Row;
use crate::config::{NodeConfig, StaticVolume};

/// A string map of the protocol.
pub(crate) type Map = BTreeMap<String, String>;

/// A checked volume capability. It describes how a volume is used, or may be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Usage {
    pub(crate) access: Access,
    /// The number of an access mode that the protocol defines.
    mode: i32,
}

/// The access type.
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

    /// Returns whether the choice of the file system is left to the driver.
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

    /// Returns whether a volume for this usage can also be used as `wanted`.
    fn covers(&self, wanted: &Usage) -> bool {
        self.access.covers(&wanted.access) && mode_covers(self.mode(), wanted.mode())
    }
}

impl Access {
    /// Mount flags and group may differ for each mount. The file system belongs to the volume, unless it was left
    /// open.
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

/// Returns whether a volume for one access mode also supports another one.
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

/// A content source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Source {
    Snapshot(String),
    Volume(String),
}

impl Source {
    pub(crate) fn to_proto(&self) -> v1::VolumeContentSource {
        match self {
            Source::Snapshot(id) => v1::VolumeContentSource::snapshot(id),
            Source::Volume(id) => v1::VolumeContentSource::volume(id),
        }
    }
}

/// A volume and its use on nodes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Volume {
    pub(crate) id: String,
    /// None for volumes that CreateVolume did not create.
    pub(crate) name: Option<String>,
    /// The creation time in milliseconds since 1970; 0 for volumes from the configuration.
    #[serde(default)]
    pub(crate) made_ms: u64,
    pub(crate) capacity_bytes: i64,
    /// The requested usages. Empty for volumes that CreateVolume did not create, which support any usage.
    pub(crate) usages: Vec<Usage>,
    pub(crate) parameters: Map,
    /// The mutable parameters of the CreateVolume request.
    pub(crate) first_mutable_parameters: Map,
    /// The present mutable parameters.
    pub(crate) mutable_parameters: Map,
    pub(crate) modifications: u32,
    pub(crate) context: Map,
    pub(crate) source: Option<Source>,
    /// The index of the zone that stores it.
    pub(crate) zone: usize,
    pub(crate) content: Content,
    /// The attachments by node id.
    pub(crate) attachments: BTreeMap<String, Attachment>,
    /// The use on nodes by node id; may lack nodes that do not use it.
    pub(crate) on_nodes: BTreeMap<String, OnNode>,
}

/// The use of a volume on a node, as recorded by the Node service.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OnNode {
    /// The stagings by staging path.
    pub(crate) staged: BTreeMap<String, Usage>,
    /// The publications by target path.
    pub(crate) published: BTreeMap<String, Publication>,
    /// The size to which NodeExpandVolume has expanded the volume here; 0 if it has not.
    #[serde(default)]
    pub(crate) grown_bytes: i64,
}

impl OnNode {
    /// Returns whether the volume is staged or published at the path.
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
    /// Creates the record of a volume from the configuration.
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

    /// Returns whether the volume supports a usage.
    pub(crate) fn covers(&self, wanted: &Usage) -> bool {
        self.usages.is_empty() || self.usages.iter().any(|made_for| made_for.covers(wanted))
    }

    pub(crate) fn is_in_use_on_a_node(&self) -> bool {
        !self.attachments.is_empty() || self.is_staged_or_published()
    }

    pub(crate) fn is_staged_or_published(&self) -> bool {
        self.on_nodes.values().any(|node| !node.staged.is_empty() || !node.published.is_empty())
    }

    /// The use of the volume on a node.
    pub(crate) fn on(&self, node: &NodeConfig) -> &OnNode {
        static UNUSED: OnNode =
            OnNode { staged: BTreeMap::new(), published: BTreeMap::new(), grown_bytes: 0 };
        self.on_nodes.get(&node.id).unwrap_or(&UNUSED)
    }

    pub(crate) fn on_mut(&mut self, node: &NodeConfig) -> &mut OnNode {
        self.on_nodes.entry(node.id.clone()).or_default()
    }

    /// Returns whether the volume only supports block access; false if that was left open.
    pub(crate) fn is_block(&self) -> bool {
        !self.usages.is_empty() && self.usages.iter().all(Usage::is_block)
    }
}

/// The attachment of a volume to a node.
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

/// The publication of a volume at a target path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Publication {
    pub(crate) usage: Usage,
    pub(crate) readonly: bool,
    /// The identity of the file or directory that the driver created; `None` if it existed before.
    pub(crate) made: Option<Made>,
}

/// The identity of a file or directory, which distinguishes it from a later one at its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Made {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

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
    /// The index of the zone of its volume. If snapshots have a topology, it can only be used there.
    #[serde(default)]
    pub(crate) zone: usize,
    pub(crate) content: Content,
    /// The number of reports until it is ready.
    pub(crate) polls_left: u32,
    /// The time at which it becomes ready.
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
