//! GetMetadataDelta returns the blocks of a snapshot that differ from an earlier one.
//!
//! If changed blocks are not tracked, it always answers FAILED_PRECONDITION. It may list more blocks than changed,
//! because the specification does not define the precision of the tracking.

use csi_harness::prelude::*;

use super::common::common_checks;
use super::judge;
use super::stream::{Question, Rules};
use super::volume::BlockVolume;

common_checks! {
    "get-metadata-delta", "GetMetadataDelta", v1::GetMetadataDeltaRequest, question;
    ends_behind_offset: req::META_DELTA_007,
    style: req::META_DELTA_010,
    fixed_length: req::META_DELTA_011,
    capacity: req::META_DELTA_012,
    max_results: req::META_DELTA_013,
    offset: req::META_DELTA_014,
    order: req::META_DELTA_015,
    order_of_messages: req::META_DELTA_016,
    failure: req::META_DELTA_018,
    invalid: req::META_DELTA_019,
    not_found: req::META_DELTA_020,
    out_of_range: req::META_DELTA_022,
}

fn between(base_snapshot_id: &str, target_snapshot_id: &str) -> v1::GetMetadataDeltaRequest {
    v1::GetMetadataDeltaRequest {
        base_snapshot_id: base_snapshot_id.to_owned(),
        target_snapshot_id: target_snapshot_id.to_owned(),
        ..Default::default()
    }
}

/// Returns a request about two snapshots of a volume that was written before each, if that is possible.
async fn question(cx: &Cx) -> CheckResult<v1::GetMetadataDeltaRequest> {
    let volume = BlockVolume::new(cx).await?;
    volume.write_first().await?;
    let base = volume.snapshot().await?;
    volume.write_second().await?;
    Ok(between(&base, &volume.snapshot().await?))
}

check! {
    /// An incremental backup reads only these blocks.
    WORKS {
        id: "metadata/get-metadata-delta/works",
        title: "GetMetadataDelta lists the blocks that differ between two snapshots of a volume, or is FAILED_PRECONDITION",
        spec: [req::META_DELTA_001, req::META_DELTA_021],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-delta-unimplemented", "get-metadata-delta-untracked-as-internal", "get-metadata-breaks-off"],
        plain: ["GetMetadataDelta"],
    }
    async |cx| {
        let reply = cx.stream_up_to(question(cx).await?, 1_000).await;
        // The request has two snapshots of one volume in order, so no other error is possible.
        let rule = match reply.code()? {
            Code::FailedPrecondition => return Ok(()),
            Code::Unimplemented => &req::META_DELTA_001,
            _ => &req::META_DELTA_021,
        };
        let what = "list what differs between two snapshots of a volume, or be FAILED_PRECONDITION where changes are not tracked";
        reply.must(what).map_err(|stop| stop.of(rule))?;
        Ok(())
    }
}

check! {
    /// A delta without a base is the subject of the other RPC.
    NO_BASE {
        id: "metadata/get-metadata-delta/no-base-snapshot-id",
        title: "GetMetadataDelta without base_snapshot_id is rejected",
        spec: [req::META_DELTA_003, req::META_DELTA_019],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-delta-accepts-empty-base-id", "get-metadata-delta-empty-id-as-not-found"],
    }
    async |cx| {
        let id = BlockVolume::new(cx).await?.snapshot().await?;
        judge::is_refused_without(cx, between("", &id), "base_snapshot_id").await
    }
}

check! {
    /// A request without an id can only be a mistake.
    NO_TARGET {
        id: "metadata/get-metadata-delta/no-target-snapshot-id",
        title: "GetMetadataDelta without target_snapshot_id is rejected",
        spec: [req::META_DELTA_004, req::META_DELTA_019],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-delta-accepts-empty-target-id", "get-metadata-delta-empty-id-as-not-found"],
    }
    async |cx| {
        let id = BlockVolume::new(cx).await?.snapshot().await?;
        judge::is_refused_without(cx, between(&id, ""), "target_snapshot_id").await
    }
}

