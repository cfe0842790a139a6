//! Whatever the reference driver is asked to do, with odd names, ids, sizes and paths: it does not panic, it knows the same after
//! it was started again, and nothing changes but its own directory and those that are made for volumes.

mod asked;
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
use asked::Asker;
use tree::Tree;

/// Each four bytes are a call: which, of what, where, and how.
pub const TARGET: Target = Target { name: "reference_driver", run, seeds, tokens: &[] };

const CALL_BYTES: usize = 4;
const CALLS_MAX: usize = 24;
/// Entries of a page, so that a list has several.
const PAGE: i32 = 3;
const PAGES_MAX: usize = 100;
const NOBODY: u32 = 65_534;

fn run(bytes: &[u8]) {
    thread_local! {
        static RUNTIME: Runtime = {
            // Before the threads of the runtime, which inherit what this one may do.
            unprivileged();
            Builder::new_current_thread().enable_all().build().expect("a runtime")
        };
    }
    RUNTIME.with(|runtime| runtime.block_on(play(bytes)));
}

/// Gives up what root may do, so that nothing is mounted, but for giving links away.
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
    let ground = file::directory();
    let root = ground.path();
    lay_out(root);
    let before = Tree::of(root, &["state", "pods"]);
    let driver = start(root).await;
    let mut asker = Asker::new(&driver, root);
    for bytes in bytes.chunks_exact(CALL_BYTES).take(CALLS_MAX) {
        asker.ask([bytes[0], bytes[1], bytes[2], bytes[3]]).await;
    }
    let lists = lists(&driver).await;
    drop(asker);
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

/// What is there beside the state: a place for pods, a bystander, and links to it that are not root's, whose links lead
/// where they should.
fn lay_out(root: &Path) {
    for directory in ["pods", "bystander"] {
        fs::create_dir(root.join(directory)).expect("a directory of ours");
    }
    fs::write(root.join("bystander/file"), "precious").expect("a file of ours");
    for link in ["link", "pods/link"] {
        let link = root.join(link);
        symlink(root.join("bystander"), &link).expect("a link of ours");
        // Only root can, and only then is it root's.
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

/// Everything that the driver tells of what it keeps.
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
    // A volume from the cradle to the grave, with a snapshot and a copy; and each call with the first of everything.
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
    let each: Vec<u8> = (0..asked::CALLS).flat_map(|call| [call, 0, 0, 0]).collect();
    vec![life.concat(), each]
}
