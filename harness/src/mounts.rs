//! The mount table of this process, and whether a driver is known to have the same one.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use csi_proto::Endpoint;
use rustix::mount::{UnmountFlags, unmount};
use tokio::net::UnixStream;

/// The mount points that this process sees; none where the system has no such table.
pub(crate) fn points() -> Vec<PathBuf> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let table = String::from_utf8_lossy(&table);
    table.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape).map(PathBuf::from).collect()
}

/// How many mounts there are at a path, one over the other.
pub(crate) fn at(path: &Path) -> usize {
    // The table has the true names of directories.
    let Ok(path) = std::fs::canonicalize(path) else { return 0 };
    points().iter().filter(|point| **point == path).count()
}

/// Unmounts everything at a path and below it, what was mounted last first: how many mounts that were. Whoever still looks
/// into one does not hold it.
pub(crate) fn unmount_below(path: &Path) -> io::Result<usize> {
    // Of a link that a driver has made, nothing is followed.
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(0) };
    let path = std::fs::canonicalize(parent)?.join(name);
    let below: Vec<PathBuf> = points().into_iter().filter(|point| point.starts_with(&path)).collect();
    for point in below.iter().rev() {
        unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?;
    }
    Ok(below.len())
}

/// Undoes the octal escapes of the table.
fn unescape(field: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(field.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

/// Whether the process that listens at an endpoint has the files and mounts of this one; false where that cannot be known,
/// as over TCP, or for a process that this one may not look at.
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

    #[test]
    fn mounts_are_taken_away_with_those_over_and_below_them() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root to mount");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let [below, beside] = ["target", "target-2"].map(|name| dir.path().join(name));
        for path in [&below, &below, &beside] {
            std::fs::create_dir_all(path).unwrap();
            rustix::mount::mount_bind(path, path).unwrap();
        }
        let inner = below.join("inner");
        std::fs::create_dir(&inner).unwrap();
        rustix::mount::mount_bind(&inner, &inner).unwrap();
        assert_eq!(unmount_below(&below).unwrap(), 3);
        assert_eq!((at(&below), at(&inner), at(&beside)), (0, 0, 1));
        assert_eq!(unmount_below(&beside).unwrap(), 1);
        assert_eq!(unmount_below(dir.path()).unwrap(), 0);
    }

    #[test]
    fn names_in_the_table_are_unescaped() {
        assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
        assert!(points().contains(&PathBuf::from("/proc")));
    }
}
