//! The mount table of this process, and whether a driver is known to have the same one.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use csi_proto::Endpoint;
use tokio::net::UnixStream;

/// The mount points that this process sees; none where the system has no such table.
pub(crate) fn points() -> Vec<PathBuf> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let table = String::from_utf8_lossy(&table);
    table.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape).map(PathBuf::from).collect()
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
    let Endpoint::Unix(path) = endpoint else { return false };
    let Ok(stream) = UnixStream::connect(path).await else { return false };
    // 0 stands for a process of another PID namespace.
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid()).filter(|pid| *pid > 0);
    pid.is_some_and(|pid| is_same(pid, "ns/mnt") && is_same(pid, "root"))
}

fn is_same(pid: i32, part: &str) -> bool {
    let identity = |process: &str| {
        let found = std::fs::metadata(Path::new("/proc").join(process).join(part)).ok()?;
        Some((found.dev(), found.ino()))
    };
    let own = identity("self");
    own.is_some() && own == identity(&pid.to_string())
}
