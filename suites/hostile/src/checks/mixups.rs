//! Publishes volumes concurrently.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use csi_harness::prelude::*;
use tokio::task::JoinSet;

use crate::rules::HOSTILE_MIX_001;

/// Most nodes can have this many volumes.
const VOLUMES: usize = 4;
/// The prefix of the names of marker files.
const MARK: &str = "csi-sanity-mark-";

check! {
    /// A mount may need a port, a temporary directory or a device name. If two calls take the same one, a pod gets
    /// the volume of another (CVE-2022-46174).
    PARALLEL {
        id: "hostile/mixups/parallel",
        title: "volumes that are published at the same time are each at their own path",
        spec: [HOSTILE_MIX_001],
        needs: [VOLUME, NODE, MOUNT_ACCESS],
        refuted_by: ["node-publish-mixes-up-volumes"],
        runs: CrashProne,
    }
    async |cx| {
        if !cx.shares_files_with_driver().await || cx.config().paths.any() {
            return Err(Stop::skip("needs to see the driver's files: run csi-sanity on the driver's host"));
        }
        let at_once = cx.scope();
        let mut attached = Vec::new();
        for _ in 0..VOLUMES {
            attached.push(at_once.attached(at_once.writable_volume().await?).await?);
        }
        let mut calls = JoinSet::new();
        for (worker, attached) in attached.into_iter().enumerate() {
            let cx = at_once.worker(worker);
            calls.spawn(async move { cx.published(cx.staged(attached).await?).await });
        }
        let mut published = Vec::new();
        while let Some(ended) = calls.join_next().await {
            let ended = ended.map_err(|error| Stop::broken(format!("a call has panicked: {error}")))?;
            published.push(ended?);
        }
        let violation = match each_shows_its_own(&published) {
            Err(Stop::Violation(violation)) => violation,
            ended => return ended,
        };
        let created = cx.target().capabilities().has(Capability::CreateDeleteVolume);
        if !created && at_once.undo().await.is_ok() && show_one_directory(cx).await? {
            return Err(Stop::skip("the pre-provisioned volumes show the same files whenever they are published"));
        }
        Err(Stop::Violation(violation))
    }
}

/// Returns true if volumes show the files of others also when they are published one after another. Nothing says that the volumes of an
/// administrator hold different files.
async fn show_one_directory(cx: &Cx) -> CheckResult<bool> {
    let in_turn = cx.scope();
    let mut published = Vec::new();
    for _ in 0..VOLUMES {
        let attached = in_turn.attached(in_turn.writable_volume().await?).await?;
        published.push(in_turn.published(in_turn.staged(attached).await?).await?);
    }
    let ended = each_shows_its_own(&published);
    in_turn.undo().await?;
    Ok(matches!(ended, Err(Stop::Violation(_))))
}

/// Writes a file at each target path, looks at which paths it is seen, and removes all of them.
fn each_shows_its_own(published: &[Published]) -> CheckResult {
    let paths: Vec<&Path> = published.iter().map(|one| Path::new(&one.target_path)).collect();
    let ended = compare(&paths);
    for path in paths {
        // Unmounting the volume hides these files; without a mount, the directory has to be emptied.
        for number in 0..VOLUMES {
            let _ = fs::remove_file(path.join(format!("{MARK}{number}")));
        }
    }
    ended
}

fn compare(paths: &[&Path]) -> CheckResult {
    for (number, path) in paths.iter().enumerate() {
        if fs::write(path.join(format!("{MARK}{number}")), "").is_err() {
            return Err(Stop::skip("the tests cannot write into the volumes"));
        }
    }
    for (number, path) in paths.iter().enumerate() {
        let entries = fs::read_dir(path)
            .map_err(|error| Stop::broken(format!("failed to read {}: {error}", path.display())))?;
        let names =
            entries.filter_map(Result::ok).map(|entry| entry.file_name().to_string_lossy().into_owned());
        let marks: BTreeSet<String> = names.filter(|name| name.starts_with(MARK)).collect();
        ensure!(
            marks == BTreeSet::from([format!("{MARK}{number}")]),
            "a target path shows another volume";
            expected: format!("the file {MARK}{number}, which was written there, and no other mark"),
            actual: format!("{} has {}", path.display(), Vec::from_iter(marks).join(", ")),
        );
    }
    Ok(())
}

pub(crate) static CHECKS: &[&Check] = &[&PARALLEL];
