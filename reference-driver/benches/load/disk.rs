//! Mounts a file system of a chosen type from a file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{BenchError, IoContext, Result};

/// The size of the file, which is sparse.
const DISK_BYTES: u64 = 16 << 30;

#[derive(Debug)]
pub(crate) struct Disk {
    mount_point: PathBuf,
}

impl Disk {
    pub(crate) fn make(fs_type: &'static str, directory: &Path) -> Result<Disk> {
        let image = directory.join(format!("{fs_type}.img"));
        let file = File::create_new(&image).on("make", &image)?;
        file.set_len(DISK_BYTES).on("resize", &image)?;
        let program = match fs_type {
            "btrfs" => "mkfs.btrfs",
            "xfs" => "mkfs.xfs",
            _ => "mkfs.ext4",
        };
        run(program, Command::new(program).arg("-q").arg(&image))?;
        let mount_point = directory.join(fs_type);
        std::fs::create_dir(&mount_point).on("make", &mount_point)?;
        run("mount", Command::new("mount").args(["-o", "loop"]).args([&image, &mount_point]))?;
        Ok(Disk { mount_point })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.mount_point
    }

    /// Unmounts the file system. Without this call, dropping the workspace unmounts it.
    pub(crate) fn unmount(self) -> Result<()> {
        run("umount", Command::new("umount").arg(&self.mount_point))
    }
}

fn run(program: &'static str, command: &mut Command) -> Result<()> {
    let output = command.output().on("start", Path::new(program))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(BenchError::Tool { program, status: output.status, output: text })
}
