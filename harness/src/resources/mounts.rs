//! The mount table of this process, and a test that a driver has the same one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use csi_proto::Endpoint;
use rustix::fs::{AtFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use tokio::net::UnixStream;

/// A line of the mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The mount point.
    pub point: PathBuf,
    /// The part of the file system that is mounted; `/` unless it is a bind mount of a directory in it.
    pub root: PathBuf,
    /// The options of this mount alone, such as `ro` and `noexec`.
    pub options: BTreeSet<String>,
    /// The type of the file system.
    pub fs_type: String,
    /// The source of the file system: a device, the export of a server, or any word, such as `tmpfs`.
    pub source: String,
    /// The options of the file system, which all its mounts share.
    pub fs_options: BTreeSet<String>,
}

/// The mounts that this process sees, the oldest first; none where the system has no such table.
pub fn table() -> Vec<Mount> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    String::from_utf8_lossy(&table).lines().filter_map(Mount::read).collect()
}

/// The mount points that this process sees.
pub fn points() -> Vec<PathBuf> {
    table().into_iter().map(|mount| mount.point).collect()
}

/// The loop devices that are in use, with the files that they are on.
pub fn loops() -> BTreeMap<String, String> {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let used = devices.filter_map(|device| {
        let file = std::fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        Some((format!("/dev/{}", device.file_name().to_str()?), file.trim_end().to_owned()))
    });
    used.collect()
}

/// Returns true if a block device of this number refuses writes.
pub(crate) fn refuses_writes(number: u64) -> bool {
    fact_of_device(number, "ro").is_some_and(|flag| flag == "1")
}

/// The file that the loop device of this number shows, and the offset in bytes at which it begins: `/volumes/1.img from 0`.
pub(crate) fn loop_file(number: u64) -> Option<String> {
    let [file, offset] =
        ["backing_file", "offset"].map(|fact| fact_of_device(number, &format!("loop/{fact}")));
    Some(format!("{} from {}", file?, offset?))
}

/// Reads a fact that the kernel has about a block device of this number.
fn fact_of_device(number: u64, name: &str) -> Option<String> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let fact = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{name}"));
    fact.ok().map(|fact| fact.trim_end().to_owned())
}

/// The mounts at a path, the uppermost last.
pub fn at(path: &Path) -> Vec<Mount> {
    // The table has the true names of directories.
    let Ok(path) = std::fs::canonicalize(path) else { return Vec::new() };
    if is_known_for_no_mount(&path) {
        return Vec::new();
    }
    table().into_iter().filter(|mount| mount.point == path).collect()
}

/// The mount at a target path, if it shows a file system as a whole and all mounts of that are at or below these paths, so that nothing else
/// can be hurt by a change of it.
///
/// # Errors
/// Says why it is not so.
pub fn alone_at(target: &Path, paths: &[&Path]) -> io::Result<Mount> {
    let mount = at(target).pop().ok_or_else(|| io::Error::other("nothing is mounted there"))?;
    // Nothing is mounted at a path that does not exist.
    let paths: Vec<PathBuf> = paths.iter().filter_map(|path| std::fs::canonicalize(path).ok()).collect();
    let device = std::fs::canonicalize(&mount.source)
        .map_err(|_| io::Error::other(format!("the file system ({}) has no device", mount.fs_type)))?;
    let is_own = |point: &Path| paths.iter().any(|path| point.starts_with(path));
    let is_elsewhere = |other: &Mount| {
        std::fs::canonicalize(&other.source).is_ok_and(|source| source == device)
            && (other.root != Path::new("/") || !is_own(&other.point))
    };
    match table().iter().any(is_elsewhere) {
        true => Err(io::Error::other("the file system is mounted elsewhere too")),
        false => Ok(mount),
    }
}

/// Returns true if the file system of a directory is in memory, so that a reboot deletes its files.
pub fn is_in_memory(directory: &Path) -> bool {
    let on = table().into_iter().filter(|mount| directory.starts_with(&mount.point));
    let mount = on.max_by_key(|mount| mount.point.as_os_str().len());
    mount.is_none_or(|mount| ["tmpfs", "ramfs", "devtmpfs"].contains(&&*mount.fs_type))
}

/// Returns true if the last part of a path is a symbolic link, which leads to a mount at another path.
pub(crate) fn is_behind_link(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// Returns true if statx says that the path is no mount point, which is much faster than reading the table. Kernels
/// before 5.8 do not say so.
fn is_known_for_no_mount(path: &Path) -> bool {
    let found = rustix::fs::statx(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty());
    found.is_ok_and(|found| {
        found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
            && !found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
    })
}

impl Mount {
    /// Reads `30 22 0:40 / /mnt rw,nosuid shared:1 - tmpfs tmpfs rw`; between the options and the dash there may be any
    /// number of words.
    pub fn read(line: &str) -> Option<Mount> {
        let set = |field: &str| field.split(',').map(str::to_owned).collect();
        let mut fields = line.split(' ').skip(3);
        let (root, point, options) = (fields.next()?, fields.next()?, fields.next()?);
        let mut of_file_system = fields.skip_while(|field| *field != "-").skip(1);
        Some(Mount {
            point: PathBuf::from(unescape(point)),
            root: PathBuf::from(unescape(root)),
            options: set(options),
            fs_type: of_file_system.next()?.to_owned(),
            source: unescape(of_file_system.next()?),
            fs_options: set(of_file_system.next().unwrap_or_default()),
        })
    }
}

/// Unmounts everything at a path and below it, what was mounted last first: how many mounts that were. Whoever still looks
/// into one does not hold it.
pub fn unmount_below(path: &Path) -> io::Result<usize> {
    // A link that a driver has made must not be followed.
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(0) };
    let path = std::fs::canonicalize(parent)?.join(name);
    let below: Vec<PathBuf> = points().into_iter().filter(|point| point.starts_with(&path)).collect();
    for point in below.iter().rev() {
        match unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            // On a machine with systemd, mounts are shared: the kernel unmounts the copies of a mount together with it.
            Err(Errno::INVAL) if !points().contains(point) => {}
            done => done?,
        }
    }
    Ok(below.len())
}

