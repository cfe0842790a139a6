//! GetMetadataDelta returns the blocks of a snapshot that differ from an earlier one.
//!
//! If changed blocks are not tracked, it always answers FAILED_PRECONDITION. It may list more blocks than changed,
//! because the specification does not define the precision of the tracking.

use csi_harness::prelude::*;

use super::judge;
use super::stream::{Question, Rules};
use super::volume::BlockVolume;

static RULES: Rules = Rules {
    ends_behind_offset: &req::META_DELTA_007,
    style: &req::META_DELTA_010,
    fixed_length: &req::META_DELTA_011,
    capacity: &req::META_DELTA_012,
    max_results: &req::META_DELTA_013,
    offset: &req::META_DELTA_014,
    order: &req::META_DELTA_015,
    order_of_messages: &req::META_DELTA_016,
    failure: &req::META_DELTA_018,
    invalid: &req::META_DELTA_019,
    not_found: &req::META_DELTA_020,
    out_of_range: &req::META_DELTA_022,
};

impl Question for v1::GetMetadataDeltaRequest {
    const RULES: &'static Rules = &RULES;

    fn with(&self, starting_offset: i64, max_results: i32) -> Self {
        Self { starting_offset, max_results, ..self.clone() }
    }
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
    /// The delta of two volumes is nearly everything, and no backup of either. The specification implies that it is
    /// rejected, and names no code.
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
    /// A caller that reads at the offset of a tuple has to find the block there.
    IN_VOLUME {
        id: "metadata/get-metadata-delta/tuples-in-volume",
        title: "each tuple of GetMetadataDelta is a range of bytes of the volume",
        spec: [req::META_FORMAT_002, req::META_FORMAT_003],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-offset-at-end", "get-metadata-empty-ranges"],
    }
    async |cx| { judge::tuples_lie_in_the_volume(cx, &question(cx).await?).await }
}

check! {
    /// Callers store blocks in order, and continue behind the last one.
    ORDER {
        id: "metadata/get-metadata-delta/order",
        title: "the tuples of GetMetadataDelta rise without overlap, in a message and from one to the next",
        spec: [req::META_DELTA_015, req::META_DELTA_016],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-unordered", "get-metadata-overlaps", "get-metadata-messages-overlap"],
    }
    async |cx| { judge::tuples_rise(cx, &question(cx).await?).await }
}

check! {
    /// A caller decides by the first message how to read the others.
    STYLE {
        id: "metadata/get-metadata-delta/style",
        title: "each message of GetMetadataDelta has the same block_metadata_type",
        spec: [req::META_DELTA_010],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-type-unknown", "get-metadata-type-changes"],
    }
    async |cx| { judge::style_stays(cx, &question(cx).await?).await }
}

check! {
    /// A caller that relies on it reads only the offsets.
    FIXED_LENGTH {
        id: "metadata/get-metadata-delta/fixed-length",
        title: "the tuples of GetMetadataDelta have one size where the style is FIXED_LENGTH",
        spec: [req::META_DELTA_011, req::META_FORMAT_004],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-sizes-vary", "get-metadata-last-block-short"],
    }
    async |cx| { judge::fixed_length_is_fixed(cx, &question(cx).await?).await }
}

check! {
    /// A restore needs a volume at least as large.
    CAPACITY {
        id: "metadata/get-metadata-delta/capacity",
        title: "each message of GetMetadataDelta has the same volume_capacity_bytes",
        spec: [req::META_DELTA_012],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-capacity-zero", "get-metadata-capacity-changes"],
    }
    async |cx| { judge::capacity_stays(cx, &question(cx).await?).await }
}

check! {
    /// A caller may have little memory.
    MAX_RESULTS {
        id: "metadata/get-metadata-delta/max-results",
        title: "a message of GetMetadataDelta has at most max_results tuples, and the stream is as complete as without",
        spec: [req::META_DELTA_013, req::META_STREAM_001],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-ignores-max-results", "get-metadata-ends-early"],
    }
    async |cx| { judge::max_results_is_kept(cx, &question(cx).await?).await }
}

check! {
    /// Without it a broken stream has to be read from the beginning.
    STARTING_OFFSET {
        id: "metadata/get-metadata-delta/starting-offset",
        title: "GetMetadataDelta lists every block from starting_offset on, and none before it",
        spec: [req::META_DELTA_007, req::META_DELTA_014],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-ignores-offset", "get-metadata-resume-skips-block"],
    }
    async |cx| { judge::offset_is_kept(cx, &question(cx).await?).await }
}

check! {
    /// A block between two parts of a stream would be missing in the backup.
    CONTINUED {
        id: "metadata/get-metadata-delta/continued",
        title: "a stream of GetMetadataDelta that was cut off can be continued without a gap",
        spec: [req::META_STREAM_005, req::META_STREAM_001],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-resume-skips-block"],
        duplicate_of: "metadata/get-metadata-delta/starting-offset",
    }
    async |cx| { judge::can_be_continued(cx, &question(cx).await?).await }
}

check! {
    /// Callers leave in the middle of a stream, and the driver has to end its work for them.
    CUT_OFF {
        id: "metadata/get-metadata-delta/cut-off",
        title: "GetMetadataDelta still works after streams were cut off",
        spec: [req::META_STREAM_003],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-stuck-after-cut"],
    }
    async |cx| { judge::serves_after_cuts(cx, &question(cx).await?).await }
}

check! {
    /// An empty stream would be taken for the end of the volume.
    OUT_OF_RANGE {
        id: "metadata/get-metadata-delta/offset-out-of-range",
        title: "GetMetadataDelta from a negative offset, or from one beyond the end, is OUT_OF_RANGE",
        spec: [req::META_DELTA_022],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-accepts-any-offset", "get-metadata-offset-as-internal"],
    }
    async |cx| { judge::offsets_outside_are_refused(cx, &question(cx).await?).await }
}

check! {
    /// Some drivers crash on a negative number of tuples.
    NEGATIVE_MAX_RESULTS {
        id: "metadata/get-metadata-delta/negative-max-results",
        title: "GetMetadataDelta with negative max_results is rejected",
        spec: [req::META_DELTA_019],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["invalid-argument-as-internal"],
        runs: CrashProne,
    }
    async |cx| { judge::negative_max_results(cx, &question(cx).await?).await }
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
