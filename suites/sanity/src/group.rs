//! Checks of the GroupController service.

pub(crate) mod create_volume_group_snapshot;
pub(crate) mod delete_volume_group_snapshot;
pub(crate) mod get_volume_group_snapshot;
pub(crate) mod group_controller_get_capabilities;

use std::collections::BTreeSet;

use csi_harness::prelude::*;
use v1::VolumeContentSource as Source;

/// Makes two volumes for a group snapshot.
pub(crate) async fn two_volumes(cx: &Cx) -> CheckResult<[String; 2]> {
    Ok([cx.new_volume().await?.volume_id, cx.new_volume().await?.volume_id])
}

pub(crate) fn request_for(cx: &Cx, sources: &[String]) -> v1::CreateVolumeGroupSnapshotRequest {
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    cx.create_group_snapshot_request(&sources)
}

pub(crate) async fn new_group(cx: &Cx) -> CheckResult<v1::VolumeGroupSnapshot> {
    let request = request_for(cx, &two_volumes(cx).await?);
    cx.create_group_snapshot(request).setup("a group snapshot").await
}

/// Makes a group snapshot that is ready; skips after the configured time.
pub(crate) async fn ready_group(cx: &Cx) -> CheckResult<v1::VolumeGroupSnapshot> {
    let request = request_for(cx, &two_volumes(cx).await?);
    let ready = cx.eventually(Settles::SnapshotReady, || async {
        // A caller waits by repeating the request.
        let group = cx.create_group_snapshot(request.clone()).setup("a group snapshot").await?;
        Ok(group.ready_to_use.then_some(group))
    });
    ready
        .await?
        .ok_or_else(|| Stop::skip("the group snapshot is not ready within the time to settle (settle-ms)"))
}

/// Sends CreateVolume for a volume made from a member of a group snapshot.
pub(crate) fn restore<'a>(cx: &'a Cx, member: &v1::Snapshot) -> PendingCall<'a, v1::Volume> {
    let source = Source::snapshot(&member.snapshot_id);
    cx.create_volume(cx.create_volume_request().copy_of(source, member.size_bytes))
}

pub(crate) async fn deleted_group(cx: &Cx) -> CheckResult<v1::VolumeGroupSnapshot> {
    let group = new_group(cx).await?;
    cx.delete_group_snapshot(&group).setup("a group snapshot that is deleted").await?;
    Ok(group)
}

/// Returns the ids of the members, whose order has no meaning.
pub(crate) fn member_ids(group: &v1::VolumeGroupSnapshot) -> BTreeSet<&str> {
    group.snapshots.iter().map(|member| member.snapshot_id.as_str()).collect()
}

pub(crate) const CHECKS: &[&[&Check]] = &[
    group_controller_get_capabilities::CHECKS,
    create_volume_group_snapshot::CHECKS,
    create_volume_group_snapshot::repeats::CHECKS,
    create_volume_group_snapshot::refusals::CHECKS,
    get_volume_group_snapshot::CHECKS,
    delete_volume_group_snapshot::CHECKS,
];
