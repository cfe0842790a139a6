//! A failing case is stored and run again.

use crate::faulty_driver;
use crate::program::check;

#[test]
fn a_case_is_stored_run_again_and_printed() {
    let folder = tempfile::tempdir().unwrap();
    let cases = folder.path().to_str().unwrap();
    let defect = ["--mock-defect", "create-volume-ignores-size-conflict"];
    let find = ["--suite", "idempotency", "--filter", "idempotency/after-an-error", "--regressions", cases];
    let said = check(&[&find[..], &defect].concat(), 1, &[]);
    assert!(said.stdout.contains(">") && said.stdout.contains("csi-sanity replay"), "{}", said.stdout);

    let mut stored = std::fs::read_dir(cases).unwrap().map(|file| file.unwrap().path());
    let case = stored.next().unwrap();
    let case = case.to_str().unwrap();
    let said = check(&[&["replay", case][..], &defect].concat(), 1, &[]);
    assert!(said.stdout.contains("CTRL-CREATEVOL-041"), "still failing: {}", said.stdout);
    let said = check(&["replay", case], 0, &[]);
    assert!(said.stdout.contains("fixed"), "{}", said.stdout);
    let forms =
        [("grpcurl", "call csi.v1.Controller/CreateVolume"), ("go", "testing.T"), ("rust", "async fn")];
    for (form, text) in forms {
        let said = check(&["replay", case, "--format", form], 0, &[]);
        assert!(said.stdout.contains(text), "{}", said.stdout);
    }
}

#[test]
fn stored_failures_are_played_first() {
    let folder = tempfile::tempdir().unwrap();
    let cases = folder.path().to_str().unwrap();
    let defect = ["--mock-defect", "create-volume-forgets-names"];
    let volumes = ["--filter", "property/volumes", "--cases", "20", "--regressions", cases];
    let stored = || std::fs::read_dir(cases).unwrap().count();
    check(&[&volumes[..], &defect].concat(), 1, &[]);
    let found = stored();
    assert!(found >= 1, "what is found is stored");
    for seed in ["1", "2"] {
        let said = check(&[&volumes[..], &defect, &["--seed", seed]].concat(), 1, &[]);
        assert!(said.stdout.contains("still failing"), "{}", said.stdout);
        // The search continues after it has found a case, and may store a second one for the mistake.
        assert!(stored() >= found, "the case is kept");
    }
    let said = check(&volumes, 0, &[]);
    assert!(said.stdout.contains("fixed"), "{}", said.stdout);

    std::fs::write(folder.path().join("other.yaml"), "no case").unwrap();
    let said = check(&volumes, 3, &[]);
    assert!(said.stdout.contains("other.yaml"), "{}", said.stdout);
}

#[test]
fn what_is_no_case_is_named() {
    check(&["replay", "/no/such/case.yaml"], 2, &["/no/such/case.yaml"]);
}

#[test]
fn a_kill_is_part_of_a_stored_case() {
    let folder = tempfile::tempdir().unwrap();
    let cases = folder.path().to_str().unwrap();
    let defect = ["--mock-defect", "restart-forgets-last-write"];
    // The time of the kill decides which write is the last one, so the search repeats until a kill finds the mistake.
    let until_found = ["--kills", "200", "--budget", "1m"];
    let find = [&["--filter", "restart/under-load", "--regressions", cases][..], &until_found].concat();
    check(&[find.as_slice(), &defect].concat(), 1, &[]);

    let case = std::fs::read_dir(cases).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&case).unwrap();
    assert!(text.contains("disruptions:\n") && text.contains("ed-after-us: "), "{text}");
    // Each attempt ends the driver, so that a replay makes fewer attempts than for other cases.
    let said = check(&["replay", case.to_str().unwrap()], 0, &[]);
    assert!(said.stdout.contains("not seen again in 10 attempts"), "{}", said.stdout);
}

#[test]
fn as_root_a_workload_is_replayed() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root for loop devices");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    faulty_driver::put_into(folder.path());
    let driver = |defect: &str| {
        let endpoint = format!("unix://{place}/csi.sock");
        let flags = "--nodeid=node1 --backend=image --enable-attach";
        let command = format!(
            "exec {place}/csi-faulty-driver {defect} {flags} --statedir={place}/state --endpoint={endpoint}"
        );
        ["--no-config".to_owned(), "--endpoint".to_owned(), endpoint, "--driver-command".to_owned(), command]
    };
    let run = |arguments: &[&str], defect: &str, code: i32| {
        let driver = driver(defect);
        let driver: Vec<&str> = driver.iter().map(String::as_str).collect();
        check(&[arguments, &driver, &["--driver-log", "/dev/null"]].concat(), code, &[])
    };
    let defect = "--defect=hostpath/snapshot-breaks-writer";
    let cases = folder.path().join("cases");
    let selected = ["run", "--filter", "in-use/create-snapshot", "--access-type", "block"];
    let stored = ["--seed", "7", "--regressions", cases.to_str().unwrap()];
    let said = run(&[&selected[..], &stored].concat(), defect, 1);
    assert!(said.stderr.contains("csi-sanity replay"), "{}", said.stderr);

    let case = cases.join("in-use-create-snapshot-block-IN-USE-001.yaml");
    let text = std::fs::read_to_string(&case).unwrap();
    for line in ["check: in-use/create-snapshot@block", "seed: 7", "volume-bytes: ", "CreateSnapshot → "] {
        assert!(text.contains(line), "{line:?} is missing:\n{text}");
    }
    let case = case.to_str().unwrap();
    let said = run(&["replay", case], defect, 1);
    assert!(said.stdout.contains("IN-USE-001") && said.stdout.contains("seed 7"), "{}", said.stdout);
    let said = run(&["replay", case], "", 0);
    assert!(said.stderr.contains("fixed"), "{}", said.stderr);
    check(&["replay", case, "--format", "grpcurl"], 2, &["--format"]);
}
