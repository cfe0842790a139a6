//! Ctrl-C stops the program and cleans up, and a second Ctrl-C ends it at once.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use csi_mock_driver::{Config, Delay};
use rustix::process::{Pid, Signal, kill_process};

use crate::driver::Driver;
use crate::program::program;

/// Starts a driver that takes this long for DeleteVolume.
fn slow(delay: Duration) -> Driver {
    let delay = [("DeleteVolume".parse().unwrap(), Delay(delay))].into();
    Driver::start(Config { delay, ..Config::default() })
}

/// Starts checks that make volumes.
fn start(driver: &Driver) -> Child {
    program()
        .env("TMPDIR", driver.directory())
        .args(["--endpoint", &driver.endpoint, "--jobs", "1", "--filter", "controller/create-volume/"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn interrupt(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn the_first_signal_undoes_what_was_made() {
    for signal in [Signal::INT, Signal::TERM] {
        // Every check with a volume takes at least this long, so that the signal comes in the middle of the run.
        let driver = slow(Duration::from_millis(200));
        let mut child = start(&driver);
        driver.wait_for_volume();
        interrupt(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal:?}");
        assert_eq!(driver.volumes(), Vec::<String>::new(), "{signal:?}");
    }
}

#[test]
fn the_second_signal_leaves_at_once() {
    // Undoing would take an hour.
    let driver = slow(Duration::from_secs(3600));
    let mut child = start(&driver);
    driver.wait_for_volume();
    interrupt(&child, Signal::INT);
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = stderr.find(|line| line.contains("stopping")).unwrap();
    assert!(line.contains("press Ctrl-C again"), "{line}");
    interrupt(&child, Signal::INT);
    let line = stderr.find(|line| line.contains("stopped without cleaning up")).unwrap();
    assert!(line.contains("--cleanup undoes what the run made"), "{line}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_ne!(driver.volumes(), Vec::<String>::new(), "nothing was undone");
}

#[test]
fn a_signal_while_connecting_ends_the_wait() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = directory.path().join("csi.sock");
    let mut child = program()
        .args(["--endpoint", endpoint.to_str().unwrap(), "--dial-timeout", "1h"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    // The program prints this when it waits, and its signal handlers are in place by then.
    stderr.lines().map(Result::unwrap).find(|line| line.contains("waiting for")).unwrap();
    interrupt(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
