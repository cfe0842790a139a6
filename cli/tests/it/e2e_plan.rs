//! `csi-sanity e2e` plans the tests, and reads the definition and the driver that it is for, before any test runs.

use csi_mock_driver::Config;
use serde_json::Value;

use crate::driver::Driver;
use crate::program::{Folder, check, run};

const MOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../driver-definitions/mock.yaml");

/// Writes a definition into a directory of its own.
fn definition(text: &str) -> (Folder, String) {
    let folder = Folder::new();
    let path = folder.write("driver.yaml", text);
    (folder, path)
}

#[test]
fn the_plan_is_for_programs_too() {
    let plan = ["e2e", "--plan", "--driver-definition", MOCK, "--filter", "volumes/*"];
    let said = check(&[&plan[..], &["--format", "json"]].concat(), 0, &[]);
    let shown: Value = serde_json::from_str(&said.stdout).unwrap();
    let tests = shown["tests"].as_array().unwrap();
    let with = |plan: &str| tests.iter().filter(|test| test["plan"] == plan).count() as u64;
    assert!(with("run") > 0 && with("skip") > 0, "{shown}");
    for plan in ["run", "may_run", "skip"] {
        assert_eq!(shown[plan], with(plan), "{shown}");
    }
    assert!(shown["all"].as_u64().unwrap() > tests.len() as u64, "{shown}");
    for test in tests {
        assert!(test["id"].as_str().unwrap().starts_with("volumes/"), "{test}");
        assert!(test["name"].as_str().unwrap().starts_with("External Storage "), "{test}");
        assert_eq!(test["plan"] == "run", test["reason"].is_null(), "{test}");
        assert_eq!(test["plan"] == "run", test["by"].is_null(), "{test}");
    }
    check(&["e2e", "--driver-definition", MOCK, "--format", "json"], 2, &["--plan"]);
}

#[test]
fn the_plan_names_abilities_missing_in_the_definition() {
    let driver = Driver::start(Config::default());
    let plan = ["e2e", "--plan", "--driver-definition", MOCK, "--endpoint", &driver.endpoint];
    let said = check(&[&plan[..], &["--format", "json"]].concat(), 0, &[]);
    let shown: Value = serde_json::from_str(&said.stdout).unwrap();
    let unused = serde_json::json!(
        { "advertised": "CREATE_DELETE_SNAPSHOT", "add": "DriverInfo.Capabilities.snapshotDataSource: true" }
    );
    assert!(shown["unused"].as_array().unwrap().contains(&unused), "{shown}");
    let unasked = check(&["e2e", "--plan", "--driver-definition", MOCK, "--format", "json"], 0, &[]);
    let unasked: Value = serde_json::from_str(&unasked.stdout).unwrap();
    assert!(unasked["unused"].is_null(), "{unasked}");
    assert!(shown["may_run"].as_u64() < unasked["may_run"].as_u64(), "the driver has said what it can do");
    let text = check(&plan, 0, &[]).stdout;
    assert!(
        text.contains("the driver advertises CREATE_DELETE_SNAPSHOT, and the definition leaves it out"),
        "{text}"
    );
}

#[test]
fn an_older_version_registers_tests_that_it_skips() {
    let numbers = |version: &str| {
        let plan =
            ["e2e", "--plan", "--driver-definition", MOCK, "--format", "json", "--kubernetes", version];
        let shown: Value = serde_json::from_str(&check(&plan, 0, &[]).stdout).unwrap();
        assert_eq!(shown["kubernetes"], version);
        (shown["all"].as_u64().unwrap(), shown["registered"].as_u64().unwrap())
    };
    let ((older, most), (newer, some)) = (numbers("1.34"), numbers("1.37"));
    // Some suites are not upstream's, so that they are in the plan for every version of Kubernetes.
    assert!(older < newer && some < most && most < older, "{older} {most} {newer} {some}");
    check(&["e2e", "--plan", "--driver-definition", MOCK, "--kubernetes", "1.20"], 2, &["1.34, 1.35"]);
}

