//! `--cleanup`, after runs that were killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use csi_mock_driver::{Config, Defect, Delay};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

use crate::driver::{Driver, LONG};
use crate::driver_command::quiet_driver_command;
use crate::program::{Folder, Said, program};

/// This is the directory for temporary files of all runs of one test.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        command.env("TMPDIR", self.0.path()).args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.program(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn cleanup(&self, arguments: &[&str], code: i32) -> Said {
        let said: Said = self.program(&[arguments, &["--cleanup"]].concat()).output().unwrap().into();
        assert_eq!(said.code, Some(code), "{} {}", said.stdout, said.stderr);
        said
    }

    /// Waits until a file of a run has this text.
    fn wait_for(&self, text: &str) {
        let started = Instant::now();
        while !self.texts().iter().any(|found| found.contains(text)) {
            assert!(started.elapsed() < LONG, "{text} is never written: {:?}", self.texts());
            std::thread::yield_now();
        }
    }

    fn texts(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().path());
        files.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
    }

    fn is_empty(&self) -> bool {
        std::fs::read_dir(self.0.path()).unwrap().next().is_none()
    }
}

fn kill(mut child: Child) {
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
}

/// Starts a driver that takes long for the calls that undo something.
fn slow() -> Driver {
    let delay = |rpc: &str| (rpc.parse().unwrap(), Delay(Duration::from_millis(200)));
    let delay = ["NodeUnpublishVolume", "DeleteVolume"].map(delay).into();
    Driver::start(Config { delay, ..Config::default() })
}

#[test]
fn what_a_run_has_made_that_was_killed_is_undone() {
    let (place, driver) = (Place::new(), slow());
    let secrets = driver.folder.write("secrets.yaml", "CreateVolume: {password: hunter2}");
    let endpoint = ["--endpoint", &driver.endpoint, "--secrets", &secrets];
    let child = place.start(&[&endpoint[..], &["--filter", "node/node-publish-volume/"]].concat());
    place.wait_for("\"publication\"");
    kill(child);
    let hexadecimal: String = "hunter2".bytes().map(|byte| format!("{byte:02x}")).collect();
    let texts = place.texts().concat();
    assert!(!texts.contains("hunter2") && !texts.contains(&hexadecimal), "{texts}");
    assert_ne!(driver.volumes(), Vec::<String>::new());

    let said = place.cleanup(&endpoint, 0);
    assert!(said.stdout.contains("undone: volume"), "{}", said.stdout);
    assert_eq!(driver.volumes(), Vec::<String>::new(), "{}", said.stdout);
    assert!(place.is_empty(), "directories and the file of the run are gone: {:?}", place.texts());
    let said = place.cleanup(&endpoint, 0);
    assert!(said.stdout.contains("nothing is left"), "{}", said.stdout);
}

#[test]
fn what_others_have_made_is_left_alone() {
    let (place, driver, other) = (Place::new(), slow(), slow());
    let child = place.start(&["--endpoint", &driver.endpoint, "--filter", "controller/create-volume/"]);
    driver.wait_for_volume();
    // Otherwise the run might have deleted all of its volumes by the time it is killed.
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    let said = place.cleanup(&["--endpoint", &driver.endpoint], 0);
    assert!(said.stdout.contains("nothing is left"), "the run is under way: {}", said.stdout);
    kill(child);

    let said = place.cleanup(&["--endpoint", &other.endpoint], 0);
    let notes = said.stderr.lines().filter(|line| line.starts_with("note: ")).count();
    assert!(said.stderr.contains("left alone") && said.stderr.contains(&driver.endpoint), "{}", said.stderr);
    assert_eq!(notes, 1, "{}", said.stderr);
    assert_ne!(driver.volumes(), Vec::<String>::new());
    place.cleanup(&["--endpoint", &driver.endpoint], 0);
    assert_eq!(driver.volumes(), Vec::<String>::new());
}

#[test]
fn leftovers_of_absent_drivers_can_be_forgotten() {
    let (place, here) = (Place::new(), slow());
    for _ in 0..5 {
        let gone = slow();
        let child = place.start(&["--endpoint", &gone.endpoint, "--filter", "controller/create-volume/"]);
        gone.wait_for_volume();
        kill(child);
    }
    let said = place.cleanup(&["--endpoint", &here.endpoint], 0);
    let notes: Vec<&str> = said.stderr.lines().filter(|line| line.starts_with("note: ")).collect();
    let [note] = notes[..] else { panic!("one line for all of them: {}", said.stderr) };
    assert!(note.contains("5 other runs") && note.contains("the rest in 2 other places"), "{note}");
    assert!(note.contains("--cleanup --forget"), "{note}");

    let said = place.cleanup(&["--forget"], 0);
    assert!(said.stdout.contains("forgotten: ") && said.stdout.contains("5 earlier runs"), "{}", said.stdout);
    assert!(place.is_empty(), "{:?}", place.texts());
    let said = place.cleanup(&["--endpoint", &here.endpoint], 0);
    assert!(!said.stderr.contains("left alone"), "{}", said.stderr);
    let said: Said = place.program(&["--forget"]).output().unwrap().into();
    assert_eq!(said.code, Some(2), "alone it means nothing: {}", said.stderr);
}

