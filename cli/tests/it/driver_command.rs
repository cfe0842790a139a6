//! The run starts the driver itself, and the driver dies.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use csi_mock_driver::{Config, CrashMode, MockDriver};
use csi_proto::{Listener, stop_signal};
use rustix::process::{Pid, Signal, kill_process};

use crate::driver::{Driver, LONG};
use crate::program::{Folder, Said, check, program, read_json};

/// This variable names the endpoint to the process that plays the driver.
const ENDPOINT: &str = "CSI_SANITY_TEST_DRIVER_ENDPOINT";
/// These variables give the driver another defect and another name than the usual ones.
const DEFECT: &str = "CSI_SANITY_TEST_DRIVER_DEFECT";
const NAME: &str = "CSI_SANITY_TEST_DRIVER_NAME";
const THIS_TEST: &str = "driver_command::plays_the_driver";
/// This value may be in the log of the driver, and in no other output.
const SECRET: &str = "hunter2";

/// A run starts this test in a process of its own, with a variable that makes it the driver. Without that variable, the test does nothing.
#[test]
fn plays_the_driver() {
    let Ok(endpoint) = std::env::var(ENDPOINT) else { return };
    let defect = std::env::var(DEFECT).unwrap_or_else(|_| "create-volume-crashes-on-long-names".to_owned());
    let defects = vec![defect.parse().unwrap()];
    let usual = Config::default();
    let driver_name = std::env::var(NAME).unwrap_or(usual.driver_name.clone());
    let driver = MockDriver::new(Config { defects, driver_name, crash: CrashMode::Abort, ..usual }).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let listener = Listener::bind(&endpoint.parse().unwrap()).await.unwrap();
        listener.serve(driver.routes(), stop_signal()).await.unwrap();
    });
}

/// Returns the command that starts a driver, which writes to standard output and standard error, and prints a secret.
pub(crate) fn driver_command(endpoint: &str) -> String {
    format!("echo started; cat {endpoint}.secrets >&2; {}", quiet_driver_command(endpoint))
}

/// Returns the command that starts a driver with a defect, at the endpoint that the environment names. `name` is text of the shell.
pub(crate) fn named_driver_command(defect: &str, name: &str) -> String {
    let this = std::env::current_exe().unwrap();
    let environment = format!("{ENDPOINT}=\"$CSI_ENDPOINT\" {DEFECT}={defect} {NAME}={name}");
    format!("{environment} exec '{}' --exact {THIS_TEST} --nocapture", this.display())
}

/// Starts a driver with a defect at a socket, in a process that the run did not start.
pub(crate) fn separate_driver(defect: &str, endpoint: &Path) -> Child {
    let mut driver = Command::new(std::env::current_exe().unwrap());
    driver.args(["--exact", THIS_TEST, "--nocapture"]).env(ENDPOINT, endpoint).env(DEFECT, defect);
    driver.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Returns the command that starts a driver which prints nothing.
pub(crate) fn quiet_driver_command(endpoint: &str) -> String {
    let this = std::env::current_exe().unwrap();
    format!("{ENDPOINT}='{endpoint}' exec '{}' --exact {THIS_TEST} --nocapture", this.display())
}

#[test]
fn a_driver_that_dies_is_started_again() {
    let folder = Folder::new();
    let endpoint = folder.path("csi.sock");
    let secrets = folder.write("csi.sock.secrets", &format!("CreateVolume: {{password: {SECRET}}}"));
    let command = driver_command(&endpoint);
    let driver = ["--endpoint", &endpoint, "--driver-command", &command, "--secrets", &secrets];
    let log = folder.path("driver.log");
    let output = ["--report", "json=-", "--driver-log", &log, "--filter", "controller/create-volume/*name*"];
    let Said { code, stdout, stderr } = folder.run(&[driver, output].concat());
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("crashed on CreateVolume"), "{stderr}");
    assert!(stderr.contains("CreateVolume crashes, as the defect asks"), "its last words: {stderr}");
    let printed = format!("the output of the driver is in {log}");
    assert!(stderr.contains(&printed) && !stderr.contains(SECRET), "{stderr}");
    let logged = folder.read("driver.log");
    assert!(logged.matches("started\n").count() >= 2, "it was started again: {logged}");
    assert!(logged.contains(SECRET), "the log is the driver's own: {logged}");

    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let crashes = report["crashes"].as_array().unwrap();
    assert!(!crashes.is_empty() && crashes.iter().all(|crash| crash["back"] == true), "{crashes:?}");
    assert!(crashes.iter().all(|crash| crash["log"] == log), "{crashes:?}");
    let killed = |check: &&serde_json::Value| check["driver_printed"].is_array();
    assert!(report["checks"].as_array().unwrap().iter().any(|check| killed(&check)), "{report}");
    assert!(!report.to_string().contains(SECRET), "{report}");
    assert_eq!(report["summary"]["broken"], 0, "the run goes on: {stderr}");
    assert!(report["summary"]["passed"].as_u64() > Some(0), "{stderr}");
}

