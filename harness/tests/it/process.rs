//! The handle on a driver's process starts, stops and kills child processes, and drivers elsewhere by commands.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use csi_harness::client::target::{Target, TargetError};
use csi_harness::config::Config;
use csi_harness::driver::{Away, Driver, DriverError, Left, Version};
use csi_mock_driver::{CrashMode, MockDriver};
use csi_proto::{Listener, stop_signal};
use tempfile::TempDir;

use crate::bench::{config, write_script};

/// These variables name the endpoint and the mock driver's configuration file to the process that plays the driver.
const ENDPOINT: &str = "CSI_HARNESS_TEST_DRIVER_ENDPOINT";
const MOCK: &str = "CSI_HARNESS_TEST_DRIVER_CONFIG";
/// The limit is long enough for a busy machine; no test waits for it to pass.
const LONG: Duration = Duration::from_secs(60);

/// A test starts this test in a process of its own, with variables that make it the driver. Without them, the test does nothing.
#[test]
fn plays_the_driver() {
    let Ok(endpoint) = std::env::var(ENDPOINT) else { return };
    let mock = std::env::var(MOCK).expect("a configuration");
    let mut mock = csi_mock_driver::Config::load(Path::new(&mock)).expect("it is one");
    mock.crash = CrashMode::Abort;
    let driver = MockDriver::new(mock).expect("a mock driver");
    tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
        let listener = Listener::bind(&endpoint.parse().expect("an endpoint")).await.expect("a socket");
        listener.serve(driver.routes(), stop_signal()).await.expect("it serves");
    });
}

/// A mock driver is a process of its own that keeps its state over restarts, and the configuration names its endpoint.
pub(crate) struct Mock {
    pub(crate) config: Config,
    directory: TempDir,
}

impl Mock {
    pub(crate) fn new(settings: &str) -> Mock {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name).display().to_string();
        let settings = format!("state: {}\n{settings}\n", path("state.json"));
        std::fs::write(directory.path().join("mock.yaml"), settings).expect("it is written");
        let mut config = config();
        config.time_limits.restart_ms = Some(LONG.as_millis() as u64);
        config.endpoint = Some(path("csi.sock"));
        let this = std::env::current_exe().expect("this program");
        config.driver_command = Some(format!(
            "{ENDPOINT}='{}' {MOCK}='{}' exec '{}' --exact process::plays_the_driver --nocapture >>'{}' 2>&1",
            path("csi.sock"),
            path("mock.yaml"),
            this.display(),
            path("driver.log")
        ));
        Mock { config, directory }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("csi.sock")
    }
}

fn driver(config: &Config) -> Driver {
    Driver::of(config, None).expect("the configuration says how to run it")
}

