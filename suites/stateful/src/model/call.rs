//! What an orchestrator can do: the RPCs with what matters of their requests, and what workloads do with volumes.

use std::fmt;

use csi_harness::config::AccessType;
use csi_harness::lifecycle::volume_capability::Mode;
use serde::{Deserialize, Serialize};

use super::names::{Id, Name, Node, Slot, Stamp, Target};

/// How a volume is used: the essence of a VolumeCapability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// As a file system or as a device.
    pub access: AccessType,
    /// By whom.
    #[serde(with = "mode")]
    pub mode: Mode,
}

/// The modes in which several nodes may have a volume at once.
pub const MODES_FOR_MANY_NODES: [Mode; 3] =
    [Mode::MultiNodeReaderOnly, Mode::MultiNodeSingleWriter, Mode::MultiNodeMultiWriter];

impl Usage {
    /// Whether several nodes may have it at once.
    pub fn is_for_many_nodes(self) -> bool {
        MODES_FOR_MANY_NODES.contains(&self.mode)
    }

    /// Whether several workloads on a node may have it at once.
    pub fn is_for_many_workloads(self) -> bool {
        self.is_for_many_nodes() || self.mode == Mode::SingleNodeMultiWriter
    }

    /// Whether nobody writes.
    pub fn is_for_readers(self) -> bool {
        matches!(self.mode, Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly)
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.access, self.mode.as_str_name())
    }
}

/// Modes by the names of the protocol.
mod mode {
    use serde::de::Error;

    use super::{Deserialize, Mode};

    pub(super) fn serialize<S: serde::Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(mode.as_str_name())
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Mode, D::Error> {
        let name = String::deserialize(deserializer)?;
        Mode::from_str_name(&name).ok_or_else(|| D::Error::custom(format!("{name:?} is not an access mode")))
    }
}

/// A range of sizes; 0 is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Size {
    /// At least.
    pub required_bytes: i64,
    /// At most.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub limit_bytes: i64,
}

fn is_zero(bytes: &i64) -> bool {
    *bytes == 0
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit_bytes {
            0 => write!(f, "{} bytes", self.required_bytes),
            limit => write!(f, "{} to {limit} bytes", self.required_bytes),
        }
    }
}

impl Size {
    /// At least so many bytes.
    pub fn at_least(required_bytes: i64) -> Size {
        Size { required_bytes, limit_bytes: 0 }
    }

    /// Whether a size lies within.
    pub fn contains(self, bytes: i64) -> bool {
        bytes >= self.required_bytes && (self.limit_bytes == 0 || bytes <= self.limit_bytes)
    }
}

/// What a volume is made with: the essence of a CreateVolumeRequest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Wanted {
    /// capacity_range.
    pub size: Size,
    /// volume_capabilities.
    pub usage: Usage,
    /// Which of the configured sets of parameters.
    #[serde(default)]
    pub parameters: u8,
    /// Which of the configured sets of mutable_parameters.
    #[serde(default)]
    pub mutable_parameters: u8,
    /// The volume, snapshot or member of a group snapshot that it is a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Id>,
}

impl Wanted {
    /// An empty volume with the first set of parameters.
    pub fn of(size: Size, usage: Usage) -> Wanted {
        Wanted { size, usage, parameters: 0, mutable_parameters: 0, source: None }
    }
}

