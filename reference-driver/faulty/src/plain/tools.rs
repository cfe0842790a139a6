//! The commands that the driver runs, as drivers do that are basically scripts.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use tonic::Status;

/// The number of bytes at the beginning of a device that decide whether it is blank.
const BLANK_BYTES: usize = 1 << 20;

/// The number of checks whether a loop device is detached, and the pause between them; two seconds in total.
const DETACHED_LOOKS_MAX: u32 = 200;
const DETACHED_PAUSE: Duration = Duration::from_millis(10);

/// The result of a command.
pub(super) struct Output {
    pub(super) status: ExitStatus,
    pub(super) output: String,
    command: String,
}

pub(super) fn run(name: &str, arguments: &[&str]) -> Result<Output, Status> {
    let command = format!("{name} {}", arguments.join(" "));
    let done = Command::new(name).args(arguments).stdin(Stdio::null()).output();
    let done = done.map_err(|error| Status::internal(format!("{command}: {error}")))?;
    let output = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    let command = format!("{command}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(Output { status: done.status, output, command })
}

impl Output {
    /// # Errors
    /// If the command has failed.
    pub(super) fn done(self) -> Result<String, Status> {
        match self.status.success() {
            true => Ok(self.output),
            false => Err(Status::internal(format!("{} ({})", self.command, self.status))),
        }
    }
}

/// Runs a command that has to succeed.
pub(super) fn must(name: &str, arguments: &[&str]) -> Result<String, Status> {
    run(name, arguments)?.done()
}

/// Converts an error of the system to INTERNAL, whatever its kind.
pub(super) trait InternalError<T> {
    fn internal(self) -> Result<T, Status>;
}

impl<T> InternalError<T> for std::io::Result<T> {
    fn internal(self) -> Result<T, Status> {
        self.map_err(|error| Status::internal(error.to_string()))
    }
}

/// The number of mounts at a path.
pub(super) fn mounts_at(path: &str) -> Result<usize, Status> {
    let table = fs::read_to_string("/proc/self/mountinfo").internal()?;
    Ok(table.lines().filter(|line| line.split(' ').nth(4) == Some(path)).count())
}

/// The number of mounts of a device.
pub(super) fn mounts_of(device: &str) -> Result<usize, Status> {
    let table = fs::read_to_string("/proc/self/mountinfo").internal()?;
    Ok(table.lines().filter(|line| line.split(' ').any(|field| field == device)).count())
}

pub(crate) fn loop_devices(image: &Path) -> Result<Vec<String>, Status> {
    let (image, mut devices) = (image.to_string_lossy(), Vec::new());
    for device in fs::read_dir("/sys/block").internal()?.flatten() {
        let file = match fs::read_to_string(device.path().join("loop/backing_file")) {
            // It is not a loop device, is not attached, or was just detached.
            Err(error) if matches!(error.raw_os_error(), Some(2 | 6 | 19)) => continue,
            read => read.internal()?,
        };
        if file.trim_end() == image {
            devices.push(format!("/dev/{}", device.file_name().to_string_lossy()));
        }
    }
    Ok(devices)
}

/// Waits until a file has no loop device. A device that is open while it is detached remains until it is closed, with
/// its old size.
pub(super) fn wait_until_detached(image: &Path) -> Result<(), Status> {
    for _ in 0..DETACHED_LOOKS_MAX {
        if loop_devices(image)?.is_empty() {
            return Ok(());
        }
        std::thread::sleep(DETACHED_PAUSE);
    }
    Err(Status::internal("the loop device is in use"))
}

/// Returns whether a device contains only zeros.
pub(super) fn is_blank(device: &str) -> std::io::Result<bool> {
    let mut bytes = vec![0; BLANK_BYTES];
    File::open(device)?.read_exact(&mut bytes)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

/// Flushes a directory.
pub(super) fn sync(directory: &Path) -> Result<(), Status> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| Status::internal(format!("{}: {error}", directory.display())))
}

pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A path with a suffix appended to its name.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}
