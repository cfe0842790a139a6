//! Loop devices: a file as a block device.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::error::{DriverError, IoContext, Result};
use crate::kernel::{self, LoopSetup};

/// How often another process may take the free device from under us before we give up.
const ATTEMPTS_MAX: u32 = 64;
/// Pause before another attempt, longer by as much each time up to so many times: a second in all.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSES_MAX: u32 = 20;
const CONTROL: &str = "/dev/loop-control";

/// A loop device of ours, held open.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    path: PathBuf,
    device: File,
}

impl LoopDevice {
    /// Puts the file behind a free device.
    ///
    /// With `autoclear` the kernel detaches it when nothing has it open or mounted any more, which holds even if
    /// this process is killed: for file systems, whose mount keeps it. Without, it stays until [`LoopDevice::detach`].
    pub(crate) fn attach(image: &Path, readonly: bool, autoclear: bool) -> Result<LoopDevice> {
        let file = OpenOptions::new().read(true).write(!readonly).open(image).on("open", image)?;
        let control_path = Path::new(CONTROL);
        let control =
            OpenOptions::new().read(true).write(true).open(control_path).on("open", control_path)?;
        for attempt in 0..ATTEMPTS_MAX {
            let number =
                kernel::loop_get_free(control.as_fd()).on("get a free loop device from", control_path)?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = OpenOptions::new().read(true).write(!readonly).open(&path).on("open", &path)?;
            match kernel::loop_configure(device.as_fd(), file.as_fd(), LoopSetup { readonly, autoclear }) {
                Ok(()) => return Ok(LoopDevice { path, device }),
                // Somebody else was quicker, or its last user has not let go of it yet: then the kernel names the same one again.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    thread::sleep(PAUSE.saturating_mul(attempt.min(PAUSES_MAX)));
                }
                Err(error) => return Err(error).on("configure", &path),
            }
        }
        let reason = format!("none could be taken in {ATTEMPTS_MAX} attempts");
        Err(DriverError::Exhausted { resource: "loop devices", reason })
    }

    /// The devices that have the file behind them, or had it until it was lost.
    pub(crate) fn of_image(image: &Path) -> Result<Vec<LoopDevice>> {
        let wanted = Identity::of_file(image)?;
        let same_name = |backing: &PathBuf| backing.file_name() == image.file_name();
        let candidates = attached()?.into_iter().filter(|(_, backing)| same_name(backing));
        let mut found = Vec::new();
        for (path, _) in candidates {
            let Ok(device) = File::open(&path) else { continue };
            if wanted.is_none() || Identity::of_backing(&device) == wanted {
                found.push(LoopDevice { path, device });
            }
        }
        Ok(found)
    }

    /// Opens a device found by [`attached`].
    pub(crate) fn open(path: &Path) -> Result<LoopDevice> {
        let device = File::open(path).on("open", path)?;
        Ok(LoopDevice { path: path.to_owned(), device })
    }

    /// The device node.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is behind it, which stays so while this is open.
    pub(crate) fn has_behind_it(&self, image: &Path) -> bool {
        matches!(Identity::of_file(image), Ok(Some(wanted)) if Identity::of_backing(&self.device) == Some(wanted))
    }

    /// Whether writes are refused.
    pub(crate) fn is_readonly(&self) -> Result<bool> {
        Ok(kernel::loop_backing(self.device.as_fd()).on("look at", &self.path)?.readonly)
    }

    /// Whether it goes with its last user: made so, or detached while somebody had it open.
    pub(crate) fn goes_with_its_users(&self) -> Result<bool> {
        Ok(kernel::loop_backing(self.device.as_fd()).on("look at", &self.path)?.autoclear)
    }

    /// The size in bytes.
    pub(crate) fn size_bytes(&self) -> Result<u64> {
        kernel::device_bytes(self.device.as_fd()).on("get the size of", &self.path)
    }

    /// Takes over the size of the file.
    pub(crate) fn refresh_size(&self) -> Result<()> {
        kernel::loop_set_capacity(self.device.as_fd()).on("resize", &self.path)
    }

    /// Writes out what the device has cached.
    pub(crate) fn flush(&self) -> Result<()> {
        kernel::flush_device(self.device.as_fd()).on("flush", &self.path)
    }

    /// Detaches the file, at the latest when the last user closes the device.
    pub(crate) fn detach(self) -> Result<()> {
        match kernel::loop_clear(self.device.as_fd()) {
            Err(error) if error.raw_os_error() != Some(NO_SUCH_DEVICE) => Err(error).on("detach", &self.path),
            _ => Ok(()),
        }
    }
}

/// `ENXIO`: there is nothing attached.
const NO_SUCH_DEVICE: i32 = 6;

/// What tells a file from all others. The path that the kernel reports for the file behind a device does not: it
/// is that of the mount through which it was opened, which may be one of a container that has ended since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// That of a file, if it exists.
    fn of_file(path: &Path) -> Result<Option<Identity>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(Identity { device: metadata.dev(), inode: metadata.ino() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).on("look at", path),
        }
    }

    /// That of the file behind a device, if there is one.
    fn of_backing(device: &File) -> Option<Identity> {
        let backing = kernel::loop_backing(device.as_fd()).ok()?;
        Some(Identity { device: backing.device, inode: backing.inode })
    }
}

/// Whether a device node is a loop device with the file behind it.
pub(crate) fn is_backed_by(node: &Path, image: &Path) -> bool {
    has_name_of(node, image) && LoopDevice::open(node).is_ok_and(|device| device.has_behind_it(image))
}

/// Whether a device node is a loop device with the file behind it, or had it until the file was lost. Then there is only
/// its name to go by, which is enough where a record says that the device is ours.
pub(crate) fn was_backed_by(node: &Path, image: &Path) -> bool {
    is_backed_by(node, image) || has_name_of(node, image) && matches!(Identity::of_file(image), Ok(None))
}

fn has_name_of(node: &Path, image: &Path) -> bool {
    backing_path(node).is_some_and(|backing| backing.file_name() == image.file_name())
}

/// All attached devices with the paths of their files, as far as those mean anything; ` (deleted)` is cut off.
pub(crate) fn attached() -> Result<Vec<(PathBuf, PathBuf)>> {
    let blocks = Path::new("/sys/block");
    let entries = fs::read_dir(blocks).on("list", blocks)?.flatten();
    let nodes = entries.map(|entry| Path::new("/dev").join(entry.file_name()));
    Ok(nodes.filter_map(|node| backing_path(&node).map(|backing| (node, backing))).collect())
}

/// The path of the file behind a device node, if it is an attached loop device.
pub(crate) fn backing_path(node: &Path) -> Option<PathBuf> {
    let name = node.file_name()?;
    if !name.to_string_lossy().starts_with("loop") {
        return None;
    }
    let backing = fs::read_to_string(Path::new("/sys/block").join(name).join("loop/backing_file")).ok()?;
    let backing = backing.trim_end_matches('\n');
    Some(PathBuf::from(backing.strip_suffix(" (deleted)").unwrap_or(backing)))
}

/// The device node behind a block device number, if it is a loop device.
pub(crate) fn node_of((major, minor): (u32, u32)) -> Option<PathBuf> {
    (major == LOOP_MAJOR).then(|| PathBuf::from(format!("/dev/loop{minor}")))
}

/// The major number of loop devices.
const LOOP_MAJOR: u32 = 7;
