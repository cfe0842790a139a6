//! Helpers of several checks: requests with unknown ids, volumes to publish, and comparisons of snapshots.

use csi_harness::client::reply::Refusal;
use csi_harness::prelude::*;
use csi_harness::text::encoding::moment;
use csi_ops::lifecycle::Lifecycle;
use csi_ops::malformed::unknown_fs_type;
use csi_ops::volume::TrackedVolume;

use crate::moment::same_moment;

/// Returns a volume with a made-up id, which does not exist.
pub(super) fn unknown_volume(cx: &Cx) -> NodeVolume {
    v1::Volume { volume_id: cx.unknown_volume_id(), ..Default::default() }.into()
}

/// Returns the permitted error for an id that no driver has made.
pub(crate) fn unknown_id() -> Refusal {
    refused_with(Code::NotFound)
        .or(Code::InvalidArgument, "the id is made up and may not have the driver's format")
}

/// Requires OK for a deletion of an object that never existed. INVALID_ARGUMENT is accepted as well, because a
/// made-up id may not have the driver's format.
pub(crate) fn succeeds_or_malformed<T>(reply: Reply<T>, what: &str) -> CheckResult {
    match reply.any_answer()? {
        Ok(_) | Err(Refused { code: Code::InvalidArgument, .. }) => Ok(()),
        Err(refused) => Err(Violation::new(format!("{what} is rejected"))
            .expected(
                "OK, or INVALID_ARGUMENT if the made-up id does not have the format of the driver's ids",
            )
            .actual(refused)
            .into()),
    }
}

/// Returns the permitted error for a size that the driver does not support. The general table requires
/// INVALID_ARGUMENT for an unsupported value ([`GEN_ERR_005`](req::GEN_ERR_005)), and the tables of the RPCs require
/// OUT_OF_RANGE; neither says which takes precedence.
pub(super) fn unsupported_size() -> Refusal {
    refused_with(Code::OutOfRange).or_warn(Code::InvalidArgument, "OUT_OF_RANGE is the code for sizes")
}

/// Returns the permitted error for a size that may exceed the free space.
pub(super) fn too_large() -> Refusal {
    unsupported_size().or(Code::ResourceExhausted, "the storage may be too small")
}

/// Repeats a request about a deleted object until the answer is NOT_FOUND, because deletion may continue in the
/// background after OK.
pub(crate) async fn must_become_unknown<'a, T: Send + 'a>(
    cx: &'a Cx,
    thing: Settles,
    what: &str,
    mut ask: impl FnMut() -> PendingCall<'a, T>,
) -> CheckResult {
    let refusal = || refused_with(Code::NotFound);
    let gone = cx.eventually(thing, || {
        let asked = ask().once();
        async move {
            let reply = asked.await;
            match reply.code()? {
                Code::Ok | Code::Aborted | Code::Unavailable => Ok(None),
                _ => reply.must_be_refused(what, refusal()).map(Some),
            }
        }
    });
    if gone.await?.is_none() {
        ask().await.must_be_refused(what, refusal())?;
    }
    Ok(())
}

/// Returns a snapshot once it is ready; skips after the configured time, because some drivers need hours.
pub(crate) async fn ready_snapshot(
    cx: &Cx,
    request: &v1::CreateSnapshotRequest,
) -> CheckResult<v1::Snapshot> {
    let ready = cx.ready_snapshot(request).await?;
    ready.ok_or_else(|| Stop::skip("the snapshot is not ready within the time to settle (settle-ms)"))
}

/// Returns a volume that can be published to the endpoint's node, and the id of that node.
pub(super) async fn publishable(cx: &Cx) -> CheckResult<(NodeVolume, String)> {
    let volume = cx.node_volume().await?;
    Ok((volume, cx.node_id().await?))
}

