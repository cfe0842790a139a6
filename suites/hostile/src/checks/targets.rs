//! Puts links and foreign files at target and staging paths.

use std::path::{Path, PathBuf};

use csi_harness::prelude::*;

use crate::canary::Canary;
use crate::rules::{HOSTILE_PATH_002, HOSTILE_PATH_003, HOSTILE_PATH_004};
use crate::scene::Scene;
use crate::sweep::undo_noting;

check! {
    /// After a reboot, or after a failed mount, a directory is no longer a mount point. A driver that removes it with
    /// its contents removes files that are not its own.
    FILES_STAY {
        id: "hostile/targets/files-stay",
        title: "a directory with files that the driver did not mount is not emptied",
        spec: [HOSTILE_PATH_002],
        needs: [VOLUME, NODE],
        refuted_by: ["node-unpublish-removes-everything", "node-unstage-removes-everything"],
        runs: CrashProne,
    }
    async |cx| {
        let canary = Canary::set(cx).await?;
        let scene = Scene::set(cx).await?;
        let volume_id = || scene.volume().id.clone();
        let link = link_to(cx, canary.dir()).await?;
        for path in [canary.dir(), link.as_path()].map(text) {
            let request = v1::NodeUnpublishVolumeRequest { volume_id: volume_id(), target_path: path.clone() };
            // Any answer is right for a path without anything of the driver.
            let _ = cx.call(request).await.any_answer()?;
            files_stayed(&canary, &format!("NodeUnpublishVolume of {path}"))?;
            if !cx.target().capabilities().has(Capability::StageUnstageVolume) {
                continue;
            }
            let request =
                v1::NodeUnstageVolumeRequest { volume_id: volume_id(), staging_target_path: path.clone() };
            let _ = cx.call(request).await.any_answer()?;
            files_stayed(&canary, &format!("NodeUnstageVolume of {path}"))?;
        }
        Ok(())
    }
}

fn files_stayed(canary: &Canary, call: &str) -> CheckResult {
    let Some(changed) = canary.changed() else { return Ok(()) };
    canary.sweep();
    Err(Violation::new(format!("{call}, where nothing is published or staged, changes files of others"))
        .expected("files that the driver did not create remain")
        .actual(changed)
        .into())
}

check! {
    /// A path can change between its check and its use. Anyone who can put a link there has the volume mounted over
    /// any directory of the node.
    LINK {
        id: "hostile/targets/link",
        title: "a symbolic link at a target path is not followed",
        spec: [HOSTILE_PATH_003],
        needs: [VOLUME, NODE],
        refuted_by: ["node-publish-follows-links"],
        runs: CrashProne,
        access: Each,
    }
    async |cx| {
        let canary = Canary::set(cx).await?;
        let staged = cx.staged(cx.attached(cx.node_volume().await?).await?).await?;
        let place = match cx.access() {
            AccessType::Mount => canary.dir().to_owned(),
            AccessType::Block => canary.file(),
        };
        // The link is made after the volume was staged, as between two calls of an orchestrator.
        let link = link_to(cx, &place).await?;
        let scope = cx.scope();
        let _ = scope.node_publish_hostile(scope.publish_request(&staged, &text(&link))).once().await.any_answer()?;
        let changed = canary.changed();
        undo_noting(cx, &scope).await;
        let changed = changed.or_else(|| canary.changed());
        if changed.is_some() {
            // Removes any mount on the directory; nothing else mounts there.
            let _ = cx.unmount_below([text(&place).as_str()]);
            canary.sweep();
        }
        ensure!(
            changed.is_none(),
            "NodePublishVolume follows a symbolic link in the place of target_path";
            expected: "the link rejected or replaced, and what it points to as it was",
            actual: changed.unwrap_or_default(),
        );
        Ok(())
    }
}

check! {
    /// On many nodes kubelet's directory is on another disk, with a link to it. The kernel's mount table has only the
    /// true path, so a driver that searches it for the given path finds nothing and leaves the mount behind.
    LINK_ABOVE {
        id: "hostile/targets/link-above",
        title: "a volume that is published at a path through a link is unpublished at that path",
        spec: [HOSTILE_PATH_004],
        needs: [VOLUME, NODE],
        refuted_by: ["node-unpublish-forgets-links"],
        runs: CrashProne,
    }
    async |cx| {
        if !cx.shares_files_with_driver().await || cx.config().paths.any() {
            return Err(Stop::skip("needs to see the driver's files: run csi-sanity on the driver's host"));
        }
        let staged = cx.staged(cx.attached(cx.node_volume().await?).await?).await?;
        let above = PathBuf::from(cx.staging_path().await?);
        let through = link_to(cx, &above).await?.join("target");
        let (volume_id, through) = (&staged.attached.volume.id, text(&through));
        let target = text(&above.join("target"));
        cx.node_publish_hostile(cx.publish_request(&staged, &through)).once().await.or_skip("links may be rejected")?;
        let unpublished = cx.node_unpublish(volume_id, &through).await.any_answer()?;
        let answer = unpublished.map_or_else(|refused| refused.to_string(), |_| "OK".to_owned());
        let left = cx.path_kind(&target).await?;
        let is_mounted = cx.is_mount_point(&target);
        if left != PathKind::NotFound {
            // The driver may know it by its true path.
            let _ = cx.for_cleanup().node_unpublish(volume_id, &target).await.answer();
            let _ = cx.unmount_below([target.as_str()])?;
            let _ = std::fs::remove_dir(&target).or_else(|_| std::fs::remove_file(&target));
        }
        if left != PathKind::NotFound && !is_mounted && leaves_target(cx, staged.clone()).await? {
            return Err(Stop::skip("nothing is mounted there, and the driver also leaves a target path without a link"));
        }
        ensure!(
            left == PathKind::NotFound,
            "NodeUnpublishVolume leaves the volume at a path that leads through a link";
            expected: "nothing at the path",
            actual: format!("{left}; the call was answered with {answer}"),
        );
        Ok(())
    }
}

/// Returns true if something stays at a plain target path after NodeUnpublishVolume.
async fn leaves_target(cx: &Cx, staged: Staged) -> CheckResult<bool> {
    let Published { staged, target_path } = cx.published(staged).await?;
    cx.node_unpublish(&staged.attached.volume.id, &target_path).setup("an unpublished volume").await?;
    Ok(cx.path_kind(&target_path).await? != PathKind::NotFound)
}

/// Makes a symbolic link at a path of the form of a target path.
async fn link_to(cx: &Cx, place: &Path) -> CheckResult<PathBuf> {
    let link = PathBuf::from(cx.target_path().await?);
    // A file is written first, so that the ledger contains the path.
    cx.write_file(&link, "").await?;
    let linked = std::fs::remove_file(&link).and_then(|()| std::os::unix::fs::symlink(place, &link));
    linked.map_err(|error| Stop::broken(format!("failed to make the link {}: {error}", link.display())))?;
    Ok(link)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

pub(crate) static CHECKS: &[&Check] = &[&FILES_STAY, &LINK, &LINK_ABOVE];
