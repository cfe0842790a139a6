//! Plays the suite on the reference driver in this process, right or with a defect.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use csi_faulty_driver::Defect;
use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::Registry;
use csi_harness::client::target::Target;
use csi_harness::config::{AccessType, Config};
use csi_harness::driver::Driver;
use csi_harness::resources::mounts;
use csi_harness::results::events::{Event, Reporter};
use csi_harness::results::outcome::{Outcome, Summary};
use csi_harness::results::wording;
use csi_harness::run::runner::{RunOptions, Runner};
use csi_hostpath_driver::HostpathDriver;
use csi_hostpath_driver::args::Args;
use csi_proto::Endpoint;
use csi_suite_data::SUITE;
use libtest_mimic::Failed;
use tokio::sync::watch;

/// Everything that the checks ask for.
const FLAGS: [&str; 6] = [
    "csi-hostpath-driver",
    "--nodeid=node1",
    "--enable-attach",
    "--check-volume-lifecycle",
    "--enable-topology",
    "--enable-volume-expansion",
];
/// Large enough for XFS.
const VOLUME_BYTES: i64 = 320 << 20;

/// How the driver keeps its volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Directories,
    Images,
}

impl Backend {
    pub(crate) const ALL: [Backend; 2] = [Backend::Directories, Backend::Images];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Backend::Directories => "directory",
            Backend::Images => "image",
        }
    }
}

/// What the checks said of one driver, by label, and what the run as a whole came to.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) said: BTreeMap<String, Outcome>,
    pub(crate) summary: Summary,
    /// What is wrong with the words of reports.
    wording: Vec<String>,
}

impl Reporter for Played {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::CheckFinished(report) = event {
            self.wording.extend(wording::complaints(report));
            self.said.insert(report.label(), report.outcome.clone());
        }
    }
}

/// Plays all checks; without root it prints that it does not.
#[expect(clippy::print_stdout, reason = "a test that does not run says so")]
pub(crate) fn play(backend: Backend, defect: Option<Defect>) -> Result<Option<Played>, Failed> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root for mounts and loop devices");
        return Ok(None);
    }
    let ground = tempfile::Builder::new().prefix("refutation-").tempdir()?;
    let root = ground.path().canonicalize()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let played = runtime.block_on(play_in(&root, backend, defect))?;
    // Defects may leave mounts behind, and devices.
    mounts::unmount_below(&root)?;
    detach_below(&root)?;
    match &played.wording[..] {
        [] => Ok(Some(played)),
        [first, ..] => Err(first.as_str().into()),
    }
}

/// Detaches the loop devices of files below a directory.
fn detach_below(root: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir("/sys/block")? {
        let name = entry?.file_name();
        let file = Path::new("/sys/block").join(&name).join("loop/backing_file");
        if std::fs::read_to_string(file).is_ok_and(|file| Path::new(&file).starts_with(root)) {
            Command::new("losetup").arg("--detach").arg(Path::new("/dev").join(&name)).status()?;
        }
    }
    Ok(())
}

async fn play_in(root: &Path, backend: Backend, defect: Option<Defect>) -> Result<Played, Failed> {
    let driver = driver(root, backend, defect);
    let target = Target::connect_to(driver.clone(), config(root, backend)).await?;
    let registry = Registry::new([SUITE]);
    let plan = registry.select(&Filter::default(), &target.config().access_types);
    let mut played = Played::default();
    let (_never, signal) = watch::channel(Default::default());
    let mut runner = Runner::new(target, options(registry, defect), signal);
    runner.report_to(&mut played);
    let summary = runner.run(plan).await;
    driver.leave().await?;
    Ok(Played { summary, ..played })
}

fn endpoint(root: &Path) -> Endpoint {
    Endpoint::Unix(root.join("csi.sock"))
}

fn driver(root: &Path, backend: Backend, defect: Option<Defect>) -> Driver {
    let state = format!("--statedir={}/state", root.display());
    let (endpoint, backend) = (endpoint(root), format!("--backend={}", backend.name()));
    Driver::in_process(move || {
        let own = [state.as_str(), backend.as_str()];
        let arguments = FLAGS.into_iter().chain(own).map(OsString::from);
        let config = Args::read(arguments).unwrap().into_config().unwrap();
        let driver = HostpathDriver::new(config)?;
        Ok(vec![(endpoint.clone(), csi_faulty_driver::routes(&driver, defect))])
    })
}

fn config(root: &Path, backend: Backend) -> Config {
    let mut config = Config {
        endpoint: Some(endpoint(root).to_string()),
        mount_dir: Some(root.join("mount")),
        staging_dir: Some(root.join("staging")),
        access_types: vec![AccessType::Mount, AccessType::Block],
        volume_size_bytes: Some(VOLUME_BYTES),
        ..Config::default()
    };
    if backend == Backend::Images {
        // Not every kernel lets a mounted ext4 grow.
        "xfs".clone_into(&mut config.fs_type);
    }
    config
}

fn options(registry: Registry, defect: Option<Defect>) -> RunOptions {
    RunOptions {
        // What a defect does to one check does not depend on others then.
        jobs: if defect.is_some() { 1 } else { 4 },
        seed: 1,
        tell_each: true,
        registry,
        ..RunOptions::default()
    }
}
