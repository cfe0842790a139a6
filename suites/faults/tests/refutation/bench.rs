//! Runs the suite on drivers that are processes of their own. This test program starts itself as the driver.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use csi_faulty_driver::plain::{Mistake, PlainDriver, storage};
use csi_harness::checks::registry::Registry;
use csi_harness::config::{AccessType, BackendProxy, Config, Effort, FaultHook, TimeLimits};
use csi_harness::driver::{Driver, DriverLog};
use csi_harness::run::runner::RunOptions;
use csi_proto::{Endpoint, Listener};
use csi_suite_faults::SUITE;
use csi_test_support::run::{Run, options};
use csi_test_support::{hostpath, machine};
use libtest_mimic::Failed;
use tonic::service::Routes;

/// This variable names the directory of the driver, and makes this program the driver.
pub(crate) const DIRECTORY: &str = "SERVE_FAULTS_IN";
/// This variable names the driver: `plain`, a mistake of the plain driver, or a back end of the reference driver.
const DRIVER: &str = "SERVE_FAULTS_AS";

/// This variable names the address of the server on which the plain driver keeps its list of volumes.
const STORAGE: &str = "SERVE_FAULTS_STORAGE";

/// A call may take this time, unless the driver may take longer to recover.
const CALL_MS: u64 = 10_000;
/// This is the time limit of a check.
const CHECK_MS: u64 = 600_000;
/// The size is large enough for any file system.
const VOLUME_BYTES: i64 = 64 << 20;

/// The run is made on one of these drivers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Played {
    Plain(Option<Mistake>),
    Reference(&'static str),
}

impl Played {
    /// Returns a driver without mistakes.
    pub(crate) fn right(name: &'static str) -> Played {
        if name == "plain" { Played::Plain(None) } else { Played::Reference(name) }
    }

    /// Returns the plain driver with a mistake.
    pub(crate) fn wrong(id: &str) -> Result<Played, Failed> {
        let mistake = Mistake::ALL.iter().find(|mistake| mistake.id() == id).copied();
        mistake
            .map(|mistake| Played::Plain(Some(mistake)))
            .ok_or_else(|| format!("there is no mistake {id}").into())
    }

    fn name(self) -> &'static str {
        match self {
            Played::Plain(mistake) => mistake.map_or("plain", Mistake::id),
            Played::Reference(backend) => backend,
        }
    }
}

/// The run tries these faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tries {
    /// The run tries only these faults, or as many as it has time for if there are none.
    pub(crate) only: Vec<String>,
    pub(crate) budget_ms: u64,
    /// The driver may take this time to recover from a fault.
    pub(crate) settle_ms: u64,
    pub(crate) seed: u64,
    pub(crate) access: Vec<AccessType>,
    /// True if another check has reported that the driver keeps no state over a restart.
    pub(crate) forgets: bool,
    /// Only this check runs; `None` stands for all checks.
    pub(crate) check: Option<&'static str>,
    /// Names files in the directory of the plain driver, with which the machine behaves in another way.
    pub(crate) files: Vec<&'static str>,
    /// CreateVolume has these parameters.
    pub(crate) parameters: BTreeMap<String, String>,
}

impl Tries {
    /// The run tries the faults with one seed and with volumes that are mounted.
    pub(crate) fn new<'a>(only: impl IntoIterator<Item = &'a str>, budget_ms: u64, settle_ms: u64) -> Tries {
        let only = only.into_iter().map(str::to_owned).collect();
        Tries { only, budget_ms, settle_ms, seed: 1, access: vec![AccessType::Mount], ..Tries::default() }
    }
}

/// Prints why a test does not run.
#[expect(clippy::print_stdout, reason = "a test that does not run says so")]
pub(crate) fn skip(why: &str) {
    println!("skipped: {why}");
}

/// Runs the checks. Without root, it prints that the test is skipped.
pub(crate) fn play(played: Played, tries: &Tries) -> Result<Option<Run>, Failed> {
    hostpath::in_directory(async |root| play_in(root, played, tries).await).transpose()
}

