//! A directory on a file system of the kernel, on a block device that can lose its writes (device-mapper, dm-flakey). A
//! loss of power leaves what the file system has written to the device by then, and what its recovery makes of that at
//! the next mount.
//!
//! Below the device is a loop device, on a file without a name. Each of them disappears with its last user, so that
//! only the mount has to be removed, however this process ended.

use std::env;
use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use csi_harness::lifecycle::own_mounts::SOURCE;
use csi_harness::resources::mounts;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tokio::process::Command;

use super::helper::Helper;

/// Room on the device; the file below takes no more than is written.
const ROOM_BYTES_MAX: u64 = 16 << 30;
const ROOM_BYTES_MIN: u64 = 1 << 30;
const SECTOR_BYTES: u64 = 512;
/// The time limit of a command. The longest one copies the directory.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// The time in which the kernel has to release a device.
const GONE_IN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Tables of dm-flakey: seconds in which it works, seconds in which it does not, and the fault then.
const WORKS: &str = "1 0";
const DROPS_WRITES: &str = "0 1000 1 drop_writes";

/// A file system that decides what survives.
#[derive(Debug)]
pub struct FileSystem {
    /// Its type, which is the way in stored faults.
    pub id: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    /// Mount options that make it wait long before it writes data back without a sync.
    mount_options: &'static CStr,
}

