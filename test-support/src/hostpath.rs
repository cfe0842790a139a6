//! Runs on the reference driver in this process, right or with a defect, with real mounts.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use csi_faulty_driver::Defect;
use csi_harness::driver::Driver;
use csi_harness::resources::mounts;
use csi_hostpath_driver::args::Args;
use csi_hostpath_driver::{Config, HostpathDriver};
use csi_proto::Endpoint;

/// Where the driver listens whose files are in a directory.
pub fn endpoint(root: &Path) -> Endpoint {
    Endpoint::Unix(root.join("csi.sock"))
}

/// Settings of a driver with its state in a directory.
pub fn config(root: &Path, flags: &[&str]) -> Config {
    let state = format!("--statedir={}/state", root.display());
    let fixed = ["csi-hostpath-driver", "--nodeid=node1", &state];
    let arguments = fixed.iter().chain(flags).map(OsString::from);
    Args::read(arguments).unwrap().into_config().unwrap()
}

/// The driver with a defect, with its state and socket in a directory.
pub fn driver(root: &Path, flags: &[&str], defect: Option<Defect>) -> Driver {
    let (endpoint, config) = (endpoint(root), config(root, flags));
    Driver::in_process(move || {
        let driver = HostpathDriver::new(config.clone())?;
        Ok(vec![(endpoint.clone(), csi_faulty_driver::routes(&driver, defect))])
    })
}

/// Does something in a new directory below which no mounts and loop devices stay; without root it prints that it does not.
#[expect(clippy::print_stdout, reason = "a test that does not run says so")]
pub fn in_directory<T>(act: impl AsyncFnOnce(&Path) -> T) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root for mounts and loop devices");
        return None;
    }
    let directory = tempfile::Builder::new().prefix("hostpath-").tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let done = tokio::runtime::Runtime::new().unwrap().block_on(act(&root));
    // Defects may leave both behind.
    mounts::unmount_below(&root).unwrap();
    detach_below(&root);
    Some(done)
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
