//! Snapshots and group snapshots of volumes in use.

use csi_harness::prelude::*;
use csi_proto::Call as _;
use csi_workload::beside::judge_group;
use csi_workload::rules::{IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005, IN_USE_006};
use futures_util::future::join;

use crate::beside::{Action, InUse, beside, judge_copy};
use crate::make::{SNAPSHOT, Source, copy_of, snapshot, snapshot_as};

const DELETE: Action = Action { name: "DeleteSnapshot", rpcs: &[v1::DeleteSnapshotRequest::RPC] };
const CREATE_GROUP: Action =
    Action { name: "CreateVolumeGroupSnapshot", rpcs: &[v1::CreateVolumeGroupSnapshotRequest::RPC] };

check! {
    /// A driver that freezes the file system may forget to thaw it, and a driver that suspends the device may
    /// lose pending writes.
    CREATE_SNAPSHOT {
        id: "in-use/create-snapshot",
        title: "a snapshot of a volume in use does not harm the workload, and holds all durable data",
        spec: [IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005],
        needs: [NODE, CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, ROOT],
        refuted_by: [
            "hostpath/snapshot-breaks-writer",
            "hostpath/snapshot-freezes-writer",
            "hostpath/snapshot-leaves-source-frozen",
            "hostpath/snapshot-damages-source",
            "hostpath/snapshots-miss-use",
            "hostpath/restores-later",
        ],
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let (snapshot, [evidence]) = beside(SNAPSHOT, [&user], snapshot(cx, user.id())).await?;
        let bytes = user.volume().volume.size_bytes;
        user.end(SNAPSHOT).await?;
        let copy = copy_of(cx, Source::snapshot(&snapshot.snapshot_id), bytes).await?;
        judge_copy(cx, &evidence, copy, "a snapshot of a volume in use").await.map(drop)
    }
}

/// Takes snapshots of two volumes at the same time. A driver may reject one call because of the other one, and external-snapshotter then makes
/// it again.
async fn overlapping(cx: &Cx, volumes: [&str; 2]) -> CheckResult<[v1::Snapshot; 2]> {
    let [first, second] = volumes.map(|volume_id| cx.create_snapshot_request(volume_id));
    let (one, other) = join(snapshot_as(cx, first.clone()), snapshot_as(cx, second.clone())).await;
    let again = async |tried, request| match tried {
        Err(Stop::Declined(..)) => snapshot_as(cx, request).await,
        done => done,
    };
    Ok([again(one, first).await?, again(other, second).await?])
}

check! {
    /// Two backup programs take snapshots at the same time. The first snapshot to end must not remove the
    /// protection of the second one.
    OVERLAPPING {
        id: "in-use/snapshots-overlapping",
        title: "snapshots that are taken at the same time do not harm the workloads, and hold all durable data",
        spec: [IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005],
        needs: [NODE, CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, ROOT],
        refuted_by: [
            "hostpath/overlapping-snapshots-stay-frozen",
            "hostpath/overlapping-snapshots-break-writer",
            "hostpath/overlapping-snapshots-mix-up-volumes",
            "hostpath/overlapping-snapshot-lifts-barrier",
        ],
        duplicate_of: "in-use/create-snapshot",
        access: Each,
        varies: true,
    }
    async |cx| {
        let [first, second] = InUse::begin_two(cx).await?;
        // Two of one volume, then of two volumes.
        let of_one = overlapping(cx, [first.id(), first.id()]);
        let ([one, other], [of_first]) = beside(SNAPSHOT, [&first], of_one).await?;
        let of_two = overlapping(cx, [first.id(), second.id()]);
        let ([third, fourth], [of_both, of_second]) = beside(SNAPSHOT, [&first, &second], of_two).await?;
        let bytes = first.volume().volume.size_bytes;
        let (ended, also) = join(first.end(SNAPSHOT), second.end(SNAPSHOT)).await;
        ended.and(also)?;
        for (snapshot, evidence) in
            [(one, &of_first), (other, &of_first), (third, &of_both), (fourth, &of_second)]
        {
            let copy = copy_of(cx, Source::snapshot(&snapshot.snapshot_id), bytes).await?;
            judge_copy(cx, evidence, copy, "one of two snapshots that were taken at the same time").await?;
        }
        Ok(())
    }
}

