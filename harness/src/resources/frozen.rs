//! File systems that are frozen: each write waits until they are thawed, and a process that writes cannot be killed. The kernel has no list of
//! them, and a look that freezes one itself would be dangerous. Thawing one that is not frozen fails and changes nothing, so that this both
//! finds and ends it. It is done where a volume of the run is given back.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::resources::mounts;

/// The types of file systems that can be frozen, without those of servers and processes.
const TYPES: [&str; 7] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs"];
/// Limits a command that thaws a file system.
const LIMIT: Duration = Duration::from_secs(10);

/// Thaws the file system at a target path if all mounts of it are at or below these paths. Returns true if it was frozen.
pub async fn thaw(target: &Path, paths: &[&Path]) -> bool {
    let is_own = mounts::alone_at(target, paths).is_ok_and(|mount| TYPES.contains(&&*mount.fs_type));
    is_own && unfreeze(target).await.unwrap_or_default()
}

/// Returns true if the command has thawed something. It fails for a file system that is not frozen.
async fn unfreeze(target: &Path) -> io::Result<bool> {
    let mut command = Command::new("fsfreeze");
    command.arg("--unfreeze").arg(target).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.kill_on_drop(true).spawn()?;
    Ok(tokio::time::timeout(LIMIT, child.wait()).await??.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new file system in a file of a directory, mounted at another one.
    fn mounted(type_: &str, image: &Path, point: &Path) -> bool {
        std::fs::create_dir(point).unwrap();
        std::fs::File::create(image).unwrap().set_len(320 << 20).unwrap();
        let run = |command: &mut std::process::Command| {
            command.output().is_ok_and(|output| output.status.success())
        };
        run(std::process::Command::new(format!("mkfs.{type_}")).arg("-q").arg(image))
            && run(std::process::Command::new("mount").args(["-o", "loop"]).arg(image).arg(point))
    }

    #[tokio::test]
    async fn as_root_a_frozen_file_system_is_found_and_thawed() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root to mount");
            return;
        }
        for type_ in ["ext4", "xfs"] {
            let dir = tempfile::tempdir().unwrap();
            let (image, point) = (dir.path().join("image"), dir.path().join("mounted"));
            if !mounted(type_, &image, &point) {
                println!("skipped: no {type_} here");
                continue;
            }
            let freeze = std::process::Command::new("fsfreeze").arg("--freeze").arg(&point).status().unwrap();
            let elsewhere = thaw(&point, &[&image]).await;
            let found = [thaw(&point, &[dir.path()]).await, thaw(&point, &[dir.path()]).await];
            let written = std::fs::write(point.join("file"), "x");
            let unmounted = mounts::unmount_below(&point);
            assert!(freeze.success(), "{type_}: {freeze}");
            written.unwrap();
            assert_eq!(unmounted.unwrap(), 1, "{type_}");
            assert_eq!((elsewhere, found), (false, [true, false]), "{type_}");
        }
    }

    #[tokio::test]
    async fn a_directory_of_another_file_system_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!thaw(dir.path(), &[dir.path()]).await);
    }
}
