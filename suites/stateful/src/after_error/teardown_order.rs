//! Things undone in an unusual order: whichever calls the driver does, the right order undoes the rest.

use csi_harness::prelude::*;
use csi_model::rules::AFTER_ERROR_004;
use csi_ops::lifecycle::Lifecycle;
use csi_ops::operation::Operation::{self, *};
use csi_ops::volume::TrackedVolume;
use v1::VolumeContentSource as Source;

/// Calls for a volume in use that come before the right order.
const UNUSUAL: [&[Operation]; 7] = [
    &[NodeUnstageVolume],
    &[ControllerUnpublishVolume],
    &[DeleteVolume],
    &[NodeUnpublishVolume, ControllerUnpublishVolume],
    &[NodeUnpublishVolume, DeleteVolume],
    &[NodeUnpublishVolume, NodeUnstageVolume, DeleteVolume],
    &[DeleteVolume, ControllerUnpublishVolume, NodeUnstageVolume],
];

check! {
    /// Nodes are drained by force, finalizers are removed by hand, and controllers restart in the middle of
    /// it. Calls that are rejected then must not be rejected forever.
    pub(super) UNUSUAL_ORDER {
        id: "after-error/unusual-order",
        title: "a volume that was detached or deleted too early can be released by the right order of calls afterwards",
        spec: [AFTER_ERROR_004],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["delete-volume-refusal-blocks", "node-unstage-refusal-blocks", "node-unstage-needs-attachment"],
        runs: UnusualInput,
        access: Each,
        varies: true,
    }
    async |cx| {
        if NODE.unmet(cx.target(), cx.access()).is_none() {
            for unusual in UNUSUAL {
                undone(cx, unusual).await?;
            }
        }
        dependents(cx).await
    }
}

/// Undoes a volume in use in an unusual order, and then in the right one.
async fn undone(cx: &Cx, unusual: &[Operation]) -> CheckResult {
    if unusual.iter().any(|operation| !operation.is_offered(cx)) {
        return Ok(());
    }
    let scope = cx.scope();
    let mut volume = TrackedVolume::new(&scope, scope.node_volume().await?);
    volume.reach(&scope, NodeUnpublishVolume).await?;
    let right: Vec<Operation> = Lifecycle::of(cx).teardown().collect();
    let mut done = Vec::new();
    let mut story = Vec::new();
    for operation in unusual {
        let request = volume.request(&scope, *operation).await?;
        let answer = request.send(&scope).await.any_answer()?;
        story.push(match &answer {
            Ok(_) => format!("{}: OK", operation.method()),
            Err(refused) => format!("{}: {refused}", operation.method()),
        });
        done.extend(answer.is_ok().then_some(*operation));
    }
    for (at, operation) in right.iter().enumerate() {
        let request = volume.request(&scope, *operation).await?;
        let Err(refused) = request.send(&scope).await.any_answer()? else { continue };
        // A driver may know nothing about a volume that it has deleted. The mounts below show what is left of it. Other checks judge calls that
        // are repeated.
        if done.contains(&DeleteVolume) || done.contains(operation) {
            continue;
        }
        let violation =
            Violation::new(format!("{} fails after an unusual order of calls", operation.method()))
                .expected("OK: in the right order, everything can be undone")
                .actual(format!("{refused}, after {}", story.join(", ")))
                .reproduction(cx.calls_about(&volume.volume.id));
        scope.undo_best_effort().await;
        // The driver may need what the caller has undone too early.
        let is_callers = right[at + 1..].iter().any(|later| done.contains(later));
        return match is_callers {
            true => {
                cx.warn(violation);
                Ok(())
            }
            false => Err(violation.into()),
        };
    }
    if cx.mounts_at(&volume.target_path) > 0 {
        // The volume was deleted under its workload. A driver may refuse that call, and this one did not.
        cx.warn(
            Violation::new(
                "a volume is still mounted after everything was undone in an unusual order of calls",
            )
            .expected(
                "no mount: DeleteVolume of a volume in use is rejected, or what is left of it can be undone",
            )
            .actual(format!("{}, and then the right order", story.join(", ")))
            .reproduction(cx.calls_about(&volume.volume.id)),
        );
    }
    let places = [volume.target_path.as_str(), volume.staging_path.as_str()];
    if cx.shares_files_with_driver().await {
        cx.unmount_below(places.into_iter().filter(|place| !place.is_empty()))?;
    }
    scope.undo().await
}

/// Deletes sources before what was made from them: allowed or not, it can be gone in the end, and until then what is left works.
async fn dependents(cx: &Cx) -> CheckResult {
    let has = |capability| cx.target().capabilities().has(capability);
    if has(Capability::CreateDeleteSnapshot) {
        let scope = cx.scope();
        let volume = scope.node_volume().await?;
        let snapshot_id = scope.new_snapshot(&volume.id).await?.snapshot_id;
        let copy = copy(&scope, &volume, Source::snapshot(&snapshot_id)).await?;
        let deleted = scope.delete_volume(&volume.id).await.any_answer()?.is_ok();
        let snapshot_gone = scope.delete_snapshot(&snapshot_id).await.any_answer()?.is_ok();
        usable(&scope, &copy, "its snapshot and the source of that").await?;
        goes(scope.delete_volume(&copy.id).await, "a copy")?;
        if !snapshot_gone {
            goes(
                scope.delete_snapshot(&snapshot_id).await,
                "a snapshot on which nothing depends any longer",
            )?;
        }
        if !deleted {
            goes(scope.delete_volume(&volume.id).await, "a volume on which nothing depends any longer")?;
        }
        scope.undo().await?;
    }
    if has(Capability::CloneVolume) {
        let scope = cx.scope();
        let volume = scope.node_volume().await?;
        let copy = copy(&scope, &volume, Source::volume(&volume.id)).await?;
        let deleted = scope.delete_volume(&volume.id).await.any_answer()?.is_ok();
        usable(&scope, &copy, "its source").await?;
        goes(scope.delete_volume(&copy.id).await, "a copy")?;
        if !deleted {
            goes(scope.delete_volume(&volume.id).await, "a volume on which nothing depends any longer")?;
        }
        scope.undo().await?;
    }
    Ok(())
}

async fn copy(cx: &Cx, volume: &NodeVolume, source: Source) -> CheckResult<NodeVolume> {
    let request = cx.create_node_volume_request().await?.copy_of(source, volume.size_bytes);
    Ok(cx.create_volume(request).setup("a copy").await?.into())
}

/// A copy stays usable, whatever happened to its source.
async fn usable(cx: &Cx, copy: &NodeVolume, deleted: &str) -> CheckResult {
    match cx.call(cx.validate_request(&copy.id, &copy.context)).await.any_answer()? {
        Err(refused) if refused.code == Code::NotFound => {
            Err(Violation::new(format!("a copy is gone after the deletion of {deleted} was requested"))
                .expected("the copy, as it was")
                .actual(format!("ValidateVolumeCapabilities answers {refused}"))
                .into())
        }
        _ => Ok(()),
    }
}

fn goes<T>(reply: Reply<T>, what: &str) -> CheckResult {
    let rpc = reply.rpc();
    match reply.any_answer()? {
        Ok(_) => Ok(()),
        Err(refused) => {
            Err(Violation::new(format!("{rpc} fails for {what}, after an unusual order of calls"))
                .expected("OK: in the right order, everything can be deleted")
                .actual(refused)
                .into())
        }
    }
}
