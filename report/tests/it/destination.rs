use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use csi_report::{Destination, DestinationError};

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_appears_whole_and_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.xml");
    let destination = Destination::open(&path).unwrap();
    assert!(!path.exists(), "nothing is there before the report is written");
    destination.write("text").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    assert_eq!(names(directory.path()), ["report.xml"]);
    assert_ne!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o044,
        0,
        "others may read it, by the umask"
    );
}

#[test]
fn an_old_report_stays_until_the_new_one_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.xml");
    fs::write(&path, "old").unwrap();
    drop(Destination::open(&path).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    Destination::open(&path).unwrap().write("new").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(names(directory.path()), ["report.xml"]);
}

#[test]
fn a_link_stays_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let (file, link) = (directory.path().join("file"), directory.path().join("link"));
    fs::write(&file, "old").unwrap();
    symlink(&file, &link).unwrap();
    Destination::open(&link).unwrap().write("new").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn what_cannot_be_written_is_found_before_the_run() {
    let directory = tempfile::tempdir().unwrap();
    for path in [directory.path().to_owned(), directory.path().join("missing/report.xml")] {
        let error = Destination::open(&path).unwrap_err();
        assert!(matches!(error, DestinationError::Open { .. }), "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    // This device is always full. The report is written to it in place, and does not replace it.
    let destination = Destination::open(Path::new("/dev/full")).unwrap();
    let error = destination.write("text").unwrap_err();
    assert!(matches!(error, DestinationError::Write { .. }), "{error}");
    assert!(error.to_string().contains("/dev/full"), "{error}");
}
