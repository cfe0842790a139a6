//! GetMetadataAllocated returns the blocks of a snapshot that hold data.

use csi_harness::prelude::*;

use super::UNTRACKED;
use super::judge;
use super::stream::{Question, Rules};
use super::volume::BlockVolume;

static RULES: Rules = Rules {
    ends_behind_offset: &req::META_ALLOC_005,
    style: &req::META_ALLOC_008,
    fixed_length: &req::META_ALLOC_009,
    capacity: &req::META_ALLOC_010,
    max_results: &req::META_ALLOC_011,
    offset: &req::META_ALLOC_012,
    order: &req::META_ALLOC_013,
    order_of_messages: &req::META_ALLOC_014,
    failure: &req::META_ALLOC_016,
    invalid: &req::META_ALLOC_017,
    not_found: &req::META_ALLOC_018,
    out_of_range: &req::META_ALLOC_019,
};

impl Question for v1::GetMetadataAllocatedRequest {
    const RULES: &'static Rules = &RULES;

    fn with(&self, starting_offset: i64, max_results: i32) -> Self {
        Self { starting_offset, max_results, ..self.clone() }
    }
}

fn about(snapshot_id: String) -> v1::GetMetadataAllocatedRequest {
    v1::GetMetadataAllocatedRequest { snapshot_id, ..Default::default() }
}

/// Returns a request about a snapshot that has data, if that is possible.
async fn question(cx: &Cx) -> CheckResult<v1::GetMetadataAllocatedRequest> {
    let volume = BlockVolume::new(cx).await?;
    volume.write_first().await?;
    Ok(about(volume.snapshot().await?))
}

check! {
    /// A backup reads only these blocks.
    WORKS {
        id: "metadata/get-metadata-allocated/works",
        title: "GetMetadataAllocated lists the blocks of a snapshot, to the end of the stream",
        spec: [req::META_ALLOC_001],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-allocated-unimplemented", "get-metadata-breaks-off"],
        plain: ["GetMetadataAllocated"],
    }
    async |cx| {
        let reply = cx.stream_up_to(question(cx).await?, 1_000).await;
        if reply.code()? == Code::FailedPrecondition {
            return reply.or_skip(UNTRACKED).map(drop);
        }
        reply.must("list the blocks of a snapshot that is ready")?;
        Ok(())
    }
}

check! {
    /// A request without an id can only be a mistake.
    NO_ID {
        id: "metadata/get-metadata-allocated/no-snapshot-id",
        title: "GetMetadataAllocated without snapshot_id is rejected",
        spec: [req::META_ALLOC_003, req::META_ALLOC_017],
        needs: [SNAPSHOT_METADATA_SERVICE],
        refuted_by: ["get-metadata-allocated-accepts-empty-id", "get-metadata-allocated-empty-id-as-not-found"],
    }
    async |cx| { judge::is_refused_without(cx, about(String::new()), "snapshot_id").await }
}

check! {
    /// An empty backup that succeeds is worse than one that fails.
    DELETED {
        id: "metadata/get-metadata-allocated/deleted-snapshot",
        title: "GetMetadataAllocated of a deleted snapshot is NOT_FOUND",
        spec: [req::META_ALLOC_018, req::META_ALLOC_016],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-allocated-unknown-ok", "not-found-as-internal"],
    }
    async |cx| {
        let id = BlockVolume::new(cx).await?.snapshot().await?;
        judge::is_tracked(cx, &about(id.clone())).await?;
        cx.delete_snapshot(&id).setup("a snapshot that is deleted").await?;
        judge::becomes_unknown(cx, about(id), "of a deleted snapshot").await
    }
}

check! {
    /// A made-up id has to be handled like the id of a deleted snapshot.
    UNKNOWN {
        id: "metadata/get-metadata-allocated/unknown-snapshot",
        title: "GetMetadataAllocated of an unknown snapshot is NOT_FOUND",
        spec: [req::META_ALLOC_018, req::META_ALLOC_016],
        needs: [SNAPSHOT_METADATA_SERVICE],
        refuted_by: ["get-metadata-allocated-unknown-ok", "not-found-as-internal"],
        duplicate_of: "metadata/get-metadata-allocated/deleted-snapshot",
    }
    async |cx| { judge::is_unknown(cx, about(cx.unknown_snapshot_id()), "of an unknown snapshot").await }
}

check! {
    /// A caller that reads at the offset of a tuple has to find the block there.
    IN_VOLUME {
        id: "metadata/get-metadata-allocated/tuples-in-volume",
        title: "each tuple of GetMetadataAllocated is a range of bytes of the volume",
        spec: [req::META_FORMAT_002, req::META_FORMAT_003],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-offset-at-end", "get-metadata-empty-ranges"],
    }
    async |cx| { judge::tuples_lie_in_the_volume(cx, &question(cx).await?).await }
}

check! {
    /// Callers store blocks in order, and continue behind the last one.
    ORDER {
        id: "metadata/get-metadata-allocated/order",
        title: "the tuples of GetMetadataAllocated rise without overlap, in a message and from one to the next",
        spec: [req::META_ALLOC_013, req::META_ALLOC_014],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-unordered", "get-metadata-overlaps", "get-metadata-messages-overlap"],
    }
    async |cx| { judge::tuples_rise(cx, &question(cx).await?).await }
}

