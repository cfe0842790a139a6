//! A driver that the run starts itself, and that dies.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use csi_mock_driver::{Config, CrashMode, MockDriver};
use csi_proto::{Listener, stop_signal};
use rustix::process::{Pid, Signal, kill_process};

use crate::driver::LONG;
use crate::program::program;

/// Names the endpoint to the process that plays the driver.
const ENDPOINT: &str = "CSI_SANITY_TEST_DRIVER_ENDPOINT";
const THIS_TEST: &str = "driver_command::plays_the_driver";

/// In the process that the run starts, this is the driver; in any other there is nothing to do.
#[test]
fn plays_the_driver() {
    let Ok(endpoint) = std::env::var(ENDPOINT) else { return };
    let defects = vec!["create-volume-crashes-on-long-names".parse().unwrap()];
    let driver = MockDriver::new(Config { defects, crash: CrashMode::Abort, ..Config::default() }).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let listener = Listener::bind(&endpoint.parse().unwrap()).await.unwrap();
        listener.serve(driver.routes(), stop_signal()).await.unwrap();
    });
}

#[test]
fn a_driver_that_dies_is_started_again_and_the_run_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = directory.path().join("csi.sock").to_str().unwrap().to_owned();
    let this = std::env::current_exe().unwrap();
    // It writes to its standard output, which must not end up in the report.
    let command =
        format!("echo started; {ENDPOINT}='{endpoint}' exec '{}' --exact {THIS_TEST}", this.display());
    let mut run: Command = program();
    run.args(["--endpoint", &endpoint, "--driver-command", &command, "--report", "json=-"]);
    let output = run.args(["--filter", "controller/create-volume/*name*"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("did not survive CreateVolume"), "{stderr}");
    assert!(stderr.matches("started\n").count() >= 2, "it was started again: {stderr}");

    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let crashes = report["crashes"].as_array().unwrap();
    assert!(!crashes.is_empty() && crashes.iter().all(|crash| crash["back"] == true), "{crashes:?}");
    assert_eq!(report["summary"]["broken"], 0, "the run goes on: {stderr}");
    assert!(report["summary"]["passed"].as_u64() > Some(0), "{stderr}");
}

#[test]
fn a_driver_that_does_not_start_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = directory.path().join("csi.sock").to_str().unwrap().to_owned();
    let arguments = ["--endpoint", &endpoint, "--driver-command", "exit 7"];
    crate::program::check(&arguments, 3, &["the driver ended before it answered (exit status: 7)"]);
    // It may have told somebody else to start the driver, so it is waited for.
    let arguments = ["--endpoint", &endpoint, "--driver-command", "exit 0", "--dial-timeout", "300ms"];
    crate::program::check(&arguments, 3, &["csi.sock", "no such file"]);
}

/// A driver that must not be there any more when the program is gone, however it goes.
#[test]
fn the_driver_does_not_outlive_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (endpoint, pid) = (path("csi.sock"), path("pid"));
    let command = format!("trap '' TERM; echo $$ > {pid}; sleep 1000; sleep 1000");
    let mut child = program()
        .args(["--endpoint", &endpoint, "--driver-command", &command, "--dial-timeout", "1h"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    stderr.find(|line| line.contains("waiting for")).unwrap();
    // The first one stops the driver, which is deaf to it; the second one leaves at once.
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    stderr.find(|line| line.contains("press Ctrl-C again")).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let driver = std::fs::read_to_string(pid).unwrap();
    let stat = format!("/proc/{}/stat", driver.trim());
    // Where nobody reaps orphans, they stay as zombies.
    let alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    let started = Instant::now();
    while alive() {
        assert!(started.elapsed() < LONG, "it lives on");
        std::thread::yield_now();
    }
}
