//! The directory of the benchmark. It leaves nothing behind, not even after an error or an interruption that kills
//! drivers with mounted volumes.

use std::path::Path;
use std::process::Command;

use csi_hostpath_driver::mount::mounts;
use rustix::mount::UnmountFlags;
use tempfile::TempDir;

use crate::error::{IoContext, Result};

/// A directory whose mounts and files are removed on drop.
#[derive(Debug)]
pub(crate) struct Workspace {
    directory: TempDir,
}

impl Workspace {
    /// Resolves the path first: the build folder may be reached through a symbolic link of an ordinary user, which a
    /// driver rejects.
    pub(crate) fn make(parent: &Path) -> Result<Workspace> {
        let parent = parent.canonicalize().on("resolve", parent)?;
        let directory = tempfile::Builder::new().prefix("load-").tempdir_in(&parent);
        Ok(Workspace { directory: directory.on("make a directory in", &parent)? })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let directory = self.directory.path();
        for mount in mounts().unwrap_or_default().iter().rev() {
            if mount.mount_point.starts_with(directory) {
                let _ =
                    rustix::mount::unmount(&mount.mount_point, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH);
            }
        }
        detach_loop_devices(directory);
    }
}

fn detach_loop_devices(directory: &Path) {
    for entry in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = std::fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(backing.trim_end()).starts_with(directory) {
            let _ = Command::new("losetup").arg("-d").arg(Path::new("/dev").join(entry.file_name())).status();
        }
    }
}
