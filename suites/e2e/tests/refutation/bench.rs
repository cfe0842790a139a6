//! Runs tests of Kubernetes on the reference driver, right or with a defect.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use csi_driver_definitions::DriverDefinition;
use csi_faulty_driver::Defect;
use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::{Registry, Suite};
use csi_harness::client::target::Target;
use csi_harness::config::profile::Profile;
use csi_harness::config::{Config, PathLayout};
use csi_harness::driver::Driver;
use csi_harness::results::events::{Event, Reporter};
use csi_harness::results::outcome::Outcome;
use csi_harness::results::wording;
use csi_harness::run::runner::{RunOptions, Runner};
use csi_hostpath_driver::HostpathDriver;
use csi_hostpath_driver::args::Args;
use csi_proto::Endpoint;
use csi_suite_e2e::local::{LocalClusters, Settings};
use csi_suite_e2e::plan::{self, Definition};
use rustix::mount::{UnmountFlags, unmount};
use tokio::sync::watch;

use crate::table::{ROWS, Row};

/// What the definition takes for granted.
const FLAGS: [&str; 8] = [
    "csi-hostpath-driver",
    "--nodeid=node1",
    "--enable-attach",
    "--check-volume-lifecycle",
    "--enable-topology",
    "--enable-volume-expansion",
    "--enable-controller-modify-volume",
    "--accepted-mutable-parameter-names=tier",
];

/// How long a pod is waited for that a defect keeps from starting, or from going.
const POD_LIMIT: Duration = Duration::from_secs(15);
/// Time for a test with a defect, half of whose rest is spent on waiting for what the test has made to go.
const DEFECT_MS: u64 = 45_000;
/// Time for a test without.
const RIGHT_MS: u64 = 600_000;

/// Without a defect, every test of the table passes.
pub(crate) fn a_right_driver_passes() {
    let tests = ROWS.iter().map(|row| row.test).collect();
    let Some(ended) = run(None, tests) else { return };
    let bad: Vec<_> = ended.0.iter().filter(|(_, outcome)| !matches!(outcome, Outcome::Passed)).collect();
    assert!(!ended.0.is_empty() && bad.is_empty(), "{bad:#?}");
}

/// With the defect, the test fails, and its words say why.
pub(crate) fn is_found(row: &Row) {
    let Some(ended) = run(Some(row.defect), vec![row.test]) else { return };
    let [(_, Outcome::Failed(violation))] = &ended.0[..] else { panic!("{row:#?} is not found: {ended:#?}") };
    let text = format!("{}; {}; {}", violation.message, violation.expected, violation.actual);
    assert!(text.contains(row.says), "{row:#?} is found for another reason: {text}");
}

/// What came of each test.
#[derive(Debug, Default)]
struct Ended(Vec<(String, Outcome)>);

impl Reporter for Ended {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::CheckFinished(report) = event {
            assert_eq!(wording::complaints(report), [""; 0]);
            self.0.push((report.label(), report.outcome.clone()));
        }
    }
}

/// Runs tests; without root it prints that it does not.
#[expect(clippy::print_stdout, reason = "a test that does not run says so")]
fn run(defect: Option<Defect>, tests: Vec<&str>) -> Option<Ended> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root for mounts and loop devices");
        return None;
    }
    let ground = tempfile::Builder::new().prefix("refutation-").tempdir().unwrap();
    let root = ground.path().canonicalize().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ended = runtime.block_on(run_in(&root, defect, &tests));
    // Defects may leave mounts behind.
    for left in mount_points(&root).iter().rev() {
        unmount(left, UnmountFlags::DETACH).unwrap();
    }
    Some(ended)
}

async fn run_in(root: &Path, defect: Option<Defect>, tests: &[&str]) -> Ended {
    let driver = driver(root, defect);
    let target = Target::connect_to(driver.clone(), config(root, defect)).await.unwrap();
    let registry = Registry::new([suite(defect)]);
    let mut filter = Filter::default();
    tests.iter().for_each(|test| filter.add(test).unwrap());
    let plan = registry.select(&filter, &target.config().access_types);
    let mut ended = Ended::default();
    let (_never, signal) = watch::channel(Default::default());
    let mut runner = Runner::new(target, options(registry), signal);
    runner.report_to(&mut ended);
    runner.run(plan).await;
    driver.leave().await.unwrap();
    ended
}

fn endpoint(root: &Path) -> Endpoint {
    Endpoint::Unix(root.join("csi.sock"))
}

fn driver(root: &Path, defect: Option<Defect>) -> Driver {
    let (endpoint, state) = (endpoint(root), format!("--statedir={}/state", root.display()));
    Driver::in_process(move || {
        let arguments = FLAGS.into_iter().chain([state.as_str()]).map(OsString::from);
        let config = Args::read(arguments).unwrap().into_config().unwrap();
        let driver = HostpathDriver::new(config)?;
        Ok(vec![(endpoint.clone(), csi_faulty_driver::routes(&driver, defect))])
    })
}

fn suite(defect: Option<Defect>) -> Suite {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../driver-definitions/hostpath-image.yaml");
    let mut loaded = DriverDefinition::load(&file).unwrap();
    if defect.is_some() {
        loaded.definition.timeouts.pod_start = POD_LIMIT;
        loaded.definition.timeouts.pod_delete = POD_LIMIT;
    }
    let settings = Settings::new(std::env::current_exe().unwrap());
    let clusters = LocalClusters::new(settings, 1, loaded.definition.clone(), |_| {});
    let definition = Definition::new(loaded).unwrap();
    plan::suite(Arc::new(definition), Arc::new(clusters))
}

fn config(root: &Path, defect: Option<Defect>) -> Config {
    let mut config = Config {
        endpoint: Some(endpoint(root).to_string()),
        mount_dir: Some(root.join("kubelet")),
        staging_dir: Some(root.join("kubelet")),
        path_layout: PathLayout::Kubelet,
        profile: Profile::Strict,
        ..Config::default()
    };
    config.time_limits.check_ms = if defect.is_some() { DEFECT_MS } else { RIGHT_MS };
    config
}

fn options(registry: Registry) -> RunOptions {
    RunOptions { jobs: 4, seed: 1, leak_check: false, registry, ..RunOptions::default() }
}

/// Where something is mounted below a directory, outer mounts first.
fn mount_points(root: &Path) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    points.filter(|point| point.starts_with(root)).collect()
}
