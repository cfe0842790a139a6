//! Runs that are ended at a moment which nobody chose: `--cleanup` leaves nothing of what they made.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use csi_mock_driver::{Config, MockDriver};
use csi_proto::{Listener, stop_signal};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::driver::LONG;
use crate::program::{Said, program};

/// Names the directory to the process that plays the driver.
const DIRECTORY: &str = "CSI_SANITY_TEST_MOMENTS";
/// How many moments, where not so many as usual are wanted.
const MOMENTS: &str = "INTERRUPT_MOMENTS";
const USUAL_MOMENTS: u64 = 6;
/// Calls of the driver after which a run is ended at the latest.
const CALLS_MAX: u64 = 600;
const SIGNALS: [(&str, Signal); 3] = [("KILL", Signal::KILL), ("TERM", Signal::TERM), ("INT", Signal::INT)];

/// What is run: the suites, and the tests of Kubernetes as root alone, which mount and start pods.
const SUITES: [&str; 6] = ["sanity", "idempotency", "property", "concurrency", "restart", "hostile"];

/// In the process that the run starts, this is the driver; in any other there is nothing to do.
#[test]
fn plays_the_driver() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let place = Place(PathBuf::from(directory));
    let config = Config { state: Some(place.state()), call_log: Some(place.calls()), ..Config::default() };
    let driver = MockDriver::new(config).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let listener = Listener::bind(&place.endpoint().parse().unwrap()).await.unwrap();
        listener.serve(driver.routes(), stop_signal()).await.unwrap();
    });
}

/// Where a driver has its socket and its state, and a run its notes.
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

    fn command(&self) -> String {
        let this = std::env::current_exe().unwrap();
        format!(
            "{DIRECTORY}='{}' exec '{}' --exact moments::plays_the_driver --nocapture",
            self.0.display(),
            this.display()
        )
    }

    fn run(&self, suite: &str, seed: u64) -> Command {
        let notes = self.0.join("notes");
        fs::create_dir_all(&notes).unwrap();
        let mut command = program();
        command.env("TMPDIR", notes).args(["run", "--endpoint", &self.endpoint()]);
        command.args(["--driver-command", &self.command(), "--suite", suite, "--seed", &seed.to_string()]);
        command.args(["--attach-limit", "--driver-log", "/dev/null"]);
        command
    }

    /// Waits until the driver has answered so many calls, or the run is over.
    fn wait_for_calls(&self, calls: u64, child: &mut Child) {
        let started = Instant::now();
        while count_lines(&self.calls()) < calls && child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < LONG, "{calls} calls are never made");
            std::thread::yield_now();
        }
    }

    /// What the driver holds: volumes, snapshots and groups.
    fn held(&self) -> Vec<String> {
        let Ok(state) = File::open(self.state()) else { return Vec::new() };
        let state: Value = serde_json::from_reader(state).unwrap();
        let rows = |kind: &str| state["state"][kind]["rows"].as_object().unwrap().clone();
        let ids = |kind: &'static str| rows(kind).into_iter().map(move |(id, _)| format!("{kind} {id}"));
        ["volumes", "snapshots", "groups"].into_iter().flat_map(ids).collect()
    }
}

fn count_lines(path: &Path) -> u64 {
    File::open(path).map_or(0, |file| BufReader::new(file).split(b'\n').count() as u64)
}

/// Numbers that follow from a seed, as splitmix64 makes them.
fn random(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Ends a run at the moment of this seed, and cleans up: what it was, whether it came before the run was over, and whether anything was
/// there to be cleaned up.
fn end_at(seed: u64) -> (String, bool, bool) {
    let directory = tempfile::tempdir().unwrap();
    let place = Place(directory.path().to_owned());
    let suite = SUITES[(seed as usize / SIGNALS.len()) % SUITES.len()];
    let ((name, signal), calls) = (SIGNALS[seed as usize % SIGNALS.len()], 1 + random(seed) % CALLS_MAX);
    let mut child = place.run(suite, seed).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    place.wait_for_calls(calls, &mut child);
    let in_time = child.try_wait().unwrap().is_none();
    // It may end by itself just now.
    let _ = kill_process(Pid::from_child(&child), signal);
    child.wait().unwrap();
    let had_left = !place.held().is_empty();
    let moment = format!("{name} to {suite} after {calls} calls, seed {seed}");
    let said: Said = place.run(suite, seed).arg("--cleanup").output().unwrap().into();
    assert_eq!(said.code, Some(0), "{moment}: {} {}", said.stdout, said.stderr);
    assert_eq!(place.held(), Vec::<String>::new(), "{moment}: {}", said.stdout);
    let notes = fs::read_dir(place.0.join("notes")).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(notes.collect::<Vec<_>>(), Vec::<PathBuf>::new(), "{moment}: {}", said.stdout);
    (moment, in_time, had_left)
}

/// `INTERRUPT_MOMENTS=30` tries so many.
#[test]
fn cleanup_leaves_nothing_of_a_run_that_was_ended_at_any_moment() {
    let moments = std::env::var(MOMENTS).ok().and_then(|text| text.parse().ok()).unwrap_or(USUAL_MOMENTS);
    // Those of the usual run are spread over signals and suites.
    let step = (SIGNALS.len() * SUITES.len()) as u64 / USUAL_MOMENTS + 1;
    let (mut in_time, mut had_left) = (0, 0);
    for moment in 0..moments {
        let seed = if moments == USUAL_MOMENTS { moment * step } else { moment };
        let (told, came_in_time, left) = end_at(seed);
        println!("{told}: {}", if came_in_time { "ended" } else { "the run was over" });
        in_time += u64::from(came_in_time);
        had_left += u64::from(left);
    }
    println!(
        "{in_time} of {moments} moments came before the run was over; {had_left} had left something, and --cleanup nothing of it"
    );
    assert!(in_time > 0 && had_left > 0);
}
