//! DeleteSnapshot deletes a snapshot.

use csi_harness::prelude::*;
use futures_util::future::join_all;
use v1::VolumeContentSource as Source;

use super::common::{cut_snapshot, succeeds_or_malformed, validate_request};
use crate::group::new_group;

/// The number of equal concurrent calls.
const AT_ONCE: usize = 4;

check! {
    /// A request without an id can only be a mistake, and must not delete anything.
    NO_SNAPSHOT_ID {
        id: "controller/delete-snapshot/no-snapshot-id",
        title: "DeleteSnapshot without snapshot_id is rejected",
        spec: [req::CTRL_DELETESNAP_008, req::GEN_ERR_004],
        needs: [CREATE_DELETE_SNAPSHOT],
        refuted_by: ["delete-snapshot-accepts-empty-id"],
        replaces: ["DeleteSnapshot [Controller Server] should fail when no snapshot id is provided"],
        runs: LosesData,
    }
    async |cx| {
        let reply = cx.delete_snapshot("").await;
        reply.must_be_refused("without snapshot_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// A snapshot that is not part of a group can be deleted alone.
    DELETES {
        id: "controller/delete-snapshot/deletes",
        title: "DeleteSnapshot deletes a snapshot that belongs to no group",
        spec: [req::CTRL_DELETESNAP_001, req::MSG_SNAPSHOT_011],
        needs: [CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["delete-snapshot-unimplemented", "delete-snapshot-takes-all-for-members"],
        replaces: [
            "DeleteSnapshot [Controller Server] should return appropriate values (no optional values added)",
        ],
        plain: ["DeleteSnapshot"],
        access: Each,
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let snapshot = cut_snapshot(cx, &volume.id).await?;
        let reply = cx.delete_snapshot(&snapshot.snapshot_id).await;
        // The table has this code for members of a group.
        let rule = match reply.code()? {
            Code::InvalidArgument if snapshot.group_snapshot_id.is_empty() => &req::MSG_SNAPSHOT_011,
            _ => &req::CTRL_DELETESNAP_001,
        };
        reply.must("delete an unused snapshot").map_err(|stop| stop.of(rule))?;
        Ok(())
    }
}

check! {
    /// After a crash between the deletion and its record the controller repeats the call.
    REPEATED {
        id: "controller/delete-snapshot/repeated",
        title: "DeleteSnapshot of a deleted snapshot is OK",
        spec: [req::CTRL_DELETESNAP_003],
        needs: [CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["delete-snapshot-unknown-not-found"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let snapshot = cut_snapshot(cx, &volume.id).await?;
        cx.delete_snapshot(&snapshot.snapshot_id).setup("a snapshot that is deleted").await?;
        cx.delete_snapshot(&snapshot.snapshot_id).await.must("answer a repeated deletion with OK")?;
        Ok(())
    }
}

check! {
    /// A missing snapshot need not be deleted. INVALID_ARGUMENT is accepted for an id that does not have the driver's
    /// format.
    UNKNOWN {
        id: "controller/delete-snapshot/unknown-snapshot",
        title: "DeleteSnapshot of an unknown snapshot is OK",
        spec: [req::CTRL_DELETESNAP_004],
        needs: [CREATE_DELETE_SNAPSHOT],
        refuted_by: ["delete-snapshot-unknown-not-found"],
        replaces: ["DeleteSnapshot [Controller Server] should succeed when an invalid snapshot id is used"],
    }
    async |cx| {
        for id in [cx.unknown_snapshot_id(), format!("{}/../x", cx.unknown_snapshot_id())] {
            let reply = cx.delete_snapshot(&id).await;
            succeeds_or_malformed(reply, &format!("DeleteSnapshot of the unknown snapshot {id:?}"))?;
        }
        Ok(())
    }
}

check! {
    /// If a deleted snapshot returned under its name, it would contain old data.
    NAME_IS_FREE {
        id: "controller/delete-snapshot/name-is-free",
        title: "the name of a deleted snapshot can be used for another volume's snapshot",
        spec: [req::CTRL_DELETESNAP_002],
        needs: [CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["delete-snapshot-keeps-snapshot"],
    }
    async |cx| {
        let (one, other) = (cx.new_volume().await?, cx.new_volume().await?);
        let request = cx.create_snapshot_request(&one.volume_id);
        let snapshot = cx.create_snapshot(request.clone()).setup("a snapshot").await?;
        cx.delete_snapshot(&snapshot.snapshot_id).setup("a snapshot that is deleted").await?;
        let again = v1::CreateSnapshotRequest { source_volume_id: other.volume_id, ..request };
        // Deletion may go on in the background after OK.
        let free = cx.eventually(Settles::NameFree, || async {
            let reply = cx.create_snapshot(again.clone()).once().await;
            Ok((reply.code()? == Code::Ok).then_some(()))
        });
        if free.await?.is_none() {
            cx.create_snapshot(again).await.must("take a snapshot of another volume with the name of a deleted one")?;
        }
        Ok(())
    }
}

check! {
    /// The deletion must not remove the volume that the snapshot protects.
    KEEPS_VOLUME {
        id: "controller/delete-snapshot/keeps-volume",
        title: "DeleteSnapshot leaves the source volume alone",
        spec: [req::CTRL_DELETESNAP_001],
        needs: [CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["delete-snapshot-deletes-volume"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let snapshot = cut_snapshot(cx, &volume.id).await?;
        cx.delete_snapshot(&snapshot.snapshot_id).setup("a snapshot that is deleted").await?;
        let code = cx.call(validate_request(cx, &volume)).await.code()?;
        ensure!(
            code != Code::NotFound,
            "the source volume was deleted together with its snapshot";
            expected: "a volume that exists",
            actual: "NOT_FOUND from ValidateVolumeCapabilities"
        );
        Ok(())
    }
}

check! {
    /// A caller decides by group_snapshot_id what it can delete.
    GROUP_MEMBER {
        id: "controller/delete-snapshot/group-member",
        title: "DeleteSnapshot of a member of a group snapshot is OK, or INVALID_ARGUMENT if the member names its group",
        spec: [req::CTRL_DELETESNAP_011, req::MSG_SNAPSHOT_009],
        needs: [CREATE_DELETE_SNAPSHOT, CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["delete-snapshot-group-member-as-internal", "snapshot-group-id-missing"],
    }
    async |cx| {
        let group = new_group(cx).await?;
        let Some(member) = group.snapshots.first() else {
            return Err(Stop::skip("the group snapshot has no members"));
        };
        let reply = cx.delete_group_member(&group, &member.snapshot_id).await;
        let is_independent = reply.code()? == Code::InvalidArgument && member.group_snapshot_id.is_empty();
        let refusal = refused_with(Code::InvalidArgument).or(Code::FailedPrecondition, "it may be in use");
        reply.may_be_refused("of a member of a group snapshot", refusal)?;
        ensure!(
            !is_independent,
            "a snapshot that cannot be deleted alone does not name its group";
            of: &req::MSG_SNAPSHOT_009,
            expected: format!("group_snapshot_id {:?}", group.group_snapshot_id),
            actual: "no group_snapshot_id"
        );
        Ok(())
    }
}

check! {
    /// If volumes depend on a snapshot, the driver has to say so in a way that callers understand.
    IN_USE {
        id: "controller/delete-snapshot/in-use",
        title: "DeleteSnapshot of a snapshot that a volume was made from is OK or FAILED_PRECONDITION",
        spec: [req::CTRL_DELETESNAP_012],
        needs: [CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["delete-snapshot-in-use-as-internal"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let snapshot = cx.new_snapshot(&volume.volume_id).await?;
        let request = cx.create_volume_request().copy_of(Source::snapshot(&snapshot.snapshot_id), snapshot.size_bytes);
        let restored = cx.create_volume(request).setup("a volume made from the snapshot").await?;
        let reply = cx.delete_snapshot(&snapshot.snapshot_id).await;
        let refusal = refused_with(Code::FailedPrecondition);
        if reply.may_be_refused("of a snapshot that a volume was made from", refusal)?.is_some() {
            let restored: NodeVolume = restored.into();
            let code = cx.call(validate_request(cx, &restored)).await.code()?;
            ensure!(
                code != Code::NotFound,
                "a volume was deleted together with its source snapshot";
                expected: "a volume that exists, or FAILED_PRECONDITION for the deletion",
                actual: "NOT_FOUND from ValidateVolumeCapabilities"
            );
        }
        Ok(())
    }
}

check! {
    /// Impatient callers repeat deletions concurrently.
    AT_THE_SAME_TIME {
        id: "controller/delete-snapshot/at-the-same-time",
        title: "equal DeleteSnapshot calls at the same time delete the snapshot",
        spec: [req::CTRL_DELETESNAP_014],
        needs: [CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["delete-snapshot-unknown-not-found"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let id = cut_snapshot(cx, &volume.id).await?.snapshot_id;
        for reply in join_all((0..AT_ONCE).map(|_| cx.delete_snapshot(&id).once())).await {
            let refusal = refused_with(Code::Aborted)
                .or(Code::Unavailable, "the back end may be busy with the other call")
                .or(Code::ResourceExhausted, "the back end may limit calls");
            reply.may_be_refused("at the same time as an equal call", refusal)?;
        }
        cx.delete_snapshot(&id).await.must("answer OK once the other calls have ended")?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &NO_SNAPSHOT_ID,
    &DELETES,
    &REPEATED,
    &UNKNOWN,
    &NAME_IS_FREE,
    &KEEPS_VOLUME,
    &GROUP_MEMBER,
    &IN_USE,
    &AT_THE_SAME_TIME,
];
