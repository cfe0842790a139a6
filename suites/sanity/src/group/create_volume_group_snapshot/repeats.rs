//! Repeats the name of an existing group snapshot.

use csi_harness::prelude::*;
use csi_harness::text::encoding::moment;

use crate::group::{member_ids, request_for, two_volumes};
use crate::moment::{another_moment, same_moment};

/// Checks that two answers about a group snapshot agree in their constant fields.
fn same(first: &v1::VolumeGroupSnapshot, again: &v1::VolumeGroupSnapshot) -> CheckResult {
    ensure!(
        first.group_snapshot_id == again.group_snapshot_id,
        "a name already in use returned a different group snapshot";
        expected: format!("group_snapshot_id {:?} again", first.group_snapshot_id),
        actual: format!("{:?}", again.group_snapshot_id)
    );
    ensure!(
        member_ids(first) == member_ids(again),
        "the members of a group snapshot have changed";
        expected: format!("{:?}", member_ids(first)),
        actual: format!("{:?}", member_ids(again))
    );
    ensure!(
        same_moment(first.creation_time.as_ref(), again.creation_time.as_ref()),
        "the creation_time of a group snapshot has changed";
        expected: moment(first.creation_time.as_ref()),
        actual: moment(again.creation_time.as_ref())
    );
    Ok(())
}

check! {
    /// A caller without an answer repeats the call, and must not pay for two group snapshots.
    REPEATED {
        id: "group/create-volume-group-snapshot/same-name-same-group",
        title: "CreateVolumeGroupSnapshot with a known name returns the group snapshot made before",
        spec: [req::GROUP_CREATE_003],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-group-snapshot-forgets-names",
            "create-group-snapshot-refuses-repeats",
            "create-group-snapshot-repeat-drops-members",
            "create-group-snapshot-time-is-now",
        ],
    }
    async |cx| {
        let request = request_for(cx, &two_volumes(cx).await?);
        let first = cx.create_group_snapshot(request.clone()).setup("a group snapshot").await?;
        let again =
            cx.create_group_snapshot(request.clone()).await.must("return the existing group snapshot")?;
        same(&first, &again)?;
        if another_moment(cx, first.creation_time.as_ref(), again.creation_time.as_ref()).await {
            let later = cx.create_group_snapshot(request).await.must("answer OK to the same request later")?;
            same(&first, &later)?;
        }
        Ok(())
    }
}

check! {
    /// Sources are a set; a driver for which their order matters only gets a remark.
    OTHER_ORDER {
        id: "group/create-volume-group-snapshot/other-order-same-group",
        title: "CreateVolumeGroupSnapshot with a known name and reordered sources returns the same group snapshot",
        spec: [req::GROUP_CREATE_003],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["create-group-snapshot-order-matters"],
    }
    async |cx| {
        let mut request = request_for(cx, &two_volumes(cx).await?);
        let first = cx.create_group_snapshot(request.clone()).setup("a group snapshot").await?;
        request.source_volume_ids.reverse();
        let expected = format!("group_snapshot_id {:?} again", first.group_snapshot_id);
        let seen = match cx.create_group_snapshot(request).await.any_answer()? {
            Ok(again) if again.group_snapshot_id == first.group_snapshot_id => return Ok(()),
            Ok(again) => format!("{:?}", again.group_snapshot_id),
            Err(refused) => refused.to_string(),
        };
        cx.warn(
            Violation::new("the same sources in another order are treated as another request")
                .expected(expected)
                .actual(seen),
        );
        Ok(())
    }
}

check! {
    /// Otherwise a caller would use an old snapshot of other volumes.
    OTHER_SOURCES {
        id: "group/create-volume-group-snapshot/same-name-other-sources",
        title: "CreateVolumeGroupSnapshot with a known name and other sources is rejected as ALREADY_EXISTS",
        spec: [req::GROUP_CREATE_029],
        needs: [CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["create-group-snapshot-ignores-source-conflict"],
    }
    async |cx| {
        let sources = two_volumes(cx).await?;
        // This shows that the driver accepts the set.
        let one = cx.create_group_snapshot(request_for(cx, &sources[..1])).await;
        one.or_skip("the driver takes no group snapshot of one volume")?;
        let request = request_for(cx, &sources);
        cx.create_group_snapshot(request.clone()).setup("a group snapshot").await?;
        let request = v1::CreateVolumeGroupSnapshotRequest {
            source_volume_ids: sources[..1].to_vec(),
            ..request
        };
        let reply = cx.create_group_snapshot(request).await;
        reply.must_be_refused("with a known name and other sources", refused_with(Code::AlreadyExists))?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&REPEATED, &OTHER_ORDER, &OTHER_SOURCES];
