//! Creation, deletion and lists of snapshots, seen together.

use csi_harness::prelude::*;

async fn listed(cx: &Cx, snapshot_id: &str) -> CheckResult<Option<v1::Snapshot>> {
    let only = v1::ListSnapshotsRequest { snapshot_id: snapshot_id.to_owned(), ..Default::default() };
    Ok(cx.list_snapshots(only).await?.into_iter().find(|listed| listed.snapshot_id == snapshot_id))
}

check! {
    /// Without its id a snapshot that is still being taken can be neither found nor given up.
    SNAPSHOT_ID {
        id: "controller/interplay/snapshot-id-at-once",
        title: "CreateSnapshot gives the snapshot_id also while the snapshot is not ready",
        spec: [req::CTRL_INTERACT_005],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT],
        refuted_by: ["snapshot-without-id"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let request = cx.create_snapshot_request(&volume.volume_id);
        let snapshot = cx.create_snapshot(request).await.setup("a snapshot")?;
        ensure!(
            !snapshot.snapshot_id.is_empty(),
            "the new snapshot has no id";
            expected: "a snapshot_id, whether ready_to_use or not",
            actual: format!("{snapshot:?}")
        );
        Ok(())
    }
}

check! {
    /// An orchestrator that looks a snapshot up right after taking it has to find that one.
    CURRENT {
        id: "controller/interplay/snapshot-list-is-current",
        title: "ListSnapshots has a new snapshot as CreateSnapshot described it, and a deleted one no more",
        spec: [req::CTRL_INTERACT_008],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, LIST_SNAPSHOTS],
        refuted_by: ["delete-snapshot-keeps-snapshot", "list-snapshots-never-lists"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let made = cx.new_snapshot(&volume.volume_id).await?;
        let id = &made.snapshot_id;
        let Some(found) = cx.eventually(|| listed(cx, id)).await? else {
            return Err(Violation::new("a new snapshot is not listed")
                .expected(format!("{id:?} in ListSnapshots"))
                .actual("not there until time-limits: settle-ms had passed")
                .into());
        };
        let facts = |snapshot: &v1::Snapshot| (snapshot.source_volume_id.clone(), snapshot.creation_time);
        ensure!(
            facts(&found) == facts(&made),
            "ListSnapshots and CreateSnapshot disagree about a snapshot";
            expected: format!("source_volume_id and creation_time {:?}", facts(&made)),
            actual: format!("{:?}", facts(&found))
        );
        cx.delete_snapshot(id).await.setup("a deleted snapshot")?;
        let gone = cx.eventually(|| async { Ok(listed(cx, id).await?.is_none().then_some(())) });
        ensure!(
            gone.await?.is_some(),
            "a deleted snapshot goes on being listed";
            expected: format!("a list without {id:?} once the deletion is complete"),
            actual: "the snapshot in the list until time-limits: settle-ms had passed"
        );
        Ok(())
    }
}

check! {
    /// Whoever waits by listing must not wait for ever.
    READY {
        id: "controller/interplay/snapshot-list-becomes-ready",
        title: "ListSnapshots reports ready_to_use once CreateSnapshot does",
        spec: [req::CTRL_INTERACT_009],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, LIST_SNAPSHOTS],
        refuted_by: ["list-snapshots-stale-ready"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let request = cx.create_snapshot_request(&volume.volume_id);
        let ready = cx.eventually(|| async {
            let snapshot = cx.create_snapshot(request.clone()).await.setup("a snapshot")?;
            Ok(snapshot.ready_to_use.then_some(snapshot))
        });
        let Some(snapshot) = ready.await? else {
            return Err(Stop::skip("the snapshot is not ready within time-limits: settle-ms"));
        };
        let agreed = cx.eventually(|| async {
            Ok(listed(cx, &snapshot.snapshot_id).await?.filter(|found| found.ready_to_use))
        });
        ensure!(
            agreed.await?.is_some(),
            "CreateSnapshot calls a snapshot ready, and ListSnapshots does not";
            expected: format!("{:?} with ready_to_use true", snapshot.snapshot_id),
            actual: "ready_to_use false, or no such entry, until time-limits: settle-ms had passed"
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&SNAPSHOT_ID, &CURRENT, &READY];