/// The run makes a volume to find out its size, before the first check.
#[test]
fn death_before_the_first_check_is_put_down_to_its_call() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let run = |filter: &str| {
        let mut driver = separate_driver("create-volume-crashes-after-work", &socket);
        let endpoint = ["--endpoint", socket.to_str().unwrap(), "--restart-timeout", "500ms"];
        let said = check(&[&endpoint[..], &["--filter", filter]].concat(), 1, &[]);
        // The defect has ended the process already.
        let _ = driver.kill();
        driver.wait().unwrap();
        said
    };
    let said = run("identity/*,controller/create-volume/works,controller/create-volume/repeated");
    let failed: Vec<&str> = said.stdout.lines().filter_map(|line| line.strip_prefix("FAILED ")).collect();
    assert_eq!(failed, ["controller/create-volume/works"], "{}", said.stdout);
    assert!(said.stdout.contains("the driver crashed on CreateVolume"), "{}", said.stdout);

    let said = run("identity/*,controller/create-volume/repeated");
    assert!(!said.stdout.contains("FAILED"), "no check of the call is planned: {}", said.stdout);
    let since = "the driver has been dead since the preparation of the run: CreateVolume";
    assert!(said.stdout.contains(since), "{}", said.stdout);
}

/// Finds the log files in the directory for temporary files of a program.
fn logs(directory: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "log")).collect()
}

