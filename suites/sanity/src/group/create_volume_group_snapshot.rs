//! CreateVolumeGroupSnapshot takes snapshots of several volumes at one point in time.

pub(crate) mod refusals;
pub(crate) mod repeats;

use std::collections::BTreeSet;

use csi_harness::prelude::*;

use super::{member_ids, new_group, ready_group, request_for, restore, two_volumes};
use crate::moment::is_of_these_days;

check! {
    /// Without the reply the orchestrator does not know the new snapshots.
    WORKS {
        id: "group/create-volume-group-snapshot/works",
        title: "CreateVolumeGroupSnapshot makes a group snapshot of two volumes and returns it",
        spec: [req::GROUP_CREATE_001, req::GROUP_CREATE_019],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-volume-group-snapshot-unimplemented",
            "create-group-snapshot-answers-without-group",
        ],
        plain: ["CreateVolumeGroupSnapshot"],
    }
    async |cx| {
        let request = request_for(cx, &two_volumes(cx).await?);
        let reply = cx.create_group_snapshot(request).await;
        if reply.code()? == Code::FailedPrecondition {
            let why = "CreateVolumeGroupSnapshot returned FAILED_PRECONDITION, which is allowed if the volumes cannot be snapshotted together";
            return Err(Stop::broken(format!("{why} ({})", req::GROUP_CREATE_030.id)));
        }
        let group = reply.must("create a group snapshot of two volumes")?;
        ensure!(
            group != v1::VolumeGroupSnapshot::default(),
            "CreateVolumeGroupSnapshot returned OK, but not the group snapshot";
            of: &req::GROUP_CREATE_019,
            expected: "group_snapshot in the answer",
            actual: "none"
        );
        Ok(())
    }
}

check! {
    /// A group snapshot without an id cannot be deleted.
    GROUP_ID {
        id: "group/create-volume-group-snapshot/group-snapshot-id",
        title: "a new group snapshot has a group_snapshot_id, different from that of any other",
        spec: [req::GROUP_CREATE_020, req::GROUP_CREATE_010],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["group-snapshot-without-id"],
    }
    async |cx| {
        let sources = two_volumes(cx).await?;
        let mut ids = BTreeSet::new();
        for _ in 0..2 {
            let reply = cx.create_group_snapshot(request_for(cx, &sources)).await;
            let Ok(group) = reply.any_answer()? else {
                return Err(Stop::skip("the creation of group snapshots is judged by another check"));
            };
            let id = group.group_snapshot_id;
            ensure!(!id.is_empty(), "a new group snapshot has no id"; expected: "a group_snapshot_id", actual: "an empty one");
            ensure!(
                ids.insert(id.clone()),
                "two group snapshots with different names have the same id";
                expected: "two ids",
                actual: format!("{id:?} twice")
            );
        }
        Ok(())
    }
}

check! {
    /// Without a member its volume cannot be restored with the others.
    MEMBERS {
        id: "group/create-volume-group-snapshot/members",
        title: "a new group snapshot has one member for each source volume",
        spec: [req::GROUP_CREATE_022, req::MSG_SNAPSHOT_003, req::MSG_SNAPSHOT_006],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["group-snapshot-without-members", "create-group-snapshot-drops-last-source"],
    }
    async |cx| {
        let sources = two_volumes(cx).await?;
        let group = cx.create_group_snapshot(request_for(cx, &sources)).setup("a group snapshot").await?;
        let mut wanted: Vec<&str> = sources.iter().map(String::as_str).collect();
        let mut got: Vec<&str> = group.snapshots.iter().map(|member| member.source_volume_id.as_str()).collect();
        wanted.sort_unstable();
        got.sort_unstable();
        ensure!(
            got == wanted,
            "the members of a new group snapshot are not of the requested volumes";
            expected: format!("one member of each of {wanted:?}"),
            actual: format!("members of {got:?}")
        );
        let ids = member_ids(&group);
        ensure!(
            ids.len() == group.snapshots.len() && !ids.contains(""),
            "members of a new group snapshot have no or equal snapshot_ids";
            of: &req::MSG_SNAPSHOT_003,
            expected: "a snapshot_id of its own for each member",
            actual: format!("{ids:?}")
        );
        Ok(())
    }
}

