//! Examines this machine by trying the operations that checks need.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use csi_harness::checks::check::Check;
use csi_harness::resources::machine;
use csi_harness::spec::need::Need;
use tempfile::TempDir;
use tokio::process::Command;

use super::Finding;
use crate::error::Error;
use crate::suites;

/// The time limit of one trial.
const TRIAL_LIMIT: Duration = Duration::from_secs(30);
/// Size of the file that file systems are made in, without taking room on the disk; XFS wants no less than 300 MiB.
const IMAGE_BYTES: u64 = 320 << 20;
/// The largest number of characters of a command's error that are shown.
const COMPLAINT_CHARS_MAX: usize = 200;

/// A file system that drivers make and mount, and the package with its tools.
struct FileSystem {
    name: &'static str,
    make: &'static str,
    package: &'static str,
}

const FILE_SYSTEMS: [FileSystem; 3] = [
    FileSystem { name: "ext4", make: "mkfs.ext4", package: "e2fsprogs" },
    FileSystem { name: "xfs", make: "mkfs.xfs", package: "xfsprogs" },
    FileSystem { name: "btrfs", make: "mkfs.btrfs", package: "btrfs-progs" },
];

/// Tries everything. The mounts and files that it makes disappear with their namespace and directory.
pub(super) async fn examine() -> Result<Vec<Finding>, Error> {
    let scratch = tempfile::Builder::new().prefix("csi-sanity-doctor-").tempdir().map_err(Error::Scratch)?;
    let mut findings = vec![root()];
    if !findings[0].is_there {
        // Without root, none of the following trials is possible.
        return Ok(findings);
    }
    findings.push(mounts(&scratch).await);
    findings.push(pods().await);
    findings.push(loop_devices());
    for file_system in &FILE_SYSTEMS {
        findings.push(file_system.tried(&scratch).await);
    }
    Ok(findings)
}

fn root() -> Finding {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return Finding::there("root", "the tests run as root");
    }
    Finding::lacks("root", format!("the tests run as user {}", user.as_raw()))
        .costs(format!(
            "{}, all tests of `csi-sanity e2e`, and whatever a driver on this machine mounts",
            at_root()
        ))
        .mend("run csi-sanity as root on the driver's host; the other checks need no root")
}

/// The checks that look at mounts and devices, counted.
fn at_root() -> String {
    let registry = suites::all();
    let needs_root = |check: &Check| check.needs.iter().any(|need| matches!(need, Need::Root));
    let count = registry.checks().filter(|(_, check)| needs_root(check)).count();
    format!("{count} checks that look at target paths")
}

async fn mounts(scratch: &TempDir) -> Finding {
    const WHAT: &str = "mounts";
    let arguments = ["--mount", "--propagation", "private", "--", "mount", "-t", "tmpfs", "none"];
    match run("unshare", &arguments, Some(scratch.path())).await {
        Ok(_) => Finding::there(WHAT, "a tmpfs was mounted, in a mount namespace of its own"),
        Err(why) => Finding::lacks(WHAT, why)
            .costs(format!("{}, all tests of `csi-sanity e2e`", at_root()))
            .mend("a container needs CAP_SYS_ADMIN, such as by privileged: true, and a profile that allows mounts"),
    }
}

async fn pods() -> Finding {
    const WHAT: &str = "namespaces of processes";
    match run("unshare", &["--mount", "--pid", "--fork", "--kill-child", "--", "true"], None).await {
        Ok(_) => Finding::there(WHAT, "a process was started in its own"),
        Err(why) => Finding::lacks(WHAT, why)
            .costs("all tests of `csi-sanity e2e` with pods, which are processes in such namespaces")
            .mend("put unshare (util-linux) into PATH, and run with CAP_SYS_ADMIN"),
    }
}

fn loop_devices() -> Finding {
    const WHAT: &str = "loop devices";
    const CONTROL: &str = "/dev/loop-control";
    match File::options().read(true).write(true).open(CONTROL) {
        Ok(_) => {
            let left = machine::read_only_loops();
            let opened = format!("{CONTROL} can be opened");
            match left.is_empty() {
                true => Finding::there(WHAT, opened),
                false => Finding::there(WHAT, format!("{opened}; {}", machine::describe_read_only_loops(&left))),
            }
        }
        Err(error) => Finding::lacks(WHAT, format!("{CONTROL}: {error}"))
            .costs("nothing of csi-sanity itself; drivers on this machine that keep volumes in files, such as csi-hostpath-driver with block volumes")
            .mend("modprobe loop; in a container, privileged: true with the host's /dev"),
    }
}

impl FileSystem {
    /// Makes such a file system in a file, and mounts it.
    async fn tried(&self, scratch: &TempDir) -> Finding {
        let image = scratch.path().join(self.name);
        let costs = format!(
            "nothing of csi-sanity itself; drivers on this machine that make {0}, and so tests of `csi-sanity e2e` with FsType {0}",
            self.name
        );
        let made = async {
            File::create(&image)
                .and_then(|file| file.set_len(IMAGE_BYTES))
                .map_err(|error| error.to_string())?;
            run(self.make, &["-q"], Some(&image)).await
        };
        if let Err(why) = made.await {
            return Finding::lacks(self.name, why)
                .costs(costs)
                .mend(format!("{} in PATH; Debian has it in {}", self.make, self.package));
        }
        let shell = "mount -o loop \"$0\" \"$0.d\"";
        let mounted = match std::fs::create_dir(image.with_extension("d")) {
            Ok(()) => {
                run(
                    "unshare",
                    &["--mount", "--propagation", "private", "--", "sh", "-c", shell],
                    Some(&image),
                )
                .await
            }
            Err(error) => Err(error.to_string()),
        };
        match mounted {
            Ok(_) => Finding::there(self.name, "one was made in a file, and mounted"),
            Err(why) => Finding::lacks(self.name, why)
                .costs(costs)
                .mend(format!("a kernel with {} (modprobe {0}), and loop devices", self.name)),
        }
    }
}

/// Runs a command to its end. The error is the last line that it printed.
async fn run(program: &str, arguments: &[&str], path: Option<&Path>) -> Result<Output, String> {
    let ended =
        Command::new(program).args(arguments).args(path).stdin(Stdio::null()).kill_on_drop(true).output();
    match tokio::time::timeout(TRIAL_LIMIT, ended).await {
        Err(_) => Err(format!("{program} took longer than {} s", TRIAL_LIMIT.as_secs())),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Err(format!("{program} is not in PATH")),
        Ok(Err(error)) => Err(format!("{program}: {error}")),
        Ok(Ok(output)) if output.status.success() => Ok(output),
        Ok(Ok(output)) => Err(format!("{program}: {}", complaint(&output))),
    }
}

fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    match text.lines().rev().map(str::trim).find(|line| !line.is_empty()) {
        Some(line) => line.chars().take(COMPLAINT_CHARS_MAX).collect(),
        None => output.status.to_string(),
    }
}
