//! A fault that fails a check is stored, and met again by `replay`.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use csi_faulty_driver::plain::{Mistake, PlainDriver};
use csi_proto::{Listener, stop_signal};
use csi_test_support::hostpath;

use crate::program::{Said, program};

/// This variable names the driver's directory to the process that plays the driver.
const DIRECTORY: &str = "CSI_SANITY_TEST_PLAIN_DIRECTORY";
/// This variable names the driver's mistake, and is empty if it has none.
const MISTAKE: &str = "CSI_SANITY_TEST_PLAIN_MISTAKE";

/// A run starts this test in a process of its own, with a variable that makes it the driver. Without that variable, the test does nothing.
#[test]
fn plays_the_driver() {
    let Some(root) = std::env::var_os(DIRECTORY) else { return };
    let (root, mistake) = (Path::new(&root), std::env::var(MISTAKE).unwrap());
    let mistake = Mistake::ALL.iter().find(|one| one.id() == mistake).copied();
    let driver = PlainDriver::new(&root.join("state"), mistake, None).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let listener = Listener::bind(&hostpath::endpoint(root)).await.unwrap();
        listener.serve(driver.routes(), stop_signal()).await.unwrap();
    });
}

/// Runs the program against the plain driver with this mistake.
fn run(root: &Path, mistake: &str, arguments: &[&str]) -> Said {
    let this = std::env::current_exe().unwrap();
    let command = format!(
        "{DIRECTORY}='{}' {MISTAKE}='{mistake}' exec '{}' --exact faults::plays_the_driver --nocapture",
        root.display(),
        this.display()
    );
    let mut program = program();
    program.args(arguments).args(["--endpoint", &hostpath::endpoint(root).to_string()]);
    program.args(["--driver-command", &command, "--driver-log", "/dev/null", "--settle-timeout", "1s"]);
    let paths = ["--mount-dir", "--staging-dir"].map(|flag| [flag.into(), root.join(&flag[2..])]);
    program.args(paths.concat()).env("TMPDIR", root).output().unwrap().into()
}

fn has(said: &Said, code: i32, texts: &[&str]) {
    let printed = format!("--- stdout\n{}\n--- stderr\n{}", said.stdout, said.stderr);
    assert_eq!(said.code, Some(code), "{printed}");
    texts.iter().for_each(|text| assert!(said.stdout.contains(text), "{text:?} is missing: {printed}"));
}

#[test]
fn a_failing_fault_is_stored_and_tried_first() {
    hostpath::in_directory(async |root| {
        let mistake = "plain/answers-before-writing";
        let fault = "crash-points/create-volume/answer/killed";
        let cases = root.join("cases");
        let search = ["faults", "--filter", "faults/crash-points", "--regressions", cases.to_str().unwrap()];
        let only = [&search[..], &["--fault", fault]].concat();
        let found = run(root, mistake, &only);
        has(&found, 1, &["csi-sanity replay", "--filter faults/crash-points --fault crash-points/"]);

        let case = fs::read_dir(&cases).unwrap().next().unwrap().unwrap().path();
        assert_eq!(case.extension(), Some(OsStr::new("yaml")));
        let replay = ["replay", case.to_str().unwrap()];
        has(&run(root, mistake, &replay), 1, &["still failing", "FAULT-DONE-001"]);
        has(&run(root, "", &replay), 0, &["fixed"]);
        has(&run(root, mistake, &[&search[..], &["--budget", "1ms"]].concat()), 1, &["still failing"]);

        let text = fs::read_to_string(&case).unwrap();
        fs::write(&case, text.replace("create-volume/answer", "create-thing/answer")).unwrap();
        let unread = run(root, "", &replay);
        assert_eq!(unread.code, Some(2), "{}", unread.stderr);
        assert!(
            unread.stderr.contains("create-thing") && unread.stderr.contains(replay[1]),
            "{}",
            unread.stderr
        );
    });
}

#[test]
fn what_a_killed_run_has_broken_is_healed_by_cleanup() {
    hostpath::in_directory(async |root| {
        let (config, offline) = (root.join("config.yaml"), root.join("state/offline"));
        let away = offline.display();
        let faults =
            format!("faults: [{{name: storage, break: 'touch {away}; kill -9 $PPID', heal: rm -f {away}}}]");
        fs::write(&config, faults).unwrap();
        let config = ["--config", config.to_str().unwrap()];
        let fault = ["--filter", "faults/hooks", "--fault", "hooks/node-stage/storage/broken"];
        assert_eq!(run(root, "", &[&["faults"], &config[..], &fault].concat()).code, None);
        assert!(offline.exists(), "the run was killed by the command that breaks");
        let undone = run(root, "", &[&["run", "--cleanup"], &config[..]].concat());
        has(&undone, 0, &["healed: ", "undone: volume"]);
        assert!(!offline.exists());
    });
}
