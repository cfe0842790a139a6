//! Tests of Kubernetes on the reference driver.

use std::path::Path;

use crate::stage::{FLAGS, Test, upstream_on_hostpath};

pub(crate) const TESTS: &[Test] = &[
    ("the_suite_volumes_passes", the_suite_volumes_passes),
    ("the_suite_volume_modify_passes", the_suite_volume_modify_passes),
    ("the_suite_snapshotmetadata_passes", the_suite_snapshotmetadata_passes),
];

fn the_suite_volumes_passes() {
    let definition =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../driver-definitions/hostpath-image.yaml");
    let filter = "^volumes/";
    let Some(bad) = upstream_on_hostpath(&definition, &FLAGS, filter) else { return };
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Here a claim that names a class which is younger than it is refused: csi-resizer would overlook it.
fn the_suite_volume_modify_passes() {
    let definition =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../driver-definitions/hostpath-image.yaml");
    let Some(bad) = upstream_on_hostpath(&definition, &FLAGS, "^volume-modify/") else { return };
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Upstream's own test of it cannot pass, so that the definition does not promise it.
fn the_suite_snapshotmetadata_passes() {
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../driver-definitions/hostpath.yaml");
    let text = std::fs::read_to_string(published).unwrap();
    let promised = text.replace("snapshotMetadata: false", "snapshotMetadata: true");
    assert_ne!(promised, text);
    // Beside the files that it names, by way of the folders above.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let definition = folder.path().join("hostpath.yaml");
    std::fs::write(&definition, promised).unwrap();
    let flags = [&FLAGS[..], &["--enable-snapshot-metadata"]].concat();
    let Some(bad) = upstream_on_hostpath(&definition, &flags, "^snapshotmetadata/") else { return };
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
