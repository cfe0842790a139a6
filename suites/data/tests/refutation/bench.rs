//! Plays the suite on the reference driver, right or with a defect.

use std::path::Path;

use csi_faulty_driver::Defect;
use csi_harness::checks::registry::Registry;
use csi_harness::config::Config;
use csi_harness::run::runner::RunOptions;
use csi_suite_data::SUITE;
use csi_test_support::hostpath::{self, Backend};
use csi_test_support::run::{Run, options};
use libtest_mimic::Failed;

/// These flags switch on everything that the checks ask for.
const FLAGS: [&str; 4] =
    ["--enable-attach", "--check-volume-lifecycle", "--enable-topology", "--enable-volume-expansion"];
/// The driver does everything that it puts off within this time.
const SETTLES_MS: u64 = 2_000;

/// Runs the wanted checks of this suite and of the stateful ones. Without root, it prints that the test is skipped.
pub(crate) fn play(
    backend: Backend,
    defect: Option<Defect>,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Option<Run>, Failed> {
    let play = async |root: &Path| play_in(root, backend, Place::Here, defect, is_wanted).await;
    hostpath::in_directory(play).transpose()
}

/// Runs a check as [`play`] does, on a driver in a process of its own. If it is killed, it forgets everything that it has not written to a
/// file.
pub(crate) fn play_in_child(
    backend: Backend,
    defect: Option<Defect>,
    check: &str,
) -> Result<Option<Run>, Failed> {
    let play = async |root: &Path| play_in(root, backend, Place::Child, defect, |id| id == check).await;
    hostpath::in_directory(play).transpose()
}

/// Runs a check as [`play_in_child`] does, on a driver that can be killed before each change that it makes. If the kernel does not let its
/// system calls be watched, it prints that the test is skipped.
pub(crate) fn play_in_watched_child(defect: Option<Defect>, check: &str) -> Result<Option<Run>, Failed> {
    let play = async |root: &Path| {
        if !hostpath::can_be_watched().await {
            return Ok(None);
        }
        let is_wanted = |id: &str| id == check;
        play_in(root, Backend::Directories, Place::Child, defect, is_wanted).await.map(Some)
    };
    hostpath::in_directory(play).transpose().map(Option::flatten)
}

/// The driver runs in this process or in a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Here,
    Child,
}

async fn play_in(
    root: &Path,
    backend: Backend,
    place: Place,
    defect: Option<Defect>,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Run, Failed> {
    let backend_flag = backend.flag();
    let flags = [&FLAGS[..], &[&backend_flag]].concat();
    let driver = match place {
        Place::Here => hostpath::driver(root, &flags, defect),
        Place::Child => hostpath::child(root, &flags, defect)?,
    };
    let mut config = Config { state_dir: Some(root.join("state")), ..backend.run_config(root) };
    if defect.is_some() {
        // The test only has to find the defect, and not the shortest sequence that shows it.
        (config.effort.faults, config.effort.check_budget_ms) = (1, 60_000);
        config.time_limits.settle_ms = Some(SETTLES_MS);
        // The matrix does not depend on findings by chance.
        config.effort.cases = 1;
    }
    let stateful = [
        csi_suite_stateful::property::SUITE,
        csi_suite_stateful::after_error::SUITE,
        csi_suite_stateful::restart::SUITE,
    ];
    let registry = Registry::new([SUITE].into_iter().chain(stateful));
    // A defect may reach a check through the calls of another check, so that checks run one at a time.
    let jobs = if defect.is_some() { 1 } else { 4 };
    let options = RunOptions { jobs, ..options(registry, 1) };
    Run::on(driver, config, options, |check| is_wanted(&check.id)).await
}
