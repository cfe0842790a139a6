//! Candidates for the directory in which a driver keeps its files, from its process and from its mounts. The search that uses them
//! confirms a candidate by the files that appear in it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::resources::mounts::{self, Mount};

/// Directories that programs share, so that none of them belongs to one driver.
const SHARED: [&str; 20] = [
    "/",
    "/dev",
    "/dev/mapper",
    "/dev/shm",
    "/etc",
    "/home",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/var",
    "/var/lib",
    "/var/log",
    "/var/run",
    "/var/tmp",
];
/// Directories in which the kernel, and commands that a driver calls, keep files of their own, with all that is below them.
const OF_SYSTEM: [&str; 10] = [
    "/dev",
    "/proc",
    "/run/blkid",
    "/run/cryptsetup",
    "/run/lock",
    "/run/lvm",
    "/run/mount",
    "/run/udev",
    "/sys",
    "/usr",
];
/// Directories that are in memory.
const IN_MEMORY: [&str; 2] = ["/run", "/dev/shm"];
/// Entries that are looked at there, and bytes of a file.
const RECORDS_MAX: usize = 20_000;
const RECORD_BYTES_MAX: u64 = 1 << 20;
/// The beginning of an endpoint that is a socket, before its path.
const SCHEME: &str = "unix://";

/// The directory of a file, unless programs share it.
pub fn own_parent(file: &Path) -> Option<PathBuf> {
    file.parent().filter(|parent| file.is_absolute() && is_own(parent)).map(Path::to_owned)
}

fn is_own(directory: &Path) -> bool {
    let is_shared = SHARED.iter().any(|shared| Path::new(shared) == directory);
    let is_system = OF_SYSTEM.iter().any(|above| directory.starts_with(above));
    !is_shared && (!is_system || directory.starts_with("/dev/shm"))
}

/// The loop device that is mounted, or that a mount shows as a file.
pub fn loop_device(mount: &Mount) -> Option<String> {
    let shown = Path::new("/dev").join(mount.root.strip_prefix("/").ok()?);
    let names = [mount.source.clone(), shown.to_string_lossy().into_owned()];
    names.into_iter().find(|name| name.starts_with("/dev/loop"))
}

/// Directories that the command line of a process names, and those of files that it names or has open.
pub(crate) fn of_process(process: u32) -> BTreeSet<PathBuf> {
    let proc = PathBuf::from(format!("/proc/{process}"));
    let mut found = BTreeSet::new();
    let line = fs::read(proc.join("cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).into_owned();
    let here = fs::read_link(proc.join("cwd")).unwrap_or_default();
    for argument in line.split('\0') {
        let value = argument.split_once('=').map_or(argument, |(_, value)| value);
        let value = value.strip_prefix(SCHEME).unwrap_or(value);
        if value.contains('/') {
            found.extend(directory_of(&here.join(value)));
        }
    }
    let open = fs::read_dir(proc.join("fd")).into_iter().flatten().flatten();
    let files = open.filter_map(|file| fs::read_link(file.path()).ok()).filter(|file| file.is_file());
    found.extend(files.filter_map(|file| own_parent(&file)));
    found
}

/// Directories that hold what is mounted at a path: the file of its loop device, or the directory that a bind mount shows.
pub(crate) fn behind(path: &Path) -> BTreeSet<PathBuf> {
    let Some(mount) = mounts::at(path).pop() else { return BTreeSet::new() };
    if let Some(device) = loop_device(&mount) {
        let file = mounts::loops().remove(&device);
        return file.and_then(|file| own_parent(Path::new(&file))).into_iter().collect();
    }
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let shown = identity(path);
    let is_of = |other: &Mount| other.source == mount.source && other.fs_type == mount.fs_type;
    let elsewhere = mounts::table().into_iter().filter(is_of).filter_map(|other| {
        let place = other.point.join(mount.root.strip_prefix(&other.root).ok()?);
        (identity(&place) == shown).then(|| own_parent(&place))?
    });
    elsewhere.collect()
}

/// Returns true if the name or the text of a file in memory contains this id: a driver may keep records there, which a true reboot
/// deletes.
pub fn is_recorded_in_memory(id: &str) -> bool {
    records_in_memory(id).is_none_or(|found| !found.is_empty())
}

/// Deletes the files in memory whose name or text contains this id, as a reboot does. Returns their number; `None` if some stay. What is
/// mounted there stays, since it may be a volume.
pub fn delete_records_in_memory(id: &str) -> Option<usize> {
    let roots: BTreeSet<u64> =
        IN_MEMORY.iter().filter_map(|root| Some(fs::metadata(root).ok()?.dev())).collect();
    let mut deleted = 0;
    for record in records_in_memory(id)? {
        let found = fs::symlink_metadata(&record).ok()?;
        if !found.is_dir() {
            if !roots.contains(&found.dev()) {
                return None;
            }
            fs::remove_file(record).ok()?;
            deleted += 1;
        }
    }
    Some(deleted)
}

/// The files and directories in memory whose name or text contains this id; `None` if there are too many to read.
fn records_in_memory(id: &str) -> Option<Vec<PathBuf>> {
    let (mut records, mut entries) = (Vec::new(), 0);
    let mut open: Vec<PathBuf> = IN_MEMORY.map(PathBuf::from).into();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            entries += 1;
            if entries > RECORDS_MAX {
                return None;
            }
            let Ok(found) = entry.metadata() else { continue };
            let names_it = || {
                let text = fs::read(entry.path()).unwrap_or_default();
                text.windows(id.len().max(1)).any(|part| part == id.as_bytes())
            };
            let is_small = found.is_file() && found.len() <= RECORD_BYTES_MAX;
            if entry.file_name().to_string_lossy().contains(id) || (is_small && names_it()) {
                records.push(entry.path());
            }
            if found.is_dir() {
                open.push(entry.path());
            }
        }
    }
    Some(records)
}

