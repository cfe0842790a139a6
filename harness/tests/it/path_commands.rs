//! The commands of a user create, remove and check the paths.

use std::path::PathBuf;

use csi_harness::config::{Config, PathCommands, PathLayout};
use csi_harness::prelude::*;
use csi_harness::results::outcome::Outcome;
use tempfile::TempDir;

use crate::bench::{Bench, Ran, config, write_script};

check! {
    /// Uses every command.
    PUBLISHES {
        id: "path-commands/publishes",
        title: "a volume is published",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.need_path_kind()?;
        let volume = cx.attached(cx.node_volume().await?).await?;
        let published = cx.published(cx.staged(volume).await?).await?;
        let kind = cx.path_kind(&published.target_path).await?;
        ensure!(kind == PathKind::Directory, "{kind:?} at the target path");
        cx.node_unpublish(&published.staged.attached.volume.id, &published.target_path).await.must("undo it")?;
        let kind = cx.path_kind(&published.target_path).await?;
        ensure!(kind == PathKind::NotFound, "{kind:?} at the target path");
        Ok(())
    }
}

check! {
    /// Needs the driver's file system at hand.
    NEEDS_ROOT {
        id: "path-commands/needs-root",
        title: "looks at mounts",
        spec: [req::GEN_ERR_001],
        needs: [ROOT],
        refuted_by: ["none"],
    }
    async |_cx| {
        Ok(())
    }
}

/// These commands do their work. `script` adds that each call is noted.
const CREATE: &str = "mkdir -p \"$1\" && echo \"  $1\"";
const REMOVE: &str = "rmdir \"$1\"";
const CHECK: &str =
    "if [ -d \"$1\" ]; then echo directory; elif [ -e \"$1\" ]; then echo file; else echo not_found; fi";

struct Commands {
    directory: TempDir,
    commands: PathCommands,
}

impl Commands {
    fn new() -> Commands {
        let directory = tempfile::tempdir().expect("a directory");
        let mut new = Commands { directory, commands: PathCommands::default() };
        new.commands = PathCommands {
            create_mount_path_command: new.script("create-mount", CREATE),
            create_staging_path_command: new.script("create-staging", CREATE),
            remove_mount_path_command: new.script("remove-mount", REMOVE),
            remove_staging_path_command: new.script("remove-staging", REMOVE),
            check_path_command: new.script("check", CHECK),
            ..PathCommands::default()
        };
        new
    }

    fn script(&self, name: &str, text: &str) -> Option<PathBuf> {
        let path = self.directory.path().join(name);
        let calls = self.directory.path().join("calls");
        let text = format!("#!/bin/sh\necho {name} $# $1 >> {}\n{text}\n", calls.display());
        write_script(&path, &text);
        Some(path)
    }

