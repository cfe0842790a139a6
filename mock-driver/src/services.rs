//! The server traits of the protocol. Every RPC calls its handler through [`MockDriver::serve`].

use csi_proto::v1::{
    self, controller_server::Controller, group_controller_server::GroupController, identity_server::Identity,
    node_server::Node, snapshot_metadata_server::SnapshotMetadata,
};
use tonic::{Request, Response, Status};

use crate::defects;
use crate::driver::MockDriver;
use crate::serve::Stream;

/// Implements a service whose RPCs all return a single message. Each calls the function of its name.
macro_rules! serve {
    ($service:ident: $($rpc:ident($request:ident) -> $response:ident;)*) => {
        #[tonic::async_trait]
        impl $service for MockDriver {
            $(async fn $rpc(&self, request: Request<v1::$request>) -> Result<Response<v1::$response>, Status> {
                let connection = request.extensions().get().copied();
                let request = request.into_inner();
                self.serve(connection, &request, defects::$rpc(self, &request)).await.map(Response::new)
            })*
        }
    };
}

csi_proto::rpcs!(Identity serve);
csi_proto::rpcs!(Controller serve);
csi_proto::rpcs!(GroupController serve);
csi_proto::rpcs!(Node serve);

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
