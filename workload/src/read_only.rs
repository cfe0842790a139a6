//! A file system that accepts no more writes, as after an error of its device.

use std::fs;
use std::io;
use std::path::Path;

use csi_harness::resources::mounts;
use rustix::mount::{MountFlags, mount_remount};

/// Makes the ext4 file system at a target path read-only in the way of the kernel after an error. All of its mounts have to be at or below
/// the paths, which are those of one volume, so that nothing else can be hurt.
///
/// # Errors
/// The file system is another one, is mounted elsewhere too, or cannot be made read-only.
pub fn turn_read_only(target: &Path, paths: &[&Path]) -> io::Result<()> {
    let mount = mounts::alone_at(target, paths)?;
    if mount.fs_type != "ext4" {
        return Err(io::Error::other(format!("it is {}, and not ext4", mount.fs_type)));
    }
    let device = fs::canonicalize(&mount.source)?;
    let name = device.file_name().ok_or_else(|| io::Error::other("it is on no device"))?;
    let trigger = Path::new("/sys/fs/ext4").join(name).join("trigger_fs_error");
    // With errors=continue, ext4 would only record the error and still accept writes.
    mount_remount(target, MountFlags::empty(), c"errors=remount-ro")?;
    fs::write(trigger, "csi-sanity")
}