#[test]
fn what_cannot_be_undone_is_named_and_kept() {
    let (place, driver) = (Place::new(), slow());
    let endpoint = ["--endpoint", &driver.endpoint];
    let child = place.start(&[&endpoint[..], &["--filter", "controller/create-volume/"]].concat());
    driver.wait_for_volume();
    kill(child);
    let said =
        place.cleanup(&[&endpoint[..], &["--call-timeout", "10ms", "--undo-timeout", "1s"]].concat(), 1);
    assert!(said.stdout.contains("left: "), "{}", said.stdout);
    place.cleanup(&endpoint, 0);
    assert_eq!(driver.volumes(), Vec::<String>::new());
    assert!(place.is_empty());
}

/// The mock driver makes a volume, answers an error, and refuses to make the volume again, so that its id is unknown until the driver lists
/// it. It also refuses at first to delete another volume.
#[test]
fn rejected_deletions_are_listed_and_repeated_later() {
    let (place, state) = (Place::new(), tempfile::tempdir().unwrap());
    let config = || Config { state: Some(state.path().join("state.json")), ..Config::default() };
    let fail = [("DeleteVolume".parse().unwrap(), "INTERNAL:100000".parse().unwrap())].into();
    let keeps = Config { fail, ..config() };
    let refuses = Config {
        defects: vec![Defect::CreateVolumeFailsAfterWork, Defect::CreateVolumeRefusesRepeats],
        ..config()
    };
    let mut driver = Driver::start(keeps.clone());
    let endpoint = ["--endpoint".to_owned(), driver.endpoint.clone()];
    let endpoint = endpoint.each_ref().map(String::as_str);
    for (config, says) in [
        (keeps, "\nLEFT BEHIND by this run\n  volume "),
        (refuses, "\nMAY BE LEFT BEHIND\n  volume named \""),
    ] {
        driver = driver.replaced(config);
        let before = driver.volumes().len();
        let course = ["--filter", "controller/delete-volume/works", "--settle-timeout", "1s"];
        let said: Said = place.program(&[&endpoint[..], &course].concat()).output().unwrap().into();
        assert!(said.stdout.contains(says), "{} {}", said.stdout, said.stderr);
        assert!(said.stdout.contains("to remove it\n  csi-sanity run --endpoint"), "{}", said.stdout);
        assert!(said.stdout.contains(" --cleanup\n"), "{}", said.stdout);
        assert!(driver.volumes().len() > before, "{}", said.stdout);
        assert!(said.stdout.contains(", made by controller/delete-volume/works: "), "{}", said.stdout);
    }
    let said = place.cleanup(&endpoint, 1);
    let stays = "CreateVolume, repeated to learn the id, answered ALREADY_EXISTS";
    assert!(said.stdout.contains("left: volume named \"") && said.stdout.contains(stays), "{}", said.stdout);
    assert_ne!(driver.volumes(), Vec::<String>::new(), "{}", said.stdout);
    driver = driver.replaced(config());
    let said = place.cleanup(&endpoint, 0);
    assert!(said.stdout.contains("undone: volume named"), "{}", said.stdout);
    assert_eq!(driver.volumes(), Vec::<String>::new(), "{}", said.stdout);
    assert!(place.is_empty(), "{:?}", place.texts());
}

#[test]
fn a_driver_that_a_killed_run_had_started_is_ended() {
    let (place, folder) = (Place::new(), Folder::new());
    let (endpoint, process) = (folder.path("csi.sock"), folder.path("process"));
    let command = format!("echo $$ > {process}; {}", quiet_driver_command(&endpoint));
    let driver = ["--endpoint", &endpoint, "--driver-command", &command];
    let child = place.start(&[&driver[..], &["--filter", "controller/create-volume/"]].concat());
    place.wait_for("\"made\"");
    let orphan: i32 = folder.read("process").trim().parse().unwrap();
    kill(child);
    assert!(runs(orphan), "it has outlived the run");
    place.cleanup(&driver, 0);
    assert!(!runs(orphan));
}

#[test]
fn sockets_of_the_driver_that_is_built_in_are_removed() {
    let place = Place::new();
    let child = place.start(&["--filter", "controller/create-volume/"]);
    place.wait_for("\"made\"");
    kill(child);
    place.cleanup(&[], 0);
    assert!(place.is_empty(), "{:?}", std::fs::read_dir(place.0.path()).unwrap().collect::<Vec<_>>());
}

/// Returns true if a process runs. One that has ended and was not waited for yet is a zombie, and does not run.
fn runs(process: i32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"));
    test_kill_process(Pid::from_raw(process).unwrap()).is_ok()
        && !stat.is_ok_and(|stat| stat.contains(") Z "))
}
