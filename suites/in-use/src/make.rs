//! Snapshots and copies of volumes in use, as the checks need them.

use csi_harness::prelude::*;
use csi_proto::Call as _;
pub use v1::VolumeContentSource as Source;

use crate::beside::Action;

pub(crate) const SNAPSHOT: Action =
    Action { name: "CreateSnapshot", rpcs: &[v1::CreateSnapshotRequest::RPC] };
pub(crate) const CLONE: Action =
    Action { name: "CreateVolume from the volume", rpcs: &[v1::CreateVolumeRequest::RPC] };

/// A copy with room for so many bytes.
///
/// # Errors
/// Skip if the driver makes none, which other checks judge.
pub async fn copy_of(cx: &Cx, source: Source, bytes: i64) -> CheckResult<NodeVolume> {
    let request = cx.create_node_volume_request().await?.copy_of(source, bytes);
    let refused = "the driver makes no copy of a volume in use, or of its snapshot";
    Ok(cx.create_volume(request).await.or_skip(refused)?.into())
}

/// The request for a clone of a volume with room for so many bytes.
pub(crate) async fn clone_request(cx: &Cx, id: &str, bytes: i64) -> CheckResult<v1::CreateVolumeRequest> {
    Ok(cx.create_node_volume_request().await?.copy_of(Source::volume(id), bytes))
}

/// A snapshot that is ready to use.
///
/// # Errors
/// Skip if the driver takes none of a volume in use, or if it does not become ready.
pub async fn snapshot(cx: &Cx, volume_id: &str) -> CheckResult<v1::Snapshot> {
    snapshot_as(cx, cx.create_snapshot_request(volume_id)).await
}

/// A snapshot of this request that is ready to use.
///
/// # Errors
/// Fails as [`snapshot`] does.
pub(crate) async fn snapshot_as(cx: &Cx, request: v1::CreateSnapshotRequest) -> CheckResult<v1::Snapshot> {
    let refused = "the driver takes no snapshot of a volume in use";
    let first = cx.create_snapshot(request.clone()).await.or_skip(refused)?;
    if first.ready_to_use {
        return Ok(first);
    }
    let ready = cx.ready_snapshot(&request).await?;
    ready.ok_or_else(|| Stop::skip("the snapshot does not become ready_to_use in time"))
}
