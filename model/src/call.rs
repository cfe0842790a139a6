//! The calls of an orchestrator: the RPCs with the relevant parts of their requests, and the work of workloads.

use std::fmt;

use csi_harness::config::AccessType;
use csi_harness::prelude::Mode;
use csi_harness::text::size::sized;
use serde::{Deserialize, Serialize};

use super::conflicts::{
    ALL, ATTACHMENTS, BYTES, CONFIRMED, Footprint, LIFE, PARAMETERS, SIZE, attached, changes, looks, on,
    published, staged,
};
use super::names::{Id, Name, Node, Slot, Stamp, Target};

/// The access type and mode in which a volume is used: the essence of a VolumeCapability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// The access type: a file system or a device.
    pub access: AccessType,
    /// The access mode.
    #[serde(with = "mode")]
    pub mode: Mode,
}

/// The modes in which several nodes may have a volume at once.
pub const MODES_FOR_MANY_NODES: [Mode; 3] =
    [Mode::MultiNodeReaderOnly, Mode::MultiNodeSingleWriter, Mode::MultiNodeMultiWriter];

impl Usage {
    /// Returns true if several nodes may use it at once.
    pub fn is_for_many_nodes(self) -> bool {
        MODES_FOR_MANY_NODES.contains(&self.mode)
    }

    /// Returns true if several workloads on a node may use it at once.
    pub fn is_for_many_workloads(self) -> bool {
        self.is_for_many_nodes() || self.mode == Mode::SingleNodeMultiWriter
    }

    /// Returns true if all its users only read.
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
    /// The smallest size.
    pub required_bytes: i64,
    /// The largest size; 0 means that there is no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub limit_bytes: i64,
}

fn is_zero(bytes: &i64) -> bool {
    *bytes == 0
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit_bytes {
            0 => write!(f, "{}", sized(self.required_bytes).short()),
            limit => write!(f, "{} to {}", sized(self.required_bytes).short(), sized(limit).short()),
        }
    }
}

impl Size {
    /// A size of at least this many bytes.
    pub fn at_least(required_bytes: i64) -> Size {
        Size { required_bytes, limit_bytes: 0 }
    }

    /// Returns true if a size lies within.
    pub fn contains(self, bytes: i64) -> bool {
        bytes >= self.required_bytes && (self.limit_bytes == 0 || bytes <= self.limit_bytes)
    }

    /// Returns true if an expansion to this size may leave a volume of `before_bytes` with `bytes`. A volume that
    /// already exceeds the limit keeps its size.
    pub fn may_grow_to(self, before_bytes: i64, bytes: i64) -> bool {
        bytes >= self.required_bytes && (self.limit_bytes == 0 || bytes <= self.limit_bytes.max(before_bytes))
    }
}

/// The properties that a volume is made with: the essence of a CreateVolumeRequest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CreateSpec {
    /// capacity_range.
    pub size: Size,
    /// volume_capabilities.
    pub usage: Usage,
    /// The number of a configured set of parameters.
    #[serde(default)]
    pub parameters: u8,
    /// The number of a configured set of mutable_parameters.
    #[serde(default)]
    pub mutable_parameters: u8,
    /// The volume, snapshot or member of a group snapshot that it is a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Id>,
}

impl CreateSpec {
    /// An empty volume with the first set of parameters.
    pub fn of(size: Size, usage: Usage) -> CreateSpec {
        CreateSpec { size, usage, parameters: 0, mutable_parameters: 0, source: None }
    }
}

/// A call of an orchestrator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// A call about a volume.
    Volume(VolumeCall),
    /// A call about a snapshot.
    Snapshot(SnapshotCall),
    /// A call about a group snapshot.
    Group(GroupCall),
    /// A call about all objects of a kind.
    List(List),
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

/// The name or id by which a call names its object.
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

