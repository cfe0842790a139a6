//! DeleteVolume deletes the volume, however often it is called.

use csi_harness::prelude::*;
use v1::VolumeContentSource as Source;

use super::common::{succeeds_or_malformed, validate_request};
use crate::node::published;

async fn validate(cx: &Cx, volume: &v1::Volume) -> Reply<v1::ValidateVolumeCapabilitiesResponse> {
    cx.call(validate_request(cx, &volume.clone().into())).await
}

check! {
    /// The call has only the id, because the caller may have no other data of the volume.
    WORKS {
        id: "controller/delete-volume/works",
        title: "DeleteVolume deletes a volume",
        spec: [req::CTRL_DELETEVOL_001],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["delete-volume-unimplemented"],
        replaces: [
            "Controller Service [Controller Server] DeleteVolume should return appropriate values (no optional values added)",
        ],
        plain: ["DeleteVolume"],
        access: Each,
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        cx.delete_volume(&volume.volume_id).await.must("delete an unused volume")?;
        Ok(())
    }
}

check! {
    /// An empty id must not match the first volume of the back end.
    NO_ID {
        id: "controller/delete-volume/no-volume-id",
        title: "DeleteVolume without volume_id is rejected",
        spec: [req::CTRL_DELETEVOL_008, req::GEN_ERR_004],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["delete-volume-accepts-empty-id", "invalid-argument-as-internal"],
        replaces: [
            "Controller Service [Controller Server] DeleteVolume should fail when no volume id is provided",
        ],
        runs: LosesData,
    }
    async |cx| {
        let reply = cx.delete_volume("").await;
        reply.must_be_refused("without volume_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// An orchestrator without an answer repeats the call until it gets OK.
    REPEATED {
        id: "controller/delete-volume/repeated",
        title: "DeleteVolume of a deleted volume succeeds",
        spec: [req::CTRL_DELETEVOL_003],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["delete-volume-unknown-not-found", "delete-volume-unknown-internal"],
    }
    async |cx| {
        let id = cx.deleted_volume_id().await?;
        for _ in 0..2 {
            cx.delete_volume(&id).await.must("succeed for a volume that is deleted already")?;
        }
        Ok(())
    }
}

check! {
    /// A driver need not remember whether the volume ever existed.
    UNKNOWN {
        id: "controller/delete-volume/unknown-volume",
        title: "DeleteVolume of a volume that never existed succeeds",
        spec: [req::CTRL_DELETEVOL_004],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["delete-volume-unknown-not-found", "delete-volume-unknown-internal"],
        replaces: [
            "Controller Service [Controller Server] DeleteVolume should succeed when an invalid volume id is used",
        ],
    }
    async |cx| {
        let reply = cx.delete_volume(&cx.unknown_volume_id()).await;
        succeeds_or_malformed(reply, "DeleteVolume of a volume that never existed")
    }
}

check! {
    /// Drivers that make paths from ids may leave their directory, or crash.
    PATH {
        id: "controller/delete-volume/path-as-volume-id",
        title: "DeleteVolume of an id that looks like a path is answered",
        spec: [req::GEN_ERR_001, req::CTRL_DELETEVOL_004],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["delete-volume-crashes-on-paths"],
        runs: CrashProne,
    }
    async |cx| {
        // These paths do not exist, so a driver that follows them does no harm.
        for start in ["../", "/", "./", "a/../../"] {
            let id = format!("{start}{}", cx.unique_name());
            let _ = cx.delete_volume(&id).await.any_answer()?;
        }
        Ok(())
    }
}

check! {
    /// The storage would still cost money, and the data would still exist.
    GONE {
        id: "controller/delete-volume/gone",
        title: "a deleted volume is no longer listed or found",
        spec: [req::CTRL_DELETEVOL_002, req::CTRL_VALIDATE_018],
        needs: [CONTROLLER, CREATE_DELETE_VOLUME],
        refuted_by: ["delete-volume-keeps-volume"],
        duplicate_of: "controller/validate-volume-capabilities/deleted-volume",
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        cx.delete_volume(&volume.volume_id).setup("a deleted volume").await?;
        let unknown = cx.eventually(Settles::VolumeGone, || async {
            let refused = validate(cx, &volume).await.any_answer()?.is_err();
            Ok(refused.then_some(()))
        });
        ensure!(
            unknown.await?.is_some(),
            "a deleted volume is still found";
            of: &req::CTRL_VALIDATE_018,
            expected: "NOT_FOUND from ValidateVolumeCapabilities once the deletion is complete",
            actual: "still OK after the time to settle (settle-ms)"
        );
        if !cx.target().capabilities().has(Capability::ListVolumes) {
            return Ok(());
        }
        let unlisted = cx.eventually(Settles::VolumeUnlisted, || async {
            let listed = cx.list_volumes().await?.into_iter().filter_map(|entry| entry.volume);
            Ok((!listed.into_iter().any(|listed| listed.volume_id == volume.volume_id)).then_some(()))
        });
        ensure!(
            unlisted.await?.is_some(),
            "a deleted volume is still listed";
            expected: "a list without it once the deletion is complete",
            actual: "the volume still in ListVolumes after the time to settle (settle-ms)"
        );
        Ok(())
    }
}

check! {
    /// A name belongs to a volume only while the volume exists.
    NAME_IS_FREE {
        id: "controller/delete-volume/name-is-free",
        title: "the name of a deleted volume can be used again",
        spec: [req::CTRL_DELETEVOL_002],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["delete-volume-keeps-name"],
    }
    async |cx| {
        let request = cx.create_volume_request();
        let volume = cx.create_volume(request.clone()).setup("a volume").await?;
        cx.delete_volume(&volume.volume_id).setup("a deleted volume").await?;
        let mut last = None;
        let again = cx.eventually(Settles::NameFree, || async { Ok(cx.create_volume(request.clone()).await.any_answer()?.ok()) });
        if again.await?.is_none() {
            last = cx.create_volume(request.clone()).await.any_answer()?.err();
        }
        match last {
            None => Ok(()),
            Some(refused) => Err(Violation::new("the name of a deleted volume cannot be used again")
                .expected("OK once the deletion is complete")
                .actual(format!("{refused} also after the time to settle (settle-ms)"))
                .into()),
        }
    }
}

check! {
    /// A backup must survive the original.
    SNAPSHOTS_SURVIVE {
        id: "controller/delete-volume/with-snapshots",
        title: "a volume with snapshots is deleted without them, or the deletion is rejected and both stay",
        spec: [
            req::CTRL_DELETEVOL_006,
            req::CTRL_DELETEVOL_007,
            req::CTRL_DELETEVOL_011,
            req::CTRL_DELETEVOL_005,
        ],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT],
        refuted_by: [
            "delete-volume-with-snapshots-as-internal",
            "delete-volume-deletes-snapshots",
            "delete-volume-demands-no-snapshots",
        ],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let snapshot = cx.new_snapshot(&volume.volume_id).await?;
        let was_listed = is_listed(cx, &snapshot).await?;
        let reply = cx.delete_volume(&volume.volume_id).await;
        let (deleted, refused) = match reply.any_answer()? {
            Ok(_) => (true, None),
            Err(refused) => (false, Some(refused)),
        };
        if let Some(refused) = refused {
            ensure!(
                refused.code == Code::FailedPrecondition,
                "the deletion of a volume with snapshots is rejected with the wrong code";
                of: &req::CTRL_DELETEVOL_007,
                expected: "OK, or FAILED_PRECONDITION",
                actual: &refused
            );
            cx.warn(
                Violation::new("a volume cannot be deleted while there are snapshots of it")
                    .of(&req::CTRL_DELETEVOL_005)
                    .expected("snapshots that live independently of the volume, and OK")
                    .actual(refused),
            );
        }
        if !deleted {
            return untouched(cx, &volume).await.map_err(|stop| stop.of(&req::CTRL_DELETEVOL_007));
        }
        let copy = cx.create_volume_request().copy_of(Source::snapshot(&snapshot.snapshot_id), volume.capacity_bytes);
        cx.create_volume(copy).await.must("make a volume from a snapshot whose volume was deleted")?;
        // Another check judges a list that did not have the snapshot while its volume was there.
        if was_listed { still_listed(cx, &snapshot).await } else { Ok(()) }
    }
}

/// Checks that a rejected deletion leaves the volume unchanged.
async fn untouched(cx: &Cx, volume: &v1::Volume) -> CheckResult {
    match validate(cx, volume).await.any_answer()? {
        Err(refused) if refused.code == Code::NotFound => {
            Err(Violation::new("a volume is gone although its deletion was rejected")
                .expected("the volume, untouched")
                .actual(format!("ValidateVolumeCapabilities answers {refused}"))
                .into())
        }
        // Any other rejection says nothing of the volume.
        _ => Ok(()),
    }
}

async fn still_listed(cx: &Cx, snapshot: &v1::Snapshot) -> CheckResult {
    // Lists may lag, also where nothing has changed for this snapshot.
    let found =
        cx.eventually(Settles::SnapshotListed, || async { Ok(is_listed(cx, snapshot).await?.then_some(())) });
    ensure!(
        found.await?.is_some(),
        "a snapshot is no longer listed after its volume was deleted with OK";
        expected: format!("snapshot {:?} in ListSnapshots", snapshot.snapshot_id),
        actual: "still missing after the time to settle (settle-ms)"
    );
    Ok(())
}

/// Returns false if the driver does not list snapshots at all.
async fn is_listed(cx: &Cx, snapshot: &v1::Snapshot) -> CheckResult<bool> {
    if !cx.target().capabilities().has(Capability::ListSnapshots) {
        return Ok(false);
    }
    let only = v1::ListSnapshotsRequest { snapshot_id: snapshot.snapshot_id.clone(), ..Default::default() };
    let listed = cx.list_snapshots(only).await?;
    Ok(listed.iter().any(|listed| listed.snapshot_id == snapshot.snapshot_id))
}

check! {
    /// The deletion would remove a volume under a running workload.
    IN_USE {
        id: "controller/delete-volume/in-use",
        title: "DeleteVolume of a volume that is attached is rejected with FAILED_PRECONDITION",
        spec: [req::CTRL_DELETEVOL_011],
        needs: [CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, NODE],
        refuted_by: ["delete-volume-in-use-as-internal", "delete-volume-deletes-in-use"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        cx.attached(volume.clone().into()).await?;
        let reply = cx.delete_volume(&volume.volume_id).await;
        let refusal = || refused_with(Code::FailedPrecondition);
        if reply.may_be_refused("of a volume that is attached", refusal())?.is_none() {
            return untouched(cx, &volume).await;
        }
        // A driver may detach and delete a volume that no node uses.
        cx.warn(
            Violation::new("a volume was deleted while it was attached to a node")
                .expected("FAILED_PRECONDITION")
                .actual("OK"),
        );
        let volume = published(cx).await?.staged.attached.volume;
        let reply = cx.delete_volume(&volume.id).await;
        if reply.may_be_refused("of a volume that a node uses", refusal())?.is_none() {
            return Ok(());
        }
        let gone = cx.call(validate_request(cx, &volume)).await.code()? == Code::NotFound;
        ensure!(
            !gone,
            "a volume was deleted while it was published on a node";
            expected: "FAILED_PRECONDITION",
            actual: "OK, and ValidateVolumeCapabilities answers NOT_FOUND"
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] =
    &[&WORKS, &NO_ID, &REPEATED, &UNKNOWN, &PATH, &GONE, &NAME_IS_FREE, &SNAPSHOTS_SURVIVE, &IN_USE];
