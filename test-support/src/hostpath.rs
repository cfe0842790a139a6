//! Runs the reference driver with real mounts, correct or with a defect.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

use csi_faulty_driver::Defect;
use csi_harness::config::{AccessType, Config as RunConfig, NodeConfig};
use csi_harness::driver::{Driver, Supervisor, Version};
use csi_harness::resources::mounts;
use csi_hostpath_driver::args::Args;
use csi_hostpath_driver::{Config, HostpathDriver, StartError};
use csi_proto::Endpoint;
use tonic::service::Routes;

use crate::machine;

/// The second node of a driver has this name, and is on this machine as well.
const OTHER_NODE: &str = "node2";
/// The size is large enough for XFS.
const VOLUME_BYTES: i64 = 320 << 20;

/// The driver keeps its volumes in one of these back ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Directories,
    Images,
}

impl Backend {
    pub const ALL: [Backend; 2] = [Backend::Directories, Backend::Images];

    /// Returns the name by which the driver knows the back end.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Directories => "directory",
            Backend::Images => "image",
        }
    }

    /// Returns the flag with which the driver uses the back end.
    pub fn flag(self) -> String {
        format!("--backend={}", self.name())
    }

    /// Returns the settings of a run on such a driver, with volumes that are mounted and block volumes.
    pub fn run_config(self, root: &Path) -> RunConfig {
        let fs_type = match self {
            Backend::Directories => "",
            // Not every kernel lets a mounted ext4 grow.
            Backend::Images => "xfs",
        };
        RunConfig {
            access_types: vec![AccessType::Mount, AccessType::Block],
            volume_size_bytes: Some(VOLUME_BYTES),
            fs_type: fs_type.to_owned(),
            ..run_config(root)
        }
    }
}

/// Returns the settings of a run on the driver whose files are in a directory.
pub fn run_config(root: &Path) -> RunConfig {
    RunConfig {
        endpoint: Some(endpoint(root).to_string()),
        mount_dir: Some(root.join("mount")),
        staging_dir: Some(root.join("staging")),
        ..RunConfig::default()
    }
}

/// Returns the endpoint of the driver whose files are in a directory.
pub fn endpoint(root: &Path) -> Endpoint {
    Endpoint::Unix(root.join("csi.sock"))
}

/// Returns the settings of a driver that keeps its state in a directory.
pub fn config(root: &Path, flags: &[&str]) -> Config {
    let state = format!("--statedir={}/state", root.display());
    let fixed = ["csi-hostpath-driver", "--nodeid=node1", &state];
    let arguments = fixed.iter().chain(flags).map(OsString::from);
    Args::read(arguments).unwrap().into_config().unwrap()
}

/// Returns the flag that gives that driver a second node.
pub fn other_node_flag(root: &Path) -> String {
    format!("--node-endpoint={OTHER_NODE}={}", other_node(root))
}

/// Returns the endpoint of that node.
pub fn other_node(root: &Path) -> Endpoint {
    endpoint_of(root, OTHER_NODE)
}

/// Returns the settings of a run for that node.
pub fn other_node_config(root: &Path) -> NodeConfig {
    NodeConfig { endpoint: other_node(root).to_string(), ..NodeConfig::default() }
}

fn endpoint_of(root: &Path, node: &str) -> Endpoint {
    Endpoint::Unix(root.join(format!("{node}.sock")))
}

/// Returns a driver, with a defect if there is one, that keeps its state and its sockets in a directory: one for each node that a flag
/// names beside its own.
pub fn driver(root: &Path, flags: &[&str], defect: Option<Defect>) -> Driver {
    let (root, config) = (root.to_owned(), config(root, flags));
    Driver::in_process(move || Ok(services(&root, &config, defect)?))
}

/// Returns the services of a driver that is started now, each with its endpoint.
fn services(
    root: &Path,
    config: &Config,
    defect: Option<Defect>,
) -> Result<Vec<(Endpoint, Routes)>, StartError> {
    let driver = HostpathDriver::new(config.clone())?;
    let others: Vec<&str> = config.other_nodes.iter().map(String::as_str).collect();
    let (first, routes) = csi_faulty_driver::routes_of_nodes(&driver, defect, &others);
    let others = others.into_iter().map(|node| endpoint_of(root, node)).zip(routes);
    Ok(std::iter::once((endpoint(root), first)).chain(others).collect())
}

/// Holds the arguments of a driver in a process of its own, separated by spaces.
pub const ARGUMENTS: &str = "SERVE_HOSTPATH";

/// Returns a driver as [`driver`] does, in a process of its own, for which the test program starts itself once more.
pub fn child(root: &Path, flags: &[&str], defect: Option<Defect>) -> std::io::Result<Driver> {
    Ok(Driver::child(&command(root, flags, defect, None)?, None, None))
}