check! {
    /// A driver that merges a snapshot into its volume moves the data while the workload uses them.
    DELETE_SNAPSHOT {
        id: "in-use/delete-snapshot",
        title: "deleting a snapshot of a volume in use does not harm the workload",
        spec: [IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, ROOT],
        refuted_by: ["hostpath/delete-snapshot-breaks-source", "hostpath/delete-snapshot-reverts-source"],
        duplicate_of: "in-use/create-snapshot",
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let (snapshot, _) = beside(SNAPSHOT, [&user], snapshot(cx, user.id())).await?;
        let deleted = async {
            let id = &snapshot.snapshot_id;
            cx.delete_snapshot(id).await.or_skip("the driver does not delete the snapshot of a volume in use")
        };
        beside(DELETE, [&user], deleted).await?;
        user.end(DELETE).await
    }
}

check! {
    /// A group is cut behind a barrier for all of its volumes, which has to be lifted from each of them.
    GROUP {
        id: "in-use/group-snapshot",
        title: "a group snapshot of volumes in use does not harm the workloads, and is of one moment",
        spec: [IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005, IN_USE_006],
        needs: [NODE, CREATE_DELETE_VOLUME, CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, ROOT],
        refuted_by: [
            "hostpath/group-snapshot-stays-frozen",
            "hostpath/group-snapshot-breaks-first-volume",
            "hostpath/groups-over-time",
            "hostpath/group-snapshot-one-by-one",
            "hostpath/members-hold-first",
        ],
        access: Each,
        varies: true,
    }
    async |cx| {
        let [first, second] = InUse::begin_two(cx).await?;
        let ids = [first.id(), second.id()];
        let (group, evidence) = beside(CREATE_GROUP, [&first, &second], group(cx, &ids)).await?;
        let mut members = Vec::new();
        for user in [&first, &second] {
            let member = group.snapshots.iter().find(|member| member.source_volume_id == user.id());
            let member = member.ok_or_else(|| Stop::broken("the group snapshot has no member for a volume"))?;
            members.push((member.snapshot_id.clone(), user.volume().volume.size_bytes));
        }
        let (ended, also) = join(first.end(CREATE_GROUP), second.end(CREATE_GROUP)).await;
        ended.and(also)?;
        let mut moments = Vec::new();
        for ((snapshot_id, bytes), evidence) in members.into_iter().zip(&evidence) {
            let copy = copy_of(cx, Source::snapshot(&snapshot_id), bytes).await?;
            moments.push(judge_copy(cx, evidence, copy, "a member of a group snapshot").await?);
        }
        judge_group(&moments)
    }
}

/// A group snapshot that is ready to use.
async fn group(cx: &Cx, volume_ids: &[&str]) -> CheckResult<v1::VolumeGroupSnapshot> {
    let request = cx.create_group_snapshot_request(volume_ids);
    let refused = "the driver takes no group snapshot of volumes in use";
    let first = cx.create_group_snapshot(request.clone()).await.or_skip(refused)?;
    if first.ready_to_use {
        return Ok(first);
    }
    let is_ready = || async {
        let group = cx.create_group_snapshot(request.clone()).setup("a group snapshot").await?;
        Ok(group.ready_to_use.then_some(group))
    };
    let ready = cx.eventually(Settles::SnapshotReady, is_ready).await?;
    ready.ok_or_else(|| Stop::skip("the group snapshot does not become ready_to_use in time"))
}

pub(crate) static CHECKS: &[&Check] = &[&CREATE_SNAPSHOT, &OVERLAPPING, &DELETE_SNAPSHOT, &GROUP];
