//! Mounting, unmounting, and recognising the driver's own mounts.

use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::error::{DriverError, IoContext, Result};
use crate::fs::FsType;
use crate::paths::{Held, Occupant, PathEntry, occupant_of};
use crate::{kernel, loopdev};

/// The largest stack of mounts at one path that the driver removes.
const STACK_DEPTH_MAX: usize = 16;
/// The longest wait for a mount that is in use.
const BUSY_WAIT_MAX: Duration = Duration::from_secs(2);
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Mount options, split into the flags of the mount and the options of the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    pub flags: MountFlags,
    /// Comma-separated options for the file system.
    pub data: String,
}

impl MountOptions {
    /// The longest option string that the kernel accepts, in bytes.
    pub const BYTES_MAX: usize = 4000;

    pub fn parse(options: &[String]) -> MountOptions {
        let mut parsed = MountOptions { flags: MountFlags::empty(), data: String::new() };
        for option in options.iter().flat_map(|option| split_unquoted(option)) {
            match flag(option) {
                _ if is_for_mount_program(option) => {}
                Some((flag, true)) => parsed.flags |= flag,
                Some((flag, false)) => parsed.flags &= !flag,
                None => parsed.add_data(option),
            }
        }
        parsed
    }

    fn add_data(&mut self, option: &str) {
        if !option.is_empty() {
            if !self.data.is_empty() {
                self.data.push(',');
            }
            self.data.push_str(option);
        }
    }
}

/// Splits at commas outside of double quotes, because SELinux contexts contain commas.
fn split_unquoted(text: &str) -> Vec<&str> {
    let mut quoted = false;
    text.split(move |c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    })
    .collect()
}

/// Returns whether an option is for mount(8) or its helpers, and unknown to the kernel.
fn is_for_mount_program(option: &str) -> bool {
    let prefixes = ["x-", "X-", "comment="];
    matches!(option, "_netdev" | "nofail" | "auto" | "noauto")
        || prefixes.iter().any(|prefix| option.starts_with(prefix))
}

/// The flag of an option, and whether the option sets or clears it.
fn flag(option: &str) -> Option<(MountFlags, bool)> {
    Some(match option {
        "defaults" | "rw" => (MountFlags::RDONLY, false),
        "ro" => (MountFlags::RDONLY, true),
        "suid" => (MountFlags::NOSUID, false),
        "nosuid" => (MountFlags::NOSUID, true),
        "dev" => (MountFlags::NODEV, false),
        "nodev" => (MountFlags::NODEV, true),
        "exec" => (MountFlags::NOEXEC, false),
        "noexec" => (MountFlags::NOEXEC, true),
        "async" => (MountFlags::SYNCHRONOUS, false),
        "sync" => (MountFlags::SYNCHRONOUS, true),
        "dirsync" => (MountFlags::DIRSYNC, true),
        "atime" => (MountFlags::NOATIME, false),
        "noatime" => (MountFlags::NOATIME, true),
        "diratime" => (MountFlags::NODIRATIME, false),
        "nodiratime" => (MountFlags::NODIRATIME, true),
        "relatime" => (MountFlags::RELATIME, true),
        "norelatime" => (MountFlags::RELATIME, false),
        "strictatime" => (MountFlags::STRICTATIME, true),
        "lazytime" => (MountFlags::LAZYTIME, true),
        "nosymfollow" => (MountFlags::NOSYMFOLLOW, true),
        _ => return None,
    })
}

pub(crate) fn mount_device(
    device: &Path,
    fs_type: FsType,
    options: &MountOptions,
    at: &PathEntry,
) -> Result<()> {
    let mut options = options.clone();
    options.add_data(fs_type.mount_data());
    let data =
        CString::new(options.data).map_err(|_| DriverError::invalid("mount_flags", "they contain a NUL"))?;
    rustix::mount::mount(device, at.hold()?.path(), fs_type.name(), options.flags, data.as_c_str())
        .on("mount a volume at", at.path())
}

/// Bind-mounts a file or directory.
pub(crate) fn bind(source: &Path, flags: MountFlags, at: &PathEntry) -> Result<()> {
    rustix::mount::mount_bind(source, at.hold()?.path()).on("bind a volume to", at.path())?;
    let result = restrict(flags, at);
    if result.is_err() {
        let _ = rustix::mount::unmount(at.fd_path(), UnmountFlags::NOFOLLOW | UnmountFlags::DETACH);
    }
    result
}

