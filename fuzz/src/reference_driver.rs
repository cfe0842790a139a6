//! Checks that calls with unusual names, ids, sizes and paths do not make the reference driver panic, lose state at a
//! restart, or change files outside of its own directory and those made for volumes.

mod calls;
mod tree;

use std::fs;
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;
use std::sync::Once;

use csi_hostpath_driver::args::Args;
use csi_hostpath_driver::{Config, HostpathDriver};
use csi_proto::v1;
use csi_proto::v1::controller_server::Controller as _;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use tokio::runtime::{Builder, Runtime};
use tonic::Request;

use crate::{Target, file};
use calls::Caller;
use tree::Tree;

/// Each four bytes are a call: its kind, object, place and options.
pub const TARGET: Target = Target { name: "reference_driver", run, seeds, tokens: &[] };

const CALL_BYTES: usize = 4;
const CALLS_MAX: usize = 24;
/// Pages are small, so that a list has several.
const PAGE: i32 = 3;
const PAGES_MAX: usize = 100;
const NOBODY: u32 = 65_534;

fn run(bytes: &[u8]) {
    thread_local! {
        static RUNTIME: Runtime = {
            // The thread drops its capabilities first, because the threads of the runtime inherit them.
            unprivileged();
            Builder::new_current_thread().enable_all().build().expect("a runtime")
        };
    }
    RUNTIME.with(|runtime| runtime.block_on(play(bytes)));
}

/// Drops the capabilities of root, so that nothing is mounted, except the one to change the owner of links.
fn unprivileged() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let sets = capabilities(None).expect("a process may ask what it may do");
        let kept = sets.permitted & CapabilitySet::CHOWN;
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
        set_capabilities(None, sets).expect("a process may always do less");
    });
}

async fn play(bytes: &[u8]) {
    let directory = file::directory();
    let root = directory.path();
    lay_out(root);
    let before = Tree::of(root, &["state", "pods"]);
    let driver = start(root).await;
    let mut caller = Caller::new(&driver, root);
    for bytes in bytes.chunks_exact(CALL_BYTES).take(CALLS_MAX) {
        caller.call([bytes[0], bytes[1], bytes[2], bytes[3]]).await;
    }
    let lists = lists(&driver).await;
    drop(caller);
    drop(driver);
    let driver = start(root).await;
    assert_eq!(
        self::lists(&driver).await,
        lists,
        "the driver knows something else after it was started again"
    );
    drop(driver);
    assert_eq!(Tree::of(root, &["state", "pods"]), before, "something changed that is not the driver's");
}

/// Makes the files beside the state: a directory for pods, a bystander, and links to it that belong to another user.
/// Links of root are followed, because an administrator made them.
fn lay_out(root: &Path) {
    for directory in ["pods", "bystander"] {
        fs::create_dir(root.join(directory)).expect("a directory of ours");
    }
    fs::write(root.join("bystander/file"), "precious").expect("a file of ours");
    for link in ["link", "pods/link"] {
        let link = root.join(link);
        symlink(root.join("bystander"), &link).expect("a link of ours");
        // Only root can change the owner, and only root's link would be trusted.
        let _ = lchown(&link, Some(NOBODY), Some(NOBODY));
    }
}

async fn start(root: &Path) -> HostpathDriver {
    let driver = HostpathDriver::new(config(root)).expect("a driver that starts");
    assert!(driver.ready().await, "the driver is never ready");
    driver
}

fn config(root: &Path) -> Config {
    let state_dir = format!("--statedir={}", root.join("state").display());
    let flags = [
        "csi-hostpath-driver",
        "--nodeid=node",
        &state_dir,
        "--enable-attach",
        "--enable-controller-modify-volume",
        "--accepted-mutable-parameter-names=*",
        "--enable-snapshot-metadata",
        "--capacity=slow=1Gi",
    ];
    Args::read(flags.map(Into::into)).expect("flags of ours").into_config().expect("a configuration of ours")
}

/// Returns all volumes and snapshots that the driver lists.
async fn lists(
    driver: &HostpathDriver,
) -> (Vec<v1::list_volumes_response::Entry>, Vec<v1::list_snapshots_response::Entry>) {
    let (mut volumes, mut snapshots) = (Vec::new(), Vec::new());
    let mut token = String::new();
    for _ in 0..PAGES_MAX {
        let request = v1::ListVolumesRequest { max_entries: PAGE, starting_token: token };
        let page = driver.list_volumes(Request::new(request)).await.expect("a page of volumes").into_inner();
        volumes.extend(page.entries);
        token = page.next_token;
        if token.is_empty() {
            break;
        }
    }
    for _ in 0..PAGES_MAX {
        let request =
            v1::ListSnapshotsRequest { max_entries: PAGE, starting_token: token, ..Default::default() };
        let page =
            driver.list_snapshots(Request::new(request)).await.expect("a page of snapshots").into_inner();
        snapshots.extend(page.entries);
        token = page.next_token;
        if token.is_empty() {
            break;
        }
    }
    assert!(token.is_empty(), "the lists have no end");
    (volumes, snapshots)
}

fn seeds() -> Vec<Vec<u8>> {
    // The first seed is the whole life of a volume, with a snapshot and a copy; the second is one call of each kind.
    let life = [
        [0, 0, 2, 0],
        [3, 0, 0, 0],
        [9, 0, 0, 0],
        [11, 0, 1, 0],
        [15, 0, 0, 0],
        [0, 1, 2, 10],
        [20, 0, 0, 1],
        [12, 0, 1, 0],
        [10, 0, 0, 0],
        [4, 0, 0, 0],
        [6, 0, 3, 0],
        [16, 0, 0, 0],
        [22, 0, 1, 0],
        [2, 0, 0, 0],
    ];
    let each: Vec<u8> = (0..calls::CALLS).flat_map(|call| [call, 0, 0, 0]).collect();
    vec![life.concat(), each]
}
