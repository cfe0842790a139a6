//! A report of the previous schema is read like one of the present schema.

use std::path::Path;

use csi_harness::results::outcome::OutcomeKind;
use csi_report::{Badge, Format, Run, compare};

/// Returns the report of four checks on the mock driver with a defect. It was written before flaky failures had an outcome of their own.
fn before() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/report-v2.json"))
}

#[test]
fn a_report_of_version_2_is_read() {
    let stored = Run::load(before()).unwrap();
    let failed: Vec<&str> = stored
        .checks
        .iter()
        .filter(|check| check.outcome() == OutcomeKind::Failed)
        .map(|check| check.id.as_str())
        .collect();
    assert_eq!(failed, ["controller/create-volume/repeated-reply"]);
    assert_eq!(stored.conclude().words, "does not conform");
    assert!(Badge::of(&stored).svg().contains("deviates: 1"));
    let again = compare(&stored, &Run::load(before()).unwrap(), None);
    assert!(!again.is_worse && again.still_failing.len() == 1, "{again:?}");
}

#[test]
fn a_report_of_version_2_is_shown() {
    let run = Run::load(before()).unwrap();
    let markdown = Format::Markdown.render(&run);
    assert!(markdown.contains("3 passed, 1 failed, 0 skipped."), "{markdown}");
    let page = Format::Html.render(&run);
    assert!(page.contains("MUSTs of CSI 1.12"), "its sentence on requirements");
}