/// Sets the flags of a bind mount, which the kernel ignores when it creates one.
pub(crate) fn restrict(flags: MountFlags, at: &PathEntry) -> Result<()> {
    let per_mount = flags
        & (MountFlags::RDONLY
            | MountFlags::NOSUID
            | MountFlags::NODEV
            | MountFlags::NOEXEC
            | MountFlags::NOATIME
            | MountFlags::NODIRATIME
            | MountFlags::RELATIME
            | MountFlags::NOSYMFOLLOW);
    if per_mount.is_empty() {
        return Ok(());
    }
    let mounted = at.hold()?;
    let inherited = restrictions(&mounted).on("get the mount flags of", at.path())?;
    rustix::mount::mount_remount(mounted.path(), MountFlags::BIND | per_mount | inherited, "")
        .on("set mount flags of", at.path())
}

/// The restrictions that a mount has inherited from its source. Setting flags would remove them unless they are
/// repeated.
fn restrictions(mounted: &Held) -> rustix::io::Result<MountFlags> {
    let present = mounted.statvfs()?.f_flag;
    let forbidden = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    ];
    Ok(forbidden.into_iter().filter(|(flag, _)| present.contains(*flag)).map(|(_, flag)| flag).collect())
}

/// Unmounts from a path whatever `ours` accepts, from the top of the stack down. Returns whether nothing is mounted
/// there any more.
pub(crate) fn unmount(at: &PathEntry, ours: impl Fn(&Occupant) -> bool) -> Result<bool> {
    for _ in 0..STACK_DEPTH_MAX {
        match at.occupant()? {
            Some(occupant) if occupant.is_mount_root => {
                if !ours(&occupant) {
                    return Ok(false);
                }
            }
            _ => return Ok(true),
        }
        match unmount_once_free(at) {
            Ok(()) | Err(Errno::INVAL) => {}
            Err(Errno::BUSY) => {
                let what = at.path().display().to_string();
                return Err(DriverError::precondition(what, "it is in use and cannot be unmounted"));
            }
            Err(error) => return Err(error).on("unmount", at.path()),
        }
    }
    Ok(false)
}

/// Unmounts, and waits a moment if the mount is in use: a process that is about to execute a program still holds the
/// open files of its parent.
fn unmount_once_free(at: &PathEntry) -> rustix::io::Result<()> {
    let end = Instant::now() + BUSY_WAIT_MAX;
    loop {
        match rustix::mount::unmount(at.fd_path(), UnmountFlags::NOFOLLOW) {
            Err(Errno::BUSY) if Instant::now() < end => std::thread::sleep(BUSY_PAUSE),
            done => return done,
        }
    }
}

/// Returns whether a mount shows the image, through any loop device.
pub(crate) fn shows_image(mount: &Occupant, image: &Path) -> bool {
    source_of(mount.mount_id).is_some_and(|source| loopdev::was_backed_by(&source, image))
}

/// Returns whether a mount shows the directory itself. A directory that was deleted is recognised by its name, which
/// is unique.
pub(crate) fn shows_directory(mount: &Occupant, path: &Path) -> bool {
    match occupant_of(path) {
        Ok(Some(original)) => original.identity == mount.identity,
        Ok(None) => entry_of(mount.mount_id).is_some_and(|entry| entry.lost_root() == path.file_name()),
        Err(_) => false,
    }
}

/// The source of a mount, by mount id.
pub(crate) fn source_of(mount_id: u64) -> Option<PathBuf> {
    entry_of(mount_id).map(|entry| PathBuf::from(entry.source))
}

/// Returns true if ext4 accepts no more writes after an error. Since Linux 6.15, statvfs does not show that.
pub(crate) fn is_in_emergency(mount_id: u64) -> bool {
    entry_of(mount_id).is_some_and(|entry| entry.fs_options.split(',').any(|option| option == "emergency_ro"))
}

fn entry_of(mount_id: u64) -> Option<MountEntry> {
    mounts().ok()?.into_iter().find(|entry| entry.mount_id == mount_id)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    pub mount_id: u64,
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    pub mount_point: PathBuf,
    pub options: String,
    pub fs_type: String,
    /// The device, or another text that the file system uses as its source.
    pub source: OsString,
    /// The options of the file system, which are those of all its mounts.
    pub fs_options: String,
}

