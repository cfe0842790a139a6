//! Runs checks on a mock driver in a process of its own, for which the test program starts itself once more.

use std::path::PathBuf;
use std::process::ExitCode;

use csi_harness::checks::check::Check;
use csi_harness::checks::registry::Registry;
use csi_harness::config::Config;
use csi_harness::driver::{Driver, DriverLog};
use csi_harness::results::outcome::CheckReport;
use csi_mock_driver::{Defect, MockDriver, Quirk};
use csi_proto::{Endpoint, Listener};
use libtest_mimic::Failed;
use tokio::runtime::Builder;

use crate::mock::everything_set;
use crate::run::{Run, options};

/// Names the socket of the mock driver.
const SOCKET: &str = "SERVE_MOCK_AT";
/// Names the directory of the driver's state.
const STATE: &str = "SERVE_MOCK_STATE_DIR";
/// Names the defects and quirks of the driver, separated by commas; an empty value means none.
const VARIANTS: &str = "SERVE_MOCK_WITH";

/// Runs a check on a driver that is a child of this process and writes a log. `variants` names its defects and quirks.
pub fn played(
    registry: Registry,
    check: &Check,
    variants: &str,
    seed: u64,
) -> Result<Vec<CheckReport>, Failed> {
    played_on(registry, check, variants, seed, true)
}

/// Runs a check as [`played`] does. The settings either name the directory of the driver or leave it to the harness
/// to find.
pub fn played_on(
    registry: Registry,
    check: &Check,
    variants: &str,
    seed: u64,
    names_directory: bool,
) -> Result<Vec<CheckReport>, Failed> {
    let dir = tempfile::tempdir()?;
    let socket = dir.path().join("csi.sock");
    let program = std::env::current_exe()?;
    let state_dir = dir.path().join("state");
    std::fs::create_dir(&state_dir)?;
    let config = Config {
        endpoint: Some(Endpoint::Unix(socket.clone()).to_string()),
        state_dir: names_directory.then(|| state_dir.clone()),
        ..everything_set()
    };
    let log = DriverLog::create(&dir.path().join("log"), &config)?;
    // The limit is raised to its maximum, because some defects leak open files and the checks have to find that,
    // before the limit ends the driver.
    let raise_limit = "ulimit -Sn \"$(ulimit -Hn)\"";
    let (socket, state_dir, program) = (socket.display(), state_dir.display(), program.display());
    // The command line names the directory, as those of most drivers do, so that the harness can find it there.
    let command = format!(
        "{raise_limit}; {SOCKET}='{socket}' {STATE}='{state_dir}' {VARIANTS}='{variants}' exec '{program}' --state-dir='{state_dir}'"
    );
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let driver = Driver::child(&command, None, Some(log));
    Ok(runtime
        .block_on(Run::on(driver, config, options(registry, seed), |other| other.id == check.id))?
        .reports)
}

/// Serves the driver if this program was started for that. It belongs at the beginning of `main`.
pub fn serve_if_asked() -> Option<ExitCode> {
    let socket = PathBuf::from(std::env::var_os(SOCKET)?);
    let served = || -> Result<(), Box<dyn std::error::Error>> {
        let variants = std::env::var(VARIANTS)?;
        let named = || variants.split(',').filter(|variant| !variant.is_empty());
        let quirks: Vec<Quirk> = named().filter_map(|variant| variant.parse().ok()).collect();
        let others = named().filter(|variant| variant.parse::<Quirk>().is_err());
        let defects = others.map(str::parse::<Defect>).collect::<Result<Vec<_>, _>>()?;
        let state = std::env::var_os(STATE).map(|dir| PathBuf::from(dir).join("state.json"));
        let driver =
            MockDriver::new(csi_mock_driver::Config { defects, quirks, state, ..Default::default() })?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = Listener::bind(&Endpoint::Unix(socket)).await?;
            Ok(listener.serve(driver.routes(), std::future::pending()).await?)
        })
    };
    match served() {
        Ok(()) => Some(ExitCode::SUCCESS),
        // The harness records the output of the driver.
        Err(error) => panic!("the mock driver cannot be served: {error}"),
    }
}
