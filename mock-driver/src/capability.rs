//! The capabilities of all services. Each of them can be switched off.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use csi_proto::v1::{
    self, controller_service_capability::rpc::Type as ControllerType,
    group_controller_service_capability::rpc::Type as GroupType,
    node_service_capability::rpc::Type as NodeType, plugin_capability::service::Type as ServiceType,
    plugin_capability::volume_expansion::Type as ExpansionType,
};

use crate::named;

/// A capability of any supported version of CSI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Capability {
    /// A service of the plugin.
    Service(ServiceType),
    /// A way to expand volumes.
    Expansion(ExpansionType),
    /// An RPC or ability of the Controller service.
    Controller(ControllerType),
    /// An RPC of the GroupController service.
    Group(GroupType),
    /// An RPC or ability of the Node service.
    Node(NodeType),
}

impl Capability {
    /// Every capability that the mock driver can advertise.
    pub const ALL: &'static [Capability] = &[
        Capability::Service(ServiceType::ControllerService),
        Capability::Service(ServiceType::VolumeAccessibilityConstraints),
        Capability::Service(ServiceType::GroupControllerService),
        Capability::Service(ServiceType::SnapshotMetadataService),
        Capability::Service(ServiceType::SnapshotAccessibilityConstraints),
        Capability::Expansion(ExpansionType::Online),
        Capability::Expansion(ExpansionType::Offline),
        Capability::Controller(ControllerType::CreateDeleteVolume),
        Capability::Controller(ControllerType::PublishUnpublishVolume),
        Capability::Controller(ControllerType::ListVolumes),
        Capability::Controller(ControllerType::GetCapacity),
        Capability::Controller(ControllerType::CreateDeleteSnapshot),
        Capability::Controller(ControllerType::ListSnapshots),
        Capability::Controller(ControllerType::CloneVolume),
        Capability::Controller(ControllerType::PublishReadonly),
        Capability::Controller(ControllerType::ExpandVolume),
        Capability::Controller(ControllerType::ListVolumesPublishedNodes),
        Capability::Controller(ControllerType::VolumeCondition),
        Capability::Controller(ControllerType::GetVolume),
        Capability::Controller(ControllerType::SingleNodeMultiWriter),
        Capability::Controller(ControllerType::ModifyVolume),
        Capability::Controller(ControllerType::GetSnapshot),
        Capability::Controller(ControllerType::GetVolumeHealth),
        Capability::Controller(ControllerType::ListVolumeHealth),
        Capability::Controller(ControllerType::GetNodeInfo),
        Capability::Group(GroupType::CreateDeleteGetVolumeGroupSnapshot),
        Capability::Node(NodeType::StageUnstageVolume),
        Capability::Node(NodeType::GetVolumeStats),
        Capability::Node(NodeType::ExpandVolume),
        Capability::Node(NodeType::VolumeCondition),
        Capability::Node(NodeType::SingleNodeMultiWriter),
        Capability::Node(NodeType::VolumeMountGroup),
        Capability::Node(NodeType::GetVolumeHealth),
        Capability::Node(NodeType::GetStorageHealth),
        Capability::Node(NodeType::NodeInfoFromController),
    ];

    /// The name in csi.proto.
    pub fn name(self) -> &'static str {
        match self {
            Capability::Service(service) => service.as_str_name(),
            Capability::Expansion(expansion) => expansion.as_str_name(),
            Capability::Controller(rpc) => rpc.as_str_name(),
            Capability::Group(rpc) => rpc.as_str_name(),
            Capability::Node(rpc) => rpc.as_str_name(),
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Capability::Service(_) => "Plugin",
            Capability::Expansion(_) => "VolumeExpansion",
            Capability::Controller(_) => "Controller",
            Capability::Group(_) => "GroupController",
            Capability::Node(_) => "Node",
        }
    }

    /// The capabilities that the specification requires together with this one.
    fn requires(self) -> &'static [Capability] {
        use self::{ControllerType as C, ServiceType as S};
        match self {
            Capability::Controller(C::ListVolumesPublishedNodes) => &[
                Capability::Controller(C::PublishUnpublishVolume),
                Capability::Service(S::ControllerService),
            ],
            Capability::Controller(C::PublishReadonly) => &[
                Capability::Controller(C::PublishUnpublishVolume),
                Capability::Service(S::ControllerService),
            ],
            Capability::Controller(C::ListVolumeHealth) => {
                &[Capability::Controller(C::GetVolumeHealth), Capability::Service(S::ControllerService)]
            }
            Capability::Controller(_) => &[Capability::Service(S::ControllerService)],
            Capability::Group(_) => &[Capability::Service(S::GroupControllerService)],
            Capability::Node(NodeType::NodeInfoFromController) => {
                &[Capability::Controller(C::GetNodeInfo), Capability::Service(S::ControllerService)]
            }
            Capability::Expansion(ExpansionType::Offline) => {
                &[Capability::Controller(C::ExpandVolume), Capability::Service(S::ControllerService)]
            }
            _ => &[],
        }
    }
}

