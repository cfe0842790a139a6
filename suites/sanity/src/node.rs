//! Checks of the Node service.

pub(crate) mod node_expand_volume;
pub(crate) mod node_get_capabilities;
pub(crate) mod node_get_info;
pub(crate) mod node_get_storage_health;
pub(crate) mod node_get_volume_health;
pub(crate) mod node_get_volume_stats;
pub(crate) mod node_publish_volume;
pub(crate) mod node_stage_volume;
pub(crate) mod node_unpublish_volume;
pub(crate) mod node_unstage_volume;

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use v1::volume_capability::AccessMode;

/// The length of the longest path that every driver must accept.
pub(crate) const PATH_BYTES_MAX: usize = 128;
/// The length of long paths below the directories of an orchestrator.
pub(crate) const PATH_BYTES_LONG: usize = 240;

/// Makes a volume that is attached to this node.
pub(crate) async fn attached(cx: &Cx) -> CheckResult<Attached> {
    cx.attached(cx.node_volume().await?).await
}

/// Makes a volume that is staged on this node, if the driver stages volumes.
pub(crate) async fn staged(cx: &Cx) -> CheckResult<Staged> {
    cx.staged(attached(cx).await?).await
}

/// Makes a volume that is published on this node.
pub(crate) async fn published(cx: &Cx) -> CheckResult<Published> {
    cx.published(staged(cx).await?).await
}

/// Makes a volume that is staged at a path of some length; skips if the driver rejects that.
pub(crate) async fn staged_at_path_of(cx: &Cx, bytes: usize) -> CheckResult<Staged> {
    let staging_path = cx.staging_path_of_length(bytes).await?;
    let attached = attached(cx).await?;
    let stage = cx.node_stage(cx.stage_request(&attached, &staging_path)).await;
    stage.or_skip("staging at so long a path is judged elsewhere")?;
    Ok(Staged { attached, staging_path })
}

/// Makes a volume that is published at a path of some length; skips if the driver rejects that.
pub(crate) async fn published_at_path_of(cx: &Cx, bytes: usize) -> CheckResult<Published> {
    let target_path = cx.target_path_of_length(bytes).await?;
    let staged = staged(cx).await?;
    let publish = cx.node_publish(cx.publish_request(&staged, &target_path)).await;
    publish.or_skip("publishing at so long a path is judged elsewhere")?;
    Ok(Published { staged, target_path })
}

/// Returns whether the driver stages volumes.
pub(crate) fn stages(cx: &Cx) -> bool {
    cx.target().capabilities().has(Capability::StageUnstageVolume)
}

/// Makes and deletes a volume; returns a made-up one if the driver deletes no volumes.
pub(crate) async fn gone(cx: &Cx) -> CheckResult<Attached> {
    if !cx.target().capabilities().has(Capability::CreateDeleteVolume) {
        let volume = NodeVolume { id: cx.unknown_volume_id(), ..Default::default() };
        return Ok(Attached { volume, publish_context: Default::default() });
    }
    cx.deleted_volume().await
}

/// Returns the permitted errors for undoing calls about a volume that is [`gone`].
fn gone_refusal(cx: &Cx) -> csi_harness::client::reply::Refusal {
    let refusal = refused_with(Code::NotFound);
    if cx.target().capabilities().has(Capability::CreateDeleteVolume) {
        refusal
    } else {
        refusal.or(Code::InvalidArgument, "the id is made up")
    }
}

/// Makes and stages a volume for one access mode; skips if the driver does not offer it.
pub(crate) async fn staged_for(cx: &Cx, mode: Mode) -> CheckResult<Staged> {
    staged_with(cx, cx.capability_with_mode(mode)).await
}

/// Makes and stages a volume for one use; skips if the driver does not offer it.
pub(crate) async fn staged_with(cx: &Cx, capability: v1::VolumeCapability) -> CheckResult<Staged> {
    let because = "the driver does not offer the access mode";
    let mut volume = TrackedVolume { capability, ..TrackedVolume::new(cx, NodeVolume::default()) };
    for step in [Operation::CreateVolume, Operation::ControllerPublishVolume, Operation::NodeStageVolume] {
        // A driver may support the creation of volumes without advertising it.
        if step == Operation::CreateVolume || step.is_offered(cx) {
            let request = volume.request(cx, step).await?;
            volume.record(request.send(cx).await.or_skip(because)?);
        }
    }
    Ok(volume.published().staged)
}

