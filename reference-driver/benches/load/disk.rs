//! A file system of a chosen type, in a file, mounted for as long as it is needed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{BenchError, IoContext, Result};

/// How large it is, in bytes; the file is sparse.
const DISK_BYTES: u64 = 16 << 30;

/// A mounted file system.
#[derive(Debug)]
pub(crate) struct Disk {
    mount_point: PathBuf,
}

impl Disk {
    /// Makes and mounts a file system of the type.
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

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.mount_point
    }

    /// Unmounts it. What is not unmounted is swept away with the workspace.
    pub(crate) fn unmount(self) -> Result<()> {
        run("umount", Command::new("umount").arg(&self.mount_point))
    }
}

/// Runs a program to its end.
fn run(program: &'static str, command: &mut Command) -> Result<()> {
    let output = command.output().on("start", Path::new(program))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(BenchError::Tool { program, status: output.status, output: text })
}