/// Something that is done to one volume, or with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the protocol")]
pub enum VolumeCall {
    /// The RPC of this name, as are those that follow.
    CreateVolume {
        name: Name,
        wanted: Wanted,
    },
    DeleteVolume {
        volume: Id,
    },
    ControllerPublishVolume {
        volume: Id,
        node: Node,
        usage: Usage,
        readonly: bool,
    },
    /// From all nodes, if none is named.
    ControllerUnpublishVolume {
        volume: Id,
        node: Option<Node>,
    },
    ValidateVolumeCapabilities {
        volume: Id,
        usage: Usage,
    },
    ControllerGetVolume {
        volume: Id,
    },
    ControllerExpandVolume {
        volume: Id,
        size: Size,
    },
    ControllerModifyVolume {
        volume: Id,
        mutable_parameters: u8,
    },
    NodeStageVolume {
        volume: Id,
        node: Node,
        usage: Usage,
    },
    NodeUnstageVolume {
        volume: Id,
        node: Node,
    },
    NodePublishVolume {
        volume: Id,
        node: Node,
        target: Target,
        usage: Usage,
        readonly: bool,
    },
    NodeUnpublishVolume {
        volume: Id,
        node: Node,
        target: Target,
    },
    NodeExpandVolume {
        volume: Id,
        node: Node,
        target: Target,
        size: Size,
    },
    NodeGetVolumeStats {
        volume: Id,
        node: Node,
        target: Target,
    },
    /// A workload writes, and waits until it is durable.
    Write {
        volume: Id,
        node: Node,
        target: Target,
        slot: Slot,
        stamp: Stamp,
    },
    /// A workload reads everything that was ever written.
    Read {
        volume: Id,
        node: Node,
        target: Target,
    },
    /// Somebody else takes the mount at a target away, or at the staging path if none is named.
    Unmount {
        volume: Id,
        node: Node,
        target: Option<Target>,
    },
    /// What a ListVolumes says of this volume.
    Listing {
        volume: Id,
    },
    /// What the making of a copy says of its source.
    Copying {
        volume: Id,
    },
}

/// Something that is done to one snapshot, or with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the protocol")]
pub enum SnapshotCall {
    /// The RPC of this name, as are those that follow.
    CreateSnapshot {
        name: Name,
        volume: Id,
    },
    DeleteSnapshot {
        snapshot: Id,
    },
    GetSnapshot {
        snapshot: Id,
    },
    /// What a ListSnapshots says of this snapshot.
    Listing {
        snapshot: Id,
    },
    /// What the making of a copy says of its source.
    Copying {
        snapshot: Id,
    },
}

/// Something that is done to one group snapshot, or with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the protocol")]
pub enum GroupCall {
    /// The RPC of this name, as are those that follow.
    CreateVolumeGroupSnapshot {
        name: Name,
        volumes: Vec<Id>,
    },
    DeleteVolumeGroupSnapshot {
        group: Id,
    },
    GetVolumeGroupSnapshot {
        group: Id,
    },
    /// DeleteSnapshot of a member alone.
    DeleteMember {
        group: Id,
        member: Id,
    },
    /// What the making of a copy says of its source.
    Copying {
        group: Id,
    },
}

/// Something that an orchestrator does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// With a volume.
    Volume(VolumeCall),
    /// With a snapshot.
    Snapshot(SnapshotCall),
    /// With a group snapshot.
    Group(GroupCall),
    /// ListVolumes, all pages of it.
    ListVolumes,
    /// ListSnapshots, all pages of it.
    ListSnapshots,
}

impl From<VolumeCall> for Call {
    fn from(call: VolumeCall) -> Call {
        Call::Volume(call)
    }
}

impl From<SnapshotCall> for Call {
    fn from(call: SnapshotCall) -> Call {
        Call::Snapshot(call)
    }
}

impl From<GroupCall> for Call {
    fn from(call: GroupCall) -> Call {
        Call::Group(call)
    }
}

/// What a call goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A name, which may not belong to anything yet.
    Name(Name),
    /// The id of something that was made.
    Id(Id),
}

impl Subject {
    /// The name under which the object was or is to be made.
    pub fn name(self) -> Name {
        match self {
            Subject::Name(name) => name,
            Subject::Id(id) => id.name.owner(),
        }
    }

    /// The id, if it goes by one.
    pub fn id(self) -> Option<Id> {
        match self {
            Subject::Name(_) => None,
            Subject::Id(id) => Some(id),
        }
    }
}

/// What a call goes by, to be changed.
#[derive(Debug)]
pub(crate) enum SubjectMut<'a> {
    Name(&'a mut Name),
    Id(&'a mut Id),
}

/// Gives what calls go by to one of two functions: a name, or an id.
macro_rules! subjects {
    ($calls:ident { $($by_name:ident)* } { $($by_id:ident $field:ident)* }) => {
        impl $calls {
            /// What it goes by.
            pub fn subject(&self) -> Subject {
                match self {
                    $($calls::$by_name { name, .. } => Subject::Name(*name),)*
                    $($calls::$by_id { $field, .. } => Subject::Id(*$field),)*
                }
            }

            /// The same, to be changed.
            pub(crate) fn subject_mut(&mut self) -> SubjectMut<'_> {
                match self {
                    $($calls::$by_name { name, .. } => SubjectMut::Name(name),)*
                    $($calls::$by_id { $field, .. } => SubjectMut::Id($field),)*
                }
            }
        }
    };
}

