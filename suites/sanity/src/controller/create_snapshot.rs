//! CreateSnapshot records the state of a volume at one moment.

pub(crate) mod topology;

use csi_harness::prelude::*;
use futures_util::future::join_all;
use v1::VolumeContentSource as Source;

use super::common::{
    Named, complete_snapshot, cut_snapshot, list_refusal, ready_snapshot, same_snapshot, still_listed,
};
use crate::moment::{another_moment, is_of_these_days};

/// The length of the longest name that every driver must accept, in bytes.
const NAME_BYTES: usize = 128;
/// The number of equal concurrent calls.
const AT_ONCE: usize = 4;

check! {
    /// Without a name a repeated call cannot be distinguished from a new one.
    NO_NAME {
        id: "controller/create-snapshot/no-name",
        title: "CreateSnapshot without name is rejected",
        spec: [req::CTRL_CREATESNAP_017, req::GEN_ERR_004],
        needs: [CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["create-snapshot-accepts-empty-name"],
        replaces: ["CreateSnapshot [Controller Server] should fail when no name is provided"],
        runs: LosesData,
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let request =
            v1::CreateSnapshotRequest { name: String::new(), ..cx.create_snapshot_request(&volume.id) };
        let reply = cx.create_snapshot(request).await;
        reply.must_be_refused("without name", missing_field())?;
        Ok(())
    }
}

check! {
    /// A request without a volume can only be a mistake.
    NO_SOURCE {
        id: "controller/create-snapshot/no-source-volume-id",
        title: "CreateSnapshot without source_volume_id is rejected",
        spec: [req::CTRL_CREATESNAP_016, req::GEN_ERR_004],
        needs: [CREATE_DELETE_SNAPSHOT],
        refuted_by: ["create-snapshot-empty-source-as-not-found", "invalid-argument-as-ok"],
        replaces: ["CreateSnapshot [Controller Server] should fail when no source volume id is provided"],
    }
    async |cx| {
        let reply = cx.create_snapshot(cx.create_snapshot_request("")).await;
        reply.must_be_refused("without source_volume_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// The controller stores the answer and relies on it from then on.
    CREATES {
        id: "controller/create-snapshot/creates",
        title: "CreateSnapshot answers with a complete snapshot",
        spec: [
            req::CTRL_CREATESNAP_001,
            req::CTRL_CREATESNAP_021,
            req::MSG_SNAPSHOT_002,
            req::MSG_SNAPSHOT_003,
            req::MSG_SNAPSHOT_006,
            req::MSG_SNAPSHOT_007,
            req::MSG_SNAPSHOT_014,
        ],
        needs: [CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: [
            "create-snapshot-unimplemented",
            "create-snapshot-answers-without-snapshot",
            "snapshot-without-id",
            "snapshot-without-source",
            "snapshot-without-creation-time",
            "snapshot-from-1970",
            "snapshot-size-negative",
        ],
        plain: ["CreateSnapshot"],
        access: Each,
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let reply = cx.create_snapshot(cx.create_snapshot_request(&volume.id)).await;
        if let Answer::Refused(refused) = reply.answer()
            && refused.code == Code::InvalidArgument
        {
            // The request may lack a parameter or a secret that this driver demands, or have a wrong one.
            let why = "does it need --snapshot-parameters or other --secrets?";
            return Err(Stop::broken(format!("CreateSnapshot rejects a plain request: {refused}; {why}")));
        }
        let snapshot = reply.must("take a snapshot of a volume")?;
        ensure!(
            snapshot != v1::Snapshot::default(),
            "the answer has no snapshot";
            of: &req::CTRL_CREATESNAP_021,
            expected: "snapshot, with all mandatory fields",
            actual: "no snapshot, or an empty one"
        );
        complete_snapshot(&snapshot, &volume.id)?;
        is_of_these_days(cx, &req::MSG_SNAPSHOT_014, snapshot.creation_time.as_ref());
        Ok(())
    }
}

check! {
    /// If two snapshots share an id, a backup is lost.
    DISTINCT {
        id: "controller/create-snapshot/distinct-ids",
        title: "two snapshots of one volume have different ids",
        spec: [req::MSG_SNAPSHOT_003],
        needs: [CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["snapshot-id-from-source"],
        judges_ids_of: "CreateSnapshot",
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let first = cut_snapshot(cx, &volume.id).await?;
        let second = cut_snapshot(cx, &volume.id).await?;
        ensure!(
            first.snapshot_id != second.snapshot_id,
            "two snapshots with different names have the same snapshot_id";
            expected: "a different id for each",
            actual: format!("{:?} twice", first.snapshot_id)
        );
        Ok(())
    }
}

check! {
    /// The snapshotter repeats the call until the snapshot is ready.
    REPEATED {
        id: "controller/create-snapshot/repeated",
        title: "CreateSnapshot with a known name returns the snapshot made before",
        spec: [req::CTRL_CREATESNAP_002],
        needs: [CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: [
            "create-snapshot-forgets-names",
            "create-snapshot-refuses-repeats",
            "create-snapshot-repeat-changes-id",
            "create-snapshot-repeat-changes-time",
            "create-snapshot-time-is-now",
            "create-snapshot-repeat-drops-size",
        ],
        replaces: [
            "CreateSnapshot [Controller Server] should succeed when requesting to create a snapshot with already existing name and same source volume ID",
        ],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let request = cx.create_snapshot_request(&volume.id);
        let first = cx.create_snapshot(request.clone()).setup("a snapshot").await?;
        let again = cx.create_snapshot(request.clone()).await.must("return the existing snapshot")?;
        ensure!(
            again.snapshot_id == first.snapshot_id,
            "a name already in use returned a different snapshot";
            expected: format!("snapshot_id {:?}", first.snapshot_id),
            actual: format!("snapshot_id {:?}", again.snapshot_id)
        );
        same_snapshot(cx, &first, &again)?;
        if another_moment(cx, first.creation_time.as_ref(), again.creation_time.as_ref()).await {
            let later = cx.create_snapshot(request).await.must("return the existing snapshot")?;
            same_snapshot(cx, &first, &later)?;
        }
        Ok(())
    }
}

check! {
    /// A restore of this snapshot would bring back the data of another volume.
    OTHER_SOURCE {
        id: "controller/create-snapshot/other-source",
        title: "CreateSnapshot with the name of another volume's snapshot is ALREADY_EXISTS",
        spec: [req::CTRL_CREATESNAP_024],
        needs: [CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["create-snapshot-ignores-source-conflict", "create-snapshot-conflict-as-internal"],
        replaces: [
            "CreateSnapshot [Controller Server] should fail when requesting to create a snapshot with already existing name and different source volume ID",
        ],
    }
    async |cx| {
        let (one, other) = (cx.new_volume().await?, cx.new_volume().await?);
        let request = cx.create_snapshot_request(&one.volume_id);
        cx.create_snapshot(request.clone()).setup("a snapshot").await?;
        let conflict = v1::CreateSnapshotRequest { source_volume_id: other.volume_id, ..request };
        let reply = cx.create_snapshot(conflict).await;
        let what = "with the name of another volume's snapshot";
        reply.must_be_refused(what, refused_with(Code::AlreadyExists))?;
        Ok(())
    }
}

check! {
    /// The names of orchestrators are as long as the protocol permits.
    LONG_NAME {
        id: "controller/create-snapshot/long-name",
        title: "CreateSnapshot takes a name of 128 bytes",
        spec: [req::GEN_SIZE_003, req::CTRL_CREATESNAP_018],
        needs: [CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["create-snapshot-refuses-long-names"],
        replaces: [
            "CreateSnapshot [Controller Server] should succeed when creating snapshot with maximum-length name",
        ],
        runs: UnusualInput,
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let name = cx.unique_name_of_length(NAME_BYTES);
        let request = v1::CreateSnapshotRequest { name, ..cx.create_snapshot_request(&volume.id) };
        cx.create_snapshot(request).await.must("accept the longest name that the protocol allows")?;
        Ok(())
    }
}

check! {
    /// A driver that truncates names returns the snapshot of another moment.
    LONG_NAMES_DIFFER {
        id: "controller/create-snapshot/long-names-differ",
        title: "long names that differ in their last byte only are names of two snapshots",
        spec: [req::MSG_SNAPSHOT_003, req::CTRL_CREATESNAP_018],
        needs: [CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["create-snapshot-truncates-names"],
        runs: UnusualInput,
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let start = cx.unique_name_of_length(NAME_BYTES.min(cx.config().name_length_max) - 1);
        let mut ids = Vec::new();
        for end in ["a", "b"] {
            let name = format!("{start}{end}");
            let request = v1::CreateSnapshotRequest { name, ..cx.create_snapshot_request(&volume.id) };
            ids.push(cx.create_snapshot(request).await.or_skip("long names are rejected")?.snapshot_id);
        }
        ensure!(
            ids[0] != ids[1],
            "two long names that differ in the last byte got the same snapshot";
            expected: format!("two snapshots for \"{start}a\" and \"{start}b\""),
            actual: format!("both have snapshot_id {:?}", ids[0])
        );
        Ok(())
    }
}

check! {
    /// A back end may change names, but the driver must not confuse snapshots, nor fail with a server error.
    UNUSUAL_NAMES {
        id: "controller/create-snapshot/unusual-names",
        title: "CreateSnapshot takes any Unicode name",
        spec: [
            req::CTRL_CREATESNAP_018,
            req::MSG_SNAPSHOT_003,
            req::CTRL_LISTSNAP_002,
            req::CTRL_LISTSNAP_001,
        ],
        needs: [CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: [
            "create-snapshot-refuses-unicode-names",
            "list-snapshots-fails-on-unusual-names",
            "list-snapshots-fails-after-path-names",
        ],
        runs: UnusualInput,
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        cut_snapshot(cx, &volume.id).await?;
        let listed = list_refusal(cx, &Named::Snapshots).await?.is_none();
        let base = cx.unique_name();
        let (mut ids, mut refusals) = (Vec::new(), Vec::new());
        for tail in [" space", "ümlaut", "снимок", "快照", "📷", "a/b", "../up", "x.y_z@1", "'quoted\"$(x)"] {
            let name = format!("{base}{tail}");
            let request =
                v1::CreateSnapshotRequest { name: name.clone(), ..cx.create_snapshot_request(&volume.id) };
            match cx.create_snapshot(request).await.any_answer()? {
                Ok(snapshot) => {
                    // Another check reports an empty id, which identifies nothing.
                    ids.extend(Some(snapshot.snapshot_id).filter(|id| !id.is_empty()));
                    if listed {
                        still_listed(cx, &Named::Snapshots, &name).await?;
                    }
                }
                Err(refused) => refusals.push(format!("{name:?}: {refused}")),
            }
        }
        let made = ids.len();
        ids.sort_unstable();
        ids.dedup();
        ensure!(
            ids.len() == made,
            "different names lead to the same snapshot";
            of: &req::MSG_SNAPSHOT_003,
            expected: format!("{made} different ids"),
            actual: format!("{} different ids", ids.len())
        );
        ensure!(
            refusals.is_empty(),
            "names that the protocol allows are rejected";
            expected: "OK for any Unicode name without control characters",
            actual: refusals.join("; ")
        );
        Ok(())
    }
}

check! {
    /// A snapshot without data would be trusted until it is needed.
    DELETED_SOURCE {
        id: "controller/create-snapshot/deleted-source",
        title: "CreateSnapshot of a deleted volume is an error",
        spec: [req::CTRL_CREATESNAP_013, req::CTRL_CREATESNAP_004],
        needs: [CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["create-snapshot-ignores-missing-source", "create-snapshot-unknown-source-as-internal"],
    }
    async |cx| {
        let id = cx.deleted_volume_id().await?;
        // Deletion may go on in the background after OK.
        let refused = cx.eventually(Settles::VolumeGone, || async {
            let reply = cx.create_snapshot(cx.create_snapshot_request(&id)).once().await;
            Ok(reply.any_answer()?.err().filter(|no| !matches!(no.code, Code::Aborted | Code::Unavailable)))
        });
        let Some(refused) = refused.await? else {
            let reply = cx.create_snapshot(cx.create_snapshot_request(&id)).await;
            reply.must_be_refused("of a deleted volume", refused_with(Code::NotFound))?;
            return Ok(());
        };
        if refused.code == Code::InvalidArgument {
            // A driver that demands a parameter rejects each request.
            cut_snapshot(cx, &cx.node_volume().await?.id).await?;
        }
        ensure!(
            refused.code == Code::NotFound,
            "a snapshot of a deleted volume is rejected, but not with NOT_FOUND";
            of: &req::CTRL_CREATESNAP_004,
            expected: "NOT_FOUND",
            actual: refused
        );
        Ok(())
    }
}

check! {
    /// The snapshotter decides by the code whether to try again.
    UNKNOWN_SOURCE {
        id: "controller/create-snapshot/unknown-source",
        title: "CreateSnapshot of a volume that does not exist is NOT_FOUND",
        spec: [req::CTRL_CREATESNAP_004],
        needs: [CREATE_DELETE_SNAPSHOT],
        refuted_by: ["create-snapshot-unknown-source-as-internal"],
        duplicate_of: "controller/create-snapshot/deleted-source",
    }
    async |cx| {
        let reply = cx.create_snapshot(cx.create_snapshot_request(&cx.unknown_volume_id())).await;
        reply.must_be_refused("of an unknown volume", super::common::unknown_id())?;
        Ok(())
    }
}

check! {
    /// Parameters come from a class that an administrator wrote by hand.
    UNKNOWN_PARAMETER {
        id: "controller/create-snapshot/unknown-parameter",
        title: "CreateSnapshot ignores an unknown parameter or rejects it as invalid",
        spec: [req::CTRL_CREATESNAP_020],
        needs: [CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["invalid-argument-as-internal"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let mut request = cx.create_snapshot_request(&volume.id);
        request.parameters.insert("csi-sanity-no-such-parameter".to_owned(), "x".to_owned());
        let reply = cx.create_snapshot(request).await;
        reply.may_be_refused("with an unknown parameter", refused_with(Code::InvalidArgument))?;
        Ok(())
    }
}

check! {
    /// Restores start as soon as a snapshot is ready.
    READY_RESTORES {
        id: "controller/create-snapshot/ready-restores",
        title: "a volume can be made from a snapshot that is ready_to_use",
        spec: [req::CTRL_CREATESNAP_010, req::CTRL_CAPS_004, req::MSG_SNAPSHOT_001, req::MSG_SNAPSHOT_008],
        needs: [CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-refuses-snapshots"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let snapshot = ready_snapshot(cx, &cx.create_snapshot_request(&volume.volume_id)).await?;
        let request = cx.create_volume_request().copy_of(Source::snapshot(&snapshot.snapshot_id), snapshot.size_bytes);
        let restored = cx.create_volume(request).await;
        // If the driver answers that it does not support this, its snapshots are useless.
        let rule = match restored.code()? {
            Code::Unimplemented => &req::CTRL_CAPS_004,
            _ => &req::CTRL_CREATESNAP_010,
        };
        let restored = restored.must("create a volume from a snapshot that is ready").map_err(|stop| stop.of(rule))?;
        ensure!(
            restored.capacity_bytes == 0 || restored.capacity_bytes >= snapshot.size_bytes,
            "the volume is smaller than the snapshot that it was made from";
            of: &req::MSG_SNAPSHOT_001,
            expected: format!("capacity_bytes of at least {}", sized(snapshot.size_bytes).of_field()),
            actual: format!("capacity_bytes {}", sized(restored.capacity_bytes).of_field())
        );
        Ok(())
    }
}

check! {
    /// A snapshot that was ready must stay so until it is deleted.
    STAYS_READY {
        id: "controller/create-snapshot/stays-ready",
        title: "a snapshot that is ready_to_use stays ready",
        spec: [req::MSG_SNAPSHOT_008],
        needs: [CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["create-snapshot-repeat-not-ready"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let request = cx.create_snapshot_request(&volume.id);
        ready_snapshot(cx, &request).await?;
        let again = cx.create_snapshot(request).setup("the same snapshot from a repeated call").await?;
        ensure!(
            again.ready_to_use,
            "a snapshot that was ready is no longer ready";
            expected: "ready_to_use",
            actual: "ready_to_use false for the same name and source_volume_id"
        );
        Ok(())
    }
}

check! {
    /// A snapshotter that lost its connection repeats the call while the first one still runs.
    AT_THE_SAME_TIME {
        id: "controller/create-snapshot/at-the-same-time",
        title: "equal CreateSnapshot calls at the same time make one snapshot",
        spec: [req::CTRL_CREATESNAP_026, req::CTRL_CREATESNAP_002],
        needs: [CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["create-snapshot-forgets-names"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let request = cx.create_snapshot_request(&volume.id);
        let replies = join_all((0..AT_ONCE).map(|_| cx.create_snapshot(request.clone()).once())).await;
        let mut ids = Vec::new();
        for reply in replies {
            let refusal = refused_with(Code::Aborted)
                .or(Code::Unavailable, "the back end may be busy with the other call")
                .or(Code::ResourceExhausted, "the back end may limit calls");
            let answer = reply.may_be_refused("at the same time as an equal call", refusal)?;
            ids.extend(answer.map(|snapshot| snapshot.snapshot_id));
        }
        let last = match cx.create_snapshot(request.clone()).await.any_answer()? {
            Ok(snapshot) => snapshot,
            // The back end may still be busy with the calls that have ended.
            Err(_) => {
                let last = cx.create_snapshot(request).await.must("answer the call once the others have ended");
                last.map_err(|stop| stop.of(&req::CTRL_CREATESNAP_002))?
            }
        };
        ids.push(last.snapshot_id);
        let answers = ids.len();
        ids.sort_unstable();
        ids.dedup();
        ensure!(
            ids.len() == 1,
            "equal calls at the same time make several snapshots";
            expected: "one snapshot_id in all answers",
            actual: format!("{answers} answers with {} snapshot_ids: {ids:?}", ids.len())
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &NO_NAME,
    &NO_SOURCE,
    &CREATES,
    &DISTINCT,
    &REPEATED,
    &OTHER_SOURCE,
    &LONG_NAME,
    &LONG_NAMES_DIFFER,
    &UNUSUAL_NAMES,
    &DELETED_SOURCE,
    &UNKNOWN_SOURCE,
    &UNKNOWN_PARAMETER,
    &READY_RESTORES,
    &STAYS_READY,
    &AT_THE_SAME_TIME,
];
