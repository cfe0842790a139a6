//! Finds the directory in which a driver keeps its files, so that no setting has to name it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use csi_proto::v1;
use futures_util::future::BoxFuture;

use crate::lifecycle::cx::Cx;
use crate::protocol::capability::Capability;
use crate::resources::driver_directory::{behind, of_process};
use crate::resources::mounts;
use crate::resources::paths::Paths;
use crate::resources::usage::inodes_below;
use crate::spec::need::NODE;
use crate::spec::verdict::CheckResult;

/// Volumes each of which has to bring new files into the driver's directory.
const VOLUMES: usize = 2;
/// A directory with more entries than this belongs to more than a driver in a test.
const ENTRIES_MAX: usize = 20_000;

/// The result of the search: the directory, if there is one to see.
#[derive(Debug)]
struct Found(Option<PathBuf>);

impl Cx {
    /// The directory in which the driver keeps its files: the one that `--state-dir` names, or one that belongs to the driver's
    /// process and gets new files, or others in their place, with each volume. It is looked for once in a run. `None` where these tests do not see it.
    pub fn driver_directory(&self) -> BoxFuture<'_, Option<PathBuf>> {
        Box::pin(async move {
            let known = match self.target().driver_directory() {
                Some(known) => known,
                // Without the driver nothing can be found, and later checks may still find it.
                None if self.target().driver().is_some_and(|driver| driver.end_of_process().is_some()) => {
                    return None;
                }
                None => {
                    let find = async { Ok(Found(find(self).await.unwrap_or_default())) };
                    self.learn(find).await.ok()?.0.clone()?
                }
            };
            self.target().keeps_files_in(&known);
            Some(known)
        })
    }
}

async fn find(cx: &Cx) -> CheckResult<Option<PathBuf>> {
    let has = |capability| cx.target().capabilities().has(capability);
    if !has(Capability::CreateDeleteVolume) || !cx.target().node(0).sees_files().await {
        return Ok(None);
    }
    let mut candidates = BTreeSet::new();
    let listeners = [Some(cx.target().endpoint()), cx.target().controller_endpoint()];
    for endpoint in listeners.into_iter().flatten() {
        let process = mounts::listener(endpoint).await.and_then(|process| u32::try_from(process).ok());
        // A driver in this process shares the command line and the files of the tests.
        candidates
            .extend(process.filter(|one| *one != std::process::id()).map(of_process).unwrap_or_default());
    }
    let of_volumes = match NODE.unmet(cx.target(), cx.access()) {
        None => behind_a_volume(cx).await.unwrap_or_default(),
        Some(_) => BTreeSet::new(),
    };
    let of_processes = candidates.clone();
    candidates.extend(of_volumes.iter().cloned());
    let nodes = cx.target().nodes().iter().map(|node| node.paths());
    let of_tests: Vec<&Path> = nodes.flat_map(Paths::roots).collect();
    candidates.retain(|dir| !of_tests.iter().any(|own| own.starts_with(dir) || dir.starts_with(own)));
    let (candidates, too_large): (BTreeSet<PathBuf>, BTreeSet<PathBuf>) =
        candidates.into_iter().partition(|dir| inodes_below(dir).len() < ENTRIES_MAX);
    if let Some(large) = too_large.intersection(&of_volumes).next() {
        cx.note(format!(
            "the driver keeps volumes in {}, which has more than {ENTRIES_MAX} files, so this run does not see which files it leaves there; \
             begin with an empty back end",
            large.display()
        ));
    }
    let mut seen: Vec<Candidate> = candidates.into_iter().map(Candidate::new).collect();
    if seen.is_empty() {
        return Ok(None);
    }
    // A file that appears without a volume comes from another program.
    cx.call(v1::GetPluginInfoRequest {}).once().await.any_answer()?.ok();
    seen.retain_mut(|candidate| candidate.new_files() == 0);
    for _ in 0..VOLUMES {
        let scope = cx.scope();
        scope.new_volume().await?;
        seen.retain_mut(|candidate| candidate.new_files() > 0);
        scope.undo().await?;
        for candidate in &mut seen {
            candidate.new_files();
        }
    }
    // The directory above several of the driver's own has the files of all of them. Of directories with the same files, the one that the
    // process names or has open also has what is not behind a volume.
    let most = seen.into_iter().max_by_key(|one| {
        (one.gained, of_processes.contains(&one.directory), one.directory.as_os_str().len())
    });
    Ok(most.map(|one| one.directory))
}

/// The directories that hold what is mounted where a volume is staged and published.
async fn behind_a_volume(cx: &Cx) -> CheckResult<BTreeSet<PathBuf>> {
    let scope = cx.scope();
    let published = scope.published(scope.staged(scope.attached(scope.node_volume().await?).await?).await?);
    let published = published.await?;
    let places = [&published.target_path, &published.staged.staging_path];
    let found = places.into_iter().flat_map(|place| behind(Path::new(place))).collect();
    scope.undo().await?;
    Ok(found)
}

/// A directory that may be the driver's.
struct Candidate {
    directory: PathBuf,
    files: BTreeSet<(PathBuf, u64)>,
    /// The number of files that came or were replaced in all.
    gained: usize,
}

impl Candidate {
    fn new(directory: PathBuf) -> Candidate {
        Candidate { files: inodes_below(&directory), directory, gained: 0 }
    }

    /// Counts the files that came or were replaced since the last look. A file that only grows may be a log, and does not count.
    fn new_files(&mut self) -> usize {
        let now = inodes_below(&self.directory);
        let new = now.difference(&self.files).count();
        self.files = now;
        self.gained += new;
        new
    }
}