/// The directory itself, or that of a file.
fn directory_of(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    if path.is_dir() { Some(path).filter(|path| is_own(path)) } else { own_parent(&path) }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_directory_that_programs_share_is_nobodys() {
        for path in ["/dev/mapper/x", "/tmp/x", "relative/x", "/", "/proc/1/mounts", "/x", "/usr/bin/x"] {
            assert_eq!(own_parent(Path::new(path)), None, "{path}");
        }
        assert_eq!(own_parent(Path::new("/run/cryptsetup/L_7:1")), None, "a lock file of a command");
        assert_eq!(own_parent(Path::new("/run/driver/a")), Some(PathBuf::from("/run/driver")));
        assert_eq!(own_parent(Path::new("/state/volumes/a")), Some(PathBuf::from("/state/volumes")));
    }

    #[test]
    fn a_process_shows_its_directories() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let [state, sockets, open] = ["state", "sockets", "open"].map(|name| root.join(name));
        for path in [&state, &sockets, &open] {
            fs::create_dir(path).unwrap();
        }
        fs::write(sockets.join("csi.sock"), "").unwrap();
        let log = fs::File::create(open.join("log")).unwrap();
        let mut child = Command::new("sh")
            .args(["-c", "echo; read line", "driver", "--state-dir=state"])
            .arg(format!("--state-dir={}", state.display()))
            .arg(format!("--endpoint=unix://{}", sockets.join("csi.sock").display()))
            .args(["--size", "1/2", "--log=/tmp"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        // The kernel shows the arguments only some time after the process has begun.
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let found = of_process(child.id());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(found, BTreeSet::from([open, sockets, state]));
    }

    #[test]
    fn records_in_memory_are_deleted_by_name_and_by_text() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let id = format!("vol-{}", std::process::id());
        let [named, naming, other] = [id.as_str(), "list", "other"].map(|name| dir.path().join(name));
        fs::write(&named, "").unwrap();
        fs::write(&naming, format!("volumes: {id}\n")).unwrap();
        fs::write(&other, "vol-1\n").unwrap();
        assert!(is_recorded_in_memory(&id));
        assert_eq!(delete_records_in_memory(&id), Some(2));
        assert!(!is_recorded_in_memory(&id));
        assert!(!named.exists() && !naming.exists() && other.exists());
    }

    #[test]
    fn as_root_the_directory_behind_a_bind_mount_is_seen() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root to mount");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let [volume, target] = ["volumes/one", "target"].map(|name| root.join(name));
        fs::create_dir_all(&volume).unwrap();
        fs::create_dir(&target).unwrap();
        rustix::mount::mount_bind(&volume, &target).unwrap();
        let found = behind(&target);
        mounts::unmount_below(&target).unwrap();
        assert!(found.contains(&root.join("volumes")), "{found:?}");
    }
}