/// The versions of CSI that a driver supports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum CsiVersion {
    /// Both released versions, as drivers do while callers move from one to the other.
    #[default]
    #[serde(rename = "both")]
    Both,
    /// 1.12, with VOLUME_CONDITION.
    #[serde(rename = "1.12")]
    V1_12,
    /// 1.13, with volume health, storage health and topologies of snapshots.
    #[serde(rename = "1.13")]
    V1_13,
    /// Both released versions, and a draft of 1.14 with ControllerGetNodeInfo.
    #[serde(rename = "1.14-preview")]
    V1_14Preview,
}

/// The capabilities that only the draft of 1.14 has.
const OF_PREVIEW: [Capability; 2] =
    [Capability::Controller(ControllerType::GetNodeInfo), Capability::Node(NodeType::NodeInfoFromController)];

impl CsiVersion {
    /// The capabilities that do not exist in this version.
    pub(crate) fn lacks(self) -> Vec<Capability> {
        let other: &[Capability] = match self {
            CsiVersion::V1_14Preview => return Vec::new(),
            CsiVersion::Both => &[],
            CsiVersion::V1_12 => &[
                Capability::Service(ServiceType::SnapshotAccessibilityConstraints),
                Capability::Controller(ControllerType::GetVolumeHealth),
                Capability::Controller(ControllerType::ListVolumeHealth),
                Capability::Node(NodeType::GetVolumeHealth),
                Capability::Node(NodeType::GetStorageHealth),
            ],
            CsiVersion::V1_13 => &[
                Capability::Controller(ControllerType::VolumeCondition),
                Capability::Node(NodeType::VolumeCondition),
            ],
        };
        [other, &OF_PREVIEW].concat()
    }
}

impl FromStr for CsiVersion {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        match given {
            "both" => Ok(CsiVersion::Both),
            "1.12" => Ok(CsiVersion::V1_12),
            "1.13" => Ok(CsiVersion::V1_13),
            "1.14-preview" => Ok(CsiVersion::V1_14Preview),
            _ => Err(format!("`{given}` is no version: write 1.12, 1.13, 1.14-preview or both")),
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ambiguous = Self::ALL.iter().filter(|other| other.name() == self.name()).count() > 1;
        if ambiguous { write!(f, "{}.{}", self.prefix(), self.name()) } else { f.write_str(self.name()) }
    }
}

/// A name that does not identify a single capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    /// No capability has that name.
    #[error(transparent)]
    Unknown(#[from] named::UnknownId),
    /// Two services have a capability of this name.
    #[error("capability `{0}` is ambiguous, say Controller.{0} or Node.{0}")]
    Ambiguous(String),
}

impl FromStr for Capability {
    type Err = CapabilityError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let (prefix, name) = match given.split_once('.') {
            Some((prefix, name)) => (Some(prefix), name),
            None => (None, given),
        };
        let mut found = Self::ALL
            .iter()
            .copied()
            .filter(|known| known.name() == name && prefix.is_none_or(|prefix| known.prefix() == prefix));
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => Err(CapabilityError::Ambiguous(name.to_owned())),
            (None, _) => {
                let nearest = named::nearest(name, Self::ALL.iter().map(|known| known.name()));
                Err(named::UnknownId { kind: "capability", given: given.to_owned(), nearest }.into())
            }
        }
    }
}

impl TryFrom<String> for Capability {
    type Error = CapabilityError;

    fn try_from(given: String) -> Result<Self, Self::Error> {
        given.parse()
    }
}

impl From<Capability> for String {
    fn from(capability: Capability) -> Self {
        capability.to_string()
    }
}

/// The advertised capabilities. Those whose prerequisites are missing are left out.
#[derive(Debug, Clone)]
pub(crate) struct Capabilities(BTreeSet<Capability>);