/// Judges one step of using a volume in a way that the driver confirmed.
fn as_said<T>(said: &str, reply: Reply<T>) -> CheckResult<T> {
    match reply.code()? {
        Code::Ok | Code::InvalidArgument | Code::FailedPrecondition | Code::Unimplemented => {
            reply.must(&format!("accept a volume with a capability that {said}"))
        }
        _ => reply.or_skip(&format!("it is not known whether a volume has a capability that {said}")),
    }
}

/// Publishes a volume on the node with a capability that the driver confirmed; `said` names the RPC in the failure,
/// behind "a capability that".
pub(super) async fn publish_as_said(
    cx: &Cx,
    volume: &NodeVolume,
    capability: &v1::VolumeCapability,
    said: &str,
) -> CheckResult {
    let new = TrackedVolume::new(cx, volume.clone());
    let mut used = TrackedVolume { capability: capability.clone(), ..new };
    for step in Lifecycle::of(cx).publication() {
        let request = used.request(cx, step).await?;
        used.record(as_said(said, request.send(cx).await)?);
    }
    Ok(())
}

/// Returns a capability that CreateVolume rejects as invalid, if one of the candidates is.
pub(super) async fn refused_capability(cx: &Cx) -> CheckResult<Option<v1::VolumeCapability>> {
    for capability in [
        unknown_fs_type(cx),
        cx.capability_for(AccessType::Block, Mode::SingleNodeWriter),
        cx.capability_for(AccessType::Mount, Mode::SingleNodeWriter),
        cx.capability_for(AccessType::Mount, Mode::MultiNodeMultiWriter),
        cx.capability_for(AccessType::Block, Mode::MultiNodeMultiWriter),
    ] {
        let request = v1::CreateVolumeRequest {
            volume_capabilities: vec![capability.clone()],
            ..cx.create_volume_request()
        };
        if let Err(Refused { code: Code::InvalidArgument, .. }) =
            cx.create_volume(request).await.any_answer()?
        {
            return Ok(Some(capability));
        }
    }
    Ok(None)
}

/// Returns a request to expand a volume to the configured size, as an orchestrator sends it.
pub(super) fn expand_request(cx: &Cx, volume_id: &str) -> v1::ControllerExpandVolumeRequest {
    v1::ControllerExpandVolumeRequest {
        volume_id: volume_id.to_owned(),
        capacity_range: Some(v1::CapacityRange { required_bytes: cx.expand_size_bytes(), limit_bytes: 0 }),
        volume_capability: Some(cx.capability()),
        ..Default::default()
    }
}

/// Returns a request to validate the capability with which volumes are made.
pub(super) fn validate_request(cx: &Cx, volume: &NodeVolume) -> v1::ValidateVolumeCapabilitiesRequest {
    // The parameters of pre-provisioned volumes are unknown.
    let created = cx.target().capabilities().has(Capability::CreateDeleteVolume);
    v1::ValidateVolumeCapabilitiesRequest {
        parameters: if created { cx.config().parameters.clone() } else { Default::default() },
        ..cx.validate_request(&volume.id, &volume.context)
    }
}

/// Returns a snapshot that may not be ready, because some back ends need hours for that.
pub(super) async fn cut_snapshot(cx: &Cx, source_volume_id: &str) -> CheckResult<v1::Snapshot> {
    cx.create_snapshot(cx.create_snapshot_request(source_volume_id)).setup("a snapshot").await
}

/// The list of named objects, if the driver has one, to find out whether a name breaks it.
pub(super) enum Named {
    Volumes,
    Snapshots,
}

/// Returns the error of the list, or `None` if it succeeds or does not exist.
pub(super) async fn list_refusal(cx: &Cx, named: &Named) -> CheckResult<Option<Refused>> {
    let has = |capability| cx.target().capabilities().has(capability);
    match named {
        Named::Volumes if has(Capability::ListVolumes) => {
            Ok(cx.call(v1::ListVolumesRequest::default()).await.any_answer()?.err())
        }
        Named::Snapshots if has(Capability::ListSnapshots) => {
            Ok(cx.call(v1::ListSnapshotsRequest::default()).await.any_answer()?.err())
        }
        Named::Volumes | Named::Snapshots => Ok(None),
    }
}