/// Returns true if the process exists and is no zombie.
fn is_alive(pid: &str) -> bool {
    // An orphan stays as a zombie on a system in which no process reaps orphans.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits until a command has written a line into a file, and returns it.
async fn line_in(path: &Path) -> String {
    let started = Instant::now();
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => assert!(started.elapsed() < LONG, "nothing comes"),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_child_starts_stops_and_leaves_its_status() {
    let mock = Mock::new("");
    let driver = driver(&mock.config);
    let target = Target::connect_to(driver.clone(), mock.config.clone()).await.expect("it answers");
    assert!(target.driver().is_some() && target.is_alive().await);
    driver.start().await.expect("it runs already");
    let end = driver.stop(LONG).await.expect("it stops");
    assert_eq!((end.status.and_then(|status| status.code()), end.killed), (Some(0), false));
    assert!(!mock.socket().exists() && !target.is_alive().await);
    assert_eq!(driver.ends(), 1);
}

#[tokio::test]
async fn each_start_is_of_the_chosen_version() {
    let directory = tempfile::tempdir().expect("a directory");
    let line = |name: &str| directory.path().join(name);
    let command = |name: &str| format!("echo {name} >>'{}'; exec sleep 1000", line(name).display());
    let (next, mixed) = (command("next"), command("mixed"));
    let others = [(Version::Next, next.as_str()), (Version::Mixed, mixed.as_str())];
    let driver = Driver::child_with_versions(&command("present"), &others, None, None);
    assert!(driver.has_next_version());
    for (version, name) in [
        (Version::Present, "present"),
        (Version::Mixed, "mixed"),
        (Version::Next, "next"),
        (Version::Present, "present"),
    ] {
        driver.choose(version);
        let _ = std::fs::remove_file(line(name));
        driver.start().await.expect("it starts");
        assert_eq!((line_in(&line(name)).await.as_str(), driver.version()), (name, version));
        driver.kill().await.expect("it can be killed");
    }
    let alone = Driver::child(&command("present"), None, None);
    alone.choose(Version::Next);
    assert_eq!((alone.has_next_version(), alone.version()), (false, Version::Present));
}

#[tokio::test]
async fn channels_work_again_after_a_kill() {
    let mock = Mock::new("");
    let driver = driver(&mock.config);
    let target = Target::connect_to(driver.clone(), mock.config.clone()).await.expect("it answers");
    for _ in 0..2 {
        let end = driver.kill().await.expect("it can be killed");
        assert_eq!((end.status.and_then(|status| status.signal()), end.killed), (Some(9), true));
        assert_eq!(driver.ended().await.signal(), Some(9));
        assert!(mock.socket().exists(), "a killed driver tidies nothing up");
        driver.start().await.expect("it starts again");
        assert!(target.wait_until_alive(LONG).await.is_some_and(|took| took < LONG));
    }
    driver.leave().await.expect("it stops");
    assert!(!mock.socket().exists());
}

#[tokio::test]
async fn a_second_driver_leaves_the_first_one_alone() {
    let mock = Mock::new("");
    let driver = driver(&mock.config);
    let target = Target::connect_to(driver.clone(), mock.config.clone()).await.expect("it answers");
    let left = driver.start_twice(LONG, LONG).await.expect("both can be started");
    assert_eq!(left, Some(Left::First));
    assert!(target.is_alive().await);
    let end = driver.stop(LONG).await.expect("it stops");
    assert_eq!((end.status.and_then(|status| status.code()), end.killed), (Some(0), false));
}

#[tokio::test]
async fn a_second_driver_may_take_the_socket() {
    let mock = Mock::new("");
    let command = mock.config.driver_command.clone().expect("there is one");
    let driver = Driver::child(&format!("rm -f '{}'; {command}", mock.socket().display()), None, None);
    let target = Target::connect_to(driver.clone(), mock.config.clone()).await.expect("it answers");
    let left = driver.start_twice(Duration::ZERO, LONG).await.expect("both can be started");
    assert_eq!(left, Some(Left::Second));
    assert!(target.wait_until_alive(LONG).await.is_some());
    driver.leave().await.expect("it stops");
    assert!(!target.is_alive().await, "neither of them is there");
}

/// Starts a driver whose command runs `before` at each start but the first one.
async fn with_another_start(before: &str, restart_ms: Option<u64>) -> (Mock, Driver, std::sync::Arc<Target>) {
    let mut mock = Mock::new("");
    let started = mock.directory.path().join("started").display().to_string();
    let command = mock.config.driver_command.take().expect("there is one");
    let command = format!("if [ -e {started} ]; then {before}; fi; touch {started}; sleep 0.2; {command}");
    mock.config.driver_command = Some(command);
    mock.config.time_limits.restart_ms = restart_ms;
    mock.config.time_limits.dial_ms = LONG.as_millis() as u64;
    let driver = driver(&mock.config);
    let target = Target::connect_to(driver.clone(), mock.config.clone()).await.expect("it answers");
    (mock, driver, target)
}

#[tokio::test]
async fn the_time_away_follows_from_earlier_starts() {
    let (_mock, driver, target) = with_another_start("sleep 0.5", None).await;
    let first = driver.longest_start().expect("one was seen");
    assert!(first >= Duration::from_millis(200), "{first:?}");
    assert_eq!(target.restart_limit(), (first * 10).max(LONG));
    driver.kill().await.expect("it can be killed");
    let took = target.bring_back().await.expect("it is waited for");
    assert!(driver.longest_start().expect("one was seen") >= Duration::from_millis(700).min(took));
    driver.leave().await.expect("it stops");
}

#[tokio::test]
async fn a_driver_slower_than_the_limit_is_not_blamed() {
    let (_mock, driver, target) = with_another_start("sleep 1000", Some(100)).await;
    driver.kill().await.expect("it can be killed");
    let away = target.bring_back().await.expect_err("it sleeps");
    assert!(matches!(away, Away::Silent { .. }) && !away.is_fault(), "{away}");
    driver.leave().await.expect("it stops");
}

#[tokio::test]
async fn a_driver_that_ends_again_is_not_waited_for() {
    for status in [0, 3] {
        let (_mock, driver, target) = with_another_start(&format!("exit {status}"), None).await;
        driver.kill().await.expect("it can be killed");
        let begun = Instant::now();
        let away = target.bring_back().await.expect_err("it has ended");
        assert!(matches!(away, Away::Ended(how) if how.code() == Some(status)) && away.is_fault(), "{away}");
        assert!(begun.elapsed() < LONG);
        driver.leave().await.expect("nothing is left");
    }
}

#[tokio::test]
async fn a_driver_deaf_to_sigterm_is_killed_in_the_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let ready = directory.path().join("ready");
    let driver = Driver::child(
        &format!("trap '' TERM; echo ready > {}; sleep 1000; sleep 1000", ready.display()),
        None,
        None,
    );
    driver.start().await.expect("a shell");
    line_in(&ready).await;
    let end = driver.stop(Duration::from_millis(50)).await.expect("it can be killed");
    assert!(end.killed && end.status.and_then(|status| status.signal()) == Some(9), "{end:?}");
}

#[tokio::test]
async fn whatever_the_command_starts_ends_with_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let pid = directory.path().join("pid");
    let write = format!("echo $! > {}", pid.display());
    for (command, stopped) in [
        // The helper is a process beside the driver in the first two cases, and a driver that the command puts into the background in the
        // others.
        (format!("sleep 1000 & {write}; exec sleep 1000"), true),
        (format!("sleep 1000 & {write}; exec sleep 1000"), false),
        (format!("sleep 1000 & {write}"), true),
        (format!("sleep 1000 & {write}"), false),
    ] {
        let driver = Driver::child(&command, None, None);
        driver.start().await.expect("a shell");
        let helper = line_in(&pid).await;
        assert!(is_alive(&helper));
        let ended = if stopped { driver.stop(LONG).await } else { driver.kill().await };
        ended.expect("it ends");
        assert!(!is_alive(&helper), "{command}");
        std::fs::remove_file(&pid).expect("it is there");
    }
}

