//! The capabilities that a driver can advertise.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use csi_proto::Service;
use csi_proto::v1::{
    controller_service_capability::rpc::Type as ControllerType,
    group_controller_service_capability::rpc::Type as GroupType,
    node_service_capability::rpc::Type as NodeType,
    plugin_capability::{service::Type as ServiceType, volume_expansion::Type as ExpansionType},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::version::{Version, Versions};
use crate::text::message::did_you_mean;

macro_rules! capabilities {
    ($($set:ident { $($variant:ident $need:ident = $name:literal from $proto:ident::$value:ident,)+ })+) => {
        /// Everything a driver can advertise, over all five capability enums of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
        pub enum Capability {
            $($(
                #[serde(rename = $name)]
                #[doc = concat!("`", $name, "`, of the ", stringify!($set), " set.")]
                $variant,
            )+)+
        }

        impl Capability {
            /// Every capability of the versions that are known.
            pub const ALL: &'static [Capability] = &[$($(Capability::$variant,)+)+];

            /// The name as the protocol spells it; prefixed with `Node.` where a controller capability has the
            /// same name.
            pub fn name(self) -> &'static str {
                match self { $($(Capability::$variant => $name,)+)+ }
            }

            /// The service whose call for capabilities reports it.
            pub fn reported_by(self) -> Service {
                match self { $($(Capability::$variant => sets::$set::SERVICE,)+)+ }
            }
        }

        $(impl From<sets::$set> for Option<Capability> {
            fn from(set: sets::$set) -> Self {
                match set.0 {
                    $(number if number == $proto::$value as i32 => Some(Capability::$variant),)+
                    _ => None,
                }
            }
        })+
    };
}

/// Enum numbers as they came over the wire, with a type for each set of numbers.
pub(crate) mod sets {
    use csi_proto::Service;

    macro_rules! sets {
        ($($set:ident of $service:ident),+) => {
            $(pub(crate) struct $set(pub(crate) i32);

            impl $set {
                pub(crate) const SERVICE: Service = Service::$service;
            })+
        };
    }
    sets!(Plugin of Identity, Expansion of Identity, Controller of Controller, Group of GroupController, Node of Node);
}

/// Calls a macro with every capability: its name here, that of the [need](crate::spec::need) for it, its name in the protocol, and its
/// number.
macro_rules! for_each_capability {
    ($macro:ident) => {
        $macro! {
            Plugin {
                ControllerService CONTROLLER_SERVICE = "CONTROLLER_SERVICE" from ServiceType::ControllerService,
                VolumeAccessibilityConstraints VOLUME_ACCESSIBILITY_CONSTRAINTS = "VOLUME_ACCESSIBILITY_CONSTRAINTS" from ServiceType::VolumeAccessibilityConstraints,
                GroupControllerService GROUP_CONTROLLER_SERVICE = "GROUP_CONTROLLER_SERVICE" from ServiceType::GroupControllerService,
                SnapshotMetadataService SNAPSHOT_METADATA_SERVICE = "SNAPSHOT_METADATA_SERVICE" from ServiceType::SnapshotMetadataService,
                SnapshotAccessibilityConstraints SNAPSHOT_ACCESSIBILITY_CONSTRAINTS = "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS" from ServiceType::SnapshotAccessibilityConstraints,
            }
            Expansion {
                OnlineExpansion ONLINE_EXPANSION = "ONLINE" from ExpansionType::Online,
                OfflineExpansion OFFLINE_EXPANSION = "OFFLINE" from ExpansionType::Offline,
            }
            Controller {
                CreateDeleteVolume CREATE_DELETE_VOLUME = "CREATE_DELETE_VOLUME" from ControllerType::CreateDeleteVolume,
                PublishUnpublishVolume PUBLISH_UNPUBLISH_VOLUME = "PUBLISH_UNPUBLISH_VOLUME" from ControllerType::PublishUnpublishVolume,
                ListVolumes LIST_VOLUMES = "LIST_VOLUMES" from ControllerType::ListVolumes,
                GetCapacity GET_CAPACITY = "GET_CAPACITY" from ControllerType::GetCapacity,
                CreateDeleteSnapshot CREATE_DELETE_SNAPSHOT = "CREATE_DELETE_SNAPSHOT" from ControllerType::CreateDeleteSnapshot,
                ListSnapshots LIST_SNAPSHOTS = "LIST_SNAPSHOTS" from ControllerType::ListSnapshots,
                CloneVolume CLONE_VOLUME = "CLONE_VOLUME" from ControllerType::CloneVolume,
                PublishReadonly PUBLISH_READONLY = "PUBLISH_READONLY" from ControllerType::PublishReadonly,
                ExpandVolume EXPAND_VOLUME = "EXPAND_VOLUME" from ControllerType::ExpandVolume,
                ListVolumesPublishedNodes LIST_VOLUMES_PUBLISHED_NODES = "LIST_VOLUMES_PUBLISHED_NODES" from ControllerType::ListVolumesPublishedNodes,
                VolumeCondition VOLUME_CONDITION = "VOLUME_CONDITION" from ControllerType::VolumeCondition,
                GetVolume GET_VOLUME = "GET_VOLUME" from ControllerType::GetVolume,
                SingleNodeMultiWriter SINGLE_NODE_MULTI_WRITER = "SINGLE_NODE_MULTI_WRITER" from ControllerType::SingleNodeMultiWriter,
                ModifyVolume MODIFY_VOLUME = "MODIFY_VOLUME" from ControllerType::ModifyVolume,
                GetSnapshot GET_SNAPSHOT = "GET_SNAPSHOT" from ControllerType::GetSnapshot,
                GetVolumeHealth GET_VOLUME_HEALTH = "GET_VOLUME_HEALTH" from ControllerType::GetVolumeHealth,
                ListVolumeHealth LIST_VOLUME_HEALTH = "LIST_VOLUME_HEALTH" from ControllerType::ListVolumeHealth,
                GetNodeInfo GET_NODE_INFO = "GET_NODE_INFO" from ControllerType::GetNodeInfo,
            }
            Group {
                CreateDeleteGetVolumeGroupSnapshot CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT = "CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT" from GroupType::CreateDeleteGetVolumeGroupSnapshot,
            }
            Node {
                StageUnstageVolume STAGE_UNSTAGE_VOLUME = "STAGE_UNSTAGE_VOLUME" from NodeType::StageUnstageVolume,
                GetVolumeStats GET_VOLUME_STATS = "GET_VOLUME_STATS" from NodeType::GetVolumeStats,
                NodeExpandVolume NODE_EXPAND_VOLUME = "Node.EXPAND_VOLUME" from NodeType::ExpandVolume,
                NodeVolumeCondition NODE_VOLUME_CONDITION = "Node.VOLUME_CONDITION" from NodeType::VolumeCondition,
                NodeSingleNodeMultiWriter NODE_SINGLE_NODE_MULTI_WRITER = "Node.SINGLE_NODE_MULTI_WRITER" from NodeType::SingleNodeMultiWriter,
                VolumeMountGroup VOLUME_MOUNT_GROUP = "VOLUME_MOUNT_GROUP" from NodeType::VolumeMountGroup,
                NodeGetVolumeHealth NODE_GET_VOLUME_HEALTH = "Node.GET_VOLUME_HEALTH" from NodeType::GetVolumeHealth,
                GetStorageHealth GET_STORAGE_HEALTH = "GET_STORAGE_HEALTH" from NodeType::GetStorageHealth,
                NodeInfoFromController NODE_INFO_FROM_CONTROLLER = "NODE_INFO_FROM_CONTROLLER" from NodeType::NodeInfoFromController,
            }
        }
    };
}
pub(crate) use for_each_capability;