/// Returns a driver as [`child`] does, with a next version, which is the same program and knows that it is the next one, and with node plugins
/// of both.
pub fn child_with_next_version(
    root: &Path,
    flags: &[&str],
    defect: Option<Defect>,
) -> std::io::Result<Driver> {
    let present = command(root, flags, defect, None)?;
    let next = command(root, flags, defect, Some(csi_faulty_driver::NEXT_VERSION))?;
    let mixed = command(root, flags, defect, Some(csi_faulty_driver::MIXED_VERSIONS))?;
    let others = [(Version::Next, next.as_str()), (Version::Mixed, mixed.as_str())];
    Ok(Driver::child_with_versions(&present, &others, None, None))
}

/// Returns the shell command that starts a driver in a process of its own.
fn command(
    root: &Path,
    flags: &[&str],
    defect: Option<Defect>,
    version: Option<&str>,
) -> std::io::Result<String> {
    let program = std::env::current_exe()?;
    let (place, endpoint) = (root.display(), endpoint(root));
    let defect = defect.map_or_else(String::new, |defect| format!("--defect={} ", defect.id()));
    let version = version.map_or_else(String::new, |flag| format!("{flag} "));
    let own = format!("--nodeid=node1 --statedir={place}/state --endpoint={endpoint}");
    let (program, flags) = (program.display(), flags.join(" "));
    // A driver that cannot start panics. Without this variable, it would take longer to print the backtrace than a test that starts two
    // drivers waits.
    Ok(format!("RUST_BACKTRACE=0 {ARGUMENTS}='{defect}{version}{own} {flags}' exec '{program}'"))
}

/// Returns true if the kernel lets the system calls of a [`child`] be watched. If not, it prints that the test is skipped.
#[expect(clippy::print_stdout, reason = "a test that does not run says so")]
pub async fn can_be_watched() -> bool {
    let tried = Supervisor::try_it().await;
    if let Err(error) = &tried {
        println!("skipped: the kernel does not let a driver's system calls be watched: {error}");
    }
    tried.is_ok()
}

/// Serves a driver if this program was started for that. It belongs at the beginning of `main`.
pub fn serve_if_asked() -> Option<ExitCode> {
    let arguments = std::env::var(ARGUMENTS).ok()?;
    let arguments = ["csi-faulty-driver"].into_iter().chain(arguments.split_whitespace());
    let arguments = arguments.map(OsString::from).collect();
    match tokio::runtime::Runtime::new().unwrap().block_on(csi_faulty_driver::serve(arguments)) {
        Ok(()) => Some(ExitCode::SUCCESS),
        // The harness records the output of the driver.
        Err(error) => panic!("the reference driver cannot be served: {error}"),
    }
}

/// Runs an async function in a new directory and removes the mounts and loop devices below it. On a machine that
/// [cannot mount](machine::can_mount), it returns `None`.
pub fn in_directory<T>(test: impl AsyncFnOnce(&Path) -> T) -> Option<T> {
    if !machine::can_mount() {
        return None;
    }
    let directory = Directory(tempfile::Builder::new().prefix("hostpath-").tempdir().unwrap());
    let root = directory.0.path().canonicalize().unwrap();
    Some(tokio::runtime::Runtime::new().unwrap().block_on(test(&root)))
}

/// A directory belongs to a test. A defect may leave mounts and loop devices below it, and so may a test that fails.
struct Directory(tempfile::TempDir);

impl Drop for Directory {
    fn drop(&mut self) {
        let root = self.0.path().canonicalize().unwrap();
        let unmounted = mounts::unmount_below(&root);
        detach_below(&root);
        if !std::thread::panicking() {
            unmounted.unwrap();
        }
    }
}

/// Detaches the loop devices of files below a directory.
fn detach_below(root: &Path) {
    for entry in std::fs::read_dir("/sys/block").unwrap() {
        let name = entry.unwrap().file_name();
        let file = Path::new("/sys/block").join(&name).join("loop/backing_file");
        if std::fs::read_to_string(file).is_ok_and(|file| Path::new(&file).starts_with(root)) {
            Command::new("losetup").arg("--detach").arg(Path::new("/dev").join(&name)).status().unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use rustix::mount::{MountFlags, mount};

    use super::*;

    #[test]
    fn as_root_a_test_that_fails_leaves_no_mount() {
        let mut mounted = None;
        let failed = catch_unwind(AssertUnwindSafe(|| {
            in_directory(async |root| {
                let point = root.join("mounted");
                std::fs::create_dir(&point).unwrap();
                mount("none", &point, "tmpfs", MountFlags::empty(), None).unwrap();
                mounted = Some(point);
                panic!("a test that fails");
            })
        }));
        let Some(point) = mounted else { return };
        assert!(failed.is_err());
        assert!(mounts::at(&point).is_empty() && !point.exists());
    }
}
