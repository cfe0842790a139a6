//! The tests run tests of Kubernetes on the reference driver.

use std::path::Path;

use crate::stage::{FLAGS, Test, upstream_on_hostpath};

pub(crate) const TESTS: &[Test] = &[
    ("the_suite_volumes_passes", the_suite_volumes_passes),
    ("the_suite_volume_modify_passes", the_suite_volume_modify_passes),
    ("the_suite_snapshotmetadata_passes", the_suite_snapshotmetadata_passes),
    ("suites_of_health_and_snapshot_topology_pass", suites_of_health_and_snapshot_topology_pass),
];

/// Runs tests on the reference driver, which has to pass them.
fn pass(definition: &Path, flags: &[&str], filter: &str) {
    let Some(bad) = upstream_on_hostpath(definition, flags, filter) else { return };
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

fn pass_with_images(filter: &str) {
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../driver-definitions");
    pass(&definitions.join("hostpath-image.yaml"), &FLAGS, filter);
}

fn the_suite_volumes_passes() {
    pass_with_images("^volumes/");
}

/// The emulated cluster refuses a claim that names a class which is younger than the claim, because csi-resizer would overlook it.
fn the_suite_volume_modify_passes() {
    pass_with_images("^volume-modify/");
}

/// The definition does not promise this feature, because upstream's own test of it cannot pass.
fn the_suite_snapshotmetadata_passes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("driver-definitions/hostpath.yaml")).unwrap();
    let promised = text.replace("snapshotMetadata: false", "snapshotMetadata: true");
    assert_ne!(promised, text);
    // The files that the definition names are in the checkout, but the definition is copied to another folder.
    let promised = promised.replace("FromFile: ", &format!("FromFile: {}/", root.display()));
    let folder = tempfile::tempdir().unwrap();
    let definition = folder.path().join("hostpath.yaml");
    std::fs::write(&definition, promised).unwrap();
    let flags = [&FLAGS[..], &["--enable-snapshot-metadata"]].concat();
    pass(&definition, &flags, "^snapshotmetadata/");
}

fn suites_of_health_and_snapshot_topology_pass() {
    pass_with_images("^volume-health/");
    pass_with_images("^snapshot-topology/");
}
