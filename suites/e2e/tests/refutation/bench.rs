//! Runs tests of Kubernetes on the reference driver, right or with a defect.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use csi_driver_definitions::DriverDefinition;
use csi_faulty_driver::Defect;
use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::{Registry, Suite};
use csi_harness::client::target::Target;
use csi_harness::config::profile::Profile;
use csi_harness::config::{Config, PathLayout};
use csi_harness::results::outcome::Outcome;
use csi_harness::run::runner::RunOptions;
use csi_suite_e2e::local::{LocalClusters, Settings};
use csi_suite_e2e::plan::{self, Definition};
use csi_test_support::hostpath;
use csi_test_support::run::Run;

use crate::table::{ROWS, Row};

/// What the definition takes for granted.
const FLAGS: [&str; 6] = [
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
    let Some(run) = run(None, tests) else { return };
    let bad: Vec<_> = run.reports.iter().filter(|report| report.outcome != Outcome::Passed).collect();
    assert!(!run.reports.is_empty() && bad.is_empty(), "{bad:#?}");
}

/// With the defect, the test fails, and its words say why.
pub(crate) fn is_found(row: &Row) {
    let Some(run) = run(Some(row.defect), vec![row.test]) else { return };
    let outcomes: Vec<&Outcome> = run.reports.iter().map(|report| &report.outcome).collect();
    let [Outcome::Failed(violation)] = outcomes[..] else { panic!("{row:#?} is not found: {outcomes:#?}") };
    let text = format!("{}; {}; {}", violation.message, violation.expected, violation.actual);
    assert!(text.contains(row.says), "{row:#?} is found for another reason: {text}");
}

/// Runs tests; without root it prints that it does not.
fn run(defect: Option<Defect>, tests: Vec<&str>) -> Option<Run> {
    hostpath::in_directory(async |root| run_in(root, defect, &tests).await)
}

async fn run_in(root: &Path, defect: Option<Defect>, tests: &[&str]) -> Run {
    let driver = hostpath::driver(root, &FLAGS, defect);
    let target = Target::connect_to(driver.clone(), config(root, defect)).await.unwrap();
    let registry = Registry::new([suite(defect)]);
    let mut filter = Filter::default();
    tests.iter().for_each(|test| filter.add(test).unwrap());
    let plan = registry.select(&filter, &target.config().access_types);
    let run = Run::of(target, plan, options(registry)).await;
    driver.leave().await.unwrap();
    run.check_wording().unwrap_or_else(|failed| panic!("{failed:?}"))
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
        endpoint: Some(hostpath::endpoint(root).to_string()),
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
