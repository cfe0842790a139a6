//! Runs are ended at random moments, and `--cleanup` leaves nothing of what they made.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use csi_hostpath_driver::HostpathDriver;
use csi_hostpath_driver::args::Args;
use csi_mock_driver::{Config, MockDriver};
use csi_proto::{Listener, stop_signal};
use csi_test_support::run::from_environment;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tonic::service::Routes;

use crate::driver::LONG;
use crate::program::{Said, program};

/// This variable names the directory to the process that plays the driver.
const DIRECTORY: &str = "CSI_SANITY_TEST_MOMENTS";
/// This variable sets the number of moments, if it is not to be the usual number.
const MOMENTS: &str = "INTERRUPT_MOMENTS";
const USUAL_MOMENTS: u64 = 6;
/// A run is ended after this number of calls of the driver at the latest.
const CALLS_MAX: u64 = 600;
const SIGNALS: [(&str, Signal); 3] = [("KILL", Signal::KILL), ("TERM", Signal::TERM), ("INT", Signal::INT)];

/// A run with mounts is ended after this time at the latest.
const WITH_MOUNTS_MS_MAX: u64 = 8_000;
const USUAL_MOMENTS_WITH_MOUNTS: u64 = 4;
const DEFINITION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../driver-definitions/hostpath-image.yaml");

/// These suites need nothing but calls.
const SUITES: [&str; 9] = [
    "sanity",
    "idempotency",
    "property",
    "concurrency",
    "restart",
    "hostile",
    "growth",
    "after-error",
    "faults",
];

/// A run starts this test in a process of its own, with a variable that makes it the driver. Without that variable, the test does nothing.
#[test]
fn plays_the_driver() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let place = Place(PathBuf::from(directory));
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let listener = Listener::bind(&place.endpoint().parse().unwrap()).await.unwrap();
        listener.serve(place.routes(), stop_signal()).await.unwrap();
    });
}

/// A driver keeps its socket and its state in this directory, and a run its notes.
struct Place(PathBuf);

impl Place {
    fn endpoint(&self) -> String {
        format!("unix://{}/csi.sock", self.0.display())
    }

    fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    fn calls(&self) -> PathBuf {
        self.0.join("calls.jsonl")
    }

    /// Returns the mock driver, or the driver with real mounts if the directory has a folder for that.
    fn routes(&self) -> Routes {
        if !self.has_mounts() {
            let config =
                Config { state: Some(self.state()), call_log: Some(self.calls()), ..Config::default() };
            return MockDriver::new(config).unwrap().routes();
        }
        let state = format!("--statedir={}", self.volumes().display());
        let arguments = ["csi-hostpath-driver", "--nodeid=node1", "--backend=image", &state];
        let config = Args::read(arguments.map(OsString::from)).unwrap().into_config().unwrap();
        csi_faulty_driver::routes(&HostpathDriver::new(config).unwrap(), None)
    }

    fn has_mounts(&self) -> bool {
        self.volumes().is_dir()
    }

    /// The driver with real mounts keeps all of its files in this directory.
    fn volumes(&self) -> PathBuf {
        self.0.join("hostpath")
    }

    fn command(&self) -> String {
        let this = std::env::current_exe().unwrap();
        format!(
            "{DIRECTORY}='{}' exec '{}' --exact moments::plays_the_driver --nocapture",
            self.0.display(),
            this.display()
        )
    }

    fn run(&self, what: &[&str], seed: u64) -> Command {
        let notes = self.0.join("notes");
        fs::create_dir_all(&notes).unwrap();
        let mut command = program();
        command.env("TMPDIR", notes).args(what).args(["--endpoint", &self.endpoint()]);
        command.args(["--driver-command", &self.command(), "--seed", &seed.to_string()]);
        command.args(["--driver-log", "/dev/null"]);
        command
    }

    /// Waits until the driver has answered this number of calls, or the run is over.
    fn wait_for_calls(&self, calls: u64, child: &mut Child) {
        let started = Instant::now();
        while count_lines(&self.calls()) < calls && child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < LONG, "{calls} calls are never made");
            std::thread::yield_now();
        }
    }

    /// Lists what the driver holds: the volumes, snapshots and groups of the mock driver, or the files and mounts of the driver with real
    /// mounts.
    fn held(&self) -> Vec<String> {
        if self.has_mounts() {
            let files =
                ["volumes", "snapshots"].into_iter().flat_map(|part| names(&self.volumes().join(part)));
            let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
            let directory = self.0.to_str().unwrap();
            let mounts = mounts.lines().filter(|line| line.contains(directory)).map(str::to_owned);
            return files.chain(mounts).collect();
        }
        let Ok(state) = File::open(self.state()) else { return Vec::new() };
        let state: Value = serde_json::from_reader(state).unwrap();
        let rows = |kind: &str| state["state"][kind]["rows"].as_object().unwrap().clone();
        let ids = |kind: &'static str| rows(kind).into_iter().map(move |(id, _)| format!("{kind} {id}"));
        ["volumes", "snapshots", "groups"].into_iter().flat_map(ids).collect()
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path().display().to_string()).collect()
}

