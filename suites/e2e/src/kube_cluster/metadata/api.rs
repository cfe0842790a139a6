//! The calls of the service, which are those of CSI with names of objects in place of ids, and a token in the
//! request. The fields that ask for a part of the blocks are left out.

use csi_proto::v1;
use tonic::Status;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

/// Limits the blocks that are read of one answer; more is an error.
const BLOCKS_MAX: usize = 1 << 20;

const ALLOCATED: &str = "/snapshotmetadata.SnapshotMetadata/GetMetadataAllocated";
const DELTA: &str = "/snapshotmetadata.SnapshotMetadata/GetMetadataDelta";

/// A request for the blocks of a snapshot, or with a base for those that differ from it.
pub(super) struct Request {
    pub(super) token: String,
    pub(super) namespace: String,
    /// The snapshot_id of the earlier snapshot.
    pub(super) base: Option<String>,
    pub(super) snapshot: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AllocatedRequest {
    #[prost(string, tag = "1")]
    security_token: String,
    #[prost(string, tag = "2")]
    namespace: String,
    #[prost(string, tag = "3")]
    snapshot_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DeltaRequest {
    #[prost(string, tag = "1")]
    security_token: String,
    #[prost(string, tag = "2")]
    namespace: String,
    #[prost(string, tag = "3")]
    base_snapshot_id: String,
    #[prost(string, tag = "4")]
    target_snapshot_name: String,
}

/// Sends the request, and reads the whole answer.
pub(super) async fn call(channel: Channel, request: &Request) -> Result<Vec<v1::BlockMetadata>, Status> {
    let (security_token, namespace) = (request.token.clone(), request.namespace.clone());
    match &request.base {
        None => {
            let snapshot_name = request.snapshot.clone();
            let message = AllocatedRequest { security_token, namespace, snapshot_name };
            stream(channel, ALLOCATED, message).await
        }
        Some(base) => {
            let message = DeltaRequest {
                security_token,
                namespace,
                base_snapshot_id: base.clone(),
                target_snapshot_name: request.snapshot.clone(),
            };
            stream(channel, DELTA, message).await
        }
    }
}

async fn stream<M: prost::Message + 'static>(
    channel: Channel,
    method: &'static str,
    message: M,
) -> Result<Vec<v1::BlockMetadata>, Status> {
    let mut client = Grpc::new(channel);
    client
        .ready()
        .await
        .map_err(|error| Status::unavailable(csi_harness::text::message::error_chain(&error)))?;
    // Both calls have this answer.
    let codec = ProstCodec::<M, v1::GetMetadataAllocatedResponse>::default();
    let path = PathAndQuery::from_static(method);
    let answer = client.server_streaming(tonic::Request::new(message), path, codec).await?;
    let mut parts = answer.into_inner();
    let mut blocks = Vec::new();
    while let Some(part) = parts.message().await? {
        blocks.extend(part.block_metadata);
        if blocks.len() > BLOCKS_MAX {
            return Err(Status::resource_exhausted(format!("the answer has more than {BLOCKS_MAX} blocks")));
        }
    }
    Ok(blocks)
}
