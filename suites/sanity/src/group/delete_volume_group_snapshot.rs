//! DeleteVolumeGroupSnapshot deletes a group snapshot with all its members.

use csi_harness::prelude::*;

use super::{deleted_group, member_ids, new_group, ready_group, restore};
use crate::controller::common::succeeds_or_malformed;

check! {
    /// Storage that is not freed still costs money.
    WORKS {
        id: "group/delete-volume-group-snapshot/works",
        title: "a group snapshot that was deleted is gone",
        spec: [req::GROUP_DELETE_001, req::GROUP_DELETE_002],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["delete-volume-group-snapshot-unimplemented", "delete-group-snapshot-keeps-group"],
        plain: ["DeleteVolumeGroupSnapshot"],
    }
    async |cx| {
        let group = new_group(cx).await?;
        cx.delete_group_snapshot(&group).await.must("delete a group snapshot")?;
        let gone = cx.eventually(Settles::SnapshotGone, || async {
            Ok(cx.call(cx.get_group_snapshot_request(&group)).await.any_answer()?.err())
        });
        ensure!(
            gone.await?.is_some(),
            "a deleted group snapshot still exists";
            of: &req::GROUP_DELETE_002,
            expected: "NOT_FOUND from GetVolumeGroupSnapshot, within the time to settle (settle-ms)",
            actual: "OK"
        );
        Ok(())
    }
}

check! {
    /// Members that remain can no longer be deleted with their group.
    MEMBERS_GONE {
        id: "group/delete-volume-group-snapshot/members-gone",
        title: "the members of a group snapshot that was deleted are gone from the list",
        spec: [req::GROUP_DELETE_002],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME, LIST_SNAPSHOTS],
        refuted_by: ["delete-group-snapshot-keeps-members"],
    }
    async |cx| {
        let group = deleted_group(cx).await?;
        let left = || async {
            let listed = cx.list_snapshots(v1::ListSnapshotsRequest::default()).await?;
            let members = member_ids(&group);
            let left = listed.into_iter().filter(|snapshot| members.contains(snapshot.snapshot_id.as_str()));
            Ok::<_, Stop>(left.map(|snapshot| snapshot.snapshot_id).collect::<Vec<_>>())
        };
        let gone = cx.eventually(Settles::SnapshotUnlisted, || async { Ok(left().await?.is_empty().then_some(())) });
        ensure!(
            gone.await?.is_some(),
            "members of a group snapshot that was deleted are still listed";
            expected: "none of them in ListSnapshots, within the time to settle (settle-ms)",
            actual: format!("{:?}", left().await?)
        );
        Ok(())
    }
}

check! {
    /// A member that still exists can be restored, and still costs money.
    MEMBERS_UNKNOWN {
        id: "group/delete-volume-group-snapshot/members-unknown",
        title: "GetSnapshot of a member is NOT_FOUND once its group snapshot was deleted",
        spec: [req::CTRL_DELETESNAP_007],
        needs: [
            CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT,
            CREATE_DELETE_SNAPSHOT,
            CREATE_DELETE_VOLUME,
            GET_SNAPSHOT,
        ],
        refuted_by: ["delete-group-snapshot-keeps-members"],
        duplicate_of: "group/delete-volume-group-snapshot/members-gone",
    }
    async |cx| {
        let group = new_group(cx).await?;
        cx.delete_group_snapshot(&group).setup("a group snapshot that is deleted").await?;
        // A member without the id of its group is an independent snapshot.
        for member in group.snapshots.iter().filter(|member| !member.group_snapshot_id.is_empty()) {
            let request = v1::GetSnapshotRequest { snapshot_id: member.snapshot_id.clone(), ..Default::default() };
            let gone = cx.eventually(Settles::SnapshotGone, || async {
                Ok(cx.call(request.clone()).await.any_answer()?.err())
            });
            ensure!(
                gone.await?.is_some(),
                "a member of a deleted group snapshot still exists";
                expected: format!("NOT_FOUND from GetSnapshot for {:?}", member.snapshot_id),
                actual: "OK, throughout the time to settle (settle-ms)"
            );
        }
        Ok(())
    }
}

check! {
    /// If volumes depend on a snapshot, the driver has to say so in a way that callers understand.
    IN_USE {
        id: "group/delete-volume-group-snapshot/in-use",
        title: "DeleteVolumeGroupSnapshot of a group that a volume was made from is OK or FAILED_PRECONDITION",
        spec: [req::GROUP_DELETE_013],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["delete-group-snapshot-in-use-as-internal"],
    }
    async |cx| {
        let group = ready_group(cx).await?;
        let Some(member) = group.snapshots.first() else {
            return Err(Stop::skip("the group snapshot has no members"));
        };
        restore(cx, member).setup("a volume made from a member").await?;
        let reply = cx.delete_group_snapshot(&group).await;
        let refusal = refused_with(Code::FailedPrecondition);
        reply.may_be_refused("of a group that a volume was made from", refusal)?;
        Ok(())
    }
}

