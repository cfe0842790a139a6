//! Checks that the model accepts all answers of the mock driver to any sequence of calls that an orchestrator may
//! make, and that its effects can be undone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::client::target::Target as Driver;
use csi_harness::config::{self, AccessType};
use csi_harness::lifecycle::cx::Cx;
use csi_mock_driver::{Config, MockDriver, NodeConfig};
use csi_model::generate::{Op, Verb};
use csi_proto::Endpoint;
use csi_suite_stateful::orchestrator::probed_driver::ProbedDriver;
use csi_suite_stateful::orchestrator::{Orchestrator, Tries};
use csi_suite_stateful::sequence::{Pace, PlannedStep, play};
use tokio::runtime::{Builder, Runtime};

use crate::{CANARY, Target, file};

/// The first byte selects the driver's capabilities; each three of the others are an operation.
pub const TARGET: Target = Target { name: "model_mock", run, seeds, tokens: &[] };

const OPS_MAX: usize = 100;
const NODES: u8 = 2;
const MIB: i64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(60);
/// The capabilities that a driver may lack, one for each bit of the first byte.
const WITHOUT: [&str; 8] = [
    "STAGE_UNSTAGE_VOLUME",
    "PUBLISH_UNPUBLISH_VOLUME",
    "CREATE_DELETE_SNAPSHOT",
    "CLONE_VOLUME",
    "LIST_VOLUMES",
    "PUBLISH_READONLY",
    "Controller.EXPAND_VOLUME",
    "CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",
];
/// The defect of the driver with the canary.
const DEFECT: &str = "controller-unpublish-detaches-all-nodes";

fn run(bytes: &[u8]) {
    thread_local! {
        static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    }
    if let Some((without, ops)) = bytes.split_first() {
        RUNTIME.with(|runtime| runtime.block_on(search(*without, ops)));
    }
}

async fn search(without: u8, bytes: &[u8]) {
    let probed = probed(without).await;
    let cx = context(without).await;
    let orchestrator = Orchestrator::new(cx.clone(), &probed, Tries::Some);
    let items: Vec<PlannedStep> = bytes.chunks_exact(3).take(OPS_MAX).filter_map(item).collect();
    let pace = Pace { until: Instant::now() + LIMIT, insists: Duration::ZERO, settles: Duration::ZERO };
    let played = play(&orchestrator, &probed.profile, pace, &items).await.expect("paths can be made");
    let remarks = played.remarks.iter().map(|remark| &remark.breach);
    let wrong = played.breach.iter().chain(remarks).next();
    assert!(wrong.is_none(), "{wrong:?}\n{}", played.table().join("\n"));
    cx.undo().await.expect("what was made can be undone");
}

fn item(op: &[u8]) -> Option<PlannedStep> {
    let verb = Verb::ALL[usize::from(op[0]) % Verb::ALL.len()];
    // Workloads need mounts, which this driver does not make.
    let is_played = !matches!(verb, Verb::Write | Verb::Read);
    is_played.then(|| PlannedStep::Op(Op { verb, pick: u32::from(u16::from_le_bytes([op[1], op[2]])) }))
}

/// Returns the probed properties of such a driver, which is probed once.
async fn probed(without: u8) -> Arc<ProbedDriver> {
    thread_local! {
        static KNOWN: RefCell<BTreeMap<u8, Arc<ProbedDriver>>> = const { RefCell::new(BTreeMap::new()) };
    }
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&without).cloned()) {
        return known;
    }
    let probed = ProbedDriver::probe(&context(without).await).await.expect("a driver that can be asked");
    KNOWN.with_borrow_mut(|known| known.insert(without, probed.clone()));
    probed
}

/// Starts a driver that lacks these capabilities, and returns the context in which it is called.
async fn context(without: u8) -> Cx {
    let left_out = (0..).zip(WITHOUT).filter(|(bit, _)| without & (1 << bit) != 0);
    let defect = CANARY.then(|| DEFECT.parse().expect("the id of a defect"));
    let node = |number: u8| NodeConfig { id: format!("node-{number}"), topology: Default::default() };
    let driver = MockDriver::new(Config {
        without: left_out.map(|(_, name)| name.parse().expect("the name of a capability")).collect(),
        nodes: (0..NODES).map(node).collect(),
        seed: Some(1),
        defects: defect.into_iter().collect(),
        ..Config::default()
    });
    let driver = driver.expect("a driver in memory");
    let directory = file::directory_of_thread();
    let served = |number: u8| {
        let endpoint = Endpoint::Unix(directory.join(format!("node-{number}.sock")));
        Some((endpoint, driver.at_node(number.into())?.routes()))
    };
    let settings = config::Config {
        volume_size_bytes: Some(MIB),
        expand_size_bytes: Some(2 * MIB),
        mutable_parameters: [("iops".to_owned(), "100".to_owned())].into(),
        mount_dir: Some(directory.join("mount")),
        staging_dir: Some(directory.join("staging")),
        ..config::Config::default()
    };
    let target = Driver::of_services((0..NODES).filter_map(served).collect(), settings);
    let target = target.await.expect("a driver that answers");
    Cx::of_no_check(&target, "model_mock", AccessType::Mount, 1, LIMIT)
}

fn seeds() -> Vec<Vec<u8>> {
    // Each operation once, and then again on other objects.
    let round =
        |first: u8| (0..Verb::ALL.len() as u8).flat_map(move |verb| [verb, first.wrapping_add(verb), 0]);
    let whole = |without: u8| [without].into_iter().chain(round(0)).chain(round(7)).collect();
    [0, 1, 2, 4, 0x80].map(whole).into()
}
