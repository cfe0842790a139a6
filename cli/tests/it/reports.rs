use std::fs;

use csi_mock_driver::{Config, Defect, Secrets};

use crate::driver::Driver;
use crate::program::{Folder, Said, check, run};

/// No output may contain this value.
const SECRET: &str = "hunter2";

#[test]
fn every_kind_is_written_and_nothing_else() {
    let folder = Folder::new();
    let reports = [
        ("junit", folder.path("r.xml")),
        ("json", folder.path("r.json")),
        ("md", folder.path("r.md")),
        ("html", folder.path("r.html")),
    ];
    let flags: Vec<String> = reports.iter().map(|(kind, path)| format!("--report={kind}={path}")).collect();
    let mut arguments = vec!["--filter", "identity/", "--seed", "42"];
    arguments.extend(flags.iter().map(String::as_str));
    let said = check(&arguments, 0, &[]);
    assert!(said.stdout.starts_with("seed 42\n"), "{}", said.stdout);

    let [junit, json, md, html] = reports.map(|(_, path)| fs::read_to_string(path).unwrap());
    assert!(junit.contains("<testsuite name=\"identity/probe\""), "{junit}");
    assert!(md.starts_with("## `mock.csi-sanity.example`"), "{md}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["seed"], 42);
    assert_eq!(json["summary"]["passed"], json["checks"].as_array().unwrap().len());
    assert_eq!(json["selection"]["is_whole"], false);
    assert!(html.starts_with("<!doctype html>") && html.contains("only those of"), "{html}");
    assert_eq!(fs::read_dir(folder.root()).unwrap().count(), 4);
}

#[test]
fn a_report_on_the_standard_output_is_alone_there() {
    let said = check(&["--filter", "identity/", "--report", "json=-"], 0, &[" passed, 0 failed"]);
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(json["summary"]["failed"], 0);
}

#[test]
fn a_full_disk_names_its_report_and_spares_others() {
    let folder = Folder::new();
    let flag = format!("md={}", folder.path("r.md"));
    let arguments = ["--filter", "identity/", "--report", "json=/dev/full", "--report", &flag];
    check(&arguments, 3, &["--report json", "/dev/full", "No space left"]);
    assert!(folder.read("r.md").contains("conforms"));
}

#[test]
fn junit_has_times_ids_and_names_of_the_go_program() {
    let folder = Folder::new();
    let report = format!("junit={}", folder.path("r.xml"));
    let few = ["--filter", "identity/", "--report", &report];
    check(&few, 0, &[]);
    let junit = folder.read("r.xml");
    assert!(junit.contains(r#"<testcase name="ready" classname="identity/probe""#), "{junit}");
    assert!(junit.contains(r#"<property name="id" value="identity/probe/ready"/>"#), "{junit}");
    assert_eq!(junit.matches(r#" timestamp=""#).count(), 1 + junit.matches("<testsuite ").count(), "{junit}");

    let defect = ["--mock-defect", "get-plugin-info-name-empty", "--junit-names", "go"];
    check(&[&few[..], &defect].concat(), 1, &[]);
    let junit = folder.read("r.xml");
    let case = r#"<testcase name="[It] Identity Service GetPluginInfo should return appropriate information" classname="CSI Driver Test Suite""#;
    assert_eq!(junit.matches(case).count(), 1, "{junit}");
    let case = junit.split(case).nth(1).unwrap().split("</testcase>").next().unwrap();
    assert!(case.contains("<failure ") && case.contains("the plugin has no name"), "{case}");
    assert!(junit.contains(r#"<testsuite name="identity/probe""#), "others keep their names: {junit}");
}

#[test]
fn every_report_that_a_full_disk_spoils_is_named() {
    let reports = ["--report=json=/dev/full", "--report=md=/dev/full", "--report=junit=/dev/full"];
    let named =
        ["failed to write 3 reports:\n  --report json: ", "\n  --report md: ", "\n  --report junit: "];
    check(&[&["--filter", "identity/"], &reports[..]].concat(), 3, &named);
}

#[test]
fn a_missing_folder_is_named_with_a_command() {
    let folder = Folder::new();
    let deep = folder.path("none/deeper");
    let report = format!("html={deep}/x.html");
    let missing = format!("the folder {} is missing", folder.path("none"));
    check(&["--report", &report], 2, &["--report html", &missing, &format!("mkdir -p {deep}")]);
}

#[test]
fn two_reports_to_one_file_are_refused() {
    let folder = Folder::new();
    let (one, same) = (format!("json={}", folder.path("r")), format!("md={}", folder.path("./r")));
    check(
        &["--report", &one, "--report", &same],
        2,
        &["json and md cannot both be written to", "of its own"],
    );
    assert!(!folder.root().join("r").exists());
    check(&["--report", "json=-", "--report", "md=-"], 2, &["json and md", "the standard output"]);
}

#[test]
fn the_go_command_line_runs_with_its_files() {
    let folder = Folder::new();
    let secret = format!("{{password: {SECRET}}}");
    let keys = [
        "CreateVolume",
        "DeleteVolume",
        "ControllerPublishVolume",
        "ControllerUnpublishVolume",
        "ControllerValidateVolumeCapabilities",
        "NodeStageVolume",
        "NodePublishVolume",
        "CreateSnapshot",
        "DeleteSnapshot",
        "ControllerExpandVolume",
        "ControllerModifyVolume",
        "ListSnapshots",
        "GetSnapshot",
    ];
    let lines: String = keys.iter().map(|key| format!("{key}Secret: {secret}\n")).collect();
    let secrets = folder.write("secrets.yaml", &lines);
    let parameters = folder.write("parameters.yaml", "pool: mock\n");
    let junit = folder.path("junit.xml");

    // The driver refuses every call that comes without the secret.
    let required = [("password".to_owned(), SECRET.to_owned())].into();
    let driver = Driver::start(Config { required_secrets: Secrets(required), ..Config::default() });
    let said = check(
        &[
            &format!("--csi.endpoint={}", driver.endpoint),
            "-csi.secrets",
            &secrets,
            "-csi.testvolumeparameters",
            &parameters,
            "-csi.testvolumeaccesstype=mount",
            "-csi.testvolumesize",
            "1073741824",
            "-ginkgo.focus",
            "CreateVolume",
            "-ginkgo.skip",
            "snapshot|DeleteSnapshot",
            "-ginkgo.junit-report",
            &junit,
            "-ginkgo.vv",
            "-ginkgo.trace",
        ],
        0,
        &["-ginkgo.trace has no effect"],
    );
    let junit = fs::read_to_string(junit).unwrap();
    assert!(junit.contains("controller/create-volume"), "{junit}");
    assert!(!junit.contains("identity/probe"), "{junit}");
    for text in [&said.stdout, &said.stderr, &junit] {
        assert!(!text.contains(SECRET), "{text}");
    }
}

/// Runs checks with a secret in the configuration, in as many words as possible.
fn run_with_secret(driver: &Driver, secret: &str, filter: &str) -> Said {
    let yaml = format!("endpoint: {}\nsecrets: {{CreateVolume: {{password: {secret}}}}}\n", driver.endpoint);
    let config = driver.folder.write("driver.yaml", &yaml);
    run(&["--config", &config, "--filter", filter, "-vv", "--report", "json=-"])
}

#[test]
fn a_secret_sent_back_is_reported_without_its_text() {
    let defects = vec![Defect::CreateVolumeContextHoldsSecrets, Defect::SecretsInErrors];
    let driver = Driver::start(Config { defects, ..Config::default() });
    let secret = "k7Q2mZ9x-T4vB";
    let said = run_with_secret(&driver, secret, "controller/create-volume/,every-reply/secrets/configured");
    assert!(said.stdout.contains("a reply contains a secret of the configuration"), "{}", said.stdout);
    assert!(!said.stdout.contains(secret) && !said.stderr.contains(secret));
}

#[test]
fn secrets_are_in_no_report_of_a_failure() {
    // The driver wants another secret, so that every check with secrets fails and is reported.
    let required = [("password".to_owned(), "another".to_owned())].into();
    let driver = Driver::start(Config { required_secrets: Secrets(required), ..Config::default() });
    let said = run_with_secret(&driver, SECRET, "controller/create-volume/");
    assert_ne!(said.code, Some(0));
    assert!(said.stdout.contains(csi_proto::hidden::STRIPPED), "{}", said.stdout);
    assert!(!said.stdout.contains(SECRET) && !said.stderr.contains(SECRET));
}

#[test]
fn events_come_line_by_line_on_the_standard_output() {
    let said = check(&["--filter", "identity/", "--report", "ndjson=-"], 0, &[" passed, 0 failed"]);
    let events: Vec<serde_json::Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["schema"], "csi-sanity/events/v1");
    assert_eq!(events.last().unwrap()["verdict"], "conforms");
    let finished = events.iter().filter(|event| event["event"] == "check_finished").count();
    assert_eq!(events[0]["checks"], finished);
}