/// A mutable reference to the name or id by which a call names its object.
#[derive(Debug)]
pub(crate) enum SubjectMut<'a> {
    Name(&'a mut Name),
    Id(&'a mut Id),
}

impl From<Name> for Subject {
    fn from(name: Name) -> Subject {
        Subject::Name(name)
    }
}

impl From<Id> for Subject {
    fn from(id: Id) -> Subject {
        Subject::Id(id)
    }
}

impl<'a> From<&'a mut Name> for SubjectMut<'a> {
    fn from(name: &'a mut Name) -> SubjectMut<'a> {
        SubjectMut::Name(name)
    }
}

impl<'a> From<&'a mut Id> for SubjectMut<'a> {
    fn from(id: &'a mut Id) -> SubjectMut<'a> {
        SubjectMut::Id(id)
    }
}

/// A field of a call that says where the call is done.
enum Part<'a> {
    Node(&'a mut Node),
    Target(&'a mut Target),
    Other,
}

trait Field {
    fn part(&mut self) -> Part<'_> {
        Part::Other
    }
}

impl Field for Node {
    fn part(&mut self) -> Part<'_> {
        Part::Node(self)
    }
}

impl Field for Target {
    fn part(&mut self) -> Part<'_> {
        Part::Target(self)
    }
}

impl<T: Field> Field for Option<T> {
    fn part(&mut self) -> Part<'_> {
        self.as_mut().map_or(Part::Other, Field::part)
    }
}

impl Field for Id {}
impl Field for Vec<Id> {}
impl Field for CreateSpec {}
impl Field for Usage {}
impl Field for Size {}
impl Field for Slot {}
impl Field for Stamp {}
impl Field for bool {}
impl Field for u8 {}

fn place<'a, const N: usize>(parts: [Part<'a>; N]) -> (Option<&'a mut Node>, Option<&'a mut Target>) {
    let mut place = (None, None);
    for part in parts {
        match part {
            Part::Node(node) => place.0 = Some(node),
            Part::Target(target) => place.1 = Some(target),
            Part::Other => {}
        }
    }
    place
}

