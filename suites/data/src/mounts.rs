//! Checks that mounts for a volume go away with it.

use std::fs::File;
use std::path::{Path, PathBuf};

use csi_harness::prelude::*;
use csi_harness::resources::contents::Stamp;
use csi_harness::resources::paths::remove_empty;
use csi_harness::resources::workload::{self, play};
use csi_harness::spec::faults::FaultKey;
use csi_harness::spec::requirements::Requirement;
use csi_harness::text::message::times;

use crate::used::{PLACE, Used, judge};

/// The number of times that a call is made, as by a kubelet that was started again.
const TIMES: usize = 3;
/// Characters that the kernel escapes in its table of mounts, that some programs take for the end of a name, and that
/// take two bytes.
const UNUSUAL: &str = "a b\tc\\d#é";

/// A path at which the driver has mounted something.
struct Point<'a> {
    cx: &'a Cx,
    path: &'a str,
    /// The word for it in messages.
    name: &'static str,
}

impl Point<'_> {
    /// Skips where the tests see nothing there: they do not see the driver's mounts, or there are none.
    async fn is_seen(&self) -> CheckResult {
        match self.cx.shares_files_with_driver().await && self.cx.sees_published(self.path) {
            true => Ok(()),
            false => Err(Stop::skip(format!("these tests see nothing mounted at the {} path", self.name))),
        }
    }

    /// Fails with a violation if something is mounted there, and unmounts it.
    fn is_free<T>(&self, undone: &Result<T, Refused>, rule: &'static Requirement) -> CheckResult {
        let left = self.cx.mounts_at(self.path);
        self.cx.unmount_below([self.path])?;
        let answer = undone.as_ref().err().map_or_else(|| "OK".to_owned(), Refused::to_string);
        ensure!(
            left == 0,
            "something is still mounted at the {} path after the call that has to unmount it", self.name;
            of: rule,
            expected: "OK, and nothing mounted: the calls before are undone",
            actual: format!("{:?} is in the mount table {}; the call was answered with {answer}", self.path, times(left as u64))
        );
        Ok(())
    }
}

check! {
    /// Kubelet repeats its calls when it restarts. If each repetition mounts the volume once more, a call
    /// that undoes it removes only the uppermost mount, and the volume stays in use forever.
    UNDONE {
        id: "data/mounts/undone",
        title: "one NodeUnpublishVolume and one NodeUnstageVolume undo repeated staging and publishing",
        spec: [req::NODE_UNPUBLISH_002, req::NODE_UNSTAGE_002],
        needs: [NODE, VOLUME, ROOT],
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
        let target = Point { cx, path: &target_path, name: "target" };
        target.is_seen().await?;
        let undone = cx.node_unpublish(volume_id, &target_path).await.any_answer()?;
        target.is_free(&undone, &req::NODE_UNPUBLISH_002)?;
        if !staging_path.is_empty() {
            let undone = cx.node_unstage(volume_id, staging_path).await.any_answer()?;
            Point { cx, path: staging_path, name: "staging" }.is_free(&undone, &req::NODE_UNSTAGE_002)?;
        }
        Ok(())
    }
}

check! {
    /// The kernel's mount table encodes spaces and backslashes of a path as numbers. A driver that looks up
    /// the path there and does not find it does nothing. It may reject such paths, which are legal but not
    /// used by kubelet.
    UNUSUAL_PATH {
        id: "data/mounts/unusual-path",
        title: "a volume published at a path with spaces and backslashes is unmounted when it is unpublished",
        spec: [req::NODE_UNPUBLISH_002],
        needs: [NODE, VOLUME, ROOT],
        refuted_by: ["hostpath/forgets-unusual-paths"],
        access: Each,
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let is_writable = !volume.readonly;
        let staged = cx.staged(cx.attached(volume).await?).await?;
        let path = PathBuf::from(cx.staging_path().await?).join(UNUSUAL);
        let path = path.to_string_lossy();
        let published = cx.node_publish(cx.publish_request(&staged, &path)).once().await;
        published.or_skip("such a path may be rejected")?;
        let point = Point { cx, path: &path, name: "target" };
        point.is_seen().await?;
        let id = &staged.attached.volume.id;
        let (target, stamp) = (PathBuf::from(&*path), Stamp { run: 0, volume: id.clone(), number: 1 });
        let is_written =
            is_writable && play(move || workload::write(&target, PLACE, &stamp)).await?.is_ok();
        let undone = cx.node_unpublish(id, &path).await.any_answer()?;
        let target = PathBuf::from(&*path);
        let is_deleted = match cx.mounts_at(&path) {
            0 => false,
            _ => {
                let read = play(move || workload::read(&target, PLACE)).await?;
                is_written && read.is_ok_and(|found| found.number() != Some(1))
            }
        };
        let is_free = point.is_free(&undone, &req::NODE_UNPUBLISH_002);
        remove_empty(Path::new(&*path)).await;
        is_free.map_err(|stop| match stop {
            Stop::Violation(mut violation) => {
                violation.message = "NodeUnpublishVolume leaves the mount at a path with spaces and backslashes".to_owned();
                let what = FaultKey::AT_AN_UNUSUAL_PATH.to_owned();
                violation.fault = Some(Box::new(FaultKey { rule: req::NODE_UNPUBLISH_002.id, what }));
                // A driver that takes the path for a directory without a mount may clear it.
                if is_deleted {
                    violation.actual.push_str("; the files of the volume are deleted");
                }
                Stop::Violation(violation)
            }
            other => other,
        })
    }
}

check! {
    /// A process that has not ended yet, or an agent that scans files, prevents the kernel from unmounting. A
    /// driver may report this, or detach the mount. A driver that treats the volume as unmounted leaves the
    /// mount forever, or deletes files that are still visible.
    BUSY {
        id: "data/mounts/busy",
        title: "a volume that is unpublished while one of its files is open keeps its data, and its mount is removed",
        spec: [req::NODE_UNPUBLISH_002],
        needs: [NODE, VOLUME, ROOT],
        refuted_by: ["hostpath/takes-busy-for-unpublished", "hostpath/deletes-what-is-busy"],
        access: Each,
    }
    async |cx| {
        let volume = cx.writable_volume().await?;
        let used = Used::begin(cx, &volume).await?;
        used.write(1).await?;
        let path = used.path().to_string_lossy().into_owned();
        let opened = play({
            let path = path.clone();
            move || File::open(path)
        });
        let held = opened.await?.map_err(|error| Stop::broken(format!("failed to open {path}: {error}")))?;
        let while_open = cx.node_unpublish(&volume.id, &path).once().await;
        drop(held);
        // A driver may wait for the file to be closed for longer than its caller waits for an answer.
        let undone = match while_open.answer() {
            Answer::Ok(_) => while_open.any_answer()?,
            Answer::Refused(_) | Answer::Unknown(_) => cx.node_unpublish(&volume.id, &path).await.any_answer()?,
        };
        Point { cx, path: &path, name: "target" }.is_free(&undone, &req::NODE_UNPUBLISH_002)?;
        used.end().await?;
        // A pre-provisioned volume may be an inline one, which is deleted when it is unpublished.
        if !cx.target().capabilities().has(Capability::CreateDeleteVolume) {
            return Ok(());
        }
        let again = Used::begin(cx, &volume).await?;
        let found = again.read().await?;
        let message = "a volume lost written data when it was unpublished while one of its files was open";
        judge(&found, 1, &req::NODE_UNPUBLISH_002, message)?;
        again.end().await
    }
}

pub(crate) static CHECKS: &[&Check] = &[&UNDONE, &UNUSUAL_PATH, &BUSY];
