//! Defects that show only in what a driver prints or calls: this program is the driver then, as a process of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use csi_harness::checks::check::{Check, CheckRef};
use csi_harness::config::Config;
use csi_harness::driver::{Driver, DriverLog};
use csi_harness::results::outcome::CheckReport;
use csi_mock_driver::{Defect, MockDriver};
use csi_proto::{Endpoint, Listener};
use csi_test_support::mock::{everything_set, run_on};
use libtest_mimic::{Failed, Trial};
use tokio::runtime::Builder;

use crate::defects::is_found;
use crate::registry;

/// Names the socket to serve a mock driver at.
pub(crate) const SOCKET: &str = "SERVE_MOCK_AT";
/// Names the defect that it has; none if it is empty.
const DEFECT: &str = "SERVE_MOCK_WITH";
/// Those that this is about.
pub(crate) const IN_PROCESSES: &[&str] =
    &["node-publish-passes-context-as-option", "node-publish-prints-context", "prints-secrets"];

pub(crate) fn trials() -> Vec<Trial> {
    let checks: Vec<CheckRef> = registry().check_refs().filter(|check| needs_process(check)).collect();
    let found = checks.iter().flat_map(|check| {
        let printed = check.refuted_by.iter().filter(|defect| IN_PROCESSES.contains(defect));
        printed.map(|defect| {
            let (check, defect) = (check.clone(), *defect);
            Trial::test(format!("defect/{defect}/{}", check.id), move || {
                is_found(&check, &played(&check, defect)?)
            })
        })
    });
    let healthy = checks.iter().map(|check| {
        let check = check.clone();
        Trial::test(format!("healthy-process/{}", check.id), move || {
            let accused: Vec<String> = played(&check, "")?
                .iter()
                .filter_map(|said| said.outcome.violation())
                .map(|v| format!("{v:#?}"))
                .collect();
            if accused.is_empty() { Ok(()) } else { Err(Failed::from(accused.join("\n"))) }
        })
    });
    // The command that names call is lent to a driver that the run has started.
    let lent = Trial::test("process/create-volume-runs-names/hostile/commands/texts", || {
        let registry = registry();
        let check = registry.find("hostile/commands/texts")?;
        is_found(check, &played(check, "create-volume-runs-names")?)
    });
    found.chain(healthy).chain([lent]).collect()
}

fn needs_process(check: &Check) -> bool {
    check.refuted_by.iter().any(|defect| IN_PROCESSES.contains(defect))
}

/// What the check says of a driver that is a child of this process, with a log.
fn played(check: &Check, defect: &str) -> Result<Vec<CheckReport>, Failed> {
    let dir = tempfile::tempdir()?;
    let socket = dir.path().join("csi.sock");
    let program = std::env::current_exe()?;
    let config = Config { endpoint: Some(Endpoint::Unix(socket.clone()).to_string()), ..everything_set() };
    let log = DriverLog::create(&dir.path().join("log"), &config)?;
    let command = format!("{SOCKET}='{}' {DEFECT}='{defect}' exec '{}'", socket.display(), program.display());
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let driver = Driver::child(&command, None, Some(log));
    Ok(runtime.block_on(run_on(registry(), driver, config, 1, |other| other.id == check.id))?.reports)
}

/// Is the driver.
pub(crate) fn serve(socket: PathBuf) -> ExitCode {
    let served = || -> Result<(), Box<dyn std::error::Error>> {
        let defect = std::env::var(DEFECT)?;
        let defects = if defect.is_empty() { Vec::new() } else { vec![defect.parse::<Defect>()?] };
        let driver = MockDriver::new(csi_mock_driver::Config { defects, ..Default::default() })?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = Listener::bind(&Endpoint::Unix(socket)).await?;
            Ok(listener.serve(driver.routes(), std::future::pending()).await?)
        })
    };
    match served() {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever started it reads what the driver prints.
        Err(error) => panic!("the mock driver cannot be served: {error}"),
    }
}
