//! The program prints what it is asked for, and survives a reader that leaves early.

use std::process::Stdio;

use crate::program::{Said, check, program, run};

/// Runs the program with a standard output whose reading end is closed.
fn without_reader(arguments: &[&str]) -> Said {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    program().args(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap().into()
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for arguments in [
        &["list"][..],
        &["list", "--format", "json"],
        &["coverage"],
        &["coverage", "--format", "json"],
        &["explain", "identity/probe/ready"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["--dry-run"],
        &["--quiet", "--filter", "identity/"],
    ] {
        let said = without_reader(arguments);
        assert_eq!(said.code, Some(0), "{arguments:?}: {}", said.stderr);
        assert_eq!(said.stderr, "", "{arguments:?}");
    }
}

#[test]
fn a_verdict_does_not_depend_on_readers() {
    let said = without_reader(&["--mock-defect", "get-plugin-info-name-empty", "--filter", "identity/"]);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
}

#[test]
fn list_has_the_shape_programs_read() {
    let said = check(&["list", "--format", "json"], 0, &[]);
    let entries: Vec<serde_json::Value> = serde_json::from_str(&said.stdout).unwrap();
    let ready = entries.iter().find(|entry| entry["id"] == "identity/probe/ready").unwrap();
    let keys: Vec<_> = ready.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected =
        ["id", "suite", "since", "title", "requirements", "needs", "refuted_by", "alone", "root"];
    expected.sort_unstable();
    assert_eq!(keys, expected);
    assert_eq!(ready["suite"], "sanity");
    assert_eq!(ready["since"], "0.1.0");
    assert_eq!(ready["requirements"][0], "ID-PROBE-009");
    assert_eq!(ready["alone"], false);
}

#[test]
fn coverage_has_every_requirement_on_drivers() {
    let said = check(&["coverage", "--format", "json"], 0, &[]);
    let coverage: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let rows = coverage["requirements"].as_array().unwrap();
    assert_eq!(coverage["totals"]["requirements"], rows.len());
    assert!(rows.iter().all(|row| row["level"].is_string() && row["checks"].is_array()));
    for row in rows {
        let checked = !row["checks"].as_array().unwrap().is_empty();
        assert_eq!(checked, row["untested_because"].is_null(), "{row}");
    }
    assert!(!rows.iter().any(|row| row["id"] == "GEN-ARCH-001"), "it binds the caller");
}

#[test]
fn explain_describes_checks_and_requirements() {
    let said = check(&["explain", "identity/probe/ready"], 0, &[]);
    for text in
        ["Probe of a running plugin", "MUST ID-PROBE-009", "probe-never-ready", "Identity Service Probe"]
    {
        assert!(said.stdout.contains(text), "{text:?} is missing: {}", said.stdout);
    }
    let said = check(&["explain", "id-probe-009"], 0, &[]);
    assert!(said.stdout.contains("checked by\n  identity/probe/ready"), "{}", said.stdout);
    let said = check(&["explain", "GEN-ARCH-001"], 0, &[]);
    assert!(said.stdout.contains("not checked: it binds the caller"), "{}", said.stdout);
}

#[test]
fn a_dry_run_names_the_checks_and_asks_no_driver() {
    let said = check(&["--endpoint", "/does/not/exist", "--dry-run", "--filter", "identity/probe/"], 0, &[]);
    assert_eq!(said.stdout, "identity/probe/ready\nidentity/probe/repeated\n");
}

#[test]
fn colours_are_for_terminals_or_on_demand() {
    let quiet = ["--filter", "identity/probe/", "-q"];
    assert!(!check(&quiet, 0, &[]).stdout.contains('\u{1b}'));
    assert!(check(&[&quiet[..], &["--color", "always"]].concat(), 0, &[]).stdout.contains('\u{1b}'));
    assert!(!check(&[&quiet[..], &["--no-color"]].concat(), 0, &[]).stdout.contains('\u{1b}'));
}

#[test]
fn versions_and_help_are_no_errors() {
    for arguments in [["--version"], ["-V"], ["-version"]] {
        let said = check(&arguments, 0, &[]);
        assert_eq!(said.stdout, format!("csi-sanity {}\n", env!("CSI_SANITY_VERSION")));
    }
    assert!(check(&["--help"], 0, &[]).stdout.contains("Exit codes:"));
    assert!(check(&["run", "--help"], 0, &[]).stdout.contains("Exit codes:"));
}

#[test]
fn completions_and_manual_page_know_the_flags() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(check(&["completions", shell], 0, &[]).stdout.contains("known-failing"), "{shell}");
    }
    let page = check(&["man"], 0, &[]).stdout;
    assert!(page.starts_with(".") || page.contains(".TH"), "{page}");
    for section in
        [".SH \"EXIT STATUS\"", ".SH ENVIRONMENT", ".SH EXAMPLES", "CSI_ENDPOINT", "csi\\-sanity\\-export"]
    {
        assert!(page.contains(section), "{section}: {page}");
    }
    let page = check(&["man", "run"], 0, &[]).stdout;
    assert!(page.contains(".TH csi-sanity-run") && page.contains("known\\-failing"), "{page}");
    assert!(page.contains(".SH \"EXIT STATUS\"") && !page.contains("Exit codes:"), "{page}");
    check(&["man", "exprt"], 2, &["did you mean export"]);
}

#[test]
fn the_self_test_refutes_what_it_is_asked_to() {
    let said = check(&["self-test", "--filter", "identity/probe/"], 0, &[]);
    assert!(said.stdout.contains("identity/probe/ready     good     finds 1 of 1"), "{}", said.stdout);
    assert!(said.stdout.contains(" 0 bad"), "{}", said.stdout);
    // One of the two defects of this check only affects large volumes.
    let said = check(&["self-test", "--filter", "controller/create-volume/exact-size"], 0, &[]);
    assert!(said.stdout.contains("finds 2 of 2"), "{}", said.stdout);
}

#[test]
fn what_cannot_be_undone_for_one_reason_is_told_once() {
    let arguments = ["--mock-defect", "delete-volume-unimplemented", "--filter", "controller/create-volume/"];
    let said = run(&arguments).stdout;
    let printed = said.matches("INCONCLUSIVE").count();
    assert_eq!(printed, 2, "the preparations and the undoing of many checks, each once: {said}");
    assert!(said.contains("could not undo: volume"), "{said}");
}