/// The file systems of which the power can be lost.
pub const FILE_SYSTEMS: &[FileSystem] = &[
    FileSystem {
        id: "ext4",
        program: "mkfs.ext4",
        arguments: &["-q", "-F", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1"],
        mount_options: c"commit=300",
    },
    FileSystem { id: "xfs", program: "mkfs.xfs", arguments: &["-q", "-f", "-K"], mount_options: c"" },
];

#[derive(Debug)]
pub(super) struct Device {
    directory: PathBuf,
    file_system: &'static FileSystem,
    /// The name that the device-mapper knows it by, and the mount table.
    name: String,
    /// The directory as it is without it.
    below: OwnedFd,
    loop_device: String,
    /// Keeps the loop device while nothing lies on it.
    _held: File,
    sectors: u64,
    helper: Helper,
}

impl Device {
    /// Checks that such a device can be made here.
    ///
    /// # Errors
    /// It cannot.
    pub(super) async fn try_it(file_system: &FileSystem) -> io::Result<()> {
        // This also prints the version of the kernel's part.
        run(Command::new("dmsetup").arg("version")).await?;
        run(Command::new(file_system.program).arg("-V")).await.map(drop)
    }

    /// Lays it over a directory, with a copy of what is there.
    ///
    /// # Errors
    /// It cannot be made or mounted, or has not enough room.
    pub(super) async fn over(directory: &Path, file_system: &'static FileSystem) -> io::Result<Device> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let below = rustix::fs::open(directory, flags, Mode::empty())?;
        let name = format!("{SOURCE}power-{}-{:08x}", std::process::id(), fastrand::u32(..));
        let room = room_bytes()?;
        let (loop_device, held) = attach(&name, room).await?;
        let helper = Helper::start(directory, &name)?;
        let device = Device {
            directory: directory.to_owned(),
            file_system,
            name,
            below,
            loop_device,
            _held: held,
            sectors: room / SECTOR_BYTES,
            helper,
        };
        device.make_anew().await?;
        Ok(device)
    }

    /// Makes the file system, with a copy of everything that was in the directory.
    ///
    /// # Errors
    /// It cannot be made or mounted, or the copy does not end.
    pub(super) async fn make_anew(&self) -> io::Result<()> {
        self.take_down().await?;
        let (node, _open) = self.set_up().await?;
        let FileSystem { program, arguments, .. } = self.file_system;
        run(Command::new(program).args(*arguments).arg(&node)).await?;
        self.mount(&node)?;
        // ext4 makes this directory, and no driver expects it among its files.
        if let Err(error) = fs::remove_dir(self.directory.join("lost+found"))
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let below = format!("/proc/{}/fd/{}/.", std::process::id(), self.below.as_raw_fd());
        run(Command::new("cp").args(["--archive", "--sparse=always", &below]).arg(&self.directory)).await?;
        Ok(rustix::fs::syncfs(File::open(&self.directory)?)?)
    }

    /// Makes the device drop all later writes.
    ///
    /// # Errors
    /// The device cannot be made to do so.
    pub(super) async fn cut(&self) -> io::Result<()> {
        self.dmsetup(&["load", &self.name, "--table", &self.table(DROPS_WRITES)]).await?;
        // Otherwise the file system would be asked to write first what it has not written.
        self.dmsetup(&["resume", "--nolockfs", "--noflush", &self.name]).await
    }

    /// Restores the power: only data on the device are left of the file system.
    ///
    /// # Errors
    /// A process still uses it, or it cannot be mounted again.
    pub(super) async fn turn_on(&self) -> io::Result<()> {
        self.take_down().await?;
        let (node, _open) = self.set_up().await?;
        self.mount(&node)
    }

    /// Removes the file system with all its data.
    ///
    /// # Errors
    /// A process still uses it.
    pub(super) async fn remove(&mut self) -> io::Result<()> {
        self.take_down().await?;
        self.helper.done()
    }

    fn table(&self, does: &str) -> String {
        format!("0 {} flakey {} 0 {does}", self.sectors, self.loop_device)
    }

    /// Makes the device, which disappears with its last open file.
    async fn set_up(&self) -> io::Result<(PathBuf, File)> {
        self.dmsetup(&["create", &self.name, "--table", &self.table(WORKS)]).await?;
        let node = self.node().ok_or_else(|| io::Error::other(format!("{} did not appear", self.name)));
        let opened = node.and_then(|node| Ok((File::open(&node)?, node)));
        self.dmsetup(&["remove", "--deferred", &self.name]).await?;
        opened.map(|(open, node)| (node, open))
    }

    /// The device, while it is there: what lies on the loop device.
    fn node(&self) -> Option<PathBuf> {
        let name = Path::new(&self.loop_device).file_name()?;
        let holders = fs::read_dir(Path::new("/sys/block").join(name).join("holders")).ok()?;
        holders.flatten().next().map(|holder| Path::new("/dev").join(holder.file_name()))
    }

    fn mount(&self, node: &Path) -> io::Result<()> {
        // The mount table has the path that it was mounted by, and by that everybody knows it for ours.
        let named = env::temp_dir().join(&self.name);
        symlink(node, &named)?;
        let kind = self.file_system;
        let mounted = mount(&named, &self.directory, kind.id, MountFlags::empty(), kind.mount_options);
        fs::remove_file(&named)?;
        Ok(mounted?)
    }

    fn is_mounted(&self) -> bool {
        let is_it = |mount: &mounts::Mount| Path::new(&mount.source).file_name() == Some(self.name.as_ref());
        mounts::at(&self.directory).last().is_some_and(is_it)
    }

    /// Unmounts it, and waits until the kernel has let go of the device.
    async fn take_down(&self) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            let unmounted = match self.is_mounted() {
                true => unmount(&self.directory, UnmountFlags::empty()),
                false => Ok(()),
            };
            if unmounted.is_ok() && self.node().is_none() {
                return Ok(());
            }
            if begun.elapsed() > GONE_IN {
                unmounted?;
                return Err(io::Error::other(format!("{} is still in use", self.name)));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn dmsetup(&self, arguments: &[&str]) -> io::Result<()> {
        run(Command::new("dmsetup").args(arguments)).await.map(drop)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // The helper does it otherwise.
        if !self.is_mounted() || unmount(&self.directory, UnmountFlags::DETACH).is_ok() {
            let _ = self.helper.done();
        }
    }
}

/// So much of what is free that no write to the device can fail for want of room.
fn room_bytes() -> io::Result<u64> {
    let (place, megabytes) = (env::temp_dir(), |bytes: u64| bytes >> 20);
    let found = rustix::fs::statvfs(&place)?;
    let room = found.f_bavail.saturating_mul(found.f_frsize) / 2;
    match room {
        0..ROOM_BYTES_MIN => Err(io::Error::other(format!(
            "half of the free space in {} is {} MiB, but {} are needed; TMPDIR names another place",
            place.display(),
            megabytes(room),
            megabytes(ROOM_BYTES_MIN)
        ))),
        _ => Ok(room.min(ROOM_BYTES_MAX) / SECTOR_BYTES * SECTOR_BYTES),
    }
}

/// Attaches a loop device to a new file without a name. It goes when it is closed.
async fn attach(name: &str, bytes: u64) -> io::Result<(String, File)> {
    let path = env::temp_dir().join(name);
    let image = File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    image.set_len(bytes)?;
    let mut attach = Command::new("losetup");
    let attached = run(attach.args(["--find", "--show", "/proc/self/fd/0"]).stdin(image)).await?;
    let held = File::open(&attached);
    // The kernel detaches it once it is not open any more.
    run(Command::new("losetup").args(["--detach", &attached])).await?;
    Ok((attached, held?))
}

/// The output of a command.
async fn run(command: &mut Command) -> io::Result<String> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let failed = |why: String| io::Error::other(format!("{program}: {why}"));
    let ended = tokio::time::timeout(COMMAND_LIMIT, command.kill_on_drop(true).output()).await;
    let output = ended
        .map_err(|_| failed(format!("it has not ended after {} s", COMMAND_LIMIT.as_secs())))?
        .map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        // The first line says what, and those after it how to call it.
        false => {
            Err(failed(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned()))
        }
    }
}
