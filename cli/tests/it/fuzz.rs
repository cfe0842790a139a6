//! A right driver withstands hostile requests, and the faults of a wrong one are found, stored and sent again.

use crate::driver_command::separate_driver;
use crate::program::{check, run};

/// These flags ask for few requests for each RPC, at a fixed seed.
const LITTLE: [&str; 7] = ["fuzz", "--seed", "3", "--inputs", "600", "--settle-timeout", "100ms"];

#[test]
fn a_right_driver_stands_it() {
    let said = check(&["fuzz", "--seed", "1", "--inputs", "8000"], 0, &["built-in"]);
    assert!(
        said.stdout.contains("fuzz/mixed") && said.stdout.contains("kinds of answers"),
        "{}",
        said.stdout
    );
}

/// Each entry has a defect, the RPC whose requests find it, and a text that the report contains.
const FOUND: [(&str, &str, &str); 7] = [
    ("create-volume-panics-without-range", "create-volume", "ends without a gRPC status"),
    ("delete-volume-crashes-on-paths", "delete-volume", "GEN-ERR-001"),
    ("list-volumes-panics-on-negative-max", "list-volumes", "\"max_entries\":-"),
    ("delete-volume-follows-paths", "delete-volume", "HOSTILE-PATH-001"),
    ("create-volume-follows-subdir", "create-volume", "\"subDir\":"),
    ("secrets-in-errors", "create-volume", "GEN-SECRET-001"),
    ("create-volume-leaks-on-error", "create-volume", "HOSTILE-EFFECT-001"),
];

#[test]
fn what_a_wrong_driver_does_is_found() {
    for (defect, rpc, text) in FOUND {
        let filter = format!("fuzz/requests/{rpc}");
        let said = run(&[&LITTLE[..], &["--filter", &filter, "--mock-defect", defect]].concat());
        assert_eq!(said.code, Some(1), "{defect}\n{}\n{}", said.stdout, said.stderr);
        assert!(said.stdout.contains(text), "{defect}: {text:?} is missing: {}", said.stdout);
    }
}

#[test]
fn a_vague_code_is_only_remarked_on() {
    let arguments =
        ["--filter", "fuzz/requests/delete-volume", "--mock-defect", "invalid-argument-as-internal"];
    let said = check(&[&LITTLE[..], &arguments].concat(), 0, &[]);
    assert!(said.stdout.contains("answers nonsense with INTERNAL"), "{}", said.stdout);
}

#[test]
fn a_finding_is_stored_and_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let cases = folder.path().to_str().unwrap();
    let defect = ["--mock-defect", "list-volumes-panics-on-negative-max"];
    let find = ["--filter", "fuzz/requests/list-volumes", "--regressions", cases];
    let said = check(&[&LITTLE[..], &find, &defect].concat(), 1, &[]);
    assert!(said.stdout.contains("csi-sanity replay"), "{}", said.stdout);
    let case = std::fs::read_dir(cases).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&case).unwrap();
    assert!(text.contains("max_entries: -"), "made small: {text}");
    let case = case.to_str().unwrap();
    let said = check(&[&["replay", case][..], &defect].concat(), 1, &[]);
    assert!(said.stdout.contains("GEN-ERR-001"), "still failing: {}", said.stdout);
    let said = check(&["replay", case], 0, &[]);
    assert!(said.stdout.contains("fixed"), "{}", said.stdout);
    check(&["replay", case, "--format", "rust"], 2, &["--format"]);

    std::fs::write(case, text.replace("rpc: ListVolumes", "rpc: ListThings")).unwrap();
    check(&["replay", case], 2, &[case, "ListThings"]);
}

#[test]
fn requests_in_progress_at_a_death_are_suspects() {
    let folder = tempfile::tempdir().unwrap();
    let cases = folder.path().join("cases");
    let socket = folder.path().join("csi.sock");
    let on_a_driver = |arguments: &[&str], code: i32| {
        let mut driver = separate_driver("delete-volume-crashes-on-paths", &socket);
        let endpoint = ["--endpoint", socket.to_str().unwrap(), "--restart-timeout", "500ms"];
        let said = check(&[arguments, &endpoint].concat(), code, &[]);
        // The defect may have ended the process already.
        let _ = driver.kill();
        driver.wait().unwrap();
        said
    };
    let find = ["--filter", "fuzz/requests/delete-volume", "--regressions", cases.to_str().unwrap()];
    let said = on_a_driver(&[&LITTLE[..], &find].concat(), 1);
    assert!(said.stdout.contains("the driver stops answering while"), "{}", said.stdout);
    let case = std::fs::read_dir(&cases).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&case).unwrap();
    assert!(text.contains("csi-sanity-fuzz-case: 2") && text.contains("other-suspects:"), "{text}");
    assert!(text.contains(".."), "the request that ends the driver is among them: {text}");

    let case = case.to_str().unwrap();
    let said = on_a_driver(&["replay", case], 1);
    assert!(said.stdout.contains("the driver crashes on DeleteVolume"), "{}", said.stdout);
    assert!(said.stdout.contains("in the file shows it alone"), "it says which: {}", said.stdout);
    let said = check(&["replay", case], 0, &[]);
    assert!(said.stdout.contains("fixed: none of the"), "{}", said.stdout);
}

/// The preparations for one RPC already take some time, and those for all RPCs much longer than this duration.
#[test]
fn work_that_begins_too_late_is_skipped() {
    let said = check(&["fuzz", "--seed", "1", "--duration", "300ms"], 0, &[]);
    assert!(said.stdout.contains("--duration ended before it could begin"), "{}", said.stdout);
}

#[test]
fn what_cannot_be_chosen_is_named() {
    check(&["fuzz", "--filter", "fuzz/requests/no-such-rpc"], 4, &["--filter"]);
    check(&["fuzz", "--inputs", "0"], 2, &["--inputs"]);
}
