//! A run is divided among several processes, and its reports are merged again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use csi_harness::checks::check::Check;
use serde_json::{Value, json};

use crate::program::{Folder, Said, check, program, read_json, run};

/// A run in one piece and one in shards are compared over this choice: many checks, some of which follow others or judge the whole run.
const CHOICE: [&str; 6] = [
    "--suite",
    "sanity,idempotency",
    "--filter",
    "controller/*,every-reply/*,idempotency/*",
    "--repeat",
    "1",
];
/// Checks of two suites find this defect, and one of them follows the other. The filters leave out checks that find it after a time limit:
/// it depends on the moment which of them does, so that the two runs could differ.
const DEFECT: [&str; 6] = [
    "--mock-defect",
    "create-volume-repeat-changes-context",
    "--filter",
    "!idempotency/given-up-and-repeated",
    "--filter",
    "!idempotency/connection-broken-and-repeated",
];

fn report(path: &Path) -> String {
    format!("--report=json={}", path.display())
}

/// Runs each shard, and names its report by its number.
fn run_shards(directory: &Path, of: u32, arguments: &[&str]) -> Vec<Said> {
    let one = |index: u32| {
        let (shard, report) = (format!("{index}/{of}"), report(&directory.join(format!("{index}.json"))));
        run(&[&["run", "--seed", "7", "--shard", &shard, &report], arguments].concat())
    };
    (1..=of).map(one).collect()
}

fn verdicts(report: &Value, list: &str, name: &str, says: &str) -> BTreeMap<String, String> {
    let entries = report[list].as_array().unwrap().iter();
    entries.map(|entry| (entry[name].as_str().unwrap().to_owned(), entry[says].to_string())).collect()
}

/// Runs the checks in one piece and in four shards, and demands that both say the same.
fn compare(arguments: &[&str], code: i32) -> (Value, Value) {
    let directory = tempfile::tempdir().unwrap();
    let (whole, merged) = (directory.path().join("whole"), directory.path().join("merged"));
    let arguments = [&CHOICE[..], arguments].concat();
    let said = run(&[&["run", "--seed", "7", &report(&whole)], &arguments[..]].concat());
    assert_eq!(said.code, Some(code), "{}", said.stdout);

    let shards = directory.path().join("shards");
    fs::create_dir(&shards).unwrap();
    for (at, said) in run_shards(&shards, 4, &arguments).iter().enumerate() {
        assert!(said.stderr.contains(&format!("shard {} of 4: ", at + 1)), "{}", said.stderr);
    }
    let said = check(&["merge", shards.to_str().unwrap(), &report(&merged)], code, &[]);
    assert!(said.stdout.contains(" in 4 shards\n"), "{}", said.stdout);
    let (whole, merged) = (read_json(&whole), read_json(&merged));
    for key in ["summary", "verdict", "selection", "areas", "statement", "interrupted"] {
        assert_eq!(merged[key], whole[key], "{key}");
    }
    assert_eq!(verdicts(&merged, "checks", "id", "outcome"), verdicts(&whole, "checks", "id", "outcome"));
    (whole, merged)
}

#[test]
fn four_shards_say_what_one_run_says() {
    let (_, merged) = compare(&[], 0);
    assert_eq!(merged["shards"].as_array().unwrap().len(), 4);
    let seeds: std::collections::BTreeSet<String> =
        merged["shards"].as_array().unwrap().iter().map(|shard| shard["seed"].to_string()).collect();
    assert_eq!(seeds.len(), 4, "each has its own");
    let created = merged["rpcs"].as_array().unwrap().iter().find(|rpc| rpc["rpc"] == "CreateVolume").unwrap();
    assert!(created["done"].as_u64().unwrap() > 0 && created["median_us"].as_u64().unwrap() > 0, "{created}");
}

#[test]
fn a_fault_that_two_shards_meet_is_one_failure() {
    let (whole, merged) = compare(&DEFECT, 1);
    assert!(whole["summary"]["failed"].as_u64().unwrap() > 0);
    let printed = |report: &Value| -> Vec<String> {
        let checks = report["checks"].as_array().unwrap().iter();
        checks.filter(|check| check["reported_in"].is_string()).map(|check| check["id"].to_string()).collect()
    };
    assert_eq!(printed(&merged), printed(&whole));
    let failed =
        merged["checks"].as_array().unwrap().iter().find(|check| check["outcome"] == "failed").unwrap();
    assert!(failed["findings"].as_str().unwrap().contains("requirement"), "{failed}");
}