check! {
    /// A member without the group's id looks independent, and a caller may delete it alone.
    MEMBERS_OF_GROUP {
        id: "group/create-volume-group-snapshot/members-name-the-group",
        title: "members of a group snapshot carry its group_snapshot_id",
        spec: [req::MSG_SNAPSHOT_013],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: [
            "group-snapshot-members-of-other-group",
            "group-snapshot-members-without-group",
            "snapshot-group-id-missing",
        ],
    }
    async |cx| {
        let group = new_group(cx).await?;
        for member in &group.snapshots {
            let wrong = Violation::new(format!("member {:?} does not name its group", member.snapshot_id))
                .expected(format!("group_snapshot_id {:?}", group.group_snapshot_id))
                .actual(format!("{:?}", member.group_snapshot_id));
            if member.group_snapshot_id.is_empty() {
                // Elsewhere the specification calls the field optional.
                cx.warn(wrong);
            } else if member.group_snapshot_id != group.group_snapshot_id {
                return Err(wrong.into());
            }
        }
        Ok(())
    }
}

check! {
    /// Backups are sorted by the creation time.
    CREATION_TIME {
        id: "group/create-volume-group-snapshot/creation-time",
        title: "a new group snapshot has a creation_time",
        spec: [req::GROUP_CREATE_023, req::GROUP_CREATE_032],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["group-snapshot-without-creation-time", "group-snapshot-from-1970"],
    }
    async |cx| {
        let group = new_group(cx).await?;
        ensure!(
            group.creation_time.is_some(),
            "a new group snapshot has no creation_time";
            expected: "the point in time of the snapshot",
            actual: "none"
        );
        is_of_these_days(cx, &req::GROUP_CREATE_032, group.creation_time.as_ref());
        Ok(())
    }
}

check! {
    /// A restore from a group that is not ready fails, or worse, is incomplete.
    READY {
        id: "group/create-volume-group-snapshot/ready-with-its-members",
        title: "a group snapshot is ready exactly when all its members are",
        spec: [req::GROUP_CREATE_024, req::GROUP_CREATE_025],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["group-snapshot-ready-too-early", "group-snapshot-never-ready"],
    }
    async |cx| {
        let group = new_group(cx).await?;
        let ready = group.snapshots.iter().filter(|member| member.ready_to_use).count();
        let all = group.snapshots.len();
        ensure!(
            !group.ready_to_use || ready == all,
            "a group snapshot is ready before its members are";
            of: &req::GROUP_CREATE_024,
            expected: "ready_to_use false",
            actual: format!("ready_to_use true with {ready} of {all} members ready")
        );
        ensure!(
            group.ready_to_use || ready < all || all == 0,
            "a group snapshot is not ready although its members are";
            of: &req::GROUP_CREATE_025,
            expected: "ready_to_use true",
            actual: format!("ready_to_use false with all {all} members ready")
        );
        Ok(())
    }
}

check! {
    /// The purpose of a group is that all of it can be restored.
    RESTORES {
        id: "group/create-volume-group-snapshot/members-restore",
        title: "a volume can be made from each member of a group snapshot that is ready_to_use",
        spec: [req::GROUP_CREATE_009, req::GROUP_CREATE_008],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-refuses-group-members", "group-snapshot-members-claim-ready"],
        duplicate_of: "controller/create-snapshot/ready-restores",
    }
    async |cx| {
        for member in ready_group(cx).await?.snapshots {
            let reply = restore(cx, &member).await;
            // A code about the state means that the member is not ready.
            let rule = match reply.code()? {
                Code::FailedPrecondition => &req::GROUP_CREATE_008,
                Code::OutOfRange | Code::ResourceExhausted => {
                    return Err(Stop::skip("there is no room for a volume made from a member"));
                }
                _ => &req::GROUP_CREATE_009,
            };
            reply.must("make a volume from a member that is ready").map_err(|stop| stop.of(rule))?;
        }
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] =
    &[&WORKS, &GROUP_ID, &MEMBERS, &MEMBERS_OF_GROUP, &CREATION_TIME, &READY, &RESTORES];
