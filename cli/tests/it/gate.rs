//! `ci/gate` as each CI system runs it: with the variables and files of that system.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use csi_mock_driver::{Config, Delay};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::driver::Driver;
use crate::driver_command::named_driver_command;
use crate::program::Said;

/// The first defect is not met by the checks of these tests, and the second one is.
const RIGHT: &str = "create-volume-crashes-on-long-names";
const WRONG: &str = "get-plugin-info-name-empty";
/// This is the verdict on a right driver for which only a few checks ran.
const PART: &str = "conforms_in_part";
const NAME: &str = "mock.csi-sanity.example";
const FEW: &str = "--filter identity/get-plugin-info/ --seed 1";

/// Variables with their values.
type Environment<'a> = &'a [(&'a str, &'a str)];

/// A job has a directory, and the gate as a command that inherits only the environment variables that a shell needs.
struct Job {
    directory: TempDir,
    gate: Command,
}

impl Job {
    fn new(environment: Environment<'_>) -> Job {
        let directory = tempfile::tempdir().unwrap();
        let mut gate = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../ci/gate"));
        gate.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).current_dir(directory.path());
        gate.env("CSI_SANITY_BIN", env!("CARGO_BIN_EXE_csi-sanity"));
        gate.env("CSI_SANITY_FLAGS", FEW).envs(environment.iter().copied());
        Job { directory, gate }
    }

    /// Makes a job as it is on a runner of GitHub.
    fn on_github(environment: Environment<'_>) -> Job {
        let mut job = Job::new(environment);
        let (summary, output) = (job.path("summary"), job.path("output"));
        job.gate.env("CI", "true").env("GITHUB_ACTIONS", "true");
        job.gate.env("GITHUB_STEP_SUMMARY", summary).env("GITHUB_OUTPUT", output);
        job
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn driver(mut self, defect: &str) -> Job {
        self.gate.env("CSI_SANITY_DRIVER_COMMAND", named_driver_command(defect, NAME));
        self
    }

    fn expecting(mut self, capabilities: &str) -> Job {
        self.gate.env("CSI_SANITY_EXPECT_CAPABILITIES", capabilities);
        self
    }

    fn known_failing(mut self, list: &str) -> Job {
        fs::write(self.path("known-failing.txt"), list).unwrap();
        self.gate.env("CSI_SANITY_KNOWN_FAILING", "known-failing.txt");
        self
    }

    /// Runs the job to its end, and demands this exit code and this verdict.
    fn check(&mut self, code: i32, verdict: &str) -> Said {
        let said = Said::from(self.gate.output().unwrap());
        let printed = format!("--- stdout\n{}\n--- stderr\n{}", said.stdout, said.stderr);
        assert_eq!(said.code, Some(code), "{printed}");
        let last = said.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with(&format!("gate: {verdict} ({code})")), "{printed}");
        said
    }
}

/// Finds the lines that GitHub's runner would take for commands. It ignores blanks before them, and all lines between `stop-commands` and
/// its end.
fn commands(stdout: &str) -> Vec<&str> {
    let mut paused = None;
    let mut commands = Vec::new();
    for line in stdout.lines().map(str::trim_start).filter(|line| line.starts_with("::")) {
        match (&paused, line.strip_prefix("::stop-commands::")) {
            (None, Some(token)) => paused = Some(format!("::{token}::")),
            (None, None) => commands.push(line),
            (Some(end), _) if line == end => paused = None,
            (Some(_), _) => {}
        }
    }
    assert_eq!(paused, None, "commands are heard again at the end: {stdout}");
    commands
}