fn is_stopped(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "))
}

/// Waits until a stopped process runs again.
async fn goes_on(pid: &str) {
    let started = Instant::now();
    while is_stopped(pid) {
        assert!(started.elapsed() < LONG, "it stays stopped");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_frozen_driver_stands_still_with_its_children() {
    let directory = tempfile::tempdir().expect("a directory");
    let pid = directory.path().join("pid");
    let command = format!("sleep 1000 & echo $! > {}; exec sleep 1000", pid.display());
    let driver = Driver::child(&command, None, None);
    driver.start().await.expect("a shell");
    let helper = line_in(&pid).await;
    let frozen = driver.freeze().await.expect("it can be stopped").expect("it is a child");
    assert!(is_stopped(&helper), "it is stopped by then");
    frozen.thaw().await.expect("it goes on");
    goes_on(&helper).await;
    // A check that is interrupted only drops the handle.
    drop(driver.freeze().await.expect("it can be stopped"));
    goes_on(&helper).await;
    let _frozen = driver.freeze().await.expect("it can be stopped");
    driver.kill().await.expect("it can be killed while it stands still");
    assert!(!is_alive(&helper));
    driver.freeze().await.expect_err("nothing is left to stop");
}

#[tokio::test]
async fn the_command_gets_the_address_to_listen_at() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("address");
    let here = std::env::current_dir().expect("there is one");
    for (endpoint, expected) in [
        ("unix:///run/csi/csi.sock", "unix:///run/csi/csi.sock".to_owned()),
        ("/run/csi/csi.sock", "unix:///run/csi/csi.sock".to_owned()),
        ("csi.sock", format!("unix://{}", here.join("csi.sock").display())),
        ("tcp://127.0.0.1:10000", "tcp://127.0.0.1:10000".to_owned()),
    ] {
        let command = format!("echo \"$CSI_ENDPOINT\" > {}", file.display());
        let driver = Driver::child(&command, Some(endpoint), None);
        driver.start().await.expect("a shell");
        assert!(driver.ended().await.success());
        assert_eq!(line_in(&file).await, expected);
    }
}

#[tokio::test]
async fn a_handle_that_goes_takes_the_process_along() {
    let directory = tempfile::tempdir().expect("a directory");
    let pid = directory.path().join("pid");
    let driver = Driver::child(&format!("echo $$ > {}; exec sleep 1000", pid.display()), None, None);
    driver.start().await.expect("a shell");
    let pid = line_in(&pid).await;
    assert!(is_alive(&pid));
    drop(driver);
    let started = Instant::now();
    while is_alive(&pid) {
        assert!(started.elapsed() < LONG, "it lives on");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_command_that_fails_is_not_waited_for() {
    let mut config = Mock::new("").config;
    config.driver_command = Some("exit 3".to_owned());
    config.time_limits.dial_ms = LONG.as_millis() as u64;
    let started = Instant::now();
    let Err(TargetError::Ended { status, .. }) = Target::connect_to(driver(&config), config).await else {
        panic!("the command has failed")
    };
    assert!(status.code() == Some(3) && started.elapsed() < LONG, "{status}");
}

#[tokio::test]
async fn a_command_that_hands_over_cannot_end_the_driver() {
    let driver = Driver::child("true", None, None);
    driver.start().await.expect("a shell");
    assert!(driver.ended().await.success());
    let error = driver.kill().await.expect_err("there is nothing to kill");
    assert!(matches!(error, DriverError::Detached), "{error}");
    assert!(error.to_string().contains("--restart-command"), "{error}");
    driver.leave().await.expect("that is nobody's fault");
}

/// Writes a command of the user that notes how it is called, and that fails if it is called with `fails`.
fn restart_command(directory: &TempDir, fails: &str) -> Driver {
    let (script, calls) = (directory.path().join("restart.sh"), directory.path().join("calls"));
    let text = format!("#!/bin/sh\necho $# $1 >> {}\n[ \"$1\" != '{fails}' ]\n", calls.display());
    write_script(&script, &text);
    Driver::elsewhere(script, LONG)
}

fn calls(directory: &TempDir) -> String {
    std::fs::read_to_string(directory.path().join("calls")).unwrap_or_default()
}

#[tokio::test]
async fn a_driver_elsewhere_is_reached_by_a_command() {
    let directory = tempfile::tempdir().expect("a directory");
    let driver = restart_command(&directory, "");
    driver.start().await.expect("it runs already");
    assert_eq!(calls(&directory), "");
    let end = driver.kill().await.expect("the command works");
    assert_eq!((end.status, end.killed), (None, true));
    driver.start().await.expect("the command works");
    driver.start().await.expect("it runs already");
    let end = driver.stop(LONG).await.expect("the command works");
    assert_eq!((end.status, end.killed), (None, false));
    assert_eq!(calls(&directory), "1 kill\n1 start\n1 stop\n");
    assert!(driver.freeze().await.expect("it is not asked for").is_none());
    driver.leave().await.expect("the command works");
    driver.leave().await.expect("it runs already");
    assert_eq!(calls(&directory), "1 kill\n1 start\n1 stop\n1 start\n");
}

#[tokio::test]
async fn a_path_command_that_fails_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let driver = restart_command(&directory, "kill");
    let error = driver.kill().await.expect_err("the command fails").to_string();
    assert!(error.contains("restart.sh kill failed: exit status: 1"), "{error}");
    // The driver may be dead, so that it has to be started again in any case.
    driver.start().await.expect("the command works");
    assert_eq!(calls(&directory), "1 kill\n1 start\n");
}

#[tokio::test]
async fn a_command_that_hangs_has_a_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("hang.sh");
    write_script(&script, "#!/bin/sh\nexec sleep 1000\n");
    let driver = Driver::elsewhere(script, Duration::from_millis(50));
    let error = driver.kill().await.expect_err("the command hangs").to_string();
    assert!(error.contains("took longer than 50 ms"), "{error}");
}