subjects! {
    VolumeCall { CreateVolume } {
        DeleteVolume volume
        ControllerPublishVolume volume
        ControllerUnpublishVolume volume
        ValidateVolumeCapabilities volume
        ControllerGetVolume volume
        ControllerExpandVolume volume
        ControllerModifyVolume volume
        NodeStageVolume volume
        NodeUnstageVolume volume
        NodePublishVolume volume
        NodeUnpublishVolume volume
        NodeExpandVolume volume
        NodeGetVolumeStats volume
        Write volume
        Read volume
        Unmount volume
        Listing volume
        Copying volume
    }
}

subjects! {
    SnapshotCall { CreateSnapshot } {
        DeleteSnapshot snapshot
        GetSnapshot snapshot
        Listing snapshot
        Copying snapshot
    }
}

subjects! {
    GroupCall { CreateVolumeGroupSnapshot } {
        DeleteVolumeGroupSnapshot group
        GetVolumeGroupSnapshot group
        DeleteMember group
        Copying group
    }
}

impl VolumeCall {
    /// The RPC, or what workloads do.
    pub fn method(&self) -> &'static str {
        use VolumeCall::*;
        match self {
            CreateVolume { .. } => "CreateVolume",
            DeleteVolume { .. } => "DeleteVolume",
            ControllerPublishVolume { .. } => "ControllerPublishVolume",
            ControllerUnpublishVolume { .. } => "ControllerUnpublishVolume",
            ValidateVolumeCapabilities { .. } => "ValidateVolumeCapabilities",
            ControllerGetVolume { .. } => "ControllerGetVolume",
            ControllerExpandVolume { .. } => "ControllerExpandVolume",
            ControllerModifyVolume { .. } => "ControllerModifyVolume",
            NodeStageVolume { .. } => "NodeStageVolume",
            NodeUnstageVolume { .. } => "NodeUnstageVolume",
            NodePublishVolume { .. } => "NodePublishVolume",
            NodeUnpublishVolume { .. } => "NodeUnpublishVolume",
            NodeExpandVolume { .. } => "NodeExpandVolume",
            NodeGetVolumeStats { .. } => "NodeGetVolumeStats",
            Listing { .. } => "ListVolumes",
            Write { .. } => "write",
            Read { .. } => "read",
            Unmount { .. } => "umount",
            Copying { .. } => "copy",
        }
    }
}

impl SnapshotCall {
    /// The RPC, or what workloads do.
    pub fn method(&self) -> &'static str {
        use SnapshotCall::*;
        match self {
            CreateSnapshot { .. } => "CreateSnapshot",
            DeleteSnapshot { .. } => "DeleteSnapshot",
            GetSnapshot { .. } => "GetSnapshot",
            Listing { .. } => "ListSnapshots",
            Copying { .. } => "copy",
        }
    }
}

impl GroupCall {
    /// The RPC, or what workloads do.
    pub fn method(&self) -> &'static str {
        use GroupCall::*;
        match self {
            CreateVolumeGroupSnapshot { .. } => "CreateVolumeGroupSnapshot",
            DeleteVolumeGroupSnapshot { .. } => "DeleteVolumeGroupSnapshot",
            GetVolumeGroupSnapshot { .. } => "GetVolumeGroupSnapshot",
            DeleteMember { .. } => "DeleteSnapshot",
            Copying { .. } => "copy",
        }
    }
}

impl Call {
    /// What it goes by, unless it is about all objects of a kind.
    pub fn subject(&self) -> Option<Subject> {
        match self {
            Call::Volume(call) => Some(call.subject()),
            Call::Snapshot(call) => Some(call.subject()),
            Call::Group(call) => Some(call.subject()),
            Call::ListVolumes | Call::ListSnapshots => None,
        }
    }

    /// What it copies.
    pub fn sources(&self) -> Vec<Id> {
        self.clone().sources_mut().into_iter().map(|id| *id).collect()
    }

