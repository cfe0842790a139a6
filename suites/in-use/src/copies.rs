//! Clones of volumes in use, and copies of snapshots that are deleted at once.

use csi_harness::prelude::*;
use csi_proto::Call as _;
use csi_workload::rules::{IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005};

use crate::beside::{Action, InUse, beside, judge_copy};
use crate::make::{CLONE, SNAPSHOT, Source, copy_of, snapshot};

const RESTORE: Action = Action {
    name: "CreateVolume from a snapshot of the volume, and DeleteSnapshot",
    rpcs: &[v1::CreateVolumeRequest::RPC],
};

check! {
    /// A clone is a snapshot and a copy in one, and drivers that copy slowly do so while the source changes.
    CLONE_IN_USE {
        id: "in-use/clone",
        title: "a clone of a volume in use does not harm the workload, and holds all durable data",
        spec: [IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005],
        needs: [NODE, CREATE_DELETE_VOLUME, CLONE_VOLUME, ROOT],
        refuted_by: [
            "hostpath/clones-nothing",
            "hostpath/clone-breaks-source",
            "hostpath/clone-freezes-source",
            "hostpath/clones-miss-use",
            "hostpath/copies-follow-source",
        ],
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let bytes = user.volume().volume.size_bytes;
        let (copy, [evidence]) = beside(CLONE, [&user], copy_of(cx, Source::volume(user.id()), bytes)).await?;
        user.end(CLONE).await?;
        judge_copy(cx, &evidence, copy, "a clone of a volume in use").await.map(drop)
    }
}

check! {
    /// A backup program deletes its snapshot as soon as CreateVolume has returned OK. A driver that copies in the background then has
    /// nothing left to copy.
    SNAPSHOT_DELETED {
        id: "in-use/copy-then-snapshot-deleted",
        title: "a copy holds its data when its snapshot is deleted right after CreateVolume has returned",
        spec: [IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005],
        needs: [NODE, CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, ROOT],
        refuted_by: ["hostpath/copies-need-their-snapshot", "hostpath/restore-breaks-source"],
        duplicate_of: "in-use/create-snapshot",
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let bytes = user.volume().volume.size_bytes;
        let (snapshot, [evidence]) = beside(SNAPSHOT, [&user], snapshot(cx, user.id())).await?;
        let restored = async {
            let copy = copy_of(cx, Source::snapshot(&snapshot.snapshot_id), bytes).await?;
            // A driver may keep a snapshot that has copies.
            cx.delete_snapshot(&snapshot.snapshot_id).await.any_answer().map(|_| copy)
        };
        let (copy, _) = beside(RESTORE, [&user], restored).await?;
        user.end(RESTORE).await?;
        judge_copy(cx, &evidence, copy, "a copy whose snapshot was deleted").await.map(drop)
    }
}

check! {
    /// A clone replaces its source, which is deleted as soon as the clone exists. A driver that copies in the background, or shares blocks,
    /// may take the data of the clone with it.
    SOURCE_DELETED {
        id: "in-use/source-deleted",
        title: "a clone of a volume in use holds its data when its source is deleted right after CreateVolume has returned",
        spec: [IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005],
        needs: [NODE, CREATE_DELETE_VOLUME, CLONE_VOLUME, ROOT],
        refuted_by: ["hostpath/clones-damaged-with-their-source", "hostpath/deletes-copies-with-source"],
        duplicate_of: "in-use/clone",
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let (source, bytes) = (user.id().to_owned(), user.volume().volume.size_bytes);
        let (copy, [evidence]) = beside(CLONE, [&user], copy_of(cx, Source::volume(&source), bytes)).await?;
        user.end(CLONE).await?;
        // A driver may keep a source that has copies.
        cx.delete_volume(&source).await.any_answer().map(drop)?;
        judge_copy(cx, &evidence, copy, "a clone whose source was deleted").await.map(drop)
    }
}

pub(crate) static CHECKS: &[&Check] = &[&CLONE_IN_USE, &SNAPSHOT_DELETED, &SOURCE_DELETED];