#[test]
fn the_gate_opens_only_for_a_conforming_driver() {
    let systems: [(&str, Environment<'_>, &str); 4] = [
        ("GitLab", &[("CI", "true"), ("GITLAB_CI", "true")], "csi-sanity-report"),
        (
            "Jenkins",
            &[("JENKINS_URL", "https://ci.example/"), ("BUILD_TAG", "jenkins-a-1")],
            "csi-sanity-report",
        ),
        ("Prow", &[("PROW_JOB_ID", "1"), ("ARTIFACTS", "logs/artifacts")], "logs/artifacts"),
        (
            "Tekton",
            &[("CSI_SANITY_VERDICT_FILE", "verdict"), ("CSI_SANITY_REPORT_DIR", "workspace")],
            "workspace",
        ),
    ];
    for (system, environment, reports) in systems {
        for (defect, code, verdict, tag) in
            [(RIGHT, 0, PART, "</testcase>"), (WRONG, 1, "deviates", "<failure")]
        {
            let mut job = Job::new(environment).driver(defect);
            let said = job.check(code, verdict);
            let junit = job.read(&format!("{reports}/junit_csi-sanity.xml"));
            assert!(junit.contains(tag), "{system}: {junit}");
            assert_eq!(
                job.read(&format!("{reports}/csi-sanity.env")),
                format!("CSI_SANITY_VERDICT={verdict}\n"),
                "{system}"
            );
            for report in ["csi-sanity.json", "csi-sanity.md", "csi-sanity.driver.log"] {
                assert_ne!(job.read(&format!("{reports}/{report}")), "", "{system}");
            }
            assert!(!said.stdout.contains("\n::"), "{system}: {}", said.stdout);
            if system == "Tekton" {
                assert_eq!(job.read("verdict"), verdict);
            }
        }
    }
}

#[test]
fn github_shows_a_driver_that_conforms() {
    let mut job = Job::on_github(&[]).driver(RIGHT);
    let said = job.check(0, PART);
    assert_eq!(commands(&said.stdout), Vec::<&str>::new());
    let heading = "## `mock.csi-sanity.example` 0.1.0: passes the checks that --filter ";
    assert!(job.read("summary").starts_with(heading), "{}", job.read("summary"));
    assert!(said.stderr.starts_with("gate: the driver passes "), "{}", said.stderr);
    let output = job.read("output");
    for line in ["verdict=conforms_in_part", "exit-code=0", "junit=csi-sanity-report/junit_csi-sanity.xml"] {
        assert!(output.lines().any(|found| found == line), "{line}: {output}");
    }
}

#[test]
fn github_shows_a_fault_where_people_look() {
    let mut job = Job::on_github(&[]).driver(WRONG);
    let said = job.check(1, "deviates");
    let [command] = commands(&said.stdout)[..] else { panic!("one annotation: {}", said.stdout) };
    let begin = "::error title=identity/get-plugin-info/name breaks ID-INFO-004::the plugin has no name%0Aexpected: a name%0A";
    assert!(command.starts_with(begin), "{command}");
    assert!(job.read("summary").contains("does not conform"));
    let output = job.read("output");
    for line in output.lines() {
        let (key, value) = line.split_once('=').unwrap();
        if ["junit", "json", "markdown", "html"].contains(&key) {
            assert!(job.path(value).is_file(), "{line}");
        }
    }
    assert!(
        output.starts_with("verdict=deviates\nexit-code=1\nreport-dir=csi-sanity-report\njunit="),
        "{output}"
    );
}

#[test]
fn a_driver_does_not_command_githubs_runner() {
    let name = "\"$(printf 'x\\n::warning::forged\\n  ::add-mask::a\\n::error::forged')\"";
    let mut job = Job::on_github(&[]);
    job.gate.env("CSI_SANITY_DRIVER_COMMAND", named_driver_command(RIGHT, name));
    let said = job.check(1, "deviates");
    let commands = commands(&said.stdout);
    assert!(!commands.is_empty(), "the name is wrong: {}", said.stdout);
    for command in commands {
        assert!(command.contains(" title=identity/get-plugin-info/name"), "{command}");
    }
}

#[test]
fn a_known_failure_lets_the_gate_open_until_it_passes() {
    let mut job =
        Job::on_github(&[]).driver(WRONG).known_failing("identity/get-plugin-info/name # our issue\n");
    let said = job.check(0, "conforms_in_part_but_for_known_failures");
    assert_eq!(commands(&said.stdout), Vec::<&str>::new());
    assert!(job.read("summary").lines().next().unwrap().ends_with(", but for 1 known failure"));

    let mut job =
        Job::on_github(&[]).driver(RIGHT).known_failing("identity/get-plugin-info/name # our issue\n");
    let said = job.check(5, "known_failing_list_out_of_date");
    let [command] = commands(&said.stdout)[..] else { panic!("one annotation: {}", said.stdout) };
    assert!(command.starts_with("::error title=identity/get-plugin-info/name::passes, but"), "{command}");
    assert!(job.read("summary").contains("its list of known failures is out of date"));
}

#[test]
fn a_list_that_matches_nothing_is_an_error() {
    let mut job = Job::on_github(&[]).driver(RIGHT).known_failing("no/such/check # gone\n");
    fs::create_dir(job.path("csi-sanity-report")).unwrap();
    fs::write(job.path("csi-sanity-report/junit_csi-sanity.xml"), "of an earlier run").unwrap();
    let said = job.check(5, "known_failing_list_out_of_date");
    let [command] = commands(&said.stdout)[..] else { panic!("one annotation: {}", said.stdout) };
    assert!(
        command.starts_with("::error title=csi-sanity::") && command.contains("no/such/check"),
        "{command}"
    );
    assert!(job.read("summary").contains("no/such/check"));
    assert!(
        !job.path("csi-sanity-report/junit_csi-sanity.xml").exists(),
        "it would pass for one of this run"
    );
    assert!(!job.read("output").contains("junit="));
}

#[test]
fn a_driver_that_does_not_start_has_last_words() {
    let command = "echo '::error::forged'; echo 'no disk: 100% full' >&2; exit 7";
    let mut job = Job::on_github(&[("CSI_SANITY_DRIVER_COMMAND", command)]);
    let said = job.check(3, "not_judged");
    assert!(said.stdout.contains("  ::error::forged\n"), "commands are paused for it: {}", said.stdout);
    let [command] = commands(&said.stdout)[..] else { panic!("one annotation: {}", said.stdout) };
    assert!(command.contains("no disk: 100%25 full"), "{command}");
    assert!(job.read("summary").contains("    error: "), "{}", job.read("summary"));

    let mut job = Job::new(&[("CSI_SANITY_DRIVER_COMMAND", "echo 'no disk: 100% full' >&2; exit 7")]);
    assert!(job.check(3, "not_judged").stderr.contains("no disk: 100% full"));
}

#[test]
fn wrong_settings_are_told_with_what_to_do() {
    let cases: [(Environment<'_>, &str); 3] = [
        (&[], "set CSI_SANITY_ENDPOINT, CSI_SANITY_DRIVER_COMMAND or CSI_SANITY_CONFIG"),
        (&[("CSI_SANITY_BIN", "/none/csi-sanity")], "into CSI_SANITY_BIN"),
        (
            &[("CSI_SANITY_ENDPOINT", "/s"), ("CSI_SANITY_REPORT_DIR", "/dev/null/r")],
            "in CSI_SANITY_REPORT_DIR",
        ),
    ];
    for (environment, printed) in cases {
        let said = Job::on_github(environment).check(2, "not_run");
        assert!(said.stderr.contains(printed), "{}", said.stderr);
        assert!(commands(&said.stdout)[0].contains(printed), "{}", said.stdout);
    }
    let said =
        Job::new(&[("CSI_SANITY_ENDPOINT", "/s"), ("CSI_SANITY_FLAGS", "--filter 'a")]).check(2, "not_run");
    assert!(said.stderr.contains("CSI_SANITY_FLAGS: a quote is not closed"), "{}", said.stderr);
    let mut job = Job::new(&[("CSI_SANITY_ENDPOINT", "/s")]);
    let earlier = "csi-sanity-report/junit_csi-sanity-e2e.xml";
    fs::create_dir(job.path("csi-sanity-report")).unwrap();
    fs::write(job.path(earlier), "of an earlier run").unwrap();
    job.gate.arg("--strict");
    assert!(job.check(2, "not_run").stderr.contains("settings are variables"));
    assert!(!job.path(earlier).exists(), "it would pass for one of this run");
}

#[test]
fn its_help_has_every_setting() {
    for flag in ["--help", "-h"] {
        let mut job = Job::new(&[]);
        let said = Said::from(job.gate.arg(flag).output().unwrap());
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert!(said.stdout.starts_with("A gate for CSI drivers"), "{}", said.stdout);
        for setting in ["CSI_SANITY_ENDPOINT", "CSI_SANITY_BIN"] {
            assert!(said.stdout.contains(setting), "{}", said.stdout);
        }
        assert!(
            !said.stdout.contains("set -uf") && !job.path("csi-sanity-report").exists(),
            "{}",
            said.stdout
        );
    }
}

#[test]
fn quotes_keep_blanks_in_flags() {
    let flags = r#"--filter "identity/get-plugin-info/name" --skip 'a b' --skip '$(touch x)' --seed 1"#;
    let mut job = Job::new(&[("CSI_SANITY_FLAGS", flags)]).driver(WRONG);
    job.check(1, "deviates");
    let report = job.read("csi-sanity-report/csi-sanity.json");
    assert!(report.contains("--skip 'a b'") && report.contains("--skip '$(touch x)'"), "{report}");
    assert!(!job.path("x").exists());
}

/// The run could not start the driver again if the directory of the socket were gone.
#[test]
fn the_repeat_command_works_after_the_gate() {
    let mut job = Job::new(&[]).driver(WRONG);
    let sockets = job.directory.path().join("tmp");
    fs::create_dir(&sockets).unwrap();
    job.gate.env("TMPDIR", &sockets);
    let said = job.check(1, "deviates");
    let repeat = said.stdout.lines().find_map(|line| line.trim_start().strip_prefix("repeat ")).unwrap();
    let repeat = repeat.trim().replacen("csi-sanity", env!("CARGO_BIN_EXE_csi-sanity"), 1);
    let again = Said::from(Command::new("sh").args(["-c", &repeat]).output().unwrap());
    assert_eq!(again.code, Some(1), "{repeat}: {} {}", again.stdout, again.stderr);
    assert!(again.stdout.contains("the plugin has no name"), "{}", again.stdout);
    let mut job = Job::new(&[]).driver(RIGHT);
    job.gate.env("TMPDIR", &sockets);
    let before = fs::read_dir(&sockets).unwrap().count();
    job.check(0, PART);
    assert_eq!(fs::read_dir(&sockets).unwrap().count(), before, "nothing is to be repeated");
}

#[test]
fn the_graver_of_two_runs_is_the_verdict() {
    let definition = |job: &Job, text: &str| {
        fs::write(job.path("driver.yaml"), text).unwrap();
    };
    let e2e = [("CSI_SANITY_DEFINITION", "driver.yaml"), ("CSI_SANITY_E2E_FLAGS", "--plan")];
    let right = "DriverInfo: {Name: mock.csi-sanity.example}\n";

    let mut job = Job::new(&e2e).driver(RIGHT);
    definition(&job, right);
    assert!(job.check(0, PART).stdout.contains("should store data"));

    let mut job = Job::new(&e2e).driver(WRONG);
    definition(&job, right);
    job.check(1, "deviates");

    let mut job = Job::on_github(&e2e).driver(RIGHT);
    definition(&job, "DriverInfo: [");
    let said = job.check(2, "not_run");
    let [command] = commands(&said.stdout)[..] else { panic!("one annotation: {}", said.stdout) };
    assert!(
        command.starts_with("::error title=csi-sanity-e2e::") && command.contains("driver.yaml"),
        "{command}"
    );
}

/// Writes a program that takes the place of csi-sanity and does what csi-sanity does not do on demand.
fn program(job: &Job, script: &str) {
    fs::write(job.path("program"), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(job.path("program"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_program_that_crashes_opens_no_gate() {
    let mut job = Job::on_github(&[("CSI_SANITY_BIN", "./program"), ("CSI_SANITY_ENDPOINT", "/s")]);
    program(&job, "[ \"$2\" = --help ] || kill -KILL $$");
    job.check(137, "not_judged");
    assert!(job.read("output").starts_with("verdict=not_judged\nexit-code=137\n"));
}

#[test]
fn a_report_too_long_for_github_is_named_there() {
    let mut job = Job::on_github(&[("CSI_SANITY_BIN", "./program"), ("CSI_SANITY_ENDPOINT", "/s")]);
    program(
        &job,
        "for flag; do case $flag in md=*) head -c 600000 /dev/zero | tr '\\0' x >\"${flag#md=}\" ;; esac; done",
    );
    job.check(0, "conforms");
    let summary = job.read("summary");
    assert!(summary.len() < 1000 && summary.contains("csi-sanity-report/csi-sanity.md"), "{summary}");
}

/// Returns true if a shell that is started here cannot be interrupted: a process inherits the signals that its parent ignores.
fn ignores_interrupts() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & (1 << (Signal::INT.as_raw() - 1)) != 0
}

#[test]
fn a_job_that_is_cancelled_undoes_what_it_made() {
    let mut signals = vec![Signal::TERM];
    match ignores_interrupts() {
        true => println!("skipped for SIGINT: these tests were started with it ignored"),
        false => signals.push(Signal::INT),
    }
    for signal in signals {
        // Every check with a volume takes at least this long, so that the signal comes in the middle of the run.
        let delay = [("DeleteVolume".parse().unwrap(), Delay(Duration::from_millis(200)))].into();
        let driver = Driver::start(Config { delay, ..Config::default() });
        let mut job = Job::new(&[
            ("CSI_SANITY_ENDPOINT", &driver.endpoint),
            ("CSI_SANITY_FLAGS", "--jobs 1 --filter controller/create-volume/"),
        ]);
        let gate: Child = job.gate.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        driver.wait_for_volume();
        kill_process(Pid::from_child(&gate), signal).unwrap();
        let said = Said::from(gate.wait_with_output().unwrap());
        assert_eq!(said.code, Some(130), "{signal:?}: {}", said.stderr);
        assert!(said.stderr.contains("stopping: undoing what was made"), "{signal:?}: {}", said.stderr);
        assert_eq!(job.read("csi-sanity-report/csi-sanity.env"), "CSI_SANITY_VERDICT=interrupted\n");
        assert_eq!(driver.volumes(), Vec::<String>::new(), "{signal:?}");
    }
}

/// Otherwise a driver could pass by no longer advertising a capability.
#[test]
fn the_gate_stays_shut_for_a_lost_capability() {
    let expected = "LIST_VOLUMES,CREATE_DELETE_SNAPSHOT";
    Job::new(&[]).driver(RIGHT).expecting(expected).check(0, PART);
    let without = vec!["CREATE_DELETE_SNAPSHOT".parse().unwrap()];
    let less = Driver::start(Config { without, ..Config::default() });
    let mut job = Job::new(&[("CSI_SANITY_ENDPOINT", &less.endpoint)]).expecting(expected);
    let said = job.check(1, "deviates");
    let sentence = "the driver does not advertise CREATE_DELETE_SNAPSHOT";
    assert!(said.stdout.contains(sentence), "{}", said.stdout);
    let junit = job.read("csi-sanity-report/junit_csi-sanity.xml");
    assert!(junit.contains("expected/capabilities") && junit.contains(sentence), "{junit}");
}
