//! The harness makes and removes target and staging paths itself.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use csi_harness::config::{AccessType, Config, PathLayout};
use csi_harness::prelude::*;
use csi_harness::results::outcome::Outcome;
use tempfile::TempDir;

use crate::bench::{Bench, Ran, config};

/// The checks add the paths that they got for volumes.
static SEEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn saw(path: &str) {
    SEEN.lock().unwrap_or_else(|poison| poison.into_inner()).push(path.into());
}

/// Returns the paths below this directory that checks got.
fn seen_below(root: &Path) -> Vec<PathBuf> {
    let seen = SEEN.lock().unwrap_or_else(|poison| poison.into_inner());
    let below = seen.iter().filter_map(|path| path.strip_prefix(root).ok());
    below.map(Path::to_owned).collect()
}

check! {
    /// The usual way of a volume.
    PUBLISHES {
        id: "paths/publishes",
        title: "a volume is published",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let published = cx.published(cx.staged(cx.attached(cx.node_volume().await?).await?).await?).await?;
        saw(&published.staged.staging_path);
        saw(&published.target_path);
        let kind = cx.path_kind(&published.target_path).await?;
        let expected = match cx.access() {
            AccessType::Mount => PathKind::Directory,
            AccessType::Block => PathKind::File,
        };
        ensure!(kind == expected, "{kind:?} at the target path");
        Ok(())
    }
}

check! {
    /// At the same time.
    PUBLISHES_AS_WELL {
        id: "paths/publishes-as-well",
        title: "a volume is published",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        for _ in 0..3 {
            cx.published(cx.staged(cx.attached(cx.node_volume().await?).await?).await?).await?;
        }
        Ok(())
    }
}

check! {
    /// As a driver does that leaves something in its staging directory.
    LEAVES_A_FILE {
        id: "paths/leaves-a-file",
        title: "a file stays in the staging directory",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let path = cx.staging_path().await?;
        std::fs::write(Path::new(&path).join("data"), "precious").map_err(|error| Stop::broken(error.to_string()))?;
        saw(&path);
        Ok(())
    }
}

check! {
    /// Volumes whose paths have a certain length are not where kubelet would have them.
    LONG_PATHS {
        id: "paths/long-paths",
        title: "paths can be of any length",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        for bytes in [128, 200] {
            let lengths = [cx.staging_path_of_length(bytes).await?.len(), cx.target_path_of_length(bytes).await?.len()];
            ensure!(lengths == [bytes, bytes], "{lengths:?} instead of {bytes}");
        }
        Ok(())
    }
}

