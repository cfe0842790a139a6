//! The commands that the driver calls, as drivers do that are scripts at heart.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use tonic::Status;

/// Bytes at the beginning of a device that are nothing but zeros where nobody has written.
const BLANK_BYTES: usize = 1 << 20;

/// How often, and with what pause, it is looked whether a loop device is detached: for two seconds.
const DETACHED_LOOKS_MAX: u32 = 200;
const DETACHED_PAUSE: Duration = Duration::from_millis(10);

/// What a command came to.
pub(super) struct Ran {
    pub(super) status: ExitStatus,
    pub(super) output: String,
    told: String,
}

/// Runs a command to its end.
pub(super) fn run(name: &str, arguments: &[&str]) -> Result<Ran, Status> {
    let told = format!("{name} {}", arguments.join(" "));
    let ran = Command::new(name).args(arguments).stdin(Stdio::null()).output();
    let ran = ran.map_err(|error| Status::internal(format!("{told}: {error}")))?;
    let output = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
    let told = format!("{told}: {}", String::from_utf8_lossy(&ran.stderr).trim());
    Ok(Ran { status: ran.status, output, told })
}

impl Ran {
    /// # Errors
    /// It has failed.
    pub(super) fn done(self) -> Result<String, Status> {
        match self.status.success() {
            true => Ok(self.output),
            false => Err(Status::internal(format!("{} ({})", self.told, self.status))),
        }
    }
}

/// Runs a command that has to do its work.
pub(super) fn must(name: &str, arguments: &[&str]) -> Result<String, Status> {
    run(name, arguments)?.done()
}

/// An error of the system, told with a code that does not depend on it.
pub(super) trait Told<T> {
    fn told(self) -> Result<T, Status>;
}

impl<T> Told<T> for std::io::Result<T> {
    fn told(self) -> Result<T, Status> {
        self.map_err(|error| Status::internal(error.to_string()))
    }
}

/// How often something is mounted at a path.
pub(super) fn mounts_at(path: &str) -> Result<usize, Status> {
    let table = fs::read_to_string("/proc/self/mountinfo").told()?;
    Ok(table.lines().filter(|line| line.split(' ').nth(4) == Some(path)).count())
}

/// How often something is mounted from a device.
pub(super) fn mounts_of(device: &str) -> Result<usize, Status> {
    let table = fs::read_to_string("/proc/self/mountinfo").told()?;
    Ok(table.lines().filter(|line| line.split(' ').any(|field| field == device)).count())
}

/// The loop devices of a file.
pub(super) fn loop_devices(image: &Path) -> Result<Vec<String>, Status> {
    let (image, mut devices) = (image.to_string_lossy(), Vec::new());
    for device in fs::read_dir("/sys/block").told()?.flatten() {
        let file = match fs::read_to_string(device.path().join("loop/backing_file")) {
            // It is no loop device, is not attached, or has just been detached.
            Err(error) if matches!(error.raw_os_error(), Some(2 | 6 | 19)) => continue,
            read => read.told()?,
        };
        if file.trim_end() == image {
            devices.push(format!("/dev/{}", device.file_name().to_string_lossy()));
        }
    }
    Ok(devices)
}

/// Waits until a file has no loop device: one that somebody looks at while it is detached stays until that is over, with the size
/// that it had.
pub(super) fn until_detached(image: &Path) -> Result<(), Status> {
    for _ in 0..DETACHED_LOOKS_MAX {
        if loop_devices(image)?.is_empty() {
            return Ok(());
        }
        std::thread::sleep(DETACHED_PAUSE);
    }
    Err(Status::internal("the loop device is in use"))
}

/// Whether nobody has written to a device.
pub(super) fn is_blank(device: &str) -> std::io::Result<bool> {
    let mut bytes = vec![0; BLANK_BYTES];
    File::open(device)?.read_exact(&mut bytes)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

/// Makes what was done in a directory durable.
pub(super) fn sync(directory: &Path) -> Result<(), Status> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| Status::internal(format!("{}: {error}", directory.display())))
}

/// A path as an argument.
pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The name of a path with something behind it.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}
