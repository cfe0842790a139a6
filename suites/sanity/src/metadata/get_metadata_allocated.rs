//! GetMetadataAllocated returns the blocks of a snapshot that hold data.

use csi_harness::prelude::*;

use super::UNTRACKED;
use super::common::common_checks;
use super::judge;
use super::stream::{Question, Rules};
use super::volume::BlockVolume;

common_checks! {
    "get-metadata-allocated", "GetMetadataAllocated", v1::GetMetadataAllocatedRequest, question;
    ends_behind_offset: req::META_ALLOC_005,
    style: req::META_ALLOC_008,
    fixed_length: req::META_ALLOC_009,
    capacity: req::META_ALLOC_010,
    max_results: req::META_ALLOC_011,
    offset: req::META_ALLOC_012,
    order: req::META_ALLOC_013,
    order_of_messages: req::META_ALLOC_014,
    failure: req::META_ALLOC_016,
    invalid: req::META_ALLOC_017,
    not_found: req::META_ALLOC_018,
    out_of_range: req::META_ALLOC_019,
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
