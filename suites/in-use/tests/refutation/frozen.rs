//! The driver leaves file systems frozen: the run thaws those of volumes that it gives back, and lists those that it cannot reach.

use std::path::Path;
use std::time::{Duration, Instant};

use csi_faulty_driver::Defect;
use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;
use csi_test_support::hostpath::{self, Backend};
use csi_test_support::run::Run;
use libtest_mimic::{Failed, Trial};

use crate::bench::{self, Setup};

/// The driver freezes the file system of each volume of which it takes a snapshot, and never thaws it.
const DEFECT: Option<Defect> = Some(Defect::SnapshotLeavesFrozen);

/// The mounts of other trials may keep a file system in use for this time, and the test looks at it in these intervals.
const IN_USE_MAX: Duration = Duration::from_secs(60);
const POLLED: Duration = Duration::from_millis(20);

/// Returns the trials of this file.
pub(crate) fn trials() -> [Trial; 4] {
    [
        Trial::test("a-frozen-file-system-is-thawed", a_frozen_file_system_is_thawed),
        Trial::test("a-thaw-before-an-unpublish-is-noted", || a_thaw_is_noted(&LEFT_PUBLISHED)),
        Trial::test("a-thaw-before-an-unstage-is-noted", || a_thaw_is_noted(&LEFT_STAGED)),
        Trial::test(
            "a-frozen-file-system-that-is-mounted-nowhere-is-listed",
            what_is_mounted_nowhere_is_listed,
        ),
    ]
}

/// A driver that leaves a file system frozen is blamed for that. The run thaws it, so that no process is left that waits for it.
fn a_frozen_file_system_is_thawed() -> Result<(), Failed> {
    let check = "in-use/create-snapshot";
    let defect = Some(Defect::SnapshotLeavesFrozen);
    let Some(played) = bench::play(csi_suite_in_use::SUITE, Backend::Images, defect, |id| id == check)?
    else {
        return Ok(());
    };
    let text = played.stories_of(check).join("\n");
    let left: Vec<String> = played.left().collect();
    match (text.contains("until this check thawed the file system"), left.as_slice()) {
        (true, []) => Ok(()),
        (false, _) => Err(Failed::from(format!("the freeze is not named:\n{text}"))),
        (true, left) => Err(Failed::from(left.join("\n"))),
    }
}

check! {
    /// Leaves a volume to the run that is frozen and published.
    LEFT_PUBLISHED {
        id: "frozen/left-published",
        title: "a volume stays published after a snapshot of it was taken",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        frozen_volume(cx).await?;
        Ok(())
    }
}

check! {
    /// Leaves a volume to the run that is frozen and staged.
    LEFT_STAGED {
        id: "frozen/left-staged",
        title: "a volume stays staged after a snapshot of it was taken",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let volume = frozen_volume(cx).await?;
        let id = &volume.staged.attached.volume.id;
        cx.node_unpublish(id, &volume.target_path).await.setup("an unpublished volume").map(drop)
    }
}

check! {
    /// Takes a volume from the node while it is frozen, so that no path leads to its file system any more.
    LEFT_NOWHERE {
        id: "frozen/left-nowhere",
        title: "a volume is taken from the node after a snapshot of it was taken",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let volume = frozen_volume(cx).await?;
        let (id, staged) = (&volume.staged.attached.volume.id, &volume.staged);
        cx.node_unpublish(id, &volume.target_path).await.setup("an unpublished volume")?;
        cx.node_unstage(id, &staged.staging_path).await.setup("an unstaged volume").map(drop)
    }
}

const SUITE: Suite = Suite {
    name: "frozen",
    checks: Checks::Declared(&[&[&LEFT_PUBLISHED, &LEFT_STAGED, &LEFT_NOWHERE]]),
    retired: &[],
};

/// Publishes a volume and takes a snapshot of it, after which the driver leaves its file system frozen.
async fn frozen_volume(cx: &Cx) -> CheckResult<Published> {
    let volume = cx.writable_volume().await?;
    let published = cx.published(cx.staged(cx.attached(volume).await?).await?).await?;
    cx.new_snapshot(&published.staged.attached.volume.id).await?;
    Ok(published)
}

/// Runs one of these checks on file systems of loop devices. If this machine cannot, it prints that the test is skipped.
fn ran(check: &'static Check, is_a_process: bool) -> Result<Option<Run>, Failed> {
    let setup = Setup { suite: SUITE, backend: Backend::Images, defect: DEFECT, is_a_process };
    hostpath::in_directory(async |root| setup.play_in(root, |id| check.id == id).await).transpose()
}

/// The run thaws a frozen volume before it gives the volume back, because no path leads to its file system afterwards. It notes the thaw.
fn a_thaw_is_noted(check: &'static Check) -> Result<(), Failed> {
    let Some(ran) = ran(check, false)? else { return Ok(()) };
    let notes: Vec<&String> = ran.reports.iter().flat_map(|report| &report.notes).collect();
    let thawed = notes.iter().filter(|note| note.contains("was frozen when its volume was released")).count();
    let left: Vec<String> = ran.accusations();
    match (thawed, left.as_slice(), ran.summary.left_behind.as_slice()) {
        (1, [], []) => Ok(()),
        (_, left, behind) => {
            Err(Failed::from(format!("{thawed} notes of a thaw in {notes:#?}; {left:?}; {behind:#?}")))
        }
    }
}

/// The list at the end of the run names the device, and its command ends the freeze, after which the kernel releases the file system.
fn what_is_mounted_nowhere_is_listed() -> Result<(), Failed> {
    let Some(ran) = ran(&LEFT_NOWHERE, true)? else { return Ok(()) };
    let is_frozen = |what: &str| what.contains("frozen or in use elsewhere, and not mounted");
    let behind = &ran.summary.left_behind;
    let listed: Vec<_> = behind.iter().filter(|one| is_frozen(&one.what)).collect();
    let [one] = &listed[..] else { return Err(Failed::from(format!("not one file system in {behind:#?}"))) };
    let (Some(id), Some(command)) = (&one.id, &one.remove) else {
        return Err(Failed::from(format!("no device or no command in {one:#?}")));
    };
    let device = Path::new(id).file_name().unwrap_or_default();
    let in_use = Path::new("/sys/fs/xfs").join(device);
    let was_in_use = in_use.exists();
    let removed = std::process::Command::new("sh").arg("-c").arg(command).output()?;
    // Workloads of trials that run at the same time may have a copy of the mount in their namespaces, which end soon.
    let begun = Instant::now();
    while in_use.exists() && begun.elapsed() < IN_USE_MAX {
        std::thread::sleep(POLLED);
    }
    match (was_in_use, in_use.exists()) {
        (true, false) => Ok(()),
        (before, after) => Err(Failed::from(format!(
            "{id} is in use before {command:?}: {before}, and afterwards: {after}; it printed {removed:?}"
        ))),
    }
}
