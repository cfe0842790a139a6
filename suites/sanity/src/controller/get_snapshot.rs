//! GetSnapshot returns the current state of one snapshot.

use csi_harness::prelude::*;

use super::common::{complete_snapshot, cut_snapshot, must_become_unknown, same_snapshot, unknown_id};

fn request(snapshot_id: &str) -> v1::GetSnapshotRequest {
    v1::GetSnapshotRequest { snapshot_id: snapshot_id.to_owned(), ..Default::default() }
}

check! {
    /// A request without an id can only be a mistake.
    NO_SNAPSHOT_ID {
        id: "controller/get-snapshot/no-snapshot-id",
        title: "GetSnapshot without snapshot_id is rejected",
        spec: [req::CTRL_GETSNAP_006, req::GEN_ERR_004],
        needs: [GET_SNAPSHOT],
        refuted_by: ["get-snapshot-empty-id-as-not-found", "invalid-argument-as-ok"],
        replaces: ["GetSnapshot [Controller Server] should return an error"],
    }
    async |cx| {
        let reply = cx.call(request("")).await;
        reply.must_be_refused("without snapshot_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// The controller reads a snapshot with this call as soon as it exists.
    FINDS {
        id: "controller/get-snapshot/finds",
        title: "GetSnapshot answers with a snapshot that was just made, ready or not",
        spec: [
            req::CTRL_GETSNAP_001,
            req::CTRL_GETSNAP_005,
            req::CTRL_GETSNAP_007,
            req::MSG_SNAPSHOT_002,
            req::MSG_SNAPSHOT_006,
            req::MSG_SNAPSHOT_007,
        ],
        needs: [GET_SNAPSHOT, CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: [
            "get-snapshot-unimplemented",
            "get-snapshot-hides-unready",
            "get-snapshot-other-id",
            "get-snapshot-without-snapshot",
        ],
        replaces: ["GetSnapshot [Controller Server] should return snapshot that match the specified snapshot id"],
        plain: ["GetSnapshot"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let made = cut_snapshot(cx, &volume.id).await?;
        let reply = cx.call(request(&made.snapshot_id)).await;
        let rule = match reply.code()? {
            Code::NotFound if !made.ready_to_use => &req::CTRL_GETSNAP_005,
            _ => &req::CTRL_GETSNAP_001,
        };
        let response = reply.must("find a snapshot that was just made").map_err(|stop| stop.of(rule))?;
        let found = response.snapshot.unwrap_or_default();
        ensure!(
            found.snapshot_id == made.snapshot_id,
            "the answer is not about the requested snapshot";
            of: &req::CTRL_GETSNAP_007,
            expected: format!("snapshot_id {:?}", made.snapshot_id),
            actual: format!("snapshot_id {:?}", found.snapshot_id)
        );
        complete_snapshot(&found, &volume.id)
    }
}

check! {
    /// Two calls about one snapshot must not contradict each other.
    SAME_DATA {
        id: "controller/get-snapshot/same-data",
        title: "GetSnapshot returns the data that CreateSnapshot returned",
        spec: [req::CTRL_GETSNAP_003],
        needs: [GET_SNAPSHOT, CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["get-snapshot-other-id"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let made = cut_snapshot(cx, &volume.id).await?;
        let response = cx.call(request(&made.snapshot_id)).setup("the current state of the snapshot").await?;
        same_snapshot(cx, &made, &response.snapshot.unwrap_or_default())
    }
}

check! {
    /// The controller learns only in this way that a snapshot was deleted by others.
    DELETED {
        id: "controller/get-snapshot/deleted-snapshot",
        title: "GetSnapshot of a deleted snapshot is NOT_FOUND",
        spec: [req::CTRL_GETSNAP_010],
        needs: [GET_SNAPSHOT, CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["get-snapshot-unknown-ok", "not-found-as-internal"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let id = cut_snapshot(cx, &volume.id).await?.snapshot_id;
        cx.delete_snapshot(&id).setup("a snapshot that is deleted").await?;
        must_become_unknown(cx, Settles::SnapshotGone, "of a deleted snapshot", || cx.call(request(&id))).await
    }
}

check! {
    /// A made-up id has to be handled like the id of a deleted snapshot.
    UNKNOWN {
        id: "controller/get-snapshot/unknown-snapshot",
        title: "GetSnapshot of an unknown snapshot is NOT_FOUND",
        spec: [req::CTRL_GETSNAP_010],
        needs: [GET_SNAPSHOT],
        refuted_by: ["get-snapshot-unknown-ok", "not-found-as-internal"],
        replaces: [
            "GetSnapshot [Controller Server] should return an error when the specified snapshot id does not exist",
        ],
        duplicate_of: "controller/get-snapshot/deleted-snapshot",
    }
    async |cx| {
        let reply = cx.call(request(&cx.unknown_snapshot_id())).await;
        reply.must_be_refused("of an unknown snapshot", unknown_id())?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&NO_SNAPSHOT_ID, &FINDS, &SAME_DATA, &DELETED, &UNKNOWN];
