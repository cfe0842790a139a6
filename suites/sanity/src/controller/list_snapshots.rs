//! ListSnapshots returns all snapshots, or those that pass its filters.

pub(crate) mod pages;

use csi_harness::prelude::*;
use csi_harness::text::message::entries;

use super::common::{complete_snapshot, cut_snapshot, list_lags, ready_snapshot, same_snapshot};
use crate::group::new_group;

fn by_id(snapshot_id: &str) -> v1::ListSnapshotsRequest {
    v1::ListSnapshotsRequest { snapshot_id: snapshot_id.to_owned(), ..Default::default() }
}

fn by_source(source_volume_id: &str) -> v1::ListSnapshotsRequest {
    v1::ListSnapshotsRequest { source_volume_id: source_volume_id.to_owned(), ..Default::default() }
}

fn ids(snapshots: &[v1::Snapshot]) -> Vec<&str> {
    snapshots.iter().map(|snapshot| snapshot.snapshot_id.as_str()).collect()
}

/// Returns whether a snapshot is on any page of the unfiltered list.
async fn is_listed(cx: &Cx, snapshot_id: &str) -> CheckResult<bool> {
    let all = cx.list_snapshots(v1::ListSnapshotsRequest::default()).await?;
    Ok(ids(&all).contains(&snapshot_id))
}

/// Returns the filtered list once all of these are in it, because a list may show a new snapshot late.
async fn listed_once_settled(
    cx: &Cx,
    request: v1::ListSnapshotsRequest,
    wanted: &[&str],
) -> CheckResult<Vec<v1::Snapshot>> {
    let has_all = cx.eventually(Settles::SnapshotListed, || async {
        let listed = cx.list_snapshots(request.clone()).await?;
        Ok(wanted.iter().all(|id| ids(&listed).contains(id)).then_some(listed))
    });
    match has_all.await? {
        Some(listed) => Ok(listed),
        None => cx.list_snapshots(request).await,
    }
}

/// Sends a filter that nothing matches. The answer has to be an empty list, because the request is valid.
async fn must_find_nothing(cx: &Cx, what: &str, request: v1::ListSnapshotsRequest) -> CheckResult {
    match cx.call(request).await.any_answer()? {
        Ok(response) => holds_nothing(what, &response),
        // A made-up id need not have the driver's format.
        Err(refused) if refused.code == Code::InvalidArgument => Ok(()),
        Err(refused) => Err(Violation::new(format!("ListSnapshots {what} is rejected"))
            .expected("OK with an empty list")
            .actual(refused)
            .into()),
    }
}

fn holds_nothing(what: &str, response: &v1::ListSnapshotsResponse) -> CheckResult {
    let snapshots = response.entries.iter().filter_map(|entry| entry.snapshot.as_ref());
    let found: Vec<_> = snapshots.map(|snapshot| &snapshot.snapshot_id).collect();
    ensure!(
        response.entries.is_empty(),
        "ListSnapshots {what} returns snapshots";
        expected: "an empty list",
        actual: format!("{}, with snapshot_ids {found:?}", entries(response.entries.len()))
    );
    Ok(())
}

check! {
    /// Every filter is optional.
    ANSWERS {
        id: "controller/list-snapshots/answers",
        title: "ListSnapshots without filters is answered",
        spec: [req::CTRL_LISTSNAP_001],
        needs: [LIST_SNAPSHOTS],
        refuted_by: ["list-snapshots-unimplemented", "list-snapshots-fails-while-empty"],
        replaces: [
            "ListSnapshots [Controller Server] should return appropriate values (no optional values added)",
        ],
        plain: ["ListSnapshots"],
        // A list that fails while it is empty is seen only while no other check has a snapshot.
        runs: Serial,
    }
    async |cx| {
        cx.call(v1::ListSnapshotsRequest::default()).await.must("list the snapshots")?;
        Ok(())
    }
}