/// Returns a remark about a list that shows a change after the call that made it. The specification permits that.
pub(super) fn list_lags(what: &str) -> Violation {
    Violation::new(what)
        .expected("each list up to date once the call is answered, as callers expect")
        .actual("the list was correct only when it was read again")
}

/// Requires that the list still succeeds now that it has an object of this name.
pub(super) async fn still_listed(cx: &Cx, named: &Named, name: &str) -> CheckResult {
    let Some(refused) = list_refusal(cx, named).await? else { return Ok(()) };
    let (rpc, thing, rule) = match named {
        Named::Volumes => ("ListVolumes", "volume", &req::CTRL_LISTVOL_002),
        Named::Snapshots => ("ListSnapshots", "snapshot", &req::CTRL_LISTSNAP_002),
    };
    Err(Violation::new(format!("{rpc} fails because a {thing} named {name:?} exists"))
        .of(rule)
        .expected("OK, as before")
        .actual(refused)
        .into())
}

/// Checks the fields that every Snapshot message must have.
pub(super) fn complete_snapshot(snapshot: &v1::Snapshot, source_volume_id: &str) -> CheckResult {
    ensure!(
        !snapshot.snapshot_id.is_empty(),
        "the snapshot has no snapshot_id";
        of: &req::MSG_SNAPSHOT_003,
        expected: "an id",
        actual: wire(snapshot)
    );
    ensure!(
        snapshot.source_volume_id == source_volume_id,
        "the snapshot does not name the volume it was taken of";
        of: &req::MSG_SNAPSHOT_006,
        expected: format!("source_volume_id {source_volume_id:?}"),
        actual: format!("source_volume_id {:?}", snapshot.source_volume_id)
    );
    ensure!(
        snapshot.creation_time.is_some(),
        "the snapshot has no creation_time";
        of: &req::MSG_SNAPSHOT_007,
        expected: "the time at which the snapshot was taken",
        actual: "no creation_time"
    );
    ensure!(
        snapshot.size_bytes >= 0,
        "the snapshot has a negative size";
        of: &req::MSG_SNAPSHOT_002,
        expected: "size_bytes of 0 (unknown) or more",
        actual: format!("size_bytes {}", sized(snapshot.size_bytes).of_field())
    );
    Ok(())
}

/// Checks that two reports of a snapshot agree in their constant fields. It remarks on a size that is no longer
/// reported: zero means unknown, so a caller that restores would have to guess.
pub(super) fn same_snapshot(cx: &Cx, first: &v1::Snapshot, again: &v1::Snapshot) -> CheckResult {
    // The size may become known only once the snapshot is ready.
    let settled = first.ready_to_use && again.ready_to_use && first.size_bytes > 0;
    let described = |s: &v1::Snapshot| {
        format!(
            "snapshot_id {:?}, source_volume_id {:?}, creation_time {}, size_bytes {}",
            s.snapshot_id,
            s.source_volume_id,
            moment(s.creation_time.as_ref()),
            s.size_bytes
        )
    };
    let violation =
        |differs: &str| Violation::new(differs).expected(described(first)).actual(described(again));
    if settled && again.size_bytes == 0 {
        cx.warn(violation("size_bytes of a snapshot is 0, but was set in an earlier response"));
    }
    let differs = if first.snapshot_id != again.snapshot_id {
        "one snapshot is reported with two ids"
    } else if first.source_volume_id != again.source_volume_id {
        "the source_volume_id of a snapshot has changed"
    } else if !same_moment(first.creation_time.as_ref(), again.creation_time.as_ref()) {
        "the creation_time of a snapshot has changed"
    } else if settled && again.size_bytes != 0 && first.size_bytes != again.size_bytes {
        "the size of a snapshot that is ready has changed"
    } else {
        return Ok(());
    };
    Err(violation(differs).into())
}
