//! Loop devices, which make a file usable as a block device.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::error::{DriverError, IoContext, Result};
use crate::kernel::{self, LoopSetup};

/// The number of times that another process may take the free device before the driver gives up.
const ATTEMPTS_MAX: u32 = 64;
/// The pause before another attempt. It grows by this much each time, up to the given number of times, so that all
/// attempts take about a second.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSES_MAX: u32 = 20;
const CONTROL: &str = "/dev/loop-control";

/// An open loop device of the driver.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    path: PathBuf,
    device: File,
}

impl LoopDevice {
    /// Attaches the file to a free device.
    ///
    /// With `autoclear`, the kernel detaches the file as soon as nothing has the device open or mounted, even if this
    /// process was killed. This suits mounted file systems, whose mount keeps the device. Without it, the device
    /// stays until [`LoopDevice::detach`].
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
                Ok(()) => {
                    let attached = LoopDevice { path, device };
                    if !readonly && let Err(error) = kernel::allow_writes(attached.device.as_fd()) {
                        let path = attached.path.clone();
                        attached.detach()?;
                        return Err(error).on("allow writes to", &path);
                    }
                    return Ok(attached);
                }
                // Another process was faster, or the last user of the device has not closed it yet; in that case the
                // kernel names the same device again.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    thread::sleep(PAUSE.saturating_mul(attempt.min(PAUSES_MAX)));
                }
                Err(error) => return Err(error).on("configure", &path),
            }
        }
        let reason = format!("none could be taken in {ATTEMPTS_MAX} attempts");
        Err(DriverError::Exhausted { resource: "loop devices", reason })
    }

    /// The devices to which the file is attached, or was until the file was lost.
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

    pub(crate) fn open(path: &Path) -> Result<LoopDevice> {
        let device = File::open(path).on("open", path)?;
        Ok(LoopDevice { path: path.to_owned(), device })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file is attached to the device. This cannot change while the device is open.
    pub(crate) fn is_attached_to(&self, image: &Path) -> bool {
        matches!(Identity::of_file(image), Ok(Some(wanted)) if Identity::of_backing(&self.device) == Some(wanted))
    }

    pub(crate) fn is_readonly(&self) -> Result<bool> {
        Ok(kernel::loop_backing(self.device.as_fd()).on("look at", &self.path)?.readonly)
    }

    /// Returns whether the kernel detaches the device when its last user closes it, because it was attached that way
    /// or detached while it was open.
    pub(crate) fn is_autoclear(&self) -> Result<bool> {
        Ok(kernel::loop_backing(self.device.as_fd()).on("look at", &self.path)?.autoclear)
    }

    pub(crate) fn size_bytes(&self) -> Result<u64> {
        kernel::device_bytes(self.device.as_fd()).on("get the size of", &self.path)
    }

    /// Makes the device show the present size of the file.
    pub(crate) fn refresh_size(&self) -> Result<()> {
        kernel::loop_set_capacity(self.device.as_fd()).on("resize", &self.path)
    }

    pub(crate) fn flush(&self) -> Result<()> {
        kernel::flush_device(self.device.as_fd()).on("flush", &self.path)
    }

    /// Detaches the file, now or when the last user closes the device.
    pub(crate) fn detach(self) -> Result<()> {
        match kernel::loop_clear(self.device.as_fd()) {
            Err(error) if error.raw_os_error() != Some(NO_SUCH_DEVICE) => Err(error).on("detach", &self.path),
            _ => Ok(()),
        }
    }
}

/// `ENXIO`: nothing is attached.
const NO_SUCH_DEVICE: i32 = 6;

/// The identity of a file. The path that the kernel reports for an attached file is not enough: it belongs to the
/// mount through which the file was opened, which may be in a container that has ended since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of_file(path: &Path) -> Result<Option<Identity>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(Identity { device: metadata.dev(), inode: metadata.ino() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).on("look at", path),
        }
    }

    fn of_backing(device: &File) -> Option<Identity> {
        let backing = kernel::loop_backing(device.as_fd()).ok()?;
        Some(Identity { device: backing.device, inode: backing.inode })
    }
}

/// Returns whether a device node is a loop device with the file attached.
pub(crate) fn is_backed_by(node: &Path, image: &Path) -> bool {
    has_backing_name(node, image) && LoopDevice::open(node).is_ok_and(|device| device.is_attached_to(image))
}

/// Returns whether a device node is a loop device with the file attached, or had it attached until the file was lost.
/// A lost file is only recognised by its name, which is enough if a record says that the device is ours.
pub(crate) fn was_backed_by(node: &Path, image: &Path) -> bool {
    is_backed_by(node, image) || has_backing_name(node, image) && matches!(Identity::of_file(image), Ok(None))
}

fn has_backing_name(node: &Path, image: &Path) -> bool {
    backing_path(node).is_some_and(|backing| backing.file_name() == image.file_name())
}

/// All attached devices with the reported paths of their files, which may belong to another mount namespace. The
/// suffix ` (deleted)` is removed.
pub(crate) fn attached() -> Result<Vec<(PathBuf, PathBuf)>> {
    let blocks = Path::new("/sys/block");
    let entries = fs::read_dir(blocks).on("list", blocks)?.flatten();
    let nodes = entries.map(|entry| Path::new("/dev").join(entry.file_name()));
    Ok(nodes.filter_map(|node| backing_path(&node).map(|backing| (node, backing))).collect())
}

/// The reported path of the file that is attached to a device node.
pub(crate) fn backing_path(node: &Path) -> Option<PathBuf> {
    let name = node.file_name()?;
    if !name.to_string_lossy().starts_with("loop") {
        return None;
    }
    let backing = fs::read_to_string(Path::new("/sys/block").join(name).join("loop/backing_file")).ok()?;
    let backing = backing.trim_end_matches('\n');
    Some(PathBuf::from(backing.strip_suffix(" (deleted)").unwrap_or(backing)))
}

/// The device node for a block device number, if it is a loop device.
pub(crate) fn node_of((major, minor): (u32, u32)) -> Option<PathBuf> {
    (major == LOOP_MAJOR).then(|| PathBuf::from(format!("/dev/loop{minor}")))
}

const LOOP_MAJOR: u32 = 7;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_reused_device_is_writable_again() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root for loop devices");
            return;
        }
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(1 << 20).unwrap();
        let blockdev = |flag: &str, device: &Path| {
            let output = Command::new("blockdev").arg(flag).arg(device).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let first = LoopDevice::attach(image.path(), false, false).unwrap();
        let path = first.path().to_owned();
        blockdev("--setro", &path);
        first.detach().unwrap();
        // Unless another program takes the device first, this attaches the same one.
        let again = LoopDevice::attach(image.path(), false, false).unwrap();
        let is_readonly = blockdev("--getro", again.path());
        again.detach().unwrap();
        assert_eq!(is_readonly, "0");
        if LoopDevice::open(&path).is_ok_and(|left| kernel::loop_backing(left.device.as_fd()).is_err()) {
            blockdev("--setrw", &path);
        }
    }
}