check! {
    /// An incremental backup without its base that succeeds is worse than one that fails.
    DELETED {
        id: "metadata/get-metadata-delta/deleted-snapshot",
        title: "GetMetadataDelta is NOT_FOUND where either snapshot was deleted",
        spec: [req::META_DELTA_020, req::META_DELTA_018],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-delta-unknown-ok", "not-found-as-internal"],
    }
    async |cx| {
        let volume = BlockVolume::new(cx).await?;
        let (there, gone) = (volume.snapshot().await?, volume.snapshot().await?);
        judge::is_tracked(cx, &between(&there, &gone)).await?;
        cx.delete_snapshot(&gone).setup("a snapshot that is deleted").await?;
        judge::becomes_unknown(cx, between(&gone, &there), "from a deleted snapshot").await?;
        judge::becomes_unknown(cx, between(&there, &gone), "to a deleted snapshot").await
    }
}

check! {
    /// A made-up id has to be handled like the id of a deleted snapshot.
    UNKNOWN {
        id: "metadata/get-metadata-delta/unknown-snapshot",
        title: "GetMetadataDelta is NOT_FOUND where either snapshot is unknown",
        spec: [req::META_DELTA_020, req::META_DELTA_018],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-delta-unknown-ok", "not-found-as-internal"],
        duplicate_of: "metadata/get-metadata-delta/deleted-snapshot",
    }
    async |cx| {
        let there = BlockVolume::new(cx).await?.snapshot().await?;
        let unknown = cx.unknown_snapshot_id();
        judge::is_unknown(cx, between(&unknown, &there), "from an unknown snapshot").await?;
        judge::is_unknown(cx, between(&there, &unknown), "to an unknown snapshot").await
    }
}

check! {
    /// The delta of two volumes is nearly everything, and no backup of either. The specification implies that
    /// the call is rejected, and names no code.
    OTHER_VOLUME {
        id: "metadata/get-metadata-delta/other-volume",
        title: "GetMetadataDelta between snapshots of different volumes is rejected",
        spec: [req::META_DELTA_023],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-delta-mixes-volumes"],
    }
    async |cx| {
        let (one, other) = (BlockVolume::new(cx).await?, BlockVolume::new(cx).await?);
        one.write_first().await?;
        other.write_second().await?;
        let question = between(&one.snapshot().await?, &other.snapshot().await?);
        let answer = cx.stream_up_to(question, 10).await.any_answer()?;
        let blocks = answer.map_or(0, |received| received.messages.iter().map(|one| one.block_metadata.len()).sum());
        ensure!(
            blocks == 0,
            "GetMetadataDelta compares snapshots of different volumes";
            expected: "INVALID_ARGUMENT, or another rejection",
            actual: format!("OK, with {blocks} tuples in the first messages")
        );
        Ok(())
    }
}

check! {
    /// A changed block that is not listed stays outdated in the backup. Listing more blocks than changed is
    /// permitted.
    WRITTEN {
        id: "metadata/get-metadata-delta/written-blocks",
        title: "GetMetadataDelta lists each block that was written between the snapshots",
        spec: [req::META_DELTA_002],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME, NODE],
        refuted_by: ["get-metadata-delta-answers-nothing", "get-metadata-delta-misses-first-block"],
        duplicate_of: "metadata/get-metadata-delta/starting-offset",
    }
    async |cx| {
        let volume = BlockVolume::new(cx).await?;
        volume.write_first().await?;
        let base = volume.snapshot().await?;
        let written = volume.write_second().await?;
        judge::lists_written(cx, &between(&base, &volume.snapshot().await?), &written).await
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &WORKS,
    &NO_BASE,
    &NO_TARGET,
    &DELETED,
    &UNKNOWN,
    &OTHER_VOLUME,
    &IN_VOLUME,
    &ORDER,
    &STYLE,
    &FIXED_LENGTH,
    &CAPACITY,
    &MAX_RESULTS,
    &STARTING_OFFSET,
    &CONTINUED,
    &CUT_OFF,
    &OUT_OF_RANGE,
    &NEGATIVE_MAX_RESULTS,
    &WRITTEN,
];