/// Makes the reports of two shards with a few checks, and returns them with their directory.
fn two() -> (tempfile::TempDir, [PathBuf; 2]) {
    let directory = tempfile::tempdir().unwrap();
    for said in run_shards(directory.path(), 2, &["--filter", "identity/"]) {
        assert_eq!(said.code, Some(0), "{}", said.stderr);
    }
    let paths = ["1.json", "2.json"].map(|name| directory.path().join(name));
    (directory, paths)
}

#[test]
fn every_report_is_written_of_the_whole() {
    let (directory, _) = two();
    let path = |name: &str| directory.path().join(name);
    let kinds = [("junit", "r.xml"), ("md", "r.md"), ("html", "r.html"), ("json", "r.report")];
    let flags: Vec<String> =
        kinds.iter().map(|(kind, name)| format!("--report={kind}={}", path(name).display())).collect();
    let mut arguments = vec!["merge", directory.path().to_str().unwrap()];
    arguments.extend(flags.iter().map(String::as_str));
    check(&arguments, 0, &[]);
    let [junit, md, html, json] = kinds.map(|(_, name)| fs::read_to_string(path(name)).unwrap());
    assert!(junit.contains("<testsuite name=\"identity/probe\""), "{junit}");
    assert!(md.starts_with("## `mock.csi-sanity.example` "), "{md}");
    assert!(html.contains("2 shards"), "{html}");
    assert!(md.contains(", 2 shards, seed "), "{md}");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["summary"]["passed"], json["checks"].as_array().unwrap().len());
    let badge = check(&["badge", path("r.report").to_str().unwrap()], 0, &[]);
    assert!(badge.stdout.contains("a part: "), "a filter chose the checks: {}", badge.stdout);
}

#[test]
fn two_shards_fuzz_with_what_no_other_one_sends() {
    let directory = tempfile::tempdir().unwrap();
    let run_one = |index: &str| {
        let report = directory.path().join(format!("{index}.json"));
        let shard = format!("{index}/2");
        let flag = self::report(&report);
        let arguments =
            ["fuzz", "--seed", "3", "--duration", "30s", "--inputs", "40", "--shard", &shard, &flag];
        check(&arguments, 0, &[&format!("shard {index} of 2: ")]);
        read_json(&report)
    };
    let [one, two] = ["1", "2"].map(run_one);
    assert_ne!(one["seed"], two["seed"]);
    assert_ne!(one["seed"], 3);
    check(&["merge", directory.path().to_str().unwrap()], 0, &[]);
}

#[test]
fn a_missing_shard_is_named() {
    let (_directory, [one, _]) = two();
    check(&["merge", one.to_str().unwrap()], 3, &["no report of shard 2/2"]);
    check(&["merge", "/nowhere/1.json"], 2, &["/nowhere/1.json"]);
    check(&["merge", one.parent().unwrap().join("none").to_str().unwrap()], 2, &["none"]);
}