check! {
    /// A caller without an answer repeats the call.
    REPEATED {
        id: "group/delete-volume-group-snapshot/repeated",
        title: "DeleteVolumeGroupSnapshot of a group snapshot that is deleted already is OK",
        spec: [req::GROUP_DELETE_003],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["delete-group-snapshot-unknown-not-found"],
    }
    async |cx| {
        let group = deleted_group(cx).await?;
        cx.delete_group_snapshot(&group).await.must("answer OK to the same request again")?;
        Ok(())
    }
}

check! {
    /// A missing group snapshot need not be deleted. The id is made up, so a driver may call it malformed.
    UNKNOWN {
        id: "group/delete-volume-group-snapshot/unknown-group",
        title: "DeleteVolumeGroupSnapshot of a group snapshot that never existed is OK",
        spec: [req::GROUP_DELETE_004],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT],
        refuted_by: ["delete-group-snapshot-unknown-not-found"],
        replaces: [
            "GroupController Service [GroupController VolumeGroupSnapshots] DeleteVolumeGroupSnapshot should succeed when an invalid volume id is used",
        ],
    }
    async |cx| {
        let request = v1::DeleteVolumeGroupSnapshotRequest {
            group_snapshot_id: cx.unknown_group_snapshot_id(),
            snapshot_ids: vec![cx.unknown_snapshot_id()],
            ..Default::default()
        };
        let reply = cx.call(request).await;
        succeeds_or_malformed(reply, "DeleteVolumeGroupSnapshot of a group snapshot that never existed")
    }
}

check! {
    /// The error must distinguish a mistake of the caller from a group that was deleted.
    NO_ID {
        id: "group/delete-volume-group-snapshot/no-group-snapshot-id",
        title: "DeleteVolumeGroupSnapshot without group_snapshot_id is rejected as INVALID_ARGUMENT",
        spec: [req::GROUP_DELETE_005, req::GEN_ERR_004],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT],
        refuted_by: ["delete-group-snapshot-accepts-empty-id"],
        replaces: [
            "GroupController Service [GroupController VolumeGroupSnapshots] DeleteVolumeGroupSnapshot should fail when no volume id is provided",
        ],
        runs: LosesData,
    }
    async |cx| {
        let request = v1::DeleteVolumeGroupSnapshotRequest {
            snapshot_ids: vec![cx.unknown_snapshot_id()],
            ..Default::default()
        };
        let reply = cx.call(request).await;
        reply.must_be_refused("without group_snapshot_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// Kubernetes' tools delete without the list, so OK is only a remark.
    NO_MEMBERS {
        id: "group/delete-volume-group-snapshot/no-snapshot-ids",
        title: "DeleteVolumeGroupSnapshot without snapshot_ids is rejected as INVALID_ARGUMENT",
        spec: [req::GROUP_DELETE_008],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["group-snapshot-accepts-missing-members"],
    }
    async |cx| {
        let group_snapshot_id = new_group(cx).await?.group_snapshot_id;
        let request = v1::DeleteVolumeGroupSnapshotRequest { group_snapshot_id, ..Default::default() };
        cx.call(request).await.should_be_refused("without snapshot_ids", refused_with(Code::InvalidArgument))
    }
}

check! {
    /// A caller that names other members has confused the group with another.
    OTHER_MEMBERS {
        id: "group/delete-volume-group-snapshot/other-snapshot-ids",
        title: "DeleteVolumeGroupSnapshot with snapshot_ids that are not those of the group is rejected as INVALID_ARGUMENT",
        spec: [req::GROUP_DELETE_006, req::GROUP_DELETE_012],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["group-snapshot-ignores-member-mismatch", "group-snapshot-member-mismatch-as-internal"],
    }
    async |cx| {
        let group = new_group(cx).await?;
        let snapshot_ids = group.snapshots.into_iter().take(1).map(|member| member.snapshot_id).collect();
        let group_snapshot_id = group.group_snapshot_id;
        let request = v1::DeleteVolumeGroupSnapshotRequest { group_snapshot_id, snapshot_ids, ..Default::default() };
        let refusal = refused_with(Code::InvalidArgument).named_by(&req::GROUP_DELETE_012);
        cx.call(request).await.should_be_refused("with only one of the snapshot_ids", refusal)
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &WORKS,
    &MEMBERS_GONE,
    &MEMBERS_UNKNOWN,
    &IN_USE,
    &REPEATED,
    &UNKNOWN,
    &NO_ID,
    &NO_MEMBERS,
    &OTHER_MEMBERS,
];
