//! The server traits of the protocol: every RPC goes through [`MockDriver::serve`] to its handler.

use csi_proto::v1::{
    self, controller_server::Controller, group_controller_server::GroupController, identity_server::Identity,
    node_server::Node, snapshot_metadata_server::SnapshotMetadata,
};
use tonic::{Request, Response, Status};

use crate::defects;
use crate::driver::MockDriver;
use crate::serve::Stream;

/// Implements a service whose RPCs all answer with one message.
macro_rules! service {
    ($service:ident { $($rpc:ident($request:ident) -> $response:ident = $handler:path;)* }) => {
        #[tonic::async_trait]
        impl $service for MockDriver {
            $(async fn $rpc(&self, request: Request<v1::$request>) -> Result<Response<v1::$response>, Status> {
                let connection = request.extensions().get().copied();
                let request = request.into_inner();
                self.serve(connection, &request, $handler(self, &request)).await.map(Response::new)
            })*
        }
    };
}

service! {
    Identity {
        get_plugin_info(GetPluginInfoRequest) -> GetPluginInfoResponse = defects::get_plugin_info;
        get_plugin_capabilities(GetPluginCapabilitiesRequest) -> GetPluginCapabilitiesResponse = defects::get_plugin_capabilities;
        probe(ProbeRequest) -> ProbeResponse = defects::probe;
    }
}

service! {
    Controller {
        create_volume(CreateVolumeRequest) -> CreateVolumeResponse = defects::create_volume;
        delete_volume(DeleteVolumeRequest) -> DeleteVolumeResponse = defects::delete_volume;
        controller_publish_volume(ControllerPublishVolumeRequest) -> ControllerPublishVolumeResponse = defects::controller_publish_volume;
        controller_unpublish_volume(ControllerUnpublishVolumeRequest) -> ControllerUnpublishVolumeResponse = defects::controller_unpublish_volume;
        validate_volume_capabilities(ValidateVolumeCapabilitiesRequest) -> ValidateVolumeCapabilitiesResponse = defects::validate_volume_capabilities;
        list_volumes(ListVolumesRequest) -> ListVolumesResponse = defects::list_volumes;
        get_capacity(GetCapacityRequest) -> GetCapacityResponse = defects::get_capacity;
        controller_get_capabilities(ControllerGetCapabilitiesRequest) -> ControllerGetCapabilitiesResponse = defects::controller_get_capabilities;
        create_snapshot(CreateSnapshotRequest) -> CreateSnapshotResponse = defects::create_snapshot;
        delete_snapshot(DeleteSnapshotRequest) -> DeleteSnapshotResponse = defects::delete_snapshot;
        list_snapshots(ListSnapshotsRequest) -> ListSnapshotsResponse = defects::list_snapshots;
        get_snapshot(GetSnapshotRequest) -> GetSnapshotResponse = defects::get_snapshot;
        controller_expand_volume(ControllerExpandVolumeRequest) -> ControllerExpandVolumeResponse = defects::controller_expand_volume;
        controller_get_volume(ControllerGetVolumeRequest) -> ControllerGetVolumeResponse = defects::controller_get_volume;
        controller_modify_volume(ControllerModifyVolumeRequest) -> ControllerModifyVolumeResponse = defects::controller_modify_volume;
        controller_list_volume_health(ControllerListVolumeHealthRequest) -> ControllerListVolumeHealthResponse = defects::controller_list_volume_health;
        controller_get_volume_health(ControllerGetVolumeHealthRequest) -> ControllerGetVolumeHealthResponse = defects::controller_get_volume_health;
    }
}

service! {
    GroupController {
        group_controller_get_capabilities(GroupControllerGetCapabilitiesRequest) -> GroupControllerGetCapabilitiesResponse = defects::group_controller_get_capabilities;
        create_volume_group_snapshot(CreateVolumeGroupSnapshotRequest) -> CreateVolumeGroupSnapshotResponse = defects::create_volume_group_snapshot;
        delete_volume_group_snapshot(DeleteVolumeGroupSnapshotRequest) -> DeleteVolumeGroupSnapshotResponse = defects::delete_volume_group_snapshot;
        get_volume_group_snapshot(GetVolumeGroupSnapshotRequest) -> GetVolumeGroupSnapshotResponse = defects::get_volume_group_snapshot;
    }
}

service! {
    Node {
        node_stage_volume(NodeStageVolumeRequest) -> NodeStageVolumeResponse = defects::node_stage_volume;
        node_unstage_volume(NodeUnstageVolumeRequest) -> NodeUnstageVolumeResponse = defects::node_unstage_volume;
        node_publish_volume(NodePublishVolumeRequest) -> NodePublishVolumeResponse = defects::node_publish_volume;
        node_unpublish_volume(NodeUnpublishVolumeRequest) -> NodeUnpublishVolumeResponse = defects::node_unpublish_volume;
        node_get_volume_stats(NodeGetVolumeStatsRequest) -> NodeGetVolumeStatsResponse = defects::node_get_volume_stats;
        node_expand_volume(NodeExpandVolumeRequest) -> NodeExpandVolumeResponse = defects::node_expand_volume;
        node_get_capabilities(NodeGetCapabilitiesRequest) -> NodeGetCapabilitiesResponse = defects::node_get_capabilities;
        node_get_info(NodeGetInfoRequest) -> NodeGetInfoResponse = defects::node_get_info;
        node_get_volume_health(NodeGetVolumeHealthRequest) -> NodeGetVolumeHealthResponse = defects::node_get_volume_health;
        node_get_storage_health(NodeGetStorageHealthRequest) -> NodeGetStorageHealthResponse = defects::node_get_storage_health;
    }
}

#[tonic::async_trait]
impl SnapshotMetadata for MockDriver {
    type GetMetadataAllocatedStream = Stream<v1::GetMetadataAllocatedResponse>;
    type GetMetadataDeltaStream = Stream<v1::GetMetadataDeltaResponse>;

    async fn get_metadata_allocated(
        &self,
        request: Request<v1::GetMetadataAllocatedRequest>,
    ) -> Result<Response<Self::GetMetadataAllocatedStream>, Status> {
        let connection = request.extensions().get().copied();
        let request = request.into_inner();
        let handler = defects::get_metadata_allocated(self, &request);
        self.serve_stream(connection, &request, &request.snapshot_id, handler).await.map(Response::new)
    }

    async fn get_metadata_delta(
        &self,
        request: Request<v1::GetMetadataDeltaRequest>,
    ) -> Result<Response<Self::GetMetadataDeltaStream>, Status> {
        let connection = request.extensions().get().copied();
        let request = request.into_inner();
        let handler = defects::get_metadata_delta(self, &request);
        self.serve_stream(connection, &request, &request.target_snapshot_id, handler).await.map(Response::new)
    }
}
