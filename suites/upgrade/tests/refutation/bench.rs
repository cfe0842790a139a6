//! Runs the suite on the reference driver: both versions are the same program, and the second one may have a defect.

use std::path::Path;

use csi_faulty_driver::Defect;
use csi_harness::checks::registry::Registry;
use csi_harness::config::Config;
use csi_suite_upgrade::SUITE;
use csi_test_support::hostpath::{self, Backend};
use csi_test_support::run::{Run, options};
use libtest_mimic::Failed;

/// These flags switch on everything that the checks ask for.
const FLAGS: [&str; 3] = ["--enable-attach", "--check-volume-lifecycle", "--enable-volume-expansion"];
/// The reference driver does everything that it puts off within this time.
const SETTLES_MS: u64 = 2_000;
/// The limit is shorter than the usual one, and much longer than a write on a busy machine.
const STALL_MS: u64 = 10_000;

/// The present version runs again after the next one in one of these ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WayBack {
    /// It is started on the state that the next version has written.
    Downgrade,
    EmptyState,
    /// It does not run again.
    None,
}

/// Runs the wanted checks. Without root, it prints that the test is skipped.
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
    let (backend_flag, other_node) = (backend.flag(), hostpath::other_node_flag(root));
    // A driver with several nodes has no topology.
    let has_topology = backend == Backend::Directories || defect == Some(Defect::UpgradeHasNewTopology);
    let of_nodes = match has_topology {
        true => &["--enable-topology"][..],
        false => &["--enable-topology=false", &other_node],
    };
    let flags = [&FLAGS[..], &[&backend_flag], of_nodes].concat();
    let driver = hostpath::child_with_next_version(root, &flags, defect)?;
    let mut config = Config {
        // The driver of these tests has its own commands, so that these texts are never run.
        driver_command: Some("the driver".to_owned()),
        next_driver_command: Some("its next version".to_owned()),
        mixed_driver_command: Some("node plugins of both versions".to_owned()),
        downgrade: way_back == WayBack::Downgrade,
        state_dir: (way_back == WayBack::EmptyState).then(|| root.join("state")),
        ..backend.run_config(root)
    };
    if !has_topology {
        config.nodes = vec![hostpath::other_node_config(root)];
    }
    if defect.is_some() {
        config.time_limits.settle_ms = Some(SETTLES_MS);
        config.time_limits.stall_ms = STALL_MS;
    }
    Run::on(driver, config, options(Registry::new([SUITE]), 1), |check| is_wanted(&check.id)).await
}