check! {
    /// A caller decides by the first message how to read the others.
    STYLE {
        id: "metadata/get-metadata-allocated/style",
        title: "each message of GetMetadataAllocated has the same block_metadata_type",
        spec: [req::META_ALLOC_008],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-type-unknown", "get-metadata-type-changes"],
    }
    async |cx| { judge::style_stays(cx, &question(cx).await?).await }
}

check! {
    /// A caller that relies on it reads only the offsets.
    FIXED_LENGTH {
        id: "metadata/get-metadata-allocated/fixed-length",
        title: "the tuples of GetMetadataAllocated have one size where the style is FIXED_LENGTH",
        spec: [req::META_ALLOC_009, req::META_FORMAT_004],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-sizes-vary", "get-metadata-last-block-short"],
    }
    async |cx| { judge::fixed_length_is_fixed(cx, &question(cx).await?).await }
}

check! {
    /// A restore needs a volume at least as large.
    CAPACITY {
        id: "metadata/get-metadata-allocated/capacity",
        title: "each message of GetMetadataAllocated has the same volume_capacity_bytes",
        spec: [req::META_ALLOC_010],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-capacity-zero", "get-metadata-capacity-changes"],
    }
    async |cx| { judge::capacity_stays(cx, &question(cx).await?).await }
}

check! {
    /// A caller may have little memory.
    MAX_RESULTS {
        id: "metadata/get-metadata-allocated/max-results",
        title: "a message of GetMetadataAllocated has at most max_results tuples, and the stream is as complete as without",
        spec: [req::META_ALLOC_011, req::META_STREAM_001],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-ignores-max-results", "get-metadata-ends-early"],
    }
    async |cx| { judge::max_results_is_kept(cx, &question(cx).await?).await }
}

check! {
    /// Without it a broken stream has to be read from the beginning.
    STARTING_OFFSET {
        id: "metadata/get-metadata-allocated/starting-offset",
        title: "GetMetadataAllocated lists every block from starting_offset on, and none before it",
        spec: [req::META_ALLOC_005, req::META_ALLOC_012],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-ignores-offset", "get-metadata-resume-skips-block"],
    }
    async |cx| { judge::offset_is_kept(cx, &question(cx).await?).await }
}

check! {
    /// A block between two parts of a stream would be missing in the backup.
    CONTINUED {
        id: "metadata/get-metadata-allocated/continued",
        title: "a stream of GetMetadataAllocated that was cut off can be continued without a gap",
        spec: [req::META_STREAM_005, req::META_STREAM_001],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-resume-skips-block"],
        duplicate_of: "metadata/get-metadata-allocated/starting-offset",
    }
    async |cx| { judge::can_be_continued(cx, &question(cx).await?).await }
}

check! {
    /// Callers leave in the middle of a stream, and the driver has to end its work for them.
    CUT_OFF {
        id: "metadata/get-metadata-allocated/cut-off",
        title: "GetMetadataAllocated still works after streams were cut off",
        spec: [req::META_STREAM_003],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-stuck-after-cut"],
    }
    async |cx| { judge::serves_after_cuts(cx, &question(cx).await?).await }
}

check! {
    /// An empty stream would be taken for the end of the volume.
    OUT_OF_RANGE {
        id: "metadata/get-metadata-allocated/offset-out-of-range",
        title: "GetMetadataAllocated from a negative offset, or from one beyond the end, is OUT_OF_RANGE",
        spec: [req::META_ALLOC_019],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["get-metadata-accepts-any-offset", "get-metadata-offset-as-internal"],
    }
    async |cx| { judge::offsets_outside_are_refused(cx, &question(cx).await?).await }
}

check! {
    /// Some drivers crash on a negative number of tuples.
    NEGATIVE_MAX_RESULTS {
        id: "metadata/get-metadata-allocated/negative-max-results",
        title: "GetMetadataAllocated with negative max_results is rejected",
        spec: [req::META_ALLOC_017],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["invalid-argument-as-internal"],
        runs: CrashProne,
    }
    async |cx| { judge::negative_max_results(cx, &question(cx).await?).await }
}

check! {
    /// A block that is not listed is lost to the backup. Listing more blocks than were written is permitted.
    WRITTEN {
        id: "metadata/get-metadata-allocated/written-blocks",
        title: "GetMetadataAllocated lists each block that was written before the snapshot",
        spec: [req::META_ALLOC_002],
        needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME, NODE],
        refuted_by: ["get-metadata-allocated-misses-writes"],
        duplicate_of: "metadata/get-metadata-allocated/starting-offset",
    }
    async |cx| {
        let volume = BlockVolume::new(cx).await?;
        let written = volume.write_first().await?;
        judge::lists_written(cx, &about(volume.snapshot().await?), &written).await
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &WORKS,
    &NO_ID,
    &DELETED,
    &UNKNOWN,
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