async fn play_in(root: &Path, played: Played, tries: &Tries) -> Result<Run, Failed> {
    let program = std::env::current_exe()?;
    let proxy = proxy()?;
    let command = format!(
        "{DIRECTORY}='{}' {DRIVER}='{}' {STORAGE}='{}' exec '{}'",
        root.display(),
        played.name(),
        proxy.listen,
        program.display()
    );
    let config = config(root, tries, proxy);
    std::fs::create_dir_all(root.join("state"))?;
    for file in &tries.files {
        std::fs::write(root.join("state").join(file), "")?;
    }
    let log = DriverLog::create(&root.join("log"), &config)?;
    let driver = Driver::child(&command, config.endpoint.as_deref(), Some(log));
    if tries.forgets {
        driver.forgets();
    }
    let options = RunOptions { jobs: 1, ..options(Registry::new([SUITE]), tries.seed) };
    Run::on(driver, config, options, |check| tries.check.is_none_or(|id| check.id == id)).await
}

/// Returns a proxy of the run, which leads to the server on which the plain driver keeps its list of volumes.
fn proxy() -> std::io::Result<BackendProxy> {
    Ok(BackendProxy { listen: machine::free_address().to_string(), target: storage::serve()?.to_string() })
}

fn config(root: &Path, tries: &Tries, proxy: BackendProxy) -> Config {
    let settle_ms = Some(tries.settle_ms);
    let call_ms = tries.settle_ms.max(CALL_MS);
    let limits = TimeLimits { call_ms, check_ms: CHECK_MS, settle_ms, ..TimeLimits::default() };
    let effort = Effort {
        only_faults: tries.only.clone(),
        budget_ms: Some(tries.budget_ms.max(1)),
        faults: 100,
        // The budget is long, so that a machine that stands still for a while tries as much.
        check_budget_ms: CHECK_MS,
        ..Effort::default()
    };
    Config {
        faults: vec![offline(root)],
        backend_proxies: vec![proxy],
        access_types: tries.access.clone(),
        volume_size_bytes: Some(VOLUME_BYTES),
        parameters: tries.parameters.clone(),
        time_limits: limits,
        effort,
        ..hostpath::run_config(root)
    }
}

/// Returns commands that take the plain driver's storage away and bring it back. The other drivers have no such storage.
fn offline(root: &Path) -> FaultHook {
    let file = root.join("state/offline");
    let command = |word: &str| format!("{word} '{}'", file.display());
    let (break_command, heal_command) = (command("touch"), command("rm -f"));
    FaultHook { name: "storage".to_owned(), break_command, heal_command, timeout_ms: 10_000 }
}

/// Serves the driver until it is stopped.
#[expect(clippy::print_stderr, reason = "whoever started it reads what the driver prints")]
pub(crate) fn serve(root: &Path) -> ExitCode {
    let served = || -> Result<(), Box<dyn std::error::Error>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            let routes = routes(root, &std::env::var(DRIVER)?)?;
            let endpoint: Endpoint = hostpath::endpoint(root);
            let listener = Listener::bind(&endpoint).await?;
            Ok(listener.serve(routes, csi_proto::stop_signal()).await?)
        })
    };
    match served() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the driver cannot be served: {error}");
            ExitCode::FAILURE
        }
    }
}

fn routes(root: &Path, name: &str) -> Result<Routes, Box<dyn std::error::Error>> {
    let mistake = Mistake::ALL.iter().find(|mistake| mistake.id() == name).copied();
    if mistake.is_some() || name == "plain" {
        let storage = Some(std::env::var(STORAGE)?);
        return Ok(PlainDriver::new(&root.join("state"), mistake, storage)?.routes());
    }
    let backend = format!("--backend={name}");
    let flags = ["--enable-attach", "--enable-volume-expansion", &backend];
    let driver = csi_hostpath_driver::HostpathDriver::new(hostpath::config(root, &flags))?;
    Ok(csi_faulty_driver::routes(&driver, None))
}
