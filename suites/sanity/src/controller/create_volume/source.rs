//! Checks volumes that are made from snapshots and from other volumes.

use csi_harness::prelude::*;
use v1::VolumeContentSource as Source;

use super::super::common::{too_large, unsupported_size};

async fn copied(cx: &Cx, source: Source, origin: &v1::Volume, what: &str) -> CheckResult {
    let request = cx.create_volume_request().copy_of(source.clone(), origin.capacity_bytes);
    let copy = cx.create_volume(request.clone()).await.must(what)?;
    ensure!(
        !copy.volume_id.is_empty() && copy.volume_id != origin.volume_id,
        "the copy has no id of its own";
        of: &req::MSG_VOLUME_003,
        expected: format!("a volume_id other than {:?}", origin.volume_id),
        actual: format!("{:?}", copy.volume_id)
    );
    ensure!(
        copy.content_source.as_ref().is_none_or(|named| *named == source),
        "content_source of the copy names another source than the request";
        of: &req::MSG_VOLUME_017,
        expected: format!("content_source {}, or none", wire(&source)),
        actual: wires(&copy.content_source)
    );
    if copy.content_source.is_none() {
        cx.warn(
            Violation::new(
                "the reply for a copy does not name its source, so some callers reject the volume",
            )
            .of(&req::MSG_VOLUME_013)
            .expected(format!("content_source {}", wire(&source)))
            .actual("none"),
        );
    }
    let again = cx.create_volume(request).await.must("return the existing volume");
    let again = again.map_err(|stop| stop.of(&req::CTRL_CREATEVOL_002))?;
    if again.volume_id == copy.volume_id && again.content_source != copy.content_source {
        cx.warn(
            Violation::new("the content_source of a copy differs when CreateVolume is repeated")
                .of(&req::MSG_VOLUME_013)
                .expected(wires(&copy.content_source))
                .actual(wires(&again.content_source)),
        );
    }
    Ok(())
}

check! {
    /// A snapshot that cannot be restored is no backup.
    FROM_SNAPSHOT {
        id: "controller/create-volume/from-snapshot",
        title: "CreateVolume makes a volume from a snapshot",
        spec: [
            req::MSG_VOLSOURCE_004,
            req::MSG_VOLUME_013,
            req::MSG_VOLUME_017,
            req::MSG_VOLUME_003,
            req::CTRL_CREATEVOL_002,
        ],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT],
        refuted_by: [
            "create-volume-refuses-repeated-copies",
            "create-volume-refuses-sources",
            "create-volume-names-other-source",
            "create-volume-repeat-drops-source",
        ],
        replaces: [
            "Controller Service [Controller Server] CreateVolume should create volume from an existing source snapshot",
        ],
        access: Each,
    }
    async |cx| {
        let origin = cx.new_volume().await?;
        let source = cx.new_snapshot(&origin.volume_id).await?;
        copied(cx, Source::snapshot(&source.snapshot_id), &origin, "make a volume from a snapshot").await
    }
}

check! {
    /// CLONE_VOLUME promises that volumes can be copied.
    FROM_VOLUME {
        id: "controller/create-volume/from-volume",
        title: "CreateVolume makes a volume from another",
        spec: [
            req::MSG_VOLSOURCE_006,
            req::MSG_VOLUME_013,
            req::MSG_VOLUME_017,
            req::MSG_VOLUME_003,
            req::CTRL_CREATEVOL_002,
        ],
        needs: [CREATE_DELETE_VOLUME, CLONE_VOLUME],
        refuted_by: [
            "create-volume-refuses-repeated-copies",
            "create-volume-refuses-sources",
            "create-volume-names-other-source",
            "create-volume-repeat-drops-source",
        ],
        replaces: [
            "Controller Service [Controller Server] CreateVolume should create volume from an existing source volume",
        ],
        access: Each,
    }
    async |cx| {
        let origin = cx.new_volume().await?;
        copied(cx, Source::volume(&origin.volume_id), &origin, "make a volume from another").await
    }
}

/// Requests copies of a deleted source until the driver rejects them, because deletion may continue in the
/// background.
async fn refused_once_deleted(cx: &Cx, source: Source, what: &str) -> CheckResult {
    let copy = || cx.create_volume(cx.create_volume_request().copy_of(source.clone(), 0));
    let refused = cx.eventually(Settles::VolumeGone, || async {
        let reply = copy().once().await;
        if matches!(reply.code()?, Code::Aborted | Code::Unavailable) {
            return Ok(None);
        }
        match reply.may_be_refused(what, refused_with(Code::NotFound))? {
            Some(copy) => cx.delete_volume(&copy.volume_id).setup("a deleted copy").await.map(|_| None),
            None => Ok(Some(())),
        }
    });
    if refused.await?.is_none() {
        copy().await.must_be_refused(what, refused_with(Code::NotFound))?;
    }
    Ok(())
}

