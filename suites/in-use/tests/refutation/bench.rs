//! Runs the suites on the reference driver, right or with a defect.

use std::path::Path;

use csi_faulty_driver::Defect;
use csi_harness::checks::registry::{Registry, Suite};
use csi_harness::config::Config;
use csi_harness::run::runner::RunOptions;
use csi_suite_in_use::nodes;
use csi_test_support::hostpath::{self, Backend};
use csi_test_support::run::{Run, options};
use libtest_mimic::Failed;

/// These flags switch on everything that the checks ask for.
const FLAGS: [&str; 4] = [
    "--enable-attach",
    "--enable-volume-expansion",
    "--enable-controller-modify-volume=true",
    "--accepted-mutable-parameter-names=tier",
];
/// With this flag, a driver rejects the detach from a node that does not answer, which is legal.
const STRICT_ORDER: &str = "--check-volume-lifecycle=";
/// The driver does everything that it puts off within this time.
const SETTLES_MS: u64 = 2_000;

/// This check makes changes of the driver fail, for which the driver has to be a process of its own.
pub(crate) const CALLS_FAILING: &str = "in-use/calls-failing";
/// The names of the defects that `CALLS_FAILING` finds begin with this text.
const FAILED: &str = "hostpath/failed-";
/// This check kills the driver before one of its changes if it is a process of its own, and at a random moment otherwise.
pub(crate) const KILLED_IN_SNAPSHOT: &str = "in-use/driver-killed-in-snapshot";

/// The limit is shorter than the time for which a defect freezes a file system, and much longer than a write on a busy machine.
const STALL_MS: u64 = 2_000;

/// A check of a driver with a defect has this time, because such a driver may stand still for two seconds.
const BUDGET_MS: u64 = 24_000;

/// Returns true if the driver must be a process of its own: for a defect that shows only there, for a defect that is found when the driver
/// is killed before a change, and for a right driver if the check of failing calls or the checks of nodes run.
fn needs_process(suite: &Suite, defect: Option<Defect>, is_wanted: impl Fn(&str) -> bool) -> bool {
    match defect {
        Some(
            Defect::StartTakesHalfSnapshot
            | Defect::StartKeepsHalfDetach
            | Defect::StartEmptiesHalfDetached
            | Defect::StartKeepsHalfAttach
            | Defect::StartEmptiesHalfAttached
            | Defect::StartEmptiesHalfPublished
            | Defect::StartKeepsHalfStaging
            | Defect::StartKeepsHalfUnstaging,
        ) => true,
        Some(defect) => defect.id().starts_with(FAILED),
        None => is_wanted(CALLS_FAILING) || suite.name == nodes::SUITE.name,
    }
}

/// A suite and the driver on which it is run.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) suite: Suite,
    pub(crate) backend: Backend,
    pub(crate) defect: Option<Defect>,
    /// True if the driver is a process of its own.
    pub(crate) is_a_process: bool,
}

/// Runs the wanted checks of a suite. If this machine cannot, it prints that the test is skipped.
pub(crate) fn play(
    suite: Suite,
    backend: Backend,
    defect: Option<Defect>,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Option<Run>, Failed> {
    let is_a_process = needs_process(&suite, defect, &is_wanted);
    let setup = Setup { suite, backend, defect, is_a_process };
    let play = async |root: &Path| {
        if setup.is_a_process && !hostpath::can_be_watched().await {
            return Ok(None);
        }
        setup.play_in(root, &is_wanted).await.map(Some)
    };
    hostpath::in_directory(play).transpose().map(Option::flatten)
}

impl Setup {
    /// Runs the wanted checks on a driver that keeps its files in a directory.
    pub(crate) async fn play_in(self, root: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Run, Failed> {
        let (backend_flag, other_node) = (self.backend.flag(), hostpath::other_node_flag(root));
        // The nodes of this driver share all volumes, and have no topology.
        let strict_order = format!("{STRICT_ORDER}{}", self.suite.name != nodes::SUITE.name);
        let flags =
            [&FLAGS[..], &[&backend_flag, &other_node, &strict_order, "--enable-topology=false"]].concat();
        let driver = match self.is_a_process {
            true => hostpath::child(root, &flags, self.defect)?,
            false => hostpath::driver(root, &flags, self.defect),
        };
        let mut config = Config {
            nodes: vec![hostpath::other_node_config(root)],
            state_dir: Some(root.join("state")),
            mutable_parameters: [("tier".to_owned(), "gold".to_owned())].into_iter().collect(),
            ..self.backend.run_config(root)
        };
        if self.defect.is_some() {
            config.time_limits.settle_ms = Some(SETTLES_MS);
            config.time_limits.stall_ms = STALL_MS;
            config.effort.budget_ms = Some(BUDGET_MS);
        }
        // A defect may reach a check through the calls of another check, so that checks run one at a time.
        let jobs = if self.defect.is_some() { 1 } else { 4 };
        let options = RunOptions { jobs, ..options(Registry::new([self.suite]), 1) };
        Run::on(driver, config, options, |check| is_wanted(&check.id)).await
    }
}