fn count_lines(path: &Path) -> u64 {
    File::open(path).map_or(0, |file| BufReader::new(file).split(b'\n').count() as u64)
}

/// Returns a number that depends only on the seed, as splitmix64 does.
fn random(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// These are the observations about one run that was ended.
struct Ended {
    moment: String,
    /// The signal came before the run was over.
    in_time: bool,
    /// The run had left something that had to be cleaned up.
    had_left: bool,
}

/// Ends a run after `moment` calls, or after that many milliseconds if there are mounts, and cleans up.
fn end_at(place: &Place, what: &[&str], moment: u64, seed: u64) -> Ended {
    let (name, signal) = SIGNALS[seed as usize % SIGNALS.len()];
    let mut child = place.run(what, seed).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    match place.has_mounts() {
        true => std::thread::sleep(Duration::from_millis(moment)),
        false => place.wait_for_calls(moment, &mut child),
    }
    let in_time = child.try_wait().unwrap().is_none();
    // The run may have ended just before the signal.
    let _ = kill_process(Pid::from_child(&child), signal);
    child.wait().unwrap();
    let had_left = !place.held().is_empty();
    let unit = if place.has_mounts() { "ms" } else { "calls" };
    let moment = format!("{name} to {} after {moment} {unit}, seed {seed}", what.join(" "));
    let said: Said = place.run(what, seed).arg("--cleanup").output().unwrap().into();
    assert_eq!(said.code, Some(0), "{moment}: {} {}", said.stdout, said.stderr);
    assert_eq!(place.held(), Vec::<String>::new(), "{moment}: {}", said.stdout);
    let notes = fs::read_dir(place.0.join("notes")).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(notes.collect::<Vec<_>>(), Vec::<PathBuf>::new(), "{moment}: {}", said.stdout);
    Ended { moment, in_time, had_left }
}

fn moments(usual: u64) -> u64 {
    from_environment(MOMENTS).unwrap_or(usual)
}

/// Returns one line for each run, and demands that some runs were ended in time.
fn summary(ended: &[Ended]) -> String {
    let printed = |ended: &Ended| {
        format!("{}: {}\n", ended.moment, if ended.in_time { "ended" } else { "the run was over" })
    };
    let in_time = ended.iter().filter(|ended| ended.in_time).count();
    let had_left = ended.iter().filter(|ended| ended.had_left).count();
    let summary = format!(
        "{}{in_time} of {} moments came before the run was over; {had_left} had left something, and --cleanup nothing of it",
        ended.iter().map(printed).collect::<String>(),
        ended.len()
    );
    assert!(in_time > 0 && had_left > 0, "{summary}");
    summary
}

/// The environment variable `INTERRUPT_MOMENTS=30` makes this test try 30 moments.
#[test]
fn cleanup_leaves_nothing_of_a_killed_run() {
    let moments = moments(USUAL_MOMENTS);
    // The few moments of a usual run are spread over all signals and suites.
    let step = (SIGNALS.len() * SUITES.len()) as u64 / USUAL_MOMENTS + 1;
    let seeds = (0..moments).map(|moment| if moments == USUAL_MOMENTS { moment * step } else { moment });
    let end = |seed: u64| {
        let directory = tempfile::tempdir().unwrap();
        let suite = SUITES[(seed as usize / SIGNALS.len()) % SUITES.len()];
        let what = ["run", "--suite", suite, "--attach-limit"];
        end_at(&Place(directory.path().to_owned()), &what, 1 + random(seed) % CALLS_MAX, seed)
    };
    println!("{}", summary(&seeds.map(end).collect::<Vec<_>>()));
}

/// This test does so with real mounts, loop devices and pods.
#[test]
fn cleanup_leaves_nothing_of_a_killed_run_with_mounts() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root for mounts and loop devices");
        return;
    }
    let end = |seed: u64| {
        let directory = tempfile::tempdir().unwrap();
        let place = Place(directory.path().canonicalize().unwrap());
        fs::create_dir(place.volumes()).unwrap();
        let what: &[&str] = match seed % 3 {
            0 => &["run", "--suite", "data"],
            1 => &["run", "--suite", "faults"],
            _ => &["e2e", "--driver-definition", DEFINITION],
        };
        end_at(&place, what, 500 + random(seed) % WITH_MOUNTS_MS_MAX, seed)
    };
    let ended: Vec<Ended> = (0..moments(USUAL_MOMENTS_WITH_MOUNTS)).map(end).collect();
    println!("{}", summary(&ended));
}