check! {
    /// Some drivers remove the staging directory when they unstage a volume.
    STAGES_TWICE {
        id: "paths/stages-twice",
        title: "a volume is staged where it was staged before",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let attached = cx.attached(cx.node_volume().await?).await?;
        let path = cx.staging_path().await?;
        for _ in 0..2 {
            cx.node_stage(cx.stage_request(&attached, &path)).await.setup("a staged volume")?;
            ensure!(Path::new(&path).is_dir(), "the staging directory is not there");
            cx.node_unstage(&attached.volume.id, &path).await.setup("an unstaged volume")?;
            // The check plays such a driver.
            std::fs::remove_dir(&path).map_err(|error| Stop::broken(error.to_string()))?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_staging_directory_exists_for_each_staging() {
    let directory = directory();
    let ran = ran(directory.path(), PathLayout::default(), AccessType::Mount, &[&STAGES_TWICE]).await;
    assert_eq!(ran.outcome(&STAGES_TWICE), &Outcome::Passed, "{}", ran.stories);
    assert_eq!(everything_in(directory.path()), Vec::<PathBuf>::new());
}

/// Runs checks whose paths are below this directory.
async fn ran(root: &Path, layout: PathLayout, access: AccessType, checks: &[&'static Check]) -> Ran {
    let root = Some(root.to_owned());
    let config = Config {
        mount_dir: root.clone(),
        staging_dir: root,
        path_layout: layout,
        access_types: vec![access],
        ..config()
    };
    Bench::start(Default::default(), config).await.run(checks).await
}

/// Returns all files and directories below a directory.
fn everything_in(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(everything_in(&path));
        }
        found.push(path);
    }
    found
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

#[tokio::test]
async fn kubelet_layout_for_both_access_types() {
    for access in [AccessType::Mount, AccessType::Block] {
        let root = directory();
        let ran = ran(root.path(), PathLayout::Kubelet, access, &[&PUBLISHES, &PUBLISHES_AS_WELL]).await;
        assert!(ran.outcomes.iter().all(|(_, outcome)| *outcome == Outcome::Passed), "{:?}", ran.outcomes);
        let [staging, target] = &seen_below(root.path())[..] else { panic!("two paths") };
        let (staging, target) = (staging.display().to_string(), target.display().to_string());
        let expected = match access {
            AccessType::Mount => {
                [("plugins/kubernetes.io/csi/mock.csi-sanity.example/", "/globalmount"), ("pods/", "/mount")]
            }
            AccessType::Block => [
                ("plugins/kubernetes.io/csi/volumeDevices/staging/", ""),
                ("plugins/kubernetes.io/csi/volumeDevices/publish/", ""),
            ],
        };
        for (path, (begin, end)) in [staging, target].iter().zip(expected) {
            assert!(path.starts_with(begin) && path.ends_with(end), "{path}");
        }
        assert_eq!(everything_in(root.path()), Vec::<PathBuf>::new(), "what was made is removed");
    }
}

#[tokio::test]
async fn only_what_was_made_is_removed() {
    let root = directory();
    let pod = root.path().join("pods/somebody-else");
    std::fs::create_dir_all(&pod).expect("it is ours");
    let ran = ran(root.path(), PathLayout::Kubelet, AccessType::Mount, &[&PUBLISHES]).await;
    assert_eq!(ran.outcome(&PUBLISHES), &Outcome::Passed);
    assert_eq!(everything_in(root.path()), [pod, root.path().join("pods")]);
}

#[tokio::test]
async fn a_directory_that_was_missing_goes_again() {
    let root = directory();
    for layout in [PathLayout::Flat, PathLayout::Kubelet] {
        let below = root.path().join("not/there");
        let ran = ran(&below, layout, AccessType::Mount, &[&PUBLISHES]).await;
        assert_eq!(ran.outcome(&PUBLISHES), &Outcome::Passed);
        assert_eq!(everything_in(root.path()), Vec::<PathBuf>::new());
    }
}

/// Removing a whole tree would delete the data of a volume that is still mounted in it.
#[tokio::test]
async fn nothing_is_removed_with_what_is_in_it() {
    for layout in [PathLayout::Flat, PathLayout::Kubelet] {
        let config = Config { path_layout: layout, ..config() };
        let ran = Bench::start(Default::default(), config).await.run(&[&LEAVES_A_FILE]).await;
        let Outcome::Broken(why) = ran.outcome(&LEAVES_A_FILE) else { panic!("{:?}", ran.outcomes) };
        assert!(why.contains("not empty"), "{why}");
        let seen = SEEN.lock().expect("no test panics with it").clone();
        let path = seen.iter().find(|path| path.join("data").exists()).expect("the file is still there");
        std::fs::remove_file(path.join("data")).expect("it is ours");
        for level in path.ancestors().take_while(|level| *level != std::env::temp_dir()) {
            std::fs::remove_dir(level).expect("nothing else stays there");
        }
    }
}

#[tokio::test]
async fn paths_of_a_length_are_to_be_had_in_each_layout() {
    for layout in [PathLayout::Flat, PathLayout::Kubelet] {
        let root = directory();
        let ran = ran(root.path(), layout, AccessType::Mount, &[&LONG_PATHS]).await;
        assert_eq!(ran.outcome(&LONG_PATHS), &Outcome::Passed);
        assert_eq!(everything_in(root.path()), Vec::<PathBuf>::new());
    }
}

#[tokio::test]
async fn a_file_in_the_way_is_reported() {
    let root = directory();
    std::fs::write(root.path().join("pods"), "").expect("it is ours");
    let ran = ran(root.path(), PathLayout::Kubelet, AccessType::Mount, &[&PUBLISHES]).await;
    let Outcome::Broken(why) = ran.outcome(&PUBLISHES) else { panic!("{:?}", ran.outcomes) };
    assert!(why.contains("failed to make") && why.contains("pods"), "{why}");
    assert_eq!(everything_in(root.path()), [root.path().join("pods")]);
}