check! {
    /// The controller compares this list with its own records.
    NEW_AND_DELETED {
        id: "controller/list-snapshots/new-and-deleted",
        title: "ListSnapshots lists a new snapshot, and no longer lists a deleted one",
        spec: [req::CTRL_LISTSNAP_002, req::CTRL_INTERACT_008, req::CTRL_DELETESNAP_002],
        needs: [LIST_SNAPSHOTS, CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: [
            "list-snapshots-entry-without-snapshot",
            "list-snapshots-hides-unready",
            "delete-snapshot-keeps-snapshot",
            "list-snapshots-lacks-newest",
        ],
        replaces: [
            "ListSnapshots [Controller Server] check the presence of new snapshots in the snapshot list",
        ],
        // If another check made a snapshot, this check would not notice that the list always lacks the newest one.
        runs: Serial,
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let snapshot = cut_snapshot(cx, &volume.id).await?;
        let id = &snapshot.snapshot_id;
        let mut looks = 0;
        let found = cx.eventually(Settles::SnapshotListed, || {
            looks += 1;
            async { Ok(is_listed(cx, id).await?.then_some(())) }
        });
        ensure!(
            found.await?.is_some(),
            "a created snapshot is not in the list";
            expected: format!("an entry with snapshot_id {id:?}"),
            actual: "none on any page"
        );
        if looks > 1 {
            cx.warn(list_lags("a new snapshot is not in ListSnapshots at first"));
        }
        cx.delete_snapshot(id).setup("a snapshot that is deleted").await?;
        let mut looks = 0;
        let gone = cx.eventually(Settles::SnapshotUnlisted, || {
            looks += 1;
            async { Ok((!is_listed(cx, id).await?).then_some(())) }
        });
        ensure!(
            gone.await?.is_some(),
            "a snapshot that was deleted is still in the list";
            of: &req::CTRL_INTERACT_008,
            expected: format!("no entry with snapshot_id {id:?}"),
            actual: "one, throughout the time to settle (settle-ms)"
        );
        if looks > 1 {
            cx.warn(list_lags("a deleted snapshot stays in ListSnapshots for a while"));
        }
        Ok(())
    }
}

check! {
    /// A caller treats a snapshot that is not listed as deleted.
    GROUP_MEMBERS {
        id: "controller/list-snapshots/group-members",
        title: "ListSnapshots lists the members of a group snapshot",
        spec: [req::CTRL_LISTSNAP_002],
        needs: [LIST_SNAPSHOTS, CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["list-snapshots-omits-group-members"],
    }
    async |cx| {
        for member in new_group(cx).await?.snapshots {
            let id = &member.snapshot_id;
            let found = cx.eventually(Settles::SnapshotListed, || async { Ok(is_listed(cx, id).await?.then_some(())) });
            ensure!(
                found.await?.is_some(),
                "a member of a group snapshot is not in the list";
                expected: format!("an entry with snapshot_id {id:?}"),
                actual: "none on any page"
            );
        }
        Ok(())
    }
}

check! {
    /// An entry without data is useless.
    COMPLETE_ENTRIES {
        id: "controller/list-snapshots/complete-entries",
        title: "each entry of ListSnapshots is a complete snapshot",
        spec: [
            req::CTRL_LISTSNAP_015,
            req::MSG_SNAPSHOT_002,
            req::MSG_SNAPSHOT_003,
            req::MSG_SNAPSHOT_006,
            req::MSG_SNAPSHOT_007,
        ],
        needs: [LIST_SNAPSHOTS, CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["list-snapshots-entry-without-snapshot", "snapshot-without-source"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let made = cut_snapshot(cx, &volume.id).await?;
        // A new snapshot may be listed late.
        let listed = cx.eventually(Settles::SnapshotListed, || async {
            let page = cx.call(by_id(&made.snapshot_id)).setup("a list").await?;
            Ok((!page.entries.is_empty()).then_some(page.entries))
        });
        let entries = listed.await?.ok_or_else(|| Stop::broken("needs the new snapshot in the list"))?;
        ensure!(
            entries.iter().all(|entry| entry.snapshot.is_some()),
            "an entry has no snapshot";
            expected: "snapshot in each entry",
            actual: wires(&entries)
        );
        let mut own = entries.into_iter().filter_map(|entry| entry.snapshot);
        match own.find(|snapshot| snapshot.snapshot_id == made.snapshot_id || snapshot.snapshot_id.is_empty()) {
            Some(snapshot) => complete_snapshot(&snapshot, &volume.id),
            None => Err(Stop::broken("needs the new snapshot in the list")),
        }
    }
}

check! {
    /// The controller polls a snapshot with this filter.
    ID_FILTER {
        id: "controller/list-snapshots/snapshot-id-filter",
        title: "ListSnapshots with snapshot_id returns only that snapshot",
        spec: [req::CTRL_LISTSNAP_014],
        needs: [LIST_SNAPSHOTS, CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["list-snapshots-ignores-id-filter"],
        replaces: [
            "ListSnapshots [Controller Server] should return snapshots that match the specified snapshot id",
        ],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let wanted = cut_snapshot(cx, &volume.id).await?.snapshot_id;
        cut_snapshot(cx, &volume.id).await?;
        let listed = listed_once_settled(cx, by_id(&wanted), &[&wanted]).await?;
        ensure!(
            ids(&listed) == [wanted.as_str()],
            "the list is not exactly the requested snapshot";
            expected: format!("one entry, snapshot_id {wanted:?}"),
            actual: format!("snapshot_ids {:?}", ids(&listed))
        );
        Ok(())
    }
}

check! {
    /// Two calls about one snapshot must not contradict each other.
    SAME_DATA {
        id: "controller/list-snapshots/same-data",
        title: "ListSnapshots returns the data that CreateSnapshot returned",
        spec: [req::CTRL_INTERACT_008, req::CTRL_LISTSNAP_014],
        needs: [LIST_SNAPSHOTS, CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["list-snapshots-halves-size", "list-snapshots-drops-size"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let made = cut_snapshot(cx, &volume.id).await?;
        let listed = cx.eventually(Settles::SnapshotListed, || async {
            let listed = cx.list_snapshots(by_id(&made.snapshot_id)).await?;
            Ok(listed.into_iter().find(|snapshot| snapshot.snapshot_id == made.snapshot_id))
        });
        match listed.await? {
            Some(found) => same_snapshot(cx, &made, &found),
            None => Err(Stop::broken("needs the new snapshot in the list")),
        }
    }
}

check! {
    /// A caller may wait by listing, and must not wait forever.
    READY {
        id: "controller/list-snapshots/becomes-ready",
        title: "ListSnapshots reports ready_to_use once CreateSnapshot does",
        spec: [req::CTRL_INTERACT_009],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, LIST_SNAPSHOTS],
        refuted_by: ["list-snapshots-stale-ready"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let snapshot = ready_snapshot(cx, &cx.create_snapshot_request(&volume.volume_id)).await?;
        let agreed = cx.eventually(Settles::SnapshotReady, || async {
            let listed = cx.list_snapshots(by_id(&snapshot.snapshot_id)).await?;
            let is_ready = |found: &v1::Snapshot| found.snapshot_id == snapshot.snapshot_id && found.ready_to_use;
            Ok(listed.iter().any(is_ready).then_some(()))
        });
        ensure!(
            agreed.await?.is_some(),
            "CreateSnapshot reports a snapshot as ready, but ListSnapshots does not";
            expected: format!("{:?} with ready_to_use true", snapshot.snapshot_id),
            actual: "ready_to_use still false, or no such entry, after the time to settle (settle-ms)"
        );
        Ok(())
    }
}

check! {
    /// Backup tools list all snapshots of a volume.
    SOURCE_FILTER {
        id: "controller/list-snapshots/source-volume-id-filter",
        title: "ListSnapshots with source_volume_id returns all snapshots of that volume and no others",
        spec: [req::CTRL_LISTSNAP_012, req::CTRL_LISTSNAP_002],
        needs: [LIST_SNAPSHOTS, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["list-snapshots-ignores-source-filter", "list-snapshots-one-per-source"],
        replaces: [
            "ListSnapshots [Controller Server] should return snapshots that match the specified source volume id",
        ],
    }
    async |cx| {
        let (wanted, other) = (cx.new_volume().await?, cx.new_volume().await?);
        let first = cut_snapshot(cx, &wanted.volume_id).await?;
        let second = cut_snapshot(cx, &wanted.volume_id).await?;
        cut_snapshot(cx, &other.volume_id).await?;
        let made = [first.snapshot_id.as_str(), second.snapshot_id.as_str()];
        let listed = listed_once_settled(cx, by_source(&wanted.volume_id), &made).await?;
        let foreign = listed.iter().find(|snapshot| snapshot.source_volume_id != wanted.volume_id);
        ensure!(
            foreign.is_none(),
            "the list has a snapshot of another volume than the requested one";
            expected: format!("source_volume_id {:?} in each entry", wanted.volume_id),
            actual: wires(foreign)
        );
        let found = ids(&listed);
        ensure!(
            made.iter().all(|id| found.contains(id)),
            "the list lacks a snapshot of the requested volume";
            of: &req::CTRL_LISTSNAP_002,
            expected: format!("snapshot_ids {made:?}"),
            actual: format!("snapshot_ids {found:?}")
        );
        ensure!(
            found.len() == made.len(),
            "the list has more than the snapshots of the requested volume";
            expected: format!("snapshot_ids {made:?}"),
            actual: format!("snapshot_ids {found:?}")
        );
        Ok(())
    }
}

check! {
    /// Only snapshots that pass both filters are listed.
    BOTH_FILTERS {
        id: "controller/list-snapshots/both-filters",
        title: "ListSnapshots with a snapshot_id and another volume's id finds nothing",
        spec: [req::CTRL_LISTSNAP_013],
        needs: [LIST_SNAPSHOTS, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["list-snapshots-joins-filters"],
    }
    async |cx| {
        let (source, other) = (cx.new_volume().await?, cx.new_volume().await?);
        let snapshot = cut_snapshot(cx, &source.volume_id).await?;
        let request =
            v1::ListSnapshotsRequest { source_volume_id: other.volume_id, ..by_id(&snapshot.snapshot_id) };
        must_find_nothing(cx, "with filters that exclude each other", request).await
    }
}

check! {
    /// A caller may list a snapshot that no longer exists.
    UNKNOWN_ID {
        id: "controller/list-snapshots/unknown-snapshot-id",
        title: "ListSnapshots with an unknown snapshot_id answers with an empty list",
        spec: [req::CTRL_LISTSNAP_014],
        needs: [LIST_SNAPSHOTS],
        refuted_by: ["list-snapshots-unknown-filter-not-found", "list-snapshots-finds-volumes"],
        replaces: [
            "ListSnapshots [Controller Server] should return empty when the specified snapshot id does not exist",
        ],
    }
    async |cx| {
        let request = by_id(&cx.unknown_snapshot_id());
        must_find_nothing(cx, "with an unknown snapshot_id", request).await?;
        if !cx.target().capabilities().has(Capability::CreateDeleteVolume) {
            return Ok(());
        }
        let volume = cx.new_volume().await?;
        match cx.call(by_id(&volume.volume_id)).await.any_answer()? {
            // A driver that counts volumes and snapshots from 1 may have a snapshot with this id.
            Ok(found) if volume.volume_id.parse::<u64>().is_err() => {
                holds_nothing("with the id of a volume as snapshot_id", &found)
            }
            _ => Ok(()),
        }
    }
}

check! {
    /// A caller may list the snapshots of a volume that no longer exists.
    UNKNOWN_SOURCE {
        id: "controller/list-snapshots/unknown-source-volume-id",
        title: "ListSnapshots with an unknown source_volume_id answers with an empty list",
        spec: [req::CTRL_LISTSNAP_012],
        needs: [LIST_SNAPSHOTS],
        refuted_by: ["list-snapshots-unknown-filter-not-found"],
        replaces: [
            "ListSnapshots [Controller Server] should return empty when the specified source volume id does not exist",
        ],
    }
    async |cx| {
        let request = by_source(&cx.unknown_volume_id());
        must_find_nothing(cx, "with an unknown source_volume_id", request).await
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &ANSWERS,
    &NEW_AND_DELETED,
    &GROUP_MEMBERS,
    &COMPLETE_ENTRIES,
    &ID_FILTER,
    &SAME_DATA,
    &READY,
    &SOURCE_FILTER,
    &BOTH_FILTERS,
    &UNKNOWN_ID,
    &UNKNOWN_SOURCE,
];