    /// The names of everything that it is about.
    pub fn names(&self) -> Vec<Name> {
        let sources = self.sources().into_iter().map(|id| id.name.owner());
        self.subject().map(|subject| subject.name().owner()).into_iter().chain(sources).collect()
    }

    /// The RPC, or what workloads do.
    pub fn method(&self) -> &'static str {
        match self {
            Call::Volume(call) => call.method(),
            Call::Snapshot(call) => call.method(),
            Call::Group(call) => call.method(),
            Call::ListVolumes => "ListVolumes",
            Call::ListSnapshots => "ListSnapshots",
        }
    }
}

/// The RPC and what tells the call from others in a story: `NodePublishVolume v1 on node 1 at 1`.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method())?;
        match self.subject() {
            Some(Subject::Name(name)) => write!(f, " {name}")?,
            Some(Subject::Id(id)) => write!(f, " {id}")?,
            None => {}
        }
        match self {
            Call::Volume(call) => volume_details(call, f),
            Call::Snapshot(SnapshotCall::CreateSnapshot { volume, .. }) => write!(f, " of {volume}"),
            Call::Group(GroupCall::CreateVolumeGroupSnapshot { volumes, .. }) => {
                let volumes: Vec<String> = volumes.iter().map(Id::to_string).collect();
                write!(f, " of {}", volumes.join(" "))
            }
            Call::Group(GroupCall::DeleteMember { member, .. }) => write!(f, " member {member}"),
            Call::Snapshot(_) | Call::Group(_) | Call::ListVolumes | Call::ListSnapshots => Ok(()),
        }
    }
}

fn volume_details(call: &VolumeCall, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use VolumeCall::*;
    let flag = |readonly: &bool| if *readonly { " readonly" } else { "" };
    match call {
        CreateVolume { wanted, .. } => {
            write!(f, " {}", wanted.size)?;
            match wanted.source {
                Some(source) => write!(f, " from {source}"),
                None => Ok(()),
            }
        }
        ControllerPublishVolume { node, readonly, .. } => write!(f, " to {node}{}", flag(readonly)),
        ControllerUnpublishVolume { node: Some(node), .. } => write!(f, " from {node}"),
        ControllerUnpublishVolume { node: None, .. } => f.write_str(" from all nodes"),
        ControllerExpandVolume { size, .. } => write!(f, " to {size}"),
        NodeStageVolume { node, .. }
        | NodeUnstageVolume { node, .. }
        | Unmount { node, target: None, .. } => write!(f, " on {node}"),
        NodePublishVolume { node, target, readonly, .. } => {
            write!(f, " on {node} at {target}{}", flag(readonly))
        }
        NodeUnpublishVolume { node, target, .. }
        | NodeExpandVolume { node, target, .. }
        | NodeGetVolumeStats { node, target, .. }
        | Write { node, target, .. }
        | Read { node, target, .. }
        | Unmount { node, target: Some(target), .. } => write!(f, " on {node} at {target}"),
        DeleteVolume { .. }
        | ValidateVolumeCapabilities { .. }
        | ControllerGetVolume { .. }
        | ControllerModifyVolume { .. }
        | Listing { .. }
        | Copying { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_in_one_line() {
        let volume = Name::volume(0).id(1);
        let usage = Usage { access: AccessType::Mount, mode: Mode::SingleNodeWriter };
        let (node, target) = (Node(0), Target(1));
        let wanted = Wanted::of(Size { required_bytes: 1, limit_bytes: 2 }, usage);
        let told = |call| Call::Volume(call).to_string();
        assert_eq!(told(VolumeCall::DeleteVolume { volume }), "DeleteVolume v1#2");
        assert_eq!(
            told(VolumeCall::NodePublishVolume { volume, node, target, usage, readonly: true }),
            "NodePublishVolume v1#2 on node 1 at target 2 readonly"
        );
        assert_eq!(
            told(VolumeCall::CreateVolume {
                name: Name::volume(0),
                wanted: Wanted { source: Some(Name::snapshot(2).id(0)), ..wanted }
            }),
            "CreateVolume v1 1 to 2 bytes from s3"
        );
    }
}