impl Capabilities {
    /// Chooses all capabilities, or those in `only` with their prerequisites. Removes those in `without` and
    /// everything that depends on them.
    pub(crate) fn choose(only: &[Capability], without: &[Capability]) -> Self {
        let mut chosen: BTreeSet<Capability> = if only.is_empty() {
            Capability::ALL.iter().copied().collect()
        } else {
            only.iter().flat_map(|one| one.requires().iter().chain([one]).copied()).collect()
        };
        for unwanted in without {
            chosen.remove(unwanted);
        }
        let present = chosen.clone();
        chosen.retain(|one| one.requires().iter().all(|needed| present.contains(needed)));
        let expands = chosen.contains(&Capability::Controller(ControllerType::ExpandVolume))
            || chosen.contains(&Capability::Node(NodeType::ExpandVolume));
        if !expands {
            chosen.retain(|one| !matches!(one, Capability::Expansion(_)));
        }
        Self(chosen)
    }

    pub(crate) fn has(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }

    pub(crate) fn plugin(&self) -> Vec<v1::PluginCapability> {
        self.0.iter().filter_map(|one| plugin_capability(*one)).collect()
    }

    pub(crate) fn controller(&self) -> Vec<v1::ControllerServiceCapability> {
        let types = self.0.iter().filter_map(|one| match one {
            Capability::Controller(rpc) => Some(*rpc as i32),
            _ => None,
        });
        types.map(controller_capability).collect()
    }

    pub(crate) fn group(&self) -> Vec<v1::GroupControllerServiceCapability> {
        let types = self.0.iter().filter_map(|one| match one {
            Capability::Group(rpc) => Some(*rpc as i32),
            _ => None,
        });
        types.map(group_capability).collect()
    }

    pub(crate) fn node(&self) -> Vec<v1::NodeServiceCapability> {
        let types = self.0.iter().filter_map(|one| match one {
            Capability::Node(rpc) => Some(*rpc as i32),
            _ => None,
        });
        types.map(node_capability).collect()
    }
}

fn plugin_capability(capability: Capability) -> Option<v1::PluginCapability> {
    use v1::plugin_capability::{Service, Type, VolumeExpansion};
    let branch = match capability {
        Capability::Service(service) => Type::Service(Service { r#type: service as i32 }),
        Capability::Expansion(expansion) => {
            Type::VolumeExpansion(VolumeExpansion { r#type: expansion as i32 })
        }
        Capability::Controller(_) | Capability::Group(_) | Capability::Node(_) => return None,
    };
    Some(v1::PluginCapability { r#type: Some(branch) })
}

/// The message for a value of the controller's enum, which may be a value that this release does not define.
pub(crate) fn controller_capability(value: i32) -> v1::ControllerServiceCapability {
    use v1::controller_service_capability::{Rpc, Type};
    v1::ControllerServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: value })) }
}

/// Like [`controller_capability`], for the GroupController service.
pub(crate) fn group_capability(value: i32) -> v1::GroupControllerServiceCapability {
    use v1::group_controller_service_capability::{Rpc, Type};
    v1::GroupControllerServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: value })) }
}

/// Like [`controller_capability`], for the Node service.
pub(crate) fn node_capability(value: i32) -> v1::NodeServiceCapability {
    use v1::node_service_capability::{Rpc, Type};
    v1::NodeServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: value })) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_capability_is_found_by_its_own_name() {
        for capability in Capability::ALL {
            assert_eq!(capability.to_string().parse::<Capability>().as_ref(), Ok(capability));
        }
    }

    #[test]
    fn a_name_of_two_services_needs_a_prefix() {
        let error = "EXPAND_VOLUME".parse::<Capability>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "capability `EXPAND_VOLUME` is ambiguous, say Controller.EXPAND_VOLUME or Node.EXPAND_VOLUME"
        );
    }

    #[test]
    fn dependents_leave_with_what_they_need() {
        let none = Capabilities::choose(&[], &["CONTROLLER_SERVICE".parse().unwrap()]);
        assert!(none.controller().is_empty());
        let attached = Capabilities::choose(&[], &["PUBLISH_UNPUBLISH_VOLUME".parse().unwrap()]);
        assert!(!attached.has("LIST_VOLUMES_PUBLISHED_NODES".parse().unwrap()));
        assert!(attached.has("LIST_VOLUMES".parse().unwrap()));
    }
}
