//! Facts about each RPC beyond its messages, one row for each. Everything that depends on the RPC reads this table.

use csi_proto::{Call, RPCS, Rpc, Service, v1};

use crate::protocol::capability::Capability;
use crate::protocol::version::Version;

/// The effect of an RPC on the state that a driver keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// It asks, and changes nothing.
    Asks,
    /// It asks for pages of a list, from a token on.
    Lists,
    /// It makes something, which the other RPC undoes.
    Makes(Resource, Rpc),
    /// It undoes what another RPC made.
    Undoes(Resource),
    /// It changes something that is there.
    Changes,
}

/// The kinds of objects that a call can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A volume.
    Volume,
    /// A snapshot of one volume.
    Snapshot,
    /// A snapshot of several volumes.
    GroupSnapshot,
    /// A volume made available to a node.
    Attachment,
    /// A volume staged at a path of a node.
    Staging,
    /// A volume published at a path of a node.
    Publication,
}

/// The row of an RPC.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The RPC.
    pub rpc: Rpc,
    /// The effect of the RPC.
    pub does: Does,
    /// The capabilities of which a driver needs one to offer the RPC. If there are none, each driver with the service
    /// offers it.
    pub promised_by: &'static [Capability],
}

impl Facts {
    /// The row of this RPC.
    pub fn of(rpc: Rpc) -> Option<&'static Facts> {
        FACTS.iter().find(|facts| facts.rpc == rpc)
    }

    /// The row of the RPC of this name.
    pub fn named(method: &str) -> Option<&'static Facts> {
        FACTS.iter().find(|facts| facts.rpc.method == method)
    }

    /// Returns true if a driver that serves the service and has these capabilities offers it.
    pub fn is_offered_with(&self, has: impl Fn(Capability) -> bool) -> bool {
        self.promised_by.is_empty() || self.promised_by.iter().any(|one| has(*one))
    }

    /// Returns true if a version of the protocol has it.
    pub fn is_in(&self, version: Version) -> bool {
        self.promised_by.is_empty() || self.promised_by.iter().any(|one| one.versions().has(version))
    }

    /// The kind of object that it makes, if it makes any.
    pub fn makes(&self) -> Option<Resource> {
        match self.does {
            Does::Makes(resource, _) => Some(resource),
            _ => None,
        }
    }

    /// The RPC that undoes what this one makes.
    pub fn undone_by(&self) -> Option<Rpc> {
        match self.does {
            Does::Makes(_, rpc) => Some(rpc),
            _ => None,
        }
    }

    /// Returns true if it changes anything that a driver keeps.
    pub fn changes(&self) -> bool {
        !matches!(self.does, Does::Asks | Does::Lists)
    }

    /// Returns true if its answer is a page of a list.
    pub fn lists(&self) -> bool {
        self.does == Does::Lists
    }

    /// Returns true if it makes an object that lists and the capacity depend on.
    pub(crate) fn makes_listed(&self) -> bool {
        matches!(self.makes(), Some(Resource::Volume | Resource::Snapshot | Resource::GroupSnapshot))
    }

    /// Returns true if its answer covers everything that the driver keeps: a page of a list, or the free capacity.
    pub(crate) fn is_about_all(&self) -> bool {
        self.lists() || self.rpc == v1::GetCapacityRequest::RPC
    }
}

macro_rules! facts {
    (@does asks) => { Does::Asks };
    (@does lists) => { Does::Lists };
    (@does changes) => { Does::Changes };
    (@does undoes $resource:ident) => { Does::Undoes(Resource::$resource) };
    (@does makes $resource:ident undone by $request:ident) => {
        Does::Makes(Resource::$resource, <v1::$request as Call>::RPC)
    };
    ($($request:ident { $($does:tt)+ } $(promised by $capability:ident $(| $other:ident)*)?;)+) => {
        /// A row for each RPC, in the order of csi.proto.
        pub static FACTS: [Facts; RPCS.len()] = [$(Facts {
            rpc: <v1::$request as Call>::RPC,
            does: facts!(@does $($does)+),
            promised_by: &[$(Capability::$capability, $(Capability::$other),*)?],
        }),+];

        /// Every capability with an RPC of its own behind it.
        pub const PROMISES: &[Capability] = &[$($(Capability::$capability,)?)+];
    };
}