/// Returns the other access type if ValidateVolumeCapabilities denies it for the volume; otherwise skips.
pub(crate) async fn unsupported_access(cx: &Cx, volume: &NodeVolume) -> CheckResult<v1::VolumeCapability> {
    let other = cx.access().other();
    let capability = cx.capability_for(other, Mode::SingleNodeWriter);
    let request = v1::ValidateVolumeCapabilitiesRequest {
        volume_capabilities: vec![capability.clone()],
        ..cx.validate_request(&volume.id, &volume.context)
    };
    let verdict =
        cx.call(request).await.or_skip("it is not known whether the volume has the other access type")?;
    match verdict.confirmed {
        Some(_) => Err(Stop::skip(format!("the volume also supports {other} access"))),
        None => Ok(capability),
    }
}

/// Returns capabilities that each lack one part, with its name and the rule that requires it.
pub(crate) fn incomplete(
    capability: &v1::VolumeCapability,
) -> [(&'static str, v1::VolumeCapability, &'static Requirement); 3] {
    let unknown = AccessMode { mode: Mode::Unknown.into() };
    [
        (
            "with a volume_capability that names neither block nor mount",
            v1::VolumeCapability { access_type: None, ..capability.clone() },
            &req::MSG_VOLCAP_012,
        ),
        (
            "with a volume_capability without access_mode",
            v1::VolumeCapability { access_mode: None, ..capability.clone() },
            &req::MSG_VOLCAP_013,
        ),
        (
            "with access mode UNKNOWN",
            v1::VolumeCapability { access_mode: Some(unknown), ..capability.clone() },
            &req::MSG_VOLCAP_010,
        ),
    ]
}

/// Judges an answer about a missing volume. A node plugin may not know whether a volume exists, so OK is only a
/// warning, and most errors are accepted. INVALID_ARGUMENT is wrong for an id of the driver itself, because then the
/// volume's absence is the only error.
pub(crate) fn refused_or_stateless<T>(cx: &Cx, reply: Reply<T>, what: &str) -> CheckResult {
    match reply.any_answer()? {
        Ok(_) => cx.warn(
            Violation::new(format!("{what} succeeded"))
                .expected("NOT_FOUND, unless the node plugin cannot know which volumes exist")
                .actual("OK"),
        ),
        Err(refused) => not_malformed(cx, &refused, what)?,
    }
    Ok(())
}

/// Requires that the error for a volume that is [`gone`] does not call the request malformed, unless the id is made
/// up.
pub(crate) fn not_malformed(cx: &Cx, refused: &Refused, what: &str) -> CheckResult {
    let is_made_up = !cx.target().capabilities().has(Capability::CreateDeleteVolume);
    ensure!(
        is_made_up || refused.code != Code::InvalidArgument,
        "{what} is rejected as malformed, although the id is the driver's own";
        expected: "NOT_FOUND",
        actual: refused
    );
    Ok(())
}

pub(crate) const CHECKS: &[&[&Check]] = &[
    node_get_capabilities::CHECKS,
    node_get_info::CHECKS,
    node_stage_volume::CHECKS,
    node_unstage_volume::CHECKS,
    node_publish_volume::CHECKS,
    node_publish_volume::fields::CHECKS,
    node_publish_volume::repeats::CHECKS,
    node_publish_volume::target::CHECKS,
    node_publish_volume::modes::CHECKS,
    node_publish_volume::paths::CHECKS,
    node_unpublish_volume::CHECKS,
    node_get_volume_stats::CHECKS,
    node_get_volume_stats::fields::CHECKS,
    node_get_volume_stats::paths::CHECKS,
    node_get_volume_health::CHECKS,
    node_get_storage_health::CHECKS,
    node_expand_volume::CHECKS,
    node_expand_volume::fields::CHECKS,
    node_expand_volume::refusals::CHECKS,
    node_expand_volume::paths::CHECKS,
];
