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