#[test]
fn a_reason_does_not_put_words_into_the_definition() {
    let (_folder, path) = definition(
        "StorageClass: {FromName: true}\nDriverInfo: {Name: a.example, Capabilities: {block: false}}\n",
    );
    let said = check(&["e2e", "--plan", "--driver-definition", &path], 0, &[]);
    assert!(said.stdout.contains("the definition says block: false"), "{}", said.stdout);
    assert!(said.stdout.contains("the definition does not mention controllerExpansion"), "{}", said.stdout);
    assert!(!said.stdout.contains("the definition says controllerExpansion"), "{}", said.stdout);
}

#[test]
fn a_missing_manifest_is_an_error_of_the_plan_too() {
    for text in ["{FromFile: none.yaml}", "{FromExistingClassName: none}"] {
        let (_folder, path) = definition(&format!("StorageClass: {text}\nDriverInfo: {{Name: a}}\n"));
        check(&["e2e", "--plan", "--driver-definition", &path], 2, &["none.yaml"]);
    }
}

#[test]
fn all_missing_classes_are_reported() {
    let classes = "StorageClass: {FromExistingClassName: one}\nSnapshotClass: {FromExistingClassName: two}\n";
    let (_folder, path) = definition(&format!("{classes}DriverInfo: {{Name: a}}\n"));
    let shown = ["error: --driver-definition", "one.yaml", "error: --driver-definition", "two.yaml"];
    check(&["e2e", "--plan", "--driver-definition", &path], 2, &shown);
}

#[test]
fn all_mistakes_in_a_definition_are_reported() {
    let (_folder, path) =
        definition("DriverInfo:\n  Name: a\n  MaxFileSize: 1Gi\n  Capabilities: {block: 'yes'}\n");
    let shown = [
        "DriverInfo.MaxFileSize: expected a whole number of 0 or more, got a string",
        "error: ",
        "DriverInfo.Capabilities.block: expected true or false, got a string",
    ];
    let said = check(&["e2e", "--plan", "--driver-definition", &path], 2, &shown);
    assert_eq!(said.stderr.matches("error: ").count(), 2, "{}", said.stderr);
}

/// Tools that list the tests before they run them have no socket at that moment.
#[test]
fn a_dry_run_with_kubernetes_flags_needs_no_endpoint() {
    let said = check(&["-storage.testdriver", MOCK, "-ginkgo.dry-run"], 0, &[]);
    assert!(said.stdout.lines().any(|line| line.starts_with("volumes/")), "{}", said.stdout);
    check(&["-storage.testdriver", MOCK], 2, &["--endpoint"]);
}

#[test]
fn a_driver_of_another_name_is_an_early_error() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let driver = Driver::start(Config { driver_name: "other.example".to_owned(), ..Config::default() });
    let shown = ["mock.csi-sanity.example", "other.example", "Pending", "DriverInfo.Name"];
    let arguments = ["e2e", "--driver-definition", MOCK, "--endpoint", &driver.endpoint];
    let said = check(&arguments, 2, &shown);
    assert_eq!(said.stdout, "", "no test has begun");
    check(&[&arguments[..], &["--plan"]].concat(), 2, &shown);
    let (_folder, path) = definition("DriverInfo: {Name: other.example}\n");
    let right = ["e2e", "--driver-definition", &path, "--endpoint", &driver.endpoint];
    let said = run(&[&right[..], &["--filter", "capacity/*"]].concat());
    assert!(said.stdout.contains("other.example"), "{} {}", said.stdout, said.stderr);
}

#[test]
fn a_test_can_be_explained_by_its_id_and_by_its_name() {
    let plan = ["e2e", "--plan", "--driver-definition", MOCK, "--format", "json"];
    let shown: Value = serde_json::from_str(&check(&plan, 0, &[]).stdout).unwrap();
    let test = &shown["tests"][0];
    for word in ["id", "name"] {
        let said = check(&["explain", test[word].as_str().unwrap()], 0, &[]);
        assert!(said.stdout.starts_with(test["id"].as_str().unwrap()), "{}", said.stdout);
        assert!(said.stdout.contains("--plan --filter"), "{}", said.stdout);
    }
    let id = test["id"].as_str().unwrap();
    check(&["explain", &format!("{id}s")], 2, &["did you mean", id]);
}