    /// Returns the names of the commands that were called. Each must have had one argument, a path below the root.
    fn called(&self) -> Vec<String> {
        let calls = std::fs::read_to_string(self.directory.path().join("calls")).unwrap_or_default();
        let call = |line: &str| {
            let [name, number, path] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            assert!(number == "1" && path.starts_with(self.root().to_str().expect("UTF-8")), "{line}");
            name.to_owned()
        };
        calls.lines().map(call).collect()
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    async fn ran(&self, layout: PathLayout, checks: &[&'static Check]) -> Ran {
        let config = Config {
            mount_dir: Some(self.root()),
            staging_dir: Some(self.root()),
            path_layout: layout,
            paths: self.commands.clone(),
            ..config()
        };
        Bench::start(Default::default(), config).await.run(checks).await
    }

    /// Returns the reason for which the check could not judge.
    async fn broken(&self) -> String {
        let ran = self.ran(PathLayout::Flat, &[&PUBLISHES]).await;
        match ran.outcome(&PUBLISHES) {
            Outcome::Broken(why) => why.clone(),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn each_command_is_called_with_the_path() {
    let commands = Commands::new();
    let ran = commands.ran(PathLayout::Flat, &[&PUBLISHES]).await;
    assert_eq!(ran.outcome(&PUBLISHES), &Outcome::Passed, "{}", ran.stories);
    assert_eq!(ran.leftovers, Vec::<String>::new());
    let expected = ["create-staging", "create-mount", "check", "check", "remove-mount", "remove-staging"];
    assert_eq!(commands.called(), expected);
}

#[tokio::test]
async fn in_the_layout_of_kubelet_each_level_is_removed() {
    let commands = Commands::new();
    let ran = commands.ran(PathLayout::Kubelet, &[&PUBLISHES]).await;
    assert_eq!(ran.outcome(&PUBLISHES), &Outcome::Passed, "{}", ran.stories);
    assert_eq!(ran.leftovers, Vec::<String>::new());
    let called = commands.called();
    let times = |name: &str| called.iter().filter(|call| *call == name).count();
    let expected = [("create-staging", 1), ("create-mount", 1), ("remove-mount", 4), ("remove-staging", 2)];
    assert_eq!(expected.map(|(name, _)| (name, times(name))), expected);
    // The directory that all paths share is not removed, because the harness did not make it.
    assert!(commands.root().join("pods").is_dir());
}

/// A driver in a container may see another path than the harness, so that the path that the command prints counts.
#[tokio::test]
async fn the_path_that_is_printed_counts() {
    let mut commands = Commands::new();
    let elsewhere = "mkdir -p \"$1/inside\" && echo \"$1/inside\"";
    commands.commands.create_staging_path_command = commands.script("create-staging", elsewhere);
    commands.commands.remove_staging_path_command =
        commands.script("remove-staging", "case $1 in */inside) rmdir \"$1\" ;; *) exit 1 ;; esac");
    let ran = commands.ran(PathLayout::Kubelet, &[&PUBLISHES]).await;
    assert_eq!(ran.outcome(&PUBLISHES), &Outcome::Passed, "{}", ran.stories);
    assert_eq!(commands.called().iter().filter(|call| *call == "remove-staging").count(), 1);
}

#[tokio::test]
async fn a_path_command_that_fails_is_inconclusive() {
    for (script, expected) in [
        ("exit 3", "create-staging"),
        ("exit 3", "failed: exit status: 3"),
        ("true", "printed nothing; it has to print the path that it created"),
        ("kill -9 $$", "failed: signal: 9"),
    ] {
        let mut commands = Commands::new();
        commands.commands.create_staging_path_command = commands.script("create-staging", script);
        let why = commands.broken().await;
        assert!(why.contains(expected), "{script}: {why}");
    }
    let mut commands = Commands::new();
    commands.commands.create_mount_path_command = Some("/nowhere/create".into());
    let why = commands.broken().await;
    assert!(why.contains("failed to run /nowhere/create"), "{why}");
}

#[tokio::test]
async fn every_command_has_its_time_limit() {
    for which in ["create", "remove", "check"] {
        let mut commands = Commands::new();
        let hangs = commands.script("hangs", "exec sleep 1000");
        let all = &mut commands.commands;
        match which {
            "create" => (all.create_mount_path_command, all.create_timeout_ms) = (hangs, Some(50)),
            "remove" => (all.remove_mount_path_command, all.remove_timeout_ms) = (hangs, Some(50)),
            _ => (all.check_path_command, all.check_timeout_ms) = (hangs, Some(50)),
        }
        let why = commands.broken().await;
        assert!(why.contains("hangs") && why.contains("took longer than 50 ms"), "{which}: {why}");
    }
}

#[tokio::test]
async fn what_a_command_cannot_remove_is_left_behind() {
    let mut commands = Commands::new();
    commands.commands.remove_mount_path_command = commands.script("remove-mount", "exit 1");
    let why = commands.broken().await;
    assert!(why.contains("could not undo") && why.contains("remove-mount"), "{why}");
}

#[tokio::test]
async fn a_check_command_has_four_words() {
    let mut commands = Commands::new();
    commands.commands.check_path_command = commands.script("check", "echo dir");
    let why = commands.broken().await;
    assert!(why.contains("printed \"dir\"; it has to print file, directory, not_found or other"), "{why}");
}

#[tokio::test]
async fn without_a_look_command_checks_that_look_skip() {
    let mut commands = Commands::new();
    commands.commands.check_path_command = None;
    let ran = commands.ran(PathLayout::Flat, &[&PUBLISHES, &NEEDS_ROOT]).await;
    let Outcome::Skipped(why) = ran.outcome(&PUBLISHES) else { panic!("{:?}", ran.outcomes) };
    assert!(why.contains("check-path-command"), "{why}");
    let Outcome::Skipped(why) = ran.outcome(&NEEDS_ROOT) else { panic!("{:?}", ran.outcomes) };
    assert!(why.contains("path commands"), "{why}");
}