for_each_capability!(capabilities);

impl Capability {
    /// The versions of the protocol that define it.
    pub fn versions(self) -> Versions {
        match self {
            Capability::VolumeCondition | Capability::NodeVolumeCondition => {
                Versions::ALL.until(Version::V1_12)
            }
            Capability::SnapshotAccessibilityConstraints
            | Capability::GetVolumeHealth
            | Capability::ListVolumeHealth
            | Capability::NodeGetVolumeHealth
            | Capability::GetStorageHealth => Versions::ALL.since(Version::V1_13),
            Capability::GetNodeInfo | Capability::NodeInfoFromController => {
                Versions::ALL.since(Version::V1_14Preview)
            }
            _ => Versions::ALL,
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Capability {
    type Err = String;

    fn from_str(text: &str) -> Result<Capability, String> {
        let named = Capability::ALL.iter().copied().find(|one| one.name() == text.trim());
        named.ok_or_else(|| {
            let near = did_you_mean(text, Capability::ALL.iter().map(|one| one.name()));
            format!("CSI has no capability {text:?}{near}")
        })
    }
}

/// The capabilities that one driver advertises.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    known: BTreeSet<Capability>,
    unknown: BTreeSet<String>,
}

impl Capabilities {
    /// Returns true if the driver advertises it.
    pub fn has(&self, capability: Capability) -> bool {
        self.known.contains(&capability)
    }

    /// Returns true if volumes can be expanded only while they are in use.
    pub fn expands_only_online(&self) -> bool {
        self.has(Capability::OnlineExpansion) && !self.has(Capability::OfflineExpansion)
    }

    /// Everything advertised that a version known here defines.
    pub fn iter(&self) -> impl Iterator<Item = Capability> + '_ {
        self.known.iter().copied()
    }

    /// Numbers that no version known here defines, such as `controller capability 42`: news, not a fault.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.unknown.iter().map(String::as_str)
    }

    /// Removes the capabilities of later versions, which a caller of this version would not know, and returns them.
    pub(crate) fn keep(&mut self, version: Version) -> BTreeSet<Capability> {
        let (kept, later) = self.known.iter().copied().partition(|one| one.versions().first() <= version);
        self.known = kept;
        later
    }

    pub(crate) fn add(&mut self, set: &str, number: i32, capability: impl Into<Option<Capability>>) {
        match capability.into() {
            Some(capability) => {
                self.known.insert(capability);
            }
            // Zero is UNKNOWN in each of these enums; a check of the suite speaks about it.
            None if number == 0 => {}
            None => {
                self.unknown.insert(format!("{set} capability {number}"));
            }
        }
    }
}
