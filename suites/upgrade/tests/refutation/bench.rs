//! Plays the suite on the reference driver, which is replaced by itself, right or with a defect.

use std::path::Path;

use csi_faulty_driver::Defect;
use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::Registry;
use csi_harness::client::target::Target;
use csi_harness::config::{AccessType, Config, NodeConfig};
use csi_harness::run::runner::RunOptions;
use csi_suite_upgrade::SUITE;
use csi_test_support::hostpath;
use csi_test_support::run::Run;
use libtest_mimic::Failed;

/// Everything that the checks ask for.
const FLAGS: [&str; 3] = ["--enable-attach", "--check-volume-lifecycle", "--enable-volume-expansion"];
/// The second node, on this machine as well.
const OTHER_NODE: &str = "node2";
/// Time for the reference driver to do what it puts off.
const SETTLES_MS: u64 = 2_000;
/// Shorter than the usual limit, and much longer than what a busy machine takes for a write.
const STALL_MS: u64 = 10_000;
/// Large enough for XFS.
const VOLUME_BYTES: i64 = 320 << 20;

/// The back end of the driver's volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Directories,
    Images,
}

/// The way in which the present version runs again after the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WayBack {
    /// It is started on the state that the next version has written.
    Downgrade,
    /// It is started with an empty state.
    EmptyState,
    /// It does not run again.
    None,
}

/// Runs the checks that are wanted; without root, it prints that it does not.
pub(crate) fn play(
    backend: Backend,
    defect: Option<Defect>,
    way_back: WayBack,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Option<Run>, Failed> {
    hostpath::in_directory(async |root| play_in(root, backend, defect, way_back, is_wanted).await).transpose()
}

async fn play_in(
    root: &Path,
    backend: Backend,
    defect: Option<Defect>,
    way_back: WayBack,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Run, Failed> {
    let name = match backend {
        Backend::Directories => "directory",
        Backend::Images => "image",
    };
    let backend_flag = format!("--backend={name}");
    let other_node = format!("--node-endpoint={OTHER_NODE}={}", hostpath::endpoint_of(root, OTHER_NODE));
    // A driver with several nodes has no topology.
    let has_topology = backend == Backend::Directories || defect == Some(Defect::UpgradeHasNewTopology);
    let of_nodes = match has_topology {
        true => &["--enable-topology"][..],
        false => &["--enable-topology=false", &other_node],
    };
    let flags = [&FLAGS[..], &[&backend_flag], of_nodes].concat();
    let driver = hostpath::child_with_next_version(root, &flags, defect)?;
    let mut config = config(root, way_back);
    if !has_topology {
        config.nodes = vec![NodeConfig {
            endpoint: hostpath::endpoint_of(root, OTHER_NODE).to_string(),
            mount_dir: None,
            staging_dir: None,
            paths: None,
        }];
    }
    if backend == Backend::Images {
        // Not every kernel lets a mounted ext4 grow.
        "xfs".clone_into(&mut config.fs_type);
    }
    if defect.is_some() {
        config.time_limits.settle_ms = Some(SETTLES_MS);
        config.time_limits.stall_ms = STALL_MS;
    }
    let target = Target::connect_to(driver.clone(), config).await?;
    let registry = Registry::new([SUITE]);
    let mut plan = registry.select(&Filter::default(), &target.config().access_types);
    plan.retain(|planned| is_wanted(&planned.check.id));
    let options = RunOptions { seed: 1, report_each: true, registry, ..RunOptions::default() };
    let run = Run::of(target, plan, options).await;
    driver.leave().await?;
    run.check_wording()
}

fn config(root: &Path, way_back: WayBack) -> Config {
    Config {
        endpoint: Some(hostpath::endpoint(root).to_string()),
        // The driver of these tests brings its commands along.
        driver_command: Some("the driver".to_owned()),
        next_driver_command: Some("its next version".to_owned()),
        mixed_driver_command: Some("node plugins of both versions".to_owned()),
        downgrade: way_back == WayBack::Downgrade,
        state_dir: (way_back == WayBack::EmptyState).then(|| root.join("state")),
        mount_dir: Some(root.join("mount")),
        staging_dir: Some(root.join("staging")),
        access_types: vec![AccessType::Mount, AccessType::Block],
        volume_size_bytes: Some(VOLUME_BYTES),
        ..Config::default()
    }
}