facts! {
    GetPluginInfoRequest { asks };
    GetPluginCapabilitiesRequest { asks };
    ProbeRequest { asks };
    CreateVolumeRequest { makes Volume undone by DeleteVolumeRequest } promised by CreateDeleteVolume;
    DeleteVolumeRequest { undoes Volume } promised by CreateDeleteVolume;
    ControllerPublishVolumeRequest { makes Attachment undone by ControllerUnpublishVolumeRequest }
        promised by PublishUnpublishVolume;
    ControllerUnpublishVolumeRequest { undoes Attachment } promised by PublishUnpublishVolume;
    ValidateVolumeCapabilitiesRequest { asks };
    ListVolumesRequest { lists } promised by ListVolumes;
    GetCapacityRequest { asks } promised by GetCapacity;
    ControllerGetCapabilitiesRequest { asks };
    CreateSnapshotRequest { makes Snapshot undone by DeleteSnapshotRequest } promised by CreateDeleteSnapshot;
    DeleteSnapshotRequest { undoes Snapshot } promised by CreateDeleteSnapshot;
    ListSnapshotsRequest { lists } promised by ListSnapshots;
    GetSnapshotRequest { asks } promised by GetSnapshot;
    ControllerExpandVolumeRequest { changes } promised by ExpandVolume;
    ControllerGetVolumeRequest { asks } promised by GetVolume;
    ControllerModifyVolumeRequest { changes } promised by ModifyVolume;
    ControllerListVolumeHealthRequest { lists } promised by ListVolumeHealth;
    ControllerGetVolumeHealthRequest { asks } promised by GetVolumeHealth;
    ControllerGetNodeInfoRequest { asks } promised by GetNodeInfo;
    GroupControllerGetCapabilitiesRequest { asks };
    CreateVolumeGroupSnapshotRequest { makes GroupSnapshot undone by DeleteVolumeGroupSnapshotRequest }
        promised by CreateDeleteGetVolumeGroupSnapshot;
    DeleteVolumeGroupSnapshotRequest { undoes GroupSnapshot } promised by CreateDeleteGetVolumeGroupSnapshot;
    GetVolumeGroupSnapshotRequest { asks } promised by CreateDeleteGetVolumeGroupSnapshot;
    GetMetadataAllocatedRequest { asks };
    GetMetadataDeltaRequest { asks };
    NodeStageVolumeRequest { makes Staging undone by NodeUnstageVolumeRequest } promised by StageUnstageVolume;
    NodeUnstageVolumeRequest { undoes Staging } promised by StageUnstageVolume;
    NodePublishVolumeRequest { makes Publication undone by NodeUnpublishVolumeRequest };
    NodeUnpublishVolumeRequest { undoes Publication };
    NodeGetVolumeStatsRequest { asks } promised by GetVolumeStats | NodeVolumeCondition;
    NodeExpandVolumeRequest { changes } promised by NodeExpandVolume;
    NodeGetCapabilitiesRequest { asks };
    NodeGetInfoRequest { asks };
    NodeGetVolumeHealthRequest { asks } promised by NodeGetVolumeHealth;
    NodeGetStorageHealthRequest { asks } promised by GetStorageHealth;
}

/// The RPCs of a service that a driver has only if it advertises a capability.
pub fn promised(service: Service) -> impl Iterator<Item = &'static Facts> {
    FACTS.iter().filter(move |facts| facts.rpc.service == service && !facts.promised_by.is_empty())
}

#[cfg(test)]
mod tests {
    use csi_proto::reflect;

    use super::*;

    #[test]
    fn each_rpc_has_its_row() {
        assert_eq!(FACTS.map(|facts| facts.rpc.method), RPCS.map(|rpc| rpc.method));
    }

    #[test]
    fn what_is_a_list_takes_a_token() {
        for facts in &FACTS {
            let request = reflect::request_of(facts.rpc).unwrap();
            let takes_a_token = request.get_field_by_name("starting_token").is_some();
            assert_eq!(facts.lists(), takes_a_token, "{}", facts.rpc);
        }
    }

    #[test]
    fn each_call_that_makes_something_has_its_undoing() {
        for facts in &FACTS {
            if let Does::Makes(resource, undone_by) = facts.does {
                assert_eq!(Facts::of(undone_by).unwrap().does, Does::Undoes(resource), "{}", facts.rpc);
            }
        }
    }
}