/// Declares the calls about objects of a kind, each in one row: its fields, of which the first is what it goes by, and what of the
/// object it changes and looks at. Its name is that of the RPC, unless another one stands behind it. Those behind `said by others` are
/// never made: they are what other calls say.
macro_rules! calls {
    ($(#[$doc:meta])* $calls:ident { $($made:tt)* } said by others { $($said:tt)* }) => {
        calls! { @kind [$(#[$doc])*] $calls { $($made)* $($said)* } }
        calls! { @names $calls { $($made)* } }
    };
    (@kind [$(#[$doc:meta])*] $calls:ident {
        $($(#[$about:meta])* $call:ident $($rpc:literal)? {
            $subject:ident: $of:ty $(, $field:ident: $ty:ty)*
        } => $footprint:expr;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub enum $calls {
            $($(#[$about])* $call { $subject: $of, $($field: $ty,)* },)*
        }

        impl $calls {
            /// The name of the RPC, or of the step of a workload.
            pub fn method(&self) -> &'static str {
                match self { $($calls::$call { .. } => calls!(@method $call $($rpc)?),)* }
            }

            /// The name or id by which it names its object.
            pub fn subject(&self) -> Subject {
                match self { $($calls::$call { $subject, .. } => (*$subject).into(),)* }
            }

            /// A mutable reference to the name or id by which it names its object.
            pub(crate) fn subject_mut(&mut self) -> SubjectMut<'_> {
                match self { $($calls::$call { $subject, .. } => $subject.into(),)* }
            }

            /// The node and the place on it where it is done, to be changed.
            pub fn place_mut(&mut self) -> (Option<&mut Node>, Option<&mut Target>) {
                match self { $($calls::$call { $subject: _, $($field),* } => place([$($field.part()),*]),)* }
            }

            /// The parts of its object that it changes and looks at.
            pub(super) fn footprint(&self) -> Footprint {
                match self {
                    $($calls::$call { $subject, $($field),* } => {
                        let _ = ($subject, $($field,)*);
                        $footprint
                    })*
                }
            }
        }
    };
    (@names $calls:ident { $($(#[$about:meta])* $call:ident $($rpc:literal)? { $($fields:tt)* } => $footprint:expr;)* }) => {
        impl $calls {
            /// The names of the calls in files.
            pub(super) const NAMES: &'static [&'static str] = &[$(stringify!($call)),*];
        }
    };
    (@method $call:ident) => { stringify!($call) };
    (@method $call:ident $rpc:literal) => { $rpc };
}

calls! {
    /// A call about one volume.
    VolumeCall {
        CreateVolume { name: Name, wanted: CreateSpec } => changes(ALL, ALL);
        DeleteVolume { volume: Id } => changes(ALL, ALL);
        ControllerPublishVolume { volume: Id, node: Node, usage: Usage, readonly: bool } =>
            changes(attached(*node), LIFE | ATTACHMENTS | CONFIRMED);
        /// The call detaches the volume from all nodes if none is named.
        ControllerUnpublishVolume { volume: Id, node: Option<Node> } => match node {
            Some(node) => changes(attached(*node), LIFE | staged(*node) | published(*node)),
            None => changes(ATTACHMENTS, ALL),
        };
        ValidateVolumeCapabilities { volume: Id, usage: Usage } => looks(LIFE | ATTACHMENTS).and_reveals(CONFIRMED);
        ControllerGetVolume { volume: Id } => looks(LIFE | SIZE | ATTACHMENTS);
        // A volume is in use if any node has it.
        ControllerExpandVolume { volume: Id, size: Size } => changes(SIZE, ALL);
        ControllerModifyVolume { volume: Id, mutable_parameters: u8 } => changes(PARAMETERS, LIFE);
        ControllerGetVolumeHealth { volume: Id } => looks(ALL);
        NodeStageVolume { volume: Id, node: Node, usage: Usage } => changes(staged(*node), LIFE | attached(*node));
        NodeUnstageVolume { volume: Id, node: Node } => changes(staged(*node), LIFE | published(*node));
        NodePublishVolume { volume: Id, node: Node, target: Target, usage: Usage, readonly: bool } =>
            changes(published(*node), LIFE | attached(*node) | staged(*node));
        NodeUnpublishVolume { volume: Id, node: Node, target: Target } => changes(published(*node), LIFE);
        NodeExpandVolume { volume: Id, node: Node, target: Target, size: Size } => looks(LIFE | on(*node));
        NodeGetVolumeStats { volume: Id, node: Node, target: Target } => looks(LIFE | on(*node));
        NodeGetVolumeHealth { volume: Id, node: Node, target: Target } => looks(LIFE | on(*node));
        /// A workload writes, and waits until it is durable. What other nodes have in memory may be older.
        Write "write" { volume: Id, node: Node, target: Target, slot: Slot, stamp: Stamp } => changes(BYTES, ALL);
        /// A workload reads everything that was ever written.
        Read "read" { volume: Id, node: Node, target: Target } => looks(LIFE | BYTES | on(*node));
        /// Someone else removes the mount at a target, or at the staging path if none is named.
        Unmount "umount" { volume: Id, node: Node, target: Option<Target> } =>
            changes(staged(*node) | published(*node), LIFE | staged(*node) | published(*node));
    }
    said by others {
        /// The entry of this volume in ListVolumes.
        Listing "ListVolumes" { volume: Id } => looks(LIFE | SIZE | ATTACHMENTS);
        /// The entry of this volume in ControllerListVolumeHealth.
        HealthListing "ControllerListVolumeHealth" { volume: Id } => looks(LIFE);
        /// The evidence about a volume in the making of a copy of it.
        Copying "copy" { volume: Id } => looks(LIFE);
    }
}

calls! {
    /// A call about one snapshot.
    SnapshotCall {
        CreateSnapshot { name: Name, volume: Id } => changes(ALL, ALL);
        DeleteSnapshot { snapshot: Id } => changes(ALL, ALL);
        GetSnapshot { snapshot: Id } => looks(ALL);
    }
    said by others {
        /// The entry of this snapshot in ListSnapshots.
        Listing "ListSnapshots" { snapshot: Id } => looks(ALL);
        /// The evidence about a snapshot in the making of a copy of it.
        Copying "copy" { snapshot: Id } => looks(ALL);
    }
}

calls! {
    /// A call about one group snapshot.
    GroupCall {
        CreateVolumeGroupSnapshot { name: Name, volumes: Vec<Id> } => changes(ALL, ALL);
        DeleteVolumeGroupSnapshot { group: Id } => changes(ALL, ALL);
        GetVolumeGroupSnapshot { group: Id } => looks(ALL);
        /// DeleteSnapshot of a member alone.
        DeleteMember "DeleteSnapshot" { group: Id, member: Id } => changes(ALL, ALL);
    }
    said by others {
        /// The evidence about a group in the making of a copy of it.
        Copying "copy" { group: Id } => looks(ALL);
    }
}

/// A list of all objects of a kind, with all its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    /// ListVolumes.
    Volumes,
    /// ListSnapshots.
    Snapshots,
    /// ControllerListVolumeHealth: volumes with which something is wrong.
    VolumeHealth,
}

impl List {
    /// All of them.
    pub const ALL: [List; 3] = [List::Volumes, List::Snapshots, List::VolumeHealth];

    /// The RPC.
    pub fn method(self) -> &'static str {
        match self {
            List::Volumes => "ListVolumes",
            List::Snapshots => "ListSnapshots",
            List::VolumeHealth => "ControllerListVolumeHealth",
        }
    }

    /// Returns true if every existing object has to be in the list.
    pub(crate) fn is_complete(self) -> bool {
        self != List::VolumeHealth
    }

    /// The part of the list that is about a volume.
    pub(crate) fn of_volume(self, volume: Id) -> VolumeCall {
        match self {
            List::Volumes | List::Snapshots => VolumeCall::Listing { volume },
            List::VolumeHealth => VolumeCall::HealthListing { volume },
        }
    }
}

impl Call {
    /// The name or id by which it names its object, unless it is about all objects of a kind.
    pub fn subject(&self) -> Option<Subject> {
        match self {
            Call::Volume(call) => Some(call.subject()),
            Call::Snapshot(call) => Some(call.subject()),
            Call::Group(call) => Some(call.subject()),
            Call::List(_) => None,
        }
    }

    /// The objects that it copies.
    pub fn sources(&self) -> Vec<Id> {
        self.clone().sources_mut().into_iter().map(|id| *id).collect()
    }

    /// The names of everything that it is about.
    pub fn names(&self) -> Vec<Name> {
        let sources = self.sources().into_iter().map(|id| id.name.owner());
        self.subject().map(|subject| subject.name().owner()).into_iter().chain(sources).collect()
    }

    /// The name of the RPC, or of the step of a workload.
    pub fn method(&self) -> &'static str {
        match self {
            Call::Volume(call) => call.method(),
            Call::Snapshot(call) => call.method(),
            Call::Group(call) => call.method(),
            Call::List(list) => list.method(),
        }
    }
}

/// The RPC with the parts that distinguish the call in a report: `NodePublishVolume v1 on node 1 at 1`.
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
            Call::Snapshot(_) | Call::Group(_) | Call::List(_) => Ok(()),
        }
    }
}

fn volume_details(call: &VolumeCall, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use VolumeCall::*;
    let flag = |readonly: &bool| if *readonly { " readonly" } else { "" };
    match call {
        CreateVolume { wanted, .. } => {
            write!(f, " {}", wanted.size)?;
            if let Some(source) = wanted.source {
                write!(f, " from {source}")?;
            }
            match wanted.parameters {
                0 => Ok(()),
                set => write!(f, " with parameters {set}"),
            }
        }
        ControllerPublishVolume { node, readonly, .. } => write!(f, " to {node}{}", flag(readonly)),
        ControllerUnpublishVolume { node: Some(node), .. } => write!(f, " from {node}"),
        ControllerUnpublishVolume { node: None, .. } => f.write_str(" from all nodes"),
        ControllerExpandVolume { size, .. } => write!(f, " to {size}"),
        NodePublishVolume { node, target, readonly, .. } => {
            write!(f, " on {node} at {target}{}", flag(readonly))
        }
        call => match call.clone().place_mut() {
            (Some(node), Some(target)) => write!(f, " on {node} at {target}"),
            (Some(node), None) => write!(f, " on {node}"),
            (None, _) => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_described_in_one_line() {
        let volume = Name::volume(0).id(1);
        let usage = Usage { access: AccessType::Mount, mode: Mode::SingleNodeWriter };
        let (node, target) = (Node(0), Target(1));
        let wanted = CreateSpec::of(Size { required_bytes: 1, limit_bytes: 2 }, usage);
        let described = |call| Call::Volume(call).to_string();
        assert_eq!(described(VolumeCall::DeleteVolume { volume }), "DeleteVolume v1#2");
        assert_eq!(
            described(VolumeCall::NodePublishVolume { volume, node, target, usage, readonly: true }),
            "NodePublishVolume v1#2 on node 1 at target 2 readonly"
        );
        assert_eq!(
            described(VolumeCall::CreateVolume {
                name: Name::volume(0),
                wanted: CreateSpec { source: Some(Name::snapshot(2).id(0)), ..wanted }
            }),
            "CreateVolume v1 1 byte to 2 bytes from s3"
        );
    }
}
