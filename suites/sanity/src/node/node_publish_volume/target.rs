//! Checks what a workload finds at the target path.

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;

use crate::node::{published, staged_with};

check! {
    /// The orchestrator makes only the parent directory; a target directory that it made itself would hide a
    /// missing mount.
    MAKES_TARGET {
        id: "node/node-publish-volume/makes-target",
        title: "NodePublishVolume makes the target path, a mounted directory or a block device",
        spec: [req::NODE_PUBLISH_027, req::NODE_PUBLISH_026],
        needs: [NODE, VOLUME],
        refuted_by: ["node-publish-makes-nothing", "node-publish-makes-other-kind"],
        access: Each,
    }
    async |cx| {
        cx.need_path_kind()?;
        let published = published(cx).await?;
        let path = &published.target_path;
        let (rule, expected) = asked_for(cx.access());
        let kind = cx.path_kind(path).await?;
        if kind == PathKind::NotFound {
            let actual = "nothing, as seen by the tests; configure `paths` if the driver has another file system";
            let message = format!("NodePublishVolume returned OK, but nothing is at the target path {path}");
            let missing = Violation::new(message).of(rule).expected(expected).actual(actual);
            if cx.shares_files_with_driver().await {
                return Err(missing.into());
            }
            // If it is unknown whose files the tests see, the driver may have made the target elsewhere.
            cx.warn(missing);
            return Ok(());
        }
        let wrong = match cx.access() {
            AccessType::Mount => matches!(kind, PathKind::File | PathKind::Device),
            AccessType::Block => kind == PathKind::Directory,
        };
        ensure!(
            !wrong,
            "what is at the target path {path} cannot be used with {} access", cx.access();
            of: rule,
            expected: expected,
            actual: kind
        );
        let empty = match cx.access() {
            AccessType::Mount => kind == PathKind::Directory && !cx.is_mount_point(path),
            AccessType::Block => kind == PathKind::File,
        };
        ensure!(
            !(empty && mounts_are_seen(cx, &published).await?),
            "NodePublishVolume returned OK, but the volume is not at the target path {path}";
            of: rule,
            expected: expected,
            actual: format!("{kind}, and nothing is mounted there, though the driver mounts volumes elsewhere")
        );
        Ok(())
    }
}

/// Returns the file type that has to be at a target path, and the rule that requires it.
fn asked_for(access: AccessType) -> (&'static Requirement, &'static str) {
    match access {
        AccessType::Mount => (&req::NODE_PUBLISH_027, "a directory at which the volume is mounted"),
        AccessType::Block => (&req::NODE_PUBLISH_026, "a block device"),
    }
}

/// Returns whether the driver mounts volumes and the tests see the mounts. A driver in its own mount namespace, or
/// one that only simulates mounts, leaves nothing in the mount table.
async fn mounts_are_seen(cx: &Cx, published: &Published) -> CheckResult<bool> {
    if cx.access() == AccessType::Mount {
        return Ok(cx.is_mount_point(&published.staged.staging_path));
    }
    let capability = cx.capability_for(AccessType::Mount, Mode::SingleNodeWriter);
    let staged = match staged_with(cx, capability.clone()).await {
        Err(Stop::Skip(_) | Stop::Declined(..)) => return Ok(false),
        staged => staged?,
    };
    if cx.is_mount_point(&staged.staging_path) {
        return Ok(true);
    }
    let target_path = cx.target_path().await?;
    let request = v1::NodePublishVolumeRequest {
        volume_capability: Some(capability),
        ..cx.publish_request(&staged, &target_path)
    };
    Ok(cx.node_publish(request).await.any_answer()?.is_ok() && cx.is_mount_point(&target_path))
}

pub(crate) static CHECKS: &[&Check] = &[&MAKES_TARGET];
