//! A load writes its measurements, fails at a threshold, and undoes what it made when it is stopped.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

use csi_mock_driver::Config;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::driver::{Driver, LONG};
use crate::driver_command::{named_driver_command, quiet_driver_command};
use crate::program::{Folder, Said, check, program, read_json};

#[test]
fn measurements_are_written_in_documented_fields() {
    let directory = tempfile::tempdir().unwrap();
    let [json, csv] = ["load.json", "load.csv"].map(|name| directory.path().join(name));
    let arguments =
        ["json", "csv"].iter().zip([&json, &csv]).map(|(kind, path)| format!("{kind}={}", path.display()));
    let arguments: Vec<String> = arguments.flat_map(|argument| ["--results".to_owned(), argument]).collect();
    let mut all = vec![
        "load",
        "--preset",
        "smoke",
        "--duration",
        "2s",
        "--seed",
        "1",
        "--threshold",
        "CreateVolume p50 < 20s",
    ];
    all.extend(arguments.iter().map(String::as_str));
    check(&all, 0, &[]);
    let text = fs::read_to_string(json).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<&str> =
        report["stages"].as_array().unwrap().iter().map(|stage| stage["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["create", "ramp", "hold", "burst", "check", "compare", "delete"]);
    assert_eq!((&report["version"], &report["thresholds"][0]["is_met"]), (&1.into(), &true.into()));
    let documented = include_str!("../../../docs/load.md");
    let mut open = vec![&report];
    while let Some(value) = open.pop() {
        for (key, value) in value.as_object().into_iter().flatten() {
            // The keys below "errors" are codes, and no fields.
            if key != "errors" {
                open.push(value);
            }
            assert!(documented.contains(&format!("`{key}")), "{key} is missing in docs/load.md");
        }
        open.extend(value.as_array().into_iter().flatten());
    }
    let csv = fs::read_to_string(csv).unwrap();
    assert!(csv.starts_with("stage,rpc,done,") && csv.contains("\nhold,CreateVolume,"), "{csv}");
}

#[test]
fn a_load_is_judged_without_an_rpc_that_never_succeeds() {
    let failing = |rpc: &str| BTreeMap::from([(rpc.parse().unwrap(), "INTERNAL:100000".parse().unwrap())]);
    let load = |rpc: &str, code| {
        let driver = Driver::start(Config { fail: failing(rpc), ..Config::default() });
        let load = ["load", "--endpoint", &driver.endpoint, "--preset", "smoke", "--duration", "2s"];
        let said = check(&load, code, &[]);
        let all = said.stdout + &said.stderr;
        assert!(all.contains(&format!("{rpc} has never succeeded: INTERNAL")), "{all}");
        all
    };
    std::thread::scope(|scope| {
        let not_judged = scope.spawn(|| load("NodeStageVolume", 3));
        let judged = load("ControllerExpandVolume", 0);
        assert!(judged.contains("\n1 passed"), "{judged}");
        assert!(not_judged.join().unwrap().contains("\n0 passed"));
    });
}

#[test]
fn a_wrong_workload_is_explained() {
    let folder = Folder::new();
    let text = "name: mine\ncallers: 2\nmix: {volume: 1}\nstages:\n- {hold: 5s, rate: -1}\n";
    let file = folder.write("mine.yaml", text);
    check(&["load", "--workload", &file], 2, &["mine.yaml", "line 5", "rate"]);
    check(&["load", "--threshold", "CreateVolum p99 < 1s"], 2, &["did you mean CreateVolume"]);
}

#[test]
fn a_preset_can_be_printed_changed_and_run() {
    let said = check(&["load", "--preset", "smoke", "--print"], 0, &[]);
    let folder = Folder::new();
    let file = folder.write("mine.yaml", &said.stdout.replace("name: smoke", "name: mine"));
    let said = check(&["load", "--workload", &file, "--duration", "1s"], 0, &[]);
    assert!(said.stdout.contains("hold"), "{}", said.stdout);
}

#[test]
fn a_load_does_not_differ_from_itself() {
    let folder = Folder::new();
    let path = &folder.path("load.json");
    let results = format!("--results=json={path}");
    check(&["load", "--preset", "polling", "--duration", "3s", &results], 0, &[]);
    let limit = ["--threshold", "NodeGetVolumeStats p50 < +1%"];
    let said = check(&[&["compare", path, path], &limit[..]].concat(), 0, &[]);
    assert!(said.stdout.contains("no difference shown") && said.stdout.contains('✓'), "{}", said.stdout);
    let said = check(&["compare", path, path, "--format", "json"], 0, &[]);
    let comparison: Value = serde_json::from_str(&said.stdout).unwrap();
    let changes = comparison["changes"].as_array().unwrap();
    assert!(!changes.is_empty() && changes.iter().all(|change| change["percent"] == 0.0), "{comparison}");
    check(&["compare", path, path, "--threshold", "CreateSnapshot p50 < +1%"], 3, &[]);
    check(&["compare", path, path, "--threshold", "CreateVolume p50 < 1s"], 2, &[]);
}

/// In the test, one of two drivers takes 40 ms for a list of 200 volumes.
const LISTS: &str =
    "name: lists\nvolumes: 200\ncallers: 2\nmix: {list: 3, volume: 1}\nstages:\n- {hold: 2s}\n";

#[test]
fn a_slower_driver_fails_a_limit_on_the_change() {
    let driver = Driver::start(Config::default());
    let file = driver.folder.write("lists.yaml", LISTS);
    let results = format!("--results=csv={}", driver.folder.path("changes.csv"));
    let other = named_driver_command("list-volumes-quadratic", "other.example");
    let load = ["load", "--endpoint", &driver.endpoint, "--workload", &file, &results];
    let against = ["--against", &other, "--rounds", "2", "--threshold", "ListVolumes p50 < +50%"];
    let Said { code, stdout: printed, stderr: complaint } = driver.folder.run(&[load, against].concat());
    assert_eq!(code, Some(1), "{printed}\n{complaint}");
    assert!(printed.contains("→ other.example") && printed.contains("✗ ListVolumes p50 < +50%"), "{printed}");
    assert!(complaint.contains("round 2 of 2"), "{complaint}");
    let changes = driver.folder.read("changes.csv");
    let change = changes.lines().find(|line| line.starts_with("ListVolumes,p50,")).unwrap();
    assert!(change.ends_with(",true"), "{change}");
    assert_eq!(driver.volumes(), Vec::<String>::new());
}

/// The numbers of calls in this load depend only on its file: a burst leaves out no call, however slow the machine is.
const SHARED: &str = "name: shared\nvolumes: 20\npublished: 10\ncallers: 10\n\
    mix: {pod: 2, volume: 2, attachment: 1, statistics: 3, list: 1}\nstages:\n- {burst: 200}\n";
/// This number of processes shares the load.
const PARTS: u32 = 10;

/// Returns the numbers of calls in a stage, and those of its life cycles.
fn counts(results: &Path, stage: &str) -> BTreeMap<String, u64> {
    let report = read_json(results);
    let stage = report["stages"].as_array().unwrap().iter().find(|one| one["name"] == stage).unwrap();
    // A stage that deletes volumes has no number of life cycles that are due.
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let mut counts: BTreeMap<String, u64> = ["cycles_due", "cycles_begun", "cycles_ended"]
        .map(|key| (key.to_owned(), number(&stage[key])))
        .into();
    // Each process calls NodeGetInfo once, so that the number of these calls depends on the number of processes.
    let rpcs = stage["rpcs"].as_array().unwrap().iter().filter(|one| one["rpc"] != "NodeGetInfo");
    for one in rpcs {
        counts.insert(one["rpc"].as_str().unwrap().to_owned(), number(&one["done"]));
        // No time is lost in the merge: each call has one.
        let slices = one["slices"].as_array().unwrap().iter().flat_map(|slice| slice.as_array().unwrap());
        assert_eq!(slices.map(|pair| number(&pair[1])).sum::<u64>(), number(&one["done"]), "{one}");
    }
    counts
}

#[test]
fn ten_parts_make_together_what_one_process_makes() {
    let driver = Driver::start(Config::default());
    let path = |name: &str| driver.directory().join(name);
    fs::write(path("shared.yaml"), SHARED).unwrap();
    for directory in ["parts", "meeting"] {
        fs::create_dir(path(directory)).unwrap();
    }
    let load = |arguments: &[String]| {
        let mut program = program();
        program.env("TMPDIR", driver.directory()).args(["load", "--endpoint", &driver.endpoint]);
        program.arg("--workload").arg(path("shared.yaml")).args(arguments);
        program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ended = |child: Child| {
        let said = child.wait_with_output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    };
    let results = |name: &str| format!("--results=json={}", path(name).display());
    ended(load(&[results("whole")]));
    let parts: Vec<Child> = (1..=PARTS)
        .map(|index| {
            let meeting = format!("--meeting-dir={}", path("meeting").display());
            load(&[format!("--shard={index}/{PARTS}"), meeting, results(&format!("parts/{index}.json"))])
        })
        .collect();
    parts.into_iter().for_each(ended);
    assert_eq!(fs::read_dir(path("meeting")).unwrap().count(), 0, "nothing is left for a later load");
    let parts = path("parts");
    let said = check(&["merge", parts.to_str().unwrap(), &results("merged")], 0, &[]);
    assert!(said.stdout.contains("burst: ") && said.stdout.contains("200 life cycles"), "{}", said.stdout);
    for stage in ["create", "burst", "delete"] {
        assert_eq!(counts(&path("merged"), stage), counts(&path("whole"), stage), "{stage}");
    }
    fs::remove_file(parts.join("3.json")).unwrap();
    let said = check(&["merge", parts.to_str().unwrap()], 3, &[]);
    assert!(said.stderr.contains("shard 3 of 10 is missing"), "{}", said.stderr);
}

#[test]
fn the_measurements_are_served_while_the_load_runs() {
    let driver = Driver::start(Config::default());
    let mut child = program()
        .env("TMPDIR", driver.directory())
        .args(["load", "--endpoint", &driver.endpoint, "--preset", "soak", "--metrics", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = said.find_map(|line| Some(line.unwrap().split_once("metrics at http://")?.1.to_owned()));
    let line = line.unwrap();
    let scraped = || {
        let mut stream = TcpStream::connect(line.trim_end_matches("/metrics")).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let until = Instant::now() + LONG;
    let mut answer = scraped();
    while !answer.contains("rpc=\"CreateVolume\"") && Instant::now() < until {
        answer = scraped();
    }
    for expected in [
        "HTTP/1.1 200 OK",
        "# TYPE csi_sanity_load_call_duration_seconds histogram",
        "csi_sanity_load_call_duration_seconds_bucket{rpc=\"CreateVolume\",le=\"+Inf\"}",
        "csi_sanity_load_cycles_total",
    ] {
        assert!(answer.contains(expected), "{expected}: {answer}");
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert!(said.all(|line| line.is_ok()));
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_signal_stops_the_load_and_undoes_it() {
    let driver = Driver::start(Config::default());
    let child = program()
        .env("TMPDIR", driver.directory())
        .args(["load", "--endpoint", &driver.endpoint, "--preset", "soak"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // There are more volumes than callers, so that some calls of the load have been answered by then.
    driver.wait_for_volumes(20);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    assert_eq!(driver.volumes(), Vec::<String>::new());
    let printed = String::from_utf8(ended.stdout).unwrap();
    assert!(printed.contains("CreateVolume"), "the measurements so far are shown: {printed}");
}

/// Callers that wait for a driver which does not come back must give up after some time.
#[test]
fn a_driver_that_does_not_come_back_ends_the_load() {
    let folder = Folder::new();
    let endpoint = format!("unix://{}", folder.path("csi.sock"));
    let (mark, start) = (folder.path("started"), quiet_driver_command(&endpoint));
    let command = format!("test -e {mark} && exit 7; touch {mark}; {start}");
    let driver = ["--endpoint", &endpoint, "--driver-command", &command];
    let limits = ["--dial-timeout", "2s", "--restart-timeout", "2s"];
    let load = ["load", "--preset", "node-restart", "--duration", "4s"];
    let said = check(&[&load[..], &driver, &limits].concat(), 1, &[]);
    assert!(said.stdout.contains("does not answer after it was killed under load"), "{}", said.stdout);
}