#[test]
fn reports_that_do_not_belong_together_are_refused() {
    let (directory, [one, two]) = two();
    let changed = |name: &str, pointer: &str, value: Value| {
        let mut report = read_json(&two);
        *report.pointer_mut(pointer).unwrap() = value;
        let path = directory.path().join(name);
        fs::write(&path, report.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let one = one.to_str().unwrap();
    let refused = |other: &str, texts: &[&str]| drop(check(&["merge", one, other], 2, texts));
    refused(one, &["are both of shard 1/2"]);
    refused(&changed("driver", "/target/name", json!("other.example")), &["not of one run", "the driver is"]);
    refused(
        &changed("version", "/target/vendor_version", json!("9")),
        &["the driver's version is \"0.1.0\""],
    );
    refused(&changed("of", "/shard/of", json!(3)), &["the number of shards is 2 in the first and 3"]);
    refused(&changed("digest", "/shard/digest", json!("00")), &["the digest of the checks"]);
    refused(&changed("strict", "/shard/settings", json!(["run", "--strict"])), &["the settings", "--strict"]);
    refused(&changed("tool", "/tool/version", json!("9.0.0")), &["made by csi-sanity 9.0.0"]);
    refused(&changed("index", "/shard/index", json!(0)), &["there is no such shard"]);
    refused(
        &changed("gone", "/checks", json!([])),
        &["the reports contain 7 checks, and 13 others were to run"],
    );
    refused(&changed("id", "/checks/0/id", json!("a\u{1b}[2J")), &["characters that no id has"]);
    let whole = directory.path().join("whole");
    check(&["--filter", "identity/", &report(&whole)], 0, &[]);
    refused(whole.to_str().unwrap(), &["not the report of a shard"]);
}

#[test]
fn numbers_that_no_run_has_do_no_harm() {
    let (_directory, [one, two]) = two();
    let mut report = read_json(&two);
    for check in report["checks"].as_array_mut().unwrap() {
        check["duration_ms"] = json!(u64::MAX);
    }
    report["duration_ms"] = json!(u64::MAX);
    for rpc in report["rpcs"].as_array_mut().unwrap() {
        rpc["done"] = json!(u64::MAX);
        rpc["steps"] = json!([{"us": u64::MAX, "calls": u64::MAX}, {"us": 0, "calls": u64::MAX}]);
    }
    fs::write(&two, report.to_string()).unwrap();
    let flags = ["--report=html=/dev/null", "--report=junit=/dev/null", "--report=json=/dev/null"];
    check(&[&["merge", one.to_str().unwrap(), two.to_str().unwrap()], &flags[..]].concat(), 0, &[]);
}

#[test]
fn shards_share_out_all_checks() {
    let listed = |shard: &[&str]| -> Vec<String> {
        let said = check(&[&["--dry-run", "--access-type", "mount,block"], shard].concat(), 0, &[]);
        said.stdout.lines().map(str::to_owned).collect()
    };
    let all = listed(&[]);
    let mut seen = BTreeMap::<String, Vec<usize>>::new();
    let parts: Vec<Vec<String>> = (1..=4).map(|index| listed(&["--shard", &format!("{index}/4")])).collect();
    for (at, label) in
        parts.iter().enumerate().flat_map(|(at, part)| part.iter().map(move |label| (at, label)))
    {
        seen.entry(label.clone()).or_default().push(at);
    }
    assert_eq!(seen.len(), all.len());
    for (label, shards) in &seen {
        let judges_all = ["every-reply/", "data/mounts/as-asked"].iter().any(|all| label.starts_with(all));
        let judges_all = judges_all && shards.len() == 4;
        assert!(shards.len() == 1 || judges_all, "{label}: {shards:?}");
        let variant = Check::id_of(label);
        assert_eq!(seen.get(variant).unwrap_or(shards), shards, "{label} stays with its other variant");
    }
    assert_eq!(seen["every-reply/status/code"].len(), 4);
    let least = all.len() / 8;
    assert!(
        parts.iter().all(|part| part.len() > least),
        "{:?}",
        parts.iter().map(Vec::len).collect::<Vec<_>>()
    );
}

#[test]
fn a_pod_of_an_indexed_job_has_its_shard_by_its_index() {
    let listed = |index: &str, shard: &str| -> Said {
        let arguments = ["--dry-run", "--filter", "identity/", "--shard", shard];
        program().env("JOB_COMPLETION_INDEX", index).args(arguments).output().unwrap().into()
    };
    assert_eq!(listed("0", "index/2").stdout, listed("7", "1/2").stdout);
    assert_ne!(listed("0", "index/2").stdout, listed("1", "index/2").stdout);
    for (index, shard) in [("2", "index/2"), ("x", "index/2"), ("0", "index/0")] {
        let said = listed(index, shard);
        assert_eq!(said.code, Some(2), "{index} {shard}");
        assert!(said.stderr.contains("JOB_COMPLETION_INDEX is"), "{}", said.stderr);
    }
    let arguments = ["--dry-run", "--shard", "index/2"];
    let said: Said = program().env_remove("JOB_COMPLETION_INDEX").args(arguments).output().unwrap().into();
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains("JOB_COMPLETION_INDEX is not set"), "{}", said.stderr);
}

#[test]
fn a_shard_to_which_nothing_falls_has_nothing_to_say() {
    let directory = tempfile::tempdir().unwrap();
    let choice = ["--filter", "identity/probe/ready"];
    let said = run_shards(directory.path(), 9, &choice);
    assert!(
        said.iter().all(|said| said.code == Some(0)),
        "{:?}",
        said.iter().map(|said| said.code).collect::<Vec<_>>()
    );
    check(&["merge", directory.path().to_str().unwrap()], 0, &[]);
    check(&["--shard", "1/2", "--filter", "no/such/check"], 4, &[]);
}

/// A single report belongs to no shard, and reports of two different profiles have no common verdict.
#[test]
fn merging_one_report_and_two_of_different_profiles() {
    let folder = Folder::new();
    let (one, two) = (folder.path("one.json"), folder.path("two.json"));
    let run = |report: &str, flags: &[&str]| {
        check(&[&["--report", &format!("json={report}")], flags].concat(), 0, &[])
    };
    run(&one, &["--suite", "sanity", "--filter", "identity/*"]);
    run(&two, &["--suite", "restart", "--filter", "restart/remembers", "--profile", "kubernetes"]);
    let said = check(&["merge", &one], 0, &[]);
    assert!(!said.stdout.contains("shard"), "{}", said.stdout);
    check(&["merge", &one, &two], 2, &["the profile is csi in the first and kubernetes in the second"]);
}

/// Returns the lines of tests that `e2e --plan` prints, and its last line.
fn planned(shard: &[&str]) -> (Vec<String>, String) {
    let definition = concat!(env!("CARGO_MANIFEST_DIR"), "/../driver-definitions/mock.yaml");
    let said = check(&[&["e2e", "--plan", "--driver-definition", definition], shard].concat(), 0, &[]);
    let is_test = |line: &&str| ["run ", "run? ", "skip "].iter().any(|word| line.starts_with(word));
    let tests = said.stdout.lines().filter(is_test);
    (tests.map(str::to_owned).collect(), said.stdout.lines().last().unwrap_or_default().to_owned())
}

#[test]
fn the_plan_has_the_tests_that_the_terms_choose() {
    let (whole, _) = planned(&[]);
    let (volumes, last) = planned(&["--focus", r"\] volumes should", "--skip", "xfs"]);
    assert!(!volumes.is_empty() && volumes.len() < whole.len());
    assert!(
        volumes.iter().all(|line| line.contains("volumes should") && !line.contains("xfs")),
        "{volumes:?}"
    );
    assert!(last.ends_with(&format!("; {} in all", whole.len())), "{last}");
    assert_eq!(planned(&["--filter", "capacity/*"]).0.len(), 1);
    let definition = concat!(env!("CARGO_MANIFEST_DIR"), "/../driver-definitions/mock.yaml");
    check(&["e2e", "--plan", "--driver-definition", definition, "--focus", "no such test"], 4, &[]);
}

#[test]
fn the_plan_of_a_shard_is_what_it_would_run() {
    let (mut whole, _) = planned(&[]);
    let mut parts = Vec::new();
    for index in 1..=4 {
        let shard = format!("--shard={index}/4");
        let (part, last) = planned(&[&shard]);
        let runs = part.iter().filter(|line| line.starts_with("run ")).count();
        let (here, all) = (part.len(), whole.len());
        let open = match part.iter().filter(|line| line.starts_with("run? ")).count() {
            0 => String::new(),
            open => format!(", and {open} more may, which depends on the driver"),
        };
        let expected = format!("{runs} of {here} tests would run{open}, in shard {index} of 4; {all} in all");
        assert_eq!(last, expected);
        let definition = concat!(env!("CARGO_MANIFEST_DIR"), "/../driver-definitions/mock.yaml");
        let dry = check(&["e2e", "--dry-run", "--driver-definition", definition, &shard], 0, &[]);
        let may_run = part.iter().filter(|line| !line.starts_with("skip ")).count();
        assert_eq!(dry.stdout.lines().count(), may_run, "{}", dry.stdout);
        parts.extend(part);
    }
    whole.sort();
    parts.sort();
    assert!(!whole.is_empty());
    assert_eq!(parts, whole);
}