#[test]
fn driver_output_is_kept_beside_a_report_or_failure() {
    let folder = Folder::new();
    let endpoint = folder.path("csi.sock");
    let command = driver_command(&endpoint);
    let driver = ["--endpoint", &endpoint, "--driver-command", &command];
    let run = |more: &[&str]| folder.run(&[&driver[..], more].concat());
    let said = run(&["--filter", "identity/probe/"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(logs(folder.root()).is_empty() && !said.stderr.contains("started"), "{}", said.stderr);

    let said = run(&["--filter", "controller/create-volume/*name*"]);
    let [kept] = &logs(folder.root())[..] else { panic!("one file") };
    assert!(
        said.stderr.contains(&format!("the output of the driver is in {}", kept.display())),
        "{}",
        said.stderr
    );
    assert!(said.stdout.contains(&format!("what it printed is in {}", kept.display())), "{}", said.stdout);

    let report = format!("json={}", folder.path("r.json"));
    let said = run(&["--filter", "identity/probe/", "--report", &report]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(folder.read("r.driver.log").contains("started\n"));
}

#[test]
fn a_driver_that_does_not_start_is_told() {
    let folder = Folder::new();
    let (endpoint, log) = (folder.path("csi.sock"), folder.path("driver.log"));
    let command = "echo no such device >&2; exit 7";
    let arguments = ["--endpoint", &endpoint, "--driver-command", command, "--driver-log", "/dev/null/x"];
    check(&arguments, 2, &["/dev/null/x", "--driver-log"]);
    let arguments = ["--endpoint", &endpoint, "--driver-command", command, "--driver-log", &log];
    let ended = "the driver ended before it answered (exit status: 7); it printed last:\n  no such device\n";
    check(&arguments, 3, &[ended, &log]);
    // The command may have asked another process to start the driver, so it is waited for.
    let arguments = ["--endpoint", &endpoint, "--driver-command", "exit 0", "--dial-timeout", "300ms"];
    check(&arguments, 3, &["csi.sock", "no such file"]);
}

/// Otherwise the checks would call the old driver, while the run stops the new one.
#[test]
fn a_driver_that_listens_is_not_started_again() {
    let driver = Driver::start(Config::default());
    let printed =
        ["--driver-command: a driver already listens at ", &driver.endpoint, "leave out --driver-command"];
    let flags = ["--endpoint", &driver.endpoint, "--driver-command", "exit 1"];
    check(&flags, 2, &printed);
    let folder = Folder::new();
    check(&[&["init", "--output", &folder.path("")][..], &flags].concat(), 2, &printed);
    assert_eq!(std::fs::read_dir(folder.root()).unwrap().count(), 0, "init has written nothing");
}

#[test]
fn a_driver_that_is_gone_is_named_with_its_last_lines() {
    let folder = Folder::new();
    let (endpoint, once) = (folder.path("csi.sock"), folder.path("once"));
    let spoilt = format!("if [ -e {once} ]; then echo the state is lost >&2; exit 3; fi; touch {once}");
    let command = format!("{spoilt}; {}", quiet_driver_command(&endpoint));
    let driver = ["--endpoint", &endpoint, "--driver-command", &command, "--restart-timeout", "5s"];
    let checks = ["--jobs", "1", "--filter", "controller/create-volume/*name*"];
    let said = folder.run(&[&driver[..], &checks].concat());
    let printed = format!("--- stdout\n{}\n--- stderr\n{}", said.stdout, said.stderr);
    assert_eq!(said.code, Some(1), "{printed}");
    for words in [
        "the driver did not start again: its process has ended (exit status: 3)",
        "it printed last: the state is lost",
        "empty the state of the driver, and run the other checks: --filter '!controller/create-volume/",
    ] {
        assert!(said.stdout.contains(words), "{words:?}: {printed}");
    }
    assert!(!said.stdout.contains("with --driver-command"), "it was given: {printed}");
}

/// The driver must have ended when the program has, whichever way the program ended.
#[test]
fn the_driver_does_not_outlive_the_program() {
    let folder = Folder::new();
    let (endpoint, pid) = (folder.path("csi.sock"), folder.path("pid"));
    let command = format!("trap '' TERM; echo $$ > {pid}; sleep 1000; sleep 1000");
    let mut child = program()
        .args(["--endpoint", &endpoint, "--driver-command", &command, "--dial-timeout", "1h"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    stderr.find(|line| line.contains("waiting for")).unwrap();
    // The first signal stops the driver, which ignores it; the second one ends the program at once.
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    stderr.find(|line| line.contains("press Ctrl-C again")).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let driver = folder.read("pid");
    let stat = format!("/proc/{}/stat", driver.trim());
    // An orphan stays as a zombie on a system in which no process reaps orphans.
    let alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    let started = Instant::now();
    while alive() {
        assert!(started.elapsed() < LONG, "it lives on");
        std::thread::yield_now();
    }
}

/// The built-in driver is a part of this program, so that there is no process whose death could be counted.
#[test]
fn the_built_in_driver_breaks_off_and_lives_on() {
    let report = tempfile::NamedTempFile::new().unwrap();
    let to = format!("--report=json={}", report.path().display());
    let arguments = ["run", "--mock-defect", "probe-crashes", "--filter", "identity/probe/ready", &to];
    let said = check(&arguments, 1, &[]);
    let sentence = "the driver keeps running, but Probe ends without a gRPC status";
    assert!(said.stdout.contains(sentence), "{}", said.stdout);
    assert_eq!(read_json(report.path())["crashes"], serde_json::json!([]));
}
