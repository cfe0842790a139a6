//! `doctor` says what the machine and a driver lack.

use csi_mock_driver::Config;
use serde_json::Value;

use crate::driver::Driver;
use crate::program::{check, program, run};

fn printed(arguments: &[&str]) -> Value {
    let said = run(&[&["doctor", "--format", "json"], arguments].concat());
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    serde_json::from_str(&said.stdout).unwrap()
}

#[test]
fn whoever_runs_it_is_told_first() {
    let printed = printed(&[]);
    let root = &printed["machine"][0];
    assert_eq!(root["what"], "root");
    assert_eq!(root["is_there"], rustix::process::geteuid().is_root());
    assert_eq!(printed["driver"], Value::Null);
}

#[test]
fn as_root_missing_tools_are_named_with_a_remedy() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let empty = tempfile::tempdir().unwrap();
    let output = program().args(["doctor", "--format", "json"]).env("PATH", empty.path()).output().unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lacks = |what: &str| {
        let finding = printed["machine"].as_array().unwrap().iter().find(|finding| finding["what"] == what);
        let finding = finding.unwrap_or_else(|| panic!("{what}: {printed}"));
        assert_eq!(finding["is_there"], false, "{finding}");
        (finding["seen"].as_str().unwrap().to_owned(), finding["costs"].as_str().unwrap().to_owned())
    };
    assert_eq!(lacks("xfs").0, "mkfs.xfs is not in PATH");
    assert!(lacks("mounts").1.contains("csi-sanity e2e"));
}

#[test]
fn a_driver_is_shown_with_the_checks_left_out() {
    let driver =
        Driver::start(Config { without: vec!["LIST_VOLUMES".parse().unwrap()], ..Config::default() });
    let printed = printed(&["--endpoint", &driver.endpoint]);
    let driver = &printed["driver"];
    assert_eq!(driver["name"], "mock.csi-sanity.example");
    assert_eq!(driver["shares_files"], true);
    let left_out = driver["left_out"].as_array().unwrap();
    let reason = "the driver does not advertise LIST_VOLUMES";
    let listing = left_out.iter().find(|left| left["because"] == reason).unwrap();
    let checks = listing["checks"].as_array().unwrap();
    assert!(checks.iter().any(|check| check == "controller/list-volumes/complete"), "{checks:?}");
    assert!(driver["runs"].as_u64().unwrap() > 100, "{driver}");
}

#[test]
fn an_absent_driver_hides_nothing_of_the_machine() {
    let arguments = ["doctor", "--endpoint", "/nowhere/csi.sock", "--dial-timeout", "100ms"];
    let said = check(&arguments, 3, &["/nowhere/csi.sock"]);
    assert!(said.stdout.starts_with("this machine\n"), "{}", said.stdout);
    let said = check(&[&arguments[..], &["--format", "json"]].concat(), 3, &[]);
    let printed: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(printed["machine"][0]["what"], "root");
    assert!(printed["unreachable"].as_str().unwrap().contains("/nowhere/csi.sock"), "{printed}");
}
