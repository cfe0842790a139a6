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
            return Err(Stop::skip("needs to see the driver's files: run it on the driver's host"));
        }
        let mut staged = Vec::new();
        for _ in 0..VOLUMES {
            staged.push(cx.attached(cx.node_volume().await?).await?);
        }
        let mut calls = JoinSet::new();
        for (worker, attached) in staged.into_iter().enumerate() {
            let cx = cx.worker(worker);
            calls.spawn(async move { cx.published(cx.staged(attached).await?).await });
        }
        let mut published = Vec::new();
        while let Some(ended) = calls.join_next().await {
            let ended = ended.map_err(|error| Stop::broken(format!("a call has panicked: {error}")))?;
            published.push(ended?);
        }
        let paths: Vec<&Path> = published.iter().map(|one| Path::new(&one.target_path)).collect();
        let ended = each_shows_its_own(&paths);
        for path in &paths {
            // Unmounting the volume hides these files; without a mount, the directory has to be emptied.
            for number in 0..VOLUMES {
                let _ = fs::remove_file(path.join(format!("{MARK}{number}")));
            }
        }
        ended
    }
}

fn each_shows_its_own(paths: &[&Path]) -> CheckResult {
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
