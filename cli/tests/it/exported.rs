//! `export --format rust` writes tests that compile, and that fail again as the check did.

#[rustfmt::skip]
mod a_wrong_answer;
#[rustfmt::skip]
mod a_wrong_code;

use std::fs;
use std::path::Path;
use std::process::Command;

use csi_harness::text::message::shape;
use csi_mock_driver::{Config, Defect};

use crate::driver::Driver;
use crate::faulty_driver;
use crate::program::check;

/// Each entry has the name of the file, the defect, and the check that finds it.
const EXPORTED: [(&str, Defect, &str); 2] = [
    ("a_wrong_answer", Defect::CreateVolumeRepeatChangesContext, "controller/create-volume/repeated-reply"),
    ("a_wrong_code", Defect::DeleteVolumeUnknownNotFound, "controller/delete-volume/repeated"),
];

/// The environment variable `UPDATE=1` makes this test write the files again.
#[test]
fn snapshots_are_what_export_writes() {
    let directory = tempfile::tempdir().unwrap();
    for (file, defect, id) in EXPORTED {
        let report = directory.path().join(file);
        let json = format!("json={}", report.display());
        check(&["--mock-defect", defect.id(), "--filter", id, "--seed", "7", "--report", &json], 1, &[]);
        let text = check(&["export", report.to_str().unwrap(), id, "--format", "rust"], 0, &[]).stdout;
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/exported/{file}.rs"));
        // Names and ids differ from run to run.
        let is_committed = fs::read_to_string(&path).is_ok_and(|committed| shape(&committed) == shape(&text));
        if std::env::var_os("UPDATE").is_some() && !is_committed {
            fs::write(&path, &text).unwrap();
        } else {
            assert!(is_committed, "{file}.rs is not what export writes:\n{text}");
        }
    }
}

#[test]
fn find_again_what_they_were_written_of() {
    let (_, defect, id) = EXPORTED[1];
    let name = format!("exported::a_wrong_code::{}", id.replace(['/', '-'], "_"));
    for (defects, passes) in [(vec![defect], false), (Vec::new(), true)] {
        let driver = Driver::start(Config { defects, ..Config::default() });
        let mut again = Command::new(std::env::current_exe().unwrap());
        let said = again.args(["--exact", &name]).env("CSI_ENDPOINT", &driver.endpoint).output().unwrap();
        let printed = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(printed.contains("1 passed") || printed.contains("1 failed"), "{printed}");
        assert_eq!(said.status.success(), passes, "{printed}");
    }
}

/// The check that finds the wrong mount looks at those of the whole run.
#[test]
fn as_root_a_mount_is_exported_with_its_own_calls() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root for mounts");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    faulty_driver::put_into(folder.path());
    let endpoint = format!("unix://{place}/csi.sock");
    let command = format!(
        "exec {place}/csi-faulty-driver --defect=hostpath/hides-from-second-pod --nodeid=node1 --backend=image \
         --statedir={place}/state --endpoint={endpoint}"
    );
    let driver = ["--no-config", "--endpoint", &endpoint, "--driver-command", &command];
    let json = format!("json={place}/report.json");
    let run = [
        "--access-type",
        "mount",
        "--filter",
        "data/sharing/two-writers,data/mounts/as-asked",
        "--report",
        &json,
    ];
    check(&[&driver[..], &run].concat(), 1, &[]);
    let script = check(&["export", &format!("{place}/report.json"), "data/mounts/as-asked"], 0, &[]).stdout;
    let calls: Vec<&str> = script.lines().filter_map(|line| line.strip_prefix("call csi.v1.")).collect();
    let rpcs: Vec<&str> = calls.iter().filter_map(|call| call.split([' ', '/']).nth(1)).collect();
    assert_eq!(
        rpcs,
        ["CreateVolume", "NodeStageVolume", "NodePublishVolume", "NodePublishVolume"],
        "{script}"
    );
}
