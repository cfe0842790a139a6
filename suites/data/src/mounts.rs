//! What is mounted for a volume goes with it.

use std::path::PathBuf;

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;

/// How often a call is made, as by a kubelet that was started again.
const TIMES: usize = 3;
/// What the kernel writes in another way into its table of mounts, what some programs take for the end of a name, and what takes
/// two bytes.
const UNUSUAL: &str = "a b\tc\\d#é";

/// A path at which the driver has mounted something.
struct Point<'a> {
    cx: &'a Cx,
    path: &'a str,
    /// What it is for.
    told: &'static str,
}

impl Point<'_> {
    /// # Errors
    /// Skip where the tests see nothing there: they do not see the driver's mounts, or there are none.
    async fn is_seen(&self) -> CheckResult {
        match self.cx.shares_files_with_driver().await && self.cx.sees_published(self.path) {
            true => Ok(()),
            false => Err(Stop::skip(format!("these tests see nothing mounted at the {} path", self.told))),
        }
    }

    /// # Errors
    /// A violation if something is mounted there, which is taken away.
    fn is_free<T>(&self, undone: &Result<T, Refused>, rule: &'static Requirement) -> CheckResult {
        let left = self.cx.mounts_at(self.path);
        self.cx.unmount_below([self.path])?;
        let answer = undone.as_ref().err().map_or_else(|| "OK".to_owned(), Refused::to_string);
        ensure!(
            left == 0,
            "something is still mounted at the {} path after the call that undoes it", self.told;
            of: rule,
            expected: "OK, and nothing there: what the calls before have done is undone",
            actual: format!("{:?} is in the mount table {left} times; the call was answered with {answer}", self.path)
        );
        Ok(())
    }
}

check! {
    /// Kubelet repeats what it has done when it is started again. Where each repetition mounts the volume once more, one call to
    /// undo it takes the uppermost mount away, and the volume stays in use for ever.
    UNDONE {
        id: "data/mounts/undone",
        title: "what was staged and published several times is gone when it was undone once",
        spec: [req::NODE_UNPUBLISH_002, req::NODE_UNSTAGE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, ROOT],
        refuted_by: ["hostpath/stacks-publications", "hostpath/stacks-stagings"],
        access: Each,
    }
    async |cx| {
        let staged = cx.staged(cx.attached(cx.node_volume().await?).await?).await?;
        let (volume_id, staging_path) = (&staged.attached.volume.id, &staged.staging_path);
        if !staging_path.is_empty() {
            for _ in 1..TIMES {
                cx.node_stage(cx.stage_request(&staged.attached, staging_path)).setup("a staged volume").await?;
            }
        }
        let target_path = cx.target_path().await?;
        for _ in 0..TIMES {
            cx.node_publish(cx.publish_request(&staged, &target_path)).setup("a published volume").await?;
        }
        let target = Point { cx, path: &target_path, told: "target" };
        target.is_seen().await?;
        let undone = cx.node_unpublish(volume_id, &target_path).await.any_answer()?;
        target.is_free(&undone, &req::NODE_UNPUBLISH_002)?;
        if !staging_path.is_empty() {
            let undone = cx.node_unstage(volume_id, staging_path).await.any_answer()?;
            Point { cx, path: staging_path, told: "staging" }.is_free(&undone, &req::NODE_UNSTAGE_002)?;
        }
        Ok(())
    }
}

check! {
    /// The kernel's table of mounts has spaces and backslashes of a path as numbers. A driver that looks its path up there, and
    /// does not find it, has nothing to do. It may reject such paths, which are legal but no kubelet has.
    UNUSUAL_PATH {
        id: "data/mounts/unusual-path",
        title: "what was published at a path with spaces and backslashes is gone when it was unpublished",
        spec: [req::NODE_UNPUBLISH_002],
        needs: [NODE, CREATE_DELETE_VOLUME, ROOT],
        refuted_by: ["hostpath/forgets-unusual-paths"],
        access: Each,
    }
    async |cx| {
        let staged = cx.staged(cx.attached(cx.node_volume().await?).await?).await?;
        let path = PathBuf::from(cx.staging_path().await?).join(UNUSUAL);
        let path = path.to_string_lossy();
        let published = cx.node_publish(cx.publish_request(&staged, &path)).once().await;
        published.or_skip("such a path may be rejected")?;
        let point = Point { cx, path: &path, told: "target" };
        point.is_seen().await?;
        let undone = cx.node_unpublish(&staged.attached.volume.id, &path).await.any_answer()?;
        point.is_free(&undone, &req::NODE_UNPUBLISH_002)
    }
}

pub(crate) static CHECKS: &[&Check] = &[&UNDONE, &UNUSUAL_PATH];