/// Requests a copy of a source that never existed.
async fn refused_unknown(cx: &Cx, source: Source, what: &str) -> CheckResult {
    let reply = cx.create_volume(cx.create_volume_request().copy_of(source, 0)).await;
    let refusal = refused_with(Code::NotFound)
        .or(Code::InvalidArgument, "a made-up id may not have the driver's format");
    let refused = reply.must_be_refused(what, refusal)?;
    if refused.message.is_empty() {
        cx.warn(
            Violation::new(format!("CreateVolume {what} is rejected without a message"))
                .of(&req::CTRL_CREATEVOL_037)
                .expected("a message that says what is wrong with the source")
                .actual(refused),
        );
    }
    Ok(())
}

check! {
    /// An empty volume in place of a copy is unnoticed data loss.
    DELETED_SNAPSHOT {
        id: "controller/create-volume/from-deleted-snapshot",
        title: "CreateVolume from a deleted snapshot is rejected",
        spec: [req::CTRL_CREATEVOL_039],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT],
        refuted_by: ["create-volume-ignores-missing-source", "create-volume-missing-source-as-internal"],
    }
    async |cx| {
        let id = cx.deleted_snapshot_id().await?;
        refused_once_deleted(cx, Source::snapshot(&id), "from a deleted snapshot").await
    }
}

check! {
    /// An empty volume in place of a copy is unnoticed data loss.
    DELETED_VOLUME {
        id: "controller/create-volume/from-deleted-volume",
        title: "CreateVolume from a deleted volume is rejected",
        spec: [req::CTRL_CREATEVOL_040],
        needs: [CREATE_DELETE_VOLUME, CLONE_VOLUME],
        refuted_by: ["create-volume-ignores-missing-source", "create-volume-missing-source-as-internal"],
    }
    async |cx| {
        let id = cx.deleted_volume_id().await?;
        refused_once_deleted(cx, Source::volume(&id), "from a deleted volume").await
    }
}

check! {
    /// A misspelt id in a restore must not result in an empty volume.
    UNKNOWN_SNAPSHOT {
        id: "controller/create-volume/from-unknown-snapshot",
        title: "CreateVolume from a snapshot that never existed is rejected with a reason",
        spec: [req::CTRL_CREATEVOL_039, req::CTRL_CREATEVOL_037],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT],
        refuted_by: [
            "create-volume-ignores-missing-source",
            "create-volume-missing-source-as-internal",
            "status-message-empty",
        ],
        replaces: [
            "Controller Service [Controller Server] CreateVolume should fail when the volume source snapshot is not found",
        ],
        duplicate_of: "controller/create-volume/from-deleted-snapshot",
    }
    async |cx| {
        refused_unknown(cx, Source::snapshot(cx.unknown_snapshot_id()), "from an unknown snapshot").await
    }
}

check! {
    /// A misspelt id in a clone must not result in an empty volume.
    UNKNOWN_VOLUME {
        id: "controller/create-volume/from-unknown-volume",
        title: "CreateVolume from a volume that never existed is rejected with a reason",
        spec: [req::CTRL_CREATEVOL_040, req::CTRL_CREATEVOL_037],
        needs: [CREATE_DELETE_VOLUME, CLONE_VOLUME],
        refuted_by: [
            "create-volume-ignores-missing-source",
            "create-volume-missing-source-as-internal",
            "status-message-empty",
        ],
        replaces: [
            "Controller Service [Controller Server] CreateVolume should fail when the volume source volume is not found",
        ],
        duplicate_of: "controller/create-volume/from-deleted-volume",
    }
    async |cx| {
        refused_unknown(cx, Source::volume(cx.unknown_volume_id()), "from an unknown volume").await
    }
}

/// Returns a source of known size: a snapshot if the driver takes any, otherwise a volume.
async fn sized_source(cx: &Cx) -> CheckResult<(Source, i64)> {
    let origin = cx.new_volume().await?;
    let (source, size) = if cx.target().capabilities().has(Capability::CreateDeleteSnapshot) {
        let taken = cx.new_snapshot(&origin.volume_id).await?;
        // The size of a snapshot may be that of an archive, which does not show the size of a volume that is unknown.
        let known = if origin.capacity_bytes == 0 { 0 } else { taken.size_bytes.max(origin.capacity_bytes) };
        (Source::snapshot(&taken.snapshot_id), known)
    } else {
        (Source::volume(&origin.volume_id), origin.capacity_bytes)
    };
    if size < 2 {
        return Err(Stop::skip("the driver does not report the size of its volumes"));
    }
    Ok((source, size))
}

/// The driver supports at least one kind of content source.
const SOURCES: Need = any_of(&[Capability::CreateDeleteSnapshot, Capability::CloneVolume]);

