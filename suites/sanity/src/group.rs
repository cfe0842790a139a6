//! Checks of the GroupController service.

pub(crate) mod create_volume_group_snapshot;
pub(crate) mod delete_volume_group_snapshot;
pub(crate) mod get_volume_group_snapshot;
pub(crate) mod group_controller_get_capabilities;

use std::collections::BTreeSet;

use csi_harness::prelude::*;

use crate::controller::create_volume::source;

/// Two volumes to take a snapshot of together.
pub(crate) async fn two_volumes(cx: &Cx) -> CheckResult<[String; 2]> {
    Ok([cx.new_volume().await?.volume_id, cx.new_volume().await?.volume_id])
}

/// A request for a group snapshot of these volumes.
pub(crate) fn request_for(cx: &Cx, sources: &[String]) -> v1::CreateVolumeGroupSnapshotRequest {
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    cx.create_group_snapshot_request(&sources)
}

/// A group snapshot of two volumes.
pub(crate) async fn new_group(cx: &Cx) -> CheckResult<v1::VolumeGroupSnapshot> {
    let request = request_for(cx, &two_volumes(cx).await?);
    cx.create_group_snapshot(request).setup("a group snapshot").await
}

/// A group snapshot to restore from; skips if it takes longer than the time configured to be ready.
pub(crate) async fn ready_group(cx: &Cx) -> CheckResult<v1::VolumeGroupSnapshot> {
    let request = request_for(cx, &two_volumes(cx).await?);
    let ready = cx.eventually(Settles::SnapshotReady, || async {
        // The protocol's way to wait: the same request again.
        let group = cx.create_group_snapshot(request.clone()).setup("a group snapshot").await?;
        Ok(group.ready_to_use.then_some(group))
    });
    ready.await?.ok_or_else(|| Stop::skip("the group snapshot is not ready within time-limits: settle-ms"))
}

/// Sends CreateVolume for a volume made from a member of a group snapshot.
pub(crate) fn restore<'a>(cx: &'a Cx, member: &v1::Snapshot) -> PendingCall<'a, v1::Volume> {
    cx.create_volume(source::request(cx, source::snapshot(&member.snapshot_id), member.size_bytes))
}

/// A group snapshot that existed until just now.
pub(crate) async fn deleted_group(cx: &Cx) -> CheckResult<v1::VolumeGroupSnapshot> {
    let group = new_group(cx).await?;
    cx.delete_group_snapshot(&group).setup("a group snapshot that is deleted").await?;
    Ok(group)
}

/// Ids of the members; their order means nothing.
pub(crate) fn member_ids(group: &v1::VolumeGroupSnapshot) -> BTreeSet<&str> {
    group.snapshots.iter().map(|member| member.snapshot_id.as_str()).collect()
}

/// The request for the present state of a group snapshot.
pub(crate) fn get_request(group: &v1::VolumeGroupSnapshot) -> v1::GetVolumeGroupSnapshotRequest {
    v1::GetVolumeGroupSnapshotRequest {
        group_snapshot_id: group.group_snapshot_id.clone(),
        snapshot_ids: group.snapshots.iter().map(|member| member.snapshot_id.clone()).collect(),
        ..Default::default()
    }
}

/// A list for each file of checks.
pub(crate) const CHECKS: &[&[&Check]] = &[
    group_controller_get_capabilities::CHECKS,
    create_volume_group_snapshot::CHECKS,
    create_volume_group_snapshot::repeats::CHECKS,
    create_volume_group_snapshot::refusals::CHECKS,
    get_volume_group_snapshot::CHECKS,
    delete_volume_group_snapshot::CHECKS,
];
