//! Changes to whatever is at a target path, from outside of the driver.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::process::Command;

use rustix::mount::{UnmountFlags, unmount};

use crate::contents::Contents;

/// Changes the content of a volume. Does nothing if the volume is read-only.
pub(crate) fn change(target: &str, change: impl FnOnce(Contents) -> Contents) {
    let target = Path::new(target);
    let _ = Contents::of(target).and_then(|contents| change(contents).put(target));
}

pub(crate) fn detach_mount(target: &str) {
    // Nothing may be mounted there any more.
    let _ = unmount(target, UnmountFlags::DETACH);
}

pub(crate) fn is_mounted(path: &str) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().any(|line| line.split(' ').nth(4) == Some(path))
}

pub(crate) fn is_device(target: &str) -> bool {
    fs::metadata(target).is_ok_and(|found| found.file_type().is_block_device())
}

/// Makes a device read-only for all its users, or writable again.
pub(crate) fn refuse_writes(device: &str, refuses: bool) {
    let flag = if refuses { "--setro" } else { "--setrw" };
    assert!(Command::new("blockdev").args([flag, device]).status().unwrap().success());
}

/// Runs a command that may fail, since the volume may be gone.
pub(crate) fn run(program: &str, arguments: &[&str]) {
    let _ = Command::new(program).args(arguments).output().unwrap();
}