/// Undoes the octal escapes of the table, such as `\040` for a space.
fn unescape(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..3).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[3..]);
            }
            None => bytes.extend(format!("\\{part}").bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns true if the process that listens at an endpoint has the files and mounts of this one. Returns false if that
/// cannot be known, as over TCP, or for a process that this one may not look at.
pub(crate) async fn are_shared_with(endpoint: &Endpoint) -> bool {
    listener(endpoint).await.is_some_and(|pid| is_same(pid, "ns/mnt") && is_same(pid, "root"))
}

/// The process that listens at an endpoint, where it can be known.
pub(crate) async fn listener(endpoint: &Endpoint) -> Option<i32> {
    let Endpoint::Unix(path) = endpoint else { return None };
    let stream = UnixStream::connect(path).await.ok()?;
    // 0 stands for a process of another PID namespace.
    stream.peer_cred().ok()?.pid().filter(|pid| *pid > 0)
}

fn is_same(pid: i32, part: &str) -> bool {
    let identity = |process: &str| {
        let found = std::fs::metadata(Path::new("/proc").join(process).join(part)).ok()?;
        Some((found.dev(), found.ino()))
    };
    let own = identity("self");
    own.is_some() && own == identity(&pid.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use rustix::mount::MountPropagationFlags;
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn a_listener_of_this_process_shares_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("csi.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        assert!(are_shared_with(&Endpoint::Unix(path)).await);
    }

    #[tokio::test]
    async fn over_tcp_nothing_is_known() {
        assert!(!are_shared_with(&Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: 1 }).await);
    }

    #[test]
    fn another_mount_namespace_shares_nothing() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root for a mount namespace");
            return;
        }
        let mut child = Command::new("unshare")
            .args(["--mount", "sh", "-c", "echo there && read line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(!is_same(pid, "ns/mnt"), "{line}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    /// A directory that is a mount of its own, and is unmounted with everything below it when the test ends or fails.
    struct Mounted(tempfile::TempDir);

    impl Mounted {
        fn new(propagation: MountPropagationFlags) -> Mounted {
            let mounted = Mounted(tempfile::tempdir().unwrap());
            let path = mounted.0.path();
            rustix::mount::mount_bind(path, path).unwrap();
            rustix::mount::mount_change(path, propagation).unwrap();
            mounted
        }
    }

    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = unmount_below(self.0.path());
        }
    }

    #[test]
    fn mounts_are_removed_with_those_over_and_below() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root to mount");
            return;
        }
        // Shared mounts would have copies, which would be counted as well.
        let mounted = Mounted::new(MountPropagationFlags::PRIVATE);
        let dir = &mounted.0;
        let [below, beside] = ["target", "target-2"].map(|name| dir.path().join(name));
        for path in [&below, &below, &beside] {
            std::fs::create_dir_all(path).unwrap();
            rustix::mount::mount_bind(path, path).unwrap();
        }
        let inner = below.join("inner");
        std::fs::create_dir(&inner).unwrap();
        rustix::mount::mount_bind(&inner, &inner).unwrap();
        assert_eq!(unmount_below(&below).unwrap(), 3);
        assert_eq!((at(&below), at(&inner), at(&beside).len()), (vec![], vec![], 1));
        assert_eq!(unmount_below(&beside).unwrap(), 1);
        assert_eq!(unmount_below(dir.path()).unwrap(), 1);
    }

    #[test]
    fn copies_of_shared_mounts_are_removed_as_well() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root to mount");
            return;
        }
        let mounted = Mounted::new(MountPropagationFlags::SHARED);
        let path = mounted.0.path().join("target");
        std::fs::create_dir(&path).unwrap();
        for _ in 0..2 {
            rustix::mount::mount_bind(&path, &path).unwrap();
        }
        assert!(unmount_below(&path).unwrap() > 2, "each mount has a copy");
        assert_eq!(at(&path), []);
    }

    #[test]
    fn every_octal_escape_is_undone_once() {
        for (field, text) in [
            (r"/a\043b\054", "/a#b,"),
            (r"/a\134040", r"/a\040"),
            (r"/ends\", r"/ends\"),
            (r"/\04", r"/\04"),
            (r"/\777", r"/\777"),
            (r"/\xé", r"/\xé"),
        ] {
            assert_eq!(unescape(field), text);
        }
    }

    #[test]
    fn a_line_of_the_table_is_read() {
        let line =
            "30 22 0:40 /sub /a\\040b ro,nosuid shared:1 master:2 - ext4 /dev/loop0 rw,errors=continue";
        let mount = Mount::read(line).unwrap();
        assert_eq!((mount.point, mount.root), (PathBuf::from("/a b"), PathBuf::from("/sub")));
        assert_eq!(mount.options, BTreeSet::from(["nosuid".to_owned(), "ro".to_owned()]));
        assert_eq!((mount.fs_type.as_str(), mount.source.as_str()), ("ext4", "/dev/loop0"));
        assert!(mount.fs_options.contains("errors=continue"));
        assert_eq!(Mount::read("30 22 0:40 / /a rw"), None);
    }

    #[test]
    fn names_in_the_table_are_unescaped() {
        assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
        assert!(points().contains(&PathBuf::from("/proc")));
    }
}