impl MountEntry {
    /// The former name of a mounted directory that was deleted.
    fn lost_root(&self) -> Option<&OsStr> {
        let deleted = self.root.as_os_str().as_bytes().strip_suffix(b"//deleted")?;
        Path::new(OsStr::from_bytes(deleted)).file_name()
    }
}

/// All mounts that this process can see. The lines are parsed as bytes, and one by one, because any user can create
/// mounts with odd names.
pub fn mounts() -> Result<Vec<MountEntry>> {
    let path = Path::new("/proc/self/mountinfo");
    let text = fs::read(path).on("read", path)?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(parse_mount).collect())
}

/// Parses one line of mountinfo; returns `None` for a line that is not understood, which cannot be one of the
/// driver's mounts.
pub fn parse_mount(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mount_id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let (_parent, _device) = (fields.next()?, fields.next()?);
    let root = PathBuf::from(unescape(fields.next()?));
    let mount_point = PathBuf::from(unescape(fields.next()?));
    let options = String::from_utf8_lossy(fields.next()?).into_owned();
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let fs_type = String::from_utf8_lossy(fields.next()?).into_owned();
    let source = unescape(fields.next()?);
    let fs_options = String::from_utf8_lossy(fields.next().unwrap_or_default()).into_owned();
    Some(MountEntry { mount_id, root, mount_point, options, fs_type, source, fs_options })
}

/// Replaces the octal escapes for space, tab, newline and backslash.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes)
}

/// A file system whose writers are blocked until this value is dropped.
#[derive(Debug)]
pub(crate) struct Frozen {
    mount_point: OwnedFd,
    path: PathBuf,
}

impl Frozen {
    /// Flushes the file system and blocks writers.
    pub(crate) fn freeze(at: &PathEntry) -> Result<Frozen> {
        let mount_point = at.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
        let path = at.path().to_owned();
        kernel::freeze(mount_point.as_fd()).on("freeze", &path)?;
        Ok(Frozen { mount_point, path })
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Err(error) = kernel::thaw(self.mount_point.as_fd()) {
            tracing::error!(path = %self.path.display(), %error, "a file system could not be thawed");
        }
    }
}

/// Thaws a file system that a killed process may have left frozen; returns whether it was.
pub(crate) fn thaw_leftover(at: &PathEntry) -> Result<bool> {
    let mount_point = at.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
    Ok(kernel::thaw(mount_point.as_fd()).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_split_outside_quotes() {
        let options = ["noatime,ro,_netdev", r#"context="a:s0:c1,c2",discard,x-gvfs-hide"#, "nofail", "rw"];
        let options = options.map(str::to_owned);
        let parsed = MountOptions::parse(&options);
        assert_eq!(parsed.flags, MountFlags::NOATIME);
        assert_eq!(parsed.data, r#"context="a:s0:c1,c2",discard"#);
    }

    #[test]
    fn mountinfo_lines_are_read() {
        let line = br"36 35 98:0 /mnt1 /mnt\0402\134x rw,noatime master:1 shared:2 - ext3 /dev/root\011 rw,errors=continue";
        let entry = parse_mount(line).unwrap();
        assert_eq!(entry.mount_id, 36);
        assert_eq!(entry.mount_point, PathBuf::from("/mnt 2\\x"));
        assert_eq!(entry.fs_type, "ext3");
        assert_eq!(entry.source, OsString::from("/dev/root\t"));
        assert_eq!(entry.fs_options, "rw,errors=continue");
    }

    #[test]
    fn broken_lines_are_skipped() {
        let lines: [&[u8]; 6] =
            [b"", b" ", b"1 2 3", b"x 2 3 / / rw - ext4 /dev/sda", b"1 2 3 / / rw", b"\xff\\9"];
        for line in lines {
            assert_eq!(parse_mount(line), None);
        }
        assert_eq!(unescape(br"\04"), OsString::from(r"\04"));
        assert_eq!(unescape(br"\777"), OsString::from(r"\777"));
    }

    #[test]
    fn own_mounts_can_be_listed() {
        assert!(mounts().unwrap().iter().any(|entry| entry.mount_point == Path::new("/proc")));
    }
}