check! {
    /// A user restores a full volume into a larger one.
    LARGER_COPY {
        id: "controller/create-volume/larger-copy",
        title: "a copy that is requested larger than its source is larger, or the call fails with OUT_OF_RANGE",
        spec: [req::CTRL_CREATEVOL_008, req::MSG_CAPRANGE_005],
        needs: [CREATE_DELETE_VOLUME, SOURCES],
        refuted_by: ["create-volume-truncates-to-source"],
    }
    async |cx| {
        let (source, size) = sized_source(cx).await?;
        let larger = cx.expand_size_bytes();
        if larger <= size {
            return Err(Stop::skip(format!("--expand-size-bytes is not above the {} of the source", sized(size))));
        }
        let reply = cx.create_volume(cx.create_volume_request().copy_of(source, larger)).await;
        if let Some(copy) = reply.may_be_refused("larger than its source", too_large())? {
            ensure!(
                copy.capacity_bytes == 0 || copy.capacity_bytes >= larger,
                "the copy is smaller than requested";
                expected: format!("capacity_bytes of at least {}, or 0 for unknown", sized(larger).of_field()),
                actual: sized(copy.capacity_bytes).of_field()
            );
        }
        Ok(())
    }
}

check! {
    /// Data that do not fit would be lost.
    SMALLER_COPY {
        id: "controller/create-volume/smaller-copy",
        title: "CreateVolume with a limit below the size of the source is rejected with OUT_OF_RANGE",
        spec: [req::CTRL_CREATEVOL_048],
        needs: [CREATE_DELETE_VOLUME, SOURCES],
        refuted_by: [
            "create-volume-out-of-range-as-internal",
            "create-volume-out-of-range-as-invalid-argument",
            "create-volume-shrinks-source",
        ],
        duplicate_of: "controller/create-volume/limit-bytes",
    }
    async |cx| {
        let (source, size) = sized_source(cx).await?;
        let limit = size / 2;
        let copy_within = |limit_bytes| {
            let capacity_range = Some(v1::CapacityRange { required_bytes: 0, limit_bytes });
            v1::CreateVolumeRequest { capacity_range, ..cx.create_volume_request().copy_of(source.clone(), 0) }
        };
        let reply = cx.create_volume(copy_within(limit)).await;
        let what = "with a limit below the size of the source";
        let copy = match reply.may_be_refused(what, unsupported_size()) {
            Ok(Some(copy)) => copy,
            Ok(None) => return Ok(()),
            Err(stop) => {
                // A driver that rejects each request without required_bytes says nothing about the source.
                cx.create_volume(copy_within(size)).await.or_skip("a copy with only a limit may be rejected")?;
                return Err(stop);
            }
        };
        ensure!(
            copy.capacity_bytes <= limit,
            "the copy is larger than limit_bytes";
            expected: format!("OUT_OF_RANGE, since the source has {} and the limit is {}", sized(size), sized(limit)),
            actual: format!("a volume of {}", sized(copy.capacity_bytes))
        );
        if copy.capacity_bytes == 0 {
            // The size is unknown.
            return Ok(());
        }
        // The files may fit into less space than their file system had.
        cx.warn(
            Violation::new("a copy is reported as smaller than its source")
                .expected(format!("OUT_OF_RANGE, since the source has {} and the limit is {}", sized(size), sized(limit)))
                .actual(format!("OK with capacity_bytes {}", sized(copy.capacity_bytes).of_field())),
        );
        Ok(())
    }
}

check! {
    /// A driver need not clone, but must not return an empty volume instead.
    NO_CLONES {
        id: "controller/create-volume/unsupported-source-volume",
        title: "CreateVolume from a volume is rejected as invalid by a driver that does not clone",
        spec: [req::CTRL_CREATEVOL_036],
        needs: [CREATE_DELETE_VOLUME, lacks(Capability::CloneVolume)],
        refuted_by: ["invalid-argument-as-internal", "create-volume-drops-unsupported-sources"],
    }
    async |cx| {
        let origin = cx.new_volume().await?;
        let source = Source::volume(&origin.volume_id);
        let reply = cx.create_volume(cx.create_volume_request().copy_of(source.clone(), origin.capacity_bytes)).await;
        let refusal = refused_with(Code::InvalidArgument)
            .or_warn(Code::Unimplemented, "CreateVolume itself is implemented")
            .or_warn(Code::NotFound, "the volume exists");
        if let Some(copy) = reply.may_be_refused("from a volume, without CLONE_VOLUME,", refusal)?
            && copy.content_source.as_ref() != Some(&source)
        {
            // The data may still be there; only reading the volume would show it.
            cx.warn(
                Violation::new("CreateVolume from a volume succeeded without CLONE_VOLUME, and does not name that source")
                    .expected("INVALID_ARGUMENT, or a volume with that content_source")
                    .actual(format!("OK with content_source {}", wires(&copy.content_source))),
            );
        }
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &FROM_SNAPSHOT,
    &FROM_VOLUME,
    &DELETED_SNAPSHOT,
    &DELETED_VOLUME,
    &UNKNOWN_SNAPSHOT,
    &UNKNOWN_VOLUME,
    &LARGER_COPY,
    &SMALLER_COPY,
    &NO_CLONES,
];
