//! GetVolumeGroupSnapshot returns the current state of a group snapshot.

use csi_harness::prelude::*;

use super::{deleted_group, member_ids, new_group};

check! {
    /// The snapshotter waits for ready_to_use with it.
    WORKS {
        id: "group/get-volume-group-snapshot/works",
        title: "GetVolumeGroupSnapshot returns the requested group snapshot, with its members",
        spec: [req::GROUP_GET_002, req::GROUP_GET_010, req::GROUP_GET_003],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: [
            "get-volume-group-snapshot-unimplemented",
            "get-group-snapshot-without-group",
            "get-group-snapshot-other-id",
            "get-group-snapshot-omits-member",
        ],
        plain: ["GetVolumeGroupSnapshot"],
    }
    async |cx| {
        let made = new_group(cx).await?;
        let answer = cx.call(cx.get_group_snapshot_request(&made)).await.must("return a group snapshot that exists")?;
        let got = answer.group_snapshot.unwrap_or_default();
        ensure!(
            got.group_snapshot_id == made.group_snapshot_id,
            "GetVolumeGroupSnapshot does not return the requested group snapshot";
            of: &req::GROUP_GET_010,
            expected: format!("group_snapshot_id {:?}", made.group_snapshot_id),
            actual: format!("{:?}", got.group_snapshot_id)
        );
        ensure!(
            member_ids(&got) == member_ids(&made),
            "GetVolumeGroupSnapshot returns other members than CreateVolumeGroupSnapshot";
            of: &req::GROUP_GET_003,
            expected: format!("{:?}", member_ids(&made)),
            actual: format!("{:?}", member_ids(&got))
        );
        Ok(())
    }
}

check! {
    /// The orchestrator then stops waiting.
    DELETED {
        id: "group/get-volume-group-snapshot/deleted-group",
        title: "GetVolumeGroupSnapshot of a group snapshot that was deleted is rejected as NOT_FOUND",
        spec: [req::GROUP_GET_014],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-group-snapshot-unknown-ok"],
    }
    async |cx| {
        let group = deleted_group(cx).await?;
        let refused = cx.eventually(Settles::SnapshotGone, || async {
            let reply = cx.call(cx.get_group_snapshot_request(&group)).await;
            Ok((reply.code()? != Code::Ok).then_some(reply))
        });
        let Some(reply) = refused.await? else {
            return Err(Violation::new("a group snapshot that was deleted is still returned")
                .expected("NOT_FOUND, within the time to settle (settle-ms)")
                .actual("OK")
                .into());
        };
        reply.must_be_refused("of a group snapshot that was deleted", refused_with(Code::NotFound))?;
        Ok(())
    }
}

check! {
    /// The id is made up, so a driver may call it malformed.
    UNKNOWN {
        id: "group/get-volume-group-snapshot/unknown-group",
        title: "GetVolumeGroupSnapshot of a group snapshot that never existed is rejected as NOT_FOUND",
        spec: [req::GROUP_GET_014],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT],
        refuted_by: ["get-group-snapshot-unknown-ok"],
        replaces: [
            "GroupController Service [GroupController VolumeGroupSnapshots] GetVolumeGroupSnapshot should fail when an invalid volume id is used",
        ],
        duplicate_of: "group/get-volume-group-snapshot/deleted-group",
    }
    async |cx| {
        let request = v1::GetVolumeGroupSnapshotRequest {
            group_snapshot_id: cx.unknown_group_snapshot_id(),
            snapshot_ids: vec![cx.unknown_snapshot_id()],
            ..Default::default()
        };
        let refusal = refused_with(Code::NotFound).or(Code::InvalidArgument, "the id is made up");
        cx.call(request).await.must_be_refused("of a group snapshot that never existed", refusal)?;
        Ok(())
    }
}

check! {
    /// The error must distinguish a mistake of the caller from a group that was deleted.
    NO_ID {
        id: "group/get-volume-group-snapshot/no-group-snapshot-id",
        title: "GetVolumeGroupSnapshot without group_snapshot_id is rejected as INVALID_ARGUMENT",
        spec: [req::GROUP_GET_005, req::GEN_ERR_004],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT],
        refuted_by: ["get-group-snapshot-empty-id-as-not-found", "invalid-argument-as-ok"],
        replaces: [
            "GroupController Service [GroupController VolumeGroupSnapshots] GetVolumeGroupSnapshot should fail when no volume id is provided",
        ],
    }
    async |cx| {
        let request = v1::GetVolumeGroupSnapshotRequest {
            snapshot_ids: vec![cx.unknown_snapshot_id()],
            ..Default::default()
        };
        let reply = cx.call(request).await;
        reply.must_be_refused("without group_snapshot_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// Many drivers only read the group's id, so OK is only a remark.
    NO_MEMBERS {
        id: "group/get-volume-group-snapshot/no-snapshot-ids",
        title: "GetVolumeGroupSnapshot without snapshot_ids is rejected as INVALID_ARGUMENT",
        spec: [req::GROUP_GET_008],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["group-snapshot-accepts-missing-members"],
    }
    async |cx| {
        let request = cx.get_group_snapshot_request(&new_group(cx).await?);
        let request = v1::GetVolumeGroupSnapshotRequest { snapshot_ids: Vec::new(), ..request };
        cx.call(request).await.should_be_refused("without snapshot_ids", refused_with(Code::InvalidArgument))
    }
}

check! {
    /// A caller that names other members has confused the group with another.
    OTHER_MEMBERS {
        id: "group/get-volume-group-snapshot/other-snapshot-ids",
        title: "GetVolumeGroupSnapshot with snapshot_ids that are not those of the group is rejected as INVALID_ARGUMENT",
        spec: [req::GROUP_GET_006, req::GROUP_GET_013],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["group-snapshot-ignores-member-mismatch", "group-snapshot-member-mismatch-as-internal"],
    }
    async |cx| {
        let mut request = cx.get_group_snapshot_request(&new_group(cx).await?);
        request.snapshot_ids.truncate(1);
        let refusal = refused_with(Code::InvalidArgument).named_by(&req::GROUP_GET_013);
        cx.call(request).await.should_be_refused("with only one of the snapshot_ids", refusal)
    }
}

pub(crate) static CHECKS: &[&Check] = &[&WORKS, &DELETED, &UNKNOWN, &NO_ID, &NO_MEMBERS, &OTHER_MEMBERS];
