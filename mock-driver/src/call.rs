//! Facts about each RPC that the driver needs before it looks into the request: the capabilities it depends on and
//! the object it locks.

use std::collections::BTreeMap;
use std::pin::Pin;

use csi_proto::v1;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_proto::v1::group_controller_service_capability::rpc::Type as GroupType;
use csi_proto::v1::node_service_capability::rpc::Type as NodeType;
use csi_proto::v1::plugin_capability::service::Type as ServiceType;

use tonic::Status;

use crate::capability::Capability;

/// The kind of lock that RPCs of the Node service take; each node has its own.
pub(crate) const NODE_VOLUME: &str = "node volume";

/// A stream of messages; all of them are known when the first is sent.
pub(crate) type Stream<T> = Pin<Box<dyn tokio_stream::Stream<Item = Result<T, Status>> + Send>>;

/// A request, as seen by the code that serves all RPCs.
pub(crate) trait Call: prost::Name {
    const METHOD: &'static str;
    /// The RPC is offered if one of these capabilities is advertised; empty for an RPC that is mandatory in its
    /// service.
    const NEEDS: &'static [Capability];
    /// True if the RPC may change the state.
    const CHANGES: bool;
    /// The kind and name of the object that allows one pending operation; none for an RPC that changes nothing.
    fn locks(&self) -> Option<(&'static str, &str)>;
    /// The secrets; `None` if the RPC has no such field.
    fn secrets(&self) -> Option<&BTreeMap<String, String>>;
}

macro_rules! calls {
    ($($request:ident $method:literal [$($need:expr),*] $(locks $kind:tt $field:ident)? $(with $secrets:ident)?;)*) => {
        $(impl Call for v1::$request {
            const METHOD: &'static str = $method;
            const NEEDS: &'static [Capability] = &[$($need),*];
            const CHANGES: bool = !<[&str]>::is_empty(&[$($kind)?]);

            fn locks(&self) -> Option<(&'static str, &str)> {
                let lock = None;
                $(let lock = Some(($kind, self.$field.as_str())).or(lock);)?
                lock
            }

            fn secrets(&self) -> Option<&BTreeMap<String, String>> {
                let secrets = None;
                $(let secrets = Some(&self.$secrets).or(secrets);)?
                secrets
            }
        })*

        /// Returns whether the RPC of this name may change the state.
        pub(crate) fn changes(method: &str) -> bool {
            [$(($method, <v1::$request as Call>::CHANGES)),*].contains(&(method, true))
        }
    };
}

calls! {
    GetPluginInfoRequest "GetPluginInfo" [];
    GetPluginCapabilitiesRequest "GetPluginCapabilities" [];
    ProbeRequest "Probe" [];
    CreateVolumeRequest "CreateVolume" [Capability::Controller(ControllerType::CreateDeleteVolume)] locks "volume named" name with secrets;
    DeleteVolumeRequest "DeleteVolume" [Capability::Controller(ControllerType::CreateDeleteVolume)] locks "volume" volume_id with secrets;
    ControllerPublishVolumeRequest "ControllerPublishVolume" [Capability::Controller(ControllerType::PublishUnpublishVolume)] locks "volume" volume_id with secrets;
    ControllerUnpublishVolumeRequest "ControllerUnpublishVolume" [Capability::Controller(ControllerType::PublishUnpublishVolume)] locks "volume" volume_id with secrets;
    ValidateVolumeCapabilitiesRequest "ValidateVolumeCapabilities" [] with secrets;
    ListVolumesRequest "ListVolumes" [Capability::Controller(ControllerType::ListVolumes)];
    GetCapacityRequest "GetCapacity" [Capability::Controller(ControllerType::GetCapacity)];
    ControllerGetCapabilitiesRequest "ControllerGetCapabilities" [];
    CreateSnapshotRequest "CreateSnapshot" [Capability::Controller(ControllerType::CreateDeleteSnapshot)] locks "snapshot named" name with secrets;
    DeleteSnapshotRequest "DeleteSnapshot" [Capability::Controller(ControllerType::CreateDeleteSnapshot)] locks "snapshot" snapshot_id with secrets;
    ListSnapshotsRequest "ListSnapshots" [Capability::Controller(ControllerType::ListSnapshots)] with secrets;
    GetSnapshotRequest "GetSnapshot" [Capability::Controller(ControllerType::GetSnapshot)] with secrets;
    ControllerExpandVolumeRequest "ControllerExpandVolume" [Capability::Controller(ControllerType::ExpandVolume)] locks "volume" volume_id with secrets;
    ControllerGetVolumeRequest "ControllerGetVolume" [Capability::Controller(ControllerType::GetVolume)];
    ControllerModifyVolumeRequest "ControllerModifyVolume" [Capability::Controller(ControllerType::ModifyVolume)] locks "volume" volume_id with secrets;
    ControllerListVolumeHealthRequest "ControllerListVolumeHealth" [Capability::Controller(ControllerType::ListVolumeHealth)] with secrets;
    ControllerGetVolumeHealthRequest "ControllerGetVolumeHealth" [Capability::Controller(ControllerType::GetVolumeHealth)] with secrets;
    ControllerGetNodeInfoRequest "ControllerGetNodeInfo" [Capability::Controller(ControllerType::GetNodeInfo)];
    GroupControllerGetCapabilitiesRequest "GroupControllerGetCapabilities" [];
    CreateVolumeGroupSnapshotRequest "CreateVolumeGroupSnapshot" [Capability::Group(GroupType::CreateDeleteGetVolumeGroupSnapshot)] locks "group snapshot named" name with secrets;
    DeleteVolumeGroupSnapshotRequest "DeleteVolumeGroupSnapshot" [Capability::Group(GroupType::CreateDeleteGetVolumeGroupSnapshot)] locks "group snapshot" group_snapshot_id with secrets;
    GetVolumeGroupSnapshotRequest "GetVolumeGroupSnapshot" [Capability::Group(GroupType::CreateDeleteGetVolumeGroupSnapshot)] with secrets;
    GetMetadataAllocatedRequest "GetMetadataAllocated" [Capability::Service(ServiceType::SnapshotMetadataService)] with secrets;
    GetMetadataDeltaRequest "GetMetadataDelta" [Capability::Service(ServiceType::SnapshotMetadataService)] with secrets;
    NodeStageVolumeRequest "NodeStageVolume" [Capability::Node(NodeType::StageUnstageVolume)] locks NODE_VOLUME volume_id with secrets;
    NodeUnstageVolumeRequest "NodeUnstageVolume" [Capability::Node(NodeType::StageUnstageVolume)] locks NODE_VOLUME volume_id;
    NodePublishVolumeRequest "NodePublishVolume" [] locks NODE_VOLUME volume_id with secrets;
    NodeUnpublishVolumeRequest "NodeUnpublishVolume" [] locks NODE_VOLUME volume_id;
    NodeGetVolumeStatsRequest "NodeGetVolumeStats" [Capability::Node(NodeType::GetVolumeStats), Capability::Node(NodeType::VolumeCondition)];
    NodeExpandVolumeRequest "NodeExpandVolume" [Capability::Node(NodeType::ExpandVolume)] locks NODE_VOLUME volume_id with secrets;
    NodeGetCapabilitiesRequest "NodeGetCapabilities" [];
    NodeGetInfoRequest "NodeGetInfo" [];
    NodeGetVolumeHealthRequest "NodeGetVolumeHealth" [Capability::Node(NodeType::GetVolumeHealth)];
    NodeGetStorageHealthRequest "NodeGetStorageHealth" [Capability::Node(NodeType::GetStorageHealth)] with secrets;
}
